"""The base of all private classifiers: public domain, records, target, predictions, clones.

A search or a cross-validation of scikit-learn clones an estimator for each candidate and fold,
fits each clone, and chooses among them by exact scores. Bagging fits clones to repeated records. An
accountant adds up the fits, but nobody pays for the choice or the repetition. So a clone warns when
it is fitted, and what it states has a caveat.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.metrics import accuracy_score  # type: ignore[import-untyped]
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        check_is_fitted,
        validate_data,
    )
except ImportError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ImportError(
        "the classifiers of privrl.models need scikit-learn >= 1.6; pip install 'privrl[models]' "
        "has it."
    ) from error

from privrl.accounting.base import Accountant
from privrl.accounting.targets import Target
from privrl.costs.base import Cost
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.others import as_frame
from privrl.files.chosen import (
    MARK,
    TRIAL,
    TrialName,
    check_anew,
    selection_of,
    trial_behind,
    trial_now,
)
from privrl.files.fixed import fitted
from privrl.files.shown import shown
from privrl.mechanisms.tables import Rows
from privrl.models.chosen import chosen_plain
from privrl.models.encoding import (
    Codes,
    as_table,
    by_columns,
    check_sizes,
    class_array,
    class_labels,
    class_places,
    encode_alike,
    encode_classes,
    encode_numbers,
    learned_labels,
)
from privrl.models.partitions import PartitionedRecords
from privrl.models.released import with_bins
from privrl.models.saving import OF_CLASSES, OF_CLONE, Saved
from privrl.models.targets import given_target, guarantee_of
from privrl.numerics.checks import check_count
from privrl.numerics.randomness import secret_rng
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

Domain = Schema | Column | Sequence[int]
Classes = str | Sequence[str | int | bool] | Categories

_NAMES: Final = "feature_names_in_"  # which the next fit forgets, if it has none


class ClassesLeakWarning(UserWarning):
    """The classes were read from the private records, which no guarantee covers."""


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # of no types
    """What the private classifiers share.

    Parameters
    ----------
    schema, classes, target, epsilon, delta, bounds, bins, random_state
        As for `PrivateNaiveBayes`.
    """

    schema: Domain | None = field(default=None, kw_only=False)
    classes: Classes | None = None
    target: Target | None = None
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[float, float] | None = None
    bins: int = 8
    random_state: int | None = None

    # Without annotations, so that they are no parameters.
    cost_, randomness_, _is_clone = fitted(), fitted(), False
    _trial: ClassVar[TrialName | None] = None  # that paid for the fit, see `_take`
    _is_part: ClassVar[bool] = False  # of another's fit, see `as_part`

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, J)."""
        scores = self._scores(X)
        return scores - special.logsumexp(scores, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return each record's probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame or array_like, shape (n, K)
            Records that fit the schema.

        Returns
        -------
        array, shape (n, J)
            Rows that sum to 1 within rounding.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return each record's likeliest class, shape (n,)."""
        likeliest = self._scores(X).argmax(axis=1)
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the part of records whose class is predicted: an exact number about them.

        Raises
        ------
        ValueError
            If a record does not fit, or a class cannot be compared; the message shows none.
        """
        predicted = self.predict(X)
        try:
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        except MemoryError:
            raise
        except Exception:
            pass  # which may show a class, also as a context
        raise ValueError(
            "y must hold a class for each record of X, of the type of classes_, and sample_weight "
            "a number for each."
        )

    @abstractmethod
    def _scores(self, X: Any) -> FloatArray:
        """Return log-probabilities of the classes up to a constant of each record, (n, J)."""

    @property
    def partial_fit(self) -> NoReturn:
        """Refused: a fit is one release, and its counts are not kept.

        Raises
        ------
        AttributeError
            Always, so that scikit-learn finds no such method.
        """
        raise AttributeError(
            "a private model cannot be fitted further, because the counts are not kept. Call fit "
            "with all records at once; each call is a release that costs."
        )

    def check_parameters(self) -> None:
        """Check the parameters that do not depend on records, as `fit` does first.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        self._target()
        self._domain()
        if self.random_state is not None:
            check_count("random_state", self.random_state, least=0)

    def _target(self) -> Target | None:
        """Return the target, whichever way it was given."""
        return given_target(self.target, self.epsilon, self.delta)

    def _domain(self) -> Domain:
        """Return the public domain of the features, whichever way it was given."""
        if self.bounds is None:
            if isinstance(self.schema, Schema | Categories | Bins):
                return self.schema
            return check_sizes(self.schema)
        if self.schema is not None:
            raise ValueError("give either schema or bounds, which is for numeric arrays.")
        if not isinstance(self.bounds, Sequence | np.ndarray) or len(self.bounds) != 2:
            raise ValueError(f"bounds must be (low, high), got {shown(self.bounds)}.")
        return Bins.even(*self.bounds, check_count("bins", self.bins, least=2))

    def _rng(self) -> np.random.Generator:
        seed = self.random_state
        return secret_rng() if seed is None else np.random.default_rng(seed)

    # Records --------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any) -> "LocalRecords":
        """Return the records of a fit, if they fit the public domain and classes."""
        domain, seen = self._domain(), BaseEstimator()
        table = as_table(self._features(domain, X))
        validate_data(seen, table, reset=True, skip_check_array=True)
        columns, sizes = self._encode(domain, table)
        labels = self._labels(domain, y)
        numbers = encode_classes(labels, y, columns.shape[1])
        return LocalRecords(
            domain, sizes, labels, seen, columns, numbers, learned=self.classes is None
        )

    def _read_parts(self, X: PartitionedRecords, y: Any) -> "PartRecords":
        """Return the records of a fit that are on a cluster."""
        if (
            y is not None
            or not isinstance(self.schema, Schema)
            or not isinstance(self.classes, str)
        ):
            raise ValueError(
                "records on a cluster need a Schema, the name of its column of classes, and "
                "y=None: the classes are in that column."
            )
        labels, names = class_labels(self.schema, self.classes), self._feature_names(self.schema)
        records = X.of(self.schema.subset([*names, self.classes]))
        n_records, sizes = records.n_records, records.schema.sizes[:-1]
        if n_records == 0:
            raise ValueError("X must have at least one record, got none.")
        seen = BaseEstimator()
        validate_data(seen, pd.DataFrame(columns=names), reset=True, skip_check_array=True)
        return PartRecords(self.schema, sizes, labels, seen, records, n_records)

    def _n_features(self, X: Any) -> int:
        domain = self._domain()
        if isinstance(domain, Schema):
            return len(self._feature_names(domain))
        return int(as_table(X).shape[1])

    def _columns(self, domain: Domain, X: Any) -> Codes:
        """Return the cells, shape (K, n), of records to predict for."""
        table = as_table(self._features(domain, X))
        validate_data(self, table, reset=False, skip_check_array=True)
        return self._encode(domain, table)[0]

    def _labels(self, domain: Domain, y: Any) -> Categories:
        if self.classes is not None:
            return class_labels(domain, self.classes)
        if trial_now() is not None:
            raise ValueError(
                "classes must be given in a candidate of a selection, where no warning is shown "
                "that they are read from the private records; pass classes=, which are public."
            )
        labels = learned_labels(y)
        warnings.warn(
            "classes were not given, so they are read from the private records: a class that only "
            "one person has reveals that person. Pass classes=, which are public.",
            ClassesLeakWarning,
            stacklevel=5,
        )
        return labels

    def _features(self, domain: Domain, X: Any) -> Any:
        """Return a data frame of the feature columns alone, in the order of the schema's tables."""
        X = as_frame(X)
        if not (isinstance(domain, Schema) and isinstance(X, pd.DataFrame)):
            return X
        names = self._feature_names(domain)
        return X.loc[:, names] if {*names} <= {*X.columns} else X

    def _feature_names(self, schema: Schema) -> list[str]:
        classes = self.classes if isinstance(self.classes, str) else None
        return [name for name in schema.names if name != classes]

    def _encode(self, domain: Domain, table: Any) -> tuple[Codes, tuple[int, ...]]:
        """Return the cells of the records, shape (K, n), and the features' sizes."""
        if isinstance(domain, Schema):
            schema = domain.subset(self._feature_names(domain))
            return np.ascontiguousarray(schema.encode(table).T), schema.sizes
        if isinstance(domain, Categories | Bins):
            return encode_alike(table, domain), (domain.size,) * table.shape[1]
        return encode_numbers(table, check_sizes(domain)), tuple(domain)

    # Fits -----------------------------------------------------------------------------------------

    def _as_set(self, accountant: Accountant | None) -> Self:
        """Return a copy to fit: another thread may set parameters of the estimator meanwhile.

        Raises
        ------
        ValueError
            If this is a part of another, which would state what it cost before; or if another trial
            of a selection fitted it.
        """
        if self._is_part:
            raise ValueError(
                "a classifier that is a part of another is not fitted again, because the other "
                "states its cost: fit the other, or a new one with the parameters of this one."
            )
        check_anew(self, accountant)
        own = copy(self)
        own.__dict__.pop(_NAMES, None)
        return own

    def _become(self, records: "Records", **learned: Any) -> None:
        self.__dict__.update(
            vars(records.seen),
            classes_=class_array(records.labels),
            _public=Public(records.domain, records.labels, self._target(), learned=records.learned),
            **learned,
        )

    def _take(self, own: Self, accountant: Accountant | None) -> Self:
        """Set all fitted attributes at once, so that an earlier failure changes nothing.

        Which trial paid is among them: an interrupt leaves no fit that forgot it.
        """
        parameters = self._get_param_names()
        learned = {name: each for name, each in vars(own).items() if name not in parameters}
        learned |= {MARK: None, TRIAL: trial_behind(accountant)}
        self.__dict__.pop(_NAMES, None)
        self.__dict__.update(learned)
        return self

    def __sklearn_clone__(self) -> Any:
        """Return what `sklearn.base.clone` returns: a copy that is not fitted, and is marked."""
        clone = super().__sklearn_clone__()
        clone._is_clone = True
        return clone

    def warn_of_clones(self) -> None:
        """Warn of the cost if this is a clone; an accountant adds up a part of it alone."""
        if self._is_clone:
            warnings.warn(
                "a clone of a private model is fitted, as searches and cross-validation do many "
                "times: each fit is a release of its own and costs the whole target again, which "
                "an accountant adds up if fit is given one. Nothing pays for a choice among clones "
                "by their scores, or for repeated records, so a clone is not for sharing. Choose "
                "with privrl.mechanisms.select_private, or fit a new estimator once and change "
                "free settings afterwards, as PrivateNaiveBayes.with_temperature does.",
                UserWarning,
                stacklevel=4,
            )


_Part = TypeVar("_Part", bound=Classifier)


def as_part(fitted: _Part) -> _Part:
    """Return a copy that is never fitted again, so that whoever holds it knows what it cost.

    Copies and pickles of it are neither. A clone is another classifier, and can be fitted.
    """
    part = copy(fitted)
    part.__dict__["_is_part"] = True
    return part


class SavedClassifier(Saved, Classifier):
    """A classifier that is fitted by itself, and saved with its public facts."""

    _indent: ClassVar[int | None] = 1

    @property
    def guarantee(self) -> Mapping[str, Any]:
        """The cost of all that a saved file holds, in the terms of the target; read-only.

        Its entries are ``relation`` and ``epsilon`` with ``delta`` or ``order``, or ``rho``;
        ``bins`` if released bins have their own costs beside it; and ``caveats`` if it is a
        clone of scikit-learn's, or its classes were read from the records.
        """
        check_is_fitted(self, "classes_")
        by = selection_of(self, *self._begun_by())
        target = self._public.target if by is None else by.target
        stated = guarantee_of(self.total_cost_, target, self._caveats)
        return with_bins(stated, self._public.domain)

    @property
    def _caveats(self) -> list[str]:
        """What a guarantee does not cover, of this classifier and of what it began with."""
        all_of_it = (self, *self._begun_by())
        is_clone = any(each._is_clone for each in all_of_it)
        learned = any(each._public.learned for each in all_of_it)
        return [OF_CLONE] * is_clone + [OF_CLASSES] * learned

    @property
    def total_cost_(self) -> Cost:
        """The cost of everything in a saved file but its bins; see `guarantee`.

        It is that of the whole selection, if one chose it.
        """
        by = selection_of(self, *self._begun_by())
        return self._own_cost() if by is None else by.cost

    def _begun_by(self) -> tuple["SavedClassifier", ...]:
        """Return the classifiers whose fits a saved file holds beside its own."""
        return ()

    def _own_cost(self) -> Cost:
        """Return the cost of everything in a saved file, but for that of a choice."""
        cost: Cost = self.cost_
        return cost

    @abstractmethod
    def _plain(self, public: "Public") -> dict[str, Any]:
        """Return the fitted classifier as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted classifier as plain data.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If parameters are others than at the fit, or it was chosen among several, and the
            trial that returned it had not paid for it.
        """
        check_is_fitted(self, "classes_")
        by = selection_of(self, *self._begun_by())
        fit = self._fit_plain()
        return fit if by is None else chosen_plain(fit, by, self._public.domain)

    def _fit_plain(self) -> dict[str, Any]:
        """Return the same of a fit alone, of a classifier that may be chosen."""
        public: Public = self._public
        self.check_parameters()  # as whoever reads the file does
        domain = self._domain()
        labels = public.labels if self.classes is None else class_labels(domain, self.classes)
        if repr(Public(domain, labels, self._target())) != repr(public):
            raise ValueError(
                "a classifier can be saved with the parameters that it was fitted with; set those "
                "back, or fit again."
            )
        return self._plain(public)


@dataclass(frozen=True)
class Public:
    """The public facts of a fit: those that a file states.

    Classes that were ``learned`` from the private records are not public.
    """

    domain: Domain
    labels: Categories
    target: Target | None
    learned: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Records:
    """Records that fit a public domain and classes, and their public facts.

    Attributes
    ----------
    domain : Schema or Column or sequence of int
        What the features may hold.
    sizes : tuple of int
        The number of cells of each feature.
    labels : Categories
        The classes.
    seen : BaseEstimator
        Holds the attributes by which scikit-learn knows the features.
    learned : bool
        Whether the classes were read from the private records.
    """

    domain: Domain
    sizes: tuple[int, ...]
    labels: Categories
    seen: BaseEstimator
    learned: bool = field(default=False, kw_only=True)

    @property
    def shapes(self) -> list[Rows]:
        """The shapes of the tables of counts: of the classes, then of each feature."""
        return [(1, self.labels.size), *((self.labels.size, size) for size in self.sizes)]


@dataclass(frozen=True)
class LocalRecords(Records):
    """Records by cell numbers, ``columns`` of shape (K, n) and ``numbers`` (n,): private."""

    columns: Codes
    numbers: Codes

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.numbers)

    def summed(self, tables: Callable[..., list[FloatArray]], *public: Any) -> list[FloatArray]:
        """Return tables of the records: private, to be released."""
        return tables(self.columns, self.numbers, *public)


@dataclass(frozen=True)
class PartRecords(Records):
    """Records on a cluster, whose last column is the class."""

    parts: PartitionedRecords
    n_records: int

    def summed(self, tables: Callable[..., list[FloatArray]], *public: Any) -> list[FloatArray]:
        """Return the sums of tables of the parts: private, to be released."""
        return self.parts.summed(_of_part, tables, class_places(self.labels), *public)


def _of_part(
    codes: Codes, tables: Callable[..., list[FloatArray]], places: Codes, *public: Any
) -> list[FloatArray]:
    columns = by_columns(codes[:, :-1])
    return tables(columns, places[codes[:, -1]], *public)
