"""``privrl classify --choose``: one release under one budget, and a file that states its cost."""

import copy
import json
import pickle
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from commands import run, said
from made import Episode

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from joblib import Parallel, delayed
from sklearn.pipeline import Pipeline

from privrl.accounting import ApproxDP, Ledger, PureDP, RdpAccountant, ZeroConcentratedDP
from privrl.agents import PSRL
from privrl.cli import classifiers as _classifiers
from privrl.cli.released import Release
from privrl.continuous import (
    ContinuousLog,
    ContinuousSchema,
    Number,
    ReleasedContinuousEnv,
    fit_continuous_model,
    plan_continuous,
)
from privrl.costs import ReplaceRecord, ReplaceStep
from privrl.costs.relations import AddRemovePerson, Relation
from privrl.costs.selection import ConcentratedCost, PureCost
from privrl.data.logs.episodes import from_buffer
from privrl.data.schema import Bins, Categories, Schema
from privrl.envs import Released, ReleasedEnv, riverswim, save_released
from privrl.experiments.training import TrainSpec, run_training
from privrl.files.chosen import CAVEAT
from privrl.files.sharing import SECRET, SEEDED
from privrl.mechanisms.selection import Trial, select_private
from privrl.models import (
    PrivateBayesNet,
    PrivateClassifier,
    PrivateLogisticRegression,
    PrivateNaiveBayes,
    histogram,
)
from privrl.models.logistic_regression.choice import classifier_from_dict, load_classifier
from privrl.offline import ReleasedPolicy, fit_model, fit_policy, save_policy
from privrl.offline.policy import LoggedPolicy

