"""Where there are data, and where episodes terminate: from a few small histograms by column.

Ends are bounds on single columns, beyond which every episode terminates. They are found in two
steps. First, a histogram of each column over the states in which episodes terminate: most steps
take no part in it. Then, for the outer bins in which these are, finer histograms of all steps
separate a bound, beyond which no episode continues, from a column that is merely large at an end.

Where nobody was, nobody knows whether episodes terminate. There plans fear a chance to terminate in
each step, if that is worse than to continue. (MOReL, Kidambi et al., 2020, lets all episodes
terminate where models are unsure; then no action there is better than another, not even to come
back.)
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from privrl.continuous.design import ENDS
from privrl.continuous.encoding import bins_of, numbers_of
from privrl.continuous.log import ContinuousLog
from privrl.continuous.moments import MomentStream
from privrl.continuous.schema import ContinuousSchema
from privrl.files.fixed import FixedArrays, own_arrays
from privrl.numerics.typing import BoolArray, FloatArray

NEVER: Final = 1e300  # a bound that no state is beyond


@dataclass(frozen=True, eq=False)
class Ends(FixedArrays):
    """Where episodes terminate.

    Attributes
    ----------
    bounds : array, shape (n, 2)
        An episode terminates where a numeric column is at most the first or at least the second.
        `NEVER`, and minus it, where a side has no end.
    reward : float
        Of a step at which an episode terminates.
    """

    bounds: FloatArray
    reward: float

    def __post_init__(self) -> None:
        own_arrays(self, "bounds")

    def over(self, numbers: FloatArray) -> BoolArray:
        """Return where episodes terminate, shape (N,), for numeric columns, shape (N, n)."""
        beyond = (numbers <= self.bounds[:, 0]) | (numbers >= self.bounds[:, 1])
        return np.logical_or.reduce(beyond, axis=1)


def outside(numbers: FloatArray, core: FloatArray, ends: Ends | None) -> BoolArray:
    """Return where a column is outside of its core, on a side without a learned end, (N,)."""
    low, high = np.ones((2, len(core)), np.bool_)
    if ends is not None:
        low, high = np.abs(ends.bounds.T) == NEVER
    beyond = (low & (numbers < core[:, 0])) | (high & (numbers > core[:, 1]))
    return np.logical_or.reduce(beyond, axis=1)


def release_visits(
    stream: MomentStream, schema: ContinuousSchema, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return a histogram of each numeric column, (n, bins), and where data are, (n, 2).

    That is somewhat wider than between the outermost bins which, with all further out, hold more
    than noise and a few visits.
    """
    columns = numbers_of(schema)
    whole = np.array([[c.low, c.high] for _, c in columns]).reshape(-1, 2)
    if not columns:
        return np.zeros((0, ENDS.bins)), whole

    counts, noise = _histograms(stream, schema, share, at_ends=False)
    unsure = ENDS.sure * noise * np.sqrt(np.arange(1, ENDS.bins + 1))
    for k, (_, column) in enumerate(columns):
        least = np.maximum(unsure, ENDS.rare * counts[k].sum())
        outer = [np.flatnonzero(np.cumsum(side) > least) for side in (counts[k], counts[k][::-1])]
        if all(map(len, outer)) and not column.periodic:
            first, last = outer[0][0], ENDS.bins - outer[1][0]
            low, high = column.low + column.width / ENDS.bins * np.array(
                [first, max(last, first + 1)]
            )
            more = ENDS.wider * (high - low)
            whole[k] = max(low - more, column.low), min(high + more, column.high)
    return np.maximum(counts, 0.0), whole


def release_ends(
    stream: MomentStream, schema: ContinuousSchema, visits: FloatArray, share: float
) -> Ends | None:
    """Return where episodes terminate, from two releases of half of a share; None if nowhere."""
    if not numbers_of(schema):
        return None
    counts, noise = _histograms(stream, schema, share / 2, at_ends=True)
    sides = _sides(counts, noise, visits)
    if not sides:
        return None
    going, over, reward, noise = _beyond(stream, schema, sides, share / 2)
    bounds, explained = np.array([[-NEVER, NEVER]] * len(counts)), 0.0
    # What moves fast when an episode terminates is not why, if other bounds explain all ends.
    for s in sorted(range(len(sides)), key=lambda s: -sides[s].part * sides[s].ratio):
        side, gains = sides[s], np.cumsum(over[s] - going[s])  # from the edge inwards
        unsure = ENDS.bound * noise * np.sqrt(2 * np.arange(1, ENDS.fine + 1))
        place = int(np.argmax(gains))
        coarse = round(ENDS.fine * (1 - 1.5 / side.bins)) - 1  # amid the innermost bin with ends
        if gains[place] < max(unsure[place], ENDS.mostly * over[s][: place + 1].sum()):
            if gains[coarse] < -unsure[coarse]:
                continue  # episodes go on there
            place = coarse
        if explained < ENDS.explained:
            column = numbers_of(schema)[side.column][1]
            reach = column.width * side.bins / ENDS.bins * (place + 1) / ENDS.fine
            bound = column.high - reach if side.upper else column.low + reach
            bounds[side.column, int(side.upper)] = bound
            explained += side.part
    return Ends(bounds, reward)


