"""DKL's experiments on UCI data: what their jobs promise, and what splits and bins are.

Made-up records serve, in the columns of GermanCredit and as many.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from sklearn.naive_bayes import CategoricalNB

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.simplex import SimplexCost
from privrl.data.datasets import Dataset
from privrl.data.datasets.sources import SOURCES
from privrl.data.schema import Bins, Categories, Schema
from privrl.experiments.uci import data, fits
from privrl.experiments.uci.data import (
    NotPrivateWarning,
    Split,
    commonest_share,
    network_of,
    split,
)
from privrl.experiments.uci.fits import gohari
from privrl.experiments.uci.jobs import (
    AUTO,
    DKL,
    GOHARI,
    MECHANISMS,
    NONE,
    PRINTED,
    UNIFORM,
    Job,
    grid,
)
from privrl.experiments.uci.run import half_widths, run_jobs
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

JOB = Job(
    data="GermanCredit", model="naive Bayes", cells="public", split=100, mechanism=AUTO, epsilon=1.0
)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a GermanCredit in which some columns tell the class."""
    schema, rng = SOURCES["GermanCredit"].schema, np.random.default_rng(7)
    sizes = np.array(schema.sizes)
    codes = rng.integers(sizes, size=(1000, len(sizes)))
    codes[:, -1] = rng.random(1000) < 0.3
    codes[:, :5] = np.where(rng.random((1000, 5)) < 0.3, codes[:, -1:], codes[:, :5])
    frame = schema.decode(codes)
    frame["amount"] = rng.integers(250, 18_500, 1000)
    found = Dataset("GermanCredit", frame, schema.names[-1], schema, "Nobody", "none")
    monkeypatch.setattr(data, "load", lambda name, folder: {"GermanCredit": found}[name])


# Jobs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"model": "forest"}, "model must be"),
        ({"mechanism": "magic"}, "mechanism of naive Bayes must be one of"),
        ({"mechanism": PRINTED, "model": "network"}, "mechanism of network must be one of"),
        ({"mechanism": GOHARI}, "delta must be > 0"),
        ({"split": -1}, "split must be"),
        ({"epsilon": 0.0}, "epsilon must"),
        ({"epsilon": math.nan}, "epsilon must"),
        ({"mechanism": NONE}, "epsilon of 'no privacy' is inf, got 1.0"),
        ({"mechanism": UNIFORM}, "epsilon of 'uniform guess' is 0, got 1.0"),
        ({"delta": 1.0}, "delta must"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(change, match) -> None:
    with pytest.raises(ValueError, match=match):
        replace(JOB, **change)


def test_target_is_of_the_paper_s_order_or_approximate() -> None:
    assert JOB.target == RenyiDP(5, 1.0)
    assert replace(JOB, delta=1e-5).target == ApproxDP(1.0, 1e-5)


def test_every_field_of_a_job_changes_its_randomness() -> None:
    changes = [
        *({}, {"data": "Spam"}, {"model": "network"}, {"cells": "paper"}, {"split": 101}),
        *({"mechanism": DKL}, {"epsilon": 2.0}, {"delta": 1e-5}),
    ]
    drawn = [replace(JOB, **change).rng().integers(2**63) for change in changes]
    assert len(set(drawn)) == len(changes)
    assert replace(JOB).rng().integers(2**63) == drawn[0]


def test_grid_has_what_needs_no_budget_once_for_each_split() -> None:
    options = {"data": ["Spam"], "model": "naive Bayes", "cells": "public", "splits": range(3)}
    jobs = grid(**options, mechanisms=[NONE, DKL, UNIFORM], epsilons=[0.1, 1, 10])
    assert len(jobs) == len(set(jobs)) == 3 * (1 + 3 + 1)


# Gohari et al. ----------------------------------------------------------------------------------


def test_gohari_spends_equal_parts_and_no_more() -> None:
    shapes, epsilon, delta, n = ((1, 2), (2, 10), (2, 4)), 1.5, 1e-5, 700
    made = gohari(shapes, n, epsilon, delta)
    (weight,) = set(made.sizes)
    assert made.alpha == pytest.approx(1 + 4 * 4 * weight, rel=1e-12)

    def spent(weight: float) -> float:  # of one table; ten cells are the most
        alpha = 1 + 16 * weight
        total = weight * n + 10 * alpha
        cost = SimplexCost(
            weight=total, eta=alpha / total, eta_bar=8 * alpha / total, distance=2 * weight / total
        )
        return float(cost.epsilon(delta / 3))

    assert spent(weight) <= epsilon / 3 * (1 + 1e-9)
    assert spent(1.0001 * weight) > epsilon / 3


# Splits and bins --------------------------------------------------------------------------------


def test_quantile_edges_keep_frequent_values_apart() -> None:
    rare = np.arange(1, 101, dtype=float)
    column = pd.Series(np.concatenate([np.zeros(80), rare]))  # zero: more than a third
    edges = data._quantile_edges(column)
    # 0 up to the next value, then the deciles of 1 to 100
    np.testing.assert_allclose(edges, [0, *np.quantile(rare, np.linspace(0, 1, 11))])
    assert data._quantile_edges(column.clip(upper=30)) is None  # 31 values
    assert data._quantile_edges(column.clip(upper=29)) is None  # 30 values


def test_unknown_bins_and_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="cells must be 'public' or 'paper', got 'fine'"):
        split("Spam", 0, "fine")
    with pytest.raises(ValueError, match="seed must be"):
        split("Spam", -1)
    with pytest.raises(ValueError, match="name must be one of 'Adult'"):
        network_of("Spam", Schema({"a": Categories((1, 2))}))
    with pytest.raises(ValueError, match="has none for"):
        network_of("Bank", Schema({"y": Categories(("no", "yes"))}))


