"""The private naive Bayes classifier: what it promises to scikit-learn, and what to people."""

import json
import pickle
import re
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from forks import forked, needs_forks
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    get_scorer,
    make_scorer,
    recall_score,
)
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_score
from sklearn.naive_bayes import CategoricalNB

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.base import NoPrivacy
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms import DirichletMechanism, TablesMechanism
from privrl.mechanisms.tables import ReleasedTable, least_noise_shares
from privrl.models import PrivateClassifier, PrivateLogisticRegression
from privrl.models.encoding import count_tables, encode_numbers
from privrl.models.naive_bayes import temperature as measuring
from privrl.models.naive_bayes.classifier import PrintedNaiveBayes, PrivateNaiveBayes
from privrl.models.naive_bayes.temperature import (
    SHAPES,
    TEMPERATURES,
    derivative_tables,
    least_loss,
    typical_temperature,
)

CLONES = pytest.mark.filterwarnings("ignore:a clone of a private model is fitted:UserWarning")
MECHANISMS = ["auto", "dirichlet", "dkl", "gaussian", "laplace"]
SIZES = [3, 2, 4]


def made(mechanism="auto", target=None, **more):
    target = RenyiDP(5, 1.0) if target is None else target
    more = {"classes": [0, 1], "random_state": 0} | more
    return PrivateNaiveBayes(SIZES, target=target, mechanism=mechanism, **more)


def printed(**more):
    more = {
        "classes": [0, 1],
        "random_state": 0,
        "target": RenyiDP(5, 1.0),
        "mechanism": "dkl",
    } | more
    return PrintedNaiveBayes(SIZES, **more)


