"""The logistic regression classifier: fit and predictions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import RenyiDP, Target
from privrl.costs.base import Cost, NoPrivacy
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.data.schema import Bins, Categories, Schema
from privrl.files.chosen import TRIAL, chosen_by, trial_behind
from privrl.files.fixed import fitted
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism
from privrl.models.classifiers import (
    Classes,
    LocalRecords,
    Public,
    SavedClassifier,
    as_part,
)
from privrl.models.logistic_regression.plain import attributes_of, both, parameters_of, to_plain
from privrl.models.logistic_regression.plan import (
    Plan,
    plan,
    plan_tables,
    safe_temperature,
    whole_sigma,
)
from privrl.models.logistic_regression.scores import multiply, weigh
from privrl.models.logistic_regression.slopes import climb, n_ordered, positions_of
from privrl.models.logistic_regression.training import Part, Start, descend
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.models.released import check_bins
from privrl.models.targets import given_target, not_pure
from privrl.numerics.checks import check_is
from privrl.numerics.randomness import SECRET, randomness_of
from privrl.numerics.typing import FloatArray

_STEEPEST: Final = 1e100  # weights to begin with: sums of them, and squares, are numbers


class PrivateLogisticRegression(SavedClassifier):
    """Logistic regression for categorical and binned features, with differential privacy.

    Each value of each feature has a weight for every class. The model begins with a private naive
    Bayes classifier and follows noisy gradients from there. If all features are ordered
    (`Bins`) and have few records, each has a slope instead: `privrl.models.logistic_regression`.

    Parameters
    ----------
    schema, classes, target, epsilon, delta, bounds, bins, random_state
        As for `PrivateNaiveBayes`. The gradients have Gaussian noise, so the target cannot be
        `PureDP`.

    Attributes
    ----------
    cost_ : Cost
        The privacy cost of the fit, with its relation. It excludes a naive Bayes classifier that
        `fit` was given.
    total_cost_ : Cost
        The cost of everything in a saved file: `cost_` and that of a naive Bayes classifier that
        `fit` was given, as if both were fitted on the same records.
    naive_bayes_ : PrivateNaiveBayes
        The fitted classifier that the gradients start from, or a copy of it, which is not fitted
        again; slopes use its classes' frequencies.
    n_steps_ : int
        The number of released gradients; 0 if noise would drown them. Then the model is naive
        Bayes.
    randomness_ : str
        The kind of generator, from `privrl.numerics.randomness.randomness_of`.
    classes_ : array, shape (J,)
        The classes, sorted, as scikit-learn expects; numbers before texts.
    weights_ : list of arrays, shape (V, J)
        For each feature, the weights of its values, in nats. Larger means likelier.
    intercept_ : array, shape (J,)
        Of the classes, in nats.
    deviations_ : list of arrays, shape (V, J)
        Standard deviations that the gradients' noise gives to the weights, as if features were
        independent of each other; shared weights are less certain than they suggest, and
        without the noise of the parts' multiples. Zeros without gradients.
    intercept_deviations_ : array, shape (J,)
        The same of the intercept.
    n_features_in_, feature_names_in_
        As for `PrivateNaiveBayes`.

    Notes
    -----
    What may be published is as for `PrivateNaiveBayes`. A second fit is a second release, and costs
    again.

    Examples
    --------
    >>> from privrl.accounting.targets import ApproxDP
    >>> model = PrivateLogisticRegression(
    ...     [3, 2], classes=["no", "yes"], target=ApproxDP(1, 1e-5), random_state=0
    ... )
    >>> X, y = [[0, 0], [1, 0], [2, 1], [2, 1]] * 500, ["no", "no", "yes", "yes"] * 500
    >>> model.fit(X, y).predict([[2, 1]])
    array(['yes'], dtype='<U3')
    """

    naive_bayes_, n_steps_, _whole_cost = fitted(), fitted(), fitted()

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        accountant: Accountant | None = None,
        naive_bayes: PrivateNaiveBayes | None = None,
    ) -> Self:
        """Release tables and gradients of the records, and learn from the release.

        Here ``naive_bayes`` may be a fitted `PrivateNaiveBayes` over the same schema and classes to
        begin with; another kind of classifier raises ValueError. It was paid for when it was
        fitted: the whole target then is for gradients. A saved model has both in it, and states the
        cost of both together: `total_cost_`. The other arguments, and errors, are those of
        `PrivateNaiveBayes.fit`; the records are in one place.
        """
        self._fit(X, y, accountant, self._take, naive_bayes)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        accountant: Accountant | None,
        take: Callable[[Self, Accountant | None], object],
        naive_bayes: PrivateNaiveBayes | None = None,
    ) -> None:
        """Fit, and let ``take`` have what was fitted, as the end of its release."""
        own = self._as_set(accountant)
        own.check_parameters()
        rng = own._rng()
        begun = own._begun(naive_bayes)
        records = own._read(X, y)
        n_records, sizes, n_classes = records.n_records, records.sizes, records.labels.size
        if naive_bayes is not None:
            _check_begun(begun, records)
        check_bins(records.domain, accountant)
        sigma, kinds = whole_sigma(own._target()), own._kinds(records)
        own.warn_of_clones()
        planned = plan(
            sigma,
            n_records,
            sizes,
            n_classes,
            has_tables=naive_bayes is not None,
            positions=_positions(kinds),
        )
        if naive_bayes is None:
            part = sigma * planned.share**-0.5
            begun.schema, begun.classes = records.domain, own._classes(records.labels)
            begun.target = RenyiDP(
                2.0, float(GaussianCost(sigma=part, relation=ReplaceRecord()).rdp(2.0))
            )
            tables, measured = plan_tables(begun.target, records.shapes, part, n_records)
            counted = begun._counted(records)
        else:
            tables, measured, counted = None, False, []
        cost = planned.cost(tables)

        def learn(rng: np.random.Generator) -> tuple[ReleasedTable, ...]:
            learned, counts = _learned(
                begun,
                records,
                planned,
                tables,
                rng,
                counted=counted,
                measured=measured,
                ordered=tuple(n_ordered(kind) for kind in kinds),
            )
            before = naive_bayes is not None
            if not before:  # both were charged as one
                vars(learned["naive_bayes_"])[TRIAL] = trial_behind(accountant)
            own._become(
                records,
                cost_=cost,
                _whole_cost=both(cost, begun) if before else cost,
                _is_begun_before=before,
                **learned,
            )
            take(own, accountant)
            return counts

        counts = Release(accountant, cost, learn, rng).make()
        if counts:
            self.naive_bayes_.warn_of_others(counts[1 : len(sizes) + 1])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the fitted classifier that plain data describe; see `Saved.from_dict`."""
        parameters, begun = parameters_of(data)
        model = cls(**parameters)
        model.check_parameters()
        model.__dict__.update(attributes_of(data, begun))
        return model

    def _target(self) -> Target:
        target = given_target(self.target, self.epsilon, self.delta)
        return not_pure(target, "the gradients of logistic regression")

    def _kinds(self, records: LocalRecords) -> list[object]:
        """Return the kind of each feature, by the public domain."""
        domain = records.domain
        if isinstance(domain, Schema):
            return [domain.columns[name] for name in self._feature_names(domain)]
        return [domain] * len(records.sizes)

    def _classes(self, labels: Categories) -> Classes:
        return labels if self.classes is None else self.classes

    def _begun(self, naive_bayes: PrivateNaiveBayes | None) -> PrivateNaiveBayes:
        """Return the naive Bayes classifier to begin with, fitted or to be fitted.

        It is a copy: the one that was given may be fitted again, meanwhile or later.
        """
        if naive_bayes is None:
            fresh = as_part(PrivateNaiveBayes())
            fresh.__dict__["_is_clone"] = self._is_clone
            return fresh
        check_is("naive_bayes", naive_bayes, PrivateNaiveBayes)
        naive_bayes = as_part(naive_bayes)
        check_is_fitted(naive_bayes, "temperature_")
        if naive_bayes._by_value:  # a file would be read as one of the other classifier
            raise ValueError(
                "naive_bayes must not be what the paper prints; fit PrivateNaiveBayes."
            )
        if chosen_by(naive_bayes) is not None:  # a file could not state its cost
            raise ValueError(
                "naive_bayes must have been fitted, not chosen among several: that cost more than "
                "its own fit. Fit another."
            )
        if repr(naive_bayes._public.domain) != repr(self._domain()) or repr(
            naive_bayes.classes
        ) != repr(self.classes):
            raise ValueError(
                "naive_bayes must have the same schema and classes as this classifier; make this "
                "one with those of naive_bayes."
            )
        return naive_bayes

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self, "weights_")
        columns = self._columns(self._public.domain, X)
        logits = np.zeros((columns.shape[1], len(self.classes_)))
        for column, weights in zip(columns, self.weights_, strict=True):
            logits += weights.take(column, axis=0)
        return logits + self.intercept_

    def _own_cost(self) -> Cost:
        cost: Cost = self._whole_cost
        return cost

    def _begun_by(self) -> tuple[SavedClassifier, ...]:
        return (self.naive_bayes_,)

    def _plain(self, public: Public) -> dict[str, Any]:
        return to_plain(vars(self), public, self._caveats)