BINS = ("--choose", "bins=4,32")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """3,000 records whose class changes along a column too often for four bins."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, 3000)
    frame = pd.DataFrame({"x": x.round(2), "tall": np.sin(x / 5) + rng.normal(0, 0.2, 3000) > 0})
    frame.to_csv(tmp_path / "data.csv", index=False)
    schema = Schema({"x": Bins.even(0, 100, 8), "tall": Categories((True, False))})
    schema.save(tmp_path / "schema.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVRL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path


def classify(*more: object):
    return run("classify", "data.csv", "--schema", "schema.toml", "--target-column", "tall", *more)


def _model() -> dict:
    return json.loads(Path("results/classify/model.json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_best_is_released_under_the_stated_budget() -> None:
    seeded = ("--reproducible", "--seed", 4)
    result = classify(*BINS, "--epsilon", 2, "--test", "data.csv", "--json", *seeded)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["chosen"], answer["candidates"]) == ("bins=32", ["bins=4", "bins=32"])
    assert answer["scores"]["accuracy"] > 0.8
    assert answer["guarantee"]["epsilon_delta"] == 2
    (account,) = Ledger().accounts()
    assert account.total.releases == 1
    assert 1.999 < account.total.epsilon(1e-5) <= 2
    for kind in (PrivateNaiveBayes, PrivateLogisticRegression):
        with pytest.raises(
            ValueError, match=r"model\.json: the file must hold a classifier that was "
        ):
            kind.load("results/classify/model.json")
    model = load_classifier("results/classify/model.json")
    assert model.schema.columns["x"].size == 32
    assert 1.999 < model.guarantee["epsilon"] <= 2
    assert _model()["guarantee"] == dict(model.guarantee)
    assert float(model.cost_.epsilon(1e-5)) < 1.5  # its own fit
    assert model.to_dict() == _model()  # not the cost of the fit alone
    model.target = ApproxDP(2, 1e-5)
    with pytest.raises(ValueError, match="with the parameters that it was fitted with"):
        model.to_dict()
    again = run("predict", "results/classify/model.json", "data.csv")
    assert f"accuracy {answer['scores']['accuracy']:.4f}" in said(again)
    first = _model()
    assert classify(*BINS, "--epsilon", 2, "--force", *seeded).exit_code == 0
    assert _model() == first


@pytest.mark.slow
@pytest.mark.needs("bokeh")
@pytest.mark.usefixtures("folder")
def test_a_report_says_what_was_chosen() -> None:
    assert classify(*BINS, "--epsilon", 2, "--reproducible", "--seed", 4).exit_code == 0
    page = run("report", "results/classify")
    assert page.exit_code == 0, page.output
    text = next(Path("results/classify").glob("report*.html")).read_text()
    assert "It was chosen privately (bins=32) among bins=4, bins=32." in text


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_pure_privacy_and_kinds_of_models() -> None:
    result = classify(*BINS, "--delta", 0)
    assert result.exit_code == 0, result.output
    assert load_classifier("results/classify/model.json").guarantee["delta"] == 0
    result = classify("--choose", "model=naive-bayes,logistic-regression", "--out", "kinds")
    assert result.exit_code == 0, result.output
    assert "chosen privately: model=" in said(result)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--choose", "bins=4"), "at least two different values"),
        (("--choose", "bins=4,4"), "at least two different values"),
        (("--choose", "degree=2,3"), "choose must be like bins=4,8,16"),
        (("--choose", "bins=4,many"), "bins of choose must be whole numbers"),
        (("--choose", "bins=1,4"), "at least two cells"),
        (("--choose", "model=naive-bayes,forest"), "must be one of"),
        ((*BINS, "--model", "forest"), "model must be one of"),
        (("--choose", "model=naive-bayes,logistic-regression", "--delta", 0), "Gaussian noise"),
        ((*BINS, "--epsilon", 0), "epsilon must be"),
        ((*BINS, "--test", "nowhere.csv"), "nowhere.csv"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_options_spend_and_write_nothing(options, message: str) -> None:
    result = classify(*options)
    assert result.exit_code == 2, result.output
    assert message in said(result)
    assert not Path("results").exists()
    assert not (Ledger().is_there and Ledger().accounts())


@pytest.mark.usefixtures("folder")
def test_a_file_without_records_spends_nothing() -> None:
    Path("data.csv").write_text("x,tall\n")
    result = classify(*BINS)
    assert result.exit_code == 2, result.output
    assert not (Ledger().is_there and Ledger().accounts())


@pytest.mark.usefixtures("folder")
def test_a_stop_before_the_charge_says_nothing_of_a_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial on made-up records said that its budget was charged, and none of the ledger was."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateNaiveBayes, "_learn_tables", stop)
    result = classify("--choose", "model=naive-bayes,logistic-regression")
    assert result.exit_code == 130
    assert said(result).endswith("stopped; no file is incomplete.")
    assert not (Ledger().is_there and Ledger().accounts())


@pytest.mark.usefixtures("folder")
def test_bins_need_a_numeric_column() -> None:
    Schema({"x": Categories((1, 2)), "tall": Categories((True, False))}).save("schema.toml")
    assert "needs a numeric column" in said(classify(*BINS))


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("kind", ["naive-bayes", "logistic-regression"])
def test_a_candidate_pays_for_its_fit_and_its_score(kind: str, pure: bool) -> None:
    if pure and kind == "logistic-regression":
        return
    rng = np.random.default_rng(1)
    records = pd.DataFrame({"x": rng.uniform(0, 1, 500), "y": rng.integers(2, size=500)})
    schema = Schema({"x": Bins.even(0, 1, 4), "y": Categories((0, 1))})
    release = Release(context=None, answer={}, out=Path(), seed=None)
    relation = ReplaceRecord()
    target = PureDP(0.3) if pure else ZeroConcentratedDP(0.02)
    cost = (
        PureCost(epsilon_pure=0.3, relation=relation)
        if pure
        else ConcentratedCost(rho=0.02, relation=relation)
    )
    trial = Trial(cost, target, rng)
    _classifiers._candidate(release, records, schema, "y", kind)(trial)
    spent = [target.amount(entry.cost) * entry.count for entry in trial.accountant.journal]
    assert len(spent) == 2
    assert float(spent[0] / target.limit) == pytest.approx(0.9, abs=1e-6)
    assert float(spent[1] / target.limit) == pytest.approx(0.1, abs=1e-6)


# Files ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_file_that_states_too_little_is_refused() -> None:
    assert classify(*BINS).exit_code == 0
    good = _model()
    assert isinstance(classifier_from_dict(good), PrivateNaiveBayes)
    for entry, value, message in (
        ("trials", 1000, "no more than a trial"),
        ("trials", 0, "trials must be"),
        ("candidates", ["bins=4"] if good["chosen"] == "bins=32" else ["bins=32"], "candidates"),
        ("candidates", "bins=4", "candidates"),
        ("target", None, "target must be"),
        ("target", {"epsilon": 0.5, "delta": 1e-5}, "guarantee must be"),
        ("guarantee", {**good["guarantee"], "epsilon": 0.5}, "guarantee must be"),
        ("randomness", "seeded", "randomness must be"),
        ("shareable", False, "shareable must be"),
        ("model", good, "not chosen alone"),
        ("model", 3, "not chosen alone"),
        ("model", {**good, "format": f"{good['format']} of a trial"}, "not chosen alone"),
        ("model", {**good["model"], "learned": None}, "learned must be"),
        ("model", {**good["model"], "learned": True}, "shareable must be"),
        ("model", {**good["model"], "randomness": 3}, "randomness must be"),
        ("model", {**good["model"], "shareable": True}, "not state its own shareable"),
        ("format", "privrl.ChosenClassifier 1", "entries"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier_from_dict({**good, entry: value})
    with pytest.raises(ValueError, match="must have the entries"):
        classifier_from_dict({**good, "more": 1})
    smaller = {**good, "target": {"epsilon": 0.5, "delta": 1e-5}}
    smaller["guarantee"] = {**good["guarantee"], "epsilon": 0.5, "delta": 1e-5}
    with pytest.raises(ValueError, match="no more than a trial"):
        classifier_from_dict(smaller)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_chosen_classifier_that_is_fitted_again_states_its_own_cost() -> None:
    assert classify(*BINS, "--epsilon", "0.2").exit_code == 0
    model, records = load_classifier("results/classify/model.json"), pd.read_csv("data.csv")
    assert isinstance(model, PrivateNaiveBayes)
    assert model.guarantee["epsilon"] == pytest.approx(0.2, abs=1e-6)
    accountant = RdpAccountant()
    model.set_params(target=ApproxDP(5, 1e-5))
    model.fit(records[["x"]], records["tall"], accountant=accountant)
    assert model.guarantee["epsilon"] == pytest.approx(accountant.epsilon(1e-5), rel=1e-6)
    assert model.guarantee["epsilon"] > 4


def _chosen_gradients(*, loaded: bool) -> PrivateLogisticRegression:
    """Return a logistic regression that was chosen, perhaps from its file."""
    schema = Schema({"a": Bins.even(0, 9, 3), "b": Bins.even(0, 9, 3), "y": Categories((0, 1))})
    records = schema.decode(np.random.default_rng(0).integers(0, 2, (500, 3)))

    def candidate(trial: Trial) -> tuple[PrivateLogisticRegression, float]:
        model = PrivateLogisticRegression(schema, classes="y", target=trial.part(0.9))
        model.fit(records[["a", "b"]], records["y"], accountant=trial.accountant)
        return model, trial.noisy([1, 2], 0.1)[0]

    target = ApproxDP(1, 1e-5)
    best = select_private({"one": candidate, "two": candidate}, target=target)
    model = classifier_from_dict(best.result.to_dict()) if loaded else best.result
    assert isinstance(model, PrivateLogisticRegression)
    assert model.total_cost_ == best.cost
    return model


@pytest.mark.slow
@pytest.mark.parametrize("loaded", [False, True])
def test_where_a_chosen_classifier_began_states_what_the_choice_cost(*, loaded: bool) -> None:
    """The naive Bayes classifier in it was released because of its scores as well."""
    model = _chosen_gradients(loaded=loaded)
    begun = model.naive_bayes_
    for each in (begun, begun.with_temperature(0.5), copy.deepcopy(begun)):
        assert each.guarantee == model.guarantee
        assert 0.999 < each.guarantee["epsilon"] <= 1
        assert each.to_dict()["guarantee"] == dict(model.guarantee)
        assert each.to_dict()["candidates"] == ["one", "two"]
        other = PrivateLogisticRegression(
            begun.schema, classes=begun.classes, target=ApproxDP(1, 1e-5)
        )
        with pytest.raises(ValueError, match="not chosen among several"):
            other.fit([[0.5, 0.5]], [0], naive_bayes=each)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_chosen_classifier_is_no_beginning_of_another() -> None:
    """The cost of its own fit, which that would state, is less than it cost."""
    assert classify(*BINS).exit_code == 0
    begun, records = load_classifier("results/classify/model.json"), pd.read_csv("data.csv")
    model = PrivateLogisticRegression(begun.schema, classes="tall", target=ApproxDP(1, 1e-5))
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="not chosen among several"):
        model.fit(records[["x"]], records["tall"], accountant=accountant, naive_bayes=begun)
    assert accountant.epsilon(1e-5) == 0


RECORDS = pd.DataFrame({"a": [0, 1] * 100, "b": [0, 0, 1, 1] * 50})
CELLS_OF_A = pd.DataFrame({"a": [0, 1]})
CELLS = Schema({name: Categories((0, 1)) for name in RECORDS})
STEPS = Episode([0, 1, 1], [0, 1], [0.5, 1.0], [False, True], [False, False])
PERSONS = from_buffer([STEPS] * 40, n_states=2, n_actions=2, reward_bounds=(0, 1), most_steps=2)
RANGE = Number(low=0, high=1, levels=2)
NUMBERS = ContinuousLog.from_buffer(
    [Episode([[0.1], [0.5], [0.7]], [0.1, 0.9], [0.5, 1.0], [False, True], [False, False])] * 40,
    ContinuousSchema(state={"x": RANGE}, action={"a": RANGE}, reward=RANGE),
)
RELEASES: dict[str, Callable[[Trial, Any], Any]] = {
    "histogram": lambda trial, part: histogram(
        RECORDS["a"], CELLS.columns["a"], target=part, accountant=trial.accountant
    ),
    "network": lambda trial, part: PrivateBayesNet(
        parents={"a": (), "b": ("a",)}, schema=CELLS, target=part
    ).fit(RECORDS, accountant=trial.accountant),
    **{
        kind.__name__: lambda trial, part, kind=kind: kind(CELLS, classes="b", target=part).fit(
            RECORDS[["a"]], RECORDS["b"], accountant=trial.accountant
        )
        for kind in (PrivateNaiveBayes, PrivateLogisticRegression, PrivateClassifier)
    },
    "model of numbers": lambda trial, part: fit_continuous_model(
        NUMBERS, target=part, accountant=trial.accountant
    ),
    "model": lambda trial, part: fit_model(
        PERSONS, epsilon=part.epsilon, accountant=trial.accountant
    ),
    "policy": lambda trial, part: fit_policy(
        PERSONS, epsilon=part.epsilon, accountant=trial.accountant
    ),
}


#: What is said of a release that has left its trial by itself.
ALONE = r"must be what the selection returned|must not be saved alone"


@dataclass
class Kept:
    """As a program may keep a model with what it knows of it."""

    model: Any


#: What a trial must have paid for.
UNPAID = "accountant must be that of the trial for each release in a candidate"


def _elsewhere(run: Callable[[], Any]) -> Any:
    """Return what a thread makes, which has no context of a trial."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()


