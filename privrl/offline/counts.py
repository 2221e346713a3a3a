"""A model from counts of all transitions and rewards: for worlds that are small for their log."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from privrl.agents.rewards import HatPosterior
from privrl.agents.sparse_model import SparseModel
from privrl.costs.noise import LaplaceCost
from privrl.data.logs import Log
from privrl.data.logs.log import CUT, LogSpace
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.design import COUNTS, FACTS
from privrl.offline.facts import Estimate, LogFacts, estimate
from privrl.offline.persons import Added, PersonStream
from privrl.samplers.noisy_counts import NoisyPosterior

_NEXT: Final = 2.0**-30  # of the largest reward: less is no difference between two
LARGEST: Final = 2**22  # cells of a table
LONGEST: Final = 2**27  # entries of a plan for each step and state


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Noisy counts of all transitions and rewards.

    Attributes
    ----------
    transition : array, shape (S, A, S + O)
        How often each state, or outcome, followed.
    reward : array, shape (S, A, P)
        How often about each of the rewards of ``grid`` was earned.
    start : array, shape (S,)
        How often an episode began there.
    noise : tuple of float
        The deviations of the noise of these three.
    grid : array, shape (P,)
        Rewards.
    """

    transition: FloatArray
    reward: FloatArray
    start: FloatArray
    noise: tuple[float, ...]
    grid: FloatArray


def table_size(log: LogSpace) -> int:
    """Return how many cells a table of all transitions has."""
    return log.n_states * log.n_actions * (log.n_states + len(log.outcomes))


def counts_show(
    stream: PersonStream, log: LogSpace, facts: LogFacts, allowed: BoolArray | None
) -> bool:
    """Return whether counts of all transitions would be clear enough.

    It is enough if all cells would show if they were alike, or a next state of chance 1 in 10. But
    where only outcomes pay, values are much alike in most worlds, and rounds of temporal
    differences, if noise allows them, lose less than small chances that are not shown: cells have
    to be many times as full. The rule is public: it depends on released numbers.
    """
    n_pairs, n_cells = log.n_states * log.n_actions, table_size(log)
    if n_cells > LARGEST:
        return False
    steps = facts.episodes * facts.steps
    size = steps if stream.sums else 2 * min(steps, n_pairs)
    seen = COUNTS.shows * stream.noise / stream.unit(COUNTS.transitions, size)
    visits, pairs = facts.persons * steps, n_pairs if allowed is None else int(allowed.sum())
    by_outcome = log.step_rewards[0] == log.step_rewards[1]
    if by_outcome and isinstance(stream.cost, LaplaceCost):
        return visits >= COUNTS.dense * max(seen, 1.0) * n_cells
    return visits >= max(seen * min(n_cells, pairs / COUNTS.part), COUNTS.often * pairs)


def release_counts(
    stream: PersonStream, log: LogSpace, facts: LogFacts, share: float
) -> ReleasedCounts:
    """Release all transitions, rewards and first states.

    Parameters
    ----------
    stream : PersonStream
        About the persons of the log.
    log, facts
        The public part of the log, and earlier releases.
    share : float
        Of each person's budget.

    Notes
    -----
    A person counts for each state and action the first time only, and until they have counted twice
    as often as the mean person. So a person who moves in circles counts little, and whether a step
    counts depends on earlier steps alone.
    """
    n_pairs, width = log.n_states * log.n_actions, log.n_states + len(log.outcomes)
    grid = _grid(*log.reward_range)
    shape, points = (log.n_states, log.n_actions), len(grid)
    size = _mean_size(stream, log, facts)
    bound = float(np.ceil(COUNTS.long * size))
    rest = share - COUNTS.starts - COUNTS.sizes
    by_outcome = log.step_rewards[0] == log.step_rewards[1]  # then counts tell what was earned
    of_moves = rest if by_outcome else rest * COUNTS.transitions
    units = (
        stream.unit(of_moves, bound),
        stream.unit(of_moves if by_outcome else rest - of_moves, bound),
        stream.unit(COUNTS.starts, log.most_episodes ** (1 if stream.sums else 2)),
    )

    def starts(part: Log, _: FloatArray) -> Added:
        first = part.episode_starts[:-1]
        return Added(part.person[first], part.state[first], np.ones(len(first)), units[2])

    def moves(part: Log, _: FloatArray) -> Added:
        moved = _counted(part, bound) & (part.next_state != CUT)
        cell = _pairs(part)[moved] * width + part.next_state[moved]
        return Added(part.person[moved], cell, np.ones(len(cell)), units[0], of_moves)

    def rewards(part: Log, _: FloatArray) -> Added:
        counted = _counted(part, bound)
        below, upper = _split(part.reward[counted], grid)
        cell = _pairs(part)[counted] * points + below
        return Added(
            np.tile(part.person[counted], 2),
            np.concatenate([cell, cell + 1]),
            np.concatenate([1 - upper, upper]),
            units[1],
        )

    start = stream.update(starts, log.n_states) / units[2]
    transition = stream.update(moves, n_pairs * width).reshape(*shape, width) / units[0]
    noise = stream.noise / np.array(units)
    if by_outcome:
        reward = _by_outcome(log, transition, noise[0], grid)
    else:
        reward = stream.update(rewards, n_pairs * points).reshape(*shape, points) / units[1]
    return ReleasedCounts(transition, reward, start, tuple(noise.tolist()), grid)