def _positions(kinds: Sequence[object]) -> list[FloatArray]:
    """Return where the values of features are, if all are ordered."""
    bins = [positions_of(kind) for kind in kinds if isinstance(kind, Bins)]
    return bins if len(bins) == len(kinds) else []


def _check_begun(naive_bayes: PrivateNaiveBayes, records: LocalRecords) -> None:
    """Check that a fitted classifier is one that gradients can begin with."""
    if isinstance(naive_bayes.cost_, NoPrivacy):
        raise ValueError(
            "naive_bayes must be private, got one of mechanism 'none': what is made of it would be "
            "no more private than it is."
        )
    if repr(naive_bayes._public.labels) != repr(records.labels):
        raise ValueError("naive_bayes must have the same classes as the records; give classes=.")
    sizes = records.sizes
    if len(naive_bayes.feature_log_prob_) != len(sizes):
        raise ValueError(
            f"X must have as many features as naive_bayes has, {len(naive_bayes.feature_log_prob_)}"
            f", got {len(sizes)}."
        )
    logs = [naive_bayes.class_log_prior_, *naive_bayes.feature_log_prob_]
    if not all(np.isfinite(each).all() for each in logs):
        raise ValueError(
            "naive_bayes must give every value of every feature a probability > 0 in each class; "
            "that of mechanism 'auto' does."
        )
    steepest = naive_bayes.temperature_ * max(float(np.abs(each).max()) for each in logs)
    if not steepest <= _STEEPEST:  # gradients would not be numbers, after the charge
        raise ValueError(
            f"naive_bayes must have weights of at most {_STEEPEST:g}, log-probabilities times "
            f"temperature, got {steepest:g}; its with_temperature makes one with a lower one."
        )


