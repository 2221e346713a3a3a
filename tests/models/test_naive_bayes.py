"""The private naive Bayes classifier: what it promises to scikit-learn, and what to people."""

import json
import pickle
import re
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra: privrl[models]")

from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import CategoricalNB
from sklearn.utils.estimator_checks import check_estimator

from privrl.accounting import BudgetExceeded, RdpAccountant
from privrl.audit import audit_mechanism
from privrl.mechanisms import DirichletMechanism, ReleasedTable, TablesMechanism
from privrl.mechanisms.tables import least_noise_shares
from privrl.naive_bayes import TEMPERATURES, PrivateNaiveBayes
from privrl.naive_bayes.temperature import derivative_tables, least_loss
from privrl.releases import NoPrivacy
from privrl.schema import Bins, Categories, Schema
from privrl.targets import ApproxDP, Rdp

MECHANISMS = ["auto", "dirichlet", "dkl", "gaussian", "laplace"]
SIZES = [3, 2, 4]

# Checks that a public domain cannot pass, each for a reason.
EXPECTED_FAILURES = {
    "check_classifiers_classes": "the labels are not those that were stated as public",
    "check_classifiers_train": "a stated class that does not occur has its column all the same",
    "check_dtype_object": "what is no number is a ValueError, and no TypeError that shows it",
    "check_estimators_nan_inf": "an infinite number belongs to the first or last bin",
}


def made(mechanism="auto", target=None, **more):
    target = Rdp(5, 1.0) if target is None else target
    more = {"classes": [0, 1], "random_state": 0} | more
    return PrivateNaiveBayes(SIZES, target=target, mechanism=mechanism, **more)


