"""One of two classifiers, chosen by public facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from privrl.accounting.base import Accountant
from privrl.accounting.targets import PureDP
from privrl.files.chosen import MARK, TRIAL
from privrl.files.fixed import fitted
from privrl.files.shown import shown
from privrl.models.chosen import chosen_from_plain
from privrl.models.classifiers import Classifier, as_part
from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
from privrl.models.logistic_regression.plain import FIRST_FORMAT, FORMAT
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.models.saving import CHOSEN, load_as
from privrl.numerics.typing import FloatArray

ClassifierModel = Literal["auto", "logistic-regression", "naive-bayes"]

#: What is known of a fitted classifier without asking its part.
_OF_PART = (
    "feature_names_in_", "n_features_in_", "classes_", "cost_", "randomness_", MARK, TRIAL,
)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(Classifier):
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
        What was fitted: with all that it knows, such as ``cost_``, and with ``save``. It is not
        fitted again.
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

    model: ClassifierModel = "auto"

    classifier_ = fitted()

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
        parameters = self._as_set(accountant)
        if parameters.model not in get_args(ClassifierModel):
            known = ", ".join(map(repr, get_args(ClassifierModel)))
            raise ValueError(f"model must be one of {known}, got {shown(parameters.model)}.")
        parameters.check_parameters()
        common = {
            name: each
            for name, each in parameters.get_params(deep=False).items()
            if name != "model"
        }
        kinds = {"naive-bayes": PrivateNaiveBayes, "logistic-regression": PrivateLogisticRegression}
        name: str = parameters.model
        if name == "auto":
            simple = isinstance(parameters._target(), PureDP) or parameters._n_features(X) == 1
            name = "naive-bayes" if simple else "logistic-regression"
        chosen: Any = kinds[name](**common)
        vars(chosen)["_is_clone"] = parameters._is_clone

        def take(fit: Any, accountant: Accountant | None) -> None:
            part = as_part(chosen._take(fit, accountant))
            learned = {each: vars(part)[each] for each in _OF_PART if each in vars(part)}
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.update(learned, classifier_=part)  # at once

        chosen._fit(X, y, accountant, take)
        return self

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self, "classifier_")
        return self.classifier_._scores(X)


def load_classifier(path: str | Path) -> PrivateLogisticRegression | PrivateNaiveBayes:
    """Return the classifier in a JSON file, of whichever of the two kinds it is.

    Raises
    ------
    ValueError
        As `PrivateNaiveBayes.load`.
    """
    return load_as(path, classifier_from_dict)


def classifier_from_dict(
    data: Mapping[str, Any],
) -> PrivateLogisticRegression | PrivateNaiveBayes:
    """Return the classifier that plain data describe, chosen or not, of either kind."""
    said = data.get("format") if isinstance(data, dict) else None
    if said == CHOSEN:
        return chosen_from_plain(data, classifier_from_dict)
    is_linear = said in (FORMAT, FIRST_FORMAT)
    kind = PrivateLogisticRegression if is_linear else PrivateNaiveBayes
    return kind.from_dict(data)
