"""Private histograms: how records are spread over public bins or categories.

`histogram` and `value_counts` read like NumPy's and pandas' functions of these names, with one
difference: the bins, or the categories, are public and stated beforehand, for a model that reads
them off private data leaks them. Every cell is released, whether anybody is in it or not.

By default (``mechanism="auto"``) the mechanism is chosen that has the least expected loss for the
number of records and cells and the target: nothing of the data decides. What is released is noisy
counts, or a Dirichlet draw; what is returned are probabilities, made of nothing else.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, ndtri

from privrl._checks import check_between, check_count, check_positive, check_rng
from privrl.design import Loss
from privrl.design import typical_loss as typical_draw_loss
from privrl.estimates.frequencies import (
    frequencies,
    noise_deviation,
    noise_size,
    total_records,
    typical_loss,
)
from privrl.mechanisms.additive import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.base import Charged
from privrl.mechanisms.dirichlet import DirichletMechanism, synthetic_counts
from privrl.relations import AddRemoveRecord, Relation, ReplaceRecord
from privrl.releases import Release
from privrl.schema import Bins, Categories, Column
from privrl.schema.entries import as_series
from privrl.schema.plain import column_of, listed, plain
from privrl.special import FloatArray
from privrl.targets import ApproxDP, Rdp, Target
from privrl.utility import VERTEX_ALPHA, gaussian_l2_quantile, kl_quantile, l2_quantile

Name = Literal["auto", "dirichlet", "gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]
HistogramMechanism = DirichletMechanism | AdditiveMechanism[Any]

# Those that add noise; of equals the first is chosen, which is drawn exactly.
_NOISES: dict[str, type[AdditiveMechanism[Any]]] = {
    "discrete-gaussian": DiscreteGaussianMechanism,
    "discrete-laplace": DiscreteLaplaceMechanism,
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
}
_SETTINGS = {
    "discrete-gaussian": ["sigma"],
    "discrete-laplace": ["scale"],
    "gaussian": ["sigma"],
    "laplace": ["scale"],
    "dirichlet": ["scale", "alpha"],
}
_FORMAT = "privrl.PrivateHistogram 1"
_CHUNK = 1 << 16  # records counted at once: so many stay in a processor's cache
_SHOWN = 24  # cells of a histogram that is printed
_BAR = 30  # characters


@dataclass(frozen=True, eq=False, repr=False)
class PrivateHistogram:
    """A histogram as it was released; everything about it is free from here on.

    Parameters
    ----------
    column : Categories or Bins
        The public cells.
    probabilities : array, shape (K,)
        The best guess at the frequencies; > 0, with sum 1.
    n_records : float
        The number of records where it is public, otherwise an estimate of it.
    mechanism : mechanism of `privrl.mechanisms`
        What released it, with its parameters.
    noisy : array, shape (K,), or None
        The counts with noise; they may be negative. They are unbiased, and so are sums of them.
        None where a Dirichlet draw was released.
    """

    column: Column
    probabilities: FloatArray
    n_records: float
    mechanism: HistogramMechanism
    noisy: FloatArray | None

    def __post_init__(self) -> None:
        for name in ("probabilities", "noisy"):
            if getattr(self, name) is not None:
                array = np.array(getattr(self, name), np.float64)
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    @property
    def release(self) -> Release:
        """What was spent, and under which neighbouring relation."""
        return self.mechanism.cost

    @property
    def is_size_public(self) -> bool:
        """Whether neighbours have equally many records, so that their number is no secret."""
        return _keeps_size(self.mechanism.relation)

    @property
    def counts(self) -> FloatArray:
        """The estimated counts, shape (K,): probabilities times the number of records."""
        return self.probabilities * self.n_records

    @property
    def labels(self) -> tuple[str, ...]:
        """A different text for each cell."""
        return self.column.labels

    @property
    def edges(self) -> FloatArray:
        """The edges of the bins, one more than there are.

        Raises
        ------
        ValueError
            If the histogram is of categories.
        """
        if not isinstance(self.column, Bins):
            raise ValueError("edges are of bins, and this histogram is of categories; see labels.")
        return np.array(self.column.edges)

    def sample(self, n: int, rng: np.random.Generator) -> "pd.Series[Any]":
        """Draw synthetic records: free, however many.

        Parameters
        ----------
        n : int
            How many, >= 0.
        rng : numpy.random.Generator
            Where the randomness comes from.

        Returns
        -------
        pandas.Series, shape (n,)
            Categories, or the middles of bins; missing for the cells of other and missing values.
        """
        check_count("n", n, least=0)
        check_rng(rng)
        counts = synthetic_counts(self.probabilities, n, rng)
        return self.column.decode(rng.permutation(np.repeat(np.arange(counts.size), counts)))

    def intervals(self, confidence: float = 0.95) -> FloatArray:
        """Return for each cell an interval that holds the true count.

        Parameters
        ----------
        confidence : float
            Of each interval by itself, in (0, 1).

        Returns
        -------
        array, shape (K, 2)
            Lower and upper ends, from 0 to the number of records where it is public. Each holds
            the count with at least this probability, whatever the data are.

        Raises
        ------
        ValueError
            If ``confidence`` is out of range, or a Dirichlet draw does not tell: the number of
            records is private.
        """
        check_between("confidence", confidence, 0, 1, "0.95 is usual")
        return np.stack(self._bounds(1 - confidence), axis=1)

    def kl_error(self, confidence: float = 0.95) -> float:
        """Return how far the probabilities q may be from the frequencies p, as ``KL(p || q)``.

        Parameters
        ----------
        confidence : float
            In (0, 1).

        Returns
        -------
        float
            In nats; not exceeded with at least this probability, whatever the data are. For a
            Dirichlet draw `privrl.utility.kl_quantile`; otherwise the worst frequencies that lie
            in all cells' intervals at once, which is a few times the divergence to be expected
            (`typical_loss`).

        Raises
        ------
        ValueError
            As `intervals`.
        """
        tail = 1 - check_between("confidence", confidence, 0, 1, "0.95 is usual")
        draw = self.mechanism
        if isinstance(draw, DirichletMechanism) and self.is_size_public:
            alpha = draw.cost.alpha
            if alpha >= 0.5:
                eta = kl_quantile(
                    tail,
                    weight=draw.scale * self.n_records,
                    alpha=alpha,
                    n_cells=self.column.size,
                    bound="vertex" if alpha >= VERTEX_ALPHA else "lambert",
                )
                return float(eta)
        q = self.probabilities
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [np.where(p > 0, p * np.log(p / q), 0.0) - p + q for p in self._box(tail)]
        return float(np.maximum(*ends).sum())

    def l2_error(self, confidence: float = 0.95) -> float:
        """Return how far the probabilities may be from the frequencies, as Euclidean distance.

        Parameters
        ----------
        confidence : float
            In (0, 1).

        Returns
        -------
        float
            Not exceeded with at least this probability, whatever the data are.

        Raises
        ------
        ValueError
            As `intervals`.

        Notes
        -----
        For a Dirichlet draw `privrl.utility.l2_quantile`. For Gaussian noise the distance from the
        noisy frequencies, which is known, and theirs from the true ones: by
        `privrl.utility.gaussian_l2_quantile`, or for discrete noise, which is sub-Gaussian, by the
        bound of Hsu, Kakade and Zhang (2012). Otherwise as `kl_error`.
        """
        tail = 1 - check_between("confidence", confidence, 0, 1, "0.95 is usual")
        used, n, d = self.mechanism, self.n_records, self.column.size
        if isinstance(used, DirichletMechanism) and self.is_size_public:
            weight = used.scale * n
            return float(l2_quantile(tail, weight=weight, alpha=used.cost.alpha, n_cells=d))
        if (
            isinstance(used, GaussianMechanism | DiscreteGaussianMechanism)
            and self.noisy is not None
            and self.is_size_public
        ):
            if isinstance(used, GaussianMechanism):
                noise = float(gaussian_l2_quantile(tail, n_records=n, n_cells=d, sigma=used.sigma))
            else:
                t = -math.log(tail)
                noise = used.sigma / n * math.sqrt(d + 2 * math.sqrt(d * t) + 2 * t)
            moved = float(np.linalg.norm(self.probabilities - self.noisy / n))
            return min(moved + noise, math.sqrt(2))
        ends = [(p - self.probabilities) ** 2 for p in self._box(tail)]
        return min(math.sqrt(np.maximum(*ends).sum()), math.sqrt(2))

    def typical_loss(self, loss: Loss = "kl") -> float:
        """Return the loss to be expected of such a release, averaged over all histograms.

        Parameters
        ----------
        loss : {"kl", "l2", "l1"}
            Between the frequencies and `probabilities`, as for `privrl.design.design`.

        Returns
        -------
        float
            A number that was known before the data were seen, but for an estimated `n_records`.
        """
        return _typical_loss(self.mechanism, self.n_records, self.column.size, loss)

    def to_series(self) -> "pd.Series[float]":
        """Return the probabilities, indexed by the labels."""
        return pd.Series(self.probabilities, pd.Index(self.labels, name="cell"), name="probability")

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return a row for each cell, indexed by the labels.

        Parameters
        ----------
        confidence : float
            As for `intervals`.

        Returns
        -------
        pandas.DataFrame
            ``probability``, ``count`` and, where `intervals` has them, ``lower`` and ``upper``.
        """
        frame = pd.DataFrame({"probability": self.to_series(), "count": self.counts})
        if self.noisy is not None or self.is_size_public:
            frame[["lower", "upper"]] = self.intervals(confidence)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the histogram as plain data, of the form that `from_dict` reads."""
        return {
            "format": _FORMAT,
            "column": plain(self.column),
            "labels": list(self.labels),
            "probabilities": self.probabilities.tolist(),
            "n_records": self.n_records,
            "noisy": None if self.noisy is None else self.noisy.tolist(),
            "spent": {
                "relation": str(self.mechanism.relation),
                "mechanism": mechanism_name(self.mechanism),
                **_settings(self.mechanism),
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the histogram that plain data describe.

        Raises
        ------
        ValueError
            If an entry is absent, unknown or of a wrong type.
        """
        wanted = {"format", "column", "labels", "probabilities", "n_records", "noisy", "spent"}
        if not isinstance(data, Mapping) or set(data) != wanted:
            raise ValueError(f"a histogram must have the entries {listed(sorted(wanted))}.")
        if data["format"] != _FORMAT:
            raise ValueError(f"format must be {_FORMAT!r}, got {data['format']!r}.")
        column = column_of("of the histogram", data["column"])
        mechanism = _mechanism(data["spent"])
        probabilities = _numbers("probabilities", data["probabilities"], column.size)
        if not (probabilities >= 0).all() or not abs(probabilities.sum() - 1) <= 1e-9:
            raise ValueError("probabilities must be >= 0 and sum to 1.")
        n_records = check_positive("n_records", data["n_records"])
        if isinstance(mechanism, DirichletMechanism) != (data["noisy"] is None):
            raise ValueError("noisy must be counts unless the mechanism is 'dirichlet'.")
        noisy = None if data["noisy"] is None else _numbers("noisy", data["noisy"], column.size)
        return cls(column, probabilities, n_records, mechanism, noisy)

    def save(self, path: str | Path) -> None:
        """Write the histogram to a JSON file, replacing it: what was released, and no counts."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
        Path(path).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the histogram in a JSON file.

        Raises
        ------
        ValueError
            If its content is no histogram.
        """
        path = Path(path)
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None

    def __repr__(self) -> str:
        """Return lines of facts, and one with a bar for each cell."""
        about = "" if self.is_size_public else "about "
        settings = [f"{name} {size:.4g}" for name, size in _settings(self.mechanism).items()]
        lines = [
            f"PrivateHistogram of {about}{self.n_records:.6g} records in {self.column.size} cells",
            f"mechanism: {', '.join([mechanism_name(self.mechanism), *settings])}; "
            f"privacy unit: {self.mechanism.relation}",
        ]
        shown = self.labels[:_SHOWN]
        width = max(map(len, shown))
        most = self.probabilities.max()
        for label, p in zip(shown, self.probabilities, strict=False):
            lines.append(f"  {label:<{width}}  {p:8.4f}  {'#' * round(_BAR * p / most)}".rstrip())
        if len(shown) < self.column.size:
            lines.append(f"  ... {self.column.size - len(shown)} more")
        return "\n".join(lines)

    def _bounds(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return ends of intervals of counts, each of which misses with probability ``tail``."""
        used, n, d = self.mechanism, self.n_records, self.column.size
        if not isinstance(used, DirichletMechanism):
            assert self.noisy is not None
            reach = _reach(used, tail)
            most = n if self.is_size_public else math.inf
            return np.clip(self.noisy - reach, 0, most), np.clip(self.noisy + reach, 0, most)
        if not self.is_size_public:
            raise ValueError(
                "a Dirichlet draw has no intervals where the number of records is private; its "
                "spread depends on that number. Noisy counts have: mechanism='auto'."
            )
        y, alpha = self.probabilities, used.cost.alpha

        def below(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            return used.scale * x + alpha, used.scale * (n - x) + (d - 1) * alpha

        # A cell's probability follows a Beta law that rises with its count.
        low = _bisect(lambda x: betaincc(*below(x), y) < tail / 2, n, d)
        high = _bisect(lambda x: betainc(*below(x), y) >= tail / 2, n, d)
        return low, high

    def _box(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return ends of intervals of frequencies that all hold at once, but for ``tail``."""
        low, high = self._bounds(tail / self.column.size)
        if self.is_size_public:
            return low / self.n_records, high / self.n_records
        others_low, others_high = low.sum() - low, high.sum() - high
        with np.errstate(invalid="ignore"):
            first, last = low / (low + others_high), high / (high + others_low)
        return np.nan_to_num(first, nan=0.0), np.nan_to_num(last, nan=1.0)


def histogram(
    values: "ArrayLike | pd.Series[Any]",
    bins: int | Sequence[float] | NDArray[Any] | Column = 10,
    range: tuple[float, float] | None = None,  # noqa: A002, NumPy's name
    *,
    target: Target,
    rng: np.random.Generator,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
    n_records: float | None = None,
    accountant: Charged | None = None,
) -> PrivateHistogram:
    """Release a histogram of private values.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,)
        The private values, one for each record.
    bins : int or sequence of float, or Bins or Categories
        How many bins of equal width, with ``range``; or their edges; or a column of a
        `privrl.schema.Schema`, which also says what is done with missing values. At least two
        cells. As in NumPy a bin holds its left end, and the last one both. What lies outside is
        put into the first or last bin, so that every record is counted.
    range : (float, float), optional
        The public bounds, where ``bins`` is a number. It is never read from the values.
    target : Rdp or ApproxDP
        What the release may spend.
    rng : numpy.random.Generator
        Where the randomness comes from.
    mechanism : str
        ``"dirichlet"``, ``"gaussian"``, ``"laplace"``, ``"discrete-gaussian"``,
        ``"discrete-laplace"`` or ``"auto"``, which is `choose_mechanism`'s choice.
    loss : {"kl", "l2", "l1"}
        The loss that is to be small, as for `privrl.design.design`.
    relation : Relation, optional
        Which data sets are neighbours; by default `ReplaceRecord`, where the number of records is
        public. Where it is not, as with `AddRemoveRecord`, it is estimated from what is released.
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
    >>> from privrl.targets import ApproxDP
    >>> rng = np.random.default_rng(0)  # for a real release: np.random.default_rng()
    >>> ages = rng.normal(40, 15, 5000)
    >>> released = histogram(ages, 4, (0, 80), target=ApproxDP(1, 1e-5), rng=rng)
    >>> released.labels
    ('[0, 20)', '[20, 40)', '[40, 60)', '[60, 80]')
    >>> released.probabilities.round(2)
    array([0.09, 0.43, 0.4 , 0.09])
    """
    check_rng(rng)
    column = _column(bins, range)
    relation = ReplaceRecord() if relation is None else relation
    is_public = _keeps_size(relation)
    if is_public and n_records is not None:
        raise ValueError(
            f"n_records is for relations under which it is private, got {n_records!r} with "
            f"{str(relation)!r}; leave it out, the values are counted."
        )
    counts = count_cells(values, column)
    if is_public:
        n_records = float(counts.sum())
        if n_records == 0:
            raise ValueError("values must hold at least one record, got none.")
    used = choose_mechanism(
        target,
        n_records=n_records,
        n_cells=column.size,
        mechanism=mechanism,
        loss=loss,
        relation=relation,
    )
    released = used.release(counts, rng, accountant=accountant)
    if isinstance(used, DirichletMechanism):
        assert n_records is not None
        return PrivateHistogram(column, released, n_records, used, None)
    total = n_records if is_public else total_records(released, used)
    assert total is not None
    return PrivateHistogram(column, frequencies(released, used, total), total, used, released)


def value_counts(
    values: "ArrayLike | pd.Series[Any]",
    categories: Iterable[str | int | bool] | Categories,
    *,
    target: Target,
    rng: np.random.Generator,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
    n_records: float | None = None,
    accountant: Charged | None = None,
) -> PrivateHistogram:
    """Release how often each of some public categories occurs.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,)
        The private values, one for each record.
    categories : sequence of str, int or bool, or Categories
        What may occur, in the order of the result, at least two. ``Categories(..., other=True)``
        has a cell for whatever is unknown or missing; without it such a value is refused.
    target, rng, mechanism, loss, relation, n_records, accountant
        As for `histogram`.

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
        categories = Categories(listed)  # type: ignore[arg-type]
    return histogram(
        values,
        categories,
        target=target,
        rng=rng,
        mechanism=mechanism,
        loss=loss,
        relation=relation,
        n_records=n_records,
        accountant=accountant,
    )


def choose_mechanism(
    target: Target,
    *,
    n_records: float | None,
    n_cells: int,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
) -> HistogramMechanism:
    """Return the mechanism that meets a target with the least expected loss.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What one release may spend.
    n_records : float or None
        Public number of records, > 0; None where it is private and there is no guess.
    n_cells : int
        Number of cells, >= 2.
    mechanism, loss, relation
        As for `histogram`. Under ``"auto"`` each kind of noise is calibrated to the target, and
        the loss of the probabilities made of it is averaged over all histograms as equally likely
        (`privrl.estimates.frequencies.typical_loss`). A Dirichlet draw is not looked at: it has the
        sampling error of a draw besides, and came out up to several hundred times as far off, never nearer.

    Raises
    ------
    ValueError
        If an argument is out of range or no parameter meets the target.
    """
    if mechanism not in get_args(Name):
        raise ValueError(f"mechanism must be one of {listed(get_args(Name))}, got {mechanism!r}.")
    if loss not in get_args(Loss):
        raise ValueError(f"loss must be one of {listed(get_args(Loss))}, got {loss!r}.")
    if not isinstance(target, Rdp | ApproxDP):
        raise ValueError(f"target must be Rdp(...) or ApproxDP(...), got {target!r}.")
    relation = ReplaceRecord() if relation is None else relation
    _keeps_size(relation)
    if n_records is not None:
        n_records = check_positive("n_records", n_records, "a public guess will do")
    check_count("n_cells", n_cells, least=2)
    return _choose(
        target=target,
        n_records=n_records,
        n_cells=int(n_cells),
        mechanism=mechanism,
        loss=loss,
        relation=relation,
    )


@lru_cache(maxsize=256)
def _choose(
    *,
    target: Target,
    n_records: float | None,
    n_cells: int,
    mechanism: Name,
    loss: Loss,
    relation: Relation,
) -> HistogramMechanism:
    if mechanism in _NOISES:
        return _NOISES[mechanism].calibrated(target, relation=relation)
    if mechanism == "dirichlet":
        if n_records is None:
            raise ValueError(
                "n_records must be given for a Dirichlet draw where it is private: a public guess."
            )
        return DirichletMechanism.designed(
            target, n_records=n_records, n_cells=n_cells, loss=loss, relation=relation
        )
    # Discrete noise is for changes by whole numbers only.
    whole = all(amount.is_integer() for vector in relation.changes() for amount in vector)
    noises = [
        kind.calibrated(target, relation=relation)
        for name, kind in _NOISES.items()
        if whole or not name.startswith("discrete")
    ]
    if n_records is None:
        return min(noises, key=noise_deviation)
    losses = [_typical_loss(each, n_records, n_cells, loss) for each in noises]
    return noises[int(np.argmin(losses))]


def mechanism_name(mechanism: HistogramMechanism) -> str:
    """Return the name that `histogram` knows a mechanism by."""
    names = {kind: name for name, kind in _NOISES.items()}
    return names.get(type(mechanism), "dirichlet")  # type: ignore[arg-type]


def count_cells(values: "ArrayLike | pd.Series[Any]", column: Column) -> NDArray[np.int64]:
    """Return how many values are in each cell: private counts.

    Parameters
    ----------
    values : array_like or pandas.Series, shape (n,)
        As for `histogram`.
    column : Categories or Bins
        The cells.

    Returns
    -------
    array of int, shape (K,)

    Raises
    ------
    ValueError
        If a value does not fit; the message does not show it.
    """
    series = as_series(values)
    counts = np.zeros(column.size, np.int64)
    for start in np.arange(0, max(len(series), 1), _CHUNK):
        some = series.iloc[start : start + _CHUNK]
        if (
            isinstance(column, Bins)
            and isinstance(some.dtype, np.dtype)
            and some.dtype.kind in "iuf"
        ):
            counts += _count_sorted(some, column)
        else:
            counts += np.bincount(column.encode(some), minlength=column.size)
    return counts


def _count_sorted(numbers: "pd.Series[Any]", column: Bins) -> NDArray[np.int64]:
    """Return what encoding and counting gives, by sorting, which is several times faster."""
    ordered = np.sort(numbers.to_numpy(np.float64))
    n = len(ordered)
    there = int(np.searchsorted(ordered, np.inf, side="right"))  # NaN comes last
    if there < n and not column.missing:
        column.encode(numbers)  # says why not
    ends = np.searchsorted(ordered[:there], column.edges[1:-1], side="left")
    counts = np.diff(ends, prepend=0, append=there)
    return np.append(counts, n - there) if column.missing else counts


def _column(bins: Any, bounds: tuple[float, float] | None) -> Column:
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if bounds is None:
            raise ValueError(
                f"range must be given where bins is a number, got {bins!r} bins: the public "
                "bounds (low, high), which are never read from the values."
            )
        if not isinstance(bounds, Sequence | np.ndarray) or len(bounds) != 2:
            raise ValueError(f"range must be (low, high), got {bounds!r}.")
        check_count("bins", int(bins), least=2)
        return Bins.even(bounds[0], bounds[1], int(bins))
    if bounds is not None:
        raise ValueError(f"range goes with a number of bins, got {bounds!r} and edges.")
    if isinstance(bins, Bins | Categories):
        return bins
    if isinstance(bins, str):
        raise ValueError(
            f"bins must be a number, edges, or a column of a schema, got {bins!r}; a rule that "
            "looks at the values would leak them."
        )
    return Bins(tuple(bins) if isinstance(bins, Iterable) else bins)


def _keeps_size(relation: Relation) -> bool:
    """Whether neighbours have equally many records."""
    if not isinstance(relation, Relation):
        raise ValueError(f"relation must be a Relation such as ReplaceRecord(), got {relation!r}.")
    return all(sum(vector) == 0 for vector in relation.changes())


def _typical_loss(
    mechanism: HistogramMechanism, n_records: float, n_cells: int, loss: Loss
) -> float:
    common: dict[str, Any] = {"n_records": n_records, "n_cells": n_cells, "loss": loss}
    if isinstance(mechanism, DirichletMechanism):
        return typical_draw_loss(mechanism.scale, mechanism.cost.alpha, **common)
    is_known = _keeps_size(mechanism.relation)
    return typical_loss(mechanism, **common, is_sum_known=is_known)


def _reach(noise: AdditiveMechanism[Any], tail: float) -> float:
    """Return a number that noise exceeds, in either direction, with probability ``tail`` at most.

    Discrete noise is above a whole number ``k`` no more often than noise on the line of the same
    size is (for the Gaussian: Canonne, Kamath and Steinke, 2020, who bound its tails so).
    """
    size = noise_size(noise)
    if isinstance(noise, GaussianMechanism | DiscreteGaussianMechanism):
        reach = -size * float(ndtri(tail / 2))
    else:
        reach = -size * math.log(tail)
    if isinstance(noise, DiscreteGaussianMechanism | DiscreteLaplaceMechanism):
        return float(math.ceil(reach))
    return reach


def _bisect(holds: Any, n: float, n_cells: int) -> FloatArray:
    """Return the end, from 0 to n, of where a condition holds on counts; 0 where it never does."""
    low, high = np.zeros(n_cells), np.full(n_cells, n)
    low = np.where(holds(high), high, low)
    for _ in range(60):
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low


def _settings(mechanism: HistogramMechanism) -> dict[str, Any]:
    """Return the numbers that, with the relation, make a mechanism."""
    return {name: getattr(mechanism, name) for name in _SETTINGS[mechanism_name(mechanism)]}


def _mechanism(spent: Any) -> HistogramMechanism:
    """Return the mechanism that plain data describe."""
    known = {str(relation): relation for relation in (ReplaceRecord(), AddRemoveRecord())}
    if not isinstance(spent, Mapping) or spent.get("relation") not in known:
        raise ValueError(f"spent must be a table whose relation is one of {listed(known)}.")
    settings = {key: value for key, value in spent.items() if key != "mechanism"}
    settings["relation"] = known[spent["relation"]]
    kinds: dict[str, type[HistogramMechanism]] = {**_NOISES, "dirichlet": DirichletMechanism}
    if spent.get("mechanism") not in kinds:
        raise ValueError(f"mechanism must be one of {listed(kinds)}, got {spent!r}.")
    try:
        return kinds[spent["mechanism"]](**settings)
    except TypeError:
        raise ValueError(f"spent must be the mechanism's settings, got {listed(spent)}.") from None


def _numbers(name: str, values: Any, size: int) -> FloatArray:
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError):
        array = np.array([])
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} numbers, one for each cell.")
    return array
