"""Reward models, which release a posterior over mean rewards.

A reward model is a sampler with a separate table: `encode` enters each observed reward into that
table, and `update` releases a posterior over the mean rewards. Rewards are thereby accounted for
together with the transitions, and no policy depends on a raw reward.
"""

import math
from copy import copy
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import BatchCost, Cost, Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import largest_square
from privrl.costs.relations import DAMPED_REWARDS, Relation
from privrl.envs.wrappers import clipped
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_count, check_is
from privrl.numerics.dirichlet_rows import row_sums
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import GRID, Posterior, Sampler, check_sampler, check_table
from privrl.samplers.dirichlet import SingleDraw

_POINTS = 11  # default of `HatRewards`


class RewardModel(Sampler, Protocol):
    """A sampler of reward tables, shape (..., S, A, width).

    Its posteriors return mean rewards, shape (..., S, A).
    """

    @property
    def width(self) -> int:
        """Number of table cells for each state and action."""

    def encode(self, reward: FloatArray, stays: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Encode the reward of each observed step as an increment of its row, shape (..., width).

        ``stays``, of the shape of the rewards, is where a step led to the state that it began in.
        """

    def encode_counts(
        self, counts: FloatArray, reward: FloatArray, next_state: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Encode many transitions as an increment of the table, shape (..., S, A, width).

        ``counts`` has shape (..., S, A, K). Each transition of a cell paid ``reward``, shape
        (S, A, K) or (S, A, 1), and led to ``next_state``, shape (S, A, K) or (K,).
        """


class KnownRewards:
    """Public rewards, which are not learned and cost nothing.

    Parameters
    ----------
    reward : array_like, shape (S, A)
        Expected reward of each state and action.
    """

    remembered = ()

    def __init__(self, reward: ArrayLike) -> None:
        self._reward = as_floats("reward", reward).copy()
        if self._reward.ndim != 2 or not np.isfinite(self._reward).all():
            raise ValueError(
                "reward must be finite, one number for each state and action, got shape "
                f"{self._reward.shape}; TabularMDP.expected_reward has it."
            )

    @property
    def width(self) -> int:
        """0, since no data are stored."""
        return 0

    @property
    def cost(self) -> None:
        """None, since updates are free."""

    def invalidate(self) -> None:
        """Do nothing, since no counts are stored."""

    def fresh(self) -> Self:
        """Return a copy; the model holds no data."""
        return copy(self)

    def encode(self, reward: FloatArray, stays: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return an empty array, shape (..., 0)."""
        del stays, rng
        return np.empty((*reward.shape, 0))

    def encode_counts(
        self, counts: FloatArray, reward: FloatArray, next_state: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return an empty array, shape (..., S, A, 0)."""
        del reward, next_state, rng
        return np.empty((*counts.shape[:-1], 0))

    def check(self, counts: FloatArray) -> None:
        """Check that the table has the states and actions of the known rewards."""
        if counts.shape[-3:-1] != self._reward.shape:
            raise ValueError(
                f"reward must have a number for each of {counts.shape[-3:-1]} states and "
                f"actions, got shape {self._reward.shape}."
            )

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Return the known rewards, shape (..., S, A)."""
        del rng
        return SingleDraw(np.broadcast_to(self._reward, counts.shape[:-1]))


class BetaRewards:
    """Rewards in a known range, counted as successes and failures of each state and action.

    A reward is scaled to [0, 1] and becomes a success with that probability (the Bernoulli
    trick of Agrawal and Goyal, 2012). Changing one reward then moves at most one count between
    the two cells of a row.

    Parameters
    ----------
    sampler : Sampler
        Releases the table of successes and failures. It must be made for the relation's table
        ``"rewards"``.
    low, high : float
        Declared, public range of the rewards.

    Raises
    ------
    ValueError
        If the range is empty, or the sampler is for another table.
    """

    remembered = ("_sampler",)

    def __init__(self, sampler: Sampler, *, low: float = 0.0, high: float = 1.0) -> None:
        as_floats("low", low), as_floats("high", high)
        if not (-np.inf < low < high < np.inf and float(high) - float(low) < np.inf):
            raise ValueError(
                "low must be < high, and both and their difference finite, got "
                f"low={shown(low)}, high={shown(high)}."
            )
        self._check_sampler(sampler)
        self._sampler = sampler
        self._low, self._high = float(low), float(high)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sampler!r}, low={self._low}, high={self._high})"

    @property
    def width(self) -> int:
        """2, for successes and failures."""
        return 2

    @property
    def cost(self) -> Cost | None:
        """Cost of the next update, that of the wrapped sampler."""
        return self._sampler.cost

    def fresh(self) -> Self:
        """Return an unused model with the same settings."""
        return self._with(self._sampler.fresh())

    def __copy__(self) -> Self:
        return self._with(copy(self._sampler))  # refused by a used sampler

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def _with(self, sampler: Sampler) -> Self:
        return type(self)(sampler, low=self._low, high=self._high)

    def encode(self, reward: FloatArray, stays: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return a success (1, 0) or a failure (0, 1) for each reward."""
        del stays
        success = rng.random(reward.shape) < self._chance(reward)
        return np.stack([success, ~success], axis=-1).astype(np.float64)

    def encode_counts(
        self, counts: FloatArray, reward: FloatArray, next_state: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return the successes and failures of all transitions, shape (..., S, A, 2)."""
        del next_state
        counts, chance = self._paid(counts, reward)
        success = counts * chance
        tossed = (chance > 0) & (chance < 1)  # skip the common, deterministic ends of the range
        trials = counts[..., tossed].astype(np.int64)
        success[..., tossed] = rng.binomial(trials, chance[tossed])
        if counts.shape[-1] > 1:
            success, counts = row_sums(success), row_sums(counts)
        return np.concatenate([success, counts - success], axis=-1)

    def invalidate(self) -> None:
        """Refuse all further updates."""
        self._sampler.invalidate()

    def check(self, counts: FloatArray) -> None:
        """Check a batch as the wrapped sampler does."""
        self._sampler.check(counts)

    def update(self, counts: FloatArray, rng: np.random.Generator) -> Posterior:
        """Release the table; the posterior's samples are mean rewards within the range."""
        return BetaPosterior(self._sampler.update(counts, rng), self._low, self._high)

    def _check_sampler(self, sampler: Sampler) -> None:
        check_table("sampler", sampler, "rewards")

    def _paid(self, counts: FloatArray, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return counts and scaled rewards of equal shape; unseen transitions pay ``low``."""
        if reward.shape[-1] == 1:
            counts = row_sums(counts)
        happened = counts.any(tuple(range(counts.ndim - 3)))
        return counts, self._chance(np.where(happened, reward, self._low))

    def _chance(self, reward: FloatArray) -> FloatArray:
        reward, inside = clipped(reward, self._low, self._high)
        if not inside.all():
            raise ValueError(
                f"reward must be within the declared range [{self._low:g}, {self._high:g}], and "
                "one is not; declare the least and the greatest that the rules allow, in an "
                "environment's class as reward_range = (low, high)."
            )
        return (reward - self._low) / (self._high - self._low)


class NoisyRewards(BetaRewards):
    """Rewards in a known range, each split between the two cells of its state and action.

    A reward scaled to r in [0, 1] adds r to one cell and 1 − r to the other, which encodes the sum
    and the number of rewards. Each row has sensitivity ``r² + (1 − r)² <= 1``, the same as a
    changed success of `BetaRewards`. Gaussian noise therefore costs the same, without the extra
    variance of the Bernoulli trick. (Releasing the sum and the number themselves would need noise
    for ``r² + 1 <= 2``.) Each r is rounded to a multiple of `privrl.samplers.base.GRID`, so that
    sums are exact: rounding errors of sums could otherwise exceed the sensitivity.

    Parameters
    ----------
    sampler : NoisyCounts
        Releases the table. It must be made for the relation's table ``"rewards"``. A
        `DirichletSampler` is refused, since its cost holds for integer counts only.
    low, high : float
        Declared, public range of the rewards.

    Raises
    ------
    ValueError
        If the range is empty, or the sampler has another type or is for another table.
    """

    def encode(self, reward: FloatArray, stays: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return (r, 1 − r) for each reward, scaled to [0, 1] and rounded to the grid."""
        del stays, rng
        scaled = self._chance(reward)
        return np.stack([scaled, 1 - scaled], axis=-1)

    def encode_counts(
        self, counts: FloatArray, reward: FloatArray, next_state: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return the sums of (r, 1 − r) over all transitions, shape (..., S, A, 2)."""
        del next_state, rng
        counts, scaled = self._paid(counts, reward)
        parts = [row_sums(counts * scaled), row_sums(counts * (1 - scaled))]
        return np.concatenate(parts, axis=-1)

    def _check_sampler(self, sampler: Sampler) -> None:
        check_sampler("sampler", sampler)
        if has_dirichlet(sampler.fresh().cost):
            raise ValueError(
                f"sampler must be NoisyCounts, got {shown(sampler)}; use BetaRewards with it."
            )
        super()._check_sampler(sampler)

    def _chance(self, reward: FloatArray) -> FloatArray:
        return np.rint(super()._chance(reward) / GRID) * GRID


class HatRewards(NoisyRewards):
    """Rewards in a known range, each split between the two nearest of evenly spaced points.

    The table is a histogram with hat functions: a reward adds weights to the two points around it.
    The weights sum to 1, and their mean is the reward. A constant reward fills at most two cells
    of its row, however wide the range. The weights are nonnegative and sum to 1, so their norm is
    at most 1. The cost therefore equals that of `NoisyRewards`, for any number of points.

    Rewards on arrival cost less if the rewards of self-loops have separate points with separate
    noise (`privrl.costs.relations.DAMPED_REWARDS`). This is done if the sampler has ``loops``.

    Parameters
    ----------
    sampler : NoisyCounts
        As for `NoisyRewards`. Its loops, if any, are `reward_loops` with the same ``points``.
    low, high : float
        Declared, public range of the rewards; also the first and the last point.
    points : int
        Number of points, >= 2.

    Attributes
    ----------
    loops : array of bool, shape (width,), or None
        The cells of a row for rewards of self-loops, if these are damped.

    Raises
    ------
    ValueError
        As for `NoisyRewards`, or if ``points`` is too small or differs from that of the loops.
    """

    loops: BoolArray | None = fixed()

    def __init__(
        self, sampler: Sampler, *, low: float = 0.0, high: float = 1.0, points: int = _POINTS
    ) -> None:
        self._points = check_count("points", points, least=2)
        self.loops = getattr(sampler, "loops", None)
        super().__init__(sampler, low=low, high=high)

    def _with(self, sampler: Sampler) -> Self:
        return type(self)(sampler, low=self._low, high=self._high, points=self._points)

    @property
    def width(self) -> int:
        """Number of points; twice as many if self-loops have separate points."""
        return self._points * (1 if self.loops is None else 2)

    @property
    def grid(self) -> FloatArray:
        """The points, shape (width,), repeated for self-loops if these are separate."""
        return np.resize(np.linspace(self._low, self._high, self._points), self.width)

    def encode(self, reward: FloatArray, stays: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return the weights of each reward at the points, shape (..., width)."""
        del rng
        return self._added(reward, stays)

    def encode_counts(
        self, counts: FloatArray, reward: FloatArray, next_state: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return the summed weights of all transitions, shape (..., S, A, width)."""
        del rng
        shape = counts.shape[-3:]
        if reward.shape[-1] == 1 and self.loops is None:
            number = row_sums(counts)
            happened = number[..., 0].any(tuple(range(counts.ndim - 3)))
            paid = np.where(happened, reward[..., 0], self._low)
            return number * self._added(paid, np.zeros(paid.shape, np.bool_))
        cell = np.nonzero(counts)  # rewards of unseen transitions are arbitrary
        place = cell[-3:]
        stays = np.broadcast_to(next_state, shape)[place] == place[0]
        below, part = self._between(np.broadcast_to(reward, shape)[place], stays)
        first = np.ravel_multi_index(cell[:-1], counts.shape[:-1]) * self.width + below
        number, size = counts[cell], self.width * math.prod(counts.shape[:-1])
        table = np.zeros((*counts.shape[:-1], self.width))
        table += np.bincount(first, number * (1 - part), size).reshape(table.shape)
        table += np.bincount(first + 1, number * part, size).reshape(table.shape)
        return table

    def update(self, counts: FloatArray, rng: np.random.Generator) -> "HatPosterior":
        """Release the table; the posterior's samples are mean rewards within the range."""
        return HatPosterior(self._sampler.update(counts, rng), self.grid)

    def _check_sampler(self, sampler: Sampler) -> None:
        if self.loops is None:
            super()._check_sampler(sampler)
            return
        check_table("sampler", sampler, DAMPED_REWARDS)
        if not np.array_equal(self.loops, _second_half(self._points)):
            raise ValueError(
                f"sampler must have the loops of {self._points} points; make them with "
                f"privrl.agents.rewards.reward_loops(relation, points={self._points})."
            )

    def _added(self, reward: FloatArray, stays: BoolArray) -> FloatArray:
        """Return the weights of each reward; ``stays`` marks self-loops."""
        below, part = self._between(reward, stays)
        added = np.zeros((*reward.shape, self.width))
        np.put_along_axis(added, below[..., None], 1 - part[..., None], axis=-1)
        np.put_along_axis(added, below[..., None] + 1, part[..., None], axis=-1)
        return added

    def _between(self, reward: FloatArray, stays: BoolArray) -> tuple[IntArray, FloatArray]:
        """Return the index of the point below each reward, and the weight of the point above."""
        place = super(NoisyRewards, self)._chance(reward) * (self._points - 1)
        below = np.minimum(place.astype(np.intp), self._points - 2)
        part = np.rint((place - below) / GRID) * GRID
        return (below if self.loops is None else below + self._points * stays), part


def reward_loops(relation: Relation, *, points: int = _POINTS) -> BoolArray | None:
    """Return the loops of a sampler for `HatRewards`, if they reduce the cost of rewards.

    Parameters
    ----------
    relation : Relation
        The adjacency relation.
    points : int
        As for `HatRewards`.

    Returns
    -------
    array of bool, shape (2 * points,), or None
        True in the cells of a row for self-loops. None if the table
        `privrl.costs.relations.DAMPED_REWARDS` is as sensitive as ``"rewards"``.
    """
    check_is("relation", relation, Relation)
    points = check_count("points", points, least=2)
    tables = dict(relation.tables)
    if DAMPED_REWARDS not in tables:
        return None
    damped, plain = (largest_square(tables[each]) for each in (DAMPED_REWARDS, "rewards"))
    return _second_half(points) if damped < plain else None


def _second_half(points: int) -> BoolArray:
    return np.repeat([False, True], points)


def has_dirichlet(cost: Cost | None) -> bool:
    """Whether any part or row of a cost is that of Dirichlet draws."""
    match cost:
        case Together(parts=costs) | BatchCost(rows=costs):
            return any(map(has_dirichlet, costs))
    return isinstance(cost, DirichletCost)


@dataclass(frozen=True)
class BetaPosterior:
    """A posterior over mean rewards, from two-cell rows scaled to a range.

    Attributes
    ----------
    rows : Posterior
        Posterior of the rows, shape (..., S, A, 2); the first cell is for ``high``.
    low, high : float
        The declared range.
    """

    rows: Posterior
    low: float
    high: float

    @property
    def mean(self) -> FloatArray:
        """Expected mean rewards, shape (..., S, A)."""
        return self.low + (self.high - self.low) * self.rows.mean[..., 0]

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return mean rewards, shape (..., S, A)."""
        return self.low + (self.high - self.low) * self.rows.sample(rng)[..., 0]


@dataclass(frozen=True)
class HatPosterior:
    """A posterior over mean rewards, from rows over evenly spaced rewards.

    Attributes
    ----------
    rows : Posterior
        Posterior of the rows, shape (..., S, A, width).
    grid : array, shape (width,)
        The reward of each cell of a row.
    """

    rows: Posterior
    grid: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Expected mean rewards, shape (..., S, A)."""
        return self.rows.mean @ self.grid

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return mean rewards, shape (..., S, A)."""
        return self.rows.sample(rng) @ self.grid
