"""A policy from a log of persons: values are learned in rounds, and the last one is a vote.

A table of *temporal differences* has, for each state and action, the sum of what came of it beyond
what was expected: reward, plus the value of the next state, minus the value of the state. Under
constant values nearly all of it is zero but at the end of an episode, so that a person is one cell,
whatever they went through, and Laplace noise for one cell hides them. From a first table better
values are learned; under these a second one is summed, and so on. If only the policy leaves, the
last table need not: in each state its largest sum is voted for.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from privrl._checks import check_rng
from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.accounting.base import Accountant
from privrl.costs.base import Cost
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import Relation
from privrl.data.logs import Log
from privrl.offline.budget import person_cost
from privrl.offline.counts import (
    LARGEST,
    belief_of,
    counts_show,
    release_counts,
    table_size,
)
from privrl.offline.decisions import Decisions, decisions_of, with_a_choice
from privrl.offline.facts import SHARE, LogFacts, release_facts
from privrl.offline.persons import PersonStream
from privrl.offline.shrinkage import Spread, action_effects, expected
from privrl.offline.support import check_discount, check_support

Kind = Literal["behaviour", "vote", "rounds", "counts"]

_MOMENTS: Final = 0.01  # of the budget, for how large differences are
_VISITS: Final = 0.03  # of the budget, for who was where; more from those who have more left
_EFFECT: Final = 0.15  # of a difference's deviation: how much what an action does differs
_IN_ALL: Final = 1 / 3  # of that: what an action does in all states alike
_OF_STATES: Final = 1.5  # times that: how much states differ
_STEP: Final = 2.0  # how far values move, times what one step ahead says
_MORE: Final = 2.0  # deviations of the values by which a person's sum may grow
_FAINT: Final = 0.02  # signal to noise below which nothing is better than what is done
_SHARES: Final = ((0.7, ()), (1.5, (0.2,)), (np.inf, (0.1, 0.1, 0.1)))
_AHEAD: Final = 0.5  # scales of the noise
_ROUNDS: Final = 12  # without privacy
_FEW_ACTIONS: Final = 3  # of each state, where it is not known which there are
_LEAST: Final = 1e-6  # of the largest reward: persons' sums are not smaller
LONGEST: Final = 2**27  # entries of a plan for each step and state


@dataclass(frozen=True, eq=False)
class LoggedPolicy:
    """A policy from a log, and what left on the way to it.

    Attributes
    ----------
    action : array of int, shape (S,) or, of kind "counts", (H, S)
        What to do in each state; -1 for what is done there already.
    kind : "behaviour", "vote", "rounds" or "counts"
        How it was made. "behaviour": the log cannot tell actions apart at this budget, so that
        nothing was recommended. "vote": from one vote. "rounds": values were learned first.
        "counts": all transitions were counted, and planned for.
    values : array, shape (S,)
        The values that the last table was summed under; NaN of kind "counts".
    allowed : array of bool, shape (S, A)
        Between which actions it chose.
    facts : LogFacts
        What else left.
    signal : float
        What an action is taken to do over the noise on it, in the first round.
    cost : Cost
        Of everything, for a person.
    """

    action: IntArray
    kind: Kind
    values: FloatArray
    allowed: BoolArray
    facts: LogFacts
    signal: float
    cost: Cost


def fit_policy(
    log: Log,
    *,
    epsilon: float | None,
    delta: float | None = None,
    order: float | None = None,
    relation: Relation | None = None,
    discount: float = 1.0,
    admissible: BoolArray | None = None,
    behaviour: FloatArray | Literal["uniform"] | None = None,
    rng: np.random.Generator,
    accountant: Accountant | None = None,
) -> LoggedPolicy:
    """Return a policy that is better than what was done, as far as a log tells.

    Parameters
    ----------
    log : Log
        What persons went through.
    epsilon, delta, order, relation
        The budget of a person, with all of their episodes, see `person_cost`. By default pure, and
        a person is added or removed.
    discount : float
        In (0, 1]: what a reward counts one step later.
    admissible : array of bool, shape (S, A), optional
        Which actions there are in each state, if that is public. By default those that the log
        shows, as far as noise lets it.
    behaviour : array, shape (S, A), or "uniform", optional
        The chances of actions that were followed, if that is public, as in a trial: ``"uniform"``
        over admissible ones. By default they are estimated.
    rng : numpy.random.Generator
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged once, before anything leaves.

    Returns
    -------
    LoggedPolicy

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If an argument is out of range, or has another shape.
    """
    check_rng(rng)
    cost = person_cost(epsilon, relation, delta=delta, order=order)
    discount = check_discount(discount)
    check_policy(log, cost, discount)
    allowed, chances, uniform = check_support(log, admissible, behaviour)
    stream = PersonStream(log.n_persons, cost, rng, accountant)
    facts = release_facts(stream, log)
    if discount == 1 and counts_show(stream, log, facts, allowed):
        return _by_counts(log, stream, facts, allowed)
    if not stream.sums:
        return _nothing(log, stream, facts, allowed)
    return _Learner(
        log,
        stream,
        facts,
        discount=discount,
        allowed=allowed,
        chances=chances,
        balanced=uniform,
    ).policy()


def check_policy(log: Log, cost: Cost, discount: float) -> None:
    """Check what is public of a log, before a policy is made from it.

    Raises
    ------
    ValueError
        If the noise does not go with the discount or the sizes, a plan would be too long, or
        nothing is earned.
    """
    if not any((*log.step_rewards, *log.outcome_rewards)):
        raise ValueError(
            "log must have rewards, got none that is not 0: no action is better than others; give "
            "a column of them, or outcome_rewards."
        )
    counts = table_size(log) <= LARGEST and discount == 1
    if isinstance(cost, GaussianCost) and not counts:
        raise ValueError(
            f"delta and order must be left out for a discount or more than {LARGEST} possible "
            f"transitions, got {log.n_states} states, {log.n_actions} actions and a discount of "
            f"{discount:g}; Laplace noise hides what does not need all of them."
        )
    if counts and log.most_steps * log.n_states > LONGEST:
        raise ValueError(
            f"most_steps times states must be at most {LONGEST} where a plan for each step may be "
            f"made, got {log.most_steps} and {log.n_states}; let episodes be shorter."
        )


def _by_counts(
    log: Log, stream: PersonStream, facts: LogFacts, allowed: BoolArray | None
) -> LoggedPolicy:
    """Plan for what released counts show, pessimistic of what they do not."""
    counts = release_counts(stream, log, facts, 1 - SHARE)
    belief = belief_of(counts, log.most_steps, allowed)
    allowed = np.ones((log.n_states, log.n_actions), np.bool_) if allowed is None else allowed
    action = belief.mean_plan()[0]
    # Where nothing is known an action that is not there may be as good as any.
    action = np.where(allowed[np.arange(log.n_states), action], action, -1)
    return LoggedPolicy(
        action=action,
        kind="counts",
        values=np.full(log.n_states, np.nan),
        allowed=allowed,
        facts=facts,
        signal=math.inf,
        cost=stream.cost,
    )


def _nothing(
    log: Log, stream: PersonStream, facts: LogFacts, allowed: BoolArray | None
) -> LoggedPolicy:
    shape = log.n_states, log.n_actions
    return LoggedPolicy(
        action=np.full(log.n_states, -1, np.intp),
        kind="behaviour",
        values=np.full(log.n_states, np.nan),
        allowed=np.ones(shape, np.bool_) if allowed is None else allowed,
        facts=facts,
        signal=0.0,
        cost=stream.cost,
    )


class _Learner:
    """One run of the rule: all that it decides depends on public facts and on what was released."""

    def __init__(
        self,
        log: Log,
        stream: PersonStream,
        facts: LogFacts,
        *,
        discount: float,
        allowed: BoolArray | None,
        chances: FloatArray | None,
        balanced: bool,
    ) -> None:
        self._log, self._stream, self._facts = log, stream, facts
        self._discount, self._allowed, self._chances = discount, allowed, chances
        self._shape = log.n_states, log.n_actions
        self._steps = decisions_of(log, discount)
        self._balanced = balanced  # where all are as frequent, sums compare as means do

    def policy(self) -> LoggedPolicy:
        level, self._drift = self._level(1.0)
        size, self._variance = self._moments(level)
        self._set_spread()
        self._strength = self._signal(0.2, size)
        self._values = np.full(self._shape[0], level)
        if self._signal(1.0, size) < _FAINT:
            return self._result(np.full(self._shape[0], -1, np.intp), "behaviour")
        shares: tuple[float, ...] = next(s for most, s in _SHARES if self._strength < most)
        if not self._stream.noise:
            shares = (1.0 / _ROUNDS,) * _ROUNDS
        hope = min(1.0, self._signal(1.0, size) / 2) if shares or self._balanced else 0.0
        level, self._drift = self._level(hope)
        self._values, self._bound = np.full(self._shape[0], level), self._largest(level, size)
        learns = self._stream.noise > 0 or self._log.n_steps > 0  # without privacy one may look
        if not (self._bound > 0 and learns):
            return self._result(np.full(self._shape[0], -1, np.intp), "behaviour")
        if shares:
            return self._result(self._in_rounds(shares), "rounds")
        return self._result(self._vote_at_once(), "vote")

    def _result(self, action: IntArray, kind: Kind) -> LoggedPolicy:
        allowed = np.ones(self._shape, np.bool_) if self._allowed is None else self._allowed
        return LoggedPolicy(
            action=action,
            kind=kind,
            values=self._values,
            allowed=allowed,
            facts=self._facts,
            signal=self._strength,
            cost=self._stream.cost,
        )

    # What is public, or was released, of the size of things --------------------------------------

    def _level(self, hope: float) -> tuple[float, float]:
        """Return a value for all states, and what is earned a step beyond it."""
        facts, rest = self._facts, 1 - self._discount
        mean = facts.outcome_reward + facts.step_reward
        best = max(self._log.outcome_rewards, default=facts.outcome_reward)
        level = mean + hope / 2 * (best - facts.outcome_reward)
        return level, facts.step_reward / facts.steps - rest * level

    def _largest(self, level: float, size: float) -> float:
        """Return what a person's differences sum to, nearly all persons': their bound."""
        ends = (abs(each - level - self._drift) for each in self._log.outcome_rewards)
        earned = max(map(abs, (*self._log.step_rewards, *self._log.outcome_rewards)))
        return max(self._facts.episodes * max(ends, default=0.0), 1.5 * size, _LEAST * earned)

    def _moments(self, level: float) -> tuple[float, float]:
        """Return the mean sum of a person's differences, and the mean square of a step's."""
        differences = np.abs(self._differences(self._steps, np.full(self._shape[0], level)))
        n, person = self._log.n_persons, self._log.person
        ends = max(
            (abs(each - level - self._drift) for each in self._log.outcome_rewards), default=0
        )
        low, high = self._log.step_rewards
        of_steps = high - low + abs(self._drift) + (1 - self._discount) * abs(level)
        most = self._log.most_episodes * (ends + self._log.most_steps * of_steps * (high > low))
        most_square = most * (ends + of_steps * (high > low))
        if most <= 0:
            return 0.0, 1e-12
        sums = np.minimum(np.bincount(person, weights=differences, minlength=n) / most, 1)
        squares = np.bincount(person, weights=differences**2, minlength=n) / most_square
        told = (
            self._stream.update(
                np.tile(np.arange(n), 2),
                np.repeat([0, 1], n),
                np.concatenate([sums, np.minimum(squares, 1)]),
                2,
                _MOMENTS / 2,
            )
            / (_MOMENTS / 2)
            / self._facts.persons
        )
        visits = self._facts.episodes * self._facts.steps
        size = min(max(told[0], 0.0), 1.0) * most
        square = min(max(told[1], 1e-4), 1.0) * most_square / visits
        return (size if high > low else 0.0), square

    def _set_spread(self) -> None:
        facts = self._facts
        self._visits = facts.persons * facts.episodes * facts.steps
        deviation = np.sqrt(self._variance)
        self._spread = Spread(
            cell=_EFFECT * deviation,
            action=_EFFECT * _IN_ALL * deviation,
            state=_EFFECT * _OF_STATES * deviation,
        )

    def _signal(self, share: float, size: float) -> float:
        """Return what an action is taken to do over the noise on it, in a table of that share."""
        if self._allowed is None:
            n_cells = self._shape[0] * min(_FEW_ACTIONS, self._shape[1])
        else:
            n_cells = int(self._allowed.sum())
        of_cell = self._visits / n_cells
        noise = self._stream.noise * self._largest(self._level(1.0)[0], size) / share
        deviation = np.sqrt(self._variance * of_cell + noise**2)
        return float(self._spread.cell * of_cell / deviation)

    # Tables --------------------------------------------------------------------------------------

    def _differences(self, steps: Decisions, values: FloatArray) -> FloatArray:
        ahead = np.append(values, 0.0)[steps.next_state]
        return (
            steps.reward + steps.discount * ahead - values[steps.state] - self._drift * steps.steps
        )

    def _cells(self, steps: Decisions) -> IntArray:
        return steps.state * self._shape[1] + steps.action

    def _vote_at_once(self) -> IntArray:
        unit, n = (1 - SHARE - _MOMENTS) / self._bound, self._log.n_persons
        if self._allowed is not None:
            steps = with_a_choice(self._log, self._discount, self._allowed.sum(axis=1) > 1)
            person, cells = steps.person, self._cells(steps)
            amount = self._differences(steps, self._values)
            allowed = self._allowed
        else:
            # Who has something left says with it where they were: what nobody does, none votes for.
            person, cells = self._log.person, self._cells(self._steps)
            amount = self._differences(self._steps, self._values)
            cost = np.bincount(person, weights=np.abs(amount), minlength=n) * unit
            room = np.maximum(1 - SHARE - _MOMENTS - cost, 0.0) / np.bincount(person, minlength=n)
            amount = amount + room[person] / unit
            allowed = np.ones(self._shape, np.bool_)
        return self._vote(person, cells, amount, allowed, unit=unit, favour=np.zeros(self._shape))

    def _vote(
        self,
        person: IntArray,
        cells: IntArray,
        amount: FloatArray,
        allowed: BoolArray,
        *,
        unit: float,
        favour: FloatArray,
    ) -> IntArray:
        """Vote for an action in each state, or for what is done there already, -1.

        Where actions were taken alike, one of them at random is as good as what was done. Where
        they were not, and rewards are earned on the way, of which values that are alike know
        nothing, that may be better than any: it stands for election too, a little ahead.
        """
        low, high = self._log.step_rewards
        if self._balanced or low == high:
            return self._stream.vote(person, cells, amount, allowed, unit=unit, favour=favour)
        n_states, n_actions = self._shape
        wider = cells // n_actions * (n_actions + 1) + cells % n_actions
        ahead = _AHEAD * self._stream.noise / np.sqrt(2.0) / unit
        chosen = self._stream.vote(
            person,
            wider,
            amount,
            np.hstack([allowed, np.ones((n_states, 1), np.bool_)]),
            unit=unit,
            favour=np.hstack([favour, np.full((n_states, 1), ahead)]),
        )
        return np.where(chosen == n_actions, -1, chosen)

    def _in_rounds(self, shares: tuple[float, ...]) -> IntArray:
        steps, cells = self._steps, self._cells(self._steps)
        rest = 1 - SHARE - _MOMENTS - _VISITS
        by_vote = self._balanced and len(shares) < _ROUNDS
        visits = self._release_visits(rest)
        allowed = self._allowed
        assert allowed is not None
        of_state = visits.sum(axis=1)
        told, precision = np.zeros(self._shape), np.zeros(self._shape)
        effects = np.zeros(self._shape)
        bound, centre = self._bound, float(self._values[0])
        for number, share in enumerate([*shares, 1 - sum(shares)]):
            last = number == len(shares)
            if number:
                bound = self._bound + _MORE * float(
                    np.sqrt(np.average((self._values - centre) ** 2, weights=of_state))
                )
            unit = (share or 1.0) * rest / bound
            differences = self._differences(steps, self._values)
            if last and by_vote:
                noise = self._stream.noise / unit / np.sqrt(2.0)
                variance = self._variance / visits + (noise / visits) ** 2
                favour = told * visits * noise**2 * precision / visits**2 + (
                    effects * visits * variance / self._spread.cell**2
                )
                return self._vote(
                    steps.person, cells, differences, allowed, unit=unit, favour=favour
                )
            table = self._stream.update(
                steps.person, cells, differences, allowed.size, unit, most=share * rest
            )
            table = np.where(allowed, table.reshape(self._shape) / unit, 0.0)
            noise = self._stream.noise / unit
            means = table.sum(axis=1) / of_state
            deviations = np.where(allowed, table / visits - means[:, None], 0.0)
            if noise:
                of_round = (visits / noise) ** 2
                told = (told * precision + deviations * of_round) / (precision + of_round)
                precision = precision + of_round
                variance = self._variance / visits + 1 / precision
            else:
                told, variance = deviations, self._variance / visits
            effects = action_effects(told, variance, allowed, self._spread)
            worth = effects + expected(told - effects, variance, self._spread.cell)
            worth = np.where(allowed, worth, -np.inf)
            if last:
                return worth.argmax(axis=1)
            of_means = self._variance / of_state + allowed.sum(axis=1) * (noise / of_state) ** 2
            above = means - np.average(means, weights=of_state)
            gain = expected(above, of_means, self._spread.state) + worth.max(axis=1)
            gain -= np.average(gain, weights=of_state)
            moved = self._values + _STEP * (0.5 if number else 1.0) * gain
            self._values = np.clip(moved, *self._possible())
        raise AssertionError("the last round returns")

    def _possible(self) -> tuple[float, float]:
        """Return between what values are."""
        if self._log.step_rewards[0] < self._log.step_rewards[1]:
            return -np.inf, np.inf
        return min(0.0, *self._log.outcome_rewards), max(0.0, *self._log.outcome_rewards)

    def _release_visits(self, rest: float) -> FloatArray:
        """Return how often each action was taken in each state, > 0: a noisy table, smoothed."""
        log, steps, n = self._log, self._steps, self._log.n_persons
        differences = np.abs(self._differences(steps, self._values))
        wanted = np.bincount(log.person, weights=differences, minlength=n) / self._bound
        # What the rounds may still ask of a person is not touched.
        room = self._stream.left - rest * np.minimum(1.0, wanted + 0.3)
        room = np.maximum(room, _VISITS)
        length = np.bincount(log.person, minlength=n)
        noise = self._stream.noise
        part = 1 / length[log.person] if noise else np.ones(log.n_steps)
        size = int(np.prod(self._shape))
        unit = room if noise else 1.0
        table = self._stream.update(log.person, self._cells(steps), part, size, unit, most=room)
        table = table.reshape(self._shape)
        if self._allowed is None:
            self._allowed = _shown(table, noise)
        allowed = self._allowed
        inside = np.where(allowed, table, 0.0)
        factor = self._visits / max(inside.sum(), noise)
        number = allowed.sum(axis=1)
        of_state = _positive(inside.sum(axis=1), noise**2 * number)
        even = (of_state / number)[:, None]
        if self._balanced:
            cells = np.where(allowed, even, 0.0)
        elif self._chances is not None:
            cells = of_state[:, None] * self._chances
        elif not noise:
            cells = np.maximum(inside, 0.5)
        else:
            prior = (0.7 * even) ** 2
            cells = even + (inside - even) * prior / (prior + noise**2 + even / 3)
            cells = np.maximum(cells, 0.15 * even)
        visits: FloatArray = np.where(allowed, cells * factor, 1.0)
        return visits


def _positive(noisy: FloatArray, variance: FloatArray) -> FloatArray:
    """Return what is expected of positive amounts that differ by about half of their mean."""
    mean = max(float(noisy.mean()), float(np.sqrt(variance.mean() / len(noisy))))
    prior = (0.5 * mean) ** 2
    if noisy.var() > variance.mean() + prior:
        prior = float(noisy.var() - variance.mean())
    smooth = mean + (noisy - mean) * prior / (prior + variance)
    amounts: FloatArray = np.maximum(smooth, 0.02 * mean)
    return amounts


def _shown(table: FloatArray, noise: float) -> BoolArray:
    """Return which actions a noisy table of visits shows; one at least in each state."""
    part = 0.08 * np.maximum(table, 0.0).sum(axis=1, keepdims=True)
    shown: BoolArray = table > np.maximum(3 * noise, part)
    shown[np.arange(len(table)), table.argmax(axis=1)] = True
    return shown