def records(n=500, seed=0, copies=1):
    """Features that depend on the class; with copies of each, naive Bayes is too sure."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    told = rng.random((n, len(SIZES))) < 0.4
    X = np.where(told, y[:, None] * (np.array(SIZES) - 1), rng.integers(0, SIZES, (n, 3)))
    return np.tile(X, (1, copies)), y


def loss(model, X, y):
    return -model.predict_log_proba(X)[np.arange(len(y)), y].mean()


def test_scikit_learn_s_checks():
    model = PrivateNaiveBayes(
        Bins.even(-4, 4, 8), classes=(0, 1, 2, 3), target=Rdp(2, 1000.0), random_state=0
    )
    results = check_estimator(model, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    status = {(each["check_name"], each["status"]) for each in results}
    assert {name for name, s in status if s == "xfail"} == set(EXPECTED_FAILURES)
    assert not {name for name, s in status if s == "failed"}
    assert len(results) > 50


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_exact_counts_give_scikit_learn_s_model(alpha):
    X, y = records()
    ours = made("none", alpha=alpha).fit(X, y)
    theirs = CategoricalNB(alpha=alpha or 1.0, min_categories=SIZES).fit(X, y)
    for a, b in zip(ours.feature_log_prob_, theirs.feature_log_prob_, strict=True):
        np.testing.assert_allclose(a, b)
    smoothed = theirs.class_count_ + (alpha or 1.0)
    np.testing.assert_allclose(ours.class_log_prior_, np.log(smoothed / smoothed.sum()))
    theirs.class_log_prior_ = ours.class_log_prior_
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert isinstance(ours.release_, NoPrivacy)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("target", [Rdp(5, 1.0), ApproxDP(1.0, 1e-5)], ids=str)
def test_what_is_spent_meets_the_target_and_is_told(mechanism, target):
    accountant = RdpAccountant(orders=[2, 5, 30])
    model = made(mechanism, target).fit(*records(), accountant=accountant)
    np.testing.assert_array_equal(accountant.rdp, model.release_.rdp(accountant.orders))
    assert str(model.release_.relation) == "replace one record"
    if isinstance(target, Rdp):
        spent = float(model.release_.rdp(5.0))
        assert spent <= 1.0
        assert mechanism == "dkl" or spent > 0.999
    else:
        assert float(model.release_.delta(1.0)) <= 1e-5
    model.fit(*records(), accountant=accountant)
    np.testing.assert_allclose(accountant.rdp, 2 * model.release_.rdp(accountant.orders))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_over_budget_nothing_is_learned(mechanism):
    poor = RdpAccountant(budget=Rdp(5, 0.1))
    model = made(mechanism)
    with pytest.raises(BudgetExceeded):
        model.fit(*records(), accountant=poor)
    assert not poor.rdp.any()
    with pytest.raises(NotFittedError):
        model.predict(records()[0])


def test_what_measures_the_temperature_is_paid_for_too():
    accountant = RdpAccountant(budget=Rdp(5, 1.0))
    model = made().fit(*records(), accountant=accountant)
    assert len(model.mechanism_.sizes) == 1 + len(SIZES) + len(TEMPERATURES)
    by_hand = 2.5 * sum(2 / sigma**2 for sigma in model.mechanism_.sizes)
    assert by_hand == pytest.approx(1, rel=1e-6)
    assert float(accountant.spent(5)) == pytest.approx(by_hand, rel=1e-6)
    assert float(model.release_.rdp(5)) == pytest.approx(by_hand, rel=1e-6)


def test_over_budget_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(TablesMechanism, "_draw", lambda *_: pytest.fail("there was a draw"))
    with pytest.raises(BudgetExceeded):
        made().fit(*records(), accountant=RdpAccountant(budget=Rdp(5, 0.1)))


def test_the_settings_are_the_ones_promised():
    X, y = records()
    shapes = [(1, 2), (2, 3), (2, 2), (2, 4)]
    one = DirichletMechanism.algorithm_1(Rdp(5, 1.0), count=4)
    dkl = made("dkl").fit(X, y).mechanism_
    assert (dkl.mechanism, dkl.sizes, dkl.alpha) == ("dirichlet", (one.scale,) * 4, one.alpha)
    uniform = made("gaussian", shares="uniform").fit(X, y).mechanism_
    np.testing.assert_allclose(uniform.sizes, np.sqrt(5 * 4), rtol=1e-9)
    optimised = made("gaussian").fit(X, y).mechanism_
    np.testing.assert_allclose(5 / np.square(optimised.sizes), least_noise_shares(shapes))
    auto = made().fit(X, y).mechanism_
    spent = 5 / np.square(auto.sizes)
    assert auto.shapes == (*shapes, *[(1, 2)] * len(TEMPERATURES))
    np.testing.assert_allclose(spent[4:].sum(), 0.05, rtol=1e-9)
    np.testing.assert_allclose(spent[:4] / 0.95, least_noise_shares(shapes))
    assert made("dirichlet", alpha=2.5).fit(X, y).mechanism_.alpha == 2.5


def test_the_paper_s_orientation():
    X, y = records()
    model = made("dkl", orientation="paper").fit(X, y)
    assert model.mechanism_.shapes == ((1, 2), (3, 2), (2, 2), (4, 2))
    for table in model.feature_log_prob_:
        np.testing.assert_allclose(np.exp(table).sum(axis=0), 1)
    for table in made("dkl").fit(X, y).feature_log_prob_:
        np.testing.assert_allclose(np.exp(table).sum(axis=1), 1)


def test_without_noise_the_temperature_is_the_best_one():
    """Against a search on the training loss; 1/8 apart in logarithms, that being interpolated."""
    X, y = records(n=5000, copies=4)
    model = PrivateNaiveBayes(SIZES * 4, classes=[0, 1], target=Rdp(2, 1e9), random_state=0).fit(
        X, y
    )

    def loss_at(log_temperature):
        model.temperature_ = np.exp(log_temperature)
        return loss(model, X, y)

    chosen = model.temperature_
    best = minimize_scalar(loss_at, bounds=(np.log(1 / 8), 0), method="bounded").x
    assert np.log(chosen) == pytest.approx(best, abs=0.125)
    assert 0.15 < chosen < 0.5  # four copies of everything: about a quarter


def test_the_measured_sums_are_the_loss_s_derivatives():
    """Central differences of each record's loss, where it is not clipped."""
    X, y = records(n=50)
    model = made(temperature=1.0).fit(X, y)
    ratios = sum(table[:, X[:, k]] for k, table in enumerate(model.feature_log_prob_))
    tables = derivative_tables(model.class_log_prior_, ratios, y)

    def losses(temperature):
        model.temperature_ = temperature
        return -model.predict_log_proba(X)[np.arange(len(y)), y]

    for temperature, table in zip(TEMPERATURES, tables, strict=True):
        step = 1e-5
        each = (losses(temperature * np.exp(step)) - losses(temperature * np.exp(-step))) / 2 / step
        assert np.abs(each).max() < 2
        assert table.sum() == 50
        assert table[0, 0] - table[0, 1] == pytest.approx(each.sum(), abs=0.5 * 50 / 32)


