"""Sums of signed amounts, such as gradients, with Gaussian noise.

What each record adds is scaled beforehand, so that the sum changes between neighbours by no more
than the relation's table does, in Euclidean norm: for one replaced record by √2.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.files.shown import shown
from privrl.mechanisms.additive import GaussianMechanism
from privrl.numerics.checks import check_numbers
from privrl.numerics.typing import FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class SumsMechanism(GaussianMechanism):
    """Sums of amounts of either sign with independent Gaussian noise.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, > 0 and at most 2**26; larger is more private.
    relation, table
        As for `GaussianMechanism`. A sum may change by as much as the table, in Euclidean norm.

    Attributes
    ----------
    grain : float
        Sums are whole multiples of this. The contribution of each record is rounded to it; the
        rounding is part of the record's change.

    Raises
    ------
    ValueError
        As for `GaussianMechanism`.
    """

    grain: ClassVar[float] = 2.0**-20
    largest: ClassVar[float] = 2.0**26  # sigma that noise can be drawn with, so many grains

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma > self.largest:
            raise ValueError(f"sigma must be at most 2**26 for sums, got {shown(self.sigma)}.")

    @property
    def _grid(self) -> float:
        return min(super()._grid, self.grain)

    def check(self, data: ArrayLike) -> FloatArray:
        """Return sums, shape (..., K), as floats if they are multiples of the grain.

        Raises
        ------
        ValueError
            If they are not, or not below 2**33 in size, where floats hold all such sums exactly.
        """
        sums = check_numbers("data", data)
        if sums.ndim < 1 or sums.shape[-1] < 1 or not (np.abs(sums) < 2.0**53 * self.grain).all():
            raise ValueError("data must be sums below 2**33 in size, with cells on the last axis.")
        if not np.array_equal(sums, np.rint(sums / self.grain) * self.grain):
            raise ValueError("data must be multiples of 2**-20; round what each record adds.")
        return sums
