"""Noisy sums and votes about persons, all from one budget for each person.

Each person has a budget of 1. Each contribution to a table is paid from it, by its size, and a
person without budget contributes nothing more: an individual privacy filter (Feldman and Zrnic,
*Individual privacy accounting via a Rényi filter*, 2021). The noise has one scale for all tables. A
table for which persons pay a share of their budget has that much more noise relative to the share.
So a person who needs little for one table has more left for the next. The tables, and the
contributions to them, may depend on all earlier releases.

**Sums.** Size is the sum of absolute amounts, and noise is Laplace of scale ``1 / epsilon``. Given
what left before, a person who adds amounts of size ``c`` changes the likelihood of the next table
by a factor of at most ``exp(c epsilon)``; so does a vote (`privrl.numerics.permute_and_flip`).
Their sizes sum to 1 at most, whatever comes out: the factors of all releases together are at most
``exp(epsilon)``. That is pure differential privacy, for a person added or removed.

**Norms.** Size is the square of the Euclidean norm, and noise is Gaussian. A person's squares sum
to 1 at most, whatever comes out, so Rényi divergences of every order add up to that of one release
of norm 1, and the whole is dominated by it (Smith and Thakurta, *Fully adaptive composition for
Gaussian differential privacy*, 2022).

Amounts are rounded towards zero to a grid of 2^-24 of a budget: sums are exact in any order, and
noise is discrete on that grid, drawn exactly. On a grid a likelihood moves by its whole factor with
each grain, which is dearer than Laplace noise on the line at the same scale by the grid's share:
``2 log((1 + exp(1/t)) / 2)`` against ``1/t``, for a scale of ``t`` grains. So sums are drawn with a
quarter of a grain more, under which a grain costs no more than on the line, nor do several grains,
one after the other. Rényi divergences are then those of `LaplaceCost`, at the most. Gaussian noise
too is a little louder, and hides as much as on the line, in delta as well
(`privrl.numerics.discrete_gaussian.gaussian_on_grid`).
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final, Literal, NoReturn

import numpy as np

from privrl.accounting import releases
from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import DEFAULT_DELTA, RenyiDP, target_of
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, Relation, ReplacePerson, of_unit
from privrl.data.logs import Log
from privrl.data.logs.partitions import PartitionedLog
from privrl.files.chosen import check_paid, trial_behind, trial_now
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_is
from privrl.numerics.discrete_gaussian import gaussian_on_grid
from privrl.numerics.discrete_noise import discrete_laplace, permute_and_flip
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

BUDGET: Final = 2.0**24  # grains of a budget
FARTHEST: Final = 2.0**60  # grains beyond which nothing is counted
_STEPS: Final = 2**20  # of persons who are looked at together
_AT_ONCE: Final = 8  # tables that are summed in one place

Size = Literal["sums", "norms", "any"]
"""How what a person adds is measured: by absolute amounts, by their squares, or not at all."""


@dataclass(frozen=True, eq=False)
class Added:
    """What the persons of a part of a log add to a table.

    Attributes
    ----------
    person, cell, amount : array, shape (n,)
        Who adds how much to which cell.
    unit : float or array, shape (n_persons,)
        What an amount of 1 costs: part of a budget for sums, its root for norms.
    most : float or array, shape (n_persons,)
        The largest part of their budget that persons pay here. The amounts of a person who would
        pay more, or has less left, are scaled down; below 0 it is 0.
    """

    person: IntArray
    cell: IntArray
    amount: FloatArray
    unit: float | FloatArray = 1.0
    most: float | FloatArray = 1.0


Adds = Callable[[Log, FloatArray], Added]
"""From a part of a log, and what each of its persons has left of 1, to what they add."""


class _Here:
    """Budgets of persons whose log is in memory."""

    def __init__(self, log: Log, size: Size) -> None:
        # Some persons at a time, for the memory's sake; without a grid it would change sums.
        self._parts = [log] if size == "any" else list(log.blocks(_STEPS))
        self._size, self._left = size, [full(part, size) for part in self._parts]

    def pay(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return the sums of what persons add, in grains, and take from them what it costs."""
        total, still = np.zeros(n_cells), []
        for part, left in zip(self._parts, self._left, strict=True):
            sums, rest = pay(part, left, adds, n_cells, self._size)
            total += sums
            still.append(rest)
        self._left = still
        return total


