"""The best of several private candidates, under one stated budget.

Fitting several private models and keeping the best releases more than one model, because the choice
depends on the data. `select_private` makes it one release: a trial draws a candidate, runs
it with an equal part of fresh budget, and ends with a result and a private score. A die decides
after each trial whether it was the last. Only the best result leaves, so it costs less than all
trials together; `privrl.costs.selection` derives how much.

**What a trial may spend.** Each trial has an accountant with exactly the budget that the charged
cost assumes, under the same relation, so a candidate that spends more is refused. It is closed
after the trial. The budget is one of zero-concentrated privacy, whose sum does not depend on how
candidates divide it, or of pure privacy if the target is pure.

**What must stay secret.** The number of trials, and all results but the best. They are not
returned, and warnings of trials are not shown. The duration of the selection reveals the first, and
whatever candidates print or write reveals the second: keep them from others.
"""

import math
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.journal import one_at_a_time
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import (
    ApproxDP,
    PureDP,
    RenyiDP,
    Target,
    ZeroConcentratedDP,
    wrong_target,
)
from privrl.costs.base import Cost, check_cost
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.costs.selection import ConcentratedCost, PureCost, SelectionCost
from privrl.files.chosen import (
    Selection,
    TrialName,
    check_own,
    mark_chosen,
    paying,
    trial_behind,
    trial_now,
)
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.mechanisms.additive import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from privrl.numerics.checks import check_between, check_count
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.special import FloatArray

Result = TypeVar("Result")

_FEW_ORDERS = (2.0, 8.0, 32.0, 128.0)
_TRIALS_EACH = 5  # of a candidate, in the mean: each is then tried with probability 5/6 or more


@dataclass(frozen=True)
class Selected(Generic[Result]):
    """The best result, which may be published with its score.

    Attributes
    ----------
    result : object
        What the candidate returned. The file of a classifier in it states the whole selection;
        other models cannot be saved: their files would state what one trial cost.
    score : float
        Its private score. Being the largest of several, it is too high on average.
    name : str
        The candidate's name.
    cost : SelectionCost
        The cost of the whole selection.
    """

    result: Result
    score: float
    name: str
    cost: SelectionCost


class Trial:
    """What a candidate is given: a budget, an accountant that keeps it, and randomness.

    Attributes
    ----------
    target : ZeroConcentratedDP or PureDP
        The budget for the result and its score together.
    accountant : Accountant
        Must be charged with every release of the trial; refuses more than the budget.
    rng : numpy.random.Generator
        Of this trial.
    """

    target: Target = fixed()
    accountant: "_TrialAccountant" = fixed()

    def __init__(
        self,
        cost: Cost,
        target: Target,
        rng: np.random.Generator,
        bins_seen: list[frozenset[str]] | None = None,
    ) -> None:
        self.target, self.rng = target, rng
        self.accountant = _TrialAccountant(cost.relation, target, bins_seen)

    def part(self, share: float) -> Target:
        """Return a target of a share of the budget, in (0, 1)."""
        share = check_between("share", share, 0, 1, "shares of a trial sum to at most 1")
        if isinstance(self.target, PureDP):
            return PureDP(self.target.epsilon * share)
        assert isinstance(self.target, ZeroConcentratedDP)
        return ZeroConcentratedDP(self.target.rho * share)

    def noisy(self, counts: ArrayLike, share: float) -> FloatArray:
        """Release whole counts for a score, with discrete noise that costs a share of the budget.

        Parameters
        ----------
        counts : array_like, shape (..., K)
            Such as the numbers of records predicted right and wrong: one table of the relation.
        share : float
            In (0, 1).
        """
        pure = isinstance(self.target, PureDP)
        kind: Any = DiscreteLaplaceMechanism if pure else DiscreteGaussianMechanism
        noise = kind.calibrated(self.part(share), relation=self.accountant.relation)
        return noise.release(counts, self.rng, accountant=self.accountant)