def _saved(made: Any, path: Path) -> None:
    match made:
        case LoggedPolicy():
            epsilon, ends = float(made.cost.pure_epsilon), PERSONS.outcomes
            save_policy(path, ReleasedPolicy.of_log(made, epsilon=epsilon, outcomes=ends))
        case Released():
            save_released(path, made)
        case ReleasedPolicy():
            save_policy(path, made)
        case _:
            made.save(path)


def _tried(kind: str, candidate: Callable[[Trial], Any], trials: int = 1) -> Any:
    """Return what a candidate returned, of which a trial has epsilon .43 of 1."""
    of_persons, pure = kind in ("model", "policy", "model of numbers"), kind in ("model", "policy")
    return select_private(
        {"it": lambda trial: (candidate(trial), 0.0)},
        target=PureDP(1.0) if pure else ApproxDP(1.0, 1e-5),
        trials=trials,
        relation=AddRemovePerson("episode") if of_persons else None,
        rng=0 if trials > 1 else None,
    ).result


def _best(kind: str) -> Any:
    """Return the chosen release of a kind."""
    return _tried(kind, lambda trial: {"made": Kept(RELEASES[kind](trial, trial.part(0.5)))})[
        "made"
    ].model


def _replaced(made: Any) -> Any:
    return replace(made) if is_dataclass(made) else copy.copy(made)


