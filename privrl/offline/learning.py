"""Values are learned in rounds of temporal differences, and the last one is a vote.

A table of *temporal differences* has, for each state and action, the sum of what came of it beyond
what was expected: reward, plus the value of the next state, minus the value of the state. Under
constant values nearly all of it is zero but at the end of an episode, so that a person is one cell,
whatever they went through, and Laplace noise for one cell hides them. From a first table better
values are learned; under these a second one is summed, and so on. If only the policy leaves, the
last table need not: in each state its largest sum is voted for.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.partitions import PartitionedLog
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.behaviour import counted_steps, positive, usual_steps
from privrl.offline.design import FACTS, LEARNING, POPULARITY
from privrl.offline.evaluation import evaluated, weights_of
from privrl.offline.facts import Estimate, Task, estimate
from privrl.offline.persons import Added, Adds
from privrl.offline.popularity import Look, Other, Popularity, Skew, returns_ahead
from privrl.offline.returns import Decisions, Telling, decisions_of, release_returns, with_a_choice
from privrl.offline.shrinkage import Spread, action_effects, expected

Kind = Literal["behaviour", "vote", "rounds", "popular", "counts"]


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy, as in `LoggedPolicy`.

    Attributes
    ----------
    action : array of int, shape (S,) or, of kind "counts", (H, S)
        What to do in each state; -1 for the behaviour policy.
    kind : "behaviour", "vote", "rounds", "popular" or "counts"
        How it was made.
    values : array, shape (S,)
        The values that the last table was summed under; NaN where there is none.
    allowed : array of bool, shape (S, A)
        Between which actions it chose.
    signal : float
        What an action is taken to do over the noise on it, in the first round.
    value : Estimate or None
        The value of the policy, if it can be estimated.
    """

    action: IntArray
    kind: Kind
    values: FloatArray
    allowed: BoolArray
    signal: float
    value: Estimate | None


def learn(task: Task, log: Log | PartitionedLog, *, balanced: bool) -> Learned:
    """Return a policy that improves on the behaviour policy, as far as the noise allows.

    Parameters
    ----------
    task : Task
        What is learned from; its noise is Laplace, or none.
    log : Log or PartitionedLog
        Of which only what is public is read here.
    balanced : bool
        Whether all actions of a state were as frequent: then sums compare as means do.
    """
    # Without privacy one may look whether there is anything to learn from.
    empty = task.stream.noise == 0 and log.n_steps == 0
    return _Learner(task, balanced=balanced).learned(empty=empty)


@dataclass(frozen=True, eq=False)
class _Expected:
    """The expected reward and value of a step, from public and released numbers."""

    values: FloatArray
    drift: float  # earned a step, beyond values
    discount: float

    def differences(self, steps: Decisions) -> FloatArray:
        """Return what came of each step beyond that."""
        ahead = np.append(self.values, 0.0)[steps.next_state]
        return (
            steps.reward
            + steps.discount * ahead
            - self.values[steps.state]
            - self.drift * steps.steps
        )

    def of(self, part: Log) -> FloatArray:
        """Return the differences of all steps."""
        return self.differences(decisions_of(part, self.discount))


def _cells(steps: Decisions | Log, n_actions: int) -> IntArray:
    return steps.state * n_actions + steps.action


