"""Data to measure with, of the shape of real ones; nothing is downloaded.

Peers make the same data in their own interpreter, so that this module needs NumPy alone.
"""

import numpy as np
from numpy.typing import NDArray

ADULT_RECORDS = 48_842
ADULT_SIZES = (20, 9, 20, 16, 16, 7, 15, 6, 5, 2, 10, 10, 10, 42)
"""Values of the 14 features of the UCI set Adult, numbers in 10 to 20 bins."""


def adult_like(seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return records of the shape of Adult, and two classes on which each feature depends.

    Returns
    -------
    X : array of int, shape (48842, 14)
        Whole numbers from 0; column k has ``ADULT_SIZES[k]`` values.
    y : array of int, shape (48842,)
        0 or 1; a quarter is 1.
    """
    rng = np.random.default_rng(seed)
    y = (rng.random(ADULT_RECORDS) < 0.25).astype(np.int64)
    X = np.empty((ADULT_RECORDS, len(ADULT_SIZES)), np.int64)
    for k, size in enumerate(ADULT_SIZES):
        rows = rng.dirichlet(np.full(size, 0.7), size=2)
        for label in (0, 1):
            X[y == label, k] = rng.choice(size, size=(y == label).sum(), p=rows[label])
    return X, y


def ages(n_values: int, seed: int = 1) -> NDArray[np.float64]:
    """Return numbers, most of them between 0 and 100, shape (n_values,)."""
    return np.random.default_rng(seed).normal(45, 15, n_values)
