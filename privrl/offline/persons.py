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
Gaussian noise too is a little louder, and hides as much as on the line, in delta as well
(`privrl.numerics.discrete_gaussian.gaussian_on_grid`).
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import numpy as np

from privrl.accounting import releases
from privrl.accounting.base import Accountant
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, ReplacePerson
from privrl.data.logs import Log
from privrl.data.logs.partitions import PartitionedLog
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.discrete_gaussian import gaussian_on_grid
from privrl.numerics.discrete_noise import discrete_laplace, permute_and_flip
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.purses import FARTHEST, PURSE, Adds, Size, purses_of

_SIZES: Final = (2.0**-20, 2.0**15.5)  # of noise, in purses: what can be drawn on the grid

PersonCost = LaplaceCost | GaussianCost | NoPrivacy


class PersonStream:
    """Noisy tables and votes about persons, from one budget.

    Parameters
    ----------
    log : Log or PartitionedLog
        What is known of the persons.
    cost : LaplaceCost, GaussianCost or NoPrivacy
        Of everything that leaves here together: of the table `SUMS` or `NORMS` of `AddRemovePerson`
        or `ReplacePerson`; its noise is for purses of 1, from 2^-20 to 2^15.5.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged with ``cost``, once, before anything leaves.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If the cost is of something else, or of noise that cannot be drawn, or ``rng`` is no
        generator of this process; nothing is charged.
    """

    cost: PersonCost = fixed()

    def __init__(
        self,
        log: Log | PartitionedLog,
        cost: PersonCost,
        rng: Rng = None,
        accountant: Accountant | None = None,
    ) -> None:
        _check_cost(cost)
        rng = as_rng(rng)
        self.cost, self._rng, self._made_in = cost, rng, this_process()
        self._size: Size = "sums"
        if not isinstance(cost, LaplaceCost):
            self._size = "norms" if isinstance(cost, GaussianCost) else "any"
        self._purses = purses_of(log, self._size)
        self._lock, self._in_use, self._paid = threading.RLock(), False, False
        releases.charge(accountant, cost)  # last: a charged budget can be used

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
    def sums(self) -> bool:
        """Whether persons pay by sums, and not by squares."""
        return self._size != "norms"

    def unit(self, share: float, size: float) -> float:
        """Return what an amount of 1 is to cost, for persons of a size to pay a share of 1.

        ``size`` is a sum of amounts, or a sum of squares, as purses are paid.
        """
        return share / size if self.sums else math.sqrt(share / size)

    def update(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return noisy sums of what persons add.

        Parameters
        ----------
        adds : callable
            From a part of the log, and what each of its persons has left of 1, to what they add,
            as `Added`. It must be pure, and what one person adds must not depend on others.
        n_cells : int
            How many cells there are.

        Returns
        -------
        array, shape (n_cells,)
            In units of purses: sums of amounts times what one costs, with noise.

        Raises
        ------
        ValueError
            If there is no such person or cell, or ``adds`` asks for a table itself.

        Notes
        -----
        Threads may share a stream: one waits until the table of another has left.
        """
        with self._alone():
            sums = self._pay(adds, n_cells)
            return releases.release(self, self._pay_once(), sums, self._rng, self._add_noise)

    def vote(self, adds: Adds, allowed: BoolArray, favour: FloatArray) -> IntArray:
        """Return the option of each row with the largest sum, nearly: nothing else leaves.

        Parameters
        ----------
        adds : callable
            As for `update`, with a cell for each option of each row.
        allowed : array of bool, shape (rows, options)
            Which options there are, one at least in each row.
        favour : array, shape (rows, options)
            What is added to the sums, in purses; known.

        Returns
        -------
        array of int, shape (rows,)
            Sums plus exponential noise of scale ``1 / epsilon`` are compared.

        Raises
        ------
        ValueError
            If noise is Gaussian, or as for `update`.
        """
        if self._size == "norms":
            raise ValueError("a vote must be paid by sums, got a GaussianCost; give no delta.")
        # Whole numbers are added, not floats: one person's grain stays one beside what is known.
        known = np.rint(np.where(allowed, favour, 0.0) * PURSE)
        known = np.clip(known, -FARTHEST, FARTHEST).astype(np.int64)

        def draw(data: FloatArray, rng: np.random.Generator) -> IntArray:
            scores = (data * PURSE).reshape(allowed.shape)
            if not isinstance(self.cost, LaplaceCost):
                best: IntArray = np.where(allowed, scores + known, -np.inf).argmax(axis=1)
                return best
            whole: IntArray = scores.astype(np.int64) + known
            return permute_and_flip(whole, allowed, self.cost.scale * PURSE, rng)

        with self._alone():
            sums = self._pay(adds, allowed.size)
            return releases.release(self, self._pay_once(), sums, self._rng, draw)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Make one table at a time, from what all before have left of purses and of randomness."""
        if self._made_in != this_process():  # before the lock, which a fork may leave locked
            raise ValueError(
                "a stream about persons must be used in the process that made it: two that go on "
                "from a fork would share their noise and spend one budget. Make one in each, which "
                "pays anew."
            )
        with self._lock:
            if self._in_use:
                raise ValueError(
                    "the stream must not be in use: adds asked it for another table, or an "
                    "interrupt came where one ends. Ask for one table after the other, or make "
                    "another stream, which pays anew."
                )
            try:
                self._in_use = True
                yield
            finally:
                self._in_use = False

    def _pay_once(self) -> PersonCost | None:
        cost, self._paid = None if self._paid else self.cost, True
        return cost

    def _pay(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return the sums of what persons add, in purses; it is taken from what they have left."""
        as_rng(self._rng)  # it is of this process
        return self._purses.pay(adds, n_cells) / PURSE

    def _add_noise(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise: FloatArray | IntArray
        match self.cost:
            case LaplaceCost(scale=scale):
                noise = discrete_laplace(scale * PURSE + 0.25, data.shape, rng)
            case GaussianCost(sigma=sigma):
                noise = gaussian_on_grid(sigma * PURSE, data.shape, rng)
            case _:
                return data
        noisy: FloatArray = data + noise / PURSE
        return noisy


_REFUSALS: Final = (ValueError, TypeError, OSError)  # of what is public: nothing is charged then


@contextmanager
def paid_stream(
    log: Log | PartitionedLog, cost: PersonCost, rng: Rng, accountant: Accountant | None
) -> Iterator[PersonStream]:
    """Have a stream, as `PersonStream`; what stops its use says that the budget is spent.

    What is computed from releases neither warns nor raises because of how numbers come out,
    whatever `numpy.seterr` says: the charge cannot be taken back.
    """
    stream = None
    try:
        stream = PersonStream(log, cost, rng, accountant)
        with np.errstate(all="ignore"):
            yield stream
    except BaseException as error:
        if accountant is not None and stream is not None:
            error.add_note(
                "The accountant was charged for this: that is spent, and nothing was released."
            )
        elif accountant is not None and not isinstance(error, _REFUSALS):
            error.add_note("The accountant may have been charged for this; nothing was released.")
        raise


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
            f"of AddRemovePerson() or ReplacePerson(), or NoPrivacy, got {shown(cost)}."
        )
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise ValueError(
            f"cost must be of noise from 2**-20 to 2**15.5 purses, got {shown(cost)}: it is drawn "
            "on a grid of 2**-24."
        )
