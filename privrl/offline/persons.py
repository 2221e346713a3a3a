"""What leaves of persons: tables of noisy sums, and votes, all from one budget.

Each person has a purse of 1. Whatever they add to a table is paid from it, by its size, and who has
nothing left adds nothing more: a privacy filter for each person (Feldman and Zrnic, *Individual
privacy accounting via a Rényi filter*, 2021). The noise has one scale for all tables, and a table
for which persons pay a share of their purse is that much louder over it. So whoever needs little
for one table has more for the next, and which tables there are, and what is added to them, may
depend on all that was released before.

**Sums.** Size is the sum of absolute amounts, and noise is Laplace of scale ``1 / epsilon``. Given
what left before, a person who adds amounts of size ``c`` changes the likelihood of the next table
by a factor of at most ``exp(c epsilon)``; so does a vote (`privrl.numerics.permute_and_flip`).
Their sizes sum to 1 at most, whatever comes out: the factors of all releases together are at most
``exp(epsilon)``. That is pure differential privacy, for a person added or removed.

**Norms.** Size is the square of the Euclidean norm, and noise is Gaussian. A person's squares sum
to 1 at most, whatever comes out, so Rényi divergences of every order add up to that of one release
of norm 1, and the whole is dominated by it (Smith and Thakurta, *Fully adaptive composition for
Gaussian differential privacy*, 2022).

Amounts are rounded towards zero to a grid of 2^-24 of a purse: sums are exact in any order, and
noise is discrete on that grid, drawn exactly.
"""

import math
from typing import Final, NoReturn

import numpy as np

from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.accounting import gate
from privrl.accounting.base import Accountant
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.numerics.discrete_noise import discrete_gaussian, discrete_laplace, permute_and_flip

_PURSE: Final = 2.0**24  # grains of a purse

PersonCost = LaplaceCost | GaussianCost | NoPrivacy