def test_the_measured_sums_lie_on_the_noise_s_grid():
    """Sums that do not would be rounded, and by how much would tell the records."""
    rng = np.random.default_rng(2)
    ratios, numbers = rng.normal(0, 3, (2, 999)), rng.integers(0, 2, 999)
    for table in derivative_tables(np.log([0.3, 0.7]), ratios, numbers):
        np.testing.assert_array_equal(64 * table, np.rint(64 * table))
        assert table.sum() == 999
        assert (table >= 0).all()


def test_noise_draws_to_the_typical_temperature():
    """The same sums, with a least loss at 1/4, and ever more noise said to be in them."""
    halves = 500 + 100 * np.log(4 * np.array(TEMPERATURES))

    def chosen(deviation):
        sums = [
            ReleasedTable(np.array([[half, 1000 - half]]), "gaussian", deviation) for half in halves
        ]
        return least_loss(sums, 1000)

    found = [chosen(deviation) for deviation in (0.0, 10.0, 1000.0, 1e6)]
    assert found[0] == pytest.approx(0.25, rel=0.03)
    assert found == sorted(found)
    assert 0.25 < found[2] < found[3]
    assert found[3] == pytest.approx(0.5**0.5, rel=0.03)


def test_few_records_and_a_small_budget_measure_nothing():
    """A public choice: by the number of records and the target alone."""
    small = made(target=Rdp(5, 0.01)).fit(*records(n=100))
    assert small.temperature_ == pytest.approx(0.5**0.5)
    assert len(small.mechanism_.shapes) == 4
    assert float(small.release_.rdp(5.0)) == pytest.approx(0.01)
    assert len(made(target=Rdp(5, 0.01)).fit(*records(n=20_000)).mechanism_.shapes) == 9
    assert made(temperature=0.7).fit(*records()).temperature_ == 0.7
    assert made("gaussian").fit(*records()).temperature_ == 1.0


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_auto_is_the_best_of_all_where_features_depend_on_each_other(epsilon):
    """Four copies of three features, mean loss of five seeds; DKL's loss is at least 5 % more."""
    X, y = records(n=2000, copies=4)
    test, truth = records(n=2000, seed=1, copies=4)

    def mean(mechanism):
        models = (
            PrivateNaiveBayes(
                SIZES * 4,
                classes=[0, 1],
                target=Rdp(5, epsilon),
                mechanism=mechanism,
                random_state=seed,
            )
            for seed in range(5)
        )
        return np.mean([loss(model.fit(X, y), test, truth) for model in models])

    auto = mean("auto")
    assert 1.05 * auto < mean("dkl")
    assert auto < min(mean("gaussian"), mean("laplace"))
    assert auto < 1.02 * np.log(2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_smallest_budget_is_no_worse_than_a_guess_under_auto_and_no_error_elsewhere(mechanism):
    X, y = records(n=200)
    model = made(mechanism, Rdp(5, 1e-6)).fit(X, y)
    probabilities = model.predict_proba(X)
    assert np.isfinite(model.predict_log_proba(X)).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)
    if mechanism == "auto":
        assert loss(model, X, y) < 1.02 * np.log(2)