HOW: dict[str, Callable[[Any], Any]] = {
    "itself": lambda made: made,
    "copied": copy.deepcopy,
    "pickled": lambda made: pickle.loads(pickle.dumps(made)),
    "replaced": _replaced,
}


@pytest.mark.few(9)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [each for each in RELEASES if not each.startswith("Private")])
def test_what_was_chosen_is_not_saved_with_the_cost_of_a_trial(
    kind: str, how: str, tmp_path: Path
) -> None:
    """Of epsilon 1 a file stated .43, and privrl share would have copied it."""
    made = HOW[how](_best(kind))
    if kind.startswith("model"):
        assert made.statement["caveats"][-1].startswith("this is the cost of one trial")
    also = {
        "model": lambda: ReleasedPolicy.of_model(made),
        "model of numbers": lambda: plan_continuous(made),
    }
    with pytest.raises(ValueError, match="chosen among several"):
        _saved(made, tmp_path / "it")
    if kind in also:
        plan = HOW[how](also[kind]())
        with pytest.raises(ValueError, match="chosen among several"):
            _saved(plan, tmp_path / "it")
        if kind == "model":
            with pytest.raises(ValueError, match="chosen among several"):
                plan.to_dict()
    assert not list(tmp_path.iterdir())


@pytest.mark.few(9)
@pytest.mark.parametrize("how", [each for each in HOW if each != "replaced"])
@pytest.mark.parametrize("kind", [each for each in RELEASES if each.startswith("Private")])
def test_the_file_of_a_chosen_classifier_states_the_selection(
    kind: str, how: str, tmp_path: Path
) -> None:
    made = HOW[how](_best(kind))
    made = getattr(made, "classifier_", made)
    made.save(tmp_path / "model.json")
    loaded = load_classifier(tmp_path / "model.json")
    assert 0.999 < loaded.guarantee["epsilon"] <= 1
    assert loaded.guarantee == made.guarantee
    assert type(loaded) is type(made)
    assert (loaded.predict(CELLS_OF_A) == made.predict(CELLS_OF_A)).all()


@pytest.mark.slow
def test_a_chosen_classifier_that_was_not_paid_for_is_not_saved(tmp_path: Path) -> None:
    """Nor one of a selection of another relation, which cannot pay for it."""

    def fitted() -> Any:
        model = PrivateNaiveBayes(CELLS, classes="b", target=ApproxDP(5, 1e-5))
        return model.fit(RECORDS[["a"]], RECORDS["b"])

    def free(trial: Trial) -> tuple[Any, float]:
        del trial
        with pytest.raises(ValueError, match=UNPAID):
            fitted()
        return _elsewhere(fitted), 0.0

    best = select_private({"it": free}, target=ApproxDP(1, 1e-5))
    with pytest.raises(ValueError, match="fitted in the trial that chose it"):
        best.result.save(tmp_path / "it")
    mine = Relation("mine", {"counts": [(1, -1)]})
    best = select_private({"it": free}, target=ApproxDP(9, 1e-5), relation=mine)
    with pytest.raises(ValueError, match="fitted in the trial that chose it"):
        best.result.save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