class _Partitioned:
    """Budgets of persons who are on a cluster.

    The budgets of a part follow from its earlier ones. If a worker dies, the cluster computes them
    again from the files, with the same result.
    """

    def __init__(self, log: PartitionedLog, size: Size) -> None:
        self._log, self._size = log, size
        self._left = [log.submit(full, part, size) for part in log.parts]

    def pay(self, adds: Adds, n_cells: int) -> FloatArray:
        submit = self._log.submit
        paid = [
            submit(pay, part, left, adds, n_cells, self._size)
            for part, left in zip(self._log.parts, self._left, strict=True)
        ]
        self._left = [submit(itemgetter(1), each) for each in paid]
        sums = [submit(itemgetter(0), each) for each in paid]
        while len(sums) > 1:
            sums = [
                submit(_together, *sums[k : k + _AT_ONCE]) for k in range(0, len(sums), _AT_ONCE)
            ]
        return self._log.result(sums[0])


def budgets_of(log: Log | PartitionedLog, size: Size) -> _Here | _Partitioned:
    """Return full budgets for all persons of a log, wherever they are."""
    check_is("log", log, Log, PartitionedLog)
    return _Partitioned(log, size) if isinstance(log, PartitionedLog) else _Here(log, size)


def _together(*tables: FloatArray) -> FloatArray:
    return np.sum(tables, axis=0)


def full(log: Log, size: Size) -> FloatArray:
    """Return a full budget for each person of a part, in grains or in squares of grains."""
    return np.full(log.n_persons, BUDGET**2 if size == "norms" else BUDGET)


def pay(
    log: Log, left: FloatArray, adds: Adds, n_cells: int, size: Size
) -> tuple[FloatArray, FloatArray]:
    """Return sums of contributions of a part, in grains, and the budgets left afterwards.

    What a person adds follows from their own amounts, and nothing that these may be raises or
    warns: what is not finite counts for nothing, or for very much.

    Raises
    ------
    ValueError
        If a person or cell is out of range.
    """
    whole = BUDGET**2 if size == "norms" else BUDGET
    with np.errstate(all="ignore"):
        added = adds(log, left / whole)
        person, cell = np.asarray(added.person, np.intp), np.asarray(added.cell, np.intp)
        _check_places(person, cell, log.n_persons, n_cells)
        unit = added.unit if np.ndim(added.unit) == 0 else np.asarray(added.unit)[person]
        grains = added.amount * unit * BUDGET
    if size == "any":
        return _summed(cell, grains, n_cells), left
    grains = np.clip(np.nan_to_num(grains), -FARTHEST, FARTHEST)
    if size == "norms":  # of one cell are one amount, else rounding could undo what cancels
        place, where = np.unique(person * n_cells + cell, return_inverse=True)
        grains = _summed(where, grains, len(place))
        person, cell = place // n_cells, place % n_cells
    wanted = _sizes(person, grains, left, size)
    with np.errstate(all="ignore"):
        allowed = np.clip(np.nan_to_num(np.asarray(added.most) * whole), 0.0, left)
        part = np.where(wanted > allowed, allowed / wanted, 1.0)
    if size == "norms":
        part = np.sqrt(part)
    # A little less, so that rounding does not make it more than is left,
    part[part < 1] *= 1 - 2.0**-40
    grains = np.trunc(grains * part[person])
    # and nothing if it did all the same: nobody pays what they do not have.
    grains[~(_sizes(person, grains, left, size) <= left)[person]] = 0.0
    return _summed(cell, grains, n_cells), left - _sizes(person, grains, left, size)


def _sizes(person: IntArray, grains: FloatArray, left: FloatArray, size: Size) -> FloatArray:
    """Return what amounts cost each person; under norms, of different cells."""
    return _summed(person, grains**2 if size == "norms" else np.abs(grains), len(left))