def records(n=500, seed=0, copies=1):
    """Features that depend on the class; with copies of each, naive Bayes is too sure."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    told = rng.random((n, len(SIZES))) < 0.4
    X = np.where(told, y[:, None] * (np.array(SIZES) - 1), rng.integers(0, SIZES, (n, 3)))
    return np.tile(X, (1, copies)), y


def loss(model, X, y):
    return -model.predict_log_proba(X)[np.arange(len(y)), y].mean()


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
    assert isinstance(ours.cost_, NoPrivacy)


@pytest.mark.few(12)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("target", [RenyiDP(5, 1.0), ApproxDP(1.0, 1e-5)], ids=str)
def test_what_is_spent_meets_the_target_and_is_told(mechanism, target):
    accountant = RdpAccountant(orders=[2, 5, 30])
    model = made(mechanism, target).fit(*records(), accountant=accountant)
    # Sums of the tables' divergences, in another order.
    np.testing.assert_allclose(accountant.rdp, model.cost_.rdp(accountant.orders), rtol=1e-12)
    assert str(model.cost_.relation) == "replace one record"
    if isinstance(target, RenyiDP):
        spent = float(model.cost_.rdp(5.0))
        assert spent <= 1.0
        assert mechanism == "dkl" or spent > 0.999
    else:
        assert float(model.cost_.delta(1.0)) <= 1e-5
    model.fit(*records(), accountant=accountant)
    np.testing.assert_allclose(accountant.rdp, 2 * model.cost_.rdp(accountant.orders))


@pytest.mark.few(6)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_over_budget_nothing_is_learned(mechanism):
    poor = RdpAccountant(budget=RenyiDP(5, 0.1))
    model = made(mechanism)
    with pytest.raises(BudgetExceeded):
        model.fit(*records(), accountant=poor)
    assert not poor.rdp.any()
    with pytest.raises(NotFittedError):
        model.predict(records()[0])


def test_what_measures_the_temperature_is_paid_for_too():
    accountant = RdpAccountant(budget=RenyiDP(5, 1.0))
    model = made().fit(*records(), accountant=accountant)
    assert len(model.mechanism_.sizes) == 1 + len(SIZES) + len(TEMPERATURES)
    by_hand = 2.5 * sum(2 / sigma**2 for sigma in model.mechanism_.sizes)
    assert by_hand == pytest.approx(1, rel=1e-6)
    assert float(accountant.spent(5)) == pytest.approx(by_hand, rel=1e-6)
    assert float(model.cost_.rdp(5)) == pytest.approx(by_hand, rel=1e-6)


def test_over_budget_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(TablesMechanism, "_draw", lambda *_: pytest.fail("there was a draw"))
    with pytest.raises(BudgetExceeded):
        made().fit(*records(), accountant=RdpAccountant(budget=RenyiDP(5, 0.1)))


def test_the_settings_are_the_ones_promised():
    X, y = records()
    shapes = [(1, 2), (2, 3), (2, 2), (2, 4)]
    one = DirichletMechanism.algorithm_1(RenyiDP(5, 1.0), count=4)
    dkl = made("dkl").fit(X, y).mechanism_
    assert (dkl.mechanism, dkl.sizes, dkl.alpha) == ("dirichlet", (one.weight,) * 4, one.alpha)
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


def test_rows_as_the_paper_prints_them(tmp_path):
    X, y = records()
    model = printed().fit(X, y)
    assert model.mechanism_.shapes == ((1, 2), (3, 2), (2, 2), (4, 2))
    for table in model.feature_log_prob_:
        np.testing.assert_allclose(np.exp(table).sum(axis=0), 1)
    for table in made("dkl").fit(X, y).feature_log_prob_:
        np.testing.assert_allclose(np.exp(table).sum(axis=1), 1)
    with pytest.raises(ValueError, match="is not saved"):
        model.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="mechanism must be 'dkl'"):
        printed(mechanism="dirichlet").fit(X, y)


def test_without_noise_the_temperature_is_the_best_one():
    """Against a search on the training loss; 1/8 apart in logarithms, that being interpolated."""
    X, y = records(n=5000, copies=4)
    model = PrivateNaiveBayes(
        SIZES * 4, classes=[0, 1], target=RenyiDP(2, 1e9), random_state=0
    ).fit(X, y)

    def loss_at(log_temperature):
        model.temperature_ = np.exp(log_temperature)
        return loss(model, X, y)

    chosen = model.temperature_
    best = minimize_scalar(loss_at, bounds=(np.log(1 / 8), np.log(2)), method="bounded").x
    assert np.log(chosen) == pytest.approx(best, abs=0.125)
    assert 0.15 < chosen < 0.5  # four copies of everything: about a quarter


def test_independent_features_have_a_temperature_above_1():
    """Classes by logistic regression on eight coins: each alone shows less than its weight.

    A quarter less loss than at 1 on records that were not fitted.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (20_000, 8))
    y = (rng.logistic(size=len(X)) < 3 * (2 * X - 1).sum(axis=1)).astype(int)
    model = PrivateNaiveBayes([2] * 8, classes=[0, 1], target=RenyiDP(2, 1.0), random_state=0).fit(
        X[:10_000], y[:10_000]
    )
    assert 1.5 < model.temperature_ <= 2
    at_one = model.with_temperature(1.0)
    assert loss(model, X[10_000:], y[10_000:]) < 0.75 * loss(at_one, X[10_000:], y[10_000:])


@pytest.mark.parametrize("true", [True, False])
def test_the_measured_sums_are_the_loss_s_derivatives(true):
    """Central differences of each record's loss, in halves of what is clipped to [-2, 2].

    Of the classes that there are and of the others, whose losses rise with the temperature. Each
    of 50 parts is rounded to whole 1/32.
    """
    X, y = records(n=50)
    model = made("none", temperature=1.0).fit(X, y)
    labels = y if true else 1 - y
    ratios = sum(table[:, X[:, k]] for k, table in enumerate(model.feature_log_prob_))
    tables = derivative_tables(model.class_log_prior_, ratios, labels)

    def losses(temperature):
        model.temperature_ = temperature
        return -model.predict_log_proba(X)[np.arange(len(y)), labels]

    for temperature, table in zip(TEMPERATURES, tables, strict=True):
        step = 1e-5
        each = (losses(temperature * np.exp(step)) - losses(temperature * np.exp(-step))) / 2 / step
        assert (np.abs(each) < 2).sum() > 10
        assert table.sum() == 50
        right = np.clip(each, -2, 2).sum() / 2
        assert table[0, 0] - table[0, 1] == pytest.approx(right, abs=0.5 * 50 / 32)
    assert true or right > 3  # at the last one, so that a factor would be seen