def most_cells(schema: ContinuousSchema) -> int:
    """Return how many columns a row of `release_ends` has at most."""
    return 2 + 2 * ENDS.bins * len(numbers_of(schema))


def _histograms(
    stream: MomentStream, schema: ContinuousSchema, share: float, *, at_ends: bool
) -> tuple[FloatArray, float]:
    """Return histograms of states, or of those in which episodes terminate, shape (n, bins)."""
    columns = numbers_of(schema)

    def rows(part: ContinuousLog) -> FloatArray:
        states, some = part.state, np.arange(len(part.state))
        if at_ends:
            assert part.terminated is not None
            states, some = part.next_state, np.flatnonzero(part.terminated)
        found = np.zeros((len(states), len(columns), ENDS.bins))
        for k, (i, column) in enumerate(columns):
            found[some, k, bins_of(column, states[some, i], ENDS.bins)] = 1
        return found.reshape(len(states), -1)

    counts, noise = stream.count(rows, ENDS.bins * len(columns), share)
    return counts.reshape(-1, ENDS.bins), noise


@dataclass(frozen=True)
class _Side:
    """An outer part of a column, of some bins, where a part of all episodes terminate."""

    column: int
    upper: bool
    bins: int
    part: float
    ratio: float  # of ends to visits


def _sides(counts: FloatArray, noise: float, visits: FloatArray) -> list[_Side]:
    """Return outer parts of columns where episodes terminate often.

    A part reaches from the edge to one bin beyond a run of bins that hold more than noise, and a
    larger part of the states in which episodes terminate than of all states. Parts for which that
    is much less true than for another are left out: what they hold would dilute the next release.
    """
    sides = []
    for k, (over, all_) in enumerate(zip(counts, visits, strict=True)):
        usual = all_ / max(float(all_.sum()), 1e-300) * max(float(over.sum()), 0.0)
        often = over > np.maximum(ENDS.sure * noise, ENDS.often * usual)
        for upper in (False, True):
            some = np.flatnonzero(often[::-1] if upper else often)
            if len(some) and some[0] < ENDS.bins // 2:
                gaps = np.flatnonzero(np.diff(some) > 1)
                inner = min(int(some[gaps[0] if len(gaps) else -1]) + 2, ENDS.bins // 2)
                there = slice(ENDS.bins - inner, None) if upper else slice(inner)
                rare = usual[there].sum() / max(float(usual.sum()), 1e-300) + ENDS.floor
                part = float(over[there].sum()) / max(float(over.sum()), 1e-300)
                sides.append(_Side(k, upper, inner, part, part / rare))
    best = max((side.ratio for side in sides), default=0.0)
    return [side for side in sides if side.ratio > best * ENDS.near]


def _beyond(
    stream: MomentStream, schema: ContinuousSchema, sides: list[_Side], share: float
) -> tuple[FloatArray, FloatArray, float, float]:
    """Return steps that continue and that terminate, by side and distance from the edge.

    And the mean reward of those that terminate, and the noise.
    """
    columns, span = numbers_of(schema), schema.reward

    def rows(part: ContinuousLog) -> FloatArray:
        assert part.terminated is not None
        n, over = len(part.state), part.terminated
        found = np.zeros((n, 2, len(sides), ENDS.fine))
        for s, side in enumerate(sides):
            i, column = columns[side.column]
            at = part.next_state[:, i]
            far = (column.high - at) if side.upper else (at - column.low)
            far = far / column.width * ENDS.bins / side.bins
            place = np.clip((far * ENDS.fine).astype(np.intp), 0, ENDS.fine - 1)
            inside = np.flatnonzero(far < 1)
            found[inside, over[inside].astype(np.intp), s, place[inside]] = 1
        earned = np.zeros((n, 2))
        earned[:, 0] = over
        if part.reward is not None and span is not None:
            earned[:, 1] = np.where(over, (part.reward - span.low) / span.width, 0.0)
        return np.concatenate([found.reshape(n, -1), earned], axis=1)

    counts, noise = stream.count(rows, 2 * ENDS.fine * len(sides) + 2, share)
    share_of = float(np.clip(counts[-1] / max(counts[-2], noise, 1e-300), 0, 1))
    reward = 0.0 if span is None else span.low + share_of * span.width
    going, over = counts[:-2].reshape(2, len(sides), ENDS.fine)
    return going, over, reward, noise
