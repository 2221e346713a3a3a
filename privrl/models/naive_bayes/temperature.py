"""The temperature of naive Bayes: measured privately, or typical.

The derivatives of the records' losses by the logarithm of the temperature are summed with noise at
five temperatures. The temperature with the least loss is taken. The loss is convex in the
temperature, so its derivative by the temperature itself cannot fall. Where noise makes it fall, it
is levelled first.

References
----------
H. Akaike. *A new look at the statistical model identification* (1974).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.encoding import Codes
from privrl.numerics.rising import rising
from privrl.numerics.typing import FloatArray

TEMPERATURES = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)


@dataclass(frozen=True)
class _Tuned:
    """How the temperature is measured.

    These were chosen on the eight sets of UCI in docs/results/naive-bayes.md, on other splits;
    that page also has data on which nothing was chosen. Sizes of blocks and chunks bound
    memory, and the smallest and largest numbers keep results within floats; none of these
    changes a result by more than rounding.
    """

    independent: int = 10  # features, up to which the typical temperature is 1
    share: float = 0.05  # of the budget, for measuring it
    clip: float = 2.0  # nats, of a record's derivative
    largest_noise: float = 0.35  # nats, of the mean derivative, up to which it is measured
    pull: float = 0.5  # towards the typical temperature, of the noise, by its squared log-ratio
    optimism: float = 0.25  # nats for each free number
    at_once: int = 8192  # records, whose numbers fit in a processor's cache
    plain: float = 1e300  # nats: far from where floats end
    # a record's part in a sum is a whole number of 1/64, so that sums lie on noise's grid
    steps: int = 64


_TUNED = _Tuned()


#: What measuring releases: for each temperature a table of one row, the sum of the records' values
#: in [0, 1], and of 1 minus them. One record replaced changes both by at most 1.
SHAPES = ((1, 2),) * len(TEMPERATURES)
#: Their parts of the budget, where all other tables together have 1.
SHARES = (_TUNED.share / (1 - _TUNED.share) / len(TEMPERATURES),) * len(TEMPERATURES)


def typical_temperature(n_features: int) -> float:
    """Return the temperature if none is measured; it falls with the number of features."""
    return min(1.0, math.sqrt(_TUNED.independent / n_features))


def is_worth_measuring(deviation: float, n_records: int) -> bool:
    """Return whether the sums would be visible through noise of a standard deviation."""
    return _noise(deviation, n_records) <= _TUNED.largest_noise


def derivative_tables(
    log_prior: FloatArray, log_ratios: FloatArray, numbers: Codes
) -> list[FloatArray]:
    """Return, for each temperature, the exact table of sums: private, to be released.

    Parameters
    ----------
    log_prior : array, shape (J,)
        Logarithms of the classes' probabilities.
    log_ratios : array, shape (J, n)
        Each class's sum of log-probabilities for each record.
    numbers : array of int, shape (n,)
        The records' classes.

    Returns
    -------
    list of arrays, shape (1, 2)
        As `SHAPES`.

    Notes
    -----
    A record's loss is ``log sum_j exp(l_j) - l_y`` with ``l = log prior + t * s``; its derivative
    by ``log t`` is ``t (E s_j - s_y)``, with the mean over predicted classes.

    Infinite logarithms are taken as limits: a class with ``l_j = -inf`` does not enter the mean,
    those with ``+inf`` share it, and a record whose class alone is impossible has the largest
    possible derivative. Where the limit is undefined (``inf - inf``) it is 0.

    **One record changes each sum by at most 1.** The part of a record depends on the record's
    column of ``log_ratios`` and its class alone. It is clipped to [0, 1], with 0 in place of NaN,
    and rounded to k/64 with k in 0 .. 64; of n such parts both the sum and n minus it are exact
    below 2^46 records. A record replaced changes the one by a number in [−1, 1] and the other by
    its negative, as `SHAPES` requires, for any input.
    """
    n_records, sums = len(numbers), np.zeros(len(TEMPERATURES))
    for start in range(0, n_records, _TUNED.at_once):
        some = slice(start, start + _TUNED.at_once)
        sums += _parts(log_prior[:, None], log_ratios[:, some], numbers[some])
    return [np.array([[part, n_records - part]]) for part in sums.tolist()]


def _parts(log_prior: FloatArray, log_ratios: FloatArray, numbers: Codes) -> list[float]:
    """Return the sum of the records' parts at each temperature, which is exact."""
    with np.errstate(invalid="ignore", over="ignore"):  # a warning would reveal a record
        largest = np.abs(log_prior).max()
        if len(log_ratios) == 2:
            by = np.where(numbers == 0, 1.0, -1.0)
            odds, other = (by * (each[1] - each[0]) for each in (log_prior, log_ratios))
            # For each record alone: its part must not depend on the others.
            plain = np.abs(other) + largest < _TUNED.plain
            is_plain = bool(plain.all())
            finite = other if is_plain else np.where(plain, other, 0.0)
            derivatives = [_mean_of_two(t, odds, finite) for t in TEMPERATURES]
            if is_plain:
                return [_rounded(derivative) for derivative in derivatives]
        ahead = log_ratios - log_ratios[numbers, np.arange(len(numbers))]  # of the true class
        if len(log_ratios) != 2:
            is_plain = bool((np.abs(ahead).max(axis=0) + largest < _TUNED.plain).all())
            return [_rounded(_mean_ahead(t, log_prior, ahead, is_plain)) for t in TEMPERATURES]
        limits = [_mean_ahead(t, log_prior, ahead, False) for t in TEMPERATURES]
        parts = (np.where(plain, *each) for each in zip(derivatives, limits, strict=True))
        return [_rounded(part) for part in parts]


