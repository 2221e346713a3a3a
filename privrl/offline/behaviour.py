"""The behaviour policy of a log, from a noisy table of visits.

Logs of clinicians are skewed: in most states one action, the *leader*, is taken most of the time.
So a state is described by its leader and by the chance of that action; the other actions share the
rest. How that chance is distributed over states is estimated from the noisy table itself
(empirical Bayes), and what the table shows beyond that model is added, shrunk by its noise.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from privrl._typing import BoolArray, FloatArray
from privrl.data.logs import Log, LogSpace
from privrl.offline.facts import LogFacts
from privrl.offline.persons import Added, PersonStream

_PART: Final = 0.5  # of the steps that a person has in the mean: so many are counted
_POINTS: Final = 24  # of the grid of a leader's chance
_MOST_LEFT: Final = 0.05  # variance of chances beside that of leaders
_ITERATIONS: Final = 30


@dataclass(frozen=True, eq=False)
class Behaviour:
    """What is known of the behaviour policy.

    Attributes
    ----------
    chances : array, shape (S, A)
        Expected chances of actions; 0 where an action is not allowed.
    squares : array, shape (S,)
        The expected sum of squared chances, so at least that of ``chances``.
    leads : array, shape (S, A)
        The probability that an action is the one taken most often.
    variance : array, shape (S, A)
        Of the chances.
    visits : array, shape (S,)
        How often states were visited in the log, > 0.
    """

    chances: FloatArray
    squares: FloatArray
    leads: FloatArray
    variance: FloatArray
    visits: FloatArray

    def popularity(self) -> FloatArray:
        """Return how much more an action is taken than the mean action that is taken."""
        return self.chances - self.squares[:, None]

    def spread(self) -> FloatArray:
        """Return the variance of the popularity of the actions taken in a state, shape (S,)."""
        chances = self.chances
        mean = (chances**2).sum(axis=1)
        spread: FloatArray = (chances * (chances - mean[:, None]) ** 2).sum(axis=1)
        return spread


def counted_steps(part: Log, most: int) -> BoolArray:
    """Return which steps are among the first ``most`` of their person.

    Whether a step counts depends on what was before it alone: weights that depend on what came
    after it would make actions that end an episode early look more frequent.
    """
    begin = part.episode_starts[part.person_starts]
    number = np.arange(part.n_steps) - np.repeat(begin[:-1], np.diff(begin))
    counted: BoolArray = number < most
    return counted


def usual_steps(facts: LogFacts) -> int:
    """Return how many of a person's steps are counted where there is noise.

    With fewer each is louder. It is half of what persons have in the mean.
    """
    return int(np.ceil(_PART * facts.episodes * facts.steps))


def release_visits(
    stream: PersonStream,
    log: LogSpace,
    facts: LogFacts,
    share: float,
    *,
    by_action: bool,
) -> tuple[FloatArray, float]:
    """Release how often states, or states and actions, were visited.

    A person counts for their first steps, `usual_steps` of them, or for all without privacy; each
    costs the same part of ``share``.

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
    """Return a behaviour policy of which the chances are public."""
    return Behaviour(
        chances=chances,
        squares=(chances**2).sum(axis=1),
        leads=np.eye(chances.shape[1])[chances.argmax(axis=1)],
        variance=np.zeros_like(chances),
        visits=visits,
    )


