"""Posterior sampling for reinforcement learning, private when its samplers are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from privrl.accounting.journal import KeepsJournal
from privrl.accounting.targets import Target
from privrl.agents.schedules import Schedule, check_schedule, schedule_named
from privrl.agents.setup import TabularSetup
from privrl.agents.tabular import TabularAgent
from privrl.costs.relations import Relation
from privrl.envs.support import Support
from privrl.files.fixed import fixed
from privrl.numerics.randomness import Rng
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior

if TYPE_CHECKING:
    import gymnasium as gym

    from privrl.agents.methods import Method, Task
    from privrl.envs.tabular import TabularMDP


class PSRL(TabularAgent):
    """Draw a model from the posterior, follow its best policy, draw again when the schedule says.

    Finite horizon, time-homogeneous model (Osband, Russo and Van Roy, 2013).

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`.
    resamples : Schedule, optional
        Before which episodes, beside those of a draw, to sample the released posterior again
        and plan afresh: free, and it changes something where the posterior is more than the one
        draw made of it, as that of `privrl.samplers.NoisyCounts` is.
    """

    can_resample = True
    side_by_side = True
    resamples: Schedule | None = fixed()

    def __init__(self, setup: TabularSetup, *, resamples: Schedule | None = None) -> None:
        super().__init__(setup)
        self.resamples = None if resamples is None else check_schedule("resamples", resamples)

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task."""
        del task
        again = None if method.resamples is None else schedule_named(method.resamples)
        return cls(setup, resamples=again)

    @staticmethod
    def private(
        env: "gym.Env[Any, Any] | TabularMDP",
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        episodes: int = 1000,
        relation: Relation | None = None,
        support: Support | None = None,
        accountant: KeepsJournal | None = None,
        rng: Rng = None,
    ) -> "PSRL":
        """Return the agent to start with; public facts alone decide its settings.

        Parameters
        ----------
        env : gymnasium.Env or TabularMDP
            Is read for its public facts: sizes, horizon, range of the rewards, whether they
            can depend on the next state (`privrl.envs.public_facts`). No step is taken. Declare
            what the environment lacks: ``max_episode_steps`` of gymnasium.make, without which an
            episode has 100 steps, and ``reward_range = (low, high)`` in its class, without which
            rewards are from 0 to 1.
        epsilon, delta : float
            The privacy of the whole run, (epsilon, delta)-differential privacy, epsilon > 0 in
            nats. ``delta`` is 1e-5 by default; choose it far below one over the number of people.
        target : Target, optional
            In place of ``epsilon`` and ``delta``: any target, such as ``RenyiDP(2, 1.0)``.
        episodes : int
            How many there will be, a public number: the noise is planned for so many. `learn`
            refuses to draw more often than that.
        relation : Relation, optional
            The privacy unit; by default one step. `privrl.costs.ReplaceEpisode` protects a person's
            whole episode.
        support : Support, optional
            Which next states are possible, if that is public.
        accountant : RdpAccountant, PldAccountant or LedgerAccountant, optional
            Is charged for the run before its first draw, for instance a ledger's:
            ``Ledger().accountant("patients")``. The noise is calibrated to the target as always,
            and the agent's statements are about this run alone. The accountant's own budget
            decides whether there is enough left for the run: if not, the first draw raises
            `BudgetExceeded`, and nothing is spent. By default an accountant of this run alone,
            whose budget is the target.
        rng : numpy.random.Generator, int or None
            The agent's randomness; by default secret, see `privrl.secret_rng`.

        Returns
        -------
        PSRL
            A `SparsePSRL`, to `learn` in that environment, with `privrl.experiments.train`, or step
            by step.

        Raises
        ------
        ValueError
            If spaces are not Discrete (wrap the environment in `privrl.envs.numbered`), or a value
            is out of range.
        """
        from privrl.agents.methods import private_agent  # noqa: PLC0415 # it makes all agents

        return private_agent(
            env, epsilon=epsilon, delta=delta, target=target, episodes=episodes,
            relation=relation, support=support, accountant=accountant, rng=rng,
        )  # fmt: skip

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        draws = self.schedule.starts(episodes)
        if self.resamples is None:
            return draws
        return sorted({*draws, *self.resamples.starts(episodes)})

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        return self._best_policy(transition.sample(self._rng), reward.sample(self._rng))

    def _between_draws(self, episode: int) -> None:
        if self.resamples is not None and self.resamples.is_due(episode) and self._released:
            self._follow(self._plan(*self._released))