def _check_places(person: IntArray, cell: IntArray, n_persons: int, n_cells: int) -> None:
    for name, places, size in (("person", person, n_persons), ("cell", cell, n_cells)):
        if len(places) and not (places.min() >= 0 and places.max() < size):
            raise ValueError(f"each {name} must be a whole number from 0, less than how many are.")


def _summed(places: IntArray, amounts: FloatArray, size: int) -> FloatArray:
    return np.bincount(places, amounts, size).astype(np.float64, copy=False)


_RELATIONS: Final = (AddRemovePerson, ReplacePerson)  # a subclass may list other changes
_SIZES: Final = (2.0**-20, 2.0**15.5)  # of noise, in budgets: what can be drawn on the grid

PersonCost = LaplaceCost | GaussianCost | NoPrivacy


class PersonStream:
    """Noisy tables and votes about persons, from one budget.

    Parameters
    ----------
    log : Log or PartitionedLog
        What is known of the persons.
    cost : LaplaceCost, GaussianCost or NoPrivacy
        Of everything that leaves here together: of the table `SUMS` or `NORMS` of `AddRemovePerson`
        or `ReplacePerson`, which get the unit of the log; its noise is for budgets of 1, from 2^-20
        to 2^15.5.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged with ``cost``, once, before anything leaves.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If the cost is of something else, or of noise that cannot be drawn, or ``rng`` was not made
        in this process; nothing is charged.
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
        self._rng, self._made_in = rng, this_process()
        self._size: Size = "sums"
        if not isinstance(cost, LaplaceCost):
            self._size = "norms" if isinstance(cost, GaussianCost) else "any"
        self._budgets = budgets_of(log, self._size)
        self.cost = replace(cost, relation=of_unit(cost.relation, log.unit))
        self._lock, self._in_use, self._paid = threading.RLock(), False, False
        self._trial = trial_behind(accountant)
        releases.charge(accountant, self.cost)  # last: a charged budget can be used

    def __repr__(self) -> str:  # of nothing private
        return f"PersonStream({self.cost!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a stream about persons cannot be copied or saved: two of them would spend one budget."
        )

    @property
    def noise(self) -> float:
        """Deviation of the noise on a table for which a whole budget is paid."""
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

        ``size`` is a sum of amounts, or a sum of squares, as budgets are paid.
        """
        return share / size if self.sums else math.sqrt(share / size)

    def update(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return noisy sums of what persons add.

        Parameters
        ----------
        adds : callable
            From a part of the log, and what each of its persons has left of 1, to what they add, as
            `Added`. It must be pure, and the contribution of one person must not depend on others.
        n_cells : int
            The number of cells.

        Returns
        -------
        array, shape (n_cells,)
            In units of budgets: sums of amounts times what one costs, with noise.

        Raises
        ------
        ValueError
            If a person or cell is out of range, or ``adds`` asks for a table itself.

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
            The allowed options, at least one in each row.
        favour : array, shape (rows, options)
            What is added to the sums, in budgets; known.

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
        known = np.rint(np.where(allowed, favour, 0.0) * BUDGET)
        known = np.clip(known, -FARTHEST, FARTHEST).astype(np.int64)

        def draw(data: FloatArray, rng: np.random.Generator) -> IntArray:
            scores = (data * BUDGET).reshape(allowed.shape)
            if not isinstance(self.cost, LaplaceCost):
                return np.where(allowed, scores + known, -np.inf).argmax(axis=1)
            whole: IntArray = scores.astype(np.int64) + known
            return permute_and_flip(whole, allowed, self.cost.scale * BUDGET, rng)

        with self._alone():
            sums = self._pay(adds, allowed.size)
            return releases.release(self, self._pay_once(), sums, self._rng, draw)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Make one table at a time, from what all before have left of budgets and of randomness."""
        if self._made_in != this_process():  # before the lock, which a fork may leave locked
            raise ValueError(
                "a stream about persons must be used in the process that made it: two that go on "
                "from a fork would share their noise and spend one budget. Make one in each, which "
                "pays anew."
            )
        if (trial := trial_now()) is not None:
            check_paid(self, trial)
        with self._lock:
            if self._in_use:
                raise ValueError(
                    "the stream must not be in use: adds asked it for another table, or an "
                    "interrupt came where one ends. Ask for one table after the other, or make "
                    "another stream, which pays anew."
                )
            try:
                self._in_use = True
                with np.errstate(all="ignore"):  # whatever numpy.seterr says, as `paid_stream`
                    yield
            finally:
                self._in_use = False

    def _pay_once(self) -> PersonCost | None:
        cost, self._paid = None if self._paid else self.cost, True
        return cost

    def _pay(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return the sums of contributions, in budgets, and charge them to the budgets."""
        as_rng(self._rng)  # it is of this process
        return self._budgets.pay(adds, n_cells) / BUDGET

    def _add_noise(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise: FloatArray | IntArray
        match self.cost:
            case LaplaceCost(scale=scale):
                noise = discrete_laplace(scale * BUDGET + 0.25, data.shape, rng)
            case GaussianCost(sigma=sigma):
                noise = gaussian_on_grid(sigma * BUDGET, data.shape, rng)
            case _:
                return data
        return data + noise / BUDGET


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
    if type(cost) is NoPrivacy:
        return
    size, table = np.nan, ""
    if type(cost) is LaplaceCost:  # a subclass may cost anything
        size, table = cost.scale, SUMS
    elif type(cost) is GaussianCost:
        size, table = cost.sigma, NORMS
    if getattr(cost, "table", None) != table or type(cost.relation) not in _RELATIONS:
        raise ValueError(
            "cost must be a LaplaceCost of the table SUMS, a GaussianCost of the table NORMS, both "
            f"of AddRemovePerson() or ReplacePerson(), or NoPrivacy, got {shown(cost)}."
        )
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise ValueError(
            f"cost must be of noise from 2**-20 to 2**15.5 budgets, got {shown(cost)}: it is drawn "
            "on a grid of 2**-24."
        )


_LEAST, _MOST = 2.0**-14, 2.0**15  # epsilons that noise on the grid of budgets can be drawn for


def person_cost(
    epsilon: float | None,
    relation: Relation | None = None,
    *,
    delta: float = DEFAULT_DELTA,
    order: float | None = None,
) -> PersonCost:
    """Return the cost of everything released about persons, with the least noise.

    The relation is `AddRemovePerson`, by default, or `ReplacePerson`. Epsilon is in nats,
    above 2**-14 and below 2**15; None for no privacy.

    Parameters
    ----------
    delta : float
        In [0, 1). Noise is Laplace, which keeps pure epsilon and so every delta. (Gaussian noise of
        the same (epsilon, delta) hides what policies are learned from.)
    order : float, optional
        Makes ``epsilon`` a bound on the Rényi divergence of this order, > 1. Noise is Gaussian.

    Raises
    ------
    ValueError
        If an argument is out of range, or the relation is not about persons.
    """
    relation = AddRemovePerson() if relation is None else relation
    if type(relation) not in _RELATIONS:
        raise ValueError(
            f"relation must be AddRemovePerson() or ReplacePerson(), got {shown(relation)}; a "
            "log is of persons."
        )
    if epsilon is None:
        return NoPrivacy(relation)
    epsilon = check_between("epsilon", epsilon, _LEAST, _MOST, "smaller means more privacy")
    target = target_of(epsilon, delta, order)
    if not isinstance(target, RenyiDP):
        return _laplace(epsilon, relation)

    def gaussian(sigma: float) -> GaussianCost:
        return GaussianCost(sigma=sigma, relation=relation, table=NORMS)

    return gaussian(calibrate(target, gaussian, rises=False))


def _laplace(epsilon: float, relation: Relation) -> LaplaceCost:
    most = max(sum(map(abs, vector)) for vector in relation.changes(SUMS))
    cost = LaplaceCost(scale=most / epsilon, relation=relation, table=SUMS)
    while cost.pure_epsilon > epsilon:
        cost = replace(cost, scale=float(np.nextafter(cost.scale, np.inf)))
    return cost
