"""Products of matrices in which a row does not depend on the others."""

from typing import Final

import numpy as np

from privrl.numerics.typing import FloatArray

_TOGETHER: Final = 256  # rows


def row_by_row(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return ``rows @ matrix``, each row with the same bits whatever the other rows.

    The bits of a product depend on its shape, so all products here have one shape.
    """
    n, size = rows.shape
    padded = np.zeros((-(-n // _TOGETHER), _TOGETHER, size))
    padded.reshape(-1, size)[:n] = rows
    return (padded @ matrix).reshape(-1, matrix.shape[1])[:n]