INFINITE = st.sampled_from(
    [-np.inf, np.inf, np.nan, -1e308, 1e308, -800.0, -1.0, -0.0, 0.5, 5e-324]
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 5))
def test_one_record_changes_the_measured_sums_by_at_most_one(data, n_classes, n):
    """Of any logarithms, infinite ones and what is no number too; and no warning tells of them."""
    numbers = st.floats() | INFINITE
    prior = data.draw(arrays(float, n_classes, elements=numbers))
    ratios = data.draw(arrays(float, (n_classes, n), elements=numbers))
    labels = data.draw(arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    before = derivative_tables(prior, ratios, labels)
    i = data.draw(st.integers(0, n - 1))
    ratios[:, i] = data.draw(arrays(float, n_classes, elements=numbers))
    labels[i] = data.draw(st.integers(0, n_classes - 1))
    after = derivative_tables(prior, ratios, labels)
    assert [table.shape for table in before] == list(SHAPES)
    for one, other in zip(before, after, strict=True):
        assert (one >= 0).all()
        assert one.sum() == n
        change = (other - one).ravel()
        assert -1 <= change[0] == -change[1] <= 1
        assert (64 * one == np.rint(64 * one)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_s_part_is_its_own(n_classes, monkeypatch):
    """To the last bit, whatever stands beside it: else one record would change those of others."""
    parts = []
    monkeypatch.setattr(measuring, "_rounded", lambda each: parts.append(each.copy()) or 0.0)
    rng = np.random.default_rng(5)
    prior = np.log(rng.dirichlet(np.ones(n_classes)))
    ratios, labels = rng.normal(0, 3, (n_classes, 64)), rng.integers(0, n_classes, 64)
    derivative_tables(prior, ratios, labels)
    before = np.delete(parts, 7, axis=1)
    for wrong in (np.inf, np.nan, 1e305):
        parts.clear()
        ratios[0, 7] = wrong
        derivative_tables(prior, ratios, labels)
        np.testing.assert_array_equal(np.delete(parts, 7, axis=1), before)


@pytest.mark.slow
def test_infinite_logarithms_are_limits():
    """Every place of infinities in two classes: as large numbers have it, where they agree.

    Large ones of the prior above those of the ratios and below, of one class above the other.
    """
    values = (-np.inf, -1.0, 0.5, np.inf)
    n_infinite = 0
    for *logs, label in product(values, values, values, values, (0, 1)):
        place = np.array(logs)
        found = set()
        for sizes in product((1e6, 1e8), (2e6, 3e8), (4e6, 5e8), (7e6, 9e8)):
            finite = np.where(np.isinf(place), np.sign(place) * sizes, place)
            found.add(_derivatives(finite, label))
        if len(found) == 1:
            n_infinite += np.isinf(place).any()
            assert _derivatives(place, label) in found
    assert n_infinite > 200


def _derivatives(logs, label):
    tables = derivative_tables(logs[:2], logs[2:, None], np.array([label]))
    return tuple(table[0, 0] for table in tables)


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
        return least_loss(sums, 1000, 0.5**0.5, 0.0)

    found = [chosen(deviation) for deviation in (0.0, 10.0, 1000.0, 1e6)]
    assert found[0] == pytest.approx(0.25, rel=0.03)
    assert found == sorted(found)
    assert 0.25 < found[2] < found[3]
    assert found[3] == pytest.approx(0.5**0.5, rel=0.03)


def test_many_free_numbers_lower_the_temperature():
    """A quarter of a nat for each is added to a loss of which log 4 t times 0.4 is the slope."""
    halves = 500 + 100 * np.log(4 * np.array(TEMPERATURES))
    sums = [ReleasedTable(np.array([[half, 1000 - half]]), "gaussian", 0.0) for half in halves]
    found = least_loss(sums, 1000, 1.0, 400.0)
    zero = minimize_scalar(
        lambda t: 0.2 * np.log(4 * t) ** 2 + 0.25 * 0.4 * t, bounds=(0.1, 1), method="bounded"
    ).x
    assert found == pytest.approx(zero, rel=0.05)


def test_derivatives_that_noise_makes_fall_are_levelled():
    """The loss is convex: what is measured at 1/8 must not outweigh all that is measured above.

    The numbers say that the loss falls as far as 2, but for the least temperature.
    """
    halves = 500 + np.array([400.0, -40, -40, -40, -40])
    sums = [ReleasedTable(np.array([[half, 1000 - half]]), "gaussian", 1.0) for half in halves]
    assert least_loss(sums, 1000, 1.0, 0.0) == pytest.approx(2.0, rel=0.03)


def test_few_records_and_a_small_budget_measure_nothing():
    """A public choice: by the number of records and the target alone."""
    small = made(target=RenyiDP(5, 0.01)).fit(*records(n=100))
    assert small.temperature_ == typical_temperature(3) == 1.0
    wide = PrivateNaiveBayes([2] * 40, classes=[0, 1], target=RenyiDP(5, 0.01), random_state=0)
    X, y = records(n=100)
    assert wide.fit(np.tile(X[:, 1:2], 40), y).temperature_ == typical_temperature(40) == 0.5
    assert len(small.mechanism_.shapes) == 4
    assert float(small.cost_.rdp(5.0)) == pytest.approx(0.01)
    assert len(made(target=RenyiDP(5, 0.01)).fit(*records(n=20_000)).mechanism_.shapes) == 9
    assert made(temperature=0.7).fit(*records()).temperature_ == 0.7
    assert made("gaussian").fit(*records()).temperature_ == 1.0


@pytest.mark.few(3)
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
                target=RenyiDP(5, epsilon),
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


@pytest.mark.few(6)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_smallest_budget_is_no_worse_than_a_guess_under_auto_and_no_error_elsewhere(mechanism):
    X, y = records(n=200)
    model = made(mechanism, RenyiDP(5, 1e-6)).fit(X, y)
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


@pytest.mark.slow
def test_a_replaced_record_changes_every_table_as_paid_for(monkeypatch):
    """All neighbours of a data set of three records, by brute force.

    Everything drawn comes from tables that one record changes by (+1, −1) at most, with the noise
    of the mechanism that was paid for; and which one that is does not depend on the data.
    """
    target = RenyiDP(5, 1e4)  # so that the temperature is measured
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


def test_nothing_of_the_records_is_kept():
    """A pickle is as large for a hundred times the records, and holds no exact count."""
    # The first model of a process shares one more object between its parts than later ones do.
    _, *models = [made().fit(*records(n)) for n in (500, 500, 50_000)]
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


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression, PrivateClassifier])
def test_each_fit_of_a_clone_says_that_it_costs(kind):
    X, y = records(200)
    model = kind(SIZES, classes=[0, 1], target=RenyiDP(5, 1.0), random_state=0)
    model.fit(X, y)  # no warning, which would be an error here
    copy = clone(model)
    with pytest.warns(UserWarning, match="each fit is a release of its own") as said:
        copy.fit(X, y)
    assert len(said) == 1
    with pytest.warns(UserWarning, match="costs the whole target again") as said:
        cross_val_score(model, X, y, cv=3)
    assert len(said) == 3
    with pytest.warns(UserWarning, match="a clone of a private model"):
        pickle.loads(pickle.dumps(clone(model))).fit(X, y)  # as for another process
    with pytest.warns(UserWarning, match="select_private"):  # which no accountant replaces
        copy.fit(X, y, accountant=RdpAccountant(budget=RenyiDP(5, 10.0)))