def _captured(monkeypatch, model, X, y):
    """Fit with all draws replaced by fixed tables; return what was to be drawn from."""
    seen = []

    def draw(self, data, rng):
        seen.extend(zip(data, self.sizes, strict=True))
        return tuple(
            ReleasedTable(np.exp(8 * np.sin(np.arange(t.size))).reshape(t.shape), "gaussian", 1.0)
            for t in data
        )

    with monkeypatch.context() as patch:
        patch.setattr(TablesMechanism, "_draw", draw)
        model.fit(X, y)
    assert tuple(size for _, size in seen) == model.mechanism_.sizes
    return [table for table, _ in seen], model.mechanism_


def test_a_replaced_record_changes_every_table_as_paid_for(monkeypatch):
    """All neighbours of a data set of three records, by brute force.

    Everything drawn comes from tables that one record changes by (+1, −1) at most, with the noise
    of the mechanism that was paid for; and which one that is does not depend on the data.
    """
    target = Rdp(5, 1e4)  # so that the temperature is measured
    model = PrivateNaiveBayes([2, 3], classes=["a", "b"], target=target)
    X, y = np.array([[0, 2], [1, 0], [1, 1]]), np.array(["a", "a", "b"])
    tables, mechanism = _captured(monkeypatch, model, X, y)
    assert len(tables) == 3 + len(TEMPERATURES)
    largest = np.zeros(len(tables))
    for i, *record, label in product(range(3), range(2), range(3), "ab"):
        other_X, other_y = X.copy(), y.copy()
        other_X[i], other_y[i] = record, label
        others, same = _captured(monkeypatch, model, other_X, other_y)
        assert same == mechanism
        for k, (table, other) in enumerate(zip(tables, others, strict=True)):
            change = (other - table).ravel()
            up, down = change[change > 0].sum(), -change[change < 0].sum()
            assert up == down <= 1
            assert np.count_nonzero(change) in (0, 2)
            largest[k] = max(largest[k], up)
    assert (largest[:3] == 1).all()
    assert (largest[3:] > 0.4).all()  # records of either kind, some of them clipped


@pytest.mark.parametrize("broken", [False, True], ids=["sound", "a third of the noise"])
def test_audit_of_a_whole_fit(monkeypatch, broken):
    """400 fits at delta 0.05 to each data set; a false alarm once in 1,000 seeds.

    The broken variant releases with a third of the noise that it claims. Calibration depends on
    public facts only and is done once.
    """
    calibrated = cache(TablesMechanism.calibrated.__func__)

    def once(cls, target, *, shapes, shares, **more):
        return calibrated(cls, target, shapes=tuple(shapes), shares=tuple(shares), **more)

    monkeypatch.setattr(TablesMechanism, "calibrated", classmethod(once))
    if broken:
        part = TablesMechanism.part

        def quiet(self, tables):
            whole = part(self, tables)
            sizes = tuple(size / 3 for size in whole.sizes)
            return TablesMechanism(shapes=whole.shapes, mechanism=whole.mechanism, sizes=sizes)

        monkeypatch.setattr(TablesMechanism, "part", quiet)
    model = PrivateNaiveBayes([2], classes=[0, 1], target=ApproxDP(1.0, 0.05))

    def run(data, rng):
        model.set_params(random_state=int(rng.integers(2**31)))
        model.fit(data[:, :1].astype(int), data[:, 1].astype(int))
        assert len(model.mechanism_.shapes) == 2 + len(TEMPERATURES)
        learned = [model.feature_log_prob_[0].ravel(), model.class_log_prior_]
        return np.concatenate([*learned, [model.temperature_]])

    data = np.array([[0, 0]] * 100 + [[1, 1]] * 100)
    neighbour = data.copy()
    neighbour[0] = [1, 1]
    result = audit_mechanism(
        run,
        data,
        neighbour,
        np.random.default_rng(0),
        claimed=1.0,
        delta=0.05,
        draws=400,
        confidence=0.999,
    )
    assert result.violated == broken


