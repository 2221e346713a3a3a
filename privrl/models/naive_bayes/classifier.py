"""The estimator."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from privrl._checks import check_between, check_count, check_positive, shown
from privrl._typing import FloatArray
from privrl.accounting import gate
from privrl.accounting.base import Accountant
from privrl.accounting.targets import ApproxDP, Rdp, Target
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.mechanisms.tables import ReleasedTable, Rows, TablesMechanism, least_noise_shares
from privrl.models.estimates import clipped_rows, row_probabilities, row_totals
from privrl.models.naive_bayes.encoding import (
    Codes,
    as_table,
    check_sizes,
    class_array,
    class_labels,
    count_tables,
    encode_alike,
    encode_classes,
    encode_numbers,
)
from privrl.models.naive_bayes.plain import attributes_of, parameters_of, to_plain
from privrl.models.naive_bayes.temperature import (
    SHAPES,
    SHARES,
    TYPICAL,
    derivative_tables,
    is_worth_measuring,
    least_loss,
)
from privrl.models.saving import Saved
from privrl.numerics.randomness import randomness_of, secret_rng
from privrl.numerics.scipy_lazily import special

NaiveBayesMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]


class PrivateNaiveBayes(Saved, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
        ``"auto"`` is described in `privrl.models.naive_bayes`. The others are for comparison: one
        Dirichlet draw of each row, weight and prior by `privrl.accuracy.design`'s criterion or,
        with ``"dkl"``, by DKL's Algorithm 1; noisy counts of which small ones are raised to a
        floor; or exact counts, without any privacy.
    shares : {"optimised", "uniform"}
        Parts of the budget for the tables: those with the least variance in all
        (`privrl.mechanisms.least_noise_shares`), or equal ones; ``"dkl"`` has equal ones.
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
    >>> from privrl.accounting.targets import Rdp
    >>> model = PrivateNaiveBayes([3, 2], classes=["no", "yes"], target=Rdp(2, 1), random_state=0)
    >>> X, y = [[0, 0], [1, 0], [2, 1], [2, 1]] * 50, ["no", "no", "yes", "yes"] * 50
    >>> model.fit(X, y).predict([[2, 1]])
    array(['yes'], dtype='<U3')
    """

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

    def fit(self, X: Any, y: Any, *, accountant: Accountant | None = None) -> Self:
        """Release the tables of the records, once, and learn from what was released.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K)
            The private records, as the schema says. Rows of a list are read entry by entry; an
            array or column must be of a type that holds what the schema says.
        y : array_like, shape (n,)
            Their classes, likewise.
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
        labels = class_labels(self.schema, self.classes)
        table, checked = as_table(self._features(X)), BaseEstimator()
        validate_data(checked, table, reset=True, skip_check_array=True)
        columns, sizes = self._encode(table)
        n_records = columns.shape[1]
        numbers = encode_classes(labels, y, n_records)
        shapes = [(1, labels.size)]
        shapes += [(v, labels.size) if self._by_value else (labels.size, v) for v in sizes]
        whole, measured = self._plan(shapes, n_records)
        tables = whole.part(slice(len(shapes)))
        counts = count_tables(columns, numbers, sizes, labels.size)
        data = [counts[0], *(table.T if self._by_value else table for table in counts[1:])]
        gate.charge(accountant, whole.cost)
        # Both releases below are parts of the whole, which has been paid for.
        released = tables.release(data, rng)
        prior, rows = self._estimate(released, n_records)
        log_prior = np.log(prior)
        log_rows = [np.log(table.T if self._by_value else table) for table in rows]
        if measured:
            derivatives = derivative_tables(log_prior, _log_ratios(log_rows, columns), numbers)
            sums = whole.part(slice(len(shapes), None)).release(derivatives, rng)
            temperature = least_loss(sums, n_records)
        else:
            unmeasured = TYPICAL if self.mechanism == "auto" else 1.0
            temperature = unmeasured if self.temperature is None else float(self.temperature)
        # All at once: what fails before leaves everything as it was.
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            vars(checked),
            cost_=whole.cost,
            mechanism_=whole,
            randomness_=randomness_of(rng),
            classes_=class_array(labels),
            n_records_=n_records,
            class_log_prior_=log_prior,
            feature_log_prob_=log_rows,
            temperature_=temperature,
        )
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
        table = as_table(self._features(X))
        validate_data(self, table, reset=False, skip_check_array=True)
        columns, _ = self._encode(table)
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
        if not (isinstance(self.target, Rdp | ApproxDP) or self.mechanism == "none"):
            raise ValueError(
                f"target must be Rdp(...) or ApproxDP(...), got {shown(self.target)}; "
                "mechanism='none' has no privacy and needs none."
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

    def _features(self, X: Any) -> Any:
        """Return a data frame without the columns that are no features."""
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

    def _plan(self, shapes: list[Rows], n_records: int) -> tuple[TablesMechanism, bool]:
        """Return the mechanism of everything that is released, and whether a temperature is.

        The sums for the temperature are the last tables.
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
                shares=[*shares, *SHARES],
            )
            if is_worth_measuring(whole.deviations[-1], n_records):
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


def _log_ratios(tables: Sequence[FloatArray], columns: Codes) -> FloatArray:
    """Return each class's sum of log-probabilities for each record, shape (J, n)."""
    total = np.zeros((len(tables[0]), columns.shape[1]))
    for column, table in zip(columns, tables, strict=True):
        total += table.take(column, axis=1)
    return total


def _check_name(argument: str, name: object, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, known))}, got {name!r}.")
