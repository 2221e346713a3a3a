"""A finite Markov decision process with known tables: the mathematical object."""

from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np

from privrl.envs import planning
from privrl.envs.rollouts import AutomaticSimulator, Simulator
from privrl.envs.support import Support
from privrl.envs.toy_text import episode_limit, read_tables
from privrl.files.chosen import MayBeChosen
from privrl.files.shown import shown_env
from privrl.numerics.checks import as_floats, check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

_TOLERANCE = 1e-9
_LARGEST_COUNT = 2**53
"""Counts up to here are exact as integers and as floats."""


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A Markov decision process with S states, A actions and H steps per episode.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state; each row sums to 1 within 1e-9.
    reward : array, shape (S, A) or (S, A, S)
        Finite reward of an action, or of arriving at a state after an action.
    start : array, shape (S,)
        Probabilities of the first state; they sum to 1 within 1e-9.
    horizon : int
        Steps H in an episode, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range; NaN always is.

    Notes
    -----
    The arrays are kept as read-only copies, in float64. Rounding to float32 alone makes rows
    miss 1 by more than is accepted; divide them by their sum after converting them::

        transition = as_floats("transition", transition)
        transition /= transition.sum(axis=-1, keepdims=True)

    A state that ends an episode leads to itself and pays nothing.
    """

    transition: FloatArray
    reward: FloatArray
    start: FloatArray
    horizon: int
    # The models that this is of. `replace` hands them on; `asdict` and digests do not see them.
    _released: InitVar[Any] = field(default=(), kw_only=True)

    def __post_init__(self, _released: Any) -> None:
        transition = _frozen("transition", self.transition)
        n_states, n_actions = (*transition.shape, 0, 0)[:2]
        if transition.shape != (n_states, n_actions, n_states) or not transition.size:
            raise ValueError(
                f"transition must have shape (S, A, S) with S, A >= 1, got {transition.shape}; "
                "its axes are state, action, next state; swap the first two if action comes first."
            )
        _check_distributions("transition", transition)

        reward = _frozen("reward", self.reward)
        if reward.shape not in (transition.shape[:2], transition.shape):
            raise ValueError(
                f"reward must have shape {transition.shape[:2]} or {transition.shape} to fit "
                f"transition, got {reward.shape}; its axes are state, action and, if it is paid "
                "on arrival, next state."
            )
        _check("reward", "finite numbers", reward, np.isfinite(reward), "bound every reward")

        start = _frozen("start", self.start)
        if start.shape != (n_states,):
            raise ValueError(
                f"start must have shape ({n_states},) to fit transition, got {start.shape}; "
                "give one probability per state."
            )
        _check_distributions("start", start)

        horizon = check_count("horizon", self.horizon)
        checked = {"transition": transition, "reward": reward, "start": start, "horizon": horizon}
        for name, value in {**checked, "_released": _released}.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:  # pickles forget "read-only"
        made = type(self), (self.transition, self.reward, self.start, self.horizon)
        # Gymnasium copies what environments are made of.
        return (*made, {"_released": vars(self)["_released"]})

    @classmethod
    def from_gymnasium(cls, env: gym.Env[Any, Any], horizon: int | None = None) -> Self:
        """Read the tables of a toy_text environment.

        Parameters
        ----------
        env : gymnasium.Env
            Environment whose unwrapped form has ``P`` and ``initial_state_distrib``.
        horizon : int, optional
            Steps in an episode, >= 1; by default the environment's own time limit.

        Returns
        -------
        TabularMDP
            Where an episode can terminate in a state that the table does not
            hold on to, one state is appended that pays nothing and is never
            left. Rewards are paid on arrival; see
            `privrl.envs.toy_text.read_tables`.

        Raises
        ------
        ValueError
            If the environment has no tables, or ``horizon`` is None and it has no time limit.
        """
        check_is("env", env, gym.Env, hint="gymnasium.make makes one")
        if horizon is None:
            horizon = episode_limit(env)
        if horizon is None:
            raise ValueError(
                f"horizon must be given, got None and {shown_env(env)} has no time limit; "
                "pass horizon=..., in steps."
            )
        return cls(*read_tables(env), horizon=horizon, _released=released_in(env.unwrapped))

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return self.transition.shape[0]

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self.transition.shape[1]

    @cached_property
    def support(self) -> Support:
        """Which next states are possible: exactly those of transitions that can happen."""
        return Support.from_mask(self.transition > 0)

    @cached_property
    def expected_reward(self) -> FloatArray:
        """Mean reward of each action, shape (S, A)."""
        if self.reward.ndim == 2:
            return self.reward
        return _frozen("reward", (self.transition * self.reward).sum(axis=-1))

    @property
    def reward_table(self) -> FloatArray:
        """Reward of each transition, shape (S, A, 1) or (S, A, S): it broadcasts over counts."""
        return self.reward[..., None] if self.reward.ndim == 2 else self.reward

    @cached_property
    def ends(self) -> BoolArray:
        """In which states an episode is over, shape (S,): they are never left and pay nothing."""
        stays = np.diagonal(self.transition, axis1=0, axis2=2).T >= 1 - _TOLERANCE
        ends: BoolArray = (stays & (self.expected_reward == 0)).all(axis=1)
        # No way on, rather than a chance of 1 to stay: rows sum to that within rounding.
        ends[ends] = (np.count_nonzero(self.transition[ends], axis=-1) == 1).all(axis=-1)
        ends.setflags(write=False)
        return ends

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward of a transition that can happen before the end."""
        happens = (self.transition > 0) & ~self.ends[:, None, None]
        if not happens.any():
            return 0.0, 0.0
        possible = np.broadcast_to(self.reward_table, self.transition.shape)[happens]
        return float(possible.min()), float(possible.max())

    def plan(self) -> tuple[IntArray, float]:
        """Return an optimal policy, shape (H, S), and its value from the start."""
        policy, value = planning.plan(self.transition, self.expected_reward, self.horizon)
        return policy, float(value @ self.start)

    def optimal_value(self) -> float:
        """Return the largest expected sum of rewards over an episode."""
        return self.plan()[1]

    def random_value(self) -> float:
        """Return the expected sum of rewards over an episode of uniformly random actions."""
        average = self.transition.mean(axis=1, keepdims=True)
        paid = self.expected_reward.mean(axis=1, keepdims=True)
        only = np.zeros((self.horizon, self.n_states), dtype=np.intp)
        return float(planning.evaluate(average, paid, only) @ self.start)

    def policy_value(self, policy: IntArray) -> FloatArray | np.float64:
        """Return the exact expected sum of rewards over an episode under a policy.

        Parameters
        ----------
        policy : array of int, shape (..., H, S)
            Action at each step and state.

        Returns
        -------
        float, or array of shape (...)
            One value per policy.

        Raises
        ------
        ValueError
            If the shape is wrong or an action does not exist.
        """
        policy = self._checked(policy)
        value = planning.evaluate(self.transition, self.expected_reward, policy)
        return value @ self.start

    def rollout_counts(
        self,
        policy: IntArray,
        episodes: int,
        rng: Rng = None,
        *,
        support: Support | None = None,
        free: BoolArray | None = None,
    ) -> IntArray:
        """Simulate episodes under fixed policies and count what happened.

        Parameters
        ----------
        policy : array of int, shape (..., H, S)
            Action of each run at each step and state; -1 for any that is free, drawn uniformly
            by each episode anew.
        episodes : int
            Independent episodes per run, >= 1 and at most ``2**53 / H``.
        rng : numpy.random.Generator, int or None
            Source of randomness.
        support : Support, optional
            Which next states are possible, a public fact: counts are then kept
            for those only. Keep it for further calls, they are faster.
        free : array of bool, shape (..., S, A), optional
            Which actions -1 stands for, one at least in each state; by default all.

        Returns
        -------
        array of int, shape (..., S, A, S), or (..., S, A, W) under a support
            Number of transitions from a state by an action to a state; each
            run's counts sum to ``episodes * H``. The support changes where
            they are, not which they are.

        Raises
        ------
        ValueError
            If ``policy`` or ``episodes`` is out of range, or ``support`` is for
            other states and actions or lacks a transition that can happen.

        Notes
        -----
        A few episodes are walked through step by step, many are drawn as
        flows between states; both have exactly the same law.
        """
        policy = self._checked(policy, or_any=True)
        episodes = check_count("episodes", episodes)
        if episodes * self.horizon > _LARGEST_COUNT:
            raise ValueError(
                f"episodes must be at most {_LARGEST_COUNT // self.horizon} so that counts stay "
                f"exact, got {episodes}; simulate in several parts."
            )
        *batch, horizon, n_states = policy.shape
        runs = policy.reshape(-1, horizon, n_states)
        if free is not None:
            free = self._check_free(free, batch).reshape(-1, n_states, self.n_actions)
        counts = self._rollouts(support).counts(runs, episodes, as_rng(rng), free=free)
        return counts.reshape(*batch, *counts.shape[1:])

    def _rollouts(self, support: Support | None) -> Simulator:
        if support is None:
            return self._dense_rollouts
        if support.next_states.shape[:2] != self.transition.shape[:2]:
            raise ValueError(
                f"support must be for {self.n_states} states and {self.n_actions} actions, got "
                f"{support.next_states.shape[:2]}; TabularMDP.support fits."
            )
        if support not in self._compact_rollouts:
            self._compact_rollouts[support] = AutomaticSimulator(
                self.transition, self.start, support
            )
        return self._compact_rollouts[support]

    @cached_property
    def _dense_rollouts(self) -> Simulator:
        return AutomaticSimulator(self.transition, self.start)

    @cached_property
    def _compact_rollouts(self) -> WeakKeyDictionary[Support, Simulator]:
        return WeakKeyDictionary()

    def _check_free(self, free: BoolArray, batch: list[int]) -> BoolArray:
        wanted = (*batch, self.n_states, self.n_actions)
        if free.shape != wanted or free.dtype != np.bool_ or not free.any(axis=-1).all():
            raise ValueError(
                f"free must be booleans of shape {wanted}, an action at least for each state, got "
                f"{free.dtype} of shape {free.shape}."
            )
        return free

    def _checked(self, policy: IntArray, *, or_any: bool = False) -> IntArray:
        policy = planning.as_policy(policy, self.n_states, self.n_actions, or_any=or_any)
        if policy.shape[-2] != self.horizon:
            raise ValueError(
                f"policy must have shape (..., {self.horizon}, {self.n_states}), got "
                f"{policy.shape}; give one action per step of the horizon and state."
            )
        return policy


