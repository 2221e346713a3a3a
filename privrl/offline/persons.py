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
noise is discrete on that grid, drawn exactly. On a grid a likelihood moves by its whole factor
with each grain, which is dearer than Laplace noise on the line at the same scale by the grid's
share: ``2 log((1 + exp(1/t)) / 2)`` against ``1/t``, for a scale of ``t`` grains. So sums are drawn
with a quarter of a grain more, under which one grain is no dearer than on the line, nor are as many
as there are, one after the other. Rényi divergences are then those of `LaplaceCost`, at the most.
"""

import math
from typing import Final, NoReturn

import numpy as np

from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.accounting import gate
from privrl.accounting.base import Accountant
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, ReplacePerson
from privrl.numerics.discrete_noise import discrete_gaussian, discrete_laplace, permute_and_flip

_PURSE: Final = 2.0**24  # grains of a purse
_FARTHEST: Final = 2.0**60  # grains beyond which nothing is counted
_SIZES: Final = (2.0**-20, 2.0**15.5)  # of noise, in purses: what can be drawn on the grid

PersonCost = LaplaceCost | GaussianCost | NoPrivacy


class PersonStream:
    """Noisy tables and votes about persons, from one budget.

    Parameters
    ----------
    n_persons : int
        Who is numbered from 0 to this.
    cost : LaplaceCost, GaussianCost or NoPrivacy
        Of everything that leaves here together: of the table `SUMS` or `NORMS` of `AddRemovePerson`
        or `ReplacePerson`; its noise is for purses of 1, from 2^-20 to 2^15.5.
    rng : numpy.random.Generator
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged with ``cost``, once, before anything leaves.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If the cost is of something else, or of noise that cannot be drawn; nothing is charged.
    """

    def __init__(
        self,
        n_persons: int,
        cost: PersonCost,
        rng: np.random.Generator,
        accountant: Accountant | None = None,
    ) -> None:
        _check_cost(cost)
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

        Raises
        ------
        ValueError
            If there is no such person or cell.
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
            If noise is Gaussian, or there is no such person or cell.
        """
        if self._squares:
            raise ValueError("a vote must be paid by sums, got a GaussianCost; give no delta.")
        sums = self._collect(person, cell, amount, allowed.size, unit=unit, most=1.0)
        # Whole numbers are added, not floats: one person's grain stays one beside what is known.
        known = np.rint(np.where(allowed, favour, 0.0) * unit * _PURSE)
        known = np.clip(known, -_FARTHEST, _FARTHEST).astype(np.int64)

        def draw(data: FloatArray, rng: np.random.Generator) -> IntArray:
            scores = (data * _PURSE).reshape(allowed.shape)
            if not isinstance(self.cost, LaplaceCost):
                best: IntArray = np.where(allowed, scores + known, -np.inf).argmax(axis=1)
                return best
            whole: IntArray = scores.astype(np.int64) + known
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
        """Return sums in grains, and take from the purses what they cost.

        What a person adds follows from their own amounts, and nothing that these may be raises or
        warns: what is not finite counts for nothing, or for very much.
        """
        n_persons = len(self._left)
        person, cell = np.asarray(person, np.intp), np.asarray(cell, np.intp)
        _check_places(person, cell, n_persons, n_cells)
        with np.errstate(all="ignore"):
            grains = amount * (unit if np.ndim(unit) == 0 else np.asarray(unit)[person]) * _PURSE
        if isinstance(self.cost, NoPrivacy):
            return _summed(cell, grains, n_cells)
        grains = np.clip(np.nan_to_num(grains), -_FARTHEST, _FARTHEST)
        if self._squares:  # of one cell are one amount, else rounding could undo what cancels
            place, where = np.unique(person * n_cells + cell, return_inverse=True)
            grains = _summed(where, grains, len(place))
            person, cell = place // n_cells, place % n_cells
        wanted = self._size(person, grains)
        allowed = np.minimum(self._left, np.asarray(most) * self._whole)
        with np.errstate(all="ignore"):
            part = np.where(wanted > allowed, allowed / wanted, 1.0)
        if self._squares:
            part = np.sqrt(part)
        # A little less, so that rounding does not make it more than is left,
        part[part < 1] *= 1 - 2.0**-40
        grains = np.trunc(grains * part[person])
        # and nothing if it did all the same: nobody pays what they do not have.
        grains[(self._size(person, grains) > self._left)[person]] = 0.0
        self._left -= self._size(person, grains)
        return _summed(cell, grains, n_cells)

    def _size(self, person: IntArray, grains: FloatArray) -> FloatArray:
        """Return what amounts cost each person; under norms, of different cells."""
        sizes = grains**2 if self._squares else np.abs(grains)
        return _summed(person, sizes, len(self._left))

    def _add_noise(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        match self.cost:
            case LaplaceCost(scale=scale):
                noise = discrete_laplace(scale * _PURSE + 0.25, data.shape, rng)
            case GaussianCost(sigma=sigma):
                noise = discrete_gaussian(sigma * _PURSE, data.shape, rng)
            case _:
                return data
        noisy: FloatArray = data + noise / _PURSE
        return noisy


def _check_cost(cost: PersonCost) -> None:
    """Check that a cost is one of persons, and that its noise can be drawn."""
    if isinstance(cost, NoPrivacy):
        return
    match cost:
        case LaplaceCost():
            size, table = cost.scale, SUMS
        case GaussianCost():
            size, table = cost.sigma, NORMS
        case _:
            size, table = np.nan, ""
    if getattr(cost, "table", None) != table or not isinstance(
        cost.relation, AddRemovePerson | ReplacePerson
    ):
        raise ValueError(
            "cost must be a LaplaceCost of the table SUMS, a GaussianCost of the table NORMS, both "
            f"of AddRemovePerson() or ReplacePerson(), or NoPrivacy, got {cost!r}."
        )
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise ValueError(
            f"cost must be of noise from 2**-20 to 2**15.5 purses, got {cost!r}: it is drawn on a "
            "grid of 2**-24."
        )


def _check_places(person: IntArray, cell: IntArray, n_persons: int, n_cells: int) -> None:
    for name, places, size in (("person", person, n_persons), ("cell", cell, n_cells)):
        if len(places) and not (places.min() >= 0 and places.max() < size):
            raise ValueError(f"each {name} must be a whole number from 0, less than how many are.")


def _summed(places: IntArray, amounts: FloatArray, size: int) -> FloatArray:
    sums: FloatArray = np.bincount(places, amounts, size).astype(np.float64, copy=False)
    return sums
