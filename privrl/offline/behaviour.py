"""The behaviour policy of a log, from a noisy table of visits.

Logs of clinicians are skewed: in most states one action, the *leader*, is taken most of the time.
So a state is described by its leader and by the chance of that action; the other actions share the
rest. How that chance is distributed over states is estimated from the noisy table itself
(empirical Bayes), and what the table shows beyond that model is added, shrunk by its noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import LogSpace
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.offline.design import BEHAVIOUR
from privrl.offline.facts import LogFacts
from privrl.offline.persons import Added, PersonStream

_MOST_STEPS = 2**40  # more than anybody has, and an integer of NumPy


@dataclass(frozen=True, eq=False)
class Behaviour:
    """An estimate of the behaviour policy.

    Attributes
    ----------
    chances : array, shape (S, A)
        Expected chances of actions; 0 where an action is not allowed.
    squares : array, shape (S,)
        The expected sum of squared chances, so at least that of ``chances``.
    variance : array, shape (S, A)
        Of the chances.
    visits : array, shape (S,)
        How often states were visited in the log, > 0.
    doubt : float
        The posterior standard deviation of the skew.
    """

    chances: FloatArray
    squares: FloatArray
    variance: FloatArray
    visits: FloatArray
    doubt: float = 0.0

    def popularity(self) -> FloatArray:
        """Return how much more an action is taken than the mean action that is taken."""
        return self.chances - self.squares[:, None]

    def skew(self, allowed: BoolArray) -> float:
        """Return 0 for uniform actions, and 1 if a state always has the same action."""
        even = float(np.average(1 / allowed.sum(axis=1), weights=self.visits))
        squares = float(np.average(self.squares, weights=self.visits))
        return (squares - even) / max(1 - even, 1e-9)

    def spread(self) -> FloatArray:
        """Return the variance of the popularity of the actions taken in a state, shape (S,)."""
        chances = self.chances
        mean = (chances**2).sum(axis=1)
        return (chances * (chances - mean[:, None]) ** 2).sum(axis=1)


def counted_steps(part: Log, most: int) -> BoolArray:
    """Return which steps are among the first ``most`` of their person.

    Whether a step counts depends on earlier steps alone: weights that depend on later steps would
    make actions that end an episode early look more frequent.
    """
    begin = part.episode_starts[part.person_starts]
    number = np.arange(part.n_steps) - np.repeat(begin[:-1], np.diff(begin))
    return number < most


def usual_steps(facts: LogFacts) -> int:
    """Return the number of steps that are counted of a person under noise.

    With fewer steps, each has less noise. The number is half of the mean length of a trajectory.
    """
    return int(min(np.ceil(BEHAVIOUR.part * facts.episodes * facts.steps), _MOST_STEPS))


def release_visits(
    stream: PersonStream, log: LogSpace, facts: LogFacts, share: float, *, by_action: bool
) -> tuple[FloatArray, float]:
    """Release how often states, or states and actions, were visited.

    A person counts for their first `usual_steps` steps, or for all of them without privacy. Each
    step costs the same part of ``share``.

    Returns
    -------
    table : array, shape (S, A), or (S, 1)
        Noisy numbers of visits among those steps.
    noise : float
        The deviation of its noise.
    """
    n_columns = log.n_actions if by_action else 1
    most = usual_steps(facts) if stream.noise else log.most_steps * log.most_episodes
    unit = stream.unit(share, most)

    def adds(part: Log, _: FloatArray) -> Added:
        counted = counted_steps(part, most)
        cell = part.state[counted] * n_columns
        if by_action:
            cell = cell + part.action[counted]
        return Added(part.person[counted], cell, np.ones(len(cell)), unit, share)

    table = stream.update(adds, log.n_states * n_columns) / unit
    return table.reshape(log.n_states, n_columns), stream.noise / unit


def known_behaviour(chances: FloatArray, visits: FloatArray) -> Behaviour:
    """Return a behaviour policy with public chances."""
    return Behaviour(
        chances=chances,
        squares=(chances**2).sum(axis=1),
        variance=np.zeros_like(chances),
        visits=visits,
    )


def estimated_behaviour(table: FloatArray, noise: float, allowed: BoolArray) -> Behaviour:
    """Estimate the behaviour policy from a noisy table of visits.

    Parameters
    ----------
    table : array, shape (S, A)
        Numbers of visits, with noise.
    noise : float
        The deviation of its noise.
    allowed : array of bool, shape (S, A)
        Which actions are admissible.
    """
    number = allowed.sum(axis=1)
    visits = positive(np.where(allowed, table, 0.0).sum(axis=1), noise**2 * number)
    excess, doubt = _excess(table, noise, allowed, visits)
    chance, other, post = _leaders(table, noise, allowed, visits, excess)
    per_point = post.sum(axis=2)
    mean = np.einsum("qs,qsa->sa", other, per_point[:, :, None] - post)
    mean = np.where(allowed, mean + np.einsum("qs,qsa->sa", chance, post), 0.0)
    square = np.einsum("qs,qsa->sa", other**2, per_point[:, :, None] - post)
    square = np.where(allowed, square + np.einsum("qs,qsa->sa", chance**2, post), 0.0)
    chances = mean / mean.sum(axis=1, keepdims=True)
    # What the table shows beyond leaders, where noise and chance leave it clear.
    off = (noise / visits) ** 2 + 0.25 / visits
    part = 1 / (1 + (off / BEHAVIOUR.beyond**2) ** 2)[:, None]
    shown = np.where(allowed, chances + part * (table / visits[:, None] - chances), 0.0)
    chances = np.maximum(shown, 1e-9 * allowed)
    chances /= chances.sum(axis=1, keepdims=True)
    hidden = (1 - part) * np.maximum(np.where(allowed, square - mean**2, 0.0), 0.0)
    return Behaviour(
        chances=chances,
        squares=np.minimum((chances**2 + hidden).sum(axis=1), 1.0),
        variance=hidden + np.where(allowed, part * off[:, None], 0.0),
        visits=visits,
        doubt=doubt,
    )


def squares_beyond(
    table: FloatArray, noise: float, allowed: BoolArray, visits: FloatArray
) -> tuple[float, float]:
    """Return the sum of squared chances beyond that of uniform ones, and its standard error.

    These are the squares of a noisy table, less those of its noise. They are unbiased, also where
    noise hides the chances of single actions.
    """
    number = allowed.sum(axis=1)
    inside = np.where(allowed, table, 0.0)
    sums = inside.sum(axis=1)
    off = np.where(allowed, inside - (sums / number)[:, None], 0.0)
    free = float((number - 1).sum())
    found = float((off**2).sum()) - noise**2 * free - max(float(sums.sum()), 0.0)
    whole = float((sums**2).sum()) - noise**2 * float(number.sum())
    whole = max(whole, float(visits.sum()) ** 2 / len(table), np.finfo(float).tiny)
    return found / whole, noise**2 * math.sqrt(5 * free) / whole


def _excess(
    table: FloatArray, noise: float, allowed: BoolArray, visits: FloatArray
) -> tuple[float, float]:
    """Return the expected skew, and its posterior standard deviation.

    The skew is the mean of squared positions, 0 for even chances, 1 for a leader alone.
    """
    even = 1 - float(np.average(1 / allowed.sum(axis=1), weights=visits))
    found, off = (each / max(even, 1e-9) for each in squares_beyond(table, noise, allowed, visits))
    share = BEHAVIOUR.excess[1] ** 2 / (BEHAVIOUR.excess[1] ** 2 + off**2)
    skew = float(np.clip(BEHAVIOUR.excess[0] + share * (found - BEHAVIOUR.excess[0]), 0.0, 1.0))
    return skew, off * math.sqrt(share)


def _leaders(
    table: FloatArray, noise: float, allowed: BoolArray, visits: FloatArray, excess: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return chances of leaders and of others, shape (points, S), and how likely each is.

    The last: the posterior of point and leader, shape (points, S, A).
    """
    number = allowed.sum(axis=1)
    even = 1 / number
    chance = even + (1 - even) * np.linspace(0, 1, BEHAVIOUR.points)[:, None]
    other = np.where(number > 1, (1 - chance) / np.maximum(number - 1, 1), 0.0)

    def fit(expected: FloatArray) -> FloatArray:
        # Laplace noise, and chance beside it: with tails that are no shorter than either's.
        scale = np.sqrt((noise**2 + np.maximum(expected, 0.5)) / 2)[:, None]
        return -np.abs(table - expected[:, None]) / scale - np.log(scale)

    score = np.empty((BEHAVIOUR.points, *table.shape))
    for k in range(BEHAVIOUR.points):
        lead, rest = fit(chance[k] * visits), fit(other[k] * visits)
        whole = np.where(allowed, rest, 0.0).sum(axis=1, keepdims=True)
        score[k] = np.where(allowed, whole + lead - rest, -np.inf)
    score -= score.max(axis=(0, 2), keepdims=True)
    like = np.exp(score) / number[:, None]
    per_point = like.sum(axis=2)
    weight = np.full(BEHAVIOUR.points, 1 / BEHAVIOUR.points)
    # States that are hardly visited tell little, and would count as much as others.
    tells = np.minimum(1.0, visits / np.median(visits))
    for _ in range(BEHAVIOUR.iterations):
        post = per_point * weight[:, None]
        weight = (post / post.sum(axis=0) * tells).sum(axis=1)
        weight /= weight.sum()
    # Tilted: where noise is loud, likelihoods alone find leaders that are not there.
    square = np.linspace(0, 1, BEHAVIOUR.points) ** 2
    low, high = -60.0, 60.0
    for _ in range(BEHAVIOUR.iterations):
        tilted = weight * np.exp((low + high) / 2 * (square - 0.5)) + 1e-300
        post = per_point * tilted[:, None]
        mean = float(np.average(square @ post / post.sum(axis=0), weights=visits))
        low, high = ((low + high) / 2, high) if mean < excess else (low, (low + high) / 2)
    post = like * tilted[:, None, None]
    return chance, other, post / post.sum(axis=(0, 2))[:, None]


def positive(noisy: FloatArray, variance: FloatArray) -> FloatArray:
    """Shrink noisy positive amounts that differ by about half of their mean."""
    mean = max(float(noisy.mean()), float(np.sqrt(variance.mean() / len(noisy))))
    prior = (0.5 * mean) ** 2
    if noisy.var() > variance.mean() + prior:
        prior = float(noisy.var() - variance.mean())
    smooth = mean + (noisy - mean) * prior / (prior + variance)
    return np.maximum(smooth, 0.02 * mean)