def _mean_of_two(temperature: float, odds: FloatArray, ahead: FloatArray) -> FloatArray:
    """Return `_mean_ahead` where nothing is infinite and one class is not the true one.

    An overflow means that the other class has no weight.
    """
    scaled = temperature * ahead
    weights = -odds - scaled
    np.exp(weights, out=weights)
    weights += 1
    return np.divide(scaled, weights, out=scaled)


def _mean_ahead(
    temperature: float, log_prior: FloatArray, ahead: FloatArray, is_plain: bool
) -> FloatArray:
    """Return by how much classes are ahead of the true one, in the mean over predictions."""
    # Where all are finite, what is looked for is nowhere, and means are what they are: to the bit.
    ahead = ahead if is_plain else np.where(np.isnan(ahead), 0.0, ahead)
    scaled = temperature * ahead
    weights = log_prior + scaled
    if is_plain:
        weights -= weights.max(axis=0)
        np.exp(weights, out=weights)
        scaled *= weights
    else:
        logs = np.where(np.isnan(weights), -np.inf, weights)
        largest = logs.max(axis=0)
        weights = np.where(logs == largest, 1.0, np.exp(logs - largest))
        scaled = np.where(weights > 0, weights * scaled, 0.0)
    derivative = scaled.sum(axis=0) / weights.sum(axis=0)
    return np.where(np.isnan(derivative), 0.0, derivative)


def _rounded(derivative: FloatArray) -> float:
    """Return the sum of the parts that some derivatives make, which is exact."""
    values = derivative * (_TUNED.steps / (2 * _TUNED.clip))  # a power of two: nothing is rounded
    values += _TUNED.steps / 2
    np.maximum(values, 0.0, out=values)
    np.minimum(values, _TUNED.steps, out=values)
    return float(np.rint(values, out=values).sum()) / _TUNED.steps


def least_loss(
    sums: Sequence[ReleasedTable], n_records: int, typical: float, freedom: float
) -> float:
    """Return the temperature at which the loss is least, from noisy sums of derivatives.

    The larger the noise, the more it is drawn to the ``typical`` temperature. The tables are of the
    same records, so the loss looks less on these than on others, by a nat for each of ``freedom``
    numbers at a temperature of 1 (Akaike, 1974): a part of that is added.
    """
    differences = np.array([each.values[0, 0] - each.values[0, 1] for each in sums])
    at, temperatures = np.log(TEMPERATURES), np.array(TEMPERATURES)
    # Divided by the temperature it is the derivative by that, and has as many times the noise.
    rises = rising(_TUNED.clip * differences / n_records / temperatures, temperatures**2)
    fine = np.linspace(at[0], at[-1], 61)
    slope = np.interp(fine, at, rises * temperatures)
    loss = np.concatenate([[0.0], np.cumsum(slope[1:] + slope[:-1]) / 2 * (fine[1] - fine[0])])
    pull = _TUNED.pull * _noise(sums[0].deviation, n_records) * (fine - math.log(typical)) ** 2
    optimism = _TUNED.optimism * freedom / n_records * np.exp(fine)
    return float(np.exp(fine[(loss + pull + optimism).argmin()]))


def _noise(deviation: float, n_records: int) -> float:
    """Return the standard deviation of a mean derivative, from that of each of its two sums."""
    return math.sqrt(2) * _TUNED.clip * deviation / n_records