@pytest.mark.few(12)
@pytest.mark.parametrize("where", ["itself", "made in a thread", "pickled in a thread"])
@pytest.mark.parametrize("kind", RELEASES)
def test_what_leaves_a_trial_in_bytes_is_not_saved(kind: str, where: str, tmp_path: Path) -> None:
    """Bytes and files of trials that were not chosen stated the selection, or .43 of epsilon 1."""

    def candidate(trial: Trial) -> bytes:
        def made() -> Any:
            model = RELEASES[kind](trial, trial.part(0.5))
            return getattr(model, "classifier_", model)

        def left(made: Any) -> bytes:
            for name, how in HOW.items():
                if name == "replaced" and kind.startswith("Private"):  # that is not fitted
                    continue
                with pytest.raises(ValueError, match=ALONE):
                    _saved(how(made), tmp_path / "within")
                if hasattr(made, "to_dict"):
                    with pytest.raises(ValueError, match=ALONE):
                        how(made).to_dict()
            return pickle.dumps(made)

        match where:
            case "itself":
                return left(made())
            case "made in a thread":
                return _elsewhere(lambda: left(made()))
        return _elsewhere(partial(left, made()))

    made = pickle.loads(_tried(kind, candidate))
    for each in (made, copy.copy(made) if kind.startswith("Private") else _replaced(made)):
        with pytest.raises(ValueError, match=ALONE):
            _saved(each, tmp_path / "it")
    if kind.startswith("Private"):
        for state in (lambda: made.guarantee, lambda: made.total_cost_, made.to_dict):
            with pytest.raises(ValueError, match=ALONE):
                state()
    if kind.startswith("model"):
        plan = plan_continuous if kind == "model of numbers" else ReleasedPolicy.of_model
        for each in (made, plan(made)):
            assert each.statement["caveats"][-1].startswith("this is the cost of one trial")
        with pytest.raises(ValueError, match=ALONE):
            _saved(plan(made), tmp_path / "it")
    assert not list(tmp_path.iterdir())


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", ["histogram", "network", "PrivateNaiveBayes", "model"])
def test_what_a_container_hides_from_the_collector_is_not_saved(kind: str, tmp_path: Path) -> None:
    """A column of objects of polars was not searched: of epsilon 1, files stated .43."""
    polars = pytest.importorskip("polars", reason="no polars: pip install polars")

    def candidate(trial: Trial) -> Any:
        return polars.Series([RELEASES[kind](trial, trial.part(0.5))], dtype=polars.Object)

    with pytest.raises(ValueError, match=ALONE):
        _saved(_tried(kind, candidate)[0], tmp_path / "it")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_policy_of_an_agent_in_a_thread_of_a_trial_is_not_saved(tmp_path: Path) -> None:
    def made(**options: Any) -> Any:
        env = gym.make("Pendulum-v1")
        return PSRL.private(env, epsilon=1, episodes=3, relation=ReplaceStep(), rng=0, **options)

    def candidate(trial: Trial) -> tuple[bytes, float]:
        def learned() -> bytes:
            agent = made(accountant=trial.accountant).learn()
            assert agent.guarantee()["caveats"] == [CAVEAT]
            return pickle.dumps(agent.to_policy())

        return _elsewhere(learned), 0.0

    relation, target = made()._sampler.cost.relation, ApproxDP(9.0, 1e-5)
    best = select_private({"it": candidate}, target=target, trials=1, relation=relation)
    policy = pickle.loads(best.result)
    assert policy.statement["caveats"] == [CAVEAT]
    with pytest.raises(ValueError, match=ALONE):
        policy.save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_a_beginning_that_left_a_trial_in_bytes_is_in_no_file() -> None:
    X, y = RECORDS[["a"]], RECORDS["b"]

    def candidate(trial: Trial) -> tuple[Any, float]:
        begun = RELEASES["PrivateNaiveBayes"](trial, trial.part(0.5))
        return pickle.dumps(begun), 0.0

    best = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    gradients = PrivateLogisticRegression(CELLS, classes="b", target=ApproxDP(0.5, 1e-5))
    gradients.fit(X, y, naive_bayes=pickle.loads(best.result))
    with pytest.raises(ValueError, match="must be what the selection returned"):
        gradients.to_dict()


@pytest.mark.few(9)
@pytest.mark.parametrize("kind", [each for each in RELEASES if each.startswith("Private")])
def test_what_was_fitted_before_a_trial_is_saved_within_one_as_ever(
    kind: str, tmp_path: Path
) -> None:
    target = ApproxDP(0.25, 1e-5)
    made = RELEASES[kind](SimpleNamespace(accountant=RdpAccountant()), target)
    made = getattr(made, "classifier_", made)

    def candidate(trial: Trial) -> tuple[Any, float]:
        del trial
        pickle.loads(pickle.dumps(made)).save(tmp_path / "it")
        return None, 0.0

    select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    assert load_classifier(tmp_path / "it").guarantee["epsilon"] <= 0.25


def _module(made: Any) -> ModuleType:
    module = ModuleType("mine")
    vars(module)["model"] = made
    return module


class _Slot:
    __slots__ = ("model",)

    def __init__(self, model: Any) -> None:
        self.model = model


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "held",
    [
        *("subclass", "pipeline", "set", "namespace", "key", "view", "deque", "slot"),
        *("array", "scalar array", "array of records", "series", "closure", "default", "partial"),
        *("method", "iterator", "map", "generator", "cached", "class", "property", "module"),
    ],
)
def test_whatever_holds_what_was_chosen_its_file_states_the_selection(
    held: str, tmp_path: Path
) -> None:
    """A subclass and a pipeline of scikit-learn's were saved with the cost of a trial."""

    class Mine(PrivateNaiveBayes):
        __module__ = "mine"

    def candidate(trial: Trial) -> tuple[Any, float]:
        kind = Mine if held == "subclass" else PrivateNaiveBayes
        made = kind(CELLS, classes="b", target=trial.part(0.5)).fit(
            RECORDS[["a"]], RECORDS["b"], accountant=trial.accountant
        )
        holders: dict[str, Callable[[], Any]] = {
            "subclass": lambda: made,
            "pipeline": lambda: Pipeline([("model", made)]),
            "set": lambda: {made},
            "namespace": lambda: SimpleNamespace(model=made),
            "key": lambda: {made: "a"},
            "view": lambda: MappingProxyType({"a": made}),
            "deque": lambda: deque([made]),
            "slot": lambda: _Slot(made),
            "array": lambda: np.array([made], object),
            "scalar array": lambda: np.array(made, object),
            "array of records": lambda: np.array([(1, made)], [("a", int), ("b", object)]),
            "series": lambda: pd.Series([made]),
            "closure": lambda: lambda X: made.predict(X)[0],
            "default": lambda: lambda X, held=made: held.predict(X),
            "partial": lambda: partial(print, end=made),
            "method": lambda: made.predict,
            "iterator": lambda: iter([made]),
            "map": lambda: map(str, [made]),
            "generator": lambda: (each for each in (made, made)),
            "cached": lambda: lru_cache(lambda: made),
            "class": lambda: type("Mine", (), {"model": made}),
            "property": type("Mine", (), {"model": property(lambda _: made)}),
            "module": lambda: _module(made),
        }
        kept.append(made)
        return holders[held](), 0.0

    kept: list[Any] = []
    select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    kept[-1].save(tmp_path / "it")
    assert 0.999 < load_classifier(tmp_path / "it").guarantee["epsilon"] <= 1


