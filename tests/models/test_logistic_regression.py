"""Private logistic regression: what it promises to scikit-learn, and what to people."""

import copy
import json
import math
import os
import pickle
from fractions import Fraction
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import AddRemoveRecord, GaussianCost
from privrl.costs.base import Together
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms import SumsMechanism, TablesMechanism
from privrl.models import PrivateClassifier, PrivateLogisticRegression, PrivateNaiveBayes
from privrl.models.logistic_regression import scores, slopes
from privrl.models.logistic_regression.choice import classifier_from_dict, load_classifier
from privrl.models.logistic_regression.plan import TUNED, Steps, plan, plan_tables, whole_sigma
from privrl.models.logistic_regression.scores import weigh
from privrl.models.logistic_regression.slopes import shortened_products
from privrl.models.logistic_regression.training import Start
from privrl.models.naive_bayes.classifier import PrintedNaiveBayes
from privrl.numerics.randomness import SECRET, SEEDED

SIZES = [3, 2, 4]
TARGET = ApproxDP(4.0, 1e-5)

CLONES = pytest.mark.filterwarnings("ignore:a clone of a private model is fitted:UserWarning")


def made(target=TARGET, **more):
    more = {"classes": [0, 1], "random_state": 0} | more
    return PrivateLogisticRegression(SIZES, target=target, **more)


def records(n=2000, seed=0):
    """Features that depend on the class."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    told = rng.random((n, len(SIZES))) < 0.4
    X = np.where(told, y[:, None] * (np.array(SIZES) - 1), rng.integers(0, SIZES, (n, 3)))
    return X, y


def loss(model, X, y):
    return -model.predict_log_proba(X)[np.arange(len(y)), y].mean()


@pytest.mark.few(6)
@pytest.mark.parametrize("target", [TARGET, RenyiDP(5, 1.0)], ids=str)
def test_what_is_spent_meets_the_target_and_is_told(target):
    accountant = RdpAccountant(orders=[2, 5, 30])
    model = made(target).fit(*records(), accountant=accountant)
    np.testing.assert_allclose(accountant.rdp, model.cost_.rdp(accountant.orders), rtol=1e-12)
    assert str(model.cost_.relation) == "replace one record"
    assert model.n_steps_ > 0
    if isinstance(target, RenyiDP):
        assert 0.999 < float(model.cost_.rdp(5.0)) <= 1.0
    else:
        assert 0.999e-5 < float(model.cost_.delta(4.0)) <= 1e-5


@pytest.mark.few(6)
@pytest.mark.parametrize("sloped", [False, True])
def test_the_cost_is_of_tables_and_of_all_gradients(monkeypatch, sloped):
    """Precisions add up: of every table and every gradient."""
    drawn = []
    draw = SumsMechanism._draw

    def watched(self, data, rng):
        drawn.append(self.sigma)
        return draw(self, data, rng)

    monkeypatch.setattr(SumsMechanism, "_draw", watched)
    model = ordered(0.3).fit(*slanted(400)) if sloped else made().fit(*records())
    assert len(drawn) == model.n_steps_ > 0
    tables = model.naive_bayes_.mechanism_.sizes
    by_hand = sum(sigma**-2.0 for sigma in [*drawn, *tables]) ** -0.5
    assert model.cost_.sigma == pytest.approx(by_hand, rel=1e-9)
    assert model.cost_.sigma <= by_hand


def slanted(n, seed=0):
    """Return records of 12 features between 0 and 1, and classes that depend on their mean."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1)) * 0.6 + rng.random((n, 12)) * 0.4
    return X, (rng.random(n) < 1 / (1 + np.exp(-20 * (X.mean(axis=1) - 0.5)))).astype(int)


def ordered(epsilon, seed=0, **domain):
    domain = domain or {"bounds": (0, 1), "bins": 10}
    target = ApproxDP(epsilon, 1e-5)
    return PrivateLogisticRegression(classes=[0, 1], target=target, random_state=seed, **domain)