def _pairs(part: Log) -> IntArray:
    """Return which state and action each step has, as one number."""
    return part.state * part.n_actions + part.action


def _by_outcome(
    log: LogSpace, transition: FloatArray, noise: float, grid: FloatArray
) -> FloatArray:
    """Return how often each reward was earned where outcomes alone tell, from what left."""
    shown = np.where(transition > COUNTS.shown * noise, transition, 0.0)
    often = np.concatenate(
        [shown[..., log.n_states :], shown[..., : log.n_states].sum(axis=-1, keepdims=True)],
        axis=-1,
    )
    worth = log.step_rewards[0] + np.array([*log.outcome_rewards, 0.0])
    below, part = _split(worth, grid)
    table = np.zeros((*transition.shape[:2], len(grid)))
    for k in range(len(worth)):
        table[..., below[k]] += (1 - part[k]) * often[..., k]
        table[..., below[k] + 1] += part[k] * often[..., k]
    return table


def _grid(low: float, high: float) -> FloatArray:
    """Return the points that rewards are split between, of which no two are the same float."""
    size = max(abs(low), abs(high))
    if high - low > size * _NEXT:
        return np.linspace(low, high, COUNTS.points)
    return np.array([low, low + max(1.0, 2 * size * _NEXT)])  # they are as good as alike


