"""The frequencies behind one row of noisy counts: post-processing, which is free.

`frequencies` is the best estimate if nothing but the sum of a histogram is known. All histograms
are equally likely, as in `privrl.mechanisms.design`, and the estimate is the posterior mean. It is
positive everywhere and needs no constant such as a floor. `typical_loss` computes its expected loss
beforehand, by which a mechanism is chosen.

A histogram that is uniform on the simplex consists of independent exponential counts, given their
sum n. Given noisy counts z as well, the counts x are independent but for their sum,

    density of x_i  proportional to  f(z_i − x_i) exp(−t x_i),   x_i >= 0,

for noise of density f. Given the sum, the tilt t does not matter. The means for the t with which
they sum to n are the first term of the saddle-point expansion of the posterior mean (Daniels,
1954): the tilt replaces the condition on the sum. Under noise of the size of single records the
counts x are whole numbers, with all histograms equally likely.

One prior for all histograms fits sparse and smooth ones badly. `privrl.models.estimates.mixture`
averages many priors, and released histograms use it. `privrl.models.estimates.tables` is for
tables of several rows, and shrinks the rows together.

References
----------
H. E. Daniels. *Saddlepoint approximations in statistics* (1954).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privrl.files.shown import shown
from privrl.mechanisms.additive import AdditiveMechanism
from privrl.mechanisms.design import Loss
from privrl.numerics.checks import check_count, check_numbers, check_positive
from privrl.numerics.roots import brentq
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

Means = Callable[[FloatArray, float], FloatArray]

_COARSE = 4.0  # size of noise from which on it does not matter that counts are whole
_WIDTH = 12.0  # sizes of the noise beyond which next to nothing of it is left
_TINY = np.finfo(np.float64).tiny
_LOST = 1e-280  # of the largest weight: what is far below underflows
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_POWER = 6  # of the nodes on (0, 1): small frequencies matter by their logarithms


def frequencies(
    noisy: ArrayLike, noise: AdditiveMechanism[Any], n_records: float | None = None
) -> FloatArray:
    """Return the best guess at the frequencies of the cells of a histogram.

    Parameters
    ----------
    noisy : array_like, shape (K,)
        Released counts; they may be negative.
    noise : mechanism of counts with noise
        What released them; its kind and size are used.
    n_records : float, optional
        What the counts sum to, > 0, from elsewhere than the private data; by default
        `total_records`.

    Returns
    -------
    array, shape (K,)
        Probabilities > 0 that sum to 1 within rounding.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    z = check_noisy(noisy)
    if n_records is None:
        n_records = total_records(z, noise)
    n = check_positive("n_records", n_records, "the public number of records")
    size, means = _law(noise)
    # Sums of means fall with the tilt, which for Laplace noise is above −1 (in sizes).
    gaussian = noise.is_gaussian
    tilt = (lambda s: s) if gaussian else math.expm1
    least, most = (-1e9, 1e9) if gaussian else (-16.0, 256.0)

    def excess(s: float) -> float:
        return float(means(z / size, tilt(s)).sum()) - n / size

    low, high = -1.0, 1.0
    while excess(low) < 0 and low > least:
        low *= 2
    while excess(high) > 0 and high < most:
        high *= 2
    ends = excess(low), excess(high)
    if ends[0] * ends[1] < 0:
        best = float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
    else:  # such noise does not occur
        best = low if ends[0] <= 0 else high
    x = np.maximum(means(z / size, tilt(best)), _TINY)
    return x / x.sum()


def total_records(noisy: ArrayLike, noise: AdditiveMechanism[Any]) -> float:
    """Return the best guess at how many records a row of noisy counts is of: a number > 0.

    The posterior mean of the number, with all numbers >= 0 equally likely, by the sum of the noisy
    counts; its noise is taken as Gaussian.
    """
    z = check_noisy(noisy)
    deviation = math.sqrt(z.size) * noise.deviation
    return deviation * float(_gaussian_means(z.sum() / deviation, 0.0))


