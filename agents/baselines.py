"""Baselines without learning: a given policy, and random policies."""

from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.agents.observer import Transition
from privrl.agents.rewards import KnownRewards
from privrl.agents.schedules import EveryEpisode, Schedule
from privrl.agents.setup import TabularSetup
from privrl.agents.tabular import TabularAgent
from privrl.envs.planning import as_policy
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Posterior

if TYPE_CHECKING:
    from privrl.agents.methods import Method, Task


class _Baseline(TabularAgent):
    """Ignore all observations; release and spend nothing."""

    releases = False
    has_own_schedule = True

    def __init__(self, setup: TabularSetup) -> None:
        nothing = KnownRewards(np.zeros((setup.n_states, setup.n_actions)))  # never read
        super().__init__(replace(setup, sampler=nothing, rewards=nothing))

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the schedule of all episodes; the name is ignored."""
        del name, episodes, private
        return EveryEpisode()

    def observe(self, seen: Transition) -> None:
        """Ignore the step."""

    def observe_counts(
        self, counts: IntArray, reward: FloatArray, *, ends: BoolArray | None = None
    ) -> None:
        """Ignore the counts."""

    def observe_steps(self, *_: object, **__: object) -> None:
        """Ignore the steps."""

    def _plan_to_deploy(self) -> IntArray:
        return self.behaviour


class Oracle(_Baseline):
    """Follow a given policy, such as the best one of an MDP: ``policy=mdp.plan()[0]``.

    Parameters
    ----------
    setup : TabularSetup
        Sampler and rewards are ignored.
    policy : array of int, shape (..., H, S)
        Action at each step and state; it broadcasts against the runs.

    Raises
    ------
    ValueError
        If the policy has the wrong size.
    """

    title = "best policy"
    look = ("#444444", "2", "-.")
    needs_tables = True

    def __init__(self, setup: TabularSetup, *, policy: ArrayLike) -> None:
        super().__init__(setup)
        wanted = (*self.batch_shape, self.horizon, self.n_states)
        given = as_policy(policy, self.n_states, self.n_actions)
        try:
            self._given = np.broadcast_to(given, wanted)
        except ValueError:
            raise ValueError(
                f"policy must broadcast to shape {wanted}, got {given.shape}; its axes are runs, "
                "step, state."
            ) from None

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task."""
        del method
        if task.best_policy is None:
            raise ValueError(
                "method needs the public fact 'best_policy', which this environment does not have; "
                "use one with tables, or another method."
            )
        return cls(setup, policy=task.best_policy)

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        del transition, reward
        return self._given


class RandomPolicy(_Baseline):
    """Follow a uniformly random deterministic policy, and draw a new one on a schedule.

    Parameters
    ----------
    setup : TabularSetup
        Sampler and rewards are ignored.
    """

    title = "random policy"
    look = ("#444444", "1", ":")
    acts_randomly = True

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        del transition, reward
        shape = (*self.batch_shape, self.horizon, self.n_states)
        return self._rng.integers(self.n_actions, size=shape, dtype=np.intp)
