"""One of two classifiers, chosen by public facts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from numpy.typing import NDArray
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from privrl._fixed import fitted
from privrl._shown import shown
from privrl._typing import FloatArray
from privrl.accounting.base import Accountant
from privrl.accounting.targets import PureDP, Target
from privrl.data.schema import Categories, Column, Schema
from privrl.models.copies import Copied
from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
from privrl.models.logistic_regression.plain import FIRST_FORMAT, FORMAT
from privrl.models.naive_bayes import PrivateNaiveBayes
from privrl.models.naive_bayes.classifier import read_records
from privrl.models.saving import load_as

ClassifierModel = Literal["auto", "logistic-regression", "naive-bayes"]


class PrivateClassifier(ClassifierMixin, Copied):  # type: ignore[misc]
    """A private classifier for categorical and binned features, of the kind that suits the budget.

    Parameters
    ----------
    schema, classes, target, random_state
        As for `PrivateNaiveBayes`.
    model : {"auto", "logistic-regression", "naive-bayes"}
        Which classifier. ``"auto"`` takes `PrivateNaiveBayes` for a single feature, of which it
        misses nothing, and `PrivateLogisticRegression` for more: what that spends on gradients
        depends on the target and the numbers of records, features, values and classes, all of
        them public.

    Attributes
    ----------
    classifier_ : PrivateLogisticRegression or PrivateNaiveBayes
        What was fitted: with all that it knows, such as ``cost_``, and with ``save``.
    classes_ : array, shape (J,)
        The classes, sorted.
    n_features_in_ : int
        How many features.
    feature_names_in_ : array of str
        Their names, where X was a data frame.

    Examples
    --------
    >>> from privrl.accounting.targets import ApproxDP
    >>> model = PrivateClassifier([3], classes=[0, 1], target=ApproxDP(1, 1e-5), random_state=0)
    >>> model.fit([[0], [2]] * 500, [0, 1] * 500).classifier_.__class__.__name__
    'PrivateLogisticRegression'
    """

    classifier_: PrivateLogisticRegression | PrivateNaiveBayes = fitted()

    def __init__(
        self,
        schema: Schema | Column | Sequence[int],
        *,
        classes: str | Sequence[str | int | bool] | Categories,
        target: Target,
        model: ClassifierModel = "auto",
        random_state: int | None = None,
    ) -> None:
        self.schema = schema
        self.classes = classes
        self.target = target
        self.model = model
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, accountant: Accountant | None = None) -> Self:
        """Choose, and fit what was chosen: one release; see `PrivateLogisticRegression.fit`.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the fit; then nothing is drawn.
        ValueError
            If a parameter is out of range or a record does not fit the public schema or classes;
            nothing is spent then.
        """
        if self.model not in get_args(ClassifierModel):
            known = ", ".join(map(repr, get_args(ClassifierModel)))
            raise ValueError(f"model must be one of {known}, got {shown(self.model)}.")
        common: dict[str, Any] = {
            "schema": self.schema,
            "classes": self.classes,
            "target": self.target,
            "random_state": self.random_state,
        }
        naive, logistic = PrivateNaiveBayes(**common), PrivateLogisticRegression(**common)
        logistic.check_parameters()
        records = read_records(naive, X, y)
        pure = isinstance(self.target, PureDP)  # which gradients cannot keep
        chosen: Any = naive if len(records.sizes) == 1 or pure else logistic
        if self.model != "auto":
            chosen = naive if self.model == "naive-bayes" else logistic
        self.warn_of_clones(accountant)
        chosen.fit(X, y, accountant=accountant)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(vars(records.seen), classes_=chosen.classes_, classifier_=chosen)
        return self

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of `predict_proba`, shape (n, J)."""
        return self._fitted().predict_log_proba(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return each record's probabilities of the classes, in the order of ``classes_``."""
        return self._fitted().predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return each record's likeliest class, shape (n,)."""
        return self._fitted().predict(X)

    def _fitted(self) -> PrivateLogisticRegression | PrivateNaiveBayes:
        check_is_fitted(self, "classifier_")
        fitted: PrivateLogisticRegression | PrivateNaiveBayes = self.classifier_
        return fitted


def load_classifier(path: str | Path) -> PrivateLogisticRegression | PrivateNaiveBayes:
    """Return the classifier in a JSON file, of whichever of the two kinds it is.

    Raises
    ------
    ValueError
        As `PrivateNaiveBayes.load`.
    """
    return load_as(path, _kind)


def classifier_from_dict(
    data: Mapping[str, Any],
) -> PrivateLogisticRegression | PrivateNaiveBayes:
    """Return the classifier that plain data describe, of whichever of the two kinds it is."""
    return _kind(data).from_dict(data)


def _kind(data: Any) -> type[PrivateLogisticRegression | PrivateNaiveBayes]:
    said = data.get("format") if isinstance(data, dict) else None
    is_linear = said in (FORMAT, FIRST_FORMAT)
    return PrivateLogisticRegression if is_linear else PrivateNaiveBayes