def typical_loss(
    noise: AdditiveMechanism[Any],
    *,
    n_records: float,
    n_cells: int,
    loss: Loss = "kl",
    is_sum_known: bool = True,
) -> float:
    """Return the expected loss of `frequencies`, averaged over all histograms as equally likely.

    Parameters
    ----------
    noise : mechanism of counts with noise
        What releases them.
    n_records : float
        Public number of records, > 0; a guess will do.
    n_cells : int
        Number of cells, >= 2.
    loss : {"kl", "l2", "l1"}
        As for `privrl.mechanisms.design`.
    is_sum_known : bool
        Whether the number of records is public.

    Returns
    -------
    float
        In nats for ``"kl"``.

    Notes
    -----
    A frequency p follows Beta(1, n_cells − 1). Its cell is looked at by itself: the tilt is the one
    that an exponential count of the right mean has, and a known sum takes its share of a cell's
    variance, ``1 / n_cells``, out of the noise.
    """
    n = check_positive("n_records", n_records, "a public guess will do")
    d = check_count("n_cells", n_cells, least=2)
    v = (1 + _NODES) / 2
    p, weights = v**_POWER, _WEIGHTS / 2 * _POWER * v ** (_POWER - 1)
    weights = weights * (d - 1) * (1 - p) ** (d - 2)
    weights = weights / weights.sum()
    known = 1 - 1 / d if is_sum_known else 1.0
    size, means = _law(noise)
    if size < _COARSE:
        p = np.rint(n * p) / n
        far = 2 * math.ceil(_WIDTH * size) + 1  # counts from which on none is near 0
        whole, at = np.unique(np.minimum(np.rint(n * p), far), return_inverse=True)
    else:
        size, known = size * math.sqrt(known), 1.0
        whole, at = p * n, np.arange(p.size)
    if size < _COARSE and noise.is_whole:
        most = math.ceil(_WIDTH * size)
        steps = np.arange(-most, most + 1) / size
    else:
        steps = np.linspace(-_WIDTH, _WIDTH, 97)
    chances = np.exp(-(steps**2) / 2 if noise.is_gaussian else -np.abs(steps))
    chances /= chances.sum()
    tilt = d * size / n
    if size < _COARSE:
        guesses = _whole_guesses(whole, steps, tilt, size, noise.is_gaussian) * size
    else:
        guesses = means(whole[:, None] / size + steps, tilt) * size
    # Far from 0 a guess moves as its count does.
    q = np.maximum((guesses[at] + (p * n - whole[at])[:, None]) / n, _TINY)
    p = p[:, None]
    match loss:
        case "kl":
            each = special.xlogy(p, p) - special.xlogy(p, q) - p + q
        case "l2":
            each = (p - q) ** 2
        case "l1":
            each, known = np.abs(p - q), math.sqrt(known)
        case _:
            raise ValueError(f"loss must be 'kl', 'l2' or 'l1', got {shown(loss)}.")
    return float(d * known * (weights @ each @ chances))


def check_noisy(noisy: ArrayLike) -> FloatArray:
    """Return a row of noisy counts as an array, if it is one."""
    z = check_numbers("noisy", noisy)
    if z.ndim != 1 or z.size < 2 or not np.isfinite(z).all():
        raise ValueError(f"noisy must be finite numbers of shape (K,), K >= 2, got {z.shape}.")
    return z


def _law(noise: AdditiveMechanism[Any]) -> tuple[float, Means]:
    """Return the size of the noise, and the means of counts with a noisy one and a tilt given.

    All in units of that size.
    """
    size = noise.size
    if size < _COARSE:
        return size, lambda z, tilt: _whole_means(z, tilt, size, noise.is_gaussian)
    return size, _gaussian_means if noise.is_gaussian else _laplace_means


def _gaussian_means(z: ArrayLike, tilt: float) -> FloatArray:
    """Return means of N(z − tilt, 1), given that the number is >= 0."""
    u = np.asarray(z, np.float64) - tilt
    far = np.minimum(u, -1e3)
    near = np.maximum(u, -1e3)
    hazard = math.sqrt(2 / math.pi) / special.erfcx(-near / math.sqrt(2))
    return np.where(u > -1e3, near + hazard, -(1 - 2 / far**2) / far)


def _laplace_means(z: FloatArray, tilt: float) -> FloatArray:
    """Return means of densities as exp(−|z − x| − tilt x) on x >= 0, for a tilt > −1."""
    ahead = 1 / (1 + tilt)  # mean length of the tail, beyond z
    v = np.maximum(z, 0.0)
    turn = np.maximum(np.abs(1 - tilt) * v, 1e-100)
    mass, moment = v * special.gammainc(1, turn) / turn, v**2 * special.gammainc(2, turn) / turn**2
    if tilt <= 1:  # from z downwards
        return v - (moment - ahead**2) / (mass + ahead)
    tail = np.exp(-turn) * ahead  # from 0 upwards
    return (moment + tail * (v + ahead)) / (mass + tail)


def _whole_means(z: FloatArray, tilt: float, size: float, is_gaussian: bool) -> FloatArray:
    """Return means of whole numbers >= 0, in units of the size, with probabilities as above."""
    width = math.ceil(_WIDTH * size)
    start = np.maximum(np.rint(z * size) - width, 0.0)
    x = (start[..., None] + np.arange(2 * width + 1)) / size
    error = z[..., None] - x
    log_weights = (-(error**2) / 2 if is_gaussian else -np.abs(error)) - tilt * x
    weights = np.exp(log_weights - log_weights.max(-1, keepdims=True))
    return (weights * x).sum(-1) / weights.sum(-1)


def _whole_guesses(
    counts: FloatArray, steps: FloatArray, tilt: float, size: float, is_gaussian: bool
) -> FloatArray:
    """Return `_whole_means` of some counts plus each of some noise, shape (n_counts, n_steps).

    Weights of whole numbers around a count are the same for all counts, but for where 0 is. Sums
    of sums give means over that 0, so that small ones keep their digits.
    """
    width = 2 * math.ceil(_WIDTH * size)
    x = np.arange(width, -width - 1, -1) / size  # around a count, downwards to 0
    error = steps[:, None] - x
    log_weights = (-(error**2) / 2 if is_gaussian else -np.abs(error)) - tilt * x
    masses = np.exp(log_weights - log_weights.max(-1, keepdims=True)).cumsum(axis=1)
    last = width + np.minimum(counts, width).astype(np.intp)
    moments, masses = masses.cumsum(axis=1)[:, last - 1].T, masses[:, last].T
    lowest = np.maximum(counts - width, 0.0)[:, None]
    is_lost = moments < _LOST
    guesses = (lowest + moments / np.where(is_lost, 1.0, masses)) / size
    noisy = counts[:, None] / size + steps
    guesses[is_lost] = _whole_means(noisy[is_lost], tilt, size, is_gaussian)
    return guesses