class PersonStream:
    """Noisy tables and votes about persons, from one budget.

    Parameters
    ----------
    n_persons : int
        Who is numbered from 0 to this.
    cost : LaplaceCost, GaussianCost or NoPrivacy
        Of everything that leaves here together, about a table of `AddRemovePerson` or
        `ReplacePerson`; its noise is for purses of 1.
    rng : numpy.random.Generator
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged with ``cost``, once, before anything leaves.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    """

    def __init__(
        self,
        n_persons: int,
        cost: PersonCost,
        rng: np.random.Generator,
        accountant: Accountant | None = None,
    ) -> None:
        self.cost, self._rng = cost, rng
        self._squares = isinstance(cost, GaussianCost)
        self.sums = not self._squares
        whole = _PURSE**2 if self._squares else _PURSE
        self._left = np.full(n_persons, whole)
        self._whole = whole
        gate.charge(accountant, cost)
        self._paid = False

    def __repr__(self) -> str:  # of nothing private
        return f"PersonStream({self.cost!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a stream about persons cannot be copied or saved: two of them would spend one budget."
        )

    @property
    def noise(self) -> float:
        """Deviation of the noise on a table for which a whole purse is paid."""
        match self.cost:
            case LaplaceCost(scale=scale):
                return scale * np.sqrt(2.0)
            case GaussianCost(sigma=sigma):
                return sigma
        return 0.0

    @property
    def left(self) -> FloatArray:
        """What each person has left of 1, shape (n_persons,): private."""
        return self._left / self._whole

    def unit(self, share: float, size: float) -> float:
        """Return what an amount of 1 is to cost, for persons of a size to pay a share of 1.

        ``size`` is a sum of amounts, or a sum of squares, as purses are paid.
        """
        return share / size if self.sums else math.sqrt(share / size)

    def update(
        self,
        person: IntArray,
        cell: IntArray,
        amount: FloatArray,
        n_cells: int,
        unit: float | FloatArray,
        *,
        most: float | FloatArray = 1.0,
    ) -> FloatArray:
        """Return noisy sums of what persons add.

        Parameters
        ----------
        person, cell, amount : array, shape (n,)
            Who adds how much to which cell.
        n_cells : int
            How many cells there are.
        unit : float or array, shape (n_persons,)
            What an amount of 1 costs: part of a purse for sums, its root for norms.
        most : float or array, shape (n_persons,)
            The largest part of their purse that persons pay here. Who would pay more, or has less
            left, adds all of their amounts scaled down.

        Returns
        -------
        array, shape (n_cells,)
            In units of purses: sums of amounts times ``unit``, with noise.
        """
        sums = self._collect(person, cell, amount, n_cells, unit=unit, most=most)
        cost = self._pay_once()
        return gate.release(self, cost, sums / _PURSE, self._rng, self._add_noise)

    def vote(
        self,
        person: IntArray,
        cell: IntArray,
        amount: FloatArray,
        allowed: BoolArray,
        *,
        unit: float,
        favour: FloatArray,
    ) -> IntArray:
        """Return the option of each row with the largest sum, nearly: nothing else leaves.

        Parameters
        ----------
        person, cell, amount, unit
            As for `update`, with a cell for each option of each row.
        allowed : array of bool, shape (rows, options)
            Which options there are, one at least in each row.
        favour : array, shape (rows, options)
            Amounts that are added to the sums; known.

        Returns
        -------
        array of int, shape (rows,)
            Sums, times ``unit``, plus exponential noise of scale ``1 / epsilon`` are compared.

        Raises
        ------
        ValueError
            If noise is Gaussian.
        """
        if self._squares:
            raise ValueError("a vote must be paid by sums, got a GaussianCost; give no delta.")
        sums = self._collect(person, cell, amount, allowed.size, unit=unit, most=1.0)
        known = np.rint(np.where(allowed, favour, 0.0) * unit * _PURSE)

        def draw(data: FloatArray, rng: np.random.Generator) -> IntArray:
            scores = (data * _PURSE).reshape(allowed.shape) + known
            if not isinstance(self.cost, LaplaceCost):
                best: IntArray = np.where(allowed, scores, -np.inf).argmax(axis=1)
                return best
            whole: IntArray = scores.astype(np.intp)
            return permute_and_flip(whole, allowed, self.cost.scale * _PURSE, rng)

        return gate.release(self, self._pay_once(), sums / _PURSE, self._rng, draw)

    def _pay_once(self) -> PersonCost | None:
        cost, self._paid = None if self._paid else self.cost, True
        return cost

    def _collect(
        self,
        person: IntArray,
        cell: IntArray,
        amount: FloatArray,
        n_cells: int,
        *,
        unit: float | FloatArray,
        most: float | FloatArray,
    ) -> FloatArray:
        """Return sums in grains, and take from the purses what they cost."""
        n_persons = len(self._left)
        grains = amount * (unit if np.ndim(unit) == 0 else np.asarray(unit)[person]) * _PURSE
        if not isinstance(self.cost, NoPrivacy):
            wanted = self._size(person, cell, grains, n_cells)
            allowed = np.minimum(self._left, np.asarray(most) * self._whole)
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(wanted > allowed, allowed / wanted, 1.0)
            if self._squares:
                part = np.sqrt(part)
            # A little less, so that rounding cannot make it more than is left.
            part[part < 1] *= 1 - 2.0**-40
            grains = np.trunc(grains * part[person])
            self._left -= self._size(person, cell, grains, n_cells)
            assert n_persons == 0 or self._left.min() >= 0  # nobody pays what they do not have
        sums: FloatArray = np.bincount(cell, grains, n_cells).astype(np.float64)
        return sums

    def _size(
        self, person: IntArray, cell: IntArray, grains: FloatArray, n_cells: int
    ) -> FloatArray:
        """Return what amounts cost each person."""
        n_persons = len(self._left)
        if not self._squares:
            sums: FloatArray = np.bincount(person, np.abs(grains), n_persons).astype(np.float64)
            return sums
        place, where = np.unique(person * n_cells + cell, return_inverse=True)
        of_cell = np.bincount(where, weights=grains, minlength=len(place))
        squares: FloatArray = np.bincount(place // n_cells, of_cell**2, n_persons).astype(
            np.float64
        )
        return squares

    def _add_noise(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        match self.cost:
            case LaplaceCost(scale=scale):
                noise = discrete_laplace(scale * _PURSE, data.shape, rng)
            case GaussianCost(sigma=sigma):
                noise = discrete_gaussian(sigma * _PURSE, data.shape, rng)
            case _:
                return data
        noisy: FloatArray = data + noise / _PURSE
        return noisy