def _split(reward: FloatArray, grid: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return between which two points each reward is, and how near the second."""
    place = (reward - grid[0]) / (grid[1] - grid[0])
    below = np.clip(place.astype(np.intp), 0, len(grid) - 2)
    return below, np.clip(place - below, 0.0, 1.0)


def _counted(part: Log, bound: float = np.inf) -> BoolArray:
    """Return which steps are counted: first ones, until their person has so many."""
    so_far = np.cumsum(part.is_first)
    begin = part.episode_starts[part.person_starts]
    before = np.append(0, so_far)[begin[:-1]]
    return part.is_first & (so_far - np.repeat(before, np.diff(begin)) <= bound)


def _mean_size(stream: PersonStream, log: LogSpace, facts: LogFacts) -> float:
    """Return how many steps are counted of a person, in the mean: released."""
    most = float(min(log.most_episodes * log.most_steps, log.n_states * log.n_actions))
    unit = stream.unit(COUNTS.sizes, 1)

    def sizes(part: Log, _: FloatArray) -> Added:
        n = part.n_persons
        amount = np.bincount(part.person, weights=_counted(part), minlength=n) / most
        return Added(np.arange(n), np.zeros(n, np.intp), amount, unit)

    mean = float(stream.update(sizes, 1)[0]) / unit / facts.persons * most
    return min(max(mean, 1.0), most)


def belief_of(
    counts: ReleasedCounts, horizon: int, allowed: BoolArray | None = None
) -> SparseModel:
    """Return what released counts say: outcomes taken together as "the episode is over".

    Of actions that are not ``allowed``, shape (S, A), nothing is believed.
    """
    n_states = counts.transition.shape[0]
    n_outcomes = counts.transition.shape[-1] - n_states
    deviation = np.full(n_states + 1, counts.noise[0])
    ended = counts.transition[..., n_states:]
    if n_outcomes > 1:  # several together have the noise of several: what is hardly more is none
        ended = np.where(ended > COUNTS.shown * counts.noise[0], ended, 0.0)
    over = ended.sum(axis=-1, keepdims=True)
    table = np.concatenate([counts.transition[..., :n_states], over], axis=-1)
    if not n_outcomes and counts.noise[0]:
        table[..., -1] = -9 * deviation[-1]  # none of them
    reward, one = counts.reward.copy(), np.ones(1)
    if allowed is not None:
        table[~allowed] = reward[~allowed] = -9 * max(*deviation, counts.noise[1], 1.0)
    return SparseModel(
        NoisyPosterior(table[None], deviation, one),
        HatPosterior(NoisyPosterior(reward[None], np.array([counts.noise[1]]), one), counts.grid),
        horizon,
    )


_SEEN: Final = 1e-12  # times that an action was taken of which nothing is known


def value_in_counts(
    log: LogSpace, counts: ReleasedCounts, belief: SparseModel, action: IntArray
) -> Estimate:
    """Return what a policy is worth in the likely world of released counts.

    Here ``belief`` is the counts' `belief_of`, and ``action``, of shape (H, S), the policy; -1 is
    the behaviour policy.

    Notes
    -----
    What a released row says is off by noise, and by who was logged; how much that matters is how
    often the policy comes there times what follows (the delta method: first order, and from the
    counts alone). A plan for these very counts is worth less in the world than in them: each state
    gets the action with the largest estimate, and the largest of several noisy estimates is too
    large on average; the errors add up over states. The bound below allows for it, and is twice as
    far as that above at the least. In the value, the rest of an episode pays nothing where nothing
    is known; in the bounds it is as bad, or as good, as it can be. What noise hides of the other
    rows leads to the best state in the upper bound: plans are made for the worse case.
    """
    rows, reward, known = belief.likely()
    rows = by_outcome(counts, rows)
    (n_states, n_actions), ends = known.shape, np.array(log.outcome_rewards)
    ends = ends if len(ends) else np.zeros(1)
    # What a step pays, its outcome apart: that is worth what it pays.
    reward = np.where(known, reward, 0.0) - rows[..., n_states:] @ ends
    often = np.maximum(counts.transition.sum(axis=-1), 1.0)
    # What was done, where that is the policy: -1 is the last action.
    done = np.where(known, often, _SEEN)
    done = done / done.sum(axis=1, keepdims=True)
    hidden = np.where(known, _hidden(counts, rows, known), 1.0)
    rows = np.append(rows, np.einsum("sa,sat->st", done, rows)[:, None], axis=1)
    reward = np.append(reward, (done * reward).sum(axis=1)[:, None], axis=1)
    unknown = np.maximum(1.0 - known.any(axis=1), (often * ~known).sum(axis=1) / often.sum(axis=1))
    hidden = np.append(hidden, np.maximum(unknown, hidden.min())[:, None], axis=1)
    states, horizon = np.arange(n_states), len(action)
    ahead = np.zeros((horizon + 1, n_states + len(ends)))
    ahead[:, n_states:] = ends
    for step in reversed(range(horizon)):
        chosen = states, action[step]
        ahead[step, :n_states] = reward[chosen] + rows[chosen] @ ahead[step + 1]
    start = np.maximum(counts.start, 0.0)
    start = start / start.sum() if start.sum() else np.full(n_states, 1 / n_states)
    # How often the policy does what where, and what the next state is worth then, in sum.
    visits = np.zeros((n_states, n_actions + 1))
    worth = np.zeros((n_states, n_actions + 1, ahead.shape[1]))
    here = start
    for step in range(horizon):
        chosen = states, action[step]
        visits[chosen] += here
        worth[chosen] += here[:, None] * ahead[step + 1]
        here = (here @ rows[chosen])[:n_states]
    visits = visits[:, :-1] + visits[:, -1:] * done
    worth = worth[:, :-1] + worth[:, -1:] * done[..., None]
    variance = of_rows(counts, rows[:, :-1], worth) + visits**2 * of_rewards(log, counts)
    first = ahead[0, :n_states]
    n_starts = max(float(np.maximum(counts.start, 0.0).sum()), 1.0)
    off = first - start @ first
    of_start = (
        float(start @ off**2) / n_starts + float(off @ off) * (counts.noise[2] / n_starts) ** 2
    )
    variance = np.where(known, variance, 0.0)
    bound = FACTS.deviations * math.sqrt(float(variance.sum() + of_start))
    chosen_for = float(largest_of(known.sum(axis=1)) @ np.sqrt(variance).sum(axis=1))
    value, possible = float(start @ first), log.return_range()
    plan = _Plan(rows, reward, ends, action)
    low, high = log.step_rewards
    least = float(start @ plan.at_an_end(np.where(hidden < 1, 0.0, 1.0), low, np.min))
    most = float(start @ plan.at_an_end(hidden, high, np.max))
    below = max(FACTS.chosen * bound, bound + chosen_for) + max(value - least, 0.0)
    return estimate(value, below, bound + max(most - value, 0.0), possible)


def _hidden(counts: ReleasedCounts, rows: FloatArray, known: BoolArray) -> float:
    """Return which part of the steps of known rows leads to next states that noise hides.

    All cells together have less noise than what each is compared to, so they say how much is
    hidden, on average: two deviations more are assumed. Some cells show by their noise alone: what
    that adds is that of Laplace noise beyond the least count that shows.
    """
    noise, n_next = counts.noise[0], counts.transition.shape[-1]  # without outcomes, no "over"
    shown = (rows[..., :n_next] > 0) & known[..., None]
    if not noise or not shown.any():
        return 0.0
    cells = counts.transition[known]
    of_shown = counts.transition[shown]
    least = max(float(of_shown.min()), 0.0) / noise
    number = cells.size - len(of_shown)
    by_noise = 0.5 * math.exp(-math.sqrt(2) * least) * (least + math.sqrt(0.5)) * number
    beyond = float(cells.sum() - of_shown.sum()) + noise * by_noise
    beyond += FACTS.deviations * noise * math.sqrt(number)
    whole = max(float(of_shown.sum()) + beyond, 1.0)
    return min(max(beyond / whole, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A plan in the likely world of counts: rows, rewards of steps, of outcomes, and actions."""

    rows: FloatArray
    reward: FloatArray
    ends: FloatArray
    action: IntArray

    def at_an_end(
        self, hidden: FloatArray, pays: float, end: Callable[[FloatArray], float]
    ) -> FloatArray:
        """Return values of first states where what is hidden is as bad, or as good, as can be.

        A part ``hidden``, shape (S, A + 1), of the steps of each row leads to the state or outcome
        with the least, or the largest, value; rows that are hidden as a whole pay ``pays``.
        """
        n_states = len(self.rows)
        reward, states = np.where(hidden < 1, self.reward, pays), np.arange(n_states)
        after = np.append(np.zeros(n_states), self.ends)
        for action in self.action[::-1]:
            chosen = states, action
            seen = (1 - hidden[chosen]) * (self.rows[chosen] @ after)
            lost = hidden[chosen] * end(np.append(after, 0.0))
            after = np.append(reward[chosen] + seen + lost, self.ends)
        return after[:n_states]


def largest_of(numbers: IntArray) -> FloatArray:
    """Return the mean of the largest of several independent normal numbers."""
    points = np.linspace(-9.0, 9.0, 1801)
    below = special.ndtr(points) ** np.maximum(numbers, 1)[:, None]
    return points[-1] - np.trapezoid(below, points, axis=1)


def by_outcome(counts: ReleasedCounts, rows: FloatArray) -> FloatArray:
    """Return chances, shape (S, A, S + 1), with "over" shared among outcomes as these were."""
    n_states = len(counts.start)
    ended = np.maximum(counts.transition[..., n_states:], 0.0)
    if not ended.shape[-1]:
        return rows
    ended = ended + 1e-9
    part = ended / ended.sum(axis=-1, keepdims=True)
    return np.concatenate([rows[..., :n_states], rows[..., n_states:] * part], axis=-1)


def of_rows(counts: ReleasedCounts, rows: FloatArray, worth: FloatArray) -> FloatArray:
    """Return how far off rows are, squared, of next states and outcomes worth so much."""
    often = np.maximum(counts.transition.sum(axis=-1), max(counts.noise[0], 1.0))
    beyond = (worth - (rows * worth).sum(axis=-1, keepdims=True)) ** 2
    by_chance = (rows * beyond).sum(axis=-1) / often
    by_noise = (beyond * (rows > 0)).sum(axis=-1) * (counts.noise[0] / often) ** 2
    return by_chance + by_noise


def of_rewards(log: LogSpace, counts: ReleasedCounts) -> FloatArray:
    """Return how far off mean rewards of a step are, squared; zero if they are all alike."""
    low, high = log.step_rewards
    often = np.maximum(counts.transition.sum(axis=-1), max(counts.noise[0], 1.0))
    if low == high:
        return np.zeros(often.shape)
    by_noise = ((counts.grid - counts.grid.mean()) ** 2).sum() * (counts.noise[1] / often) ** 2
    return by_noise + (high - low) ** 2 / 12 / often
