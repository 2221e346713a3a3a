"""A naive Bayes classifier whose tables of counts are released privately.

Naive Bayes needs counts alone: how often each class occurs, and for each feature how often each
value occurs with each class. `PrivateNaiveBayes` counts the records once, releases all tables
together under one target, and predicts from what was released. It keeps scikit-learn's promises,
with one difference: what values and classes there may be is public and stated beforehand.

By default (``mechanism="auto"``) three things are done that a single draw or clipped noisy counts
leave undone. All of them are settled by public facts (the number of records, the tables' shapes,
the target) or computed from what was released:

1. The tables get Gaussian noise, or Laplace noise where that has the smaller variance, of sizes
   with which the sum of all cells' variances is least.
2. Rows are shrunk together as far as the noise makes it likely (`privrl.estimates`).
3. Naive Bayes multiplies likelihood ratios as if features were independent, and is far too sure of
   itself, with privacy and without. Its sum of log-ratios is therefore multiplied by a temperature
   from 1/8 to 1. A twentieth of the budget measures it: the records' derivatives of the loss, by
   the logarithm of the temperature, each clipped, are summed with noise at five temperatures. The
   temperature at which the loss is then least is taken, drawn towards a typical one, 0.7, the
   more the larger the noise. Where the noise would drown what is measured (few records, small
   epsilon) nothing is measured, and the temperature is the typical one.

The constants in this (the twentieth, the temperatures, where to clip, 0.7) were chosen on public
benchmark data, and are the same for all data.

The relation is `ReplaceRecord`: neighbours are data sets with equally many records, one of them
another. So the number of records is public, and so is the number of features.

References
----------
D. Ponnoprat. *Dirichlet mechanism for differentially private KL divergence minimization* (DKL),
section 5.1.

J. Vaidya, B. Shafiq, A. Basu and Y. Hong. *Differentially private naive Bayes classification*
(2013).

C. Guo, G. Pleiss, Y. Sun and K. Weinberger. *On calibration of modern neural networks* (2017).
Temperatures.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from privrl._checks import check_between, check_count, check_positive
from privrl.estimates import clipped_rows, row_probabilities, row_totals
from privrl.mechanisms.base import Charged
from privrl.mechanisms.tables import ReleasedTable, Rows, TablesMechanism, least_noise_shares
from privrl.releases import Release
from privrl.schema import Bins, Categories, Column, Schema
from privrl.special import FloatArray
from privrl.targets import ApproxDP, Rdp, Target

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
        check_classification_targets,
    )
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "privrl.naive_bayes needs scikit-learn >= 1.6; pip install 'privrl[models]' has it."
    ) from error

NaiveBayesMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]
Codes = NDArray[np.integer[Any]]

TEMPERATURES = tuple(np.geomspace(1 / 8, 1, 5).tolist())
_TYPICAL = 2**-0.5  # the temperature where none is measured
_SHARE = 0.05  # of the budget, for measuring it
_CLIP = 2.0  # nats, of a record's derivative
_LARGEST_NOISE = 0.5  # nats, of the mean derivative, up to which it is measured
_PULL = 0.25  # towards the typical temperature, of the noise, by its squared log-ratio
_STEPS = 64  # a record's part in a sum is a whole number of 1/64, so that sums lie on noise's grid


class PrivateNaiveBayes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Naive Bayes for categorical and binned features, trained with differential privacy.

    Parameters
    ----------
    schema : Schema or Column or sequence of int
        The public domain of the features. A `Schema` for tables with named columns. A single
        `Categories` or `Bins` for all columns alike, of which X may have any number. Or the
        number of values of each column, if X holds whole numbers 0, 1, ... already.
    classes : str or sequence of str, int or bool, or Categories
        The public classes, at least two: themselves, or the name of the schema's column that
        lists them, which is then no feature.
    target : Rdp or ApproxDP
        What a fit may spend; None for ``mechanism="none"`` only.
    mechanism : {"auto", "dirichlet", "dkl", "gaussian", "laplace", "none"}
        ``"auto"`` is described above. The others are for comparison: one Dirichlet draw of each
        row, scale and prior by `privrl.design`'s criterion or, with ``"dkl"``, by DKL's Algorithm
        1; noisy counts of which small ones are raised to a floor; or exact counts, without any
        privacy.
    shares : {"optimised", "uniform"}
        Parts of the budget for the tables: those with the least variance in all
        (`privrl.mechanisms.least_noise_shares`), or equal ones; ``"dkl"`` has equal ones.
    orientation : {"values", "paper"}
        What a Dirichlet draw's rows are: for each class its distribution over a feature's values,
        or, as DKL prints it, for each value its distribution over the classes.
    alpha : float, optional
        Pseudo-counts, > 0, for the mechanisms other than ``"auto"`` and ``"dkl"``: the prior of
        Dirichlet draws (by default designed), the floor of noisy counts (by default the noise's
        standard deviation), what is added to exact counts (by default 1).
    temperature : float, optional
        A public temperature, > 0. By default measured under ``"auto"``, and 1 otherwise, which
        is naive Bayes as in the books.
    random_state : int, optional
        By default fresh noise from the operating system's entropy. A seed is for experiments
        only: whoever knows it can subtract the noise, and two fits with one seed have the same.

    Attributes
    ----------
    release_ : Release
        What the fit has spent, and under which relation.
    mechanism_ : TablesMechanism
        What released the tables: its name, and the sizes of noise or draws.
    classes_ : array, shape (J,)
        The classes, in the order in which they were stated.
    class_log_prior_ : array, shape (J,)
        Logarithms of the classes' probabilities.
    feature_log_prob_ : list of arrays, shape (J, V)
        For each feature, the logarithms of its values' probabilities in each class.
    temperature_ : float
        By which sums of `feature_log_prob_` are multiplied.
    n_records_ : int
        How many records were fitted: public under this relation.
    n_features_in_ : int
        How many features.
    feature_names_in_ : array of str
        Their names, where X was a data frame.

    Notes
    -----
    All fitted attributes are made of what was released: they may be published, and so may a pickle
    of the estimator. A second fit is a second release, and costs again.

    Examples
    --------
    >>> from privrl.targets import Rdp
    >>> model = PrivateNaiveBayes([3, 2], classes=["no", "yes"], target=Rdp(2, 1), random_state=0)
    >>> X, y = [[0, 0], [1, 0], [2, 1], [2, 1]] * 50, ["no", "no", "yes", "yes"] * 50
    >>> model.fit(X, y).predict([[2, 1]])
    array(['yes'], dtype='<U3')
    """

    def __init__(
        self,
        schema: Schema | Column | Sequence[int],
        *,
        classes: str | Sequence[str | int | bool] | Categories,
        target: Target | None,
        mechanism: NaiveBayesMechanism = "auto",
        shares: Literal["optimised", "uniform"] = "optimised",
        orientation: Literal["values", "paper"] = "values",
        alpha: float | None = None,
        temperature: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.schema = schema
        self.classes = classes
        self.target = target
        self.mechanism = mechanism
        self.shares = shares
        self.orientation = orientation
        self.alpha = alpha
        self.temperature = temperature
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, accountant: Charged | None = None) -> Self:
        """Release the tables of the records, once, and learn from what was released.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K)
            The private records, as the schema says.
        y : array_like, shape (n,)
            Their classes.
        accountant : RdpAccountant or PldAccountant, optional
            Is charged with the whole cost before anything is drawn. It is no parameter of the
            estimator, for scikit-learn copies those, and a copy would be charged instead.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the fit; then nothing is drawn.
        ValueError
            If a parameter is out of range, or a record does not fit the public schema or classes;
            nothing is spent then, and the message shows no value of the records.
        """
        self._check_parameters()
        rng = np.random.default_rng(self.random_state)
        labels = _labels(self.schema, self.classes)
        columns, sizes = self._encode(X, reset=True)
        n_records = columns.shape[1]
        numbers = _encode_classes(labels, y, n_records)
        paper = self.orientation == "paper"
        shapes = [(1, labels.size)]
        shapes += [(v, labels.size) if paper else (labels.size, v) for v in sizes]
        whole, measured = self._plan(shapes, n_records)
        tables = whole.part(slice(len(shapes)))
        counts = _count(columns, numbers, sizes, labels.size)
        data = [counts[0], *(table.T if paper else table for table in counts[1:])]
        if accountant is not None:
            accountant.compose(whole.cost)
        # Both releases below are parts of the whole, which has been paid for.
        released = tables.release(data, rng)
        prior, rows = self._estimate(released, n_records)
        self.release_: Release = whole.cost
        self.mechanism_ = whole
        alike = len(set(map(type, labels.values))) == 1
        self.classes_ = np.array(labels.values, None if alike else object)
        self.n_records_ = n_records
        self.class_log_prior_ = np.log(prior)
        self.feature_log_prob_ = [np.log(table.T if paper else table) for table in rows]
        if measured:
            derivatives = self._derivatives(columns, numbers)
            sums = whole.part(slice(len(shapes), None)).release(derivatives, rng)
            self.temperature_ = _least_loss(sums, n_records)
        else:
            unmeasured = _TYPICAL if self.mechanism == "auto" else 1.0
            self.temperature_ = unmeasured if self.temperature is None else float(self.temperature)
        return self

    @property
    def partial_fit(self) -> NoReturn:
        """There is none: a fit is one release, and the counts it was made of are not kept.

        Raises
        ------
        AttributeError
            Always, so that scikit-learn knows too that there is none.
        """
        raise AttributeError(
            "a private model cannot be fitted further: the counts it was made of are not kept. "
            "Call fit with all records at once; each call is a release that costs."
        )

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """Return for each record and class a logarithm, up to a constant of the record.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K)
            Records, as the schema says.

        Returns
        -------
        array, shape (n, J)
            The class's log-prior, and temperature times the sum of the features' log-probabilities.
        """
        check_is_fitted(self, "temperature_")
        columns, _ = self._encode(X, reset=False)
        return self.class_log_prior_ + self.temperature_ * self._log_ratios(columns).T

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, J)."""
        joint = self.predict_joint_log_proba(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return each record's probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K)
            Records, as the schema says.

        Returns
        -------
        array, shape (n, J)
            Rows that sum to 1 within rounding.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return each record's likeliest class, shape (n,)."""
        likeliest = self.predict_joint_log_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def _check_parameters(self) -> None:
        _check_name("mechanism", self.mechanism, get_args(NaiveBayesMechanism))
        _check_name("shares", self.shares, ("optimised", "uniform"))
        _check_name("orientation", self.orientation, ("values", "paper"))
        draws = self.mechanism in ("dirichlet", "dkl")
        if self.orientation == "paper" and not draws:
            raise ValueError(
                "orientation must be 'values' unless rows are Dirichlet draws, got 'paper' for "
                f"{self.mechanism!r}."
            )
        if not (isinstance(self.target, Rdp | ApproxDP) or self.mechanism == "none"):
            raise ValueError(
                f"target must be Rdp(...) or ApproxDP(...), got {self.target!r}; mechanism='none' "
                "has no privacy and needs none."
            )
        if self.alpha is not None:
            check_positive("alpha", self.alpha, "1 is usual")
            if self.mechanism in ("auto", "dkl"):
                raise ValueError(
                    f"alpha must be None for mechanism {self.mechanism!r}, which chooses for "
                    f"itself, got {self.alpha!r}."
                )
        if self.temperature is not None:
            check_between("temperature", self.temperature, 0, math.inf, "1 is naive Bayes")
        if self.random_state is not None:
            check_count("random_state", self.random_state, least=0)

    def _encode(self, X: Any, *, reset: bool) -> tuple[Codes, tuple[int, ...]]:
        """Return the cells of the records, shape (K, n), and how many each feature has."""
        if isinstance(self.schema, Schema):
            schema = self.schema
            if isinstance(self.classes, str):
                schema = schema.subset(name for name in schema.names if name != self.classes)
            if isinstance(X, pd.DataFrame) and set(schema.names) <= set(X.columns):
                X = X.loc[:, [name in schema.columns for name in X.columns]]
        table = _as_table(X)
        validate_data(self, table, reset=reset, skip_check_array=True)
        if isinstance(self.schema, Schema):
            return _by_column(schema.encode(table)), schema.sizes
        if isinstance(self.schema, Categories | Bins):
            names = [str(k) for k in range(table.shape[1])]
            if isinstance(table, pd.DataFrame):
                names = [str(name) for name in table.columns]
                table = table.set_axis(names, axis=1)
            alike = Schema(dict.fromkeys(names, self.schema))
            return _by_column(alike.encode(table)), alike.sizes
        sizes = _check_sizes(self.schema)
        return _by_column(_check_codes(np.asarray(table), sizes)), sizes

    def _plan(self, shapes: list[Rows], n_records: int) -> tuple[TablesMechanism, bool]:
        """Return the mechanism of everything that is released, and whether a temperature is.

        The sums for the temperature are the last tables, each of one row: the sum of the records'
        values in [0, 1], and of 1 minus them. One record replaced changes both by at most 1.
        """
        if self.mechanism == "none":
            return TablesMechanism(shapes=tuple(shapes), mechanism="none"), False
        assert self.target is not None
        if self.mechanism == "dkl":
            return TablesMechanism.algorithm_1(self.target, shapes=shapes), False
        optimised = self.shares == "optimised"
        shares = least_noise_shares(shapes) if optimised else (1 / len(shapes),) * len(shapes)
        if self.mechanism == "auto" and self.temperature is None:
            each = _SHARE / (1 - _SHARE) / len(TEMPERATURES)
            whole = TablesMechanism.calibrated(
                self.target,
                shapes=[*shapes, *[(1, 2)] * len(TEMPERATURES)],
                n_records=n_records,
                shares=[*shares, *[each] * len(TEMPERATURES)],
            )
            if _noise(whole.deviations[-1], n_records) <= _LARGEST_NOISE:
                return whole, True
        return TablesMechanism.calibrated(
            self.target,
            shapes=shapes,
            n_records=n_records,
            mechanism=self.mechanism,
            shares=shares,
            alpha=self.alpha if self.mechanism == "dirichlet" else None,
        ), False

    def _estimate(
        self, released: Sequence[ReleasedTable], n_records: int
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return probabilities of the classes, and for each feature rows of them."""
        if self.mechanism == "auto":
            totals = row_totals(released, n_records)
            return totals / totals.sum(), [row_probabilities(t, totals) for t in released[1:]]
        if self.mechanism == "none":
            alpha = 1.0 if self.alpha is None else self.alpha
            released = [ReleasedTable(t.values + alpha, "none", 0.0) for t in released]
        floor = self.alpha if self.mechanism in ("gaussian", "laplace") else None
        first, *rows = (clipped_rows(table, floor) for table in released)
        return first[0], rows

    def _log_ratios(self, columns: Codes) -> FloatArray:
        """Return each class's sum of log-probabilities for each record, shape (J, n)."""
        total = np.zeros((len(self.classes_), columns.shape[1]))
        for column, table in zip(columns, self.feature_log_prob_, strict=True):
            total += table.take(column, axis=1)
        return total

    def _derivatives(self, columns: Codes, numbers: Codes) -> list[FloatArray]:
        """Return, for each temperature, the table of the sums that `_plan` speaks of.

        A record's loss is ``log sum_j exp(l_j) - l_y`` with ``l = log prior + t * s``; its
        derivative by ``log t`` is ``t (E s_j - s_y)``, with the mean over predicted classes.
        """
        ahead = self._log_ratios(columns)
        ahead -= ahead[numbers, np.arange(len(numbers))]  # of the true class
        tables = []
        for temperature in TEMPERATURES:
            scaled = temperature * ahead
            weights = self.class_log_prior_[:, None] + scaled
            weights = np.exp(weights - weights.max(axis=0))
            derivative = (weights * scaled).sum(axis=0) / weights.sum(axis=0)
            values = np.clip(derivative / (2 * _CLIP) + 0.5, 0.0, 1.0)
            part = float(np.rint(values * _STEPS).sum()) / _STEPS
            tables.append(np.array([[part, len(values) - part]]))
        return tables


def _least_loss(sums: Sequence[ReleasedTable], n_records: int) -> float:
    """Return the temperature at which the loss is least, from noisy sums of derivatives."""
    differences = np.array([each.values[0, 0] - each.values[0, 1] for each in sums])
    at = np.log(TEMPERATURES)
    fine = np.linspace(at[0], at[-1], 61)
    slope = np.interp(fine, at, _CLIP * differences / n_records)
    loss = np.concatenate([[0.0], np.cumsum(slope[1:] + slope[:-1]) / 2 * (fine[1] - fine[0])])
    pull = _PULL * _noise(sums[0].deviation, n_records) * (fine - math.log(_TYPICAL)) ** 2
    return float(np.exp(fine[(loss + pull).argmin()]))


def _noise(deviation: float, n_records: int) -> float:
    """Return the standard deviation of a mean derivative, from that of each of its two sums."""
    return math.sqrt(2) * _CLIP * deviation / n_records


def _count(
    columns: Codes, numbers: Codes, sizes: Sequence[int], n_classes: int
) -> list[FloatArray]:
    """Return the counts of the classes, shape (1, J), and of each feature's values, (J, V)."""
    counts = [np.bincount(numbers, minlength=n_classes)[None]]
    for column, size in zip(columns, sizes, strict=True):
        cells = np.bincount(column * n_classes + numbers, minlength=size * n_classes)
        counts.append(cells.reshape(size, n_classes).T)
    return [table.astype(np.float64) for table in counts]


def _labels(schema: object, classes: str | Sequence[str | int | bool] | Categories) -> Categories:
    """Return the public classes."""
    if isinstance(classes, str):
        if not isinstance(schema, Schema) or classes not in schema.columns:
            raise ValueError(
                f"classes must be the labels, or the name of a column of a Schema, got {classes!r}."
            )
        column = schema.columns[classes]
        if not isinstance(column, Categories):
            raise ValueError(f"classes must name a column of Categories, got {classes!r}: Bins.")
        classes = column
    if not isinstance(classes, Categories):
        values = [c.item() if isinstance(c, np.generic) else c for c in classes]
        classes = Categories(tuple(values))
    if classes.other:
        raise ValueError("classes must all be known: Categories without other=True.")
    return classes


def _encode_classes(labels: Categories, y: Any, n_records: int) -> Codes:
    if y is None:
        raise ValueError(
            "y must be the records' classes; fit requires y to be passed, but the target y is None."
        )
    column = pd.Series(column_or_1d(y, warn=True), name="y")
    if column.dtype.kind == "f":
        if not np.isfinite(column).all():
            raise ValueError("y must be classes everywhere, and holds NaN or infinity.")
        check_classification_targets(column.to_numpy())
    if len(column) != n_records:
        raise ValueError(
            f"X and y must have equally many records, got {n_records} and {len(column)}."
        )
    return labels.encode(column)


def _as_table(X: Any) -> Any:
    """Return a data frame as it is and everything else as an array of two dimensions."""
    if hasattr(X, "toarray"):
        raise ValueError("X must be dense, got a sparse matrix; X.toarray() makes it so.")
    table = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    if isinstance(table, np.ndarray) and table.dtype.kind == "c":
        raise ValueError("X must hold real numbers. Complex data not supported.")
    if table.ndim != 2:
        raise ValueError(
            f"X must have two axes, records and features, got {table.ndim}. Reshape your data."
        )
    if min(table.shape) < 1:
        what = "feature(s)" if table.shape[0] else "sample(s)"
        raise ValueError(f"X has 0 {what} (shape={table.shape}) while a minimum of 1 is required.")
    return table


def _by_column(codes: Codes) -> Codes:
    return np.ascontiguousarray(codes.T, np.intp)


def _check_sizes(sizes: Any) -> tuple[int, ...]:
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
        raise ValueError(
            f"schema must be a Schema, Categories, Bins or numbers of values, got {sizes!r}; what "
            "the features may hold is public and has to be stated."
        )
    return tuple(check_count("schema", size, least=2) for size in sizes)


def _check_codes(codes: NDArray[Any], sizes: tuple[int, ...]) -> Codes:
    """Return whole numbers that lie within the sizes; messages show none of them."""
    if codes.shape[1] != len(sizes):
        raise ValueError(f"X must have {len(sizes)} features, as schema has, got {codes.shape[1]}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"X must hold whole numbers where schema gives numbers of values, got {codes.dtype}."
        )
    outside = (codes.min(axis=0) < 0) | (codes.max(axis=0) >= np.array(sizes))
    if outside.any():
        k = int(outside.argmax())
        raise ValueError(f"X must hold 0 to {sizes[k] - 1} in column {k}, as schema says.")
    return codes


def _check_name(argument: str, name: object, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, known))}, got {name!r}.")