@pytest.mark.few(2)
@pytest.mark.parametrize("tabular", [False, True])
def test_the_policy_of_a_chosen_agent_is_not_saved(tabular: bool, tmp_path: Path) -> None:
    """It was, with the cost of one trial."""

    def made(**options: Any) -> Any:
        env = riverswim() if tabular else gym.make("Pendulum-v1")
        return PSRL.private(env, epsilon=1, episodes=3, relation=ReplaceStep(), rng=0, **options)

    cost = made()._sampler.cost

    def candidate(trial: Trial) -> tuple[Any, float]:
        agent = made(accountant=trial.accountant).learn()
        assert len(trial.accountant.journal) == 1
        if tabular:
            with pytest.raises(ValueError, match=ALONE):
                agent.save(tmp_path / "checkpoint")
            with pytest.raises(ValueError, match=ALONE):
                agent.to_policy().save(tmp_path / "within")
        with pytest.raises(ValueError, match=UNPAID):
            made().learn()
        return agent, 0.0

    target = ApproxDP(9.0, 1e-5)
    best = select_private({"it": candidate}, target=target, trials=1, relation=cost.relation)
    policy = best.result.to_policy()
    said = policy.guarantee if tabular else policy.statement
    assert sum(each.startswith("this is the cost of one trial") for each in said["caveats"]) == 1
    with pytest.raises(ValueError, match="chosen among several"):
        policy.save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


@pytest.mark.few(2)
@pytest.mark.parametrize("tabular", [True, False])
def test_an_agent_of_a_trial_learns_no_more_after_it(tabular: bool) -> None:
    """Its sampler had paid for all draws at once, so it asked the ended trial for nothing."""
    kept: list[Any] = []

    def made(**options: Any) -> Any:
        env = riverswim() if tabular else gym.make("Pendulum-v1")
        return PSRL.private(env, epsilon=1, episodes=9, relation=ReplaceStep(), rng=0, **options)

    def candidate(trial: Trial) -> tuple[None, float]:
        kept.append(made(accountant=trial.accountant).learn(3))
        return None, 0.0

    relation = made()._sampler.cost.relation
    select_private({"it": candidate}, target=ApproxDP(9.0, 1e-5), trials=2, relation=relation)
    for agent in kept:
        with pytest.raises(ValueError, match="the trial has ended"):
            agent.learn(6)


@pytest.mark.few(9)
@pytest.mark.parametrize("held", ["environment", "environment of numbers", "training"])
def test_what_is_in_an_object_of_privrl_is_not_saved(held: str, tmp_path: Path) -> None:
    """An environment was marked, and not the model in it; nor the policy of a run."""

    def candidate(trial: Trial) -> tuple[Any, float]:
        match held:
            case "environment":
                model = RELEASES["model"](trial, trial.part(0.5))
                return ReleasedEnv(released=model), 0.0
            case "environment of numbers":
                model = RELEASES["model of numbers"](trial, trial.part(0.5))
                return ReleasedContinuousEnv(released=model), 0.0
        return trained, 0.0

    trained = run_training(TrainSpec(env="privrl/RiverSwim-v0", episodes=3))
    made: Any = select_private(
        {"it": candidate},
        target=PureDP(1.0) if held == "environment" else ApproxDP(1.0, 1e-5),
        trials=1,
        relation=None if held == "training" else AddRemovePerson("episode"),
    ).result
    with pytest.raises(ValueError, match="chosen among several"):
        made.policy.save(tmp_path / "it") if held == "training" else _saved(
            made.released, tmp_path / "it"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression])