def test_nothing_of_the_records_is_kept():
    """A pickle is as large for a hundred times the records, and holds no exact count."""
    models = [made().fit(*records(n)) for n in (500, 50_000)]
    short, long = (len(pickle.dumps(model)) for model in models)
    assert abs(long - short) < 50
    X, y = records()
    counts = [
        np.bincount(y),
        *(np.bincount(X[y == 0, k], minlength=v) for k, v in enumerate(SIZES)),
    ]
    again = pickle.loads(pickle.dumps(models[0]))
    np.testing.assert_array_equal(again.predict_proba(X), models[0].predict_proba(X))
    for value in vars(again).values():
        for array in value if isinstance(value, list) else [value]:
            if isinstance(array, np.ndarray) and array.dtype.kind == "f":
                for table in counts:
                    rows = np.exp(np.atleast_2d(array))
                    same = [
                        np.allclose(row, table / table.sum(), rtol=1e-9)
                        for row in rows
                        if row.shape == table.shape
                    ]
                    assert not any(same)


def test_seeds():
    X, y = records()
    first, second, third = (made(random_state=s).fit(X, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.class_log_prior_, second.class_log_prior_)
    assert not np.array_equal(first.class_log_prior_, third.class_log_prior_)
    fresh = [made(random_state=None).fit(X, y).class_log_prior_ for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_only_counts_matter():
    X, y = records()
    order = np.random.default_rng(5).permutation(len(y))
    straight, mixed = made().fit(X, y), made().fit(X[order], y[order])
    np.testing.assert_array_equal(straight.predict_proba(X), mixed.predict_proba(X))


def test_there_is_no_partial_fit():
    model = made()
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="cannot be fitted further"):
        model.partial_fit(*records())


def test_cross_validation_works_on_copies():
    scores = cross_val_score(made(), *records(), scoring="neg_log_loss", cv=3)
    assert np.isfinite(scores).all()
    assert clone(made(alpha=None)).get_params()["target"] == Rdp(5, 1.0)


# Files.


def _saved():
    """Classifiers of every kind of schema, each with records that it can predict for."""
    X, y = records()
    table = frame()
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    truth = np.where(y == 1, "yes", "no")
    alike = {"classes": ["no", "yes"], "target": ApproxDP(1.0, 1e-5), "random_state": 3}
    return {
        "schema": (from_schema().fit(table, table["ill"]), table),
        "sizes": (made().fit(X, y), X),
        "one column": (PrivateNaiveBayes(Categories((0, 1, 2, 3)), **alike).fit(X, truth), X),
        "named": (PrivateNaiveBayes(Bins((0, 1, 4)), **alike).fit(named, truth), named),
        "paper": (made("dkl", orientation="paper").fit(X, y), X),
        "nothing measured": (made("gaussian", alpha=2.0, temperature=0.5).fit(X, y), X),
        "mixed classes": (made(classes=["a", 1, False]).fit(X, np.full(len(X), "a")), X),
    }


@pytest.mark.parametrize(
    "kind",
    ["schema", "sizes", "one column", "named", "paper", "nothing measured", "mixed classes"],
)
def test_a_saved_classifier_is_the_same(kind, tmp_path):
    model, X = _saved()[kind]
    model.save(tmp_path / "model.json")
    loaded = PrivateNaiveBayes.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(map(type, loaded.classes_)) == list(map(type, model.classes_))
    assert loaded.mechanism_ == model.mechanism_
    assert loaded.release_ == model.release_
    assert (loaded.n_records_, loaded.n_features_in_) == (model.n_records_, model.n_features_in_)
    assert hasattr(loaded, "feature_names_in_") == hasattr(model, "feature_names_in_")
    same = ["target", "mechanism", "shares", "orientation", "alpha", "temperature"]
    assert [getattr(loaded, name) for name in same] == [getattr(model, name) for name in same]
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_a_file_holds_no_seed_and_no_counts():
    """Whoever knows the seed can subtract the noise: what is loaded draws afresh."""
    X, y = records(n=5000)
    model = made(random_state=987_654_321).fit(X, y)
    text = json.dumps(model.to_dict())
    assert "987654321" not in text
    assert PrivateNaiveBayes.from_dict(json.loads(text)).random_state is None
    counts = {int((y == 0).sum()), int((y == 1).sum())}
    counts |= {
        int(((X[:, k] == v) & (y == j)).sum()) for k in (0, 1, 2) for v in (0, 1) for j in (0, 1)
    }
    assert len(counts) > 10
    numbers = {float(number) for number in re.findall(r"[-\d.e]+", text) if number.strip("-.e")}
    assert not counts & numbers


def test_without_privacy_the_file_says_so():
    model = made("none").fit(*records())
    data = model.to_dict()
    assert data["target"] is None
    assert data["spent"]["is_private"] is False
    loaded = PrivateNaiveBayes.from_dict(data)
    assert isinstance(loaded.release_, NoPrivacy)
    assert made().fit(*records()).to_dict()["spent"]["is_private"] is True
    for lie in (data["spent"] | {"is_private": True}, data["spent"] | {"mechanism": "gaussian"}):
        with pytest.raises(ValueError, match="is_private must be"):
            PrivateNaiveBayes.from_dict(data | {"spent": lie})
    with pytest.raises(ValueError, match="must be what was spent on"):
        PrivateNaiveBayes.from_dict(
            data | {"mechanism": "auto", "target": {"order": 2, "epsilon": 1}}
        )


def test_a_probability_of_zero_is_saved_too():
    model = made("gaussian").fit(*records())
    model.feature_log_prob_[1] = np.array([[0.0, -np.inf], [np.log(0.5), np.log(0.5)]])
    text = json.dumps(model.to_dict(), allow_nan=False)
    loaded = PrivateNaiveBayes.from_dict(json.loads(text))
    np.testing.assert_array_equal(loaded.feature_log_prob_[1], model.feature_log_prob_[1])


def test_what_is_not_fitted_or_changed_since_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        made().save(tmp_path / "model.json")
    for change in ({"mechanism": "dkl"}, {"orientation": "paper"}, {"schema": [3, 2, 5]}):
        model = made().fit(*records()).set_params(**change)
        with pytest.raises(ValueError, match="that it was fitted with"):
            model.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def _changed(data, path, value):
    """Return plain data with the entry at a path replaced; None takes it out."""
    key, *rest = path
    if rest:
        return data | {key: _changed(data[key], rest, value)}
    return {k: v for k, v in data.items() if k != key} if value is None else data | {key: value}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], 1, "format must be"),
        (["format"], None, "must have the entries"),
        (["more"], 1, "must have the entries"),
        (["schema"], {"columns": {}}, "columns must map"),
        (["schema"], {"edges": [1, 0]}, "increasing"),
        (["classes"], "size", "Categories"),
        (["classes"], "x", "classes must be the labels"),
        (["classes"], 5, "classes must be"),
        (["target"], {"epsilon": 1}, "target must have"),
        (["target"], {"order": 0.5, "epsilon": 1}, "order must be"),
        (["mechanism"], "exact", "mechanism must be one of"),
        (["orientation"], "paper", "orientation must be"),
        (["n_records"], 0, "n_records must be"),
        (["n_features"], 4, "n_features must be"),
        (["n_features"], 3.0, "n_features must be"),
        (["feature_names"], ["a"], "feature_names must be"),
        (["feature_names"], ["a", "b", 3], "feature_names must be"),
        (["measured_temperature"], "1", "measured_temperature must be"),
        (["measured_temperature"], 0, "measured_temperature must be"),
        (["class_log_prior"], [0.5, 1], "sum to 1"),
        (["class_log_prior"], [True, 1.0], "logarithms of shape"),
        (["class_log_prior"], "ab", "logarithms of shape"),
        (["class_log_prior"], [[-1], [-2, -3]], "logarithms of shape"),
        (["feature_log_prob"], [], "n_features must be 0"),
        (["feature_log_prob"], [[[0.0]]] * 3, "logarithms of shape"),
        (["spent", "relation"], "replace two", "relation must be"),
        (["spent", "sizes"], [1.0], "sizes must hold"),
        (["spent", "sizes"], 1.0, "sizes must be a list"),
        (["spent", "sizes"], ["a"], "sizes must be"),
        (["spent", "alpha"], -1, "alpha must be"),
        (["spent", "mechanism"], "exact", "mechanism must be one of"),
        (["spent", "mechanism"], None, "spent must have the entries"),
    ],
)
def test_a_file_that_is_no_classifier_is_refused(path, value, message):
    table = frame()
    data = from_schema().fit(table, table["ill"]).to_dict()
    with pytest.raises(ValueError, match=message):
        PrivateNaiveBayes.from_dict(_changed(data, path, value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must have the entries"),
        ('{"format": 1, "format": 1}', "'format' twice"),
        ('{"format": NaN}', "must be finite"),
        ("{", "model.json"),
    ],
)
def test_a_file_that_is_no_plain_data_is_refused(text, message, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        PrivateNaiveBayes.load(tmp_path / "model.json")


# Hostile data.

SCHEMA = Schema(
    {
        "colour": Categories(("red", "green", "blue")),
        "size": Bins((0.0, 1.0, 2.0, 5.0), missing=True),
        "town": Categories(("A", "B"), other=True),
        "ill": Categories(("no", "yes")),
    }
)


def frame(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "town": rng.choice(["A", "B", "C"], n),
            "noise": rng.random(n),
            "size": rng.choice([0.5, 1.5, np.nan, 77.0], n),
            "ill": rng.choice(["no", "yes"], n),
            "colour": rng.choice(["red", "green", "blue"], n),
        }
    )


