"""All classifiers alike: scikit-learn's checks, arrays without a schema, and every target."""

import json
import pickle
import warnings
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

import sklearn
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, PureDP, RenyiDP, ZeroConcentratedDP
from privrl.costs.base import Together, pure_ratio, zcdp_rho
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import ReplaceRecord
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms import select_private
from privrl.models import PrivateClassifier, PrivateLogisticRegression, PrivateNaiveBayes
from privrl.models.classifiers import ClassesLeakWarning
from privrl.models.logistic_regression.choice import load_classifier
from privrl.models.targets import guarantee_of

KINDS = [PrivateNaiveBayes, PrivateLogisticRegression, PrivateClassifier]
LEAKS = pytest.mark.filterwarnings("ignore::privrl.models.classifiers.ClassesLeakWarning")
CLONES = pytest.mark.filterwarnings("ignore:a clone of a private model is fitted:UserWarning")

# The checks that fail for the sake of privacy.
OUTSIDE = "a number outside of public bounds belongs to the first or last bin, also an infinite one"
TYPES = "an entry of a wrong type is a ValueError that does not show the entry, not a TypeError"
OF_DATA = {"check_estimators_nan_inf": OUTSIDE, "check_dtype_object": TYPES}
OF_PUBLIC = OF_DATA | {
    "check_classifiers_classes": "a class that is not among the public ones is refused",
    "check_classifiers_train": "a public class without records has its column all the same",
}


def records(n: int = 1500, columns: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return rng.normal(y[:, None], 1.5, (n, columns)), y


def fitted(model: Any) -> Any:
    """The classifier that was fitted, and that is saved."""
    return getattr(model, "classifier_", model)


@pytest.mark.slow
@LEAKS
@CLONES
@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"bounds": (-10, 10), "bins": 8}, OF_DATA),
        ({"schema": Bins.even(-4, 4, 8), "classes": (0, 1, 2, 3)}, OF_PUBLIC),
    ],
    ids=["bounds", "public classes"],
)
def test_scikit_learn_s_checks(kind: Any, more: Any, expected: Any) -> None:
    model = kind(**more, target=RenyiDP(2, 1000.0), random_state=0)
    results = check_estimator(model, expected_failed_checks=expected, on_skip=None)
    status = {(each["check_name"], each["status"]) for each in results}
    assert not {name for name, s in status if s == "failed"}
    assert {name for name, s in status if s == "xfail"} == {*expected}
    assert len(results) > 50


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 4])
def test_bounds_are_a_schema_of_equal_bins(kind: Any, columns: int) -> None:
    X, y = records(columns=columns)
    X[0] = np.inf  # in the last bin
    common = {"classes": [0, 1], "epsilon": 1, "random_state": 0}
    model = kind(bounds=(-5, 5), bins=6, **common).fit(X, y)
    same = kind(Bins.even(-5, 5, 6), **common).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    frame = pd.DataFrame(X, columns=[*"abcd"[:columns]])
    named = kind(bounds=(-5, 5), bins=6, **common).fit(frame, y)
    assert named.feature_names_in_.tolist() == [*"abcd"[:columns]]