@needs_forks
@CLONES
def test_a_fold_that_is_fitted_in_another_process_is_paid_for():
    """As n_jobs does: an accountant there is a copy, which nobody here would hear of."""
    X, y = records(200)
    model, sent = made(), pickle.dumps(RdpAccountant())
    error = forked(lambda: clone(model).fit(X, y, accountant=pickle.loads(sent)))
    assert "Ledger().accountant" in str(error)


def test_without_privacy_clones_cost_nothing():
    clone(made("none", None)).fit(*records(200))


def test_another_temperature_is_the_same_release():
    X, y = records()
    model = made().fit(X, y)
    before = model.predict_proba(X)
    other = model.with_temperature(0.5)
    assert (other.temperature, other.temperature_) == (0.5, 0.5)
    assert other.cost_ is model.cost_
    sums = (model.predict_joint_log_proba(X) - model.class_log_prior_) / model.temperature_
    expected = model.class_log_prior_ + 0.5 * sums
    np.testing.assert_allclose(other.predict_joint_log_proba(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    again = PrivateNaiveBayes.from_dict(other.to_dict())
    np.testing.assert_array_equal(again.predict_proba(X), other.predict_proba(X))


def test_another_temperature_is_checked():
    with pytest.raises(NotFittedError):
        made().with_temperature(0.5)
    with pytest.raises(ValueError, match="temperature must be a number > 0"):
        made().fit(*records(200)).with_temperature(0.0)


@CLONES
def test_cross_validation_works_on_copies():
    scores = cross_val_score(made(), *records(), scoring="neg_log_loss", cv=3)
    assert np.isfinite(scores).all()
    assert clone(made(alpha=None)).get_params()["target"] == RenyiDP(5, 1.0)


# scikit-learn takes classes_ as sorted: the second is positive, and scores are in its order.

LABELS = [
    ("no", "yes"),
    (0, 1),
    (-1, 1),
    (False, True),
    (10, 9),
    (">50K", "<=50K"),
    ("b", "a", "C"),
]
LABELS += [(3, 1, 2), ("2", "10", "1")]
ORDERS = [order for labels in LABELS for order in permutations(labels)]


def labelled(classes, seed=0):
    """Records of two or three classes; the first in sorted order has low values."""
    X, y = records(900, seed)
    if len(classes) == 3:
        y = y + (X[:, 0] == 2) * (X[:, 2] == 3) * (np.arange(900) % 2)
    return X, np.array(sorted(classes))[y]


def binary_auc(scores, is_positive):
    """The chance that a positive record's score is above a negative one's, by all pairs."""
    above = np.sign(scores[is_positive][:, None] - scores[~is_positive])
    return (above.mean() + 1) / 2


@pytest.mark.few(12)
@pytest.mark.parametrize("classes", ORDERS, ids=repr)
def test_classes_in_every_order(classes):
    """The same model, whichever is stated first; and what scores it agrees with all pairs."""
    X, y = labelled(classes)
    model = made(classes=classes).fit(X, y)
    assert model.classes_.tolist() == sorted(classes)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    same = made(classes=sorted(classes)).fit(X, y)
    chances = model.predict_proba(X)
    np.testing.assert_array_equal(chances, same.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])
    assert model.score(X, y) > 0.75
    known = chances[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert get_scorer("neg_log_loss")(model, X, y) == pytest.approx(np.log(known).mean())
    aucs = [binary_auc(chances[:, j], y == label) for j, label in enumerate(model.classes_)]
    assert min(aucs) > 0.7
    assert get_scorer("roc_auc_ovr")(model, X, y) == pytest.approx(np.mean(aucs))
    again = PrivateNaiveBayes.from_dict(json.loads(json.dumps(model.to_dict())))
    np.testing.assert_array_equal(again.predict_proba(X), chances)
    np.testing.assert_array_equal(again.classes_, model.classes_)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [each for each in ORDERS if len(each) == 2], ids=repr)
def test_two_classes_are_scored_calibrated_and_cut_alike(classes):
    X, y = labelled(classes)
    other_X, other_y = labelled(classes, seed=1)
    model = made(classes=classes).fit(X, y)
    positive = max(classes)
    score = model.predict_proba(other_X)[:, 1]
    auc = get_scorer("roc_auc")(model, other_X, other_y)
    assert auc == pytest.approx(binary_auc(score, other_y == positive))
    assert auc > 0.8
    brier = make_scorer(brier_score_loss, response_method="predict_proba", pos_label=positive)
    squared = ((other_y == positive) - score) ** 2
    assert brier(model, other_X, other_y) == pytest.approx(squared.mean())
    average = make_scorer(
        average_precision_score, response_method="predict_proba", pos_label=positive
    )
    assert average(model, other_X, other_y) > 1.5 * (other_y == positive).mean()
    exact = made("none", classes=classes)  # no noise to be calibrated in every fold
    calibrated = CalibratedClassifierCV(exact, cv=3).fit(X, y)
    assert calibrated.classes_.tolist() == sorted(classes)
    assert get_scorer("roc_auc")(calibrated, other_X, other_y) > 0.8
    assert get_scorer("neg_log_loss")(calibrated, other_X, other_y) > -0.55
    recall = make_scorer(recall_score, pos_label=positive)
    cut = TunedThresholdClassifierCV(exact, scoring=recall, cv=3).fit(X, y)
    assert recall(cut, other_X, other_y) > 0.9 > recall(model, other_X, other_y)


@pytest.mark.few(9)
@CLONES
@pytest.mark.parametrize("classes", [("no", "yes"), ("yes", "no"), (1, 0)], ids=repr)
def test_a_grid_search_prefers_the_larger_budget(classes):
    X, y = labelled(classes)
    targets = [RenyiDP(5, 1e-5), RenyiDP(5, 1.0)]
    search = GridSearchCV(made(classes=classes), {"target": targets}, scoring="roc_auc", cv=3)
    assert search.fit(X, y).best_params_ == {"target": targets[1]}


def test_classes_of_several_kinds_keep_their_columns():
    """Which scikit-learn cannot compare: numbers and truth values stand before texts."""
    X, y = labelled(("no", "yes", "z"))
    for labels in permutations(["b", 7, False]):
        names = dict(zip(("no", "yes", "z"), ("b", 7, False), strict=True))
        kinds = np.array([names[each] for each in y], object)
        model = made(classes=labels).fit(X, kinds)
        assert model.classes_.tolist() == [False, 7, "b"]
        assert (model.predict(X) == kinds).mean() > 0.7
        again = PrivateNaiveBayes.from_dict(json.loads(json.dumps(model.to_dict())))
        assert [type(each) for each in again.classes_] == [bool, int, str]
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_file_has_the_classes_as_they_are_stated():
    """As files written before classes_ were sorted have them: those read as they did."""
    X, y = labelled(("no", "yes"))
    data = made(classes=["yes", "no"]).fit(X, y).to_dict()
    swapped = made(classes=["no", "yes"]).fit(X, y).to_dict()
    assert data["classes"] == ["yes", "no"]
    assert data["class_log_prior"] == swapped["class_log_prior"][::-1]
    assert data["feature_log_prob"] == [table[::-1] for table in swapped["feature_log_prob"]]
    table = frame()
    schema = Schema(dict(SCHEMA.columns) | {"ill": Categories(("yes", "no"))})
    model = from_schema().set_params(schema=schema).fit(table, table["ill"])
    assert model.classes_.tolist() == ["no", "yes"]
    again = PrivateNaiveBayes.from_dict(model.to_dict())
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))


