"""What a policy is worth in the likely world of released counts, and how sure that is."""

import math
from typing import Final

import numpy as np

from privrl.agents.sparse_model import SparseModel
from privrl.data.logs.log import LogSpace
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray, IntArray
from privrl.offline.counts import ReleasedCounts
from privrl.offline.estimates import CHOSEN, DEVIATIONS, Estimate, estimate

_SEEN: Final = 1e-12  # times that an action was taken of which nothing is known


def value_in_counts(
    log: LogSpace, counts: ReleasedCounts, belief: SparseModel, action: IntArray
) -> Estimate:
    """Return what a policy is worth in the likely world of released counts.

    Parameters
    ----------
    log : LogSpace
        What is public of the log.
    counts, belief
        What was released, and what is believed of it, by `belief_of`.
    action : array of int, shape (H, S)
        The policy; -1 is what was done.

    Notes
    -----
    What a released row says is off by noise, and by who was logged; how much that matters is how
    often the policy comes there times what follows (the delta method: first order, and of what was
    counted alone). A plan for these very counts is worth less in the world than in them: of each
    state's actions the one is chosen of which most is believed, and what is believed of the largest
    of several that are worth the same is too much, by so many deviations in the mean; those add up
    over states. The bound below allows for it, and is twice as far as that above at the least.
    Where nothing is known the rest of an episode pays nothing: the world may well pay more.
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
    rows = np.append(rows, np.einsum("sa,sat->st", done, rows)[:, None], axis=1)
    reward = np.append(reward, (done * reward).sum(axis=1)[:, None], axis=1)
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
    bound = DEVIATIONS * math.sqrt(float(variance.sum() + of_start))
    chosen_for = float(largest_of(known.sum(axis=1)) @ np.sqrt(variance).sum(axis=1))
    below = max(CHOSEN * bound, bound + chosen_for)
    return estimate(float(start @ first), below, bound, log.return_range())


def largest_of(numbers: IntArray) -> FloatArray:
    """Return what the largest of so many independent normal numbers is in the mean."""
    points = np.linspace(-9.0, 9.0, 1801)
    below = special.ndtr(points) ** np.maximum(numbers, 1)[:, None]
    mean: FloatArray = points[-1] - np.trapezoid(below, points, axis=1)
    return mean


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
    variance: FloatArray = by_chance + by_noise
    return variance


def of_rewards(log: LogSpace, counts: ReleasedCounts) -> FloatArray:
    """Return how far off mean rewards of a step are, squared; zero if they are all alike."""
    low, high = log.step_rewards
    often = np.maximum(counts.transition.sum(axis=-1), max(counts.noise[0], 1.0))
    if low == high:
        return np.zeros(often.shape)
    by_noise = ((counts.grid - counts.grid.mean()) ** 2).sum() * (counts.noise[1] / often) ** 2
    variance: FloatArray = by_noise + (high - low) ** 2 / 12 / often
    return variance
