"""A log: what persons went through, step by step, in whole numbers that a public schema gives."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from privrl.files.fixed import FixedArrays
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_count, plain_array
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

# Of rewards that are not 0: where squares of squares of what sums to them are floats.
_SMALLEST: Final = 1e-50
_LARGEST: Final = 1e50
_MOST: Final = 2**53  # steps or episodes: as floats they are as they are
_ARRAYS: Final = ("state", "action", "next_state", "reward", "episode_starts", "person_starts")
_KINDS: Final = ("iu", "iuf")  # of NumPy's, of whole numbers and of rewards

CUT = -1
"""Next state of a step that is not known: there the episode was cut off."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LogSpace:
    """The public facts of a log: its domain, and the contribution bound of a person.

    Parameters
    ----------
    n_states, n_actions : int
        Number of states and of actions.
    outcomes : tuple of str
        How episodes end. Perhaps none: then they are only ever cut off.
    outcome_rewards : tuple of float
        What each outcome earns.
    step_rewards : (float, float)
        The lowest and highest reward of a step, that of its outcome apart.
    most_steps, most_episodes : int
        Of an episode, and of a person.
    unit : str
        What a person is here, and statements name as the privacy unit: the column of a table that
        says whose a row is, such as ``"visit"``.

    Raises
    ------
    ValueError
        If a number is out of range, or an outcome or ``unit`` is not a text.
    """

    n_states: int
    n_actions: int
    outcomes: tuple[str, ...]
    outcome_rewards: tuple[float, ...]
    step_rewards: tuple[float, float]
    most_steps: int
    most_episodes: int
    unit: str = "person"

    def __post_init__(self) -> None:
        # As plain numbers: NumPy's small ones overflow, and arrays are neither true nor false.
        fixed: dict[str, Any] = {}
        for name in ("n_states", "n_actions"):
            fixed[name] = check_count(name, getattr(self, name))
        for name in ("most_steps", "most_episodes"):
            fixed[name] = check_count(name, getattr(self, name), 1, _MOST)
        if not isinstance(self.unit, str) or not self.unit:
            raise ValueError(f"unit must be a text, such as 'person', got {shown(self.unit)}.")
        outcomes = () if isinstance(self.outcomes, str) else tuple(self.outcomes)
        if isinstance(self.outcomes, str) or not all(isinstance(each, str) for each in outcomes):
            raise ValueError(f"outcomes must be a list of texts, got {shown(self.outcomes)}.")
        fixed["outcomes"] = tuple(map(str, outcomes))
        for name in ("outcome_rewards", "step_rewards"):
            fixed[name] = tuple(as_floats(name, getattr(self, name)).ravel().tolist())
        if len(fixed["outcome_rewards"]) != len(fixed["outcomes"]):
            raise ValueError(
                f"outcome_rewards must be one for each of the {len(fixed['outcomes'])} outcomes, "
                f"got {shown(self.outcome_rewards)}."
            )
        if len(fixed["step_rewards"]) != 2:
            raise ValueError(f"step_rewards must be (low, high), got {shown(self.step_rewards)}.")
        low, high = fixed["step_rewards"]
        check_reward("step_rewards", low, high)
        check_reward("outcome_rewards", *fixed["outcome_rewards"])
        if not low <= high:
            raise ValueError(
                "step_rewards must be (low, high), the lowest first, got "
                f"{shown(self.step_rewards)}."
            )
        for name, value in fixed.items():
            object.__setattr__(self, name, value)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest that a step can earn, with its outcome."""
        low, high = self.step_rewards
        ends = 0.0, 0.0, *self.outcome_rewards
        return low + min(ends), high + max(ends)

    def return_range(self, discount: float = 1.0) -> tuple[float, float]:
        """Return between what an episode earns, under a discount in (0, 1]."""
        counts = float(self.most_steps)
        if discount < 1:
            counts = math.expm1(counts * math.log(discount)) / (discount - 1)
        low, high = self.step_rewards
        ends = 0.0, 0.0, *self.outcome_rewards
        return min(low, low * counts) + min(ends), max(high, high * counts) + max(ends)

    def __repr__(self) -> str:  # of nothing private, where a log has more
        public = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(LogSpace))
        return f"{type(self).__name__}({', '.join(public)})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Log(LogSpace, FixedArrays):
    """Steps of persons: those of an episode in order, episodes of a person one after another.

    Private data: nothing of it may be shown but through a mechanism.

    Parameters
    ----------
    n_states, n_actions, outcomes, outcome_rewards, step_rewards, most_steps, most_episodes, unit
        What is public, see `LogSpace`.
    state, action : array of int, shape (n_steps,)
        From 0.
    next_state : array of int, shape (n_steps,)
        A state; or ``n_states + k``, on the last step of an episode, where that ended with
        ``outcomes[k]``; or `CUT`, on the last step, if it was cut off.
    reward : array of float, shape (n_steps,)
        Of the step, and of the outcome it led to.
    episode_starts : array of int, shape (n_episodes + 1,)
        Where the steps of each episode begin; increasing from 0 to ``n_steps``.
    person_starts : array of int, shape (n_persons + 1,)
        Where the episodes of each person begin; increasing from 0 to ``n_episodes``.

    Raises
    ------
    ValueError
        If the arrays do not fit together. No message shows a value.
    """

    state: IntArray
    action: IntArray
    next_state: IntArray
    reward: FloatArray
    episode_starts: IntArray
    person_starts: IntArray

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _ARRAYS:
            # One type each, whatever it came as: small ones overflow where places are worked out.
            value = plain_array(name, getattr(self, name))
            if value.ndim != 1 or (len(value) and value.dtype.kind not in _KINDS[name == "reward"]):
                raise ValueError("arrays must be of one axis and of whole numbers; rewards of any.")
            with np.errstate(all="ignore"):  # a warning would tell of longer floats
                value = value.astype(np.float64 if name == "reward" else np.intp, copy=False)
            # Whose a step is was checked for good: nobody else can write to a copy.
            value = value.copy() if name in ("episode_starts", "person_starts") else value.view()
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        n_steps = len(self.state)
        same = {len(self.action), len(self.next_state), len(self.reward)} == {n_steps}
        last = self.episode_starts[1:] - 1
        inner = np.ones(n_steps, np.bool_)
        if not (same and _are_starts(self.episode_starts, n_steps)):
            raise ValueError("steps must all be in episodes, each of at least one step.")
        if not _are_starts(self.person_starts, len(self.episode_starts) - 1):
            raise ValueError("episodes must all be of persons, each of at least one episode.")
        if (np.diff(self.episode_starts) > self.most_steps).any() or (
            np.diff(self.person_starts) > self.most_episodes
        ).any():
            raise ValueError("episodes and steps must be no more than the bounds say.")
        inner[last] = False
        ends = self.next_state[last]
        if not (
            _within(self.state, self.n_states)
            and _within(self.action, self.n_actions)
            and _within(self.next_state[inner], self.n_states)
            and _within(ends + 1, self.n_states + len(self.outcomes) + 1)
            and self._has_rewards_within(inner)
        ):
            raise ValueError("states, actions and rewards must be within their public ranges.")

    def _has_rewards_within(self, inner: BoolArray) -> bool:
        """Return whether each reward is what a step can earn, and its outcome, by the bounds."""
        outcome = np.where(inner, -1, self.next_state - self.n_states)
        earned = np.array([*self.outcome_rewards, 0.0])[np.maximum(outcome, -1)]
        low, high = self.step_rewards
        return bool(((self.reward >= low + earned) & (self.reward <= high + earned)).all())

    @property
    def n_persons(self) -> int:
        """Number of persons: private where one may be added or removed."""
        return len(self.person_starts) - 1

    @property
    def n_steps(self) -> int:
        """Number of steps: private."""
        return len(self.state)

    @cached_property
    def person(self) -> IntArray:
        """Whose each step is, shape (n_steps,), from 0; read-only."""
        steps = np.diff(self.episode_starts[self.person_starts])
        person = np.repeat(np.arange(self.n_persons), steps)
        person.setflags(write=False)
        return person

    @property
    def step_reward(self) -> FloatArray:
        """The reward of each step, without its outcome's."""
        outcome = np.where(self.next_state < self.n_states, -1, self.next_state - self.n_states)
        return self.reward - np.array([*self.outcome_rewards, 0.0])[outcome]

    def blocks(self, n_steps: int) -> Iterator["Log"]:
        """Yield logs of some of the persons, in order: of about so many steps, or of one."""
        starts = self.episode_starts[self.person_starts]
        first = 0
        while first < self.n_persons or first == 0:
            last = int(np.searchsorted(starts, starts[first] + n_steps, "right")) - 1
            last = min(max(last, first + 1), self.n_persons)
            episodes = slice(self.person_starts[first], self.person_starts[last] + 1)
            steps = slice(starts[first], starts[last])
            yield replace(
                self,
                **{name: getattr(self, name)[steps] for name in _ARRAYS[:4]},
                episode_starts=self.episode_starts[episodes] - starts[first],
                person_starts=self.person_starts[first : last + 1] - self.person_starts[first],
            )
            first = max(last, 1)

    @cached_property
    def is_first(self) -> BoolArray:
        """At which steps a person has their state and action for the first time."""
        pairs = self.state * self.n_actions + self.action
        order = np.lexsort((np.arange(self.n_steps), pairs, self.person))
        person, pair = self.person[order], pairs[order]
        new = np.ones(self.n_steps, np.bool_)
        new[1:] = (person[1:] != person[:-1]) | (pair[1:] != pair[:-1])
        first = np.empty(self.n_steps, np.bool_)
        first[order] = new
        return first


def check_reward(name: str, *rewards: float) -> None:
    """Check that each of some public rewards is 0 or of a size that can be computed with."""
    for each in rewards:
        if not (each == 0 or _SMALLEST <= abs(each) <= _LARGEST):
            raise ValueError(
                f"{name} must be 0 or of a size from {_SMALLEST:g} to {_LARGEST:g}, got "
                f"{shown(each)}; give all rewards in another unit."
            )


def _are_starts(starts: IntArray, end: int) -> bool:
    return bool(
        len(starts) and starts[0] == 0 and starts[-1] == end and (np.diff(starts) > 0).all()
    )


def _within(values: IntArray, size: int) -> bool:
    return bool(((values >= 0) & (values < size)).all())
