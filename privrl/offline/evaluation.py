"""The value of a policy, from other persons than those that it was learned from.

Each episode has a *weight*, how much more often the policy would have gone that way than those who
were logged, and a *place* from 0 to 1, the position of its return in the public range. It adds its
weight to two sums: the part ``place`` of it to a high one, the rest to a low one. So an episode
costs its weight, whatever it earned, and the value is the part of the high sum in both. All that a
person adds is divided by the largest weight that there can be, and by how many episodes there can
be: they pay a budget at most (`privrl.offline.persons`).

**How far off it may be.** For a supposed value v, in places, the sum over all persons of
``high (1 - v) - low v`` is zero but for chance and noise; values for which it is not, by more than
so many of its deviations, are outside the bounds (Fieller, 1954), which remain sensible where noise
is as large as the sums. The deviation is that of the noise and of the squares of what persons add
to this sum, which are released in a second table. Those who have a weight of a part t of the
largest have the part 1 - t of their budget left, and ``t - t²`` is less: so they need not add the
square of t, but say by how much it is smaller than t, and mostly that costs nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from privrl.accounting.base import Accountant
from privrl.costs.base import Cost
from privrl.costs.relations import Relation
from privrl.data.logs import Log
from privrl.data.logs.log import LogSpace
from privrl.data.logs.partitions import PartitionedLog
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_is, plain_array
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.design import EVALUATION
from privrl.offline.persons import Added, PersonStream, paid_stream, person_cost
from privrl.offline.support import check_discount, check_support

Method = Literal["last", "steps"]

_FAR: Final = 700.0  # logarithm of the largest weight


@dataclass(frozen=True)
class PolicyValue(InHtml):
    """The value of a policy: released.

    Attributes
    ----------
    value : float
        What an episode earns that starts where those of the log do, an estimate.
    deviation : float
        Its standard deviation: of who happened to be logged, and of noise.
    lower, upper : float
        Bounds, each by itself to the confidence that was asked for.
    method : "last" or "steps"
        Which decisions are weighed: see `evaluate_policy`.
    clip : float or None
        The largest weight of an episode; larger ones were clipped. None if no weight can be larger.
    persons : float
        The noisy number of persons.
    cost : Cost
        Of everything, for a person.
    randomness : str, optional
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.
    """

    value: float
    deviation: float
    lower: float
    upper: float
    method: Method
    clip: float | None
    persons: float
    cost: Cost
    randomness: str | None = None


def evaluate_policy(
    log: Log | PartitionedLog,
    action: IntArray,
    *,
    epsilon: float | None,
    behaviour: FloatArray | Literal["uniform"],
    admissible: BoolArray | None = None,
    relation: Relation | None = None,
    discount: float = 1.0,
    confidence: float = 0.95,
    method: Method | None = None,
    rng: Rng = None,
    accountant: Accountant | None = None,
) -> PolicyValue:
    """Return what an episode earns under a policy, with bounds.

    No person of the log may have had a part in the policy.

    Parameters
    ----------
    log, discount, rng, accountant
        As for `privrl.offline.fit_policy`.
    action : array of int, shape (S,) or (H, S)
        What the policy does in each state; -1 for the behaviour policy.
    epsilon : float or None
        Pure differential privacy of a person, with all of their episodes, in nats; None for none.
    behaviour : array, shape (S, A), or "uniform"
        The chances of actions that were followed, public as in a trial: ``"uniform"`` over
        admissible ones.
    admissible : array of bool, shape (S, A), optional
        Which actions are admissible in each state: public. By default those with a positive chance.
    relation : Relation, optional
        `AddRemovePerson`, by default, or `ReplacePerson`.
    confidence : float
        From 0.5 to 1: of each bound by itself.
    method : "last" or "steps", optional
        Which decisions are weighed: by default "steps", all of them, whose bounds are right for
        every world. "last" is for logs whose episodes earn nothing but by their outcome,
        undiscounted, and is of another quantity, see below.

    Returns
    -------
    PolicyValue

    Errors are those of `privrl.offline.fit_policy`.

    Notes
    -----
    **"steps"**: an episode's weight is the product, over its steps, of 1 over the chance of the
    action where it is the policy's, and 0 where it is another. If actions were taken by these
    chances, whatever came before, and persons are independent, weighed returns have the policy's
    mean: a theorem, and so the bounds are right as the number of persons grows. Where the largest
    product there can be is more than a *clip*, larger weights are cut to it: the root of the number
    of episodes, or less where noise would outweigh chance. Then the value is an estimate of which
    no more is known than that it lies between the bounds. These still hold: cutting weights makes
    both sums smaller, so the high sum over the number of episodes is below the policy's place, and
    1 minus the low one's above it, always (as in Ionides, *Truncated importance sampling*, 2008).
    With long episodes that says little.

    **"last"**: only the last decision of an episode is weighed, the last in a state with a choice
    where the policy has an action. That needs far fewer persons, and is another quantity: how those
    fare who follow the behaviour until the decision that turns out to be the last, and there the
    policy. Where an episode has one decision, or the others do not matter, it is the value itself,
    by the same theorem. Otherwise it is biased, by an amount that no log of this kind bounds, and
    **the bounds are for that quantity**. Say -1 where actions do not matter: a last decision there
    hides the one before. On ICU-Sepsis, 5000 patients who took actions uniformly, and policies that
    `fit_policy` learned from 5000 others, 200 times: the mean of the estimates was off by 0.003,
    0.003 and -0.004 at an epsilon of 1, of 0.1 and without privacy, for values of 0.79, 0.78 and
    0.81, and ``lower``, at 95 %, was below in 92, 95 and 98 %.

    Bounds are normal: right as persons grow, measured before. Squares are taken to be larger than
    was released by half the deviation of the noise on them, and by that of one person more, with
    the largest weight and the farthest off.
    """
    rng = as_rng(rng)
    cost = person_cost(epsilon, relation)
    discount = check_discount(discount)
    check_between("confidence", confidence, 0.5, 1, "0.95 is usual")
    ratio = _ratios(log, action, behaviour, admissible)
    weighed = _method(log, discount, method)
    with paid_stream(log, cost, rng, accountant) as stream:
        value = evaluated(stream, log, ratio, weighed, discount=discount, confidence=confidence)
        return replace(value, randomness=randomness_of(rng))


def evaluated(
    stream: PersonStream,
    log: LogSpace,
    ratio: FloatArray,
    weighed: Method = "steps",
    *,
    discount: float = 1.0,
    confidence: float,
    share: float = 1.0,
) -> PolicyValue:
    """Release what the value is made of, and return it.

    ``ratio`` is from `weights_of`; ``share`` is the part of its budget that every person has left.
    """
    sums = _Sums(stream, log, discount, share)
    most = float(ratio.max(initial=1.0))
    log_most = math.log(most) * (1 if weighed == "last" else log.most_steps)
    largest, clip = math.exp(min(log_most, _FAR)), None
    if weighed == "steps" and largest > sums.good_clip():
        largest = clip = sums.good_clip()
    weighing = _Weighing(ratio, weighed, largest, discount, sums.low, sums.range)
    sums.release(weighing, clipped=clip is not None)
    quantile = _quantile(confidence, noisy=stream.noise > 0)
    place, deviation, lower, upper = sums.clipped(quantile) if clip else sums.whole(quantile)
    return PolicyValue(
        value=sums.low + sums.range * place,
        deviation=sums.range * deviation,
        lower=sums.low + sums.range * lower,
        upper=sums.low + sums.range * upper,
        method=weighed,
        clip=clip,
        persons=sums.persons,
        cost=stream.cost,
    )


class _Sums:
    """The released sums of weights and returns, and the value that follows."""

    def __init__(self, stream: PersonStream, log: LogSpace, discount: float, share: float) -> None:
        self._stream, self._per_person, self._share = stream, log.most_episodes, share
        self._of_whole = float(stream.noise) / share  # on a table for all that there is to spend
        self.low, high = log.return_range(discount)
        self.range = high - self.low
        # Whether each person is wholly at one end of the range: their squares are free then.
        ends = {0.0, *log.outcome_rewards}
        outcomes_only = discount == 1 and log.step_rewards == (0.0, 0.0)
        self._simple = self._per_person == 1 and outcomes_only and len(ends) <= 2
        per_person, n_counts = self._per_person, 1 if self._per_person == 1 else 2

        def of_persons(part: Log) -> FloatArray:
            each = np.diff(part.person_starts) / per_person
            return np.array([np.ones(part.n_persons), each][:n_counts])

        counts = self._update(of_persons, n_counts, EVALUATION.count / n_counts)
        self.persons = max(float(counts[0]), 0.0)
        self._episodes = min(
            max(float(counts[-1]) * self._per_person, self.persons, 1.0),
            max(self.persons, 1.0) * self._per_person,
        )
        self._count_noise = self._of_whole * self._per_person * n_counts / EVALUATION.count

    def _update(self, amounts: Callable[[Log], FloatArray], n_rows: int, unit: float) -> FloatArray:
        """Return a noisy sum over persons of each of some rows of amounts, in its own units."""
        unit = unit * self._share

        def adds(part: Log, _: FloatArray) -> Added:
            rows, n = amounts(part), part.n_persons
            persons, cells = np.tile(np.arange(n), n_rows), np.repeat(np.arange(n_rows), n)
            return Added(persons, cells, rows.ravel(), unit)

        return self._stream.update(adds, n_rows) / unit

    def good_clip(self) -> float:
        """Return a weight that leaves chance and noise small, and grows with the persons."""
        noise = max(self._of_whole * self._per_person, 1e-9)
        return float(max(1.0, min(math.sqrt(self._episodes), self._episodes / noise**2)))

    def release(self, weighing: "_Weighing", *, clipped: bool) -> None:
        """Release the sums, in parts of what a person can add at the most."""
        for_squares = 0.0 if self._simple or clipped else EVALUATION.squares
        unit = 1 - EVALUATION.count - for_squares
        high, low = self._high, self._low = self._update(weighing.added, 2, unit).tolist()
        self._noise = self._of_whole / unit
        self._largest = weighing.largest
        self._whole = self._largest * self._per_person
        self.place = min(max(high / (high + low), 0.0), 1.0) if high + low > 0 else 0.5
        ahead, behind = (1 - self.place) ** 2, self.place**2
        squares = high * ahead + low * behind  # the most that squares can sum to
        noise = self._noise * math.hypot(ahead, behind)
        if not clipped:
            smaller = partial(weighing.smaller, place=self.place)
            unit = (
                1 - EVALUATION.count if self._simple else min(1 - EVALUATION.count, 4 * for_squares)
            )
            squares -= float(self._update(smaller, 1, unit)[0])
            noise = math.hypot(noise, self._of_whole / unit)
        self._squares = max(squares, 0.0) + noise / 2 + max(ahead, behind)

    def whole(self, quantile: float) -> tuple[float, float, float, float]:
        """Return place, deviation and bounds from what the sums are to each other."""

        def off(place: float) -> float:
            return self._high * (1 - place) - self._low * place

        def deviation(place: float) -> float:
            noise = self._noise * math.hypot(1 - place, place)
            return math.hypot(math.sqrt(self._squares), noise)

        total = self._high + self._low
        if total <= 0:
            return self.place, 0.5, 0.0, 1.0
        return (
            self.place,
            min(deviation(self.place) / total, 0.5),
            _crossing(lambda v: off(v) - quantile * deviation(v), 0.0, self.place),
            _crossing(lambda v: -off(v) - quantile * deviation(v), 1.0, self.place),
        )

    def clipped(self, quantile: float) -> tuple[float, float, float, float]:
        """Return the same where weights were cut: bounds from each sum by itself."""
        place, deviation, *_ = self.whole(quantile)
        episodes = self._episodes / self._whole  # in the units of the sums

        def below(own: float) -> float:
            def over(v: float) -> float:
                # No square is more than the amount; of a difference of two, both together.
                squares = max(own, 0.0) + self._noise + 1 + v**2 * episodes / self._largest
                noise = math.hypot(self._noise, v * self._count_noise / self._whole)
                return own - v * episodes - quantile * math.hypot(math.sqrt(squares), noise)

            return _crossing(over, 0.0, 1.0)

        lower, upper = below(self._high), 1 - below(self._low)
        return place, deviation, min(lower, place), max(upper, place)


def _crossing(function: Callable[[float], float], start: float, end: float) -> float:
    """Return where a function that falls from ``start`` on stops being > 0."""
    if function(start) <= 0:
        return start
    for _ in range(60):
        middle = (start + end) / 2
        if function(middle) > 0:
            start = middle
        else:
            end = middle
    return start


def _quantile(confidence: float, *, noisy: bool) -> float:
    """Return how many deviations a bound is away: of a normal law, or of Laplace's if farther."""
    normal = float(special.ndtri(confidence))
    return max(normal, -math.log(2 * (1 - confidence)) / math.sqrt(2)) if noisy else normal