class _Told:
    """The estimates of actions after some rounds, beyond the mean of their state."""

    def __init__(
        self,
        allowed: BoolArray,
        visits: FloatArray,
        of_step: float,
        spread: Spread,
        lean: FloatArray,
    ) -> None:
        self.visits, self._allowed, self._spread = visits, allowed, spread
        self._lean = lean  # what is expected beforehand
        self._by_chance = of_step / visits
        self._mean, self._precision = np.zeros(allowed.shape), np.zeros(allowed.shape)
        self._effects, self._variance = np.zeros(allowed.shape), np.full(allowed.shape, np.inf)
        self.worth = np.zeros(allowed.shape)

    def hear(self, deviations: FloatArray, noise: float) -> None:
        """Take in one more round: its means, whose sums have this noise."""
        if noise:
            of_round = (self.visits / noise) ** 2
            both = self._precision + of_round
            self._mean = (self._mean * self._precision + deviations * of_round) / both
            self._precision = both
            self._variance = self._by_chance + 1 / both
        else:
            self._mean, self._variance = deviations, self._by_chance
        beyond = np.where(self._allowed, self._mean - self._lean, 0.0)
        self._effects = self._lean + action_effects(
            beyond, self._variance, self._allowed, self._spread
        )
        worth = expected(self._mean - self._effects, self._variance, self._spread.cell)
        self.worth = np.where(self._allowed, self._effects + worth, -np.inf)

    def favour(self, noise: float) -> FloatArray:
        """Return the earlier estimates in units of a vote of sums with this noise."""
        of_vote = self._by_chance + (noise / self.visits) ** 2
        return self._mean * noise**2 * self._precision / self.visits + (
            self._effects * self.visits * of_vote / self._spread.cell**2
        )

    def left(self, of_more: FloatArray | float = np.inf) -> FloatArray:
        """Return the posterior variance of the values of actions, also after further data."""
        precision = 1 / self._variance + 1 / self._spread.cell**2 + 1 / of_more
        return 1 / precision

    def gain_of_a_vote(self, noise: float) -> FloatArray:
        """Return the expected values of the winners of a vote, shape (S,).

        The posterior mean of an action after the vote is normal.
        """
        of_vote = self._by_chance + (noise / self.visits) ** 2
        moves, gain = np.sqrt(self.left() - self.left(of_vote)), np.zeros(len(self.worth))
        for normal in np.random.default_rng(0).standard_normal(
            (LEARNING.futures, *self.worth.shape)
        ):
            after = np.where(self._allowed, self.worth + moves * normal, -np.inf)
            gain += after.max(axis=1) / LEARNING.futures
        return gain