@pytest.mark.parametrize(("epsilon", "summed"), [(0.3, "products"), (4.0, "sums")])
def test_what_a_record_adds_does_not_depend_on_its_place(monkeypatch, epsilon, summed):
    """To the bit: a product of matrices may round a row by where it is."""
    seen = []

    def watch(module, name, places):
        summed = getattr(module, name)

        def watched(*args):
            seen.append([np.moveaxis(args[at], axis, 0).copy() for at, axis in places])
            return summed(*args)

        monkeypatch.setattr(module, name, watched)

    if summed == "products":
        watch(slopes, "shortened_products", [(0, 0), (1, 0)])
    else:
        watch(scores, "shortened_sums", [(0, 1)])
    X, y = slanted(1007)
    found = []
    for _ in range(2):
        seen.clear()
        ordered(epsilon).fit(X, y)
        found.append(list(seen))
        X, y = np.roll(X, 7, axis=0), np.roll(y, 7)
    first, second = found
    assert first
    for before, after in zip(first, second, strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(np.roll(one, 7, axis=0), other)


@pytest.mark.parametrize("n_features", [3, 5000])
def test_the_cost_of_many_tables_is_not_rounded_down(n_features):
    sigma = 3.0
    planned = plan(sigma, 20_000, (8,) * n_features, 2, has_tables=False)
    sizes = [69.0] * n_features  # one that added up one after the other fall short
    cost = planned.cost(SimpleNamespace(sizes=sizes))
    spent = sum(Fraction(size) ** -2 for size in sizes)
    for steps in (planned.scores, planned.weights, planned.multiples):
        spent += steps.number * Fraction(steps.mechanism.sigma) ** -2
    assert Fraction(cost.sigma) ** -2 >= spent


@pytest.mark.slow
def test_the_order_of_bins_is_used():
    """The same records by numbers of cells, which have no order, are predicted worse."""
    losses = []
    for seed in range(3):
        (X, y), (new, truth) = slanted(400, seed), slanted(2000, seed + 10)
        sloped = ordered(0.4, seed).fit(X, y)
        cells = ordered(0.4, seed, schema=[10] * 12).fit((X * 10).astype(int), y)
        losses.append((loss(sloped, new, truth), loss(cells, (new * 10).astype(int), truth)))
        found = np.array([table[:, 1] - table[:, 0] for table in sloped.weights_])
        np.testing.assert_allclose(np.diff(found) - np.diff(found)[:, :1], 0, atol=0.05)
        assert (np.diff(found.mean(axis=0)) > 0).all()
    ours, theirs = np.mean(losses, axis=0)
    assert ours < 0.9 * theirs, losses


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("epsilon", "last"),
    [
        (1e-15, Bins.even(0, 10, 10)),
        (0.02, Categories(tuple(range(10)))),
    ],
)
def test_without_slopes_bins_are_cells(epsilon, last):
    """With more noise than can be drawn, or a column without an order."""
    X, y = slanted(400)
    codes = (X * 10).astype(int)
    kinds = [*[Bins.even(0, 10, 10)] * 11, last]
    schema = Schema({str(k): kind for k, kind in enumerate(kinds)})
    common = {"classes": [0, 1], "target": RenyiDP(2.0, epsilon), "random_state": 0}
    bins = PrivateLogisticRegression(schema, **common)
    bins.fit(pd.DataFrame(codes, columns=list(schema.columns)), y)
    cells = PrivateLogisticRegression([10] * 12, **common).fit(codes, y)
    for ours, theirs in zip(bins.weights_, cells.weights_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [Bins.even(0, 1, 6), 6], ids=["slopes", "cells"])
def test_multiples_of_slopes_and_tables_are_paid_for(monkeypatch, kind):
    """By all that is drawn: tables, sixty gradients of slopes, and those of multiples."""
    drawn = []
    release = SumsMechanism.release

    def watched(self, *args, **kwargs):
        drawn.append(self.sigma)
        return release(self, *args, **kwargs)

    monkeypatch.setattr(SumsMechanism, "release", watched)
    X, y = slanted(400)
    schema = kind if isinstance(kind, Bins) else [kind] * 12
    X = X if isinstance(kind, Bins) else (X * 6).astype(int)
    model = ordered(4.0, schema=schema).fit(X, y)
    assert model.n_steps_ == len(drawn)
    is_sloped = len(drawn) == 60 + TUNED.score_steps
    assert is_sloped == isinstance(kind, Bins)
    sizes = [*drawn, *model.naive_bayes_.mechanism_.sizes]
    by_hand = sum(sigma**-2.0 for sigma in sizes) ** -0.5
    assert model.cost_.sigma == pytest.approx(by_hand, rel=1e-9)
    assert model.cost_.sigma <= by_hand
    assert model.cost_.epsilon(1e-5) <= 4.0 * (1 + 1e-9)


