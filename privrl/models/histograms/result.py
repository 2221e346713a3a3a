"""A released histogram: estimates, intervals, display and files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privrl.costs.base import Cost
from privrl.data.schema import Bins, Column
from privrl.data.schema.plain import column_of, plain
from privrl.files.chosen import MayBeChosen, check_file
from privrl.files.fixed import FixedArrays
from privrl.files.html import table
from privrl.files.sharing import Verdict, check_said, judge
from privrl.files.shown import shown
from privrl.mechanisms.additive import (
    DiscreteGaussianMechanism,
    GaussianMechanism,
)
from privrl.mechanisms.design import Loss
from privrl.mechanisms.dirichlet import DirichletMechanism, synthetic_counts
from privrl.mechanisms.errors import VERTEX_ALPHA, gaussian_l2_quantile, kl_quantile, l2_quantile
from privrl.mechanisms.tables import TablesMechanism
from privrl.models.estimates.blocks import Sums
from privrl.models.estimates.mixture import CountPosterior, fit
from privrl.models.histograms.choice import (
    BLOCKS,
    HistogramMechanism,
    expected_loss,
    keeps_size,
    mechanism_name,
    mechanism_of,
    noise_of,
    settings_of,
    spent_by,
)
from privrl.models.saving import Saved, check_entries, check_format, randomness_said
from privrl.numerics.checks import (
    check_between,
    check_count,
    check_is,
    check_numbers,
    check_positive,
)
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

_FORMAT = "privrl.PrivateHistogram 1"
_ENTRIES = (
    "format", "name", "column", "labels", "probabilities", "n_records", "noisy", "spent",
    "randomness", "shareable", "because",
)  # fmt: skip
_SUMS = "noisy_sums"  # an entry of those by blocks
_SHOWN = 24  # cells of a histogram that is printed
_BAR = 30  # characters


@dataclass(frozen=True, eq=False, repr=False)
class PrivateHistogram(MayBeChosen, FixedArrays, Saved):
    """A histogram as it was released; everything about it is free from here on.

    What `histogram` returns makes its estimates when they are first asked for, which takes some
    milliseconds, or more for thousands of cells.

    Parameters
    ----------
    column : Categories or Bins
        The public cells.
    probabilities : array, shape (K,)
        The best guess at the frequencies; > 0, with sum 1.
    n_records : float
        The number of records where it is public, otherwise an estimate of it.
    mechanism : mechanism of `privrl.mechanisms`
        The mechanism of the release, with its parameters.
    noisy : array, shape (K,), or None
        The counts with noise; they may be negative. They are unbiased, and so are sums of them.
        None where a Dirichlet draw was released.
    randomness : str, optional
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.
    sums : array, shape (20,), optional
        Where the mechanism is ``"blocks"`` the noisy sums of 20 blocks of neighbouring cells, of
        which block j begins at cell ``j K // 20``; unbiased, with independent noise.
    name : str, optional
        The public name of the column.
    """

    column: Column
    probabilities: FloatArray
    n_records: float
    mechanism: HistogramMechanism
    noisy: FloatArray | None
    randomness: str | None = None
    sums: FloatArray | None = None
    name: str | None = None

    _indent: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        if self.name is not None:
            check_is("name", self.name, str)
        for name in ("probabilities", "noisy", "sums"):
            if vars(self).get(name) is not None:
                object.__setattr__(self, name, _fixed(getattr(self, name)))

    @classmethod
    def of_noisy(
        cls,
        noisy: FloatArray,
        column: Column,
        mechanism: HistogramMechanism,
        *,
        n_records: float | None,
        randomness: str | None,
        sums: FloatArray | None,
    ) -> Self:
        """Return the histogram of noisy counts; estimates are made when they are first asked for.

        ``n_records`` is None where it is private: it is then one of the estimates.
        """
        made = object.__new__(cls)
        known = {} if n_records is None else {"n_records": n_records}
        vars(made).update(
            known, noisy=noisy, column=column, mechanism=mechanism, randomness=randomness, sums=sums
        )
        made.__post_init__()
        return made

    def __getattr__(self, name: str) -> Any:
        """Make an estimate when it is first asked for."""
        if name == "n_records":
            vars(self)[name] = float(self._posterior.counts.sum())
        elif name == "probabilities":
            counts = self._posterior.counts
            vars(self)[name] = _fixed(counts / counts.sum())
        else:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {shown(name)}.")
        return vars(self)[name]

    @cached_property
    @np.errstate(under="ignore")  # what is free must not fail, whatever numpy.seterr says
    def _posterior(self) -> CountPosterior:
        """The posterior of the counts, given the release."""
        assert not isinstance(self.mechanism, DirichletMechanism)
        assert self.noisy is not None
        total = self.n_records if self.is_size_public else None
        if not isinstance(self.mechanism, TablesMechanism):
            return fit(self.noisy, self.mechanism, total)
        assert self.sums is not None
        blocks = Sums(self.sums, self.mechanism.deviations[1] ** 2, self.noisy.size)
        return fit(self.noisy, noise_of(self.mechanism), total, blocks)

    @property
    def cost(self) -> Cost:
        """The privacy cost, with its neighbouring relation.

        Bins that were released (`column`) keep what that cost, beside it.
        """
        return self.mechanism.cost

    @property
    def is_size_public(self) -> bool:
        """Whether neighbours have equally many records, so that their number is public."""
        return keeps_size(self.mechanism.relation)

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
        """The edges of the bins, shape (K + 1,).

        Raises
        ------
        ValueError
            If the histogram is of categories.
        """
        if not isinstance(self.column, Bins):
            raise ValueError("edges are of bins, and this histogram is of categories; see labels.")
        return np.array(self.column.edges)

    def sample(self, n: int, rng: Rng = None) -> "pd.Series[Any]":
        """Draw synthetic records: free, however many.

        Parameters
        ----------
        n : int
            How many, >= 0.
        rng : numpy.random.Generator, int or None
            Where the randomness comes from.

        Returns
        -------
        pandas.Series, shape (n,)
            Categories, or the middles of bins; missing for the cells of other and missing values.
        """
        check_count("n", n, least=0)
        rng = as_rng(rng)
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
            the count with at least this probability, whatever the data are; and always the
            estimate (`counts`), which it is extended to where need be: see the notes.

        Raises
        ------
        ValueError
            If ``confidence`` is out of range, or a Dirichlet draw was released and the number of
            records is private.

        Notes
        -----
        The interval follows from the noise of one cell, for any data. The estimate uses all cells,
        the number of records and fitted priors (`privrl.models.estimates.mixture`); a draw includes
        its prior. If the two differ by more than the noise, the interval of the noise alone would
        not contain the estimate. `credible_intervals` are those of the estimate.
        """
        tail = 1 - check_between("confidence", confidence, 0, 1, "0.95 is usual")
        low, high = _count_bounds(self, tail)
        return np.stack([np.minimum(low, self.counts), np.maximum(high, self.counts)], axis=1)

    @np.errstate(under="ignore")
    def credible_intervals(self, confidence: float = 0.95) -> FloatArray:
        """Return for each cell an interval that holds the true count, as far as the estimate knows.

        The argument and the shape are as in `intervals`; the estimate (`counts`) is between the
        ends. A Dirichlet draw raises ValueError.

        Notes
        -----
        They are the shortest intervals with this posterior probability, under the priors of the
        estimate, extended to the estimate. They are shorter than `intervals`, by far if
        neighbouring cells are alike or most cells are empty. Their coverage holds on average over
        cells, and over data that resemble some of the priors: docs/models.md measures it.
        `intervals` cover each count for any data.
        """
        check_between("confidence", confidence, 0, 1, "0.95 is usual")
        if isinstance(self.mechanism, DirichletMechanism) or self.noisy is None:
            raise ValueError(
                "credible intervals are of noisy counts, and a Dirichlet draw was released; "
                "see intervals."
            )
        n = self.n_records if self.is_size_public else None
        ends = self._posterior.intervals(confidence)
        ends = np.stack(
            [np.minimum(ends[:, 0], self.counts), np.maximum(ends[:, 1], self.counts)], axis=1
        )
        return ends if n is None else np.minimum(ends, n)

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
            Dirichlet draw `privrl.accuracy.kl_quantile`; otherwise the worst frequencies within all
            cells' intervals at once, which is a few times the expected divergence (`typical_loss`).

        Raises
        ------
        ValueError
            As `intervals`.
        """
        return kl_error(self, 1 - check_between("confidence", confidence, 0, 1, "0.95 is usual"))

    def l2_error(self, confidence: float = 0.95) -> float:
        """Return how far the probabilities may be from the frequencies, as Euclidean distance.

        The argument is that of `kl_error`.

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
        For a Dirichlet draw `privrl.mechanisms.errors.l2_quantile`. For Gaussian noise the distance
        from the noisy frequencies, which is known, and theirs from the true ones: by
        `privrl.mechanisms.errors.gaussian_l2_quantile`, or for discrete noise, which is
        sub-Gaussian, by the bound of Hsu, Kakade and Zhang (2012). Otherwise as `kl_error`.
        """
        return l2_error(self, 1 - check_between("confidence", confidence, 0, 1, "0.95 is usual"))

    def typical_loss(self, loss: Loss = "kl") -> float:
        """Return the loss to be expected of such a release, averaged over all histograms.

        Parameters
        ----------
        loss : {"kl", "l2", "l1"}
            Between the frequencies and `probabilities`, as for `privrl.mechanisms.design`.

        Returns
        -------
        float
            A number that was known before the data were seen, but for an estimated `n_records`. It
            is of the mean over all histograms; priors that fit lose less where data are unlike
            most of these.
        """
        n_cells = self.column.size
        return expected_loss(self.mechanism, n_records=self.n_records, n_cells=n_cells, loss=loss)

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
        """Return the histogram as plain data.

        Raises
        ------
        ValueError
            If its relation is neither `ReplaceRecord` nor `AddRemoveRecord`, or it was chosen
            among several.
        """
        check_file(self)
        return {
            "format": _FORMAT,
            "name": self.name,
            "column": plain(self.column),
            "labels": list(self.labels),
            "probabilities": self.probabilities.tolist(),
            "n_records": self.n_records,
            "noisy": None if self.noisy is None else self.noisy.tolist(),
            **({} if self.sums is None else {_SUMS: self.sums.tolist()}),
            "spent": spent_by(self.mechanism),
            "randomness": self.randomness,
            **self._verdict.said,
        }

    @property
    def _verdict(self) -> Verdict:
        return judge("histogram.json", private=True, randomness=self.randomness)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the histogram that plain data describe; see `Saved.from_dict`."""
        of_blocks = isinstance(data, Mapping) and _SUMS in data
        if isinstance(data, Mapping):
            data = {"name": None, **data}  # files of earlier versions have none
        check_entries("a histogram", data, (*_ENTRIES, _SUMS) if of_blocks else _ENTRIES)
        check_format(data, _FORMAT)
        column = column_of("of the histogram", data["column"])
        if data["labels"] != list(column.labels):
            raise ValueError("labels must be those of the column's cells.")
        mechanism = mechanism_of(data["spent"], column.size)
        probabilities = _numbers("probabilities", data["probabilities"], column.size)
        if not (probabilities >= 0).all() or not abs(probabilities.sum() - 1) <= 1e-9:
            raise ValueError("probabilities must be >= 0 and sum to 1.")
        n_records = check_positive("n_records", data["n_records"])
        if isinstance(mechanism, DirichletMechanism) != (data["noisy"] is None):
            raise ValueError("noisy must be counts unless the mechanism is 'dirichlet'.")
        noisy = None if data["noisy"] is None else _numbers("noisy", data["noisy"], column.size)
        if isinstance(mechanism, TablesMechanism) != of_blocks:
            raise ValueError(f"{_SUMS} must be there if the mechanism is 'blocks', and only then.")
        sums = _numbers(_SUMS, data[_SUMS], BLOCKS) if of_blocks else None
        said = randomness_said(data)
        made = cls(
            column, probabilities, n_records, mechanism, noisy, said, sums=sums, name=data["name"]
        )
        check_said(data, made._verdict)
        return made

    def __repr__(self) -> str:
        """Return lines of facts, and one with a bar for each cell."""
        about = "" if self.is_size_public else "about "
        settings = [f"{name} {size:.4g}" for name, size in settings_of(self.mechanism).items()]
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

    def _repr_html_(self) -> str:
        facts = repr(self).split("\n")[:2]
        left = self.column.size - _SHOWN
        rows = [
            (label, f"{p:.4f}")
            for label, p in zip(self.labels[:_SHOWN], self.probabilities, strict=False)
        ]
        rows += [(f"... {left} more", "")] if left > 0 else []
        return table("; ".join(facts), rows, ("cell", "probability"))