def from_schema(**more):
    more = {"classes": "ill", "target": Rdp(2, 1.0), "random_state": 0} | more
    return PrivateNaiveBayes(SCHEMA, **more)


def test_a_frame_and_its_schema():
    """Columns are found by name; the class is no feature, and other columns are none either."""
    table = frame()
    model = from_schema().fit(table, table["ill"])
    assert [len(rows[0]) for rows in model.feature_log_prob_] == [3, 4, 3]
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 3
    without = table[["size", "town", "colour"]][
        table.columns.intersection(["town", "size", "colour"])
    ]
    np.testing.assert_array_equal(model.predict_proba(without), model.predict_proba(table))
    shuffled = from_schema().fit(table[["colour", "size", "town"]], table["ill"])
    np.testing.assert_array_equal(model.class_log_prior_, shuffled.class_log_prior_)


def test_unknown_and_missing_values_do_what_the_schema_says():
    table = frame()
    model = from_schema().fit(table, table["ill"])
    shapes = [rows.shape for rows in model.feature_log_prob_]
    table.loc[0, "town"] = "Z"  # other=True
    table.loc[1, "size"] = 1e300  # an outlier belongs to the last bin
    table["size"] = table["size"].where(np.arange(len(table)) > 5, -np.inf)
    again = from_schema().fit(table, table["ill"])
    assert [rows.shape for rows in again.feature_log_prob_] == shapes
    table.loc[0, "colour"] = "secret mauve"
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="'colour'") as caught:
        from_schema().fit(table, table["ill"], accountant=accountant)
    assert "mauve" not in str(caught.value)
    assert accountant.relation is None
    with pytest.raises(ValueError, match="'colour'"):
        model.predict(table)