# What is public ----------------------------------------------------------------------------------


def _method(log: LogSpace, discount: float, method: Any) -> Method:
    by_outcome = discount == 1 and log.step_rewards == (0, 0)
    if method is None:
        return "steps"
    if method not in ("last", "steps"):  # a list has no place in a set
        raise ValueError(f"method must be 'last' or 'steps', got {shown(method)}.")
    if method == "last" and not by_outcome:
        raise ValueError(
            "method='last' must have step rewards (0, 0) and discount 1, got "
            f"{log.step_rewards} and {shown(discount)}; 'steps' takes any."
        )
    return method


def _ratios(log: LogSpace, action: Any, behaviour: Any, admissible: Any) -> FloatArray:
    """Return the policy's chances over those of the behaviour, shape (1, S, A) or (H, S, A)."""
    check_is("log", log, LogSpace)
    shape = log.n_states, log.n_actions
    if behaviour is None:
        raise ValueError(
            f"behaviour must be chances of shape {shape}, or 'uniform', got None; a value can be "
            "told from a log where it is known by what chances actions were taken."
        )
    allowed, chances, _ = check_support(log, admissible, behaviour)
    if allowed is None or chances is None:
        raise ValueError(
            "admissible must be given with behaviour='uniform', got None; "
            f"np.ones({shape}, bool) if all actions are admissible everywhere."
        )
    action = plain_array("action", action)
    by_step = log.most_steps, log.n_states
    if action.dtype.kind not in "iu" or action.shape not in {shape[:1], by_step}:
        raise ValueError(
            f"action must be whole numbers of shape {shape[:1]}, or {by_step} with one for each "
            f"step, got {action.dtype} of shape {action.shape}; of a LoggedPolicy that is its "
            "action."
        )
    action = action.reshape(-1, log.n_states)
    possible = np.append(allowed, np.ones((len(allowed), 1), np.bool_), axis=1)  # the last is -1
    inside = np.clip(action, -1, log.n_actions - 1)
    wrong = (action != inside) | ~possible[np.arange(log.n_states), inside]
    if wrong.any():
        step, where = np.unravel_index(wrong.argmax(), wrong.shape)
        raise ValueError(
            "action must be -1 or an action that is admissible and has a chance, got "
            f"{int(action[step, where])} in state {where}; -1 is what was done there."
        )
    return weights_of(action, chances)