@pytest.mark.usefixtures("made_up")
def test_split_has_every_record_once() -> None:
    one, two = (split("GermanCredit", seed) for seed in (100, 101))
    assert (len(one.train), len(one.test)) == (700, 300)
    assert sorted([*one.train.index, *one.test.index]) == list(range(1000))
    assert set(one.test.index) != set(two.test.index)


@pytest.mark.usefixtures("made_up")
def test_paper_bins_are_made_of_the_training_part_and_warn() -> None:
    with pytest.warns(NotPrivateWarning, match="not private"):
        one = split("GermanCredit", 100, "paper")
    with pytest.warns(NotPrivateWarning, match="not private"):
        two = split("GermanCredit", 101, "paper")
    amounts = [each.schema.columns["amount"] for each in (one, two)]
    assert all(isinstance(bins, Bins) and bins.size == 10 for bins in amounts)
    assert amounts[0] != amounts[1]
    np.testing.assert_allclose(
        amounts[0].edges, np.quantile(one.train["amount"], np.linspace(0, 1, 11))
    )
    assert one.schema.names[-1] == "credit_risk"
    with pytest.warns(NotPrivateWarning, match="not private"):
        run_jobs([replace(JOB, cells="paper", mechanism=DKL)])


# Results ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("made_up")
def test_without_privacy_it_is_scikit_learn_s_naive_bayes() -> None:
    jobs = [
        replace(JOB, mechanism=NONE, epsilon=math.inf),
        replace(JOB, mechanism=UNIFORM, epsilon=0.0),
    ]
    none, uniform = run_jobs(jobs).to_dict("records")
    parts = split("GermanCredit", 100)
    train, test = (parts.schema.encode(each) for each in (parts.train, parts.test))
    prior = np.bincount(train[:, -1]) + 1
    model = CategoricalNB(
        alpha=1, min_categories=np.array(parts.schema.sizes[:-1]), class_prior=prior / prior.sum()
    ).fit(train[:, :-1], train[:, -1])
    right = test[:, -1]
    logs = model.predict_log_proba(test[:, :-1])[np.arange(len(right)), right]
    assert none["cross_entropy"] == pytest.approx(-logs.mean(), rel=1e-9)
    assert none["accuracy"] == pytest.approx(model.score(test[:, :-1], right))
    assert uniform["cross_entropy"] == pytest.approx(math.log(2))
    assert uniform["accuracy"] == 0.5
    assert math.isnan(none["log_likelihood"])