def test_a_column_that_is_missing_throughout():
    table = frame().assign(size=np.nan)
    model = from_schema().fit(table, table["ill"])
    assert np.isfinite(model.predict_log_proba(table)).all()


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "none"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_class_without_records(mechanism, n):
    X, y = np.zeros((n, 3), int), np.zeros(n, int)
    model = made(mechanism, classes=[0, 1, 2]).fit(X, y)
    assert model.predict_proba(X).shape == (n, 3)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert model.n_records_ == n


@pytest.mark.parametrize(
    "pandas",
    [
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
        lambda y: pd.Series(y, dtype="boolean"),
        pd.Categorical,
        lambda y: pd.array(y, dtype="boolean"),
    ],
    ids=["Series", "category", "boolean", "Categorical", "array"],
)
def test_truth_values_as_pandas_keeps_them(pandas):
    """scikit-learn makes floats of categories and of nullable values."""
    X, y = records()
    model = made(classes=[False, True])
    plain = clone(model).fit(X, y == 1)
    np.testing.assert_array_equal(
        model.fit(X, pandas(y == 1)).class_log_prior_, plain.class_log_prior_
    )
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.predict(X).dtype == bool


@pytest.mark.parametrize("dtype", ["category", "boolean"])
def test_a_missing_truth_value_is_refused(dtype):
    X, _ = records(n=3)
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="unknown or missing"):
        made(classes=[False, True]).fit(
            X, pd.Series([True, None, False], dtype=dtype), accountant=accountant
        )
    assert accountant.relation is None


