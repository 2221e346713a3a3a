"""What bins of `discretise` cost is stated wherever they are used, beside what that cost."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import run, said

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, PureDP, RenyiDP, ZeroConcentratedDP
from privrl.costs.relations import AddRemoveRecord
from privrl.data.logs.schema import LogSchema
from privrl.data.schema import Bins, Categories, Schema, write_template
from privrl.data.schema.released import BinsRelease
from privrl.files.sharing import SEEDED, amounts_of
from privrl.mechanisms.selection import select_private
from privrl.models import (
    PrivateLogisticRegression,
    PrivateNaiveBayes,
    discretise,
    histogram,
)
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.network import BayesNet
from privrl.models.histograms.result import PrivateHistogram
from privrl.models.logistic_regression.choice import load_classifier

TARGET = ApproxDP(1.0, 1e-5)
OF_BINS = ApproxDP(0.1, 1e-6)
KINDS = (PrivateNaiveBayes, PrivateLogisticRegression)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 100, 400), "pay": rng.exponential(10, 400)})
    return frame.assign(ill=rng.choice(["no", "yes"], 400))


def cut(people, name="age", target=OF_BINS, **more):
    return discretise(people, {name: (0, 100)}, target=target, bins=4, **more)


@pytest.fixture(scope="module")
def schema(people):
    both = discretise(people, {"age": (0, 100), "pay": (0, 100)}, target=OF_BINS, bins=4)
    return Schema({**both, "ill": Categories(("no", "yes"))})


def fitted(kind, people, schema, **more):
    model = kind(schema, classes="ill", target=TARGET, **more)
    return model.fit(people[[*schema.names[:-1]]], people["ill"])


def stated(schema):
    """What a guarantee must state of the bins of a schema."""
    columns = (each for each in schema.columns.values() if isinstance(each, Bins))
    return [
        dict(each) for each in dict.fromkeys(tuple(c.released.to_dict().items()) for c in columns)
    ]


@pytest.mark.few(12)
@pytest.mark.parametrize(
    ("target", "amounts"),
    [
        (RenyiDP(2, 0.1), {"epsilon": 1.19937, "delta": 1e-5}),
        (ApproxDP(0.5, 1e-6), {"epsilon": 0.5, "delta": 1e-6}),
        (PureDP(0.5), {"epsilon": 0.5, "delta": 0.0}),
        (ZeroConcentratedDP(0.05), {"epsilon": 1.19937, "delta": 1e-5}),
    ],
    ids=str,
)
def test_bins_keep_what_all_of_them_cost(people, target, amounts):
    """Of Gaussian noise with rho .05: delta by Balle and Wang (2018) is 1e-5 at 1.19937."""
    made = discretise(people, {"age": (0, 100), "pay": (0, 100)}, target=target)
    by = made["age"].released
    assert made["pay"].released == by
    data = dict(by.to_dict())
    assert (data.pop("relation"), data.pop("randomness")) == ("replace one record", "secret")
    assert len(data.pop("id")) == 32
    assert data == pytest.approx(amounts, rel=1e-4)


@pytest.mark.slow
def test_releases_of_equal_cost_are_told_apart(people):
    first, second = cut(people)["age"].released, cut(people)["age"].released
    assert first != second
    assert replace(first, id=second.id) == second


@pytest.mark.slow
def test_one_seed_makes_equal_bins_and_other_bins_differ(people):
    assert cut(people, rng=1) == cut(people, rng=1)
    assert cut(people, rng=1)["age"].released.id != cut(people, "pay", rng=1)["pay"].released.id


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_copies_and_files_of_bins_and_schemas_keep_it(schema, ending, tmp_path):
    bins = schema.columns["age"]
    for how in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), replace):
        assert how(bins).released == bins.released
    assert replace(bins, whole=False, missing=True).released == bins.released
    path = tmp_path / f"schema.{ending}"
    schema.save(path)
    for made in (
        Schema.load(path), schema.subset(schema.names), copy.deepcopy(schema),
        pickle.loads(pickle.dumps(schema)), Schema(dict(schema.columns)),
    ):  # fmt: skip
        assert made == schema
        assert made.columns["age"].released == bins.released
    write_template(path, [*schema.names, "more"], numeric={"age": (0, 9), "more": (0, 1)})
    assert Schema.load(path).columns["age"] == bins


@pytest.mark.slow
def test_hand_written_bins_and_guarantees_are_as_before(people, tmp_path):
    schema = Schema({"age": Bins.even(0, 100, 4), "ill": Categories(("no", "yes"))})
    assert schema.to_dict()["columns"]["age"] == {"edges": [0, 25, 50, 75, 100], "missing": False}
    assert repr(schema.columns["age"]) == (
        "Bins(edges=(0.0, 25.0, 50.0, 75.0, 100.0), missing=False, whole=False)"
    )
    assert set(fitted(PrivateNaiveBayes, people, schema).guarantee) == {
        "relation", "epsilon", "delta",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_classifiers_state_it(kind, people, schema, tmp_path):
    model = fitted(kind, people, schema)
    path = tmp_path / "model.json"
    model.save(path)
    for each in (
        model, kind.load(path), copy.deepcopy(model), pickle.loads(pickle.dumps(model)),
        load_classifier(path),
    ):  # fmt: skip
        assert each.guarantee["bins"] == stated(schema)
        assert len(each.guarantee["bins"]) == 1  # one release of two columns
        assert each.guarantee["epsilon"] == pytest.approx(1, rel=1e-6)
    with pytest.raises(TypeError, match="read-only"):
        model.guarantee["bins"][0]["epsilon"] = 0.0
    with pytest.raises(TypeError, match="read-only"):
        model.guarantee["bins"].clear()


def test_all_releases_of_bins_are_stated(people):
    schema = Schema({**cut(people), **cut(people, "pay"), "ill": Categories(("no", "yes"))})
    bins = fitted(PrivateNaiveBayes, people, schema).guarantee["bins"]
    assert [each["epsilon"] for each in bins] == pytest.approx([0.1, 0.1])
    assert bins == stated(schema)


def test_a_regression_that_begins_with_another_classifier_states_it(people, schema):
    begun = fitted(PrivateNaiveBayes, people, schema)
    model = PrivateLogisticRegression(schema, classes="ill", target=TARGET)
    X, y = people[["age", "pay"]], people["ill"]
    assert model.fit(X, y, naive_bayes=begun).guarantee["bins"] == stated(schema)
    bare = {name: replace(c, released=None) for name, c in list(schema.columns.items())[:2]}
    unmarked = Schema({**schema.columns, **bare})
    with pytest.raises(ValueError, match="same schema"):
        PrivateLogisticRegression(unmarked, classes="ill", target=TARGET).fit(
            X, y, naive_bayes=begun
        )


@pytest.mark.slow
def test_one_column_for_all_features_states_it(people):
    bins = cut(people)["age"]
    model = PrivateNaiveBayes(bins, classes=["no", "yes"], target=TARGET)
    model.fit(people[["age", "pay"]].to_numpy(), people["ill"])
    assert model.guarantee["bins"] == [bins.released.to_dict()]
    assert PrivateNaiveBayes.from_dict(model.to_dict()).guarantee == model.guarantee


@pytest.mark.slow
def test_a_chosen_classifier_states_it(people, schema, tmp_path):
    def candidate(trial):
        model = PrivateNaiveBayes(schema, classes="ill", target=trial.part(0.5))
        model.fit(people[["age", "pay"]], people["ill"], accountant=trial.accountant)
        return model, float(trial.noisy([1, 2], 0.5)[0])

    model = select_private({"it": candidate}, target=ApproxDP(5, 1e-5), trials=2).result
    assert model.guarantee["bins"] == stated(schema)
    data = model.to_dict()
    assert data["guarantee"]["bins"] == stated(schema)
    path = tmp_path / "model.json"
    model.save(path)
    assert load_classifier(path).guarantee == model.guarantee
    del data["guarantee"]["bins"]
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="what all in the file cost"):
        load_classifier(path)


def test_a_file_that_leaves_it_out_is_refused(people, schema):
    data = fitted(PrivateLogisticRegression, people, schema).to_dict()
    assert data["guarantee"]["bins"] == stated(schema)
    del data["guarantee"]["bins"]
    with pytest.raises(ValueError, match="what all in the file cost"):
        PrivateLogisticRegression.from_dict(data)


def test_histograms_keep_it_beside_their_own_relation(people):
    bins = cut(people)["age"]
    unit = AddRemoveRecord()
    found = histogram(people["age"], bins, target=TARGET, relation=unit, n_records=400)
    for each in (found, PrivateHistogram.from_dict(found.to_dict())):
        assert each.column.released == bins.released
        assert str(each.cost.relation) != each.column.released.relation


def test_networks_keep_it(people, schema):
    net = PrivateBayesNet(parents={"age": (), "ill": ("age",)}, schema=schema, target=TARGET)
    made = net.fit(people)
    for each in (made, BayesNet.from_dict(made.to_dict()), pickle.loads(pickle.dumps(made))):
        assert each.schema.columns["age"].released == schema.columns["age"].released


@pytest.mark.slow
def test_a_seed_of_the_bins_is_a_seed_of_the_model(people):
    """Whoever knows it can undo a part of the noise."""
    bins = cut(people, rng=0)
    schema = Schema({**bins, "ill": Categories(("no", "yes"))})
    models = [fitted(kind, people, schema) for kind in KINDS]
    models += [histogram(people["age"], bins["age"], target=TARGET)]
    given = {"age": (), "ill": ("age",)}
    models += [
        PrivateBayesNet(parents=parents, schema=schema, target=TARGET).fit(people)
        for parents in (given, "private")
    ]
    for each in models:
        data = each.to_dict()
        assert (data["randomness"], data["shareable"]) == (SEEDED, False), each


def test_bins_are_not_chosen_in_a_trial(people):
    """They would state what the trial cost, wherever they are used."""

    def candidate(trial):
        with pytest.raises(ValueError, match="before a selection"):
            cut(people)
        return cut(people, accountant=trial.accountant), 0.0

    with pytest.raises(ValueError, match="before a selection"):
        select_private({"it": candidate}, target=TARGET, trials=1)


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", ["naive Bayes", "logistic regression", "histogram", "network"])
@pytest.mark.parametrize("other", ["released", "public"])
def test_candidates_have_the_same_bins(kind, other, people):
    """The chosen one stated its own bins alone, though it was compared with fits of others."""
    columns = [cut(people)["age"], Bins.even(0, 100, 4)]
    if other == "released":
        columns[1] = cut(people)["age"]

    def fit(column, trial):
        whole = Schema({"age": column, "ill": Categories(("no", "yes"))})
        options = {"target": trial.part(0.4), "accountant": trial.accountant}
        if kind == "histogram":
            return histogram(people["age"], column, **options)
        if kind == "network":
            accountant = options.pop("accountant")
            return PrivateBayesNet(
                schema=whole, parents={"age": [], "ill": ["age"]}, **options
            ).fit(people, accountant=accountant)
        accountant = options.pop("accountant")
        made = KINDS[kind == "logistic regression"](whole, classes="ill", **options)
        return made.fit(people[["age"]], people["ill"], accountant=accountant)

    def at_once(trial):
        first = fit(columns[0], trial)
        with pytest.raises(ValueError, match="must have the same released bins"):
            fit(columns[1], trial)
        return first, float(len(trial.accountant.journal))

    best = select_private({"it": at_once}, target=ApproxDP(9.0, 1e-5), trials=1)
    assert best.score == 1
    trials = iter(columns)  # of the first trial, and of the second

    def in_turn(trial):
        return fit(next(trials), trial), 0.0

    rng = next(r for r in range(100) if _n_trials(r) > 1)
    with pytest.raises(ValueError, match="must have the same released bins"):
        select_private({"it": in_turn}, target=ApproxDP(9.0, 1e-5), trials=9, rng=rng)


def _n_trials(seed):
    made = []
    select_private(
        {"it": lambda trial: (made.append(trial), 0.0)},
        target=ApproxDP(9.0, 1e-5),
        trials=9,
        rng=seed,
    )
    return len(made)


def test_logs_of_persons_refuse_them(people, tmp_path):
    """What protects a record protects no person."""
    bins = cut(people)
    for role in ("state", "action"):
        columns = {"state": None, "action": {"dose": Categories((0, 1))}, role: bins}
        with pytest.raises(ValueError, match=f"{role}: the edges of 'age' must be public"):
            LogSchema(person="p", most_steps=3, action=columns["action"], state=columns["state"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "id must be a text"),
        ({"relation": 3}, "relation must be a text"),
        ({"randomness": "none"}, "randomness must be"),
        ({"epsilon": -0.1}, "epsilon must be >= 0"),
        ({"epsilon": float("nan")}, "epsilon must be a finite number"),
        ({"epsilon": float("inf")}, "epsilon must be a finite number"),
        ({"epsilon": "1"}, "epsilon must be a finite number"),
        ({"delta": 1.0}, "delta must be >= 0 and < 1"),
        ({"delta": None}, "released must have the entries"),
        ({"more": 1}, "released must have the entries"),
    ],
    ids=str,
)
def test_a_schema_with_another_release_is_refused(change, message, tmp_path):
    release = {"id": "a", "relation": "r", "randomness": "secret", "epsilon": 1.0, "delta": 0.0}
    changed = {name: each for name, each in {**release, **change}.items() if each is not None}
    column = {"edges": [0, 1, 2], "released": changed}
    with pytest.raises(ValueError, match=message):
        Schema.from_dict({"columns": {"x": column}})
    with pytest.raises(ValueError, match="released must have"):
        Schema.from_dict({"columns": {"x": {**column, "released": "yes"}}})
    assert BinsRelease.from_dict(release).to_dict() == release


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(people, schema, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people.to_csv("people.csv", index=False)
    schema.save("schema.toml")
    return tmp_path


COMMANDS = {
    "histogram": ["--column", "age"],
    "naive-bayes": ["--target-column", "ill"],
    "classify": ["--target-column", "ill", "--choose", "model=naive-bayes,logistic-regression"],
    "bayes-net": [],
}


@pytest.mark.slow
@pytest.mark.needs("bokeh")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_state_it(command, folder, schema):
    options = [*COMMANDS[command], "--schema", "schema.toml", "--out", "out", "--report"]
    result = run(command, "people.csv", *options)
    assert result.exit_code == 0, said(result)
    words = "its bins were released at a cost beside it: (0.1, 1e-06)-differential privacy"
    assert words in result.output
    statement = json.loads((folder / "out" / "release.json").read_text())
    assert statement["guarantee"]["bins"] == stated(schema)
    page = (folder / "out" / "report-public.html").read_text()
    assert words[1:] in page
    shared = run("share", "out", "--to", "public")
    assert shared.exit_code == 0, said(shared)
    assert words in shared.output
    copied = json.loads((folder / "public" / "release.json").read_text())
    assert copied["guarantee"]["bins"] == stated(schema)
    printed = run(command, "people.csv", *options, "--force", "--json")
    (bins,) = json.loads(printed.stdout)["guarantee"]["bins"]
    assert bins["epsilon"] == 0.1


@pytest.mark.slow
def test_numbers_of_even_bins_need_public_ends_alone(folder):
    """The edges are not those that were released."""
    options = ["--schema", "schema.toml", "--target-column", "ill", "--out", "out"]
    result = run("classify", "people.csv", *options, "--choose", "bins=2,3")
    assert result.exit_code == 0, said(result)
    assert "bins" not in json.loads((folder / "out" / "release.json").read_text())["guarantee"]


def test_weak_bins_make_a_weak_release(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people.to_csv("people.csv", index=False)
    Schema(cut(people, target=ApproxDP(9.5, 1e-5))).save("schema.toml")
    options = ["--column", "age", "--schema", "schema.toml", "--out", "out"]
    assert run("histogram", "people.csv", *options).exit_code == 0
    weak = run("share", "out", "--to", "public")
    assert weak.exit_code != 0
    assert "epsilon of 10.5" in said(weak)
    assert not (tmp_path / "public").exists()


def test_seeded_bins_are_not_shared(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people.to_csv("people.csv", index=False)
    Schema(cut(people, rng=0)).save("schema.toml")
    options = ["--column", "age", "--schema", "schema.toml", "--out", "out"]
    result = run("histogram", "people.csv", *options)
    assert "the seed of the bins" in result.output
    assert run("share", "out", "--to", "public").exit_code != 0


def test_amounts_of_bins_are_added():
    own = {"epsilon_delta": 1.0, "delta": 1e-5, "epsilon": None, "order": None}
    bins = [{"epsilon": 0.5, "delta": 1e-6}, {"epsilon": 0.25, "delta": 0.0}]
    assert amounts_of({**own, "bins": bins}) == pytest.approx((1.75, 1.1e-5))
    assert amounts_of(own) == (1.0, 1e-5)


def test_an_accountant_has_the_sum(people):
    accountant = RdpAccountant(budget=PureDP(1.0))
    bins = cut(people, target=PureDP(0.25), accountant=accountant)
    schema = Schema({**bins, "ill": Categories(("no", "yes"))})
    model = PrivateNaiveBayes(schema, classes="ill", target=PureDP(0.75))
    model.fit(people[["age"]], people["ill"], accountant=accountant)
    with pytest.raises(BudgetExceeded):
        cut(people, target=PureDP(0.01), accountant=accountant)
    said = model.guarantee
    assert said["epsilon"] + said["bins"][0]["epsilon"] == pytest.approx(1.0)
