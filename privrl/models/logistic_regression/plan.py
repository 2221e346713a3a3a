"""The division of the budget of logistic regression, from public facts alone.

All releases are Gaussian, so precisions add up. Tables, gradients of feature weights, gradients of
all weights and those of multiples of parts have together the precision of a single release with the
whole budget.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms.sums import SumsMechanism
from privrl.mechanisms.tables import Rows, TablesMechanism, least_noise_shares
from privrl.models.naive_bayes.temperature import SHAPES, SHARES, is_worth_measuring
from privrl.numerics.typing import FloatArray


@dataclass(frozen=True)
class Tuned:
    """The tuned constants of logistic regression, the same for all data.

    They were chosen on Adult, Bank, Spam, Digit, GermanCredit and CreditCard, those of slopes also
    on iris and diabetes; docs/results/classifiers.md reports data sets on which nothing was chosen.
    """

    least_signal: float = 1.0  # to a class, below which noise would drown gradients
    tables_halved: float = 40.0  # signal at which half is for the tables,
    tables_share: tuple[float, float] = (0.15, 0.9)  # of which this is the least and the largest
    halved: float = 15.0  # signal at which all weights and feature weights share equally
    multiples: tuple[float, float] = (0.02, 0.1)  # of the budget without tables, for those of parts
    score_noise: float = 0.02  # nats, of their mean gradient, for which less than the most is spent
    clear: float = 0.04  # noise of their gradients to a record, above which they are not learned
    typical_signal: float = 20.0  # above which more steps are taken
    steps: int = 60
    steps_of_feature: float = 1.6  # at least, for each feature
    momentum: float = 0.9
    averaged: float = 0.5  # of the steps, the last ones
    safe_signal: float = 0.5  # of the rarest class, from which the temperature is typical
    worth: float = 0.5  # nats: the expected information in features of signal 1
    length: float = 1.2  # to which records' vectors are clipped, in typical lengths at even odds
    time: float = 60.0  # the longest way of all steps together, without momentum
    feature_noise: float = 0.3  # nats that steps may add to logits of typical length 1
    longest_score: float = 2.0  # nats, to which a record's vector for multiples is clipped
    score_time: float = 6.0  # the way of its steps, over the curvature
    score_steps: int = 30
    most_bent: float = 0.5  # curvature: wrong predictions are rare where scores are large
    typical: float = 0.15  # deviation of multiples about those that are expected:
    way: float = 0.4  # of the way from the start, beside 1 of the start
    slopes: float = 0.7
    tables: float = 0.25  # beside slopes
    optimism: float = 0.25  # nats for each free number
    noise: float = 0.5  # nats that steps of all weights may add to logits
    farthest: float = 4.0  # nats, of naive Bayes' log-ratios
    longest: float = 1.25  # a step, over the number of ones in a record; 1.9 is stable
    far: float = 32.0  # multiple of the way of the quickest weight; beyond is noise
    spread: float = 0.03  # nats: weights that noise hides more than this share one pace
    rough: float = 0.2  # pace of what alternates between neighbouring bins; of slopes it is 1
    sloped_signal: float = 0.6  # below which slopes are learned, if all features are ordered
    sloped_tables: float = 0.05  # the share of the tables beside slopes
    intercept: float = 0.5  # in a record's vector, to all features, of which each has up to 1
    slope: float = 0.15  # the time of their steps, times features and noise to the power 1.5
    # Where multiples of slopes and tables are learned:
    chosen_signals: tuple[float, float] = (0.6, 12.0)  # between which they are
    chosen_clear: float = 0.1  # noise of their gradients to a record, up to which they are
    chosen_tables: float = 0.3  # the share of the tables
    # the time, times features, by powers of the noise: the least of these
    chosen_slope: tuple[tuple[float, float], ...] = ((4.0, 0.8), (0.09, 2.0))


TUNED = Tuned()


@dataclass(frozen=True)
class Steps:
    """Gradients, one after the other.

    Attributes
    ----------
    number : int
        How many; 0 where noise would drown them.
    mechanism : SumsMechanism
        What releases each of them.
    """

    number: int
    mechanism: SumsMechanism

    @property
    def precision(self) -> float:
        """Of a single Gaussian release that costs as much."""
        return self.number * self.mechanism.sigma**-2.0


_NONE = Steps(0, SumsMechanism(sigma=1.0))
_MOST_ADDED = 2**24  # numbers that a record adds to: rounding then takes 0.5 of √2 at the most


@dataclass(frozen=True)
class Plan:
    """The division of a budget.

    Attributes
    ----------
    share : float
        Of the budget, for the tables of naive Bayes.
    scores, weights : Steps
        Gradients of a weight for each feature, and of one for each value and class.
    multiples : Steps
        Gradients of a weight for each part of the model.
    signal : float
        Records in an average cell, in standard deviations of the noise of equal tables.
    positions : sequence of arrays, shape (V,)
        If ``scores`` are gradients of slopes, in place of gradients of weights: for each feature
        where its values are between −1 and 1. Else empty.
    """

    share: float
    scores: Steps
    weights: Steps
    multiples: Steps
    signal: float
    positions: Sequence[FloatArray] = field(default=(), compare=False)

    def cost(self, tables: TablesMechanism | None) -> GaussianCost:
        """Return the cost of Gaussian tables and gradients, as one Gaussian release."""
        sizes = () if tables is None else tables.sizes
        gradients = (self.scores, self.weights, self.multiples)
        precision = math.fsum(
            [*(sigma**-2.0 for sigma in sizes), *(steps.precision for steps in gradients)]
        )
        return GaussianCost(sigma=precision**-0.5 * (1 - 1e-14), relation=ReplaceRecord())


def whole_sigma(target: Target) -> float:
    """Return the noise of a single Gaussian release that spends all of a target."""
    return calibrate(
        target, lambda sigma: GaussianCost(sigma=sigma, relation=ReplaceRecord()), rises=False
    )


def signal_of(sigma: float, n_records: int, sizes: Sequence[int], n_classes: int) -> float:
    """Return how many records an average cell has, in deviations of the noise of equal tables."""
    cells = sum(sizes) / len(sizes) * n_classes
    return n_records / cells / (sigma * math.sqrt(len(sizes) + 1))


def plan(
    sigma: float,
    n_records: int,
    sizes: Sequence[int],
    n_classes: int,
    *,
    has_tables: bool,
    positions: Sequence[FloatArray] = (),
) -> Plan:
    """Return the division of a budget.

    Parameters
    ----------
    sigma : float
        Of a single Gaussian release that would spend all of it.
    n_records : int
        The number of records.
    sizes : sequence of int
        The number of values of each feature.
    n_classes : int
        How many.
    has_tables : bool
        Whether a naive Bayes classifier was paid for before.
    positions : sequence of arrays, shape (V,)
        For each feature where its values are between −1 and 1; empty if not all are ordered.

    Raises
    ------
    ValueError
        If so, and the budget is too small for drawable noise. Or if features times classes are
        so many that rounding what a record adds would take the room of the record itself.
    """
    if n_classes * (len(sizes) + 1) > _MOST_ADDED:
        raise ValueError(
            f"features times classes must be at most {_MOST_ADDED:,}, got {len(sizes):,} times "
            f"{n_classes:,}: leave out features, or put classes together."
        )
    signal = signal_of(sigma, n_records, sizes, n_classes)
    if positions and not has_tables:
        sloped = _sloped(sigma, n_records, signal, positions)
        if sloped is not None:
            return sloped
    if signal < TUNED.least_signal * n_classes and not has_tables:
        return Plan(1.0, _NONE, _NONE, _NONE, signal)
    least, most = TUNED.tables_share
    for_tables = TUNED.tables_halved / (TUNED.tables_halved + signal)
    share = 0.0 if has_tables else min(max(for_tables, least), most)
    # Small enough for features that repeat each other and so add up their gradients.
    fewest = math.ceil(TUNED.steps_of_feature * len(sizes))
    number = max(int(TUNED.steps * max(1.0, signal / TUNED.typical_signal) ** 0.25), fewest)
    part = signal / (signal + TUNED.halved)
    lowest, multiples = TUNED.multiples
    if sigma > TUNED.clear * n_records * math.sqrt((1 - share) * multiples):
        part = multiples = 0.0  # all is for features' weights
    noise = math.sqrt(2) * TUNED.longest_score * sigma / n_records
    multiples = min(multiples, max(lowest, (noise / TUNED.score_noise) ** 2 / (1 - share)))

    def steps(share: float, number: int) -> Steps:
        if share <= 0:
            return _NONE
        each = sigma * math.sqrt(number / share)
        if each > SumsMechanism.largest:
            raise ValueError("target must allow more: gradients would drown in noise.")
        return Steps(number, SumsMechanism(sigma=each))

    return Plan(
        share,
        steps((1 - share) * (1 - multiples) * (1 - part), TUNED.steps),
        steps((1 - share) * (1 - multiples) * part, number),
        steps((1 - share) * multiples, TUNED.score_steps),
        signal,
    )


def _sloped(
    sigma: float, n_records: int, signal: float, positions: Sequence[FloatArray]
) -> Plan | None:
    """Return the division of a budget for slopes, or None where cells are better.

    If noise does not hide cells but is loud, slopes are still better: beside tables, with multiples
    of both.
    """
    low, high = TUNED.chosen_signals
    is_chosen = low <= signal < high and sigma <= TUNED.chosen_clear * n_records * math.sqrt(
        TUNED.multiples[1]
    )
    if not is_chosen and signal >= TUNED.sloped_signal:
        return None
    tables = TUNED.chosen_tables if is_chosen else TUNED.sloped_tables
    multiples = TUNED.multiples[1] if is_chosen else 0.0
    each = sigma * math.sqrt(TUNED.steps / (1 - tables - multiples))
    if each > SumsMechanism.largest:
        return None
    slopes = Steps(TUNED.steps, SumsMechanism(sigma=each))
    if not is_chosen:
        return Plan(tables, slopes, _NONE, _NONE, signal, positions)
    number = TUNED.score_steps
    last = Steps(number, SumsMechanism(sigma=sigma * math.sqrt(number / multiples)))
    return Plan(tables, slopes, _NONE, last, signal, positions)


def plan_tables(
    target: Target, shapes: Sequence[Rows], sigma: float, n_records: int
) -> tuple[TablesMechanism, bool]:
    """Return the mechanism of naive Bayes' tables, and whether its temperature is measured.

    Parameters
    ----------
    target : RenyiDP or ApproxDP
        The target of the tables.
    shapes : sequence of (int, int)
        Of the tables: of the classes first, then of each feature.
    sigma : float
        Of a single Gaussian release that would spend all of it.
    n_records : int
        The number of records.

    Notes
    -----
    Classes' counts shift the prediction of every record, so a share a of the budget for them,
    beside what they would have with the least noise in all, leaves a loss of about ``A / a``, with
    ``A = J (J − 1) σ² / (2 n²)`` nats; it costs features, whose worth is about ``G s²`` while noise
    hides them, ``a G s²`` for a signal s. The least of the sum is at ``a = √(A / G) / s``. It is
    taken up to ``2 / J²``: many classes have mostly similar counts.
    """
    n_classes, sizes = shapes[0][1], [size for _, size in shapes[1:]]
    signal = signal_of(sigma, n_records, sizes, n_classes)
    loss = n_classes * (n_classes - 1) * sigma**2 / (2 * n_records**2)
    first, *others = least_noise_shares(shapes)
    own = math.sqrt(loss / TUNED.worth) / signal
    own = max(first, min(own, 2 / n_classes**2))
    shares = [own, *(share * (1 - own) / (1 - first) for share in others)]
    whole = TablesMechanism.calibrated(
        target,
        shapes=[*shapes, *SHAPES],
        n_records=n_records,
        mechanism="gaussian",
        shares=[*shares, *SHARES],
    )
    if is_worth_measuring(whole.deviations[-1], n_records):
        return whole, True
    return TablesMechanism.calibrated(
        target, shapes=shapes, n_records=n_records, mechanism="gaussian", shares=shares
    ), False


def safe_temperature(typical: float, signal: float, log_prior: FloatArray) -> float:
    """Return the temperature if none is measured: less than typical if noise hides the features.

    The features then show mostly noise, above all in the rarest class. A temperature that is too
    small loses little; one that is too large may lose any amount.
    """
    rarest = signal * len(log_prior) * float(np.exp(log_prior.min()))
    return typical * min(1.0, rarest / TUNED.safe_signal)