def test_texts_that_numpy_cuts_short_are_two_classes():
    model = made(classes=["a\0", "a"]).fit(*records()[:1], y=["a\0", "a"] * 250)
    assert model.classes_.tolist() == ["a", "a\0"]


def test_a_failed_fit_leaves_everything_as_it_was():
    """Neither the number of features nor their names tell how far it came."""
    X, y = records()
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    for fit in (
        lambda model: model.fit(named, [5, *y[1:]]),
        lambda model: model.fit([[77, 0, 0], *X[1:].tolist()], y),
        lambda model: model.fit(named, y, accountant=RdpAccountant(budget=RenyiDP(5, 0.1))),
    ):
        model = made()
        with pytest.raises(ValueError, match=r"y must|X must|budget"):
            fit(model)
        assert set(vars(model)) == set(model.get_params())
        model.fit(X, y)
        before = dict(vars(model))
        with pytest.raises(ValueError, match=r"y must|X must|budget"):
            fit(model)
        assert vars(model) == before
    named_model = made().fit(named, y)
    assert not hasattr(named_model.fit(X, y), "feature_names_in_")


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
        "nothing measured": (made("gaussian", alpha=2.0, temperature=0.5).fit(X, y), X),
        "mixed classes": (made(classes=["a", 1, False]).fit(X, np.full(len(X), "a", object)), X),
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "kind",
    ["schema", "sizes", "one column", "named", "nothing measured", "mixed classes"],
)
def test_a_saved_classifier_is_the_same(kind, tmp_path):
    model, X = _saved()[kind]
    model.save(tmp_path / "model.json")
    loaded = PrivateNaiveBayes.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(map(type, loaded.classes_)) == list(map(type, model.classes_))
    assert loaded.mechanism_ == model.mechanism_
    assert loaded.cost_ == model.cost_
    assert (loaded.n_records_, loaded.n_features_in_) == (model.n_records_, model.n_features_in_)
    assert hasattr(loaded, "feature_names_in_") == hasattr(model, "feature_names_in_")
    same = ["target", "mechanism", "shares", "alpha", "temperature"]
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
    assert isinstance(loaded.cost_, NoPrivacy)
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
    for change in ({"mechanism": "dkl"}, {"schema": [3, 2, 5]}):
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
        (["target"], {"epsilon": 1, "rho": 1}, "target must have"),
        (["target"], {"order": 0.5, "epsilon": 1}, "order must be"),
        (["mechanism"], "exact", "mechanism must be one of"),
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
    more = {"classes": "ill", "target": RenyiDP(2, 1.0), "random_state": 0} | more
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
    with pytest.warns(UserWarning, match="'size' is in the cell of missing values"):
        model = from_schema().fit(table, table["ill"])
    assert np.isfinite(model.predict_log_proba(table)).all()


