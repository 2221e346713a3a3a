"""The most frequent action of each state as a policy, and whether to recommend it.

Clinicians have reasons: in most logs the most frequent action of a state is better than the others,
and frequencies need much less data than returns. So the most frequent action is one candidate. The
choice between it and temporal differences depends on two released numbers: how skewed the behaviour
policy is, and by how much frequent actions are better.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privrl.data.logs import Log
from privrl.numerics.typing import FloatArray, IntArray
from privrl.offline.behaviour import (
    Behaviour,
    estimated_behaviour,
    known_behaviour,
    positive,
    release_visits,
    usual_steps,
)
from privrl.offline.design import POPULARITY
from privrl.offline.facts import Task
from privrl.offline.persons import Added
from privrl.offline.shrinkage import Spread

Way = Literal["popular", "differences"]
Other = Literal["rounds", "vote", "nothing", "even"]


@dataclass(frozen=True)
class Skew:
    """How skewed a behaviour policy is, from 0 to 1, and the standard deviation of that."""

    value: float
    doubt: float

    @property
    def lower(self) -> float:
        """One deviation below."""
        return self.value - self.doubt

    @property
    def upper(self) -> float:
        """One deviation above."""
        return self.value + self.doubt


@dataclass(frozen=True, eq=False)
class Look:
    """The result of a first look at the behaviour policy.

    Attributes
    ----------
    way : "popular" or "differences"
        The better method: the most frequent action, or temporal differences.
    lean : array, shape (S, A)
        The expected advantages of actions for being popular.
    spent : float
        The share of each person's budget that the look has cost.
    skew : Skew
        How skewed the behaviour policy is.
    """

    way: Way
    lean: FloatArray
    spent: float
    skew: Skew
    behaviour: Behaviour
    table: FloatArray
    noise: float


class Popularity:
    """The behaviour policy, and the advantage of its frequent actions.

    Parameters
    ----------
    task : Task
        What is learned from.
    rest : float
        The part of each person's budget that is left.
    """

    def __init__(self, task: Task, rest: float) -> None:
        self._task, self._rest = task, rest
        shape = task.space.n_states, task.space.n_actions
        self._allowed = np.ones(shape, np.bool_) if task.allowed is None else task.allowed

    def look(self, variance: float, spread: Spread, other: Other, *, faint: bool) -> Look:
        """Release how often actions are taken, and whether the frequent ones are better.

        Parameters
        ----------
        variance : float
            The mean square of a temporal difference.
        spread : Spread
            How much actions and states differ in them.
        other : "rounds", "vote", "nothing" or "even"
            The other method. Votes favour frequent actions already, so that one is worse only where
            the behaviour policy is that of an expert, or steps are paid, whose noise is louder.
            "even": actions are known to be as frequent, and the question is only which there are.
        faint : bool
            Whether noise nearly hides what the other method learns from. Then frequent actions of
            an expert are trusted unless they are surely worse, else only if surely better: rare
            actions may be inadmissible, in a uniform log, and not avoided by an expert.
        """
        stream, known = self._task.stream, self._task.chances is not None
        first, spent = self._rest, 0.0
        if stream.noise:
            clear = stream.noise * usual_steps(self._task.facts) * self._task.space.n_states
            first = float(
                np.clip(clear / (POPULARITY.clear * self._task.visits), *POPULARITY.first)
            )
            spent = first = POPULARITY.first[0] if known else first
        table, noise = self._release_visits(first, by_action=not known)
        behaviour = self._behaviour(table, noise)
        lean = np.zeros_like(behaviour.chances)
        way: Way = "differences"
        skew = Skew(behaviour.skew(self._allowed), behaviour.doubt)
        expert = skew.lower >= POPULARITY.expert
        low, high = self._task.space.step_rewards
        paid_vote = other == "vote" and low < high
        if paid_vote and not expert and skew.upper >= POPULARITY.even:
            way = "popular"
        elif other != "even" and (
            expert or (skew.value >= POPULARITY.skewed and (other != "vote" or known))
        ):
            spent += POPULARITY.leaning if stream.noise else 0.0
            leaning, off = self._release_leaning(behaviour, variance)
            lean = leaning * behaviour.popularity()
            shown, wanted = leaning + (off if faint or paid_vote else -off), spread.cell
            if other == "rounds" or not expert:
                wanted *= POPULARITY.better
            if stream.noise and shown >= wanted:
                way = "popular"
        return Look(way, lean, spent, skew, behaviour, table, noise)

    def _release_visits(self, share: float, *, by_action: bool) -> tuple[FloatArray, float]:
        task = self._task
        return release_visits(task.stream, task.space, task.facts, share, by_action=by_action)

    def most_popular(self, look: Look) -> IntArray:
        """Return the action that is taken most often in each state, for all that is left.

        -1, the behaviour, where it is not clear enough which that is: where the action that seems
        to be it is expected to be taken less often than the mean action is.
        """
        behaviour = look.behaviour
        if self._task.chances is None:
            more, noise = self._release_visits(self._rest - look.spent, by_action=True)
            weight = noise**2 / (look.noise**2 + noise**2)
            table = weight * look.table + (1 - weight) * more
            behaviour = self._behaviour(table, look.noise * float(np.sqrt(weight)))
        popularity = np.where(self._allowed, behaviour.popularity(), -np.inf)
        clear = (popularity.max(axis=1) > 0) | (self._allowed.sum(axis=1) == 1)
        return np.where(clear, popularity.argmax(axis=1), -1)

    def _behaviour(self, table: FloatArray, noise: float) -> Behaviour:
        if self._task.chances is None:
            return estimated_behaviour(table, noise, self._allowed)
        visits = positive(table[:, 0], np.full(len(table), noise**2))
        return known_behaviour(self._task.chances, visits)

    def _release_leaning(self, behaviour: Behaviour, variance: float) -> tuple[float, float]:
        """Return by how much actions are better for being popular, and how far off that may be.

        The advantage of an action is modelled as a factor times its popularity. Then the covariance
        of the popularity of actions and the returns that follow them, over all steps, is that
        factor times the variance of the popularity: the derivative of the value in the direction of
        frequent actions (the score function).
        """
        facts, chances = self._task.facts, behaviour.chances
        popularity = chances - (chances**2).sum(axis=1, keepdims=True)
        spread = float(np.average(behaviour.spread(), weights=behaviour.visits))
        mean, far = facts.outcome_reward + facts.step_reward / 2, self._farthest()
        steps = facts.episodes * facts.steps
        bound = 2 * float(np.sqrt(steps * spread))
        if not bound * far > 0:
            return 0.0, 0.0
        most = np.array([bound * far, bound, 2 * steps * far])
        unit = POPULARITY.leaning * np.array(POPULARITY.parts) / most
        discount = self._task.discount

        def adds(part: Log, _: FloatArray) -> Added:
            n, off = part.n_persons, returns_ahead(part, discount) - mean
            score = popularity[part.state, part.action]
            sums = [np.bincount(part.person, each, n) for each in (score * off, score, off)]
            amounts = np.clip(sums, -most[:, None], most[:, None]) * unit[:, None]
            cells = np.repeat(np.arange(3), n)
            return Added(np.tile(np.arange(n), 3), cells, amounts.ravel(), 1.0, POPULARITY.leaning)

        both, score, off = self._task.stream.update(adds, 3) / unit
        slope = float(both - score * off / self._task.visits) / (self._task.visits * spread)
        noise = float(self._task.stream.noise / unit[0]) / (self._task.visits * spread)
        noise = math.hypot(noise, far / 2 / math.sqrt(self._task.visits * spread))  # who was logged
        # Where chances are off, so is popularity in a state as a whole, and states differ in what
        # follows them.
        shares = behaviour.visits / behaviour.visits.sum()
        confounded = float(np.sqrt(shares**2 @ behaviour.variance.sum(axis=1)))
        noise = math.hypot(noise, POPULARITY.confounded * far * confounded / spread)
        prior = POPULARITY.leanings * far
        leaning = slope * prior**2 / (prior**2 + noise**2)
        doubt = prior * noise / math.hypot(prior, noise)
        least = POPULARITY.least * float(np.sqrt(variance)) * (slope > -2 * noise)
        return max(leaning, 0.0) + least, max(min(leaning, 0.0) + doubt, 0.0)

    def _farthest(self) -> float:
        """Return how far what an episode earns is from its mean, nearly always."""
        facts, (low, high) = self._task.facts, self._task.space.step_rewards
        ends = np.array([*self._task.space.outcome_rewards, 0.0]) - facts.outcome_reward
        return float(np.abs(ends).max() + facts.steps * (high - low) / 2)


def returns_ahead(part: Log, discount: float) -> FloatArray:
    """Return what each step and those after it in its episode earned, discounted."""
    left = np.repeat(part.episode_starts[1:], np.diff(part.episode_starts))
    left = left - np.arange(part.n_steps) - 1
    ahead = part.reward.copy()
    for number in range(1, int(left.max(initial=0)) + 1):
        here = np.flatnonzero(left == number)
        ahead[here] += discount * ahead[here + 1]
    return ahead