def _learned(
    begun: PrivateNaiveBayes,
    records: LocalRecords,
    planned: Plan,
    tables: TablesMechanism | None,
    rng: np.random.Generator,
    *,
    counted: Sequence[FloatArray],
    measured: bool,
    ordered: tuple[int, ...],
) -> tuple[dict[str, Any], tuple[ReleasedTable, ...]]:
    """Make the charged releases, and return the attributes and naive Bayes' counts.

    Without tables, naive Bayes was released before.
    """
    counts: tuple[ReleasedTable, ...] = ()
    if tables is not None:
        counts = begun._learn_tables(records, counted, tables, rng, measured=measured)
        if not measured:
            begun = begun.with_temperature(
                safe_temperature(begun.temperature_, planned.signal, begun.class_log_prior_)
            )
    log_prior, sizes = begun.class_log_prior_, records.sizes
    start = Start(
        log_prior=log_prior,
        log_rows=np.concatenate([table.T for table in begun.feature_log_prob_]),
        temperatures=np.full(len(sizes), begun.temperature_),
        intercept=log_prior - log_prior.mean(),
        sizes=sizes,
        n_records=records.n_records,
        deviations=np.zeros(len(sizes) + records.labels.size),
        ordered=ordered,
        hidden=begun.mechanism_.deviations[1 : len(sizes) + 1],
    )
    data = records.columns, records.numbers
    if planned.positions:
        parts = climb(*data, start, planned, rng)
    else:
        start = weigh(*data, start, planned.scores, rng)
        parts = descend(*data, start, planned, rng)
    cells = records.columns + start.starts[:, None]
    found = multiply(cells, records.numbers, start, parts, steps=planned.multiples, rng=rng)
    learned = {
        "naive_bayes_": begun,
        "n_steps_": sum(
            each.number for each in (planned.scores, planned.weights, planned.multiples)
        ),
        # What is seeded of it can be undone.
        "randomness_": begun.randomness_ if begun.randomness_ != SECRET else randomness_of(rng),
        **_attributes(found, start),
    }
    return learned, counts


def _attributes(found: Part, start: Start) -> dict[str, Any]:
    return {
        "weights_": np.split(found.weights, start.starts[1:]),
        "intercept_": found.intercept,
        "deviations_": np.split(found.deviations, start.starts[1:]),
        "intercept_deviations_": found.deviations_of_intercept,
    }