@pytest.mark.slow
@pytest.mark.usefixtures("made_up")
def test_network_without_privacy_is_counting() -> None:
    jobs = [
        replace(JOB, model="network", mechanism=NONE, epsilon=math.inf),
        replace(JOB, model="network", mechanism=UNIFORM, epsilon=0.0),
    ]
    none, uniform = run_jobs(jobs).log_likelihood
    parts = split("GermanCredit", 100)
    parents = network_of("GermanCredit", parts.schema)
    schema = parts.schema.subset(parents)
    train, test = (
        pd.DataFrame(schema.encode(each), columns=schema.names)
        for each in (parts.train, parts.test)
    )
    expected = 0.0
    for node, own in parents.items():
        size = schema.columns[node].size
        for row in test[[*own, node]].to_dict("records"):
            given = np.ones(len(train), bool)
            for parent in own:
                given &= (train[parent] == row[parent]).to_numpy()
            both = given & (train[node] == row[node]).to_numpy()
            expected += math.log((both.sum() + 1) / (given.sum() + size))
    assert none == pytest.approx(expected / len(test), rel=1e-9)
    assert uniform == pytest.approx(-sum(math.log(schema.columns[node].size) for node in parents))


@pytest.mark.slow
@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("model", ["naive Bayes", "network"])
def test_every_mechanism_runs_and_company_changes_nothing(model) -> None:
    options = {
        "data": ["GermanCredit"], "model": model, "cells": "public", "splits": [100],
        "mechanisms": MECHANISMS[model], "epsilons": [0.5], "delta": 1e-5,
    }  # fmt: skip
    jobs = grid(**options)
    table = run_jobs(jobs)
    what = "cross_entropy" if model == "naive Bayes" else "log_likelihood"
    assert list(table.mechanism) == list(MECHANISMS[model])
    assert np.isfinite(table[what]).all()
    assert table[what].nunique() == len(jobs)
    backwards = run_jobs(jobs[::-3])
    pd.testing.assert_frame_equal(backwards, table.iloc[::-3].reset_index(drop=True))


def test_draws_of_gohari_et_al_are_those_they_were_calibrated_for() -> None:
    """Naive Bayes asks for them by what they cost, and gets the same weight."""
    shapes = ((1, 2), (2, 10), (2, 4))
    made = gohari(shapes, 700, 1.5, 1e-5)
    options = fits._options(replace(JOB, mechanism=GOHARI, epsilon=1.5, delta=1e-5), shapes, 700)
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 10, 700), rng.integers(0, 4, 700)], axis=1)
    model = PrivateNaiveBayes([10, 4], classes=[0, 1], random_state=0, **options)
    model.fit(X, rng.integers(0, 2, 700))
    np.testing.assert_allclose(model.mechanism_.sizes, made.sizes, rtol=1e-6)
    assert model.mechanism_.alpha == made.alpha


def test_half_widths_are_students_over_splits_and_0_of_one() -> None:
    rows = [
        {"data": "A", "split": split, "mechanism": name, "epsilon": epsilon, "accuracy": value}
        for name, epsilon in (("auto", 0.1), (NONE, math.inf), (UNIFORM, 0.0))
        for split, value in enumerate((0.5, 0.6, 0.7))
    ]
    found = half_widths(pd.DataFrame(rows), "accuracy")
    assert found.loc["A", 0.1].to_dict() == pytest.approx(
        dict.fromkeys(("auto", NONE, UNIFORM), 4.302653 * 0.1 / math.sqrt(3)), rel=1e-6
    )
    alone = half_widths(pd.DataFrame(rows[::3]), "accuracy")
    assert (alone == 0).all(axis=None)


def test_the_commonest_class_is_that_of_the_training_part() -> None:
    schema = Schema({"class": Categories(("a", "b"))})
    parts = Split(
        schema, pd.DataFrame({"class": ["b", "b", "a"]}), pd.DataFrame({"class": ["a", "b", "a"]})
    )
    assert commonest_share(parts) == pytest.approx(1 / 3)