def straight(n, seed=0):
    """Return records of 24 independent features, each of which adds to the logit in its order."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 24))
    logits = (X - 0.5) @ np.linspace(-4, 8, 24)
    return X, (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(int)


@pytest.mark.slow
def test_slopes_are_chosen_where_columns_are_straight_and_cells_are_few():
    """Four splits: .9 of the loss of cells at most (.62 in ten others)."""
    losses = []
    for seed in range(4):
        (X, y), (new, truth) = straight(600, seed), straight(2000, seed + 20)
        sloped = ordered(4.0, seed, schema=Bins.even(0, 1, 6)).fit(X, y)
        cells = ordered(4.0, seed, schema=[6] * 24).fit((X * 6).astype(int), y)
        losses.append((loss(sloped, new, truth), loss(cells, (new * 6).astype(int), truth)))
    ours, theirs = np.mean(losses, axis=0)
    assert ours < 0.9 * theirs, losses


def test_no_record_has_a_longer_vector(monkeypatch):
    """Than rounding leaves room for: all features at their ends are just as long."""
    lengths = []

    def watched(rows, residuals, length, longest):
        lengths.append(np.linalg.norm(rows, axis=1).max() / longest)
        return shortened_products(rows, residuals, length, longest)

    monkeypatch.setattr(slopes, "shortened_products", watched)
    X, y = slanted(400)
    X[0] = 1.0
    ordered(0.3).fit(X, y)
    assert len(lengths) == 60
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-12)


def test_what_is_missing_is_in_the_middle_of_a_slope():
    model = ordered(0.3, schema=Bins.even(0, 1, 5, missing=True)).fit(*slanted(400))
    for table in model.weights_:
        np.testing.assert_array_equal(table[5], table[2])


@pytest.mark.slow
def test_what_its_naive_bayes_says_of_its_own_cost_is_public():
    """By itself it may be shared, and what a draw or a record decides is no guarantee."""
    X, y = records()
    rare = np.where(np.arange(len(y)) % 40 == 0, 1, 0)
    costs = {
        made(ApproxDP(1.0, 1e-5), random_state=seed).fit(X, classes).naive_bayes_.cost_.sigma
        for seed in range(3)
        for classes in (y, rare)
    }
    assert len(costs) == 1


def test_over_budget_nothing_is_drawn(monkeypatch):
    for kind in (TablesMechanism, SumsMechanism):
        monkeypatch.setattr(kind, "_draw", lambda *_: pytest.fail("there was a draw"))
    poor = RdpAccountant(budget=ApproxDP(3.99, 1e-5))
    model = made()
    with pytest.raises(BudgetExceeded):
        model.fit(*records(), accountant=poor)
    assert not poor.rdp.any()
    with pytest.raises(NotFittedError):
        model.predict(records()[0])


@pytest.mark.slow
def test_with_a_large_budget_it_is_logistic_regression():
    """As without privacy, where naive Bayes is not: one feature comes five times."""
    X, y = records(20_000)
    again = [0, 0, 0, 0, 0, 1, 2]
    X, sizes = X[:, again], [SIZES[k] for k in again]
    ones = OneHotEncoder(categories=[list(range(v)) for v in sizes])
    target = ApproxDP(20.0, 1e-5)
    ours = PrivateLogisticRegression(sizes, classes=[0, 1], target=target, random_state=0)
    theirs = LogisticRegression(C=1.0).fit(ones.fit_transform(X), y)
    best = -theirs.predict_log_proba(ones.transform(X))[np.arange(len(y)), y].mean()
    naive = PrivateNaiveBayes(sizes, classes=[0, 1], target=target, random_state=0).fit(X, y)
    assert loss(ours.fit(X, y), X, y) < best * 1.002
    assert loss(naive, X, y) > best * 1.003


@pytest.mark.slow
def test_gradients_tell_what_tables_cannot():
    """Two features that only together say much: one that agrees with the class, and a copy of the
    noise in it, which by itself tells nothing."""
    rng = np.random.default_rng(0)
    y, noise = rng.integers(2, size=(2, 20_000))
    X = np.stack([y + noise, noise], axis=1)  # 0, 1 or 2: 1 is either class
    common = {"classes": [0, 1], "target": ApproxDP(2.0, 1e-5), "random_state": 0}
    ours = PrivateLogisticRegression([3, 2], **common).fit(X, y)
    naive = PrivateNaiveBayes([3, 2], **common).fit(X, y)
    assert loss(ours, X, y) < 0.6 * loss(naive, X, y)


def test_where_gradients_would_drown_it_is_naive_bayes():
    X, y = records(60)
    model = made(ApproxDP(0.01, 1e-5)).fit(X, y)
    assert model.n_steps_ == 0
    np.testing.assert_allclose(
        model.predict_proba(X), model.naive_bayes_.predict_proba(X), rtol=1e-12
    )
    assert not np.concatenate(model.deviations_).any()


def test_it_begins_with_a_classifier_that_was_paid_for():
    X, y = records()
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=TARGET, random_state=1).fit(X, y)
    before = json.dumps(naive.to_dict())
    accountant = RdpAccountant()
    model = made().fit(X, y, accountant=accountant, naive_bayes=naive)
    assert model.naive_bayes_.to_dict() == naive.to_dict()
    assert json.dumps(naive.to_dict()) == before
    np.testing.assert_allclose(accountant.rdp, model.cost_.rdp(accountant.orders), rtol=1e-12)
    # Its own part alone, and all of the target.
    assert 0.999e-5 < float(model.cost_.delta(4.0)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("after", ["the fit", "its charge"])
def test_a_beginning_that_is_fitted_again_changes_no_statement(after, tmp_path):
    """Its file stated epsilon 0.10, although both fits together had cost 10.0."""
    X, y = records()
    target = ApproxDP(0.1, 1e-5)
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], epsilon=10, random_state=1).fit(X, y)
    spent = naive.cost_.parts

    class Again(RdpAccountant):
        def compose(self, cost, count=1):
            super().compose(cost, count)
            if after == "its charge":  # as by another thread
                naive.set_params(epsilon=0.01).fit(X, y)

    model = made(target).fit(X, y, naive_bayes=naive, accountant=Again())
    other = copy.copy(model)
    naive.set_params(epsilon=0.01).fit(X, y)
    model.save(tmp_path / "model.json")
    for each in (model, other, load_classifier(tmp_path / "model.json")):
        assert each.total_cost_ == Together([each.cost_, *spent])
        assert each.guarantee["epsilon"] > 9.8
        assert each.naive_bayes_.cost_ == Together(spent)


@pytest.mark.few(5)
@CLONES
@pytest.mark.parametrize("how", ["as it is", "copied", "pickled", "in a file", "begun before"])
def test_what_is_in_a_classifier_is_not_fitted_again(how, tmp_path):
    """Its file stated epsilon 0.1, with counts of the records in it."""
    X, y = records()
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], epsilon=0.1, random_state=1).fit(X, y)
    model = made(ApproxDP(0.1, 1e-5)).fit(
        X, y, naive_bayes=naive if how == "begun before" else None
    )
    model.save(tmp_path / "model.json")
    if how == "in a file":
        model = load_classifier(tmp_path / "model.json")
    outer = PrivateClassifier(SIZES, classes=[0, 1], epsilon=0.1, random_state=1).fit(X, y)
    made_of = {"copied": copy.deepcopy, "pickled": lambda each: pickle.loads(pickle.dumps(each))}
    model, outer = (made_of.get(how, lambda each: each)(each) for each in (model, outer))
    said, cost, accountant = model.to_dict(), outer.cost_, RdpAccountant()
    for part in (model.naive_bayes_, outer.classifier_, model.naive_bayes_.with_temperature(0.5)):
        again = clone(part)
        for kind in ({"epsilon": 10, "target": None}, {"mechanism": "none", "epsilon": None}):
            if kind.keys() <= part.get_params().keys():
                part.set_params(**kind)
                with pytest.raises(ValueError, match="part of another is not fitted again"):
                    part.fit(X, y, accountant=accountant)
        part.set_params(**again.get_params())
        again.fit(X, y, accountant=accountant)
    assert len(accountant.journal) == 3
    assert model.to_dict() == said
    assert outer.cost_ == outer.classifier_.cost_ == cost


def test_a_file_does_not_state_less_than_what_is_in_it():
    X, y = records()
    good = made(ApproxDP(0.1, 1e-5)).fit(X, y).to_dict()
    assert classifier_from_dict(good).to_dict() == good
    wrong = (({"epsilon": 10}, "no more than all"), ({"mechanism": "none"}, "private"))
    for how, message in wrong:
        part = PrivateNaiveBayes(SIZES, classes=[0, 1], random_state=1, **how).fit(X, y).to_dict()
        with pytest.raises(ValueError, match=f"naive_bayes must .*{message}"):
            classifier_from_dict({**good, "naive_bayes": part})


@pytest.mark.slow
def test_a_file_states_the_cost_of_both_models_in_it(tmp_path):
    """Of whose records the first was is unknown: as if they were the same."""
    X, y = records()
    target = ApproxDP(1.0, 1e-5)
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=target, random_state=1).fit(X, y)
    model = made(target).fit(X, y, naive_bayes=naive)
    model.save(tmp_path / "model.json")
    said = json.loads((tmp_path / "model.json").read_text())
    assert list(said)[:2] == ["format", "guarantee"]
    both = PldAccountant()
    both.compose(model.cost_)
    both.compose(naive.cost_)
    assert said["guarantee"]["epsilon"] == pytest.approx(float(both.epsilon(1e-5)), rel=1e-3)
    assert 1.4 < said["guarantee"]["epsilon"] < 1.5
    loaded = load_classifier(tmp_path / "model.json")
    assert loaded.total_cost_ == model.total_cost_
    alone = made(target).fit(X, y)
    assert alone.to_dict()["guarantee"]["epsilon"] <= 1.0
    for wrong in (1.0, 0, "1", None):
        said["guarantee"]["epsilon"] = wrong
        with pytest.raises(ValueError, match="guarantee must be what all in the file cost"):
            PrivateLogisticRegression.from_dict(said)


@pytest.mark.slow
def test_a_file_of_the_first_format_counts_as_two_releases():
    said = made().fit(*records()).to_dict()
    del said["guarantee"], said["spent"]["begun_before"]
    loaded = PrivateLogisticRegression.from_dict(
        said | {"format": "privrl.PrivateLogisticRegression 1"}
    )
    assert loaded.to_dict()["guarantee"]["epsilon"] > 4.0
    assert loaded.weights_[0].tolist() == said["weights"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": [1, 0]}, "same schema and classes"),
        ({"schema": [3, 2, 5]}, "same schema and classes"),
        ({"mechanism": "none", "target": None}, "must be private, got one of mechanism 'none'"),
        ({"mechanism": "gaussian", "alpha": 1e-300}, "a probability > 0"),
        ({"temperature": 1e308}, "weights of at most 1e\\+100"),  # gradients were no numbers
    ],
)
def test_another_classifier_to_begin_with_is_refused(change, message):
    X, y = records()
    settings = {"schema": SIZES, "classes": [0, 1], "target": TARGET, "random_state": 0} | change
    naive = PrivateNaiveBayes(**settings).fit(np.where(X == 2, 1, X), y)
    if "alpha" in change:
        naive.feature_log_prob_[0][0, 0] = -np.inf
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=message):
        made().fit(X, y, accountant=accountant, naive_bayes=naive)
    assert accountant.relation is None


@pytest.mark.few(3)
@pytest.mark.parametrize("seeds", [(None, None), (1, None), (None, 1)])
def test_who_knows_either_seed_can_undo_a_part(seeds):
    """So it is said of the whole, in the file too."""
    X, y = records()
    begun, own = seeds
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=TARGET, random_state=begun).fit(X, y)
    model = made(random_state=own).fit(X, y, naive_bayes=naive)
    assert model.randomness_ == (SECRET if seeds == (None, None) else SEEDED)
    assert model.to_dict()["shareable"] is (seeds == (None, None))


def test_it_is_for_one_relation_and_says_so():
    """Where records come and go their number is no public fact, and much rests on it."""
    with pytest.raises(TypeError, match="relation"):
        made(relation=AddRemoveRecord())
    accountant = RdpAccountant()
    accountant.compose(GaussianCost(sigma=5.0, relation=AddRemoveRecord()))
    before = accountant.rdp.copy()
    with pytest.raises(ValueError, match="add or remove one record"):
        made().fit(*records(200), accountant=accountant)
    np.testing.assert_array_equal(accountant.rdp, before)


@pytest.mark.slow
def test_what_is_no_naive_bayes_to_begin_with_is_refused():
    printed = PrintedNaiveBayes(SIZES, classes=[0, 1], target=TARGET, mechanism="dkl")
    with pytest.raises(ValueError, match="must not be what the paper prints"):
        made().fit(*records(), naive_bayes=printed.fit(*records()))
    with pytest.raises(ValueError, match="must be a PrivateNaiveBayes, got int"):
        made().fit(*records(), naive_bayes=3)
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=TARGET)
    with pytest.raises(NotFittedError):
        made().fit(*records(), naive_bayes=naive)


def test_too_small_a_budget_to_begin_with_is_refused():
    X, y = records()
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=TARGET, random_state=1).fit(X, y)
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="target must allow more"):
        made(RenyiDP(2, 1e-20)).fit(X, y, naive_bayes=naive, accountant=accountant)
    assert accountant.relation is None


@pytest.mark.slow
def test_deviations_are_those_of_many_fits():
    """Where features are independent. Of 16 fits a standard deviation is within half of the
    truth but once in a hundred, and here is the mean of nine."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, SIZES, (3000, 3))
    y = (rng.random(3000) < 0.2 + 0.1 * X[:, 1]).astype(int)
    naive = PrivateNaiveBayes(SIZES, classes=[0, 1], target=ApproxDP(8, 1e-5), random_state=0)
    naive.fit(X, y)
    fits = [
        made(ApproxDP(1.0, 1e-5), random_state=seed).fit(X, y, naive_bayes=naive)
        for seed in range(16)
    ]
    seen = np.array([np.concatenate(fit.weights_)[:, 0] for fit in fits]).std(axis=0)
    variances = [np.concatenate(fit.deviations_)[:, 0] ** 2 for fit in fits]
    told = np.sqrt(np.mean(variances, axis=0))
    assert 0.6 < np.exp(np.log(seen / told).mean()) < 1.6


