"""Agents that learn nothing, as yardsticks: the best policy, and none."""

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.journal import KeepsJournal
from privrl.agents.observer import Transition
from privrl.agents.rewards import KnownRewards
from privrl.agents.schedules import Schedule
from privrl.agents.tabular import TabularAgent
from privrl.envs.planning import as_policy
from privrl.envs.support import Support
from privrl.numerics.checks import check_count
from privrl.numerics.randomness import Rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Posterior


class _Baseline(TabularAgent):
    """Ignore what is observed; release nothing and spend nothing."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        rng: Rng = None,
        schedule: Schedule | None = None,
        accountant: KeepsJournal | None = None,
        batch_shape: tuple[int, ...] = (),
        terminates: bool = False,
        support: Support | None = None,
        known_rows: ArrayLike | None = None,
    ) -> None:
        sizes = check_count("n_states", n_states), check_count("n_actions", n_actions)
        nothing = KnownRewards(np.zeros(sizes))  # nothing is learned of it, whatever it stands for
        super().__init__(
            n_states, n_actions, horizon, sampler=nothing, rewards=nothing, rng=rng,
            schedule=schedule, accountant=accountant, batch_shape=batch_shape,
            terminates=terminates, support=support, known_rows=known_rows,
        )  # fmt: skip

    def observe(self, seen: Transition) -> None:
        """Ignore it."""

    def observe_counts(
        self, counts: IntArray, reward: FloatArray, *, ends: BoolArray | None = None
    ) -> None:
        """Ignore them."""

    def _plan_to_deploy(self) -> IntArray:
        return self.behaviour


class Oracle(_Baseline):
    """Follow a given policy, such as the best one of an MDP: ``policy=mdp.plan()[0]``.

    Parameters
    ----------
    n_states, n_actions, horizon, rng, ...
        See `TabularAgent`; ``rng`` is not used.
    policy : array of int, shape (..., H, S)
        Action at each step and state; broadcasts against the runs.

    Raises
    ------
    ValueError
        If the policy is for other sizes.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        policy: ArrayLike,
        rng: Rng = None,
        schedule: Schedule | None = None,
        accountant: KeepsJournal | None = None,
        batch_shape: tuple[int, ...] = (),
        terminates: bool = False,
        support: Support | None = None,
        known_rows: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            n_states, n_actions, horizon, rng=rng,
            schedule=schedule, accountant=accountant, batch_shape=batch_shape,
            terminates=terminates, support=support, known_rows=known_rows,
        )  # fmt: skip
        wanted = (*self.batch_shape, self.horizon, self.n_states)
        given = as_policy(policy, self.n_states, self.n_actions)
        try:
            self._given = np.broadcast_to(given, wanted)
        except ValueError:
            raise ValueError(
                f"policy must broadcast to shape {wanted}, got {given.shape}; its axes are runs, "
                "step, state."
            ) from None

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        del transition, reward
        return self._given


class RandomPolicy(_Baseline):
    """Follow a policy drawn uniformly from all, another one whenever the schedule says.

    Parameters
    ----------
    n_states, n_actions, horizon, rng, ...
        See `TabularAgent`.
    """

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        del transition, reward
        shape = (*self.batch_shape, self.horizon, self.n_states)
        return self._rng.integers(self.n_actions, size=shape, dtype=np.intp)