def _fixed(values: ArrayLike) -> FloatArray:
    array = np.array(values, np.float64)
    array.setflags(write=False)
    return array


def _numbers(name: str, values: Any, size: int) -> FloatArray:
    try:
        array = check_numbers(name, values)
    except ValueError:
        array = np.array([])
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} numbers, one for each cell.")
    return array


def _count_bounds(released: PrivateHistogram, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return ends of intervals of counts, each of which misses with probability ``tail``."""
    used, n, d = released.mechanism, released.n_records, released.probabilities.size
    if not isinstance(used, DirichletMechanism):
        assert released.noisy is not None
        reach = noise_of(used).reach(tail)
        most = n if released.is_size_public else math.inf
        return np.clip(released.noisy - reach, 0, most), np.clip(released.noisy + reach, 0, most)
    if not released.is_size_public:
        raise ValueError(
            "a Dirichlet draw has no intervals where the number of records is private; its "
            "spread depends on that number. Noisy counts have: mechanism='auto'."
        )
    y, alpha = released.probabilities, used.cost.alpha

    def below(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return used.weight * x + alpha, used.weight * (n - x) + (d - 1) * alpha

    # A cell's probability follows a Beta law that rises with its count.
    low = _bisect(lambda x: special.betaincc(*below(x), y) < tail / 2, n, d)
    high = _bisect(lambda x: special.betainc(*below(x), y) >= tail / 2, n, d)
    return low, high


def kl_error(released: PrivateHistogram, tail: float) -> float:
    """Return what the divergence exceeds with probability ``tail`` at most, in nats."""
    draw = released.mechanism
    if isinstance(draw, DirichletMechanism) and released.is_size_public:
        alpha = draw.cost.alpha
        if alpha >= 0.5:
            eta = kl_quantile(
                tail,
                total_weight=draw.weight * released.n_records,
                alpha=alpha,
                n_cells=released.probabilities.size,
                bound="vertex" if alpha >= VERTEX_ALPHA else "lambert",
            )
            return float(eta)
    q = released.probabilities
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [
            np.where(p > 0, p * np.log(p / q), 0.0) - p + q
            for p in _frequency_bounds(released, tail)
        ]
    return float(np.maximum(*ends).sum())


def l2_error(released: PrivateHistogram, tail: float) -> float:
    """Return what the Euclidean distance exceeds with probability ``tail`` at most."""
    n, d = released.n_records, released.probabilities.size
    used = released.mechanism
    if not isinstance(used, DirichletMechanism):
        used = noise_of(used)
    if isinstance(used, DirichletMechanism) and released.is_size_public:
        total_weight = used.weight * n
        return float(l2_quantile(tail, total_weight=total_weight, alpha=used.cost.alpha, n_cells=d))
    if (
        isinstance(used, GaussianMechanism | DiscreteGaussianMechanism)
        and released.noisy is not None
        and released.is_size_public
    ):
        if isinstance(used, GaussianMechanism):
            noise = float(gaussian_l2_quantile(tail, n_records=n, n_cells=d, sigma=used.sigma))
        else:
            t = -math.log(tail)
            noise = used.sigma / n * math.sqrt(d + 2 * math.sqrt(d * t) + 2 * t)
        moved = float(np.linalg.norm(released.probabilities - released.noisy / n))
        return min(moved + noise, math.sqrt(2))
    ends = [(p - released.probabilities) ** 2 for p in _frequency_bounds(released, tail)]
    return min(math.sqrt(np.maximum(*ends).sum()), math.sqrt(2))


def _frequency_bounds(released: PrivateHistogram, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return ends of intervals of frequencies that all hold at once, but for ``tail``."""
    low, high = _count_bounds(released, tail / released.probabilities.size)
    if released.is_size_public:
        return low / released.n_records, high / released.n_records
    others_low, others_high = low.sum() - low, high.sum() - high
    with np.errstate(invalid="ignore"):
        first, last = low / (low + others_high), high / (high + others_low)
    return np.nan_to_num(first, nan=0.0), np.nan_to_num(last, nan=1.0)


def _bisect(holds: Any, n: float, n_cells: int) -> FloatArray:
    """Return the end, from 0 to n, of where a condition holds on counts; 0 where it never does."""
    low, high = np.zeros(n_cells), np.full(n_cells, n)
    low = np.where(holds(high), high, low)
    for _ in range(60):
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low