@pytest.mark.few(9)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_bounds_is_saved_with_its_public_domain(kind: Any, tmp_path: Any) -> None:
    X, y = records()
    with pytest.warns(ClassesLeakWarning, match="Pass classes="):
        model = kind(bounds=(-5, 5), bins=6, epsilon=1).fit(X, np.where(y, "yes", "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    fitted(model).save(tmp_path / "m.json")
    loaded = load_classifier(tmp_path / "m.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.schema == Bins.even(-5, 5, 6)
    assert loaded.to_dict() == fitted(model).to_dict()
    fitted(model).bins = 7
    with pytest.raises(ValueError, match="saved with the parameters that it was fitted with"):
        fitted(model).to_dict()


@pytest.mark.few(3)
@LEAKS
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_learned_classes_is_not_shareable(kind: Any, tmp_path: Any) -> None:
    X, y = records()
    public = fitted(kind(bounds=(-5, 5), epsilon=1, classes=[0, 1]).fit(X, y))
    assert public.to_dict()["shareable"]
    learned = fitted(kind(bounds=(-5, 5), epsilon=1).fit(X, y))
    learned.save(tmp_path / "m.json")
    for model in (learned, load_classifier(tmp_path / "m.json")):
        said = model.to_dict()
        assert not said["shareable"]
        assert said["because"].startswith("its classes were read from the private records")
        assert said["caveats"] == list(model.guarantee["caveats"])
    # As files were before there was the caveat.
    older = {name: each for name, each in said.items() if name != "caveats"}
    assert load(older, tmp_path).to_dict() == said
    for change in ({"caveats": said["caveats"] * 2}, {"because": "", "shareable": True}):
        with pytest.raises(ValueError, match=r"caveats must be|shareable must be"):
            load(said | change, tmp_path)


@pytest.mark.few(3)
@LEAKS
@pytest.mark.parametrize("kind", KINDS)
def test_learned_classes_are_a_caveat_wherever_they_were_learned(kind: Any, tmp_path: Any) -> None:
    """A guarantee in memory had none, nor the file of a seeded fit that was read and saved."""
    X, y = records()
    model = fitted(kind(bounds=(-5, 5), epsilon=1, random_state=1).fit(X, y))
    (caveat,) = model.guarantee["caveats"]
    assert caveat.startswith("its classes were read from the private records")
    for each in (copy(model), loaded(model, tmp_path), loaded(loaded(model, tmp_path), tmp_path)):
        assert each.guarantee == model.guarantee
        assert each.to_dict() == model.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_a_candidate_that_learns_classes_is_refused(kind: Any) -> None:
    """Nobody saw the warning: a selection shows none of its trials."""
    X, y = records(300, 2)

    def candidate(trial: Any) -> Any:
        model = kind(bounds=(-5, 5), target=trial.part(0.9))
        return model.fit(X, y, accountant=trial.accountant), 0.0

    with pytest.raises(ValueError, match="classes must be given in a candidate"):
        select_private({"a": candidate}, target=ApproxDP(1, 1e-5), trials=1)


def load(said: dict[str, Any], tmp_path: Path) -> Any:
    (tmp_path / "changed.json").write_text(json.dumps(said))
    return load_classifier(tmp_path / "changed.json")


def loaded(model: Any, tmp_path: Path) -> Any:
    model.save(tmp_path / "m.json")
    return load_classifier(tmp_path / "m.json")


def check_has_a_caveat(model: Any, tmp_path: Path) -> None:
    """In all of its copies, and in what is made of them."""
    copies = [model, copy(model), pickle.loads(pickle.dumps(model)), loaded(model, tmp_path)]
    if isinstance(model, PrivateLogisticRegression):
        copies += [each.naive_bayes_ for each in copies]
    else:
        copies.append(model.with_temperature(0.5))
    for each in copies:
        (said,) = each.guarantee["caveats"]
        assert "copy made by scikit-learn" in said
        assert each.to_dict()["caveats"] == [said]
        assert not each.to_dict()["shareable"]


@pytest.mark.slow
@CLONES
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_search_chose_is_not_shareable(kind: Any, tmp_path: Path) -> None:
    """The choice rests on exact scores of private folds, for which no accountant is charged."""
    X, y = records(300, 2)
    model = kind(bounds=(-5, 5), classes=[0, 1], epsilon=1)
    search = GridSearchCV(model, {"bins": [2, 8]}, cv=2)
    with pytest.warns(UserWarning, match="Nothing pays for a choice .*select_private"):
        search.fit(X, y, accountant=RdpAccountant())
    best = search.best_estimator_
    check_has_a_caveat(fitted(best), tmp_path)
    best.fit(X, y)  # it is a clone still
    check_has_a_caveat(fitted(best), tmp_path)
    own = fitted(kind(**best.get_params()).fit(X, y))
    assert "caveats" not in own.guarantee
    assert "caveats" not in own.to_dict()
    assert own.to_dict()["shareable"]


@pytest.mark.slow
@CLONES
@pytest.mark.parametrize("routing", [False, True])
def test_what_is_fitted_to_repeated_records_is_not_shareable(routing: bool, tmp_path: Path) -> None:
    """Bagging repeats records: one of them changes a table by more than was paid for."""
    X, y = records(300, 2)
    with sklearn.config_context(enable_metadata_routing=routing):
        model = PrivateNaiveBayes(bounds=(-5, 5), classes=[0, 1], epsilon=1)
        given = {}
        if routing:
            model.set_fit_request(accountant=True)
            given = {"accountant": RdpAccountant()}
        bag = BaggingClassifier(model, n_estimators=2, random_state=0).fit(X, y, **given)
    assert max(np.bincount(each).max() for each in bag.estimators_samples_) > 1
    for each in bag.estimators_:
        check_has_a_caveat(each, tmp_path)


@pytest.mark.slow
@CLONES
def test_what_begins_with_a_clone_is_not_shareable(tmp_path: Path) -> None:
    X, y = records(300, 2)
    common = {"schema": Bins.even(-5, 5, 4), "classes": [0, 1], "epsilon": 1}
    begun = clone(PrivateNaiveBayes(**common)).fit(X, y)
    made = PrivateLogisticRegression(**common).fit(X, y, naive_bayes=begun)
    check_has_a_caveat(made, tmp_path)
    own = PrivateNaiveBayes(**common).fit(X, y)
    again = clone(PrivateLogisticRegression(**common)).fit(X, y, naive_bayes=own)
    for each in (again, loaded(again, tmp_path)):
        assert each.guarantee["caveats"]
        assert not each.to_dict()["shareable"]
        assert each.naive_bayes_.to_dict()["shareable"]  # which was not chosen among clones


@pytest.mark.slow
@CLONES
@LEAKS
def test_a_clone_of_learned_classes_keeps_both(tmp_path: Path) -> None:
    X, y = records(300, 2)
    model = clone(PrivateNaiveBayes(bounds=(-5, 5), epsilon=1)).fit(X, y)
    for each in (model, loaded(model, tmp_path)):
        assert each.to_dict()["because"].startswith("its classes were read from")
        assert each.guarantee["caveats"]


@pytest.mark.slow
@CLONES
def test_a_clone_that_a_trial_fitted_has_a_caveat_in_its_file(tmp_path: Path) -> None:
    X, y = records(300, 2)
    for kind in (PrivateNaiveBayes, PrivateLogisticRegression):

        def candidate(trial: Any, kind: Any = kind) -> Any:
            model = kind(bounds=(-5, 5), classes=[0, 1], target=trial.part(0.9))
            noisy = trial.noisy([10, 20], 0.1)
            return clone(model).fit(X, y, accountant=trial.accountant), float(noisy[0])

        best = select_private({"a": candidate}, target=ApproxDP(1, 1e-5), trials=1).result
        for each in (best, loaded(best, tmp_path)):
            assert each.guarantee["caveats"]
            said = each.to_dict()
            assert not said["shareable"]
            assert len(said["caveats"]) == 1


@CLONES
def test_a_file_of_a_clone_does_not_hide_it() -> None:
    X, y = records(300, 2)
    common = {"schema": Bins.even(-5, 5, 4), "classes": [0, 1], "epsilon": 1}
    for kind in (PrivateNaiveBayes, PrivateLogisticRegression):
        said = clone(kind(**common)).fit(X, y).to_dict()
        for change, message in (
            ({"caveats": []}, "shareable must be"),
            ({"caveats": ["none"]}, "caveats must be"),
            ({"caveats": None}, "caveats must be"),
            ({"shareable": True}, "shareable must be false"),
        ):
            if kind is PrivateLogisticRegression and change == {"caveats": []}:
                continue  # what it began with says so
            with pytest.raises(ValueError, match=message):
                kind.from_dict(said | change)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_names_are_in_the_order_of_the_tables(kind: Any, tmp_path: Path) -> None:
    """Whoever zips names with tables explains the right feature, whatever order records have."""
    yes = Categories(("no", "yes"))
    schema = Schema({"smokes": yes, "ill": yes, "cat": yes})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(["no", "yes"], 3000) for name in ("cat", "smokes")})
    ill = frame["smokes"].where(rng.random(3000) < 0.95, "no").rename("ill")
    made = kind(schema, classes="ill", epsilon=10).fit(frame, ill)
    assert made.feature_names_in_.tolist() == ["smokes", "cat"]
    model = fitted(made)
    began = getattr(model, "naive_bayes_", model)
    tables = getattr(model, "weights_", None) or [table.T for table in model.feature_log_prob_]
    weight = {
        name: table[1, 1] - table[1, 0]
        for name, table in zip(model.feature_names_in_, tables, strict=True)
    }
    assert weight["smokes"] > 1 + abs(weight["cat"])
    file = began.to_dict()
    assert file["feature_names"] == ["smokes", "cat"]
    before = file | {"feature_names": ["cat", "smokes"]}  # as files of before had it
    old = PrivateNaiveBayes.from_dict(before)
    assert old.feature_names_in_.tolist() == ["smokes", "cat"]
    for order in (["cat", "smokes"], ["smokes", "cat"]):
        for each in (made, loaded(model, tmp_path)):
            found = each.predict_proba(frame[order])
            np.testing.assert_array_equal(found, made.predict_proba(frame))
        found = old.predict_proba(frame[order])
        np.testing.assert_array_equal(found, began.predict_proba(frame))
    for names in (["cat", "cat"], ["cat", "ill"]):
        with pytest.raises(ValueError, match="feature_names must be the schema's"):
            PrivateNaiveBayes.from_dict(file | {"feature_names": names})


@LEAKS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("secret", ["zebra\ud800", 77123 + 1j], ids=["text", "complex"])
def test_no_error_shows_a_class_that_is_learned(kind: Any, secret: Any) -> None:
    X, y = records()
    classes = np.where(y, np.array(secret), np.array(type(secret)(1)))
    with pytest.raises(ValueError, match="y must hold") as stop:
        kind(bounds=(-5, 5), epsilon=1).fit(X, classes)
    assert "zebra" not in repr(stop.value)
    assert "77123" not in repr(stop.value)
    assert stop.value.__context__ is None


@LEAKS
@pytest.mark.parametrize(
    "y",
    [
        [b"SECRET", b"other"],
        np.array([b"SECRET", b"other"]),
        pd.Series(["SECRET", None], dtype="string"),
        pd.Series([1, None], dtype="Int64"),
        ["SECRET", None],
        ["SECRET", 0.5],
        [1.0, float("nan")],
        [[1], ["SECRET"]],
    ],
    ids=str,
)
def test_what_is_no_class_is_refused_where_classes_are_learned(y: Any) -> None:
    """These were errors of sklearn's and NumPy's: raw ones, of other types."""
    X = [[0], [1]]
    with pytest.raises(ValueError, match="y must hold") as stop:
        PrivateNaiveBayes([2], epsilon=1).fit(X, y)
    assert "SECRET" not in str(stop.value)
    assert (stop.value.__cause__, stop.value.__context__) == (None, None)


@LEAKS
@pytest.mark.parametrize("make", [list, pd.Series])
def test_learned_classes_are_read_each_by_itself(make: Any) -> None:
    """One text among them made texts of all others."""
    model = PrivateNaiveBayes([2], epsilon=1).fit([[0], [1]] * 2, make([7, "b", 1.0, "a"]))
    assert model.classes_.tolist() == [1, 7, "a", "b"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_of_a_score_shows_a_class(kind: Any) -> None:
    X, y = records()
    model = kind(bounds=(-5, 5), epsilon=1, classes=[0, 1]).fit(X, y)
    assert 0 <= model.score(X, y) <= 1
    with pytest.raises(ValueError, match="y must hold a class for each") as stop:
        model.score(X, np.where(y, "zebra", "a"))
    assert stop.value.__context__ is None


@pytest.mark.few(9)
@pytest.mark.parametrize("kind", KINDS)
def test_classes_are_never_learned_without_a_warning(kind: Any) -> None:
    X, y = records()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(bounds=(-5, 5), epsilon=1, classes=[0, 1]).fit(X, y)
    with pytest.warns(ClassesLeakWarning) as seen:
        model = kind(bounds=(-5, 5), epsilon=1).fit(X, y.astype(float))
    assert len(seen) == 1
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "schema must be"),
        ({"schema": Bins.even(0, 1, 2), "bounds": (0, 1)}, "either schema or bounds"),
        ({"bounds": 5}, "bounds must be"),
        ({"bounds": (1, 2, 3)}, "bounds must be"),
        ({"bounds": (2, 1)}, "must"),
        ({"bounds": (0, 1), "bins": 1}, "bins must be"),
        ({"bounds": (0, 1), "target": ApproxDP(1, 1e-5)}, "either target= or epsilon="),
        ({"bounds": (0, 1), "delta": 2}, "delta must be"),
        ({"bounds": (0, 1), "epsilon": None, "delta": 0}, "either target= or epsilon="),
        ({"bounds": (0, 1), "epsilon": None}, "target must be"),
        ({"bounds": (0, 1), "classes": iter([0, 1])}, "classes must be a list, got an iterator"),
    ],
)
def test_bad_parameters_cost_nothing(kind: Any, more: Any, message: str) -> None:
    accountant = RdpAccountant()
    X, y = records()
    with pytest.raises(ValueError, match=message):
        kind(**{"classes": [0, 1], "epsilon": 1} | more).fit(X, y, accountant=accountant)
    assert not accountant.rdp.any()