def estimated_behaviour(table: FloatArray, noise: float, allowed: BoolArray) -> Behaviour:
    """Return what a noisy table of visits tells of the behaviour policy.

    Parameters
    ----------
    table : array, shape (S, A)
        Numbers of visits, with noise.
    noise : float
        The deviation of its noise.
    allowed : array of bool, shape (S, A)
        Which actions there are.
    """
    number = allowed.sum(axis=1)
    visits = positive(np.where(allowed, table, 0.0).sum(axis=1), noise**2 * number)
    chance, other, post = _leaders(table, noise, allowed, visits)
    per_point = post.sum(axis=2)
    mean = np.einsum("qs,qsa->sa", other, per_point[:, :, None] - post)
    mean = np.where(allowed, mean + np.einsum("qs,qsa->sa", chance, post), 0.0)
    square = np.einsum("qs,qsa->sa", other**2, per_point[:, :, None] - post)
    square = np.where(allowed, square + np.einsum("qs,qsa->sa", chance**2, post), 0.0)
    # What the table shows beyond leaders, shrunk.
    left = np.where(allowed, table - mean * visits[:, None], 0.0)
    error = (mean * (1 - mean) * visits[:, None] + noise**2) / visits[:, None] ** 2
    prior = _left_over(
        (left / visits[:, None])[allowed], (error + np.maximum(square - mean**2, 0.0))[allowed]
    )
    share = prior / (prior + error + np.finfo(float).tiny)
    off = share * left / visits[:, None]
    chances = np.where(allowed, np.maximum(mean + off, 0.1 * mean), 0.0)
    chances /= chances.sum(axis=1, keepdims=True)
    variance = np.where(allowed, square - mean**2 + prior * (1 - share), 0.0)
    variance = np.maximum(variance, 0.0)
    return Behaviour(
        chances=chances,
        squares=np.minimum((chances**2 + variance).sum(axis=1), 1.0),
        leads=post.sum(axis=0),
        variance=variance,
        visits=visits,
    )


def _left_over(left: FloatArray, variance: FloatArray) -> float:
    """Return the variance of what is left, beyond what it is expected to be: if that is sure.

    The square of a quantity of Laplace's law has five times the variance that it has itself, as a
    square; so the mean of such squares, each weighed by how sure it is, is known to about this.
    """
    weight = 1 / np.maximum(variance, 1e-12) ** 2
    found = float(np.average(left**2 - variance, weights=weight))
    sure = 2 * math.sqrt(5 / float(weight.sum()))
    return min(max(found - sure, 0.0), _MOST_LEFT)


def _leaders(
    table: FloatArray, noise: float, allowed: BoolArray, visits: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return chances of leaders and of others, shape (points, S), and how likely each is.

    The last: the posterior of point and leader, shape (points, S, A).
    """
    number = allowed.sum(axis=1)
    even = 1 / number
    chance = even + (1 - even) * np.linspace(0, 1, _POINTS)[:, None]
    other = np.where(number > 1, (1 - chance) / np.maximum(number - 1, 1), 0.0)

    def fit(expected: FloatArray) -> FloatArray:
        # Laplace noise, and chance beside it: with tails that are no shorter than either's.
        scale = np.sqrt((noise**2 + np.maximum(expected, 0.5)) / 2)[:, None]
        law: FloatArray = -np.abs(table - expected[:, None]) / scale - np.log(scale)
        return law

    score = np.empty((_POINTS, *table.shape))
    for k in range(_POINTS):
        lead, rest = fit(chance[k] * visits), fit(other[k] * visits)
        whole = np.where(allowed, rest, 0.0).sum(axis=1, keepdims=True)
        score[k] = np.where(allowed, whole + lead - rest, -np.inf)
    score -= score.max(axis=(0, 2), keepdims=True)
    like = np.exp(score) / number[:, None]
    per_point = like.sum(axis=2)
    weight = np.full(_POINTS, 1 / _POINTS)
    # States that are hardly visited tell little, and would count as much as others.
    tells = np.minimum(1.0, visits / np.median(visits))
    for _ in range(_ITERATIONS):
        post = per_point * weight[:, None]
        weight = (post / post.sum(axis=0) * tells).sum(axis=1)
        weight /= weight.sum()
    post = like * weight[:, None, None]
    return chance, other, post / post.sum(axis=(0, 2))[:, None]


def positive(noisy: FloatArray, variance: FloatArray) -> FloatArray:
    """Return what is expected of positive amounts that differ by about half of their mean."""
    mean = max(float(noisy.mean()), float(np.sqrt(variance.mean() / len(noisy))))
    prior = (0.5 * mean) ** 2
    if noisy.var() > variance.mean() + prior:
        prior = float(noisy.var() - variance.mean())
    smooth = mean + (noisy - mean) * prior / (prior + variance)
    amounts: FloatArray = np.maximum(smooth, 0.02 * mean)
    return amounts
