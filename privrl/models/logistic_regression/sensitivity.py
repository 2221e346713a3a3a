"""By how much one record can change a sum of gradients, at weights that are public.

A record is K values, one of each feature, and a class y of J. As a row ``x`` it has a 1 at each of
its values and one more for the intercept; here these ones are roots of public scales
``omega_0 .. omega_K`` (of the intercept first), so that features of large scales get less noise.
Its part in the sum is the matrix ``r ⊗ x``, where r is the residual ``p(x) − e_y`` of the model's
probabilities, or the nearest point to it of length c, a public number, if it is longer.

**Two records.** Let ``r, r'`` be theirs, and S the features in which they differ, with scales that
sum to ``a``; let ``b`` be the sum of all scales. In features of S their ones are in different
places, in all others in the same. So

    |r ⊗ x − r' ⊗ x'|² = a (|r|² + |r'|²) + (b − a) |r − r'|².

**The norm of r.** It is at most c. Each probability is between bounds ``low <= p <= high`` that
follow from the largest and least difference of two classes' logits over all records. ``|p − e_y|²``
is a sum of convex functions of one probability each, none above its chord between the bounds, and
probabilities sum to 1. So for any number ``v`` it is at most
``v + sum_j max over {low_j, high_j} of ((p − e_yj)² − v p)`` (weak duality); the ``v`` where two
ends tie include the least. For two classes that is exact.

**The difference of two.** If no difference of two classes' logits changes by more than R, the total
variation between the two ``p`` is at most ``tanh(R / 4)`` (Birkhoff), and so the norm of their
difference at most ``√2 tanh(R / 4)``: gains and losses each sum to the total variation. The
classes differ by at most ``√2``. The nearest points of a ball are no farther apart than two points
are (projections on convex sets are nonexpansive). So ``|r − r'| <= √2 (1 + tanh(R / 4))``, and at
most twice the largest norm.

**All pairs.** R is at most the sum over S of the features' ranges: the largest change of any
difference of two classes' logits. Among sets of scale ``a``, none has a larger sum than the
fractional knapsack R(a) that takes features in the order of range over scale. So the squared change
is at most the largest of ``2 c² a + D(R(a))² (b − a)`` over a, which a fine partition of the a's
bounds from above: both ends of each part at their worst.

**One record added or removed** would change the sum by ``r ⊗ x`` itself, of norm ``c √b`` at the
most, which is less; but then the number of records is not public, and much here rests on it.
"""

import math

import numpy as np

from privrl.numerics.typing import FloatArray, IntArray

_PARTS = 32  # of each feature's scale
_ROUNDING = 1e-9  # relative; far more than floats take from what is worked out here
_CANCELLED = 1e-14  # more than they take from a square where nearly all of it cancels


def largest_change(
    weights: FloatArray,
    intercept: FloatArray,
    starts: IntArray,
    scales: FloatArray,
    *,
    longest: float,
) -> float:
    """Return the most that one replaced record changes the sum, in Euclidean norm.

    Parameters
    ----------
    weights : array, shape (d, J)
        Of the features' values, one after the other, for each class: public.
    intercept : array, shape (J,)
        Of the classes: public.
    starts : array of int, shape (K,)
        Where in ``weights`` each feature begins.
    scales : array, shape (K + 1,)
        Squares of the factors in place of ones, of the intercept and of each feature, > 0.
    longest : float
        No residual is longer, > 0: public.
    """
    ahead, ranges = _differences(weights, starts)
    norm = min(_largest_norm(*_bounds(ahead.sum(axis=0), intercept)), longest)
    order = np.argsort(-ranges / scales[1:])
    corners = np.concatenate([[0.0], np.cumsum(scales[1:][order])])
    sums = np.concatenate([[0.0], np.cumsum(ranges[order])])
    whole = corners[-1] + scales[0]
    # The ends of the parts, as places on the way from one corner to the next.
    ends = np.linspace(0, len(order), len(order) * _PARTS + 1)
    at = np.interp(ends, np.arange(len(corners)), corners)
    apart = _apart(np.interp(at, corners, sums), norm)
    none_differs = apart[0] ** 2 * whole
    squares = 2 * norm**2 * at[1:] + apart[1:] ** 2 * (whole - at[:-1])
    return math.sqrt(max(none_differs, float(squares.max()))) * (1 + _ROUNDING)


def _differences(weights: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much each feature can put a class ahead of another, and its range.

    Shapes (K, J, J) and (K,).
    """
    ahead = np.maximum.reduceat(weights[:, :, None] - weights[:, None, :], starts)
    return ahead, (ahead + ahead.transpose(0, 2, 1)).max(axis=(1, 2))


def _bounds(ahead: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest probability of each class over all records."""
    most = ahead + intercept[:, None] - intercept
    with np.errstate(over="ignore"):
        return 1 / np.exp(most).sum(axis=0), 1 / np.exp(-most).sum(axis=1)


def _largest_norm(low: FloatArray, high: FloatArray) -> float:
    """Return the most that probabilities within bounds are away from a class."""
    targets = np.eye(len(low))
    ties = low + high - 2 * targets  # (classes, J): the v where both ends are alike
    at_ends = [
        (end - targets[:, None]) ** 2 - ties[:, :, None] * end for end in (low, high)
    ]  # (classes, v, J)
    bounds = ties + np.maximum(*at_ends).sum(axis=2)
    return math.sqrt(max(float(bounds.min(axis=1).max()), 0.0) + _CANCELLED)


def _apart(ranges: FloatArray, norm: float) -> FloatArray:
    """Return the most that two records' residuals differ, whose logits do by at most ranges."""
    return np.minimum(math.sqrt(2) * (1 + np.tanh(ranges / 4)), 2 * norm)