def released_in(bare: Any) -> tuple[Any, ...]:
    """Return the released models that an environment plays, or that its tables are of."""
    found: list[Any] = []
    with suppress(Exception):  # of an environment of the user's, whose names may mean anything
        found.append(bare.released)
    with suppress(Exception):
        found.extend(getattr(bare, "mdp", bare)._released)
    models = [
        each for each in found if isinstance(each, MayBeChosen) and hasattr(each, "statement")
    ]
    return tuple({id(each): each for each in models}.values())


def _frozen(name: str, values: FloatArray) -> FloatArray:
    array = as_floats(name, values).copy()
    array.setflags(write=False)
    return array


def _check_distributions(name: str, rows: FloatArray) -> None:
    """Check that the last axis holds probabilities that sum to 1."""
    fine = (rows >= 0) & (rows <= 1 + _TOLERANCE)
    _check(name, "probabilities in 0..1", rows, fine, "divide counts by their sum")
    total = rows.sum(axis=-1)
    fine = np.abs(total - 1) <= _TOLERANCE
    what = "probabilities that sum to 1 within 1e-9"
    hint = "divide them by their sum, in float64"
    if name == "transition":
        hint += "; a state without a way on leads to itself"
    _check(name, what, total, fine, hint)


def _check(name: str, what: str, values: FloatArray, fine: BoolArray, hint: str) -> None:
    """Raise an error that shows the first value that is not fine, and where it is."""
    if not np.all(fine):
        where = tuple(int(i) for i in np.argwhere(~fine)[0])
        place = f" at {where}" if where else ""
        raise ValueError(f"{name} must hold {what}, got {values[where]}{place}; {hint}.")