# What a budget is spent on ------------------------------------------------------------------------


@pytest.mark.parametrize("signal", [0.25, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("has_tables", [False, True])
def test_parts_of_a_plan_are_the_whole(signal, has_tables):
    sigma, sizes = 3.0, (4,) * 9
    n_records = round(signal * 8 * sigma * math.sqrt(10))
    planned = plan(sigma, n_records, sizes, 2, has_tables=has_tables)
    assert planned.signal == pytest.approx(signal, rel=0.05)
    # Below 1 to a class, all is for tables.
    whole = signal < 1
    assert planned.share == 0 if has_tables else 0.1 < planned.share < (1.1 if whole else 1)
    spent = planned.scores.precision + planned.weights.precision + planned.multiples.precision
    # Where noise would hide them, there are none.
    has_multiples = planned.multiples.number == TUNED.score_steps
    assert has_multiples == (planned.weights.number > 0) == (signal > 20)
    assert spent == pytest.approx((1 - planned.share) * sigma**-2, rel=1e-12)


def test_features_times_classes_that_rounding_would_drown_are_refused():
    """Rounding takes 0.5 of √2 where a record adds to 2**24 numbers, and more beyond."""
    plan(3.0, 100, (2,) * (2**20 - 1), 16, has_tables=False)
    with pytest.raises(ValueError, match=r"at most 16,777,216, got 1,048,576 times 16: leave out"):
        plan(3.0, 100, (2,) * 2**20, 16, has_tables=False)


def test_the_larger_the_signal_the_less_is_for_tables_and_features():
    plans = [plan(2.0, n, (4,) * 9, 2, has_tables=False) for n in (200, 1000, 10_000, 100_000)]
    shares = [each.share for each in plans]
    parts = [each.weights.precision / each.scores.precision for each in plans]
    assert shares == sorted(shares, reverse=True)
    assert parts == sorted(parts)


def test_classes_counts_have_more_of_the_budget_where_features_tell_little():
    shapes = [(1, 2), *((2, 4),) * 20]
    target = ApproxDP(0.1, 1e-5)
    shares = []
    for n_records in (700, 700_000):
        tables, measured = plan_tables(target, shapes, whole_sigma(target), n_records)
        assert measured == (n_records == 700_000)
        precisions = np.array(tables.sizes) ** -2.0
        shares.append(precisions[0] / precisions.sum())
    assert 0.2 < shares[0] < 0.55
    assert shares[1] < 0.06


@pytest.mark.slow
def test_with_little_to_be_seen_it_is_no_worse_than_bare_frequencies():
    """Of features that tell nothing. The mean of these 24 fits is 0.020 ± 0.004 nats above,
    and that of naive Bayes 0.035."""
    rng = np.random.default_rng(0)
    y = (rng.random(700) < 0.3).astype(int)
    X = rng.integers(0, 4, (700, 20))
    share = y.mean()
    bare = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    common = {"classes": [0, 1], "target": ApproxDP(0.1, 1e-5)}
    above = {
        kind: np.mean([loss(kind([4] * 20, **common, random_state=s).fit(X, y), X, y)
                       for s in range(24)]) - bare
        for kind in (PrivateLogisticRegression, PrivateNaiveBayes)
    }  # fmt: skip
    assert above[PrivateLogisticRegression] < 0.033
    assert above[PrivateLogisticRegression] < above[PrivateNaiveBayes]


def test_a_temperature_that_is_not_measured_is_low_where_little_is_seen():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (700, 20)), (rng.random(700) < 0.3).astype(int)
    target = ApproxDP(0.1, 1e-5)
    naive, model = (
        kind([4] * 20, classes=[0, 1], target=target, random_state=0).fit(X, y)
        for kind in (PrivateNaiveBayes, PrivateLogisticRegression)
    )
    signal = plan(whole_sigma(target), 700, [4] * 20, 2, has_tables=False).signal
    rarest = 2 * math.exp(model.naive_bayes_.class_log_prior_.min())
    assert model.naive_bayes_.temperature_ == pytest.approx(
        naive.temperature_ * signal * rarest / 0.5
    )
    assert model.naive_bayes_.temperature_ < 0.9 * naive.temperature_


@pytest.mark.slow
def test_a_feature_that_says_the_same_again_weighs_less():
    """Six copies of one feature share what one alone has, as naive Bayes would not have them."""
    rng = np.random.default_rng(0)
    y, other = rng.integers(2, size=(2, 20_000))
    told = np.where(rng.random(20_000) < 0.2, 1 - y, y)
    alone = np.where(rng.random(20_000) < 0.2, 1 - y, y)
    X = np.stack([told] * 6 + [alone, other], axis=1)
    model = PrivateLogisticRegression(
        [2] * 8, classes=[0, 1], target=ApproxDP(1.0, 1e-5), random_state=0
    ).fit(X, y)
    ranges = [float(np.ptp(table[:, 1])) for table in model.weights_]
    assert np.mean(ranges[:6]) < 0.4 * ranges[6]


def weighed(X, y, sigma):
    """Return the start of true tables, and what 60 gradients of features' weights make of it."""
    sizes = tuple(int(column.max()) + 1 for column in X.T)
    prior = np.log(np.bincount(y) / len(y))
    rows = [
        np.array([np.bincount(column[y == c], minlength=size) + 1 for c in (0, 1)]).T
        for column, size in zip(X.T, sizes, strict=True)
    ]
    start = Start(
        log_prior=prior,
        log_rows=np.concatenate([np.log(row / row.sum(axis=0)) for row in rows]),
        temperatures=np.ones(len(sizes)),
        intercept=prior - prior.mean(),
        sizes=sizes,
        n_records=len(y),
        deviations=np.zeros(len(sizes) + 2),
    )
    steps = Steps(60, SumsMechanism(sigma=sigma))
    return start, weigh(X.T, y, start, steps, np.random.default_rng(0))


def test_rare_classes_are_not_shortened_away():
    """Naive Bayes is true of these, so weights of 1 are right, and the intercept that it has."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.02).astype(int)
    X = np.where(rng.random((20_000, 5)) < 0.4, y[:, None], rng.integers(2, size=(20_000, 5)))
    start, found = weighed(X, y, 1e-3)
    np.testing.assert_allclose(found.temperatures, start.temperatures, atol=0.2)
    np.testing.assert_allclose(found.intercept, start.intercept, atol=0.2)


def test_steps_end_before_their_noise_matters():
    """However large it is: of logits it is less than a nat, in records where it counts for most."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    X = np.where(rng.random((2000, 5)) < 0.4, y[:, None], rng.integers(2, size=(2000, 5)))
    for sigma in (10.0, 1e3, 1e5):
        start, found = weighed(X, y, sigma)
        moved = found.temperatures - start.temperatures
        shifts = moved @ np.abs(start.log_ratios[1::2, 1])
        assert abs(shifts) + np.abs(found.intercept - start.intercept).max() < 1


@pytest.mark.slow
def test_seeds():
    X, y = records(500)
    one, same, other = (np.concatenate(made(random_state=s).fit(X, y).weights_) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    secret = [made(random_state=None).fit(X, y) for _ in range(2)]
    assert secret[0].randomness_ == "secret"
    assert not np.allclose(secret[0].weights_[0], secret[1].weights_[0])


@pytest.mark.slow
def test_a_failed_fit_leaves_everything_as_it_was(monkeypatch):
    model = made().fit(*records())
    before = model.to_dict()
    monkeypatch.setattr(SumsMechanism, "_draw", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(*records(500))
    assert model.to_dict() == before


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0, 0, 9]], [0], "whole numbers from 0 to 3"),
        ([[0, 0]], [0], "must have 3 features"),
        ([[0, 0, 0]], [7], "stated classes"),
        ([[0, 0, None]], [0], "whole numbers"),
        ([[0, 0, 0]], [0, 1], "equally many"),
        ([], [], "0 sample"),
    ],
)
def test_bad_records_are_refused_and_cost_nothing(X, y, message):
    for model in (made(), PrivateClassifier(SIZES, classes=[0, 1], target=TARGET)):
        accountant = RdpAccountant()
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, accountant=accountant)
        assert accountant.relation is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 1.0}, "target must be"),
        ({"target": None}, "target must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"classes": [0]}, "two"),
    ],
)
def test_bad_parameters(change, message):
    for kind in (PrivateLogisticRegression, PrivateClassifier):
        model = kind(**({"schema": SIZES, "classes": [0, 1], "target": TARGET} | change))
        with pytest.raises(ValueError, match=message):
            model.fit(*records(50))


