"""The estimator."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped] # has no types
from sklearn.utils.validation import (  # type: ignore[import-untyped] # has no types
    check_is_fitted,
    validate_data,
)

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import Target, check_target
from privrl.costs.base import Cost
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.others import as_frame
from privrl.files.fixed import fitted
from privrl.files.shown import shown
from privrl.mechanisms.tables import (
    MechanismName,
    ReleasedTable,
    Rows,
    TablesMechanism,
    least_noise_shares,
)
from privrl.models.copies import Copied
from privrl.models.estimates import clipped_rows, row_totals
from privrl.models.estimates.tables import table_probabilities
from privrl.models.naive_bayes.encoding import (
    Codes,
    as_table,
    check_sizes,
    class_array,
    class_labels,
    class_places,
    count_tables,
    encode_alike,
    encode_classes,
    encode_numbers,
)
from privrl.models.naive_bayes.plain import attributes_of, parameters_of, to_plain
from privrl.models.naive_bayes.temperature import (
    SHAPES,
    SHARES,
    derivative_tables,
    is_worth_measuring,
    least_loss,
    typical_temperature,
)
from privrl.models.others import warn_of_others
from privrl.models.partitions import PartitionedRecords
from privrl.models.saving import Saved
from privrl.numerics.checks import check_between, check_count, check_positive
from privrl.numerics.randomness import randomness_of, secret_rng
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

_AT_ONCE = 8192  # records, whose numbers fit in a processor's cache

NaiveBayesMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]


class PrivateNaiveBayes(Saved, ClassifierMixin, Copied):  # type: ignore[misc] # of no types
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
    target : RenyiDP or ApproxDP
        What a fit may spend; None for ``mechanism="none"`` only.
    mechanism : {"auto", "dirichlet", "dkl", "gaussian", "laplace", "none"}
        ``"auto"`` is described in `privrl.models.naive_bayes`. The others are for comparison: one
        Dirichlet draw of each row, weight and prior by `privrl.mechanisms.design`'s criterion or,
        with ``"dkl"``, by DKL's Algorithm 1; noisy counts of which small ones are raised to a
        floor; or exact counts, without any privacy.
    shares : {"optimised", "uniform"}
        Parts of the budget for the tables: those with the least variance in all
        (`privrl.mechanisms.tables.least_noise_shares`), or equal ones; ``"dkl"`` has equal ones.
    alpha : float, optional
        Pseudo-counts, > 0, for the mechanisms other than ``"auto"`` and ``"dkl"``: the prior of
        Dirichlet draws (by default designed), the floor of noisy counts (by default the noise's
        standard deviation), what is added to exact counts (by default 1).
    temperature : float, optional
        A public temperature, > 0. By default measured under ``"auto"``, and 1 otherwise, which
        is naive Bayes as in the books.
    random_state : int, optional
        By default secret randomness, see `privrl.secret_rng`. A seed is for experiments
        only: whoever knows it can subtract the noise, and two fits with one seed have the same.

    Attributes
    ----------
    cost_ : Cost
        What the fit has spent, and under which relation.
    mechanism_ : TablesMechanism
        What released the tables: its name, and the sizes of noise or draws.
    randomness_ : str
        What `privrl.numerics.randomness.randomness_of` says of the generator.
    classes_ : array, shape (J,)
        The classes, sorted, as scikit-learn expects; numbers before texts.
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
    All fitted attributes are made of what was released: they may be published, and so may a file
    that `save` writes, or a pickle of an estimator without a ``random_state``. A second fit is a
    second release, and costs again.

    Examples
    --------
    >>> from privrl.accounting.targets import RenyiDP
    >>> target = RenyiDP(2, 1)
    >>> model = PrivateNaiveBayes([3, 2], classes=["no", "yes"], target=target, random_state=0)
    >>> X, y = [[0, 0], [1, 0], [2, 1], [2, 1]] * 50, ["no", "no", "yes", "yes"] * 50
    >>> model.fit(X, y).predict([[2, 1]])
    array(['yes'], dtype='<U3')
    """

    cost_: Cost = fitted()
    mechanism_: TablesMechanism = fitted()
    randomness_: str = fitted()
    n_records_: int = fitted()

    _indent: ClassVar[int | None] = 1
    # Whether a row of a feature's table is of a value, over the classes: so DKL prints it.
    _by_value: ClassVar[bool] = False

    def __init__(
        self,
        schema: Schema | Column | Sequence[int],
        *,
        classes: str | Sequence[str | int | bool] | Categories,
        target: Target | None,
        mechanism: NaiveBayesMechanism = "auto",
        shares: Literal["optimised", "uniform"] = "optimised",
        alpha: float | None = None,
        temperature: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.schema = schema
        self.classes = classes
        self.target = target
        self.mechanism = mechanism
        self.shares = shares
        self.alpha = alpha
        self.temperature = temperature
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, accountant: Accountant | None = None) -> Self:
        """Release the tables of the records, once, and learn from what was released.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K), or PartitionedRecords
            The private records, as the schema says. Rows of a list are read entry by entry; an
            array or column must be of a type that holds what the schema says.
        y : array_like, shape (n,)
            Their classes, likewise; None where the records are on a cluster and hold them.
        accountant : RdpAccountant or PldAccountant, optional
            Is charged with the whole cost before anything is drawn. It is no parameter of the
            estimator, for scikit-learn copies those, and a copy would be charged instead.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the fit; then nothing is drawn.
        ValueError
            If a parameter is out of range, or a record does not fit the public schema or classes
            (`privrl.data.schema` says when); nothing is spent then, and the message shows no value
            of the records.
        """
        self.check_parameters()
        seed = self.random_state
        rng = secret_rng() if seed is None else np.random.default_rng(seed)
        in_parts = isinstance(X, PartitionedRecords)
        records = _read_parts(self, X, y) if in_parts else read_records(self, X, y)
        whole, measured = self._plan(records.shapes, records.n_records)
        if self.mechanism != "none":
            self.warn_of_clones(accountant)

        def learn(rng: np.random.Generator) -> tuple[ReleasedTable, ...]:
            return learn_tables(self, records, whole, rng, measured=measured)

        released = Release(accountant, whole.cost, learn, rng).make()
        self.warn_of_others(released[1:])
        return self

    def with_temperature(self, temperature: float) -> Self:
        """Return the same fitted classifier with another temperature, which costs nothing.

        What a search would pay for at every fit is paid for once: fit, and compare temperatures
        afterwards. Compare them on records that are public or of nobody in particular: a choice
        by private records tells of them, and no accountant knows of it.

        Parameters
        ----------
        temperature : float
            By which sums of `feature_log_prob_` are multiplied, > 0; also the parameter of what
            is returned.

        Returns
        -------
        PrivateNaiveBayes
            With everything else as it is here, ``cost_`` too: it is the same release.

        Raises
        ------
        ValueError
            If the temperature is out of range.
        sklearn.exceptions.NotFittedError
            If this is not fitted.
        """
        check_is_fitted(self, "temperature_")
        other = copy(self)
        other.temperature = other.temperature_ = float(
            check_between("temperature", temperature, 0, math.inf, "1 is naive Bayes")
        )
        return other

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
        columns = read_features(self, X)
        return (
            self.class_log_prior_
            + self.temperature_ * _log_ratios(self.feature_log_prob_, columns).T
        )

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, J)."""
        joint = self.predict_joint_log_proba(X)
        return joint - special.logsumexp(joint, axis=1, keepdims=True)

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

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted classifier as plain data.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If parameters are others than at the fit.
        """
        check_is_fitted(self, "temperature_")
        return to_plain(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the fitted classifier that plain data describe; see `Saved.from_dict`."""
        parameters = parameters_of(data)
        model = cls(**parameters)
        model.check_parameters()
        model.__dict__.update(attributes_of(data, parameters))
        return model

    def check_parameters(self) -> None:
        """Check what can be checked without records, as `fit` does first.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        _check_name("mechanism", self.mechanism, get_args(NaiveBayesMechanism))
        _check_name("shares", self.shares, ("optimised", "uniform"))
        if self.mechanism != "none":
            check_target(self.target, "; mechanism='none' has no privacy and needs none")
        if self.alpha is not None:
            check_positive("alpha", self.alpha, "1 is usual")
            if self.mechanism in ("auto", "dkl"):
                raise ValueError(
                    f"alpha must be None for mechanism {shown(self.mechanism)}, which chooses for "
                    f"itself, got {shown(self.alpha)}."
                )
        if self.temperature is not None:
            check_between("temperature", self.temperature, 0, math.inf, "1 is naive Bayes")
        if self.random_state is not None:
            check_count("random_state", self.random_state, least=0)

    def _features(self, X: Any) -> Any:
        """Return a data frame without the columns that are no features."""
        X = as_frame(X)
        if not (isinstance(self.schema, Schema) and isinstance(X, pd.DataFrame)):
            return X
        names = set(self._feature_names(self.schema))
        return X.loc[:, [name in names for name in X.columns]] if names <= {*X.columns} else X

    def _feature_names(self, schema: Schema) -> list[str]:
        classes = self.classes if isinstance(self.classes, str) else None
        return [name for name in schema.names if name != classes]

    def _encode(self, table: Any) -> tuple[Codes, tuple[int, ...]]:
        """Return the cells of the records, shape (K, n), and how many each feature has."""
        if isinstance(self.schema, Schema):
            schema = self.schema.subset(self._feature_names(self.schema))
            return np.ascontiguousarray(schema.encode(table).T), schema.sizes
        if isinstance(self.schema, Categories | Bins):
            return encode_alike(table, self.schema), (self.schema.size,) * table.shape[1]
        sizes = check_sizes(self.schema)
        return encode_numbers(table, sizes), sizes

    def warn_of_others(self, released: Sequence[ReleasedTable]) -> None:
        """Warn of each feature whose released table is mostly of other values."""
        if isinstance(self.schema, Schema):
            features = self.schema.subset(self._feature_names(self.schema))
            for (name, column), table in zip(features.columns.items(), released, strict=True):
                values = table.values.T if self._by_value else table.values
                warn_of_others(name, column, values, table.deviation)

    def _plan(
        self, shapes: Sequence[Rows], n_records: int, noise: MechanismName = "auto"
    ) -> tuple[TablesMechanism, bool]:
        """Return the mechanism of everything that is released, and whether a temperature is.

        The sums for the temperature are the last tables. ``noise`` is that of ``"auto"``.
        """
        if self.mechanism == "none":
            return TablesMechanism(shapes=tuple(shapes), mechanism="none"), False
        assert self.target is not None
        if self.mechanism == "dkl":
            return TablesMechanism.algorithm_1(self.target, shapes=shapes), False
        optimised = self.shares == "optimised"
        shares = least_noise_shares(shapes) if optimised else (1 / len(shapes),) * len(shapes)
        if self.mechanism == "auto" and self.temperature is None:
            whole = TablesMechanism.calibrated(
                self.target,
                shapes=[*shapes, *SHAPES],
                n_records=n_records,
                mechanism=noise,
                shares=[*shares, *SHARES],
            )
            if is_worth_measuring(whole.deviations[-1], n_records):
                return whole, True
        return TablesMechanism.calibrated(
            self.target,
            shapes=shapes,
            n_records=n_records,
            mechanism=noise if self.mechanism == "auto" else self.mechanism,
            shares=shares,
            alpha=self.alpha if self.mechanism == "dirichlet" else None,
        ), False

    def _estimate(
        self, released: Sequence[ReleasedTable], n_records: int
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return probabilities of the classes, and for each feature rows of them."""
        if self.mechanism == "auto":
            totals = row_totals(released, n_records)
            return totals / totals.sum(), table_probabilities(released[1:], totals)
        if self.mechanism == "none":
            alpha = 1.0 if self.alpha is None else self.alpha
            released = [ReleasedTable(t.values + alpha, "none", 0.0) for t in released]
        floor = self.alpha if self.mechanism in ("gaussian", "laplace") else None
        first, *rows = (clipped_rows(table, floor) for table in released)
        return first[0], rows


class Records(NamedTuple):
    """Records that fit a classifier's schema and classes, by cell numbers: private."""

    columns: Codes  # shape (K, n)
    numbers: Codes  # of their classes, shape (n,)
    sizes: tuple[int, ...]  # of the features
    labels: Categories
    shapes: list[Rows]  # of the tables that are counted
    seen: BaseEstimator  # has what scikit-learn has an estimator know of features

    @property
    def n_records(self) -> int:
        """How many there are."""
        return len(self.numbers)

    def summed(self, tables: Callable[..., list[FloatArray]], *public: Any) -> list[FloatArray]:
        """Return tables of the records: private, to be released."""
        return tables(self.columns, self.numbers, *public)


class _Parts(NamedTuple):
    """The same of records on a cluster, of which the last column is the class."""

    records: PartitionedRecords
    n_records: int
    sizes: tuple[int, ...]
    labels: Categories
    shapes: list[Rows]
    seen: BaseEstimator

    def summed(self, tables: Callable[..., list[FloatArray]], *public: Any) -> list[FloatArray]:
        """Return the sums of tables of the parts: private, to be released."""
        return self.records.summed(_of_part, tables, class_places(self.labels), *public)


def _of_part(
    codes: Codes, tables: Callable[..., list[FloatArray]], places: Codes, *public: Any
) -> list[FloatArray]:
    columns = np.ascontiguousarray(codes[:, :-1].T)
    return tables(columns, places[codes[:, -1]], *public)


def _read_parts(model: PrivateNaiveBayes, X: PartitionedRecords, y: Any) -> _Parts:
    if y is not None or not isinstance(model.schema, Schema) or not isinstance(model.classes, str):
        raise ValueError(
            "records on a cluster need a Schema, the name of its column of classes, and y=None: "
            "the classes are in that column."
        )
    labels, names = class_labels(model.schema, model.classes), model._feature_names(model.schema)
    records = X.of(model.schema.subset([*names, model.classes]))
    n_records, sizes = records.n_records, records.schema.sizes[:-1]
    if n_records == 0:
        raise ValueError("X must have at least one record, got none.")
    seen = BaseEstimator()
    validate_data(seen, pd.DataFrame(columns=names), reset=True, skip_check_array=True)
    return _Parts(records, n_records, sizes, labels, _shapes(model, labels, sizes), seen)


def _shapes(model: PrivateNaiveBayes, labels: Categories, sizes: Sequence[int]) -> list[Rows]:
    by_value = [(v, labels.size) if model._by_value else (labels.size, v) for v in sizes]
    return [(1, labels.size), *by_value]


def read_records(model: PrivateNaiveBayes, X: Any, y: Any) -> Records:
    """Return what a fit is given, once it is known to fit the schema and the classes."""
    labels = class_labels(model.schema, model.classes)
    table, seen = as_table(model._features(X)), BaseEstimator()
    validate_data(seen, table, reset=True, skip_check_array=True)
    columns, sizes = model._encode(table)
    numbers = encode_classes(labels, y, columns.shape[1])
    return Records(columns, numbers, sizes, labels, _shapes(model, labels, sizes), seen)


def read_features(model: PrivateNaiveBayes, X: Any) -> Codes:
    """Return the cells, shape (K, n), of records to predict for."""
    check_is_fitted(model, "temperature_")
    table = as_table(model._features(X))
    validate_data(model, table, reset=False, skip_check_array=True)
    return model._encode(table)[0]


def learn_tables(
    model: PrivateNaiveBayes,
    records: Records | _Parts,
    whole: TablesMechanism,
    rng: np.random.Generator,
    *,
    measured: bool,
) -> tuple[ReleasedTable, ...]:
    """Release the tables, which have been paid for, and fit the classifier to what was released.

    Returns the tables of counts as they were released.
    """
    n_tables, by_value = len(records.shapes), model._by_value
    tables = whole.part(slice(n_tables))
    counts = records.summed(count_tables, records.sizes, records.labels.size)
    data = [counts[0], *(table.T if by_value else table for table in counts[1:])]
    # Both releases below are parts of the whole.
    released = tables.release(data, rng)
    prior, rows = model._estimate(released, records.n_records)
    log_prior = np.log(prior)
    log_rows = [np.log(table.T if by_value else table) for table in rows]
    typical = typical_temperature(len(records.sizes)) if model.mechanism == "auto" else 1.0
    if measured:
        derivatives = records.summed(_derivatives, log_prior, log_rows)
        sums = whole.part(slice(n_tables, None)).release(derivatives, rng)
        temperature = least_loss(sums, records.n_records, typical)
    else:
        temperature = typical if model.temperature is None else float(model.temperature)
    # All at once: what fails before leaves everything as it was.
    model.__dict__.pop("feature_names_in_", None)
    model.__dict__.update(
        vars(records.seen),
        cost_=whole.cost,
        mechanism_=whole,
        _fitted_for=model.target,
        randomness_=randomness_of(rng),
        classes_=class_array(records.labels),
        n_records_=records.n_records,
        class_log_prior_=log_prior,
        feature_log_prob_=log_rows,
        temperature_=temperature,
    )
    return released


def _derivatives(
    columns: Codes, numbers: Codes, log_prior: FloatArray, log_rows: Sequence[FloatArray]
) -> list[FloatArray]:
    return derivative_tables(log_prior, _log_ratios(log_rows, columns), numbers)


def _log_ratios(tables: Sequence[FloatArray], columns: Codes) -> FloatArray:
    """Return each class's sum of log-probabilities for each record, shape (J, n)."""
    total = np.zeros((len(tables[0]), columns.shape[1]))
    for start in range(0, columns.shape[1], _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        for column, table in zip(columns[:, some], tables, strict=True):
            total[:, some] += table.take(column, axis=1)
    return total


def _check_name(argument: str, name: object, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(
            f"{argument} must be one of {', '.join(map(repr, known))}, got {shown(name)}."
        )
