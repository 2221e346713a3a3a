"""Whether what was done most often is also better, and a policy that does it.

Clinicians have reasons: in most logs the action that is taken most often in a state is better than
the others, and how often actions are taken is seen with much less data than what comes of them. So
the most frequent action is one candidate for what to recommend. It is compared with what votes and
rounds of temporal differences are expected to gain, from released numbers alone.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.data.logs import Log, LogSpace
from privrl.offline.behaviour import (
    Behaviour,
    estimated_behaviour,
    known_behaviour,
    positive,
    release_visits,
    usual_steps,
)
from privrl.offline.facts import LogFacts
from privrl.offline.persons import Added, PersonStream
from privrl.offline.shrinkage import Spread, expected

_FIRST: Final = (0.06, 0.1)  # of the budget, for a first look: more where noise is louder
_CLEAR: Final = 0.5  # noise on a state's mean number of visits, that a first look aims at
_SECOND: Final = 0.15  # of the budget, for another look where the first shows too little
_SKEWED: Final = 1.1  # times what squared chances sum to if actions are taken alike
_LEANING: Final = 0.06  # of the budget, for whether popular actions are better
_PARTS: Final = np.array([0.6, 0.2, 0.2])  # of that, for its three sums
_CONFOUNDED: Final = 1 / 24  # of how far returns are: how much states differ in them
_LEANINGS: Final = 0.3  # of how far returns are from their mean: how large leanings are
_LEAST: Final = 1e-3  # deviations of a step by which popular actions are better, unless refuted
_SIMULATIONS: Final = 16
_MARGIN: Final = 0.05  # of what actions differ by, that differences have to gain at the least
_NEARLY: Final = 0.8  # of what differences are expected to gain: then popularity is followed

Way = Literal["popular", "differences", "behaviour"]


@dataclass(frozen=True, eq=False)
class Look:
    """What a first look at the behaviour has told.

    Attributes
    ----------
    way : "popular", "differences" or "behaviour"
        What is expected to gain most: doing what is done most often, learning from temporal
        differences, or leaving all as it is.
    lean : array, shape (S, A)
        By how much actions are expected to be better than the behaviour, for being popular.
    spent : float
        Of each person's budget.
    """

    way: Way
    lean: FloatArray
    spent: float
    behaviour: Behaviour
    table: FloatArray
    noise: float


class Popularity:
    """What is known of the behaviour policy, and of what its frequent actions are worth.

    Parameters
    ----------
    stream : PersonStream
        About the persons of the log.
    space, facts
        What is public of the log, and what was released of it before.
    discount : float
        In (0, 1].
    allowed : array of bool, shape (S, A), optional
        Which actions there are.
    chances : array, shape (S, A), optional
        The public chances of actions.
    rest : float
        The part of each person's budget that is left.
    """

    def __init__(
        self,
        stream: PersonStream,
        space: LogSpace,
        facts: LogFacts,
        *,
        discount: float,
        allowed: BoolArray | None,
        chances: FloatArray | None,
        rest: float,
    ) -> None:
        self._stream, self._space, self._facts = stream, space, facts
        self._discount, self._chances, self._rest = discount, chances, rest
        shape = space.n_states, space.n_actions
        self._allowed = np.ones(shape, np.bool_) if allowed is None else allowed
        self._visits = facts.persons * facts.episodes * facts.steps

    def look(self, bound: float, variance: float, spread: Spread, *, divided: bool) -> Look:
        """Release how often actions are taken, and whether the frequent ones are better.

        Parameters
        ----------
        bound : float
            What a person's temporal differences sum to, nearly all persons'.
        variance : float
            The mean square of one of them.
        spread : Spread
            How much actions and states differ in them.
        divided : bool
            Whether sums of them are divided by how often actions were taken.
        """
        by_action = self._chances is None
        if not self._stream.noise:
            first, spent = self._rest, 0.0
        else:
            first = _FIRST[0]
            if by_action:
                wanted = self._stream.noise * usual_steps(self._facts) * self._space.n_states
                first = float(np.clip(wanted / (_CLEAR * self._visits), *_FIRST))
            spent = first + _LEANING
        table, noise = release_visits(
            self._stream, self._space, self._facts, first, by_action=by_action
        )
        behaviour = self._behaviour(table, noise)
        number = self._allowed.sum(axis=1)
        beyond, off = self._skew(table, noise, behaviour)
        even = float(np.average(1 / number, weights=behaviour.visits))
        if beyond - off < (_SKEWED - 1) * even <= beyond + off and self._stream.noise:
            # It cannot be seen whether actions are taken alike: a second look.
            more, of_more = release_visits(
                self._stream, self._space, self._facts, _SECOND, by_action=True
            )
            weight = of_more**2 / (noise**2 + of_more**2)
            table = weight * table + (1 - weight) * more
            noise, first = noise * math.sqrt(weight), math.hypot(first, _SECOND)
            spent += _SECOND
            behaviour = self._behaviour(table, noise)
            beyond, off = self._skew(table, noise, behaviour)
        least = np.minimum(1 / number + max(beyond + off, 0.0), 1.0)
        cautious = replace(behaviour, squares=np.maximum(behaviour.squares, least))
        skew = np.average(cautious.squares * number, weights=behaviour.visits)
        if skew < _SKEWED:
            none = np.zeros_like(behaviour.chances)
            spent = max(spent - _LEANING, 0.0)
            return Look("differences", none, spent, behaviour, table, noise)
        leaning, off = self._release_leaning(behaviour, variance)
        way: Way = "differences"
        if self._stream.noise:
            rest = self._rest - spent
            louder = noise * first / float(np.hypot(first, rest))
            popular = self._gain_of_popular(behaviour, leaning + off, louder, spread)
            louder = self._stream.noise * bound / rest
            differences = self._gain_of_differences(
                cautious, leaning + off / 2, variance, louder, spread, divided=divided
            )
            if differences <= _MARGIN * spread.cell:
                # Little may be seen of it; with all of the budget more is, or nothing changes.
                way = "popular" if leaning + off > 0 else "behaviour"
            elif popular >= _NEARLY * differences:
                way = "popular"
        lean = leaning * behaviour.popularity()
        return Look(way, lean, spent, behaviour, table, noise)

    def most_popular(self, look: Look) -> IntArray:
        """Return the action that is taken most often in each state, for all that is left.

        -1, the behaviour, where it is not clear enough which that is: where the action that seems
        to be it is expected to be taken less often than the mean action is.
        """
        behaviour = look.behaviour
        if self._chances is None:
            more, noise = release_visits(
                self._stream, self._space, self._facts, self._rest - look.spent, by_action=True
            )
            weight = noise**2 / (look.noise**2 + noise**2)
            table = weight * look.table + (1 - weight) * more
            behaviour = self._behaviour(table, look.noise * float(np.sqrt(weight)))
        popularity = np.where(self._allowed, behaviour.popularity(), -np.inf)
        clear = (popularity.max(axis=1) > 0) | (self._allowed.sum(axis=1) == 1)
        best: IntArray = np.where(clear, popularity.argmax(axis=1), -1)
        return best

    def _behaviour(self, table: FloatArray, noise: float) -> Behaviour:
        if self._chances is None:
            return estimated_behaviour(table, noise, self._allowed)
        visits = positive(table[:, 0], np.full(len(table), noise**2))
        return known_behaviour(self._chances, visits)

    def _skew(self, table: FloatArray, noise: float, behaviour: Behaviour) -> tuple[float, float]:
        """Return what squared chances sum to beyond those of even ones, and how far off that is.

        From the squares of a noisy table, with three deviations of these: where noise hides which
        actions are taken, all that is known is that it may be nearly always the same.
        """
        if self._chances is not None:
            return 0.0, 0.0
        number = self._allowed.sum(axis=1)
        inside = np.where(self._allowed, table, 0.0)
        sums = inside.sum(axis=1)
        off = np.where(self._allowed, inside - (sums / number)[:, None], 0.0)
        free = float((number - 1).sum())
        found = float((off**2).sum()) - noise**2 * free - max(float(sums.sum()), 0.0)
        sure = 3 * noise**2 * math.sqrt(5 * free)
        whole = float((sums**2).sum()) - noise**2 * float(number.sum())
        whole = max(whole, float(behaviour.visits.sum()) ** 2 / len(table))
        return found / whole, sure / whole

    def _release_leaning(self, behaviour: Behaviour, variance: float) -> tuple[float, float]:
        """Return by how much actions are better for being popular, and how far off that may be.

        The advantage of an action is taken to be that, times its popularity. Then the covariance of
        the popularity of what was done, and of what was earned from there on, over all steps, is
        that, times the variance of the popularity: the derivative of the value in the direction of
        what is popular (the score function).
        """
        facts, chances = self._facts, behaviour.chances
        popularity = chances - (chances**2).sum(axis=1, keepdims=True)
        spread = float(np.average(behaviour.spread(), weights=behaviour.visits))
        mean, far = facts.outcome_reward + facts.step_reward / 2, self._farthest()
        steps = facts.episodes * facts.steps
        bound = 2 * float(np.sqrt(steps * spread))
        if not bound * far > 0:
            return 0.0, 0.0
        most = np.array([bound * far, bound, 2 * steps * far])
        unit = _LEANING * _PARTS / most
        discount = self._discount

        def adds(part: Log, _: FloatArray) -> Added:
            n, off = part.n_persons, returns_ahead(part, discount) - mean
            score = popularity[part.state, part.action]
            sums = [np.bincount(part.person, each, n) for each in (score * off, score, off)]
            amounts = np.clip(sums, -most[:, None], most[:, None]) * unit[:, None]
            cells = np.repeat(np.arange(3), n)
            return Added(np.tile(np.arange(n), 3), cells, amounts.ravel(), 1.0, _LEANING)

        both, score, off = self._stream.update(adds, 3) / unit
        slope = float(both - score * off / self._visits) / (self._visits * spread)
        noise = float(self._stream.noise / unit[0]) / (self._visits * spread)
        noise = math.hypot(noise, far / 2 / math.sqrt(self._visits * spread))  # who was logged
        # Where chances are off, so is popularity in a state as a whole, and states differ in what
        # follows them.
        shares = behaviour.visits / behaviour.visits.sum()
        confounded = float(np.sqrt(shares**2 @ behaviour.variance.sum(axis=1)))
        noise = math.hypot(noise, _CONFOUNDED * far * confounded / spread)
        prior = _LEANINGS * far
        leaning = slope * prior**2 / (prior**2 + noise**2)
        doubt = prior * noise / math.hypot(prior, noise)
        least = _LEAST * float(np.sqrt(variance)) * (slope > -2 * noise)
        return max(leaning, 0.0) + least, max(min(leaning, 0.0) + doubt, 0.0)

    def _farthest(self) -> float:
        """Return how far what an episode earns is from its mean, nearly always."""
        facts, (low, high) = self._facts, self._space.step_rewards
        ends = np.array([*self._space.outcome_rewards, 0.0]) - facts.outcome_reward
        return float(np.abs(ends).max() + facts.steps * (high - low) / 2)

    # What is expected to be gained, from one simulation ------------------------------------------

    def _gain_of_popular(
        self, behaviour: Behaviour, leaning: float, noise: float, spread: Spread
    ) -> float:
        """Return what is gained by doing what a table of visits with this noise shows."""
        rng = np.random.default_rng(0)
        true, seen = self._chances, behaviour
        if true is None:
            true = _drawn(behaviour, self._allowed, rng)
            table = behaviour.visits[:, None] * true
            table = table + rng.laplace(0.0, noise / np.sqrt(2), table.shape)
            seen = estimated_behaviour(table, noise, self._allowed)
        worth = _worth(true, leaning, spread, rng)
        shown = np.where(self._allowed, seen.popularity(), -np.inf)
        won = worth[np.arange(len(true)), shown.argmax(axis=1)]
        return float(
            np.average(np.where(shown.max(axis=1) > 0, won, 0.0), weights=behaviour.visits)
        )

    def _gain_of_differences(
        self,
        behaviour: Behaviour,
        leaning: float,
        variance: float,
        noise: float,
        spread: Spread,
        *,
        divided: bool,
    ) -> float:
        """Return what is gained by sums of temporal differences with this noise."""
        rng, gains = np.random.default_rng(1), []
        share = self._visits * behaviour.visits[:, None] / behaviour.visits.sum()
        for _ in range(_SIMULATIONS):
            true = self._chances
            if true is None:
                true = _drawn(behaviour, self._allowed, rng)
            worth = _worth(true, leaning, spread, rng)
            visits = np.maximum(share * true, 1e-3)
            means = worth + np.sqrt(variance / visits) * rng.standard_normal(true.shape)
            if divided:
                means += rng.laplace(0.0, noise / np.sqrt(2), true.shape) / visits
                lean = leaning * (true - (true**2).sum(axis=1, keepdims=True))
                doubt = variance / visits + (noise / visits) ** 2
                score = lean + expected(means - lean, doubt, spread.cell)
            else:
                # States differ in what follows them, and sums with them: to the good of frequent
                # actions, or of rare ones. Nor need what is better in the end show at once.
                means += spread.state * rng.standard_normal((len(true), 1)) - leaning * true
                score = visits * means + rng.exponential(noise / np.sqrt(2), true.shape)
            chosen = np.where(self._allowed, score, -np.inf).argmax(axis=1)
            won = worth[np.arange(len(true)), chosen]
            gains.append(np.average(won, weights=behaviour.visits))
        # Less by a standard error: else chance would choose what may do harm.
        return float(np.mean(gains) - np.std(gains) / math.sqrt(_SIMULATIONS))


def returns_ahead(part: Log, discount: float) -> FloatArray:
    """Return what each step and those after it in its episode earned, discounted."""
    left = np.repeat(part.episode_starts[1:], np.diff(part.episode_starts))
    left = left - np.arange(part.n_steps) - 1
    ahead = part.reward.copy()
    for number in range(1, int(left.max(initial=0)) + 1):
        here = np.flatnonzero(left == number)
        ahead[here] += discount * ahead[here + 1]
    return ahead


def _drawn(behaviour: Behaviour, allowed: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Return chances as they may be: of a leader, and alike of the others."""
    number = allowed.sum(axis=1)
    even = 1 / number
    above = np.maximum((behaviour.squares - even) * (1 - even), 0.0)
    chance = even + np.sqrt(above)
    leads = np.cumsum(behaviour.leads, axis=1)
    leader = (leads < rng.random((len(leads), 1)) * leads[:, -1:]).sum(axis=1)
    others = np.where(number > 1, (1 - chance) / np.maximum(number - 1, 1), 0.0)
    chances = np.where(allowed, others[:, None], 0.0)
    chances[np.arange(len(chances)), np.minimum(leader, allowed.shape[1] - 1)] = chance
    return chances


def _worth(
    chances: FloatArray, leaning: float, spread: Spread, rng: np.random.Generator
) -> FloatArray:
    """Return advantages of actions as they may be: of mean zero under the behaviour."""
    worth = leaning * chances + spread.cell * rng.standard_normal(chances.shape)
    drawn: FloatArray = worth - (worth * chances).sum(axis=1, keepdims=True)
    return drawn
