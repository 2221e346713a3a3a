"""The base class of mechanisms: one release, its cost, and a calibration.

A subclass is a frozen dataclass of public settings with a classmethod ``calibrated(target, …)``,
and implements ``cost``, ``check`` and ``_draw``; the contract tests check the rest.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting import releases
from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.costs.base import Cost
from privrl.numerics.checks import check_numbers
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.special import FloatArray

_LARGEST_COUNT = 2.0**53  # up to which floats hold every whole number

Released = TypeVar("Released")


class Mechanism(ABC, Generic[Released]):
    """One private release of one table of data.

    Data come with rows on the last axis and any leading axes. All rows together are one
    table, in which each record counts as its neighbouring relation says, once: `cost` covers
    the whole of it. The same records released again, or repeated along an axis, are several
    releases, and are paid for as such.
    """

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one release costs."""

    @abstractmethod
    def check(self, data: ArrayLike) -> FloatArray:
        """Return the data as an array if they can be released.

        Raises
        ------
        ValueError
            If they cannot; nothing is spent then.
        """

    @abstractmethod
    def _draw(self, data: FloatArray, rng: np.random.Generator) -> Released:
        """Draw the release of data that `check` has returned."""

    def release(
        self, data: ArrayLike, rng: Rng = None, *, accountant: Accountant | None = None
    ) -> Released:
        """Check the data, charge the accountant, then draw.

        Parameters
        ----------
        data : array_like
            As the mechanism's `check` accepts.
        rng : numpy.random.Generator, int or None
            Source of randomness; None is secret.
        accountant : RdpAccountant or PldAccountant, optional
            Charged with `cost` before the draw.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the release; then nothing is drawn.
        ValueError
            If the data cannot be released, or ``rng`` is none of these; then nothing is spent.
        """
        rng = as_rng(rng)
        checked, cost = self.check(data), self.cost

        def draw(rng: np.random.Generator) -> Released:
            return releases.release(self, cost, checked, rng, self._draw)

        return Release(accountant, cost, draw, rng).make()


def check_counts(data: ArrayLike, *, whole: bool = False) -> FloatArray:
    """Return counts, shape (..., K), as floats if they are from 0 to 2**53 and K is at least 2.

    The message of an error holds no value of the data.
    """
    counts = check_numbers("data", data)
    if counts.ndim < 1 or counts.shape[-1] < 2:
        raise ValueError(
            "data must be counts with at least two cells on the last axis, got shape "
            f"{counts.shape}."
        )
    if not ((counts >= 0) & (counts <= _LARGEST_COUNT)).all():
        raise ValueError(
            "data must be counts >= 0 and <= 2**53 everywhere; check what was counted."
        )
    if whole and not (counts == np.floor(counts)).all():
        raise ValueError("data must be whole numbers; this mechanism adds discrete noise.")
    return counts