def weights_of(action: IntArray, chances: FloatArray) -> FloatArray:
    """Return the chances of a policy, shape (H, S), over those of the behaviour, (H, S, A)."""
    step, says = np.nonzero(action >= 0)
    ratio = np.ones((len(action), *chances.shape))
    ratio[step, says] = 0.0
    ratio[step, says, action[step, says]] = 1 / chances[says, action[step, says]]
    return ratio


# What is private ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Weighing:
    """How episodes are weighed, and placed: what is public of it."""

    ratio: FloatArray
    method: Method
    largest: float
    discount: float
    low: float
    range: float

    def added(self, part: Log) -> FloatArray:
        """Return what each person adds to the high sum and to the low one, at most 1 in all."""
        n_episodes = np.diff(part.person_starts)
        person = np.repeat(np.arange(part.n_persons), n_episodes)
        weight = self._weights(part) / (self.largest * part.most_episodes)
        place = np.zeros(len(person))
        if self.range > 0:
            place = np.clip((_returns(part, self.discount) - self.low) / self.range, 0.0, 1.0)
        return np.array(
            [
                np.bincount(person, weights=weight * each, minlength=part.n_persons)
                for each in (place, 1 - place)
            ]
        )

    def smaller(self, part: Log, place: float) -> FloatArray:
        """Return by how much the square of each person is smaller than it could be.

        Let t be what a person adds in all and y the part of the high sum in it: that is
        t (1 - t) (y - place)² + t y (1 - y), at most 1 - t, plus a quarter if not simple.
        """
        high, low = self.added(part)
        square = (high * (1 - place) - low * place) ** 2
        smaller = np.maximum(high * (1 - place) ** 2 + low * place**2 - square, 0.0)
        return smaller[None]

    def _weights(self, part: Log) -> FloatArray:
        """Return the weight of each episode, ``largest`` at the most."""
        starts = part.episode_starts[:-1]
        step = np.minimum(_step(part), len(self.ratio) - 1)
        of_step = self.ratio[step, part.state, part.action]
        if self.method == "last":
            decides = self.ratio.max(axis=2)[step, part.state] > 1
            last = np.maximum.reduceat(np.where(decides, np.arange(part.n_steps), -1), starts)
            weight = np.where(last >= 0, np.append(of_step, 1.0)[last], 1.0)
            return np.minimum(weight, self.largest)
        with np.errstate(divide="ignore"):
            logs = np.add.reduceat(np.log(of_step), starts)
        return np.minimum(np.exp(np.minimum(logs, _FAR)), self.largest)


def _returns(part: Log, discount: float) -> FloatArray:
    """Return what each episode earned."""
    return np.add.reduceat(part.reward * discount ** _step(part), part.episode_starts[:-1])


def _step(part: Log) -> IntArray:
    """Return which of its episode each step is."""
    starts = part.episode_starts
    return np.arange(part.n_steps) - np.repeat(starts[:-1], np.diff(starts))