@pytest.mark.few(3)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "none"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_class_without_records(mechanism, n):
    X, y = np.zeros((n, 3), int), np.zeros(n, int)
    model = made(mechanism, classes=[0, 1, 2]).fit(X, y)
    assert model.predict_proba(X).shape == (n, 3)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert model.n_records_ == n


@CLONES
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
        ([[0.5, 0, 0]], "whole numbers"),
        (np.array([["0", "0", "0"]]), "whole numbers, got type str_"),
        (np.zeros((1, 3), bool), "whole numbers, got type bool"),
        ([[0, 0, 0], [0, 0]], "as many entries"),
        (np.ma.zeros((1, 3), int), "masked"),
        ({"a": [0]}, "list of rows, got dict"),
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


@pytest.mark.parametrize("make", [PrivateNaiveBayes, PrivateLogisticRegression])
@pytest.mark.parametrize("size", [5, 128, 129, 256, 300, 40_000, 70_000])
def test_numbers_of_any_type_are_cells_or_refused(make, size):
    """A negative number of a small type, read as one without a sign, is a cell of many."""
    for dtype in [f"{order}{sign}{n}" for order in "<>" for sign in "iu" for n in (1, 2, 4, 8)]:
        ends = np.iinfo(dtype)
        for number in {-1, -2, 0, size - 1, size, int(ends.min), int(ends.max)}:
            if not ends.min <= number <= ends.max:
                continue
            accountant = RdpAccountant()
            X = np.array([[1, 0], [1, number]], dtype)
            model = make([5, size], classes=[0, 1], epsilon=1.0, delta=1e-5)
            if 0 <= number < size:
                assert (encode_numbers(X, (5, size)) == X.T.astype(np.int64)).all()
            else:
                with pytest.raises(ValueError, match=f"0 to {size - 1} in column 1"):
                    model.fit(X, [0, 1], accountant=accountant)
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
    assert model.classes_.tolist() == [1, "a"]
    assert [type(label) for label in model.classes_] == [int, str]
    assert list(map(type, made(classes=[2, False, "a"]).fit(X, y[[0, 0, 0]]).classes_)) == [
        bool, int, str,
    ]  # fmt: skip