@pytest.mark.parametrize("labels", [["no", "maybe secret"], ["no", None], [0, 1], [0.5, 1.5]])
def test_other_labels_are_refused_and_cost_nothing(labels):
    table, accountant = frame(), RdpAccountant()
    y = pd.Series((labels * 30)[:60])
    with pytest.raises(ValueError, match=r"'y'|y must|label type|Unknown") as caught:
        from_schema().fit(table, y, accountant=accountant)
    assert "secret" not in str(caught.value)
    assert accountant.relation is None


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 0, 9]], "0 to 3 in column 2"),
        ([[0, -1, 0]], "0 to 1 in column 1"),
        ([[0.0, 0, 0]], "whole numbers"),
        ([[0, 0]], "3 features"),
        ([0, 0, 0], "two axes"),
        (np.zeros((0, 3), int), "0 sample"),
        ([["a", "b", "c"]], "whole numbers"),
    ],
)
def test_bad_records_are_refused_and_cost_nothing(X, message):
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=message):
        made().fit(X, [0] * len(X), accountant=accountant)
    assert accountant.relation is None


def test_a_code_outside_is_not_shown():
    with pytest.raises(ValueError, match="0 to 3 in column 2") as caught:
        made().fit([[0, 0, 987]], [0])
    assert "987" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "exact"}, "mechanism must be one of"),
        ({"shares": "mine"}, "shares must be one of"),
        ({"orientation": "rows"}, "orientation must be one of"),
        ({"orientation": "paper"}, "orientation must be 'values'"),
        ({"target": None}, "target must be"),
        ({"target": 1.0}, "target must be"),
        ({"alpha": 1.0}, "alpha must be None"),
        ({"alpha": -1.0, "mechanism": "gaussian"}, "alpha must be"),
        ({"temperature": 0.0}, "temperature must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": np.random.default_rng(0)}, "random_state must be"),
        ({"classes": [0]}, "at least two cells"),
        ({"classes": "ill"}, "classes must be the labels"),
        ({"classes": Categories((0, 1), other=True)}, "classes must all be known"),
        ({"schema": None}, "schema must be"),
        ({"schema": "3, 2, 4"}, "schema must be"),
        ({"schema": [3, 2, 1]}, "schema must be a whole number >= 2"),
    ],
)
def test_bad_parameters(change, message):
    model = made().set_params(**change)
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=message):
        model.fit(*records(), accountant=accountant)
    assert accountant.relation is None


def test_classes_keep_their_types():
    X, y = np.zeros((3, 3), int), np.array(["a", 1, "a"], object)
    model = made(classes=["a", 1]).fit(X, y)
    assert [type(label) for label in model.classes_] == [str, int]


def test_classes_must_be_a_column_of_categories():
    with pytest.raises(ValueError, match="must name a column of Categories"):
        from_schema(classes="size").fit(frame(), frame()["size"])


def test_one_column_for_all():
    """Of numbers in an array, of texts in a frame."""
    X, y = records()
    target = Rdp(5, 1.0)
    listed = PrivateNaiveBayes([4, 4, 4], classes=[0, 1], target=target, random_state=0).fit(X, y)
    for values, table in (
        ((0, 1, 2, 3), X),
        (("0", "1", "2", "3"), pd.DataFrame(X).astype(str).rename(columns=str)),
    ):
        alike = clone(listed).set_params(schema=Categories(values)).fit(table, y)
        np.testing.assert_array_equal(alike.predict_proba(table), listed.predict_proba(X))


def test_copies_and_pickles_of_a_model_with_a_schema():
    table = frame()
    model = from_schema().fit(table, table["ill"])
    for other in (clone(model).fit(table, table["ill"]), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))