@LEAKS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("y", [np.zeros(1500), np.linspace(0, 1, 1500), [[0, 1]] * 1500])
def test_classes_that_cannot_be_learned_are_refused(kind: Any, y: Any) -> None:
    with pytest.raises(ValueError, match=r"class|label|1d"):
        kind(bounds=(0, 1), epsilon=1).fit(records()[0], y)


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "target", [ApproxDP(1, 1e-6), RenyiDP(3, 0.5), ZeroConcentratedDP(0.1), PureDP(1.0)], ids=str
)
def test_every_target_is_met_and_saved(kind: Any, target: Any) -> None:
    X, y = records()
    model = kind(bounds=(-5, 5), classes=[0, 1], target=target)
    if kind is PrivateLogisticRegression and isinstance(target, PureDP):
        with pytest.raises(ValueError, match="must allow Gaussian noise"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert -0.01 < target.excess(model.cost_) <= 0 or isinstance(target, ApproxDP)
    assert target.excess(model.cost_) <= 0
    if isinstance(target, PureDP):
        assert 0.999 < float(pure_ratio(model.cost_)) <= 1
    guarantee = fitted(model).guarantee
    for name, amount in vars(target).items():
        assert guarantee[name] == pytest.approx(amount, rel=0.01)
        assert guarantee[name] <= amount
    with pytest.raises(TypeError):
        guarantee["relation"] = "another"
    data = json.loads(json.dumps(fitted(model).to_dict()))
    again = type(fitted(model)).from_dict(data)
    assert again.target == target
    assert again.to_dict() == data


def test_a_rho_holds_at_all_orders() -> None:
    """Of Laplace noise a divergence over its order is largest as the order falls to 1."""
    X, y = records()
    target = ZeroConcentratedDP(0.1)
    model = PrivateNaiveBayes(bounds=(-5, 5), classes=[0, 1], target=target, mechanism="laplace")
    model.fit(X, y)
    rho = zcdp_rho(model.cost_)
    assert rho is not None
    assert rho <= Fraction(model.guarantee["rho"]) <= Fraction("0.1")
    orders = 1 + np.logspace(-9, 3, 50)
    assert (model.cost_.rdp(orders) <= model.guarantee["rho"] * orders).all()


@pytest.mark.parametrize("mechanism", ["gaussian", "dirichlet", "dkl"])
def test_a_mechanism_that_cannot_be_pure_is_refused(mechanism: Any) -> None:
    model = PrivateNaiveBayes(bounds=(-5, 5), classes=[0, 1], target=PureDP(1), mechanism=mechanism)
    with pytest.raises(ValueError, match="mechanism='auto' meets it"):
        model.fit(*records())


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_and_delta_are_a_short_form(kind: Any) -> None:
    X, y = records()
    common = {"bounds": (-5, 5), "classes": [0, 1], "random_state": 0}
    for short, target in (
        ({"epsilon": 2}, ApproxDP(2, 1e-5)),
        ({"epsilon": 2, "delta": 1e-7}, ApproxDP(2, 1e-7)),
    ):
        model = kind(**kind(**common, **short).get_params())
        model.fit(X, y, accountant=RdpAccountant())
        same = kind(**common, target=target).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
        assert fitted(model).to_dict() == fitted(same).to_dict()


def test_logistic_regression_begins_with_classes_of_its_own_records() -> None:
    X, y = records()
    common = {"bounds": (-5, 5), "epsilon": 1}
    with pytest.warns(ClassesLeakWarning):
        begun = PrivateNaiveBayes(**common).fit(X, y)
    with pytest.warns(ClassesLeakWarning), pytest.raises(ValueError, match="same classes"):
        PrivateLogisticRegression(**common).fit(X, y + 1, naive_bayes=begun)


@pytest.mark.few(9)
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_given_classes_changes_nothing_but_the_file(kind: Any) -> None:
    X, y = records()
    schema = Schema({name: Bins.even(-5, 5, 5) for name in "abcd"})
    frame = pd.DataFrame(X, columns=[*"abcd"])
    made = [
        kind(schema, classes=classes, epsilon=1, random_state=0).fit(frame, y)
        for classes in ([0, 1], [1, 0])
    ]
    np.testing.assert_array_equal(*(model.predict_proba(frame) for model in made))


def test_a_model_that_nobody_could_read_is_not_saved() -> None:
    """A parameter that was changed after the fit went into the file, which was then refused."""
    X, y = records()
    model = PrivateNaiveBayes(bounds=(0, 1), classes=[0, 1], epsilon=1).fit(X, y)
    for name, value in (("alpha", 3.0), ("temperature", -1.0), ("shares", "none")):
        before = getattr(model, name)
        setattr(model, name, value)
        with pytest.raises(ValueError, match=f"{name} must be"):
            model.to_dict()
        setattr(model, name, before)
    assert model.to_dict()


def test_a_model_is_saved_with_the_classes_of_its_fit() -> None:
    X, y = records()
    model = PrivateNaiveBayes(bounds=(-5, 5), classes=[0, 1], epsilon=1).fit(X, y)
    model.classes = [0, 1, 2]
    with pytest.raises(ValueError, match="saved with the parameters that it was fitted with"):
        model.to_dict()


def test_a_pure_epsilon_is_never_rounded_down() -> None:
    for scale in (0.3, 0.7, 1.1, 1.3):
        cost = Together([LaplaceCost(scale=scale, relation=ReplaceRecord())] * 3)
        exact, stated = pure_ratio(cost), guarantee_of(cost, PureDP(1.0))["epsilon"]
        assert exact is not None
        assert exact <= stated <= float(exact) * (1 + 1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["cost_", "total_cost_", "randomness_"])
def test_what_statements_rest_on_is_read_only(kind: Any, name: str) -> None:
    """``total_cost_`` of naive Bayes could be assigned, and its guarantee was that."""
    X, y = records(200)
    model = fitted(kind(bounds=(-10, 10), classes=(0, 1), epsilon=1.0, random_state=0).fit(X, y))
    said = dict(model.guarantee)
    with pytest.raises(AttributeError):
        setattr(model, name, LaplaceCost(scale=1e6, relation=ReplaceRecord()))
    assert dict(model.guarantee) == said


class _Setting(RdpAccountant):
    """An accountant during whose charge another thread sets parameters of the classifier."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def compose(self, cost: Any, count: int = 1) -> None:
        super().compose(cost, count)
        self._model.set_params(target=ApproxDP(0.01, 1e-5), bounds=(0, 1), classes=(0, 1, 2))


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_a_fit_are_those_at_its_beginning(kind: Any) -> None:
    """The file stated the target that was set meanwhile, beside the cost of the fit."""
    parameters: dict[str, Any] = {
        "target": ApproxDP(1.0, 1e-5), "bounds": (-10, 10), "classes": (0, 1), "random_state": 0,
    }  # fmt: skip
    X, y = records()
    model, other = kind(**parameters), kind(**parameters).fit(X, y)
    model.fit(X, y, accountant=_Setting(model))
    assert model.target == ApproxDP(0.01, 1e-5)
    if kind is not PrivateClassifier:  # whose own are as they were
        with pytest.raises(ValueError, match="parameters that it was fitted with"):
            model.to_dict()
    model.set_params(**parameters)
    assert fitted(model).to_dict() == fitted(other).to_dict()
    assert 0.999 < fitted(model).guarantee["epsilon"] <= 1