def test_classes_must_be_a_column_of_categories():
    with pytest.raises(ValueError, match="must name a column of Categories"):
        from_schema(classes="size").fit(frame(), frame()["size"])


@CLONES
def test_one_column_for_all():
    """Of numbers in an array, of texts in a frame."""
    X, y = records()
    target = RenyiDP(5, 1.0)
    listed = PrivateNaiveBayes([4, 4, 4], classes=[0, 1], target=target, random_state=0).fit(X, y)
    for values, table in (
        ((0, 1, 2, 3), X),
        (("0", "1", "2", "3"), pd.DataFrame(X).astype(str).rename(columns=str)),
    ):
        alike = clone(listed).set_params(schema=Categories(values)).fit(table, y)
        np.testing.assert_array_equal(alike.predict_proba(table), listed.predict_proba(X))


@pytest.mark.parametrize("sizes", [[], [3], [2, 5], [3, 2, 4], [3000, 2, 3], [2, 3000, 2, 2]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_counts_are_those_of_each_feature_alone(sizes, n_classes):
    rng = np.random.default_rng(len(sizes))
    columns = [rng.integers(size, size=200) for size in sizes]
    numbers = rng.integers(n_classes, size=200)
    counts = count_tables(np.array(columns, int), numbers, sizes, n_classes)
    np.testing.assert_array_equal(counts[0], [np.bincount(numbers, minlength=n_classes)])
    assert len(counts) == 1 + len(sizes)
    for column, size, table in zip(columns, sizes, counts[1:], strict=True):
        alone = np.zeros((n_classes, size))
        np.add.at(alone, (numbers, column), 1)
        np.testing.assert_array_equal(table, alone)


@CLONES
def test_copies_and_pickles_of_a_model_with_a_schema():
    table = frame()
    model = from_schema().fit(table, table["ill"])
    for other in (clone(model).fit(table, table["ill"]), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))


def test_files_have_the_classes_as_they_are_stated():
    """And `classes_` sorted, as scikit-learn wants them."""
    x, y = np.zeros((3000, 1), int), np.repeat(["zebra", "ant"], [2500, 500])
    model = PrivateNaiveBayes(
        [2], classes=["zebra", "ant"], target=ApproxDP(1.0, 1e-5), random_state=0
    ).fit(x, y)
    said = model.to_dict()
    assert said["classes"] == ["zebra", "ant"]
    assert said["class_log_prior"][0] > said["class_log_prior"][1]
    assert model.classes_.tolist() == ["ant", "zebra"]
    assert model.class_log_prior_[0] < model.class_log_prior_[1]