@pytest.mark.slow
def test_a_saved_classifier_is_the_same(tmp_path):
    schema = Schema(
        {
            "age": Bins((0, 20, 40, 60)),
            "job": Categories(("none", "some"), other=True),
            "rich": Categories(("no", "yes")),
        }
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 60, 500),
            "job": rng.choice(["none", "some", "odd"], 500),
            "rich": rng.choice(["no", "yes"], 500),
        }
    )
    model = PrivateLogisticRegression(schema, classes="rich", target=TARGET)
    model.fit(frame, frame["rich"])
    model.save(tmp_path / "model.json")
    loaded = PrivateLogisticRegression.load(tmp_path / "model.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # which gives its content once
    Thread(target=pipe.write_bytes, args=[(tmp_path / "model.json").read_bytes()]).start()
    assert load_classifier(pipe).to_dict() == model.to_dict()
    with pytest.raises(ValueError, match="device"):
        load_classifier("/dev/zero")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded.cost_ == model.cost_
    assert loaded.to_dict() == model.to_dict()
    assert loaded.feature_names_in_.tolist() == ["age", "job"]


def _changed(data, path, value):
    *way, last = path
    at = data
    for key in way:
        at = at[key]
    at[last] = value
    return data


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "privrl.PrivateNaiveBayes 1", "format must be"),
        (["weights"], [], "list of 3 tables"),
        (["weights", 0], [[0.0]], r"weights\[0\] must be numbers of shape"),
        (["weights", 0, 0, 0], "1", r"weights\[0\] must be numbers"),
        (["weights", 0, 0, 0], float("inf"), "finite"),
        (["deviations", 0, 0, 0], -1.0, "finite numbers >= 0"),
        (["intercept"], [0.0], "intercept must be"),
        (["spent", "sigma"], 0.0, "sigma must be"),
        (["spent", "relation"], "none", "relation must be"),
        (["spent", "steps"], -1, "steps must be"),
        (["target"], None, "target must be"),
        (["randomness"], "good", "randomness must be"),
        (["naive_bayes", "format"], "x", "format must be"),
    ],
)
def test_a_file_that_is_no_classifier_is_refused(path, value, message):
    data = json.loads(json.dumps(made().fit(*records(200)).to_dict()))
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression.from_dict(_changed(data, path, value))