Candidate = Callable[[Trial], tuple[Result, float]]


def select_private(
    candidates: Mapping[str, Candidate[Result]],
    *,
    target: Target,
    trials: int | None = None,
    relation: Relation | None = None,
    rng: Rng = None,
    accountant: Accountant | None = None,
) -> Selected[Result]:
    """Run private candidates a random number of times, and release the best result.

    Parameters
    ----------
    candidates : mapping of str to callable
        Each takes a `Trial` and returns ``(result, score)``. It computes both from the data by
        releases that it charges to ``trial.accountant``, or from released numbers; the same way
        each time, with nothing kept from one trial to the next. A larger score is better; NaN
        counts as the worst.
    target : ApproxDP, PureDP or RenyiDP
        The limit on the whole selection.
    trials : int, optional
        The mean number of trials, public; by default five for each candidate. The number itself is
        geometric, and each trial draws its candidate.
    relation : Relation, optional
        Which data sets are neighbours; by default one record is replaced.
    rng : numpy.random.Generator, int or None
        Source of randomness; None is secret.
    accountant : Accountant, optional
        Charged with the cost of the whole selection before the first trial; none of a trial.

    Returns
    -------
    Selected
        The best result, its score and its candidate's name.

    Raises
    ------
    BudgetExceeded
        If the accountant refuses; then no trial is run.
    ValueError
        If an argument is out of range; then no trial is run. Also, with the budget spent, if a
        release in a candidate is not charged to its trial, or if a candidate uses a fitted
        classifier, a sampler or a result of another trial, or other released bins.

    Notes
    -----
    Create estimators, samplers and agents in the candidate, and return models: a release of a
    trial cannot be saved before the selection returns it. Releases in threads and processes that a
    candidate starts must be charged to the trial as well, but this is not checked.

    An exception of a candidate ends the selection: the budget is spent, as a note says, and nothing
    is released. A candidate must not fail because of the data, for that is visible. The time that
    the selection takes reveals the number of trials.

    References
    ----------
    J. Liu and K. Talwar. *Private selection from private candidates* (2019).

    N. Papernot and T. Steinke. *Hyperparameter tuning with Rényi differential privacy* (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from privrl.accounting import ApproxDP
    >>> from privrl.mechanisms import select_private
    >>> ages = np.random.default_rng(0).normal(40, 12, 5000)
    >>> def older_than(age):
    ...     def candidate(trial):
    ...         older = int((ages > age).sum())
    ...         yes, no = trial.noisy([older, len(ages) - older], share=0.99)
    ...         return age, -abs(yes - no)
    ...     return candidate
    >>> median = select_private(
    ...     {f"{age}": older_than(age) for age in (30, 40, 50)}, target=ApproxDP(1, 1e-5), rng=0
    ... )
    >>> median.result
    40
    """
    named = _check_candidates(candidates)
    if trial_now() or trial_behind(accountant):  # what it chose would state a part of a trial
        raise ValueError(
            "candidates must not select among others: give all candidates to one selection."
        )
    cost, each = plan_selection(target, len(named), trials=trials, relation=relation)
    rng = as_rng(rng)
    said = randomness_of(rng)

    def run(rng: np.random.Generator) -> Selected[Result]:
        best: Selected[Result] | None = None
        names, is_last = tuple(name for name, _ in named), False
        others: set[TrialName] = set()
        bins_seen: list[frozenset[str]] = []
        while not is_last:
            name, candidate = named[int(rng.integers(len(named)))]
            trial = Trial(cost.trial, each, rng, bins_seen)
            own = trial.accountant.trial
            result, score = paying(own, partial(run_trial, candidate, trial))
            check_own(result, others)
            if best is not None:  # which later trials leave as it was
                check_own(best.result, {own})
            others.add(own)
            # Of equal scores the first: trials are alike, so it is any of them.
            if best is None or score > best.score:
                best = Selected(result, score, name, cost)
                kept = Selection(cost, target, name, names, own, said)
            is_last = int(rng.integers(cost.trials)) == 0
        assert best is not None
        mark_chosen(best.result, kept)
        return best

    return Release(accountant, cost, run, rng).make()


