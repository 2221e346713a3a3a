"""The division of the budget of logistic regression, from public facts alone.

All releases are Gaussian, so precisions add up. Tables, gradients of feature weights, gradients of
all weights and the choice of how far to follow them have together the precision of a single release
with the whole budget.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privrl._typing import FloatArray
from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms.sums import SumsMechanism
from privrl.mechanisms.tables import Rows, TablesMechanism, least_noise_shares
from privrl.models.naive_bayes.temperature import SHAPES, SHARES, is_worth_measuring

# Chosen on the public data sets that docs/models.md lists.
_LEAST_SIGNAL = (
    0.1  # to a class, below which gradients would be drowned, and all is spent on tables
)
_TABLES, _POWER = 0.1, 0.75  # how quickly the tables' share falls as the signal grows
_FOR_TABLES = (0.15, 0.9)  # the least and the largest share
_HALVED = 40.0  # signal at which gradients of all weights have as much as those of features'
_CHOICE = 0.05  # of what is not for tables, to find how far gradients are to be followed
_CLEAR = 0.02  # noise of that to a record, above which it would be chosen by chance
_TYPICAL_SIGNAL = 20.0  # from which on there are more steps
_STEPS = 60
_STEPS_OF_FEATURE = 1.6  # at least, of each
MOMENTUM = 0.9
_SAFE_SIGNAL = 0.5  # of the rarest class, up from which naive Bayes' typical temperature is taken
_WORTH = 0.2  # nats: the expected information in features, beside the counts of classes


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


@dataclass(frozen=True)
class Plan:
    """The division of a budget.

    Attributes
    ----------
    share : float
        Of the budget, for the tables of naive Bayes.
    scores, weights : Steps
        Gradients of a weight for each feature, and of one for each value and class.
    choice : Steps
        One release, of how well what gradients led to predicts.
    signal : float
        Records in an average cell, in standard deviations of the noise of equal tables.
    """

    share: float
    scores: Steps
    weights: Steps
    choice: Steps
    signal: float

    def cost(self, tables: TablesMechanism | None) -> GaussianCost:
        """Return the cost of Gaussian tables, gradients and the choice, as one Gaussian release."""
        sizes = () if tables is None else tables.sizes
        precision = sum(sigma**-2.0 for sigma in sizes)
        precision += self.scores.precision + self.weights.precision + self.choice.precision
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
    sigma: float, n_records: int, sizes: Sequence[int], n_classes: int, *, has_tables: bool
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

    Raises
    ------
    ValueError
        If so, and the budget is too small for drawable noise.
    """
    signal = signal_of(sigma, n_records, sizes, n_classes)
    if signal < _LEAST_SIGNAL * n_classes and not has_tables:
        return Plan(1.0, _NONE, _NONE, _NONE, signal)
    least, most = _FOR_TABLES
    share = min(max(1 / (1 + _TABLES * signal**_POWER), least), most) if not has_tables else 0.0
    # Small enough for features that repeat each other and so add up their gradients.
    fewest = math.ceil(_STEPS_OF_FEATURE * len(sizes))
    number = max(int(_STEPS * max(1.0, signal / _TYPICAL_SIGNAL) ** 0.25), fewest)
    part = signal / (signal + _HALVED)
    choice = _CHOICE
    if sigma > _CLEAR * n_records * math.sqrt((1 - share) * choice):
        part = choice = 0.0  # all is for features' weights

    def steps(share: float, number: int) -> Steps:
        if share <= 0:
            return _NONE
        each = sigma * math.sqrt(number / share)
        if each > SumsMechanism.largest:
            raise ValueError("target must allow more: gradients would drown in noise.")
        return Steps(number, SumsMechanism(sigma=each))

    return Plan(
        share,
        steps((1 - share) * (1 - choice) * (1 - part), _STEPS),
        steps((1 - share) * (1 - choice) * part, number),
        steps((1 - share) * choice, 1),
        signal,
    )


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
    ``A = J (J − 1) σ² / (2 n²)`` nats; it costs features, whose worth rises with their signal s as
    ``s² / (1 + s²)``, about ``a G s² / (1 + s²)²``. The least of the sum is at ``a = √(A / G)
    (1 + s²) / s``. It is taken up to ``2 / J²``: many classes have mostly similar counts.
    """
    n_classes, sizes = shapes[0][1], [size for _, size in shapes[1:]]
    signal = signal_of(sigma, n_records, sizes, n_classes)
    loss = n_classes * (n_classes - 1) * sigma**2 / (2 * n_records**2)
    first, *others = least_noise_shares(shapes)
    own = math.sqrt(loss / _WORTH) * (1 + signal**2) / signal
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
    return typical * min(1.0, rarest / _SAFE_SIGNAL)