def test_what_a_chosen_file_holds_is_read_with_all_of_it(kind: Any) -> None:
    """A part of it, read alone, stated what one trial had cost, and was shareable."""

    def candidate(trial: Trial) -> tuple[Any, float]:
        model = kind(CELLS, classes="b", target=trial.part(0.9))
        return model.fit(RECORDS[["a"]], RECORDS["b"], accountant=trial.accountant), 0.0

    best = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    data = json.loads(json.dumps(best.result.to_dict()))
    parts = [data["model"]]
    if kind is PrivateLogisticRegression:
        parts.append(data["model"]["naive_bayes"])
    for part in parts:
        assert not part.keys() & {"guarantee", "shareable", "because"}
        for read in (PrivateNaiveBayes.from_dict, PrivateLogisticRegression.from_dict):
            with pytest.raises(ValueError, match="with the whole file of what was chosen"):
                read(part)
    assert not hasattr(best.result, "plain")
    loaded = classifier_from_dict(data)
    assert loaded.to_dict() == data
    assert loaded.guarantee == best.result.guarantee


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression])
def test_an_interrupted_fit_knows_which_trial_paid_for_it(kind: Any) -> None:
    """At each of its last lines: its file stated what the fit alone had cost."""
    lines, ends = 0, 0
    files = ("models/classifiers.py", "logistic_regression/classifier.py", "files/chosen.py")

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            lines += 1
            if lines == ends:
                raise KeyboardInterrupt
        return trace

    def candidate(trial: Trial) -> tuple[Any, float]:
        model.set_params(target=trial.part(0.9))
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            model.fit(RECORDS[["a"]], RECORDS["b"], accountant=trial.accountant)
        finally:
            sys.settrace(before)
        return model, 0.0

    model = kind(CELLS, classes="b")
    select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    last, fitted = lines, 0
    for end in range(last, last - 40, -1):
        lines, ends, model = 0, end, kind(CELLS, classes="b")
        with pytest.raises(KeyboardInterrupt):
            select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
        for made in (model, getattr(model, "naive_bayes_", None)):
            if hasattr(made, "classes_"):
                fitted += 1
                for state in (lambda made=made: made.guarantee, made.to_dict):
                    with pytest.raises(ValueError, match="must be what the selection returned"):
                        state()
    assert fitted > 0


@pytest.mark.few(2)
@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_in_a_chosen_classifier_is_not_fitted_again(*, loaded: bool) -> None:
    """Its file stated the selection, with counts of the records in it."""
    part = _chosen_gradients(loaded=loaded).naive_bayes_
    part.set_params(target=None, mechanism="none")
    with pytest.raises(ValueError, match="part of another is not fitted again"):
        part.fit([[0.5, 0.5]], [0])


@pytest.mark.parametrize("kind", ["as it is", "in a classifier", "as a beginning", "its beginning"])
def test_what_was_fitted_before_a_selection_states_no_cost_of_it(kind: str) -> None:
    """A fit of epsilon .66 was chosen for 1, which its file stated: both together cost 1.21."""
    begun = PrivateNaiveBayes(CELLS, classes="b", target=ZeroConcentratedDP(0.001))
    X, y = RECORDS[["a"]], RECORDS["b"]
    begun.fit(X, y)
    whole = PrivateClassifier(CELLS, classes="b", target=ZeroConcentratedDP(0.001)).fit(X, y)
    own = dict(begun.guarantee)

    def candidate(trial: Trial) -> tuple[Any, float]:
        score = float(trial.noisy([1, 2], 0.5)[0])
        if kind == "as it is":
            return begun, score
        if kind == "in a classifier":
            return whole, score
        gradients = PrivateLogisticRegression(CELLS, classes="b", target=trial.part(0.4))
        return gradients.fit(X, y, naive_bayes=begun, accountant=trial.accountant), score

    made = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1).result
    made = made.classifier_ if kind == "in a classifier" else made
    if kind == "its beginning":
        assert dict(begun.guarantee) == own  # no selection returned it
        made = made.naive_bayes_
    for state in (lambda: made.guarantee, lambda: made.total_cost_, made.to_dict):
        with pytest.raises(ValueError, match="fitted in the trial that chose it"):
            state()
    assert own["rho"] > 0


@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression])
def test_a_second_fit_of_the_same_cost_is_not_paid_for_by_the_first(kind: Any) -> None:
    """Its file stated the selection, which had paid for the first alone: both cost 1.35."""
    X, y = RECORDS[["a"]], RECORDS["b"]

    def candidate(trial: Trial) -> tuple[Any, float]:
        paid = kind(CELLS, classes="b", target=trial.part(0.5))
        paid.fit(X, y, accountant=trial.accountant)
        free = kind(CELLS, classes="b", target=trial.part(0.5))
        with pytest.raises(ValueError, match=UNPAID):
            free.fit(X, y)
        return (paid, _elsewhere(lambda: free.fit(X, y))), 0.0

    best = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    paid, free = best.result
    for made in (free, copy.deepcopy(free), pickle.loads(pickle.dumps(free))):
        with pytest.raises(ValueError, match="fitted in the trial that chose it"):
            made.to_dict()
    assert paid.total_cost_ == pickle.loads(pickle.dumps(paid)).total_cost_ == best.cost
    paid.fit(X, y)  # again, by itself
    assert paid.total_cost_ == paid.cost_


@pytest.mark.few(10)
@pytest.mark.parametrize("kind", [*RELEASES, "a closure"])
def test_a_candidate_returns_no_release_of_another_trial(kind: str) -> None:
    """The last one's score was returned with it, and only its file was refused."""
    kept: list[Any] = []
    release = RELEASES["PrivateNaiveBayes" if kind == "a closure" else kind]

    def candidate(trial: Trial) -> Any:
        kept.append(release(trial, trial.part(0.5)))
        return (lambda: kept) if kind == "a closure" else kept[0]

    with pytest.raises(ValueError, match="released in its own trial, got a release of another"):
        _tried(kind, candidate, trials=1000)
    assert len(kept) == 2


