"""Isotonic regression of a few numbers, without SciPy's, which takes long to load."""

import numpy as np

from privrl.numerics.typing import FloatArray


def rising(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the numbers that do not fall and are nearest to the values, by weighted squares.

    Parameters
    ----------
    values, weights : array, shape (n,)
        A few numbers, since time grows as n³, and their weights, > 0.
    """
    n = len(values)
    means = [
        [np.average(values[a : b + 1], weights=weights[a : b + 1]) for b in range(a, n)]
        for a in range(n)
    ]
    return np.array([max(min(means[a][i - a :]) for a in range(i + 1)) for i in range(n)])
