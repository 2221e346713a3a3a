"""The naive Bayes classifier: fit and predictions."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped] # has no types

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import Target
from privrl.data.schema import Schema
from privrl.files.fixed import fitted
from privrl.files.shown import shown
from privrl.mechanisms.tables import (
    MechanismName,
    ReleasedTable,
    Rows,
    TablesMechanism,
    least_noise_shares,
)
from privrl.models.classifiers import (
    LocalRecords,
    PartRecords,
    Public,
    SavedClassifier,
)
from privrl.models.encoding import Codes, count_tables
from privrl.models.estimates.tables import clipped_rows, row_totals, table_probabilities
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
from privrl.models.released import check_bins, randomness_of_model
from privrl.models.targets import given_target, mechanism_for
from privrl.numerics.checks import check_among, check_between, check_positive
from privrl.numerics.typing import FloatArray

_AT_ONCE = 8192  # records, whose numbers fit in a processor's cache

NaiveBayesMechanism = Literal["auto", "dirichlet", "dkl", "gaussian", "laplace", "none"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateNaiveBayes(SavedClassifier):
    """Naive Bayes for categorical and binned features, trained with differential privacy.

    Parameters
    ----------
    schema : Schema or Column or sequence of int
        The public domain of the features. A `Schema` for tables with named columns. A single
        `Categories` or `Bins` for all columns alike, of which X may have any number. Or the
        number of values of each column, if X holds whole numbers 0, 1, ... already.
    classes : str or sequence of str, int or bool, or Categories
        The public classes, at least two: themselves, or the name of the schema's column that
        lists them, which is then no feature. Without them the classes are read from the private
        records, with a `privrl.models.classifiers.ClassesLeakWarning`.
    target : RenyiDP, ApproxDP, PureDP or ZeroConcentratedDP
        The privacy target of a fit; None for ``mechanism="none"`` only.
    epsilon, delta : float, optional
        A short form of the target, (epsilon, delta); ``delta`` is 1e-5 by default, and 0 for pure
        privacy.
    bounds : (float, float), optional
        In place of a schema, for numeric arrays with any number of columns: the public bounds of
        all entries. Entries outside belong to the first or last bin.
    bins : int
        The number of equal bins between the bounds.
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
        The privacy cost of the fit, with its relation.
    mechanism_ : TablesMechanism
        What released the tables: its name, and the sizes of noise or draws.
    randomness_ : str
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.
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
        The number of features.
    feature_names_in_ : array of str
        Their names, where X was a data frame.

    Notes
    -----
    All fitted attributes are computed from the release. With public classes and secret randomness
    they may be published, unless this is a clone of scikit-learn's, whose `guarantee` has a caveat.
    Classes that were read from the records are private, and so is a model that has them. A file
    that `save` writes says whether it may be shared. A second fit is a second release, and costs
    again.

    Examples
    --------
    >>> from privrl.accounting.targets import RenyiDP
    >>> target = RenyiDP(2, 1)
    >>> model = PrivateNaiveBayes([3, 2], classes=["no", "yes"], target=target, random_state=0)
    >>> X, y = [[0, 0], [1, 0], [2, 1], [2, 1]] * 50, ["no", "no", "yes", "yes"] * 50
    >>> model.fit(X, y).predict([[2, 1]])
    array(['yes'], dtype='<U3')
    """

    mechanism: NaiveBayesMechanism = "auto"
    shares: Literal["optimised", "uniform"] = "optimised"
    alpha: float | None = None
    temperature: float | None = None

    mechanism_, n_records_ = fitted(), fitted()

    # Whether a row of a feature's table is of a value, over the classes: so DKL prints it.
    _by_value: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None, *, accountant: Accountant | None = None) -> Self:
        """Release the tables of the records, once, and learn from the release.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K), or PartitionedRecords
            The private records, which fit the schema. Rows of a list are read entry by entry; the
            type of an array or column must suit the schema.
        y : array_like, shape (n,)
            Their classes, likewise; None where the records are on a cluster and hold them.
        accountant : RdpAccountant or PldAccountant, optional
            The accountant that is charged with the whole cost before anything is drawn. It is an
            argument of ``fit``, because scikit-learn copies the parameters of estimators and would
            charge a copy.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the fit; then nothing is drawn.
        ValueError
            If a parameter is out of range, or a record does not fit the public schema or classes
            (see `privrl.data.schema`); nothing is spent then, and the message shows no value
            of the records.
        """
        self._fit(X, y, accountant, self._take)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        accountant: Accountant | None,
        take: Callable[[Self, Accountant | None], object],
    ) -> None:
        """Fit, and let ``take`` have what was fitted, as the end of its release."""
        own = self._as_set(accountant)
        own.check_parameters()
        rng = own._rng()
        in_parts = isinstance(X, PartitionedRecords)
        records = own._read_parts(X, y) if in_parts else own._read(X, y)
        whole, measured = own._plan(own._shapes(records), records.n_records)
        check_bins(records.domain, accountant)
        if own.mechanism != "none":
            own.warn_of_clones()
        counts = own._counted(records)  # may fail, on a cluster: before the charge

        def learn(rng: np.random.Generator) -> tuple[ReleasedTable, ...]:
            released = own._learn_tables(records, counts, whole, rng, measured=measured)
            take(own, accountant)
            return released

        released = Release(accountant, whole.cost, learn, rng).make()
        self.warn_of_others(released[1:])

    def with_temperature(self, temperature: float) -> Self:
        """Return the same fitted classifier with another temperature, which costs nothing.

        A search would pay for every fit. Fit once instead, and compare temperatures afterwards on
        public records: a choice made with private records reveals something about them, without a
        charge.

        Parameters
        ----------
        temperature : float
            By which sums of `feature_log_prob_` are multiplied, > 0; also the parameter of the
            result.

        Returns
        -------
        PrivateNaiveBayes
            With the same release and the same ``cost_``.

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

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """Return for each record and class a logarithm, up to a constant of the record.

        It is the class's log-prior, plus temperature times the sum of the features'
        log-probabilities. Shapes are those of `predict_proba`.
        """
        check_is_fitted(self, "temperature_")
        ratios = _log_ratios(self.feature_log_prob_, self._columns(self._public.domain, X))
        return self.class_log_prior_ + self.temperature_ * ratios.T

    _scores = predict_joint_log_proba

    def _plain(self, public: Public) -> dict[str, Any]:
        return to_plain(vars(self), public, self._caveats)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the fitted classifier that plain data describe; see `Saved.from_dict`."""
        parameters = parameters_of(data)
        model = cls(**parameters)
        model.check_parameters()
        model.__dict__.update(attributes_of(data, parameters))
        return model

    def check_parameters(self) -> None:
        """See `Classifier.check_parameters`."""
        check_among("mechanism", self.mechanism, get_args(NaiveBayesMechanism))
        check_among("shares", self.shares, ("optimised", "uniform"))
        super().check_parameters()
        if self.alpha is not None:
            check_positive("alpha", self.alpha, "1 is usual")
            if self.mechanism in ("auto", "dkl"):
                raise ValueError(
                    f"alpha must be None for mechanism {shown(self.mechanism)}, which chooses for "
                    f"itself, got {shown(self.alpha)}."
                )
        if self.temperature is not None:
            check_between("temperature", self.temperature, 0, math.inf, "1 is naive Bayes")

    def _target(self) -> Target | None:
        if self.mechanism == "none":
            return self.target
        otherwise = "; mechanism='none' has no privacy and needs none"
        return given_target(self.target, self.epsilon, self.delta, otherwise)

    def warn_of_others(self, released: Sequence[ReleasedTable]) -> None:
        """Warn of each feature whose released table is mostly of other values."""
        if isinstance(self.schema, Schema):
            features = self.schema.subset(self._feature_names(self.schema))
            for (name, column), table in zip(features.columns.items(), released, strict=True):
                values = table.values.T if self._by_value else table.values
                warn_of_others(name, column, values, table.deviation)

    def _plan(self, shapes: Sequence[Rows], n_records: int) -> tuple[TablesMechanism, bool]:
        """Return the mechanism of everything that is released, and whether a temperature is.

        The sums for the temperature are the last tables.
        """
        if self.mechanism == "none":
            return TablesMechanism(shapes=tuple(shapes), mechanism="none"), False
        target = self._target()
        assert target is not None
        noise: MechanismName = mechanism_for(target, self.mechanism)
        if self.mechanism == "dkl":
            return TablesMechanism.algorithm_1(target, shapes=shapes), False
        optimised = self.shares == "optimised"
        shares = least_noise_shares(shapes) if optimised else (1 / len(shapes),) * len(shapes)
        if self.mechanism == "auto" and self.temperature is None:
            whole = TablesMechanism.calibrated(
                target,
                shapes=[*shapes, *SHAPES],
                n_records=n_records,
                mechanism=noise,
                shares=[*shares, *SHARES],
            )
            if is_worth_measuring(whole.deviations[-1], n_records):
                return whole, True
        return TablesMechanism.calibrated(
            target,
            shapes=shapes,
            n_records=n_records,
            mechanism=noise,
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

    def _shapes(self, records: LocalRecords | PartRecords) -> list[Rows]:
        first, *others = records.shapes
        return [first, *((v, j) if self._by_value else (j, v) for j, v in others)]

    def _counted(self, records: LocalRecords | PartRecords) -> list[FloatArray]:
        """Return the tables of counts: private, to be released."""
        counts = records.summed(count_tables, records.sizes, records.labels.size)
        return [counts[0], *(table.T if self._by_value else table for table in counts[1:])]

    def _learn_tables(
        self,
        records: LocalRecords | PartRecords,
        counts: Sequence[FloatArray],
        whole: TablesMechanism,
        rng: np.random.Generator,
        *,
        measured: bool,
    ) -> tuple[ReleasedTable, ...]:
        """Release the tables, which have been paid for, and fit the classifier to the release.

        Returns
        -------
        tuple of ReleasedTable
            The tables of counts as they were released.
        """
        n_tables, by_value = len(records.shapes), self._by_value
        tables = whole.part(slice(n_tables))
        # Both releases below are parts of the whole.
        released = tables.release(counts, rng)
        prior, rows = self._estimate(released, records.n_records)
        log_prior = np.log(prior)
        log_rows = [np.log(table.T if by_value else table) for table in rows]
        typical = typical_temperature(len(records.sizes)) if self.mechanism == "auto" else 1.0
        if measured:
            derivatives = records.summed(_derivatives, log_prior, log_rows)
            sums = whole.part(slice(n_tables, None)).release(derivatives, rng)
            freedom = float(sum((len(each) - 1) * (each.shape[1] - 1) for each in log_rows))
            temperature = least_loss(sums, records.n_records, typical, freedom)
        else:
            temperature = typical if self.temperature is None else float(self.temperature)
        self._become(
            records,
            cost_=whole.cost,
            mechanism_=whole,
            randomness_=randomness_of_model(rng, records.domain),
            n_records_=records.n_records,
            class_log_prior_=log_prior,
            feature_log_prob_=log_rows,
            temperature_=temperature,
        )
        return released


class PrintedNaiveBayes(PrivateNaiveBayes):
    """Draw for each value of a feature its distribution over the classes, by DKL's Algorithm 1.

    `PrivateNaiveBayes` draws for each class its distribution over the values, which is what naive
    Bayes multiplies.

    Parameters
    ----------
    schema, classes, target, mechanism, **parameters
        As for `PrivateNaiveBayes`; the mechanism has to be ``"dkl"``.
    """

    _by_value: ClassVar[bool] = True

    def check_parameters(self) -> None:
        """See `PrivateNaiveBayes.check_parameters`."""
        super().check_parameters()
        if self.mechanism != "dkl":
            raise ValueError(
                f"mechanism must be 'dkl', as in the paper, got {shown(self.mechanism)}."
            )

    def to_dict(self) -> NoReturn:
        """Refuse: a file would be read as one of the other classifier."""
        raise ValueError("what the paper prints is not saved; fit PrivateNaiveBayes.")


def _derivatives(
    columns: Codes, numbers: Codes, log_prior: FloatArray, log_rows: Sequence[FloatArray]
) -> list[FloatArray]:
    return derivative_tables(log_prior, _log_ratios(log_rows, columns), numbers)


def _log_ratios(tables: Sequence[FloatArray], columns: Codes) -> FloatArray:
    """Return each class's sum of log-probabilities for each record, shape (J, n)."""
    total = np.zeros((columns.shape[1], len(tables[0])))
    by_value = [np.ascontiguousarray(table.T) for table in tables]  # one look-up for all classes
    for start in range(0, columns.shape[1], _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        for column, table in zip(columns[:, some], by_value, strict=True):
            total[some] += table.take(column, axis=0)
    return total.T
