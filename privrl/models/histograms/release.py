"""From private values to a released histogram."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import Target
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.data.schema import Bins, Categories, Column
from privrl.data.schema.entries import entries_of
from privrl.files.shown import shown
from privrl.mechanisms.design import Loss
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.tables import TablesMechanism
from privrl.models.estimates.blocks import block_starts
from privrl.models.histograms.choice import BLOCKS, Name, choose_mechanism, keeps_size, noise_of
from privrl.models.histograms.result import PrivateHistogram
from privrl.models.others import warn_of_others
from privrl.models.partitions import PartitionedRecords
from privrl.models.released import check_bins, randomness_of_model
from privrl.models.targets import given_target
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

_AT_ONCE = 1 << 14  # numbers, which with their bins fit in a processor's cache
_ASIDE = 0.25  # of a bin: within its edges, and farther from them than rounding takes a number


def histogram(
    values: "ArrayLike | pd.Series[Any] | PartitionedRecords",
    bins: int | Sequence[float] | NDArray[Any] | Column = 10,
    range: tuple[float, float] | None = None,  # noqa: A002, NumPy's name
    *,
    target: Target | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rng: Rng = None,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
    n_records: float | None = None,
    accountant: Accountant | None = None,
) -> PrivateHistogram:
    """Release a histogram of private values.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,), or PartitionedRecords
        The private values, one for each record.
    bins : int or sequence of float, or Bins or Categories
        How many bins of equal width, with ``range``; or their edges; or a column of a
        `privrl.data.Schema`, which also covers missing values. At least two
        cells. As in NumPy a bin holds its left end, and the last one both. Values outside the
        bounds belong to the first or last bin, so that every record is counted.
    range : (float, float), optional
        The public bounds, where ``bins`` is a number. It is never read from the values.
    target : RenyiDP, ApproxDP, PureDP or ZeroConcentratedDP
        The privacy target of the release.
    epsilon, delta : float, optional
        A short form of the target, (epsilon, delta); ``delta`` is 1e-5 by default, and 0 for pure
        privacy.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    mechanism : str
        ``"dirichlet"``, ``"gaussian"``, ``"laplace"``, ``"discrete-gaussian"``,
        ``"discrete-laplace"``, ``"blocks"`` (noise on counts, and on sums of neighbouring cells) or
        ``"auto"``, which is `choose_mechanism`'s choice; bins are taken to be ordered, categories
        not.
    loss : {"kl", "l2", "l1"}
        The loss that is to be small, as for `privrl.mechanisms.design`.
    relation : Relation, optional
        Which data sets are neighbours; by default `ReplaceRecord`, where the number of records is
        public. Where it is not, as with `AddRemoveRecord`, it is estimated from the release.
    n_records : float, optional
        A public guess at the number of records, > 0, where that is private. Without one ``"auto"``
        takes the noise of least variance.
    accountant : RdpAccountant or PldAccountant, optional
        Is charged before anything is drawn.

    Returns
    -------
    PrivateHistogram
        Probabilities, and what else can be made of the release.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the release; then nothing is drawn.
    ValueError
        If a value does not fit, or another argument is out of range; nothing is spent then, and
        the message shows no value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)  # for a real release: privrl.secret_rng()
    >>> ages = rng.normal(40, 15, 5000)
    >>> released = histogram(ages, 4, (0, 80), epsilon=1, delta=1e-5, rng=rng)
    >>> released.labels
    ('[0, 20)', '[20, 40)', '[40, 60)', '[60, 80]')
    >>> released.probabilities.round(2)
    array([0.09, 0.43, 0.4 , 0.09])
    """
    rng = as_rng(rng)
    column, called = _column(bins, range), str(getattr(values, "name", None) or "the column")
    relation = check_relation(relation, ReplaceRecord())
    is_public = keeps_size(relation)
    if is_public and n_records is not None:
        raise ValueError(
            f"n_records is for relations under which it is private, got {shown(n_records)} with "
            f"{str(relation)!r}; leave it out, the values are counted."
        )
    cells = count_cells(values, column)
    if is_public:
        n_records = float(cells.sum())
        if n_records == 0:
            raise ValueError("values must hold at least one record, got none.")
    used = choose_mechanism(
        given_target(target, epsilon, delta),
        n_records=n_records,
        n_cells=column.size,
        mechanism=mechanism,
        loss=loss,
        relation=relation,
        is_ordered=isinstance(column, Bins),
    )
    data: Any = cells
    if isinstance(used, TablesMechanism):
        data = [cells[None], np.add.reduceat(cells, block_starts(cells.size, BLOCKS))[None]]
    used.check(data)  # before the charge
    check_bins(column, accountant)

    def learn(rng: np.random.Generator) -> PrivateHistogram:
        said, sums = randomness_of_model(rng, column), None
        released: Any = used.release(data, rng)
        if isinstance(used, TablesMechanism):
            released, sums = (table.values[0] for table in released)
        deviation = 0.0 if isinstance(used, DirichletMechanism) else noise_of(used).deviation
        warn_of_others(called, column, released, deviation)
        if isinstance(used, DirichletMechanism):
            assert n_records is not None
            return PrivateHistogram(column, released, float(n_records), used, None, said)
        known = n_records if is_public else None
        return PrivateHistogram.of_noisy(
            released, column, used, n_records=known, randomness=said, sums=sums
        )

    return Release(accountant, used.cost, learn, rng).make()


def value_counts(
    values: "ArrayLike | pd.Series[Any]",
    categories: Iterable[str | int | bool] | Categories,
    **options: Any,
) -> PrivateHistogram:
    """Release how often each of some public categories occurs.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,)
        The private values, one for each record.
    categories : sequence of str, int or bool, or Categories
        The public categories, at least two, in the order of the result. ``Categories(...,
        other=True)`` has a cell for unknown and missing values; otherwise those are refused.
    **options
        The target and all other keywords of `histogram`.

    Returns
    -------
    PrivateHistogram
        In the order of the categories, not of their counts.

    Raises
    ------
    BudgetExceeded, ValueError
        As `histogram`.
    """
    if not isinstance(categories, Categories):
        # Categories refuses what is no sequence of values.
        listed = categories if isinstance(categories, str) else list(categories)
        categories = Categories(listed)  # type: ignore[arg-type] # which it refuses
    return histogram(values, categories, **options)


def count_cells(
    values: "ArrayLike | pd.Series[Any] | PartitionedRecords", column: Column
) -> IntArray:
    """Return how many values are in each cell: private counts.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,)
        As for `histogram`.
    column : Categories or Bins
        The public cells.

    Returns
    -------
    array of int, shape (K,)

    Raises
    ------
    ValueError
        If a value does not fit; the message does not show it.
    """
    check_is("column", column, Bins, Categories)
    if isinstance(values, PartitionedRecords):
        return values.counts(column)
    dtype = getattr(values, "dtype", None)
    plain = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
    if not isinstance(column, Bins) or not plain:
        return np.bincount(column.encode(values), minlength=column.size)
    entries = entries_of(values, "values")
    absent = len(entries.there) - np.count_nonzero(entries.there)
    if absent and not column.missing:
        column.encode(values)  # raises with the reason
    numbers = entries.values[entries.there] if absent else entries.values
    # Much faster than encoding, with the same bins: they hold their left ends, the last one both.
    counts = _counted(numbers.astype(np.float64, copy=False), np.array(column.edges))
    return np.append(counts, absent) if column.missing else counts


def _counted(numbers: FloatArray, edges: FloatArray) -> IntArray:
    """Return how many numbers are in each bin; what lies outside is in the first or last."""
    low, high, n_bins = edges[0], edges[-1], len(edges) - 1
    inner, whole = edges[1:-1], np.arange(1, n_bins)
    with np.errstate(all="ignore"):
        per_bin = n_bins / (high - low)
        astray = np.abs((inner - low) * per_bin - whole).max(initial=0.0)
        # Products rise with numbers, so that what holds at edges and next to them holds anywhere.
        before, at = ((x - low) * per_bin for x in (np.nextafter(inner, low), inner))
        is_sure = bool(((before < whole) & (at >= whole)).all())
        if not (astray < _ASIDE and 0 < per_bin < math.inf):
            return np.histogram(np.clip(numbers, low, high), edges)[0]
        counts, firsts, lasts = np.zeros(n_bins, np.intp), edges.copy(), edges[1:].copy()
        firsts[0] = lasts[-1] = math.nan  # beyond which nothing is
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            places = some - low
            places *= per_bin
            np.clip(places, _ASIDE, n_bins - _ASIDE, out=places)
            bins = places.astype(np.intp)
            if not is_sure and np.abs(places - np.rint(places)).min() <= astray:
                bins -= some < firsts[bins]
                bins += some >= lasts[bins]
            counts += np.bincount(bins, minlength=n_bins)
    return counts


def _column(bins: Any, bounds: tuple[float, float] | None) -> Column:
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if bounds is None:
            raise ValueError(
                f"range must be given where bins is a number, got {shown(bins)} bins: the public "
                "bounds (low, high), which are never read from the values."
            )
        if not isinstance(bounds, Sequence | np.ndarray) or len(bounds) != 2:
            raise ValueError(f"range must be (low, high), got {shown(bounds)}.")
        check_count("bins", int(bins), least=2)
        return Bins.even(bounds[0], bounds[1], int(bins))
    if bounds is not None:
        raise ValueError(f"range goes with a number of bins, got {shown(bounds)} and edges.")
    if isinstance(bins, Bins | Categories):
        return bins
    if isinstance(bins, str):
        raise ValueError(
            f"bins must be a number, edges, or a column of a schema, got {shown(bins)}; a rule "
            "that looks at the values would leak them."
        )
    return Bins(tuple(bins) if isinstance(bins, Iterable) else bins)
