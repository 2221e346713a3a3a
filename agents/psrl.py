"""Posterior sampling for reinforcement learning, private when its samplers are."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.agents.private import private_agent
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import Schedule, check_schedule
from privrl.agents.tabular import TabularAgent
from privrl.envs.support import Support
from privrl.files.fixed import fixed
from privrl.numerics.randomness import Rng
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior, Sampler


class PSRL(TabularAgent):
    """Draw a model from the posterior, follow its best policy, draw again when the schedule says.

    Finite horizon, time-homogeneous model (Osband, Russo and Van Roy, 2013).

    Parameters
    ----------
    n_states, n_actions, horizon, sampler, rewards, rng, ...
        See `TabularAgent`.
    resamples : Schedule, optional
        Before which episodes, beside those of a draw, to sample the released posterior again
        and plan afresh: free, and it changes something where the posterior is more than the one
        draw made of it, as that of `privrl.samplers.NoisyCounts` is.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        resamples: Schedule | None = None,
        sampler: Sampler,
        rewards: RewardModel,
        rng: Rng = None,
        schedule: Schedule | None = None,
        accountant: KeepsJournal | None = None,
        batch_shape: tuple[int, ...] = (),
        terminates: bool = False,
        support: Support | None = None,
        known_rows: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            n_states, n_actions, horizon, sampler=sampler, rewards=rewards, rng=rng,
            schedule=schedule, accountant=accountant, batch_shape=batch_shape,
            terminates=terminates, support=support, known_rows=known_rows,
        )  # fmt: skip
        self.resamples = None if resamples is None else check_schedule("resamples", resamples)

    resamples: Schedule | None = fixed()
    private = staticmethod(private_agent)  # the agent to start with, a `SparsePSRL`

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