class _Learner:
    """One run of the rule. All of its decisions depend on public facts and released numbers."""

    def __init__(self, task: Task, *, balanced: bool) -> None:
        self._task, self._stream, self._space, self._facts = (
            task, task.stream, task.space, task.facts
        )  # fmt: skip
        self._discount, self._allowed, self._chances = task.discount, task.allowed, task.chances
        self._shape = task.space.n_states, task.space.n_actions
        self._balanced = balanced
        self._lean, self._spent = np.zeros(self._shape), FACTS.share + LEARNING.moments

    def learned(self, *, empty: bool) -> Learned:
        at_first = self._level(1.0)
        size, self._variance = self._moments(at_first)
        self._set_spread()
        strength = self._signal(0.2, size)
        by_rounds: tuple[float, ...] = next(s for most, s in LEARNING.rounds if strength < most)
        if not self._stream.noise:
            by_rounds = (1.0 / LEARNING.rounds_without_privacy,) * LEARNING.rounds_without_privacy
        action, values = np.full(self._shape[0], -1, np.intp), at_first.values
        value: Estimate | None = self._facts.done
        kind: Kind = "behaviour"
        faint, look = self._looked(self._signal(1.0, size, few=True), by_rounds, empty=empty)
        even = self._balanced or (look is not None and look.skew.upper < POPULARITY.even)
        by_returns = (
            self._outcomes_tell() and LEARNING.by_returns[0] <= strength < LEARNING.by_returns[1]
        )
        if by_returns:
            by_rounds = LEARNING.after_returns
        hope = min(1.0, self._signal(1.0, size) / 2) if by_rounds else float(even)
        level = self._level(hope)
        bound = self._largest(level, size)
        if look is not None and look.way == "popular":
            action = self._popularity.most_popular(look)
            if (action >= 0).any():
                kind, value = "popular", self._weighed(action)
        elif faint or empty or bound <= 0:
            pass
        elif by_rounds:
            kind = "rounds"
            action, values, value = self._in_rounds(by_rounds, level, bound, by_returns=by_returns)
        else:
            kind, values, value = "vote", level.values, None
            action = self._vote_at_once(level, bound)
        allowed = np.ones(self._shape, np.bool_) if self._allowed is None else self._allowed
        return Learned(
            action, kind, values, allowed, strength, value if self._discount == 1 else None
        )

    def _looked(
        self, signal: float, by_rounds: tuple[float, ...], *, empty: bool
    ) -> tuple[bool, Look | None]:
        """Return whether noise hides which action is best, and a first look, where one pays."""
        faint = signal < (LEARNING.faint if self._balanced else LEARNING.harmful) or self._blind()
        look = None
        if empty or signal < LEARNING.nothing:
            return faint, look
        if not self._balanced:
            other: Other = "rounds" if by_rounds else "vote"
            look = self._look("nothing" if faint else other, faint=faint or signal < LEARNING.weak)
            if (
                not by_rounds
                and (faint or look.way == "popular")
                and self._little_to_lose(look.skew)
            ):
                look, faint = replace(look, way="differences"), False
        elif by_rounds and self._allowed is None:
            look = self._look("even", faint=False)
        noisy = self._stream.noise > 0
        if (
            look is not None
            and noisy
            and self._allowed is None
            and look.skew.upper < POPULARITY.even
        ):
            self._allowed = np.ones(self._shape, np.bool_)  # all show, so all are admissible
        return faint, look

    def _look(self, other: Other, *, faint: bool) -> Look:
        """Release a first look at the behaviour policy, and use it."""
        self._popularity = Popularity(self._task, 1 - self._spent)
        look = self._popularity.look(self._variance, self._spread, other, faint=faint)
        self._spent, self._lean = self._spent + look.spent, look.lean
        return look

    def _little_to_lose(self, skew: Skew) -> bool:
        """Release whether outcomes are surely worse than the middle of what is possible.

        Where noise hides how skewed the behaviour policy is, a vote may be worse than an expert,
        but not by much if those who were treated fared badly.
        """
        paid = self._space.step_rewards[0] < self._space.step_rewards[1]
        if paid or skew.doubt < LEARNING.unsure or not self._stream.noise:
            return False
        low, high = self._space.return_range(self._discount)
        discount, most = self._discount, self._space.most_episodes

        def adds(part: Log, _: FloatArray) -> Added:
            first = part.episode_starts[:-1]
            off = 2 * (returns_ahead(part, discount)[first] - low) / (high - low) - 1
            return Added(
                part.person[first], np.zeros(len(first), np.intp), off, LEARNING.badly / most
            )

        above = float(self._stream.update(adds, 1)[0])
        self._spent += LEARNING.badly
        return above < -FACTS.deviations * self._stream.noise

    def _blind(self) -> bool:
        """Return whether noise hides even the value of an expert's behaviour policy."""
        done = self._facts.done
        return (
            not self._balanced
            and self._stream.noise > 0
            and (done.lower, done.upper) == self._space.return_range()
        )

    def _outcomes_tell(self) -> bool:
        """Return whether the admissible actions are known and outcomes alone pay."""
        low, high = self._space.step_rewards
        known = self._allowed is not None and self._stream.noise > 0
        return known and low == high and len(self._space.outcomes) > 0

    # What is public, or was released, of the size of things --------------------------------------

    def _level(self, hope: float) -> _Expected:
        """Return one value for all states, and the mean reward of a step."""
        facts, rest = self._facts, 1 - self._discount
        mean = facts.outcome_reward + facts.step_reward
        best = max(self._space.outcome_rewards, default=facts.outcome_reward)
        level = mean + hope / 2 * (best - facts.outcome_reward)
        drift = facts.step_reward / facts.steps - rest * level
        return _Expected(np.full(self._shape[0], level), drift, self._discount)

    def _ends(self, level: _Expected) -> FloatArray:
        """Return the difference that each outcome makes."""
        return np.array(self._space.outcome_rewards) - float(level.values[0]) - level.drift

    def _largest(self, level: _Expected, size: float) -> float:
        """Return what a person's differences sum to, nearly all persons': their bound."""
        earned = max(map(abs, (*self._space.step_rewards, *self._space.outcome_rewards)))
        return max(
            self._facts.episodes * _farthest(self._ends(level)), 1.5 * size, LEARNING.least * earned
        )

    def _moments(self, level: _Expected) -> tuple[float, float]:
        """Return the mean sum of a person's differences, and the mean square of a step's."""
        facts, (low, high) = self._facts, self._space.step_rewards
        ends = self._ends(level)
        if low == high:  # then differences are zero but at ends
            often = np.array(facts.outcomes) @ ends**2 if len(ends) else 0.0
            return 0.0, max(float(often) / facts.steps, 1e-12)
        of_steps = high - low + abs(level.drift) + (1 - self._discount) * abs(level.values[0])
        most = self._space.most_episodes * (_farthest(ends) + self._space.most_steps * of_steps)
        most_square = most * (_farthest(ends) + of_steps)

        def adds(part: Log, _: FloatArray) -> Added:
            n, differences = part.n_persons, np.abs(level.of(part))
            sums = np.bincount(part.person, weights=differences, minlength=n) / most
            squares = np.bincount(part.person, weights=differences**2, minlength=n) / most_square
            amount = np.minimum(np.concatenate([sums, squares]), 1)
            return Added(
                np.tile(np.arange(n), 2), np.repeat([0, 1], n), amount, LEARNING.moments / 2
            )

        told = self._stream.update(adds, 2) / (LEARNING.moments / 2) / self._facts.persons
        visits = self._facts.episodes * self._facts.steps
        size = min(max(told[0], 0.0), 1.0) * most
        square = min(max(told[1], 1e-4), 1.0) * most_square / visits
        return size, square

    def _set_spread(self) -> None:
        deviation = np.sqrt(self._variance)
        self._spread = Spread(
            cell=LEARNING.effect * deviation,
            action=LEARNING.effect * LEARNING.in_all * deviation,
            state=LEARNING.effect * LEARNING.of_states * deviation,
        )

    def _signal(self, share: float, size: float, *, few: bool = False) -> float:
        """Return what an action is taken to do over the noise on it, in a table of that share.

        ``few`` actions of a state count, as where it is not known which are admissible.
        """
        number = np.full(*self._shape) if self._allowed is None else self._allowed.sum(axis=1)
        few = few or self._allowed is None or not self._stream.noise
        n_cells = int((np.minimum(number, LEARNING.few_actions) if few else number).sum())
        of_cell = self._task.visits / n_cells
        noise = self._stream.noise * self._largest(self._level(1.0), size) / share
        deviation = np.sqrt(self._variance * of_cell + noise**2)
        return float(self._spread.cell * of_cell / deviation)

    # Tables --------------------------------------------------------------------------------------

    def _vote_at_once(self, level: _Expected, bound: float) -> IntArray:
        """Vote for an action in each state, by sums of differences.

        A person with budget left adds it to the actions of their first steps. Actions that are
        never taken get no votes then, and in a skewed log rare ones do not win by being rare.
        """
        whole, most = 1 - self._spent, usual_steps(self._facts)
        unit, n_actions = whole / bound, self._shape[1]
        allowed = np.ones(self._shape, np.bool_) if self._allowed is None else self._allowed
        choice = allowed.sum(axis=1) > 1

        def adds(part: Log, _: FloatArray) -> Added:
            steps = with_a_choice(part, level.discount, choice)
            amount, n = level.differences(steps), part.n_persons
            cost = np.bincount(steps.person, weights=np.abs(amount), minlength=n) * unit
            counted = np.flatnonzero(counted_steps(part, most) & choice[part.state])
            person = part.person[counted]
            number = np.maximum(np.bincount(person, minlength=n), most)
            room = np.maximum(whole - cost, 0.0) / unit / number
            return Added(
                np.append(steps.person, person),
                np.append(_cells(steps, n_actions), _cells(part, n_actions)[counted]),
                np.append(amount, room[person]),
                unit,
            )

        return self._stream.vote(adds, allowed, np.zeros(self._shape))

    def _in_rounds(
        self, shares: tuple[float, ...], level: _Expected, bound: float, *, by_returns: bool
    ) -> tuple[IntArray, FloatArray, Estimate]:
        rest = 1 - self._spent - (LEARNING.support if self._allowed is None else LEARNING.visits)
        by_vote = self._balanced and len(shares) < LEARNING.rounds_without_privacy
        expects, telling, step, more = level, None, LEARNING.step, LEARNING.more
        if by_returns:
            visits, expects, telling = self._move_to_returns(rest, level, bound)
            rest, step, more = (
                rest * (1 - LEARNING.returns),
                1.0,
                LEARNING.more * float(telling.part.min()),
            )
        else:
            visits = self._release_visits(rest, level, bound, LEARNING.kept[0])
        allowed = self._allowed
        assert allowed is not None
        least, centre = bound, float(level.values[0])
        n_actions, of_state = self._shape[1], visits.sum(axis=1)
        told = _Told(allowed, visits, self._variance, self._spread, self._lean)
        for number, share in enumerate([*shares, 1 - sum(shares)]):
            last = number == len(shares)
            if number:
                bound = least + more * float(
                    np.sqrt(np.average((expects.values - centre) ** 2, weights=of_state))
                )
            unit = (share or 1.0) * rest / bound
            vote = last and by_vote
            adds = _differences(expects, telling, n_actions, unit, 1.0 if vote else share * rest)
            if vote:
                noise = self._stream.noise / unit / np.sqrt(2.0)
                action = self._stream.vote(adds, allowed, told.favour(noise) * unit)
                gain = told.gain_of_a_vote(noise)
                return action, expects.values, self._value(action, gain, told)
            table = self._stream.update(adds, allowed.size)
            table = np.where(allowed, table.reshape(self._shape) / unit, 0.0)
            noise = self._stream.noise / unit
            means = table.sum(axis=1) / of_state
            told.hear(np.where(allowed, table / visits - means[:, None], 0.0), noise)
            best = told.worth.max(axis=1)
            if last:
                action = told.worth.argmax(axis=1)
                if not self._balanced:
                    action = np.where((best > 0) | (allowed.sum(axis=1) == 1), action, -1)
                return action, expects.values, self._value(action, best, told)
            of_means = self._variance / of_state + allowed.sum(axis=1) * (noise / of_state) ** 2
            above = means - np.average(means, weights=of_state)
            gain = expected(above, of_means, self._spread.state) + best
            gain -= np.average(gain, weights=of_state)
            moved = expects.values + (step if not number else 1.0) * gain
            expects = replace(expects, values=np.clip(moved, *self._possible()))
        raise AssertionError("the last round returns")

    def _value(self, action: IntArray, gain: FloatArray, told: "_Told") -> Estimate:
        """Return what was done, and beyond it what is gained in each state, as often as it was."""
        chosen = np.arange(len(action)), np.maximum(action, 0)
        often = np.where(action >= 0, told.visits.sum(axis=1), 0.0)
        episodes = self._facts.persons * self._facts.episodes
        gained = float((often * np.where(action >= 0, gain, 0.0)).sum()) / episodes
        off = float(np.sqrt((often**2 * told.left()[chosen]).sum())) / episodes
        done, (low, high) = self._facts.done, LEARNING.gains
        if not self._balanced:
            return self._unsure(done.value + gained)
        below = math.hypot(done.value - done.lower, FACTS.deviations * off) + (1 - low) * abs(
            gained
        )
        above = math.hypot(done.upper - done.value, FACTS.deviations * off) + (high - 1) * abs(
            gained
        )
        return estimate(done.value + gained, below, above, self._space.return_range())

    def _weighed(self, action: IntArray) -> Estimate:
        """Return the value of frequent actions by importance sampling, if propensities are public.

        These actions follow from propensities and from where persons were, not from their returns,
        so that the same persons can tell it; they have all that is left of their budgets for it.
        """
        if self._chances is None or self._discount != 1:
            return self._unsure(self._facts.done.value)
        ratio = weights_of(action[None], self._chances)
        rest = 1 - self._spent
        found = evaluated(
            self._stream, self._space, ratio, confidence=LEARNING.confidence, share=rest
        )
        return Estimate(found.value, found.lower, found.upper)

    def _unsure(self, value: float) -> Estimate:
        """Return an estimate with the lowest and highest return as bounds.

        With few persons who were treated as the policy would treat them, its error is unknown.
        """
        return estimate(value, math.inf, math.inf, self._space.return_range())

    def _move_to_returns(
        self, rest: float, level: _Expected, bound: float
    ) -> tuple[FloatArray, _Expected, Telling]:
        """Return visits, values moved to what states lead to, and the weights of later moves."""
        kept = LEARNING.kept[1 if self._chances is None else 2]
        visits = self._release_visits(rest, level, bound, kept)
        ends = self._ends(level)
        asked = np.minimum(1.0, np.abs(ends) * self._facts.episodes / bound + kept)
        found = release_returns(
            self._stream,
            self._space,
            self._facts,
            level.of,
            share=LEARNING.returns * rest,
            bound=bound,
            visits=visits.sum(axis=1),
            room=np.maximum(1 - self._spent - rest * asked, LEARNING.visits),
            ends=ends,
        )
        moved = np.clip(level.values + LEARNING.slope * found.above, *self._possible())
        return visits * found.times[:, None], replace(level, values=moved), found.telling

    def _possible(self) -> tuple[float, float]:
        """Return the least and the greatest possible value."""
        if self._space.step_rewards[0] < self._space.step_rewards[1]:
            return -np.inf, np.inf
        ends = 0.0, *self._space.outcome_rewards
        return min(ends), max(ends)

    def _release_visits(
        self, rest: float, level: _Expected, bound: float, kept: float
    ) -> FloatArray:
        """Return how often each action was taken, > 0: a noisy table, smoothed."""
        noise, n_actions = self._stream.noise, self._shape[1]

        def adds(part: Log, left: FloatArray) -> Added:
            n, cells = part.n_persons, _cells(part, n_actions)
            if not noise:
                return Added(part.person, cells, np.ones(part.n_steps))
            differences = np.abs(level.of(part))
            wanted = np.bincount(part.person, weights=differences, minlength=n) / bound
            # What the rounds may still ask of a person is not touched.
            room = np.maximum(left - rest * np.minimum(1.0, wanted + kept), LEARNING.visits)
            each = 1 / np.bincount(part.person, minlength=n)[part.person]
            return Added(part.person, cells, each, room, room)

        table = self._stream.update(adds, int(np.prod(self._shape))).reshape(self._shape)
        if self._allowed is None:
            self._allowed = _shown(table, noise)
        elif not noise:
            self._allowed = self._allowed & _shown(np.where(self._allowed, table, -1.0), noise)
        allowed = self._allowed
        inside = np.where(allowed, table, 0.0)
        factor = self._task.visits / max(inside.sum(), noise)
        number = allowed.sum(axis=1)
        of_state = positive(inside.sum(axis=1), noise**2 * number)
        even = (of_state / number)[:, None]
        if not noise:
            cells = np.maximum(inside, 0.5)
        elif self._balanced:
            cells = np.where(allowed, even, 0.0)
        elif self._chances is not None:
            cells = of_state[:, None] * self._chances
        else:
            prior = (0.7 * even) ** 2
            cells = even + (inside - even) * prior / (prior + noise**2 + even / 3)
            cells = np.maximum(cells, 0.15 * even)
        return np.where(allowed, cells * factor, 1.0)


def _farthest(amounts: FloatArray) -> float:
    return float(np.abs(amounts).max(initial=0.0))


def _differences(
    expects: _Expected, telling: Telling | None, n_actions: int, unit: float, most: float
) -> Adds:
    """Return the contributions to a table of differences."""

    def adds(part: Log, _: FloatArray) -> Added:
        amount = expects.of(part)
        if telling is not None:
            amount = amount * telling.weights(part)
        return Added(part.person, _cells(part, n_actions), amount, unit, most)

    return adds


def _shown(table: FloatArray, noise: float) -> BoolArray:
    """Return which actions a noisy table of visits shows; one at least in each state."""
    part = 0.08 * np.maximum(table, 0.0).sum(axis=1, keepdims=True)
    shown: BoolArray = table > np.maximum(3 * noise, part)
    shown[np.arange(len(table)), table.argmax(axis=1)] = True
    return shown