@pytest.mark.few(12)
@pytest.mark.parametrize("held", ["itself", "pipeline", "copied", "in threads"])
@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression, PrivateClassifier])
def test_a_classifier_that_all_trials_share_is_not_fitted_again(kind: Any, held: str) -> None:
    """The best trial's score came with the last one's fit, whose file was refused."""
    X, y = RECORDS[["a"]], RECORDS["b"]
    shared, scores = kind(CELLS, classes="b"), []

    def candidate(trial: Trial) -> tuple[Any, float]:
        model = copy.deepcopy(shared) if held == "copied" else shared
        shared.set_params(target=trial.part(0.9))
        model.set_params(target=trial.part(0.9))
        made = Pipeline([("model", model)]) if held == "pipeline" else model
        named = {"model__accountant" if held == "pipeline" else "accountant": trial.accountant}
        fit = partial(made.fit, X, y, **named)
        _elsewhere(fit) if held == "in threads" else fit()
        if held == "copied":
            shared.__dict__.update(vars(model))
        scores.append(-len(scores))
        return made, float(scores[-1])

    def best(**more: Any) -> Any:
        return select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), **more)

    with pytest.raises(ValueError, match="that one trial fitted must not be fitted in another"):
        best(trials=1000)
    assert scores == [0]
    shared.fit(X, y)  # outside of trials, and by itself
    assert best(trials=1).score == -1
    with pytest.raises(ValueError, match="make a new classifier in the candidate"):
        best(trials=1)
    shared = kind(**shared.get_params())
    assert best(trials=1).score == -2


@pytest.mark.parametrize("held", [False, True])
def test_a_later_trial_does_not_replace_what_is_in_the_best_result(*, held: bool) -> None:
    """An object that all trials share holds the last fit, with the score of the best one."""
    shared, scores = SimpleNamespace(), []

    def candidate(trial: Trial) -> tuple[Any, float]:
        shared.model = RELEASES["PrivateNaiveBayes"](trial, trial.part(0.5))
        scores.append(-len(scores))
        return (shared,) if held else shared, float(scores[-1])

    with pytest.raises(ValueError, match="make in the candidate all that it fits"):
        select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1000)
    assert scores == [0, -1]


@pytest.mark.slow
def test_what_a_trial_copies_and_sends_to_processes_states_the_selection() -> None:
    """Fits are copied, pickled for a process that predicts, and cached as ever."""
    X, y = RECORDS[["a"]], RECORDS["b"]
    base = PrivateNaiveBayes(CELLS, classes="b")

    def candidate(trial: Trial) -> tuple[Any, float]:
        model = PrivateNaiveBayes(**base.get_params()).set_params(target=trial.part(0.5))
        model.fit(X, y, accountant=trial.accountant).fit(X, y, accountant=trial.accountant)
        there = Parallel(n_jobs=2)(delayed(model.predict)(X) for _ in range(2))
        assert all((each == model.predict(X)).all() for each in there)
        back = pickle.loads(pickle.dumps(model))
        made = {"itself": model, "copied": copy.copy(model), "deep": copy.deepcopy(back)}
        return made, float((there[0] == y).sum())

    best = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=5, rng=1)
    for made in best.result.values():
        assert made.total_cost_ == best.cost
        assert made.to_dict()["guarantee"] == dict(made.guarantee)


def test_a_beginning_that_the_trial_paid_for_is_in_the_cost_of_the_selection() -> None:
    X, y = RECORDS[["a"]], RECORDS["b"]

    def candidate(trial: Trial) -> tuple[Any, float]:
        begun = PrivateNaiveBayes(CELLS, classes="b", target=trial.part(0.4))
        begun.fit(X, y, accountant=trial.accountant)
        gradients = PrivateLogisticRegression(CELLS, classes="b", target=trial.part(0.4))
        return gradients.fit(X, y, naive_bayes=begun, accountant=trial.accountant), 0.0

    best = select_private({"it": candidate}, target=ApproxDP(1.0, 1e-5), trials=1)
    for made in (best.result, best.result.naive_bayes_):
        assert made.total_cost_ == best.cost
        assert made.to_dict()["guarantee"] == dict(made.guarantee)


@pytest.mark.parametrize("rng", [None, 3], ids=["secret", "seeded"])
def test_a_selection_from_a_seed_says_so(rng: int | None) -> None:
    """Whoever knows the seed knows how many trials there were, each of which cost something."""

    def candidate(trial: Trial) -> tuple[Any, float]:
        fit: Any = {"target": trial.part(0.4), "classes": [0, 1]}
        model = PrivateNaiveBayes([2], **fit).fit([[0], [1]], [0, 1], accountant=trial.accountant)
        categories = Categories(("a", "b"))
        ages = histogram(["a"], categories, target=trial.part(0.4), accountant=trial.accountant)
        return (model, ages), float(trial.noisy([1, 2], 0.1)[0])

    best = select_private({"a": candidate}, target=ApproxDP(5, 1e-5), trials=1, rng=rng)
    model, ages = best.result
    data = model.to_dict()
    secret = rng is None
    assert data["shareable"] is secret
    assert {data["randomness"], model.randomness_, ages.randomness} == {
        SECRET if secret else SEEDED
    }
    assert classifier_from_dict(data).to_dict() == data
