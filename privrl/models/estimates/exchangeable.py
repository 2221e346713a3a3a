"""Laws of levels that know no order of cells: how many are empty, how unequal the others are.

The records of a histogram are n in K cells. A family says how many of these cells have most of
them, and that their levels follow a gamma law: of shape 1 where all histograms are equally likely,
of a small one where few cells have most records, of a large one where all have alike. The other
cells are empty, or share a few records, which may be too few in each to be seen through its noise,
but are missed from the sum of all. That is what a prior needs to say of sparse, of peaked and of
level columns. Where there are many cells, `fitted` finds a law of no family in what was released.

References
----------
H. Robbins. *An empirical Bayes approach to statistics* (1956).
"""

import numpy as np

from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

_SHAPES = np.array([0.15, 0.4, 1.0, 3.0, 12.0])
_CHANCES = np.array([0.3, 1.0, 3.0, 1.0, 0.3])  # of the shapes, up to a factor
_SPARSE = 0.85  # power of the share of cells with records, to which that share is likely
_RESTS = np.array([0.0, 0.03, 0.1, 0.3])  # shares of the records that all other cells have
_OF_RESTS = np.array([3.0, 1.0, 1.0, 1.0]) / 6  # their chances
_TWICE = 0.1  # chance of a shape below 1 where cells are empty: that would be sparse twice
_TINY = 1e-9
_BEFORE = 5.0  # cells that the law before is worth, where another is fitted
_ROUNDS = 50


def families(levels: FloatArray, n_records: float, n_cells: int) -> tuple[FloatArray, FloatArray]:
    """Return laws of levels, and how likely each is beforehand, in logarithms.

    Parameters
    ----------
    levels : array, shape (L,)
        0 and numbers above, increasing.
    n_records : float
        The mean of all counts together.
    n_cells : int
        How many cells there are.

    Returns
    -------
    laws : array, shape (F, L)
        Each sums to 1; none is zero anywhere.
    log_chances : array, shape (F,)
    """
    # All cells; and halves of them, halves of these, and so on, down to one, with every rest.
    few = np.append(n_cells / 2.0 ** np.arange(1, np.ceil(np.log2(n_cells / 1.4))), 1.0)
    filled = np.append(n_cells, few.repeat(_RESTS.size))[:, None]
    rest = np.append(0.0, np.tile(_RESTS, few.size))[:, None]
    share = filled / n_cells
    chance = np.append(1.0, np.tile(_OF_RESTS, few.size)) * share[:, 0] ** _SPARSE
    above = levels[1:]
    ends = np.concatenate([[0.0], np.sqrt(above[:-1] * above[1:]), [np.inf]])

    def masses(shape: float, mean: FloatArray) -> FloatArray:
        return np.diff(special.gammainc(shape, shape / mean * ends), axis=1)

    others = masses(1.0, np.maximum(rest * n_records, _TINY) / np.maximum(n_cells - filled, _TINY))
    laws, chances = [], []
    for shape, of_shape in zip(_SHAPES, _CHANCES, strict=True):
        most = share * masses(shape, (1 - rest) * n_records / filled)
        seen = np.where(rest > 0, most + (1 - share) * others, most)
        laws.append(np.hstack([np.where(rest > 0, 0, 1 - share), seen]))
        twice = np.where((shape < 1) & (share[:, 0] < 1), _TWICE, 1)
        chances.append(of_shape * chance * twice)
    every = np.maximum(np.concatenate(laws), _TINY)
    chance = np.concatenate(chances)
    return every / every.sum(axis=1, keepdims=True), np.log(chance / chance.sum())


def fitted(log: FloatArray, cells: FloatArray, law: FloatArray) -> FloatArray:
    """Return the law of levels, (L,), that makes what was released likely, near a law before.

    By expectation and maximisation, from the likelihoods (K, L) of noisy counts, of which there
    are so many ``cells`` (K,).
    """
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    found = law
    for _ in range(_ROUNDS):
        shares = cells / (likely @ found)
        found = found * (shares @ likely) + _BEFORE * law
        found = found / found.sum()
    return found
