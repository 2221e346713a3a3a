"""Posterior sampling for reinforcement learning, private if its samplers are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

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
    """Sample a model from the posterior on a schedule, and follow its optimal policy.

    Finite horizon, time-homogeneous model (Osband, Russo and Van Roy, 2013).

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`.
    resamples : Schedule, optional
        Further episodes before which to sample the released posterior again and plan anew. This
        is free. It has an effect only for posteriors with more than one sample, such as that of
        `privrl.samplers.NoisyCounts`.
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
        """Return the recommended agent, with settings derived from public facts alone.

        Parameters
        ----------
        env : gymnasium.Env or TabularMDP
            Source of the public facts: sizes, horizon, reward range, and whether rewards can
            depend on the next state (`privrl.envs.public_facts`). No step is taken. Declare missing
            facts: pass ``max_episode_steps`` to gymnasium.make (default: 100 steps), and set
            ``reward_range = (low, high)`` in the environment's class (default: 0 to 1).
        epsilon, delta : float
            (epsilon, delta)-differential privacy of the whole run, with epsilon > 0 in nats.
            ``delta`` is 1e-5 by default. Choose it far below one over the number of people.
        target : Target, optional
            Any target in place of ``epsilon`` and ``delta``, such as ``RenyiDP(2, 1.0)``.
        episodes : int
            Planned number of episodes, a public number for which the noise is calibrated. `learn`
            refuses episodes with more draws than planned.
        relation : Relation, optional
            The privacy unit; by default one step. `privrl.costs.ReplaceEpisode` protects a person's
            whole episode.
        support : Support, optional
            The possible next states, if they are public.
        accountant : RdpAccountant, PldAccountant or LedgerAccountant, optional
            Charged for the run before its first draw, for instance a ledger's accountant:
            ``Ledger().accountant("patients")``. The noise is calibrated to the target as always,
            and the agent's statements cover this run only. If the accountant's remaining budget is
            too small for the run, the first draw raises `BudgetExceeded`, and nothing is spent. By
            default a separate accountant for this run, whose budget is the target.
        rng : numpy.random.Generator, int or None
            Randomness of the agent; by default secret, see `privrl.secret_rng`.

        Returns
        -------
        PSRL
            A `SparsePSRL`, with `privrl.samplers.SparseCounts` if there could be more than 33
            million transitions and ``support`` is None. Train it in the environment with `learn` or
            `privrl.experiments.train`, or step by step. If observations are real numbers, a
            `privrl.agents.continuous.ContinuousAgent`, which has `learn`, `predict`, `policy` and
            `to_policy` as well.

        Raises
        ------
        ValueError
            If a space has no public ranges (wrap the environment in `privrl.envs.Ranged`) or cannot
            be numbered, or a value is out of range.
        """
        from privrl.agents.methods import private_agent  # noqa: PLC0415 # avoids a cycle

        agent = private_agent(
            env, epsilon=epsilon, delta=delta, target=target, episodes=episodes,
            relation=relation, support=support, accountant=accountant, rng=rng,
        )  # fmt: skip
        return cast("PSRL", agent)  # or a ContinuousAgent, which is used alike

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes below ``episodes`` before which the policy may change, sorted."""
        draws = self.schedule.starts(episodes)
        if self.resamples is None:
            return draws
        return sorted({*draws, *self.resamples.starts(episodes)})

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        return self._best_policy(transition.sample(self._rng), reward.sample(self._rng))

    def _between_draws(self, episode: int) -> None:
        if self.resamples is not None and self.resamples.is_due(episode) and self._released:
            self._follow(self._plan(*self._released))