def plan_selection(
    target: Target,
    n_candidates: int,
    *,
    trials: int | None = None,
    relation: Relation | None = None,
) -> tuple[SelectionCost, Target]:
    """Return the cost of a selection that just meets a target, and the budget of each trial.

    The parameters are those of `select_private`, as are errors.
    """
    relation = check_relation(relation, ReplaceRecord())
    mean = check_count("trials", _TRIALS_EACH * n_candidates if trials is None else trials)
    if not isinstance(target, ApproxDP | PureDP | RenyiDP):
        raise wrong_target(
            target, ApproxDP, PureDP, RenyiDP, otherwise=": a selection is bounded in these terms"
        )
    return _planned(target, mean, relation)


@lru_cache(maxsize=64)
def _planned(target: Target, mean: int, relation: Relation) -> tuple[SelectionCost, Target]:
    is_pure = isinstance(target, PureDP)

    def cost(size: float) -> SelectionCost:
        if is_pure:
            return SelectionCost(trial=PureCost(epsilon_pure=size, relation=relation), trials=mean)
        return SelectionCost(trial=ConcentratedCost(rho=size, relation=relation), trials=mean)

    size = calibrate(target, cost, rises=True)
    # A budget is the decimal number that it prints as, which may be a little above the float.
    below = math.nextafter(size, 0.0)
    return cost(size), PureDP(below) if is_pure else ZeroConcentratedDP(below)


def run_trial(candidate: Candidate[Result], trial: Trial) -> tuple[Result, float]:
    """Run one trial, without its warnings, and close its accountant."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, score = candidate(trial)
            score = float(score)
    finally:  # of a trial that failed nothing is released later
        trial.accountant.close()
    return result, -math.inf if math.isnan(score) else score


def _check_candidates(candidates: Any) -> Sequence[tuple[str, Candidate[Any]]]:
    fits = isinstance(candidates, Mapping) and len(candidates) > 0
    if not fits or not all(isinstance(n, str) and callable(c) for n, c in candidates.items()):
        raise ValueError(
            "candidates must map at least one name to a function of a trial, got "
            f"{shown(candidates)}."
        )
    return tuple(candidates.items())


class _TrialAccountant(RdpAccountant):
    """Keeps the budget of one trial, under one relation, until the trial ends."""

    relation: Relation = fixed()
    trial: TrialName = fixed()  # whose budget it is
    bins_seen: list[frozenset[str]] | None = fixed()  # of each fit of the selection

    def __init__(
        self, relation: Relation, target: Target, bins_seen: list[frozenset[str]] | None
    ) -> None:
        # The budget is an exact sum; few orders are quick, and only `epsilon` uses them.
        super().__init__(budget=target, orders=_FEW_ORDERS)
        self.relation, self._open = relation, True
        self.trial = TrialName(secrets.token_hex(16))
        self.bins_seen = bins_seen

    def __copy__(self) -> NoReturn:
        raise TypeError("the accountant of a trial cannot be copied: two would spend one budget.")

    def __reduce__(self) -> NoReturn:
        self.__copy__()

    @property
    def is_open(self) -> bool:
        """Whether the trial continues."""
        return self._open

    def unlimited(self) -> RdpAccountant:
        """Return an accountant without charges or a budget, for statements."""
        return RdpAccountant()

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost, or refuse it."""
        check_cost(cost)
        if cost.relation != self.relation:
            raise ValueError(
                f"a trial must spend under the relation {str(self.relation)!r} of the selection, "
                f"got a cost under {str(cost.relation)!r}; pass select_private that relation."
            )
        if not self._open:
            raise ValueError("the trial has ended, and its budget with it.")
        super().compose(cost, count)

    @one_at_a_time
    def close(self) -> None:
        """Refuse all further charges."""
        self._open = False