def test_what_is_not_fitted_or_changed_since_is_not_saved():
    with pytest.raises(NotFittedError):
        made().to_dict()
    model = made().fit(*records(200))
    model.classes = [1, 0]
    with pytest.raises(ValueError, match="fitted with"):
        model.to_dict()


def test_nothing_of_the_records_is_kept():
    """What a fitted classifier holds has the sizes of tables, never that of the records."""
    model = made().fit(*records(1234))
    sizes = {np.shape(value) for value in vars(model).values() if isinstance(value, np.ndarray)}
    assert all(1234 not in size for size in sizes)
    assert "1234" in json.dumps(model.to_dict()["naive_bayes"])  # n_records, which is public


def test_there_is_no_partial_fit_and_copies_are_not_fitted():
    assert not hasattr(made(), "partial_fit")
    copied = clone(made().fit(*records(200)))
    with pytest.raises(NotFittedError):
        copied.predict(records()[0])


# The choice ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_choice_is_by_public_facts_alone():
    X, y = records(2000)
    other = np.zeros_like(X), np.zeros_like(y)
    for n_features, name in ((1, "PrivateNaiveBayes"), (3, "PrivateLogisticRegression")):
        for known, classes in ((X, y), other):
            model = PrivateClassifier(
                SIZES[:n_features], classes=[0, 1], target=TARGET, random_state=0
            )
            accountant = RdpAccountant()
            given = known[:, :n_features]
            model.fit(given, classes, accountant=accountant)
            assert type(model.classifier_).__name__ == name
            assert len(accountant.journal) == 1
            np.testing.assert_array_equal(
                model.predict_proba(given), model.classifier_.predict_proba(given)
            )


@pytest.mark.few(6)
@pytest.mark.parametrize("model", ["naive-bayes", "logistic-regression"])
def test_a_named_model_is_what_it_is_by_itself(model):
    X, y = records(500)
    kind = PrivateNaiveBayes if model == "naive-bayes" else PrivateLogisticRegression
    common = {"schema": SIZES, "classes": [0, 1], "target": TARGET, "random_state": 3}
    chosen = PrivateClassifier(**common, model=model).fit(X, y)
    np.testing.assert_array_equal(
        chosen.predict_log_proba(X), kind(**common).fit(X, y).predict_log_proba(X)
    )
    np.testing.assert_array_equal(chosen.predict(X), chosen.classifier_.predict(X))


def test_an_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model must be one of 'auto'"):
        PrivateClassifier(SIZES, classes=[0, 1], target=TARGET, model="best").fit(*records(50))


@pytest.mark.slow
@pytest.mark.parametrize("prior", [[0.0, -45.6], [0.0, -800.0]])
def test_one_can_begin_with_a_class_that_is_nearly_sure(prior):
    """Its frequency rounds to 1, and the loss does not bend."""
    more = {"classes": [0, 1], "mechanism": "dirichlet", "random_state": 1}
    naive = PrivateNaiveBayes(SIZES, target=RenyiDP(2, 0.05), **more).fit(*records(500))
    vars(naive)["class_log_prior_"] = np.array(prior)
    model = made().fit(*records(500), naive_bayes=naive)
    assert all(np.isfinite(each).all() for each in (*model.weights_, *model.deviations_))
    again = classifier_from_dict(model.to_dict())
    np.testing.assert_array_equal(again.intercept_, model.intercept_)
