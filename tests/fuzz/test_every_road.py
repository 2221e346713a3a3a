"""Every road from one release into the statement of another: a list, not luck.

`STATES` has all classes that state a guarantee, read from the code; `SLOTS` all public calls and
constructors that take what is released. Each slot is given one of each: it takes it, and then a
test here holds what comes of it against what the source states, or it refuses it in words. What
has a statement or is exported, and is neither listed nor left out with a reason, fails.

A source is weak, of a known seed, of a randomness that nobody says, or has caveats. What is made of
it has to name the source's relation and cost, to be shared no more than the source, and to be as
weak as it is, in memory, in files, in copies and after `privrl share`.
"""

import copy
import importlib
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import calls
import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from commands import run, said

import privrl
from privrl.accounting import ApproxDP
from privrl.agents import PSRL, Policy
from privrl.agents.methods import AGENTS, Method, Task, make_agent
from privrl.cli import app
from privrl.continuous import (
    ContinuousLog,
    ContinuousModel,
    ContinuousPolicy,
    ContinuousSchema,
    Number,
    ReleasedContinuousEnv,
    fit_continuous_model,
    plan_continuous,
)
from privrl.data import Bins, Categories, Schema
from privrl.data.logs import LogSchema, read_log
from privrl.data.schema.released import BinsRelease
from privrl.envs import (
    Ranged,
    Released,
    ReleasedEnv,
    TabularEnv,
    TabularMDP,
    TabularVectorEnv,
    load_released,
    load_tables,
    numbered,
    public_facts,
    save_released,
    save_tables,
)
from privrl.envs.released import privacy_statement
from privrl.envs.wrappers import Discretised
from privrl.experiments import train
from privrl.files.sharing import (
    ARTEFACTS,
    SECRET,
    SEEDED,
    STATEMENTS,
    amounts_of,
    judge_by,
    releases_in,
)
from privrl.mechanisms import select_private
from privrl.models import (
    PrivateBayesNet,
    PrivateClassifier,
    PrivateLogisticRegression,
    PrivateNaiveBayes,
    histogram,
    value_counts,
)
from privrl.offline import (
    ReleasedPolicy,
    evaluate_policy,
    fit_policy,
    load_policy,
    plan_for,
    sample_log,
    save_policy,
)

RELATION, UNIT = "replace one household", "a household"
OWN = {"epsilon": 1.0, "delta": 1e-5}
"""What a sink spends itself."""
KINDS: dict[str, dict[str, Any]] = {
    "secret": {},
    "weak": {"epsilon": 40.0},
    "seeded": {"randomness": SEEDED},
    "unsaid": {"randomness": None},
    "caveats": {"caveats": ["it is not so"]},
    "Rényi": {"order": 20.0},
}
OF_BINS = ("secret", "weak", "seeded")  # a release of bins states no more

# What states a guarantee --------------------------------------------------------------------------

STATES = {
    "Released", "ReleasedEnv", "ReleasedContinuousEnv", "ContinuousModel", "ContinuousPolicy",
    "ReleasedPolicy", "LoggedPolicy", "PolicyValue", "Policy", "Bins", "BinsRelease",
    "PrivateHistogram", "BayesNet", "PrivateNaiveBayes", "PrivateLogisticRegression",
    "PrivateClassifier", "TabularAgent", "ContinuousAgent",
}  # fmt: skip
"""Each is in `objects`, or made of what is there; agents are sinks."""


def _all(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


STATES_LEFT_OUT = {
    **dict.fromkeys(("Saved", "SavedClassifier", "Classifier", "MayBeChosen"), "a base class"),
    **_all(
        "CountsAgent DPUCBVI ExploreThenPlan Oracle PSRL QLearning RLSVI RandomPolicy "
        "SparsePSRL UCBVI _Baseline",
        "an agent, as all in AGENTS, each of which is tried",
    ),
    "PrintedNaiveBayes": "for one figure; no file of it is read as another classifier's",
    "Selection": "marks what a selection returned: test_no_file_of_a_chosen_one_lacks_the_choice",
    **dict.fromkeys(("Watcher", "_Watcher", "_Call"), "sees releases of an audit; has no file"),
    **dict.fromkeys(("Budget", "Release"), "of a command, while that runs; commands are below"),
    "TrainResult": "of privrl train, whose files are below; its policy states the same",
    "Contents": "of a report, which is of files that are judged anew",
}
_NAMES = {"statement", "guarantee", "released", "randomness", "randomness_"}
_ANY = "|".join(_NAMES)
_CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:.*\n((?:    .*\n|\n)*)", re.MULTILINE)
_STATED = re.compile(
    rf"^    (?=\S)(?:def )?(?:[\w, ]*, )?(?:{_ANY})(?:, [\w, ]*)?(?:[:(]| = )"
    rf"|self\.(?:{_ANY})(?:: .*)? = ",
    re.MULTILINE,
)


def classes() -> Iterator[tuple[str, set[str], bool]]:
    """Name, bases, and whether it defines one of `_NAMES`, of each class of the package."""
    package = Path(privrl.__file__).parent
    for folder in (package, *(package / each for each in ("agents", "envs", "experiments"))):
        for path in folder.resolve().rglob("*.py"):  # which follows no links
            for name, bases, body in _CLASS.findall(path.read_text("utf-8")):
                kinds = re.findall(r"\w+", re.sub(r"\[.*?\]", "", bases))
                yield name, set(kinds), bool(_STATED.search(body))


def test_everything_that_states_a_guarantee_is_listed() -> None:
    """A new class belongs into `STATES`, with an object and its roads, or has a reason not to."""
    all_of_them = list(classes())
    found = {name for name, _, states in all_of_them if states}
    found |= {"MayBeChosen"}
    while more := {name for name, bases, _ in all_of_them if bases & found} - found:
        found |= more
    assert found == STATES | STATES_LEFT_OUT.keys()
    made = {type(each).__name__ for each in objects().values()}
    assert STATES - made == {"BinsRelease", "TabularAgent", "ContinuousAgent"}


# One of each --------------------------------------------------------------------------------------


def statement(kind: str = "secret") -> dict[str, Any]:
    given: dict[str, Any] = {"unit": UNIT, "relation": RELATION, "epsilon": 0.5, "delta": 1e-6}
    given |= {"released": "counts", "randomness": SECRET} | KINDS[kind]
    if "order" in given:
        del given["delta"]
    return privacy_statement(**given)


def public() -> TabularMDP:
    rng = np.random.default_rng(0)
    reward = rng.random((3, 2))
    reward[0] = 0, 1
    return TabularMDP(rng.dirichlet(np.ones(3), (3, 2)), reward, np.eye(3)[0], 4)


def model(kind: str = "secret") -> Released:
    return Released(mdp=public(), statement=statement(kind))


NUMBERS = ContinuousSchema(
    state={"x": Number(low=-1, high=1)},
    action={"dose": Number(low=0, high=1, levels=2)},
    reward=Number(low=-1, high=0),
)


@cache
def _number_log() -> ContinuousLog:
    rng = np.random.default_rng(0)
    state, action = rng.uniform(-1, 1, (400, 1)), rng.integers(2, size=400).astype(float)
    after = 0.9 * state - 0.2 * (action[:, None] - 0.5)
    steps = {"state": state, "action": action, "next_state": after, "reward": -abs(after[:, 0])}
    return ContinuousLog.of_arrays(NUMBERS, person=np.arange(400) // 20, **steps)


@cache
def _number_fit() -> ContinuousModel:
    return fit_continuous_model(_number_log(), private=False)


def numbers(kind: str = "secret") -> ContinuousModel:
    return replace(_number_fit(), statement=statement(kind))


def bins_release(kind: str = "secret") -> BinsRelease:
    given = {"epsilon": 0.5, "delta": 1e-6, "randomness": SECRET} | KINDS[kind]
    return BinsRelease(id="0" * 32, relation=RELATION, **given)


def bins(kind: str = "secret") -> Bins:
    return Bins((0, 25, 50, 100), released=bins_release(kind))


def schema(kind: str | None = "secret") -> Schema:
    age = Bins((0, 25, 50, 100)) if kind is None else bins(kind)
    return Schema({"age": age, "ill": Categories(("no", "yes"))})


@cache
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(0, 100, 300), "ill": rng.choice(["no", "yes"], 300)})


def classifier(kind: Any, domain: Schema, **more: Any) -> Any:
    made = kind(domain, classes="ill", target=ApproxDP(*OWN.values()), **more)
    return made.fit(people()[["age"]], people()["ill"])


def network(domain: Schema) -> Any:
    parents = {"age": (), "ill": ("age",)}
    return PrivateBayesNet(parents=parents, schema=domain, **OWN).fit(people())


STEPS = LogSchema(
    person="p",
    state=Schema({"s": Categories((0, 1))}),
    action=Schema({"a": Categories((0, 1))}),
    most_steps=3,
    reward="r",
    reward_bounds=(0.0, 1.0),
)

EVEN = np.full((2, 2), 0.5)


@cache
def log() -> Any:
    rng = np.random.default_rng(0)
    rows = {"p": np.arange(60) // 3, "s": rng.integers(2, size=60), "a": rng.integers(2, size=60)}
    return read_log(pd.DataFrame(rows | {"r": rows["a"].astype(float)}), STEPS)


def learned(env: object, agent: PSRL | None = None) -> Policy:
    made = PSRL.private(env, epsilon=1.0, episodes=4) if agent is None else agent
    return made.learn(env=env).to_policy()


@cache
def objects() -> dict[str, Any]:
    """One of each kind; secret, and of no seed."""
    domain = schema()
    return {
        "Released": model(),
        "TabularMDP": model().mdp,
        "ReleasedEnv": ReleasedEnv(released=model()),
        "ContinuousModel": numbers(),
        "ReleasedContinuousEnv": number_env(numbers()),
        "ContinuousPolicy": plan_continuous(numbers()),
        "ReleasedPolicy": ReleasedPolicy.of_model(model()),
        "LoggedPolicy": fit_policy(log(), epsilon=1.0),
        "PolicyValue": evaluate_policy(log(), np.zeros(2, int), epsilon=1.0, behaviour=EVEN),
        "Policy": learned(model().mdp),
        "Bins": bins(),
        "Schema": domain,
        "PrivateHistogram": histogram(people()["age"].tolist(), bins=bins(), **OWN),
        "BayesNet": network(domain),
        "PrivateNaiveBayes": classifier(PrivateNaiveBayes, domain),
        "PrivateLogisticRegression": classifier(PrivateLogisticRegression, domain),
        "PrivateClassifier": classifier(PrivateClassifier, domain),
    }


def number_env(released: ContinuousModel) -> ReleasedContinuousEnv:
    env = ReleasedContinuousEnv(released=released, horizon=4)
    env.reward_range = (-1.0, 0.0)
    return env


# What takes one -----------------------------------------------------------------------------------

_TABLES = {"TabularMDP", "ReleasedEnv"}
_NUMERIC = {"ReleasedContinuousEnv"}
_CLASSIFIERS = ("PrivateNaiveBayes", "PrivateLogisticRegression", "PrivateClassifier")
Slot = tuple[Callable[[Any, Path], object], set[str]]
SLOTS: dict[str, Slot] = {
    "PSRL": (lambda it, _: PSRL.private(it, epsilon=1.0, episodes=2), _TABLES | _NUMERIC),
    "PSRL.learn": (lambda it, _: learned(it, _agent()), _TABLES),
    "train": (lambda it, _: train(_agent(), it, 2), _TABLES),
    "TabularMDP": (lambda it, _: TabularMDP.from_gymnasium(it, 4), {"ReleasedEnv"}),
    "TabularEnv": (lambda it, _: TabularEnv(it), {"TabularMDP"}),
    "TabularVectorEnv": (lambda it, _: TabularVectorEnv(2, it), {"TabularMDP"}),
    "Released": (lambda it, _: Released(mdp=it, statement=statement()), {"TabularMDP"}),
    "ReleasedEnv": (lambda it, _: ReleasedEnv(released=it), {"Released"}),
    "ReleasedContinuousEnv": (lambda it, _: number_env(it), {"ContinuousModel"}),
    "Ranged": (lambda it, _: Ranged(it), _NUMERIC),
    "numbered": (lambda it, _: numbered(it), {"ReleasedEnv"}),
    "numbered.bins": (lambda it, _: numbered(number_env(numbers()), bins=it), set()),
    "Discretised": (lambda it, _: Discretised(it, [[0.0]]), _NUMERIC),
    "Discretised.bins": (lambda it, _: Discretised(number_env(numbers()), [it]), set()),
    "public_facts": (lambda it, _: public_facts(it), {"ReleasedEnv"}),
    "save_released": (lambda it, to: save_released(to, it), {"Released"}),
    "save_tables": (lambda it, to: save_tables(to / "t.npz", it), {"TabularMDP"}),
    "save_policy": (lambda it, to: save_policy(to / "policy.json", it), {"ReleasedPolicy"}),
    "ReleasedPolicy": (lambda it, _: ReleasedPolicy.of_model(it), {"Released"}),
    "ReleasedPolicy.of_log": (
        lambda it, _: ReleasedPolicy.of_log(it, epsilon=1.0), {"LoggedPolicy"}
    ),
    "plan_for": (lambda it, _: plan_for(it), {"Released"}),
    "plan_continuous": (lambda it, _: plan_continuous(it), {"ContinuousModel"}),
    "sample_log": (lambda it, _: sample_log(it, STEPS, 3), set()),  # of the log's own model
    "evaluate_policy": (
        lambda it, _: evaluate_policy(log(), it, epsilon=1.0, behaviour=EVEN), set()
    ),
    "fit_policy": (lambda it, _: fit_policy(it, epsilon=1.0), set()),
    "fit_policy.behaviour": (lambda it, _: fit_policy(log(), epsilon=1.0, behaviour=it), set()),
    "fit_continuous_model": (lambda it, _: fit_continuous_model(it, epsilon=1.0), set()),
    "Schema": (lambda it, _: Schema({"age": it}), {"Bins"}),
    "LogSchema": (lambda it, _: replace(STEPS, state=it), set()),
    "LogSchema.action": (lambda it, _: replace(STEPS, action=it), set()),
    "histogram": (lambda it, _: histogram([1.0, 2.0], bins=it, **OWN), {"Bins"}),
    "value_counts": (lambda it, _: value_counts(["a"], it, **OWN), set()),
    "PrivateNaiveBayes": (lambda it, _: classifier(PrivateNaiveBayes, it), {"Schema"}),
    "PrivateLogisticRegression": (
        lambda it, _: classifier(PrivateLogisticRegression, it), {"Schema"}
    ),
    "PrivateClassifier": (lambda it, _: classifier(PrivateClassifier, it), {"Schema"}),
    "PrivateLogisticRegression.fit": (lambda it, _: begun(it, schema()), {"PrivateNaiveBayes"}),
    "PrivateBayesNet": (
        lambda it, _: PrivateBayesNet(parents={"age": ()}, schema=it, **OWN), {"Schema"}
    ),
    "PrivateBayesNet.parents": (
        lambda it, _: PrivateBayesNet(parents=it, schema=schema(), **OWN), set()
    ),
}  # fmt: skip


def _agent() -> PSRL:
    return PSRL.private(public(), epsilon=1.0, episodes=4)


def begun(bayes: Any, domain: Schema) -> PrivateLogisticRegression:
    made = PrivateLogisticRegression(domain, classes="ill", target=ApproxDP(*OWN.values()))
    return made.fit(people()[["age"]], people()["ill"], naive_bayes=bayes)


@pytest.mark.few(6)
@pytest.mark.parametrize("slot", SLOTS)
def test_every_pair_is_taken_or_refused_in_words(slot, tmp_path):
    call, takes = SLOTS[slot]
    for name, thing in objects().items():
        if name in takes:
            call(copy.deepcopy(thing) if name in _CLASSIFIERS else thing, tmp_path / name)
            continue
        with pytest.raises((ValueError, TypeError), match=r"\w+ \w+ \w+ \w+") as refused:
            call(thing, tmp_path / name)
        assert "object has no attribute" not in str(refused.value), name


_SETTINGS = "takes numbers, settings, costs or other settings"
_DATA = "reads or describes data or schemas; what is private is not released, and bins stay in them"
_RESULT = "a source, or a result; it is made by others"
_RUNS = "no file of simulated runs may be shared: test_no_file_of_runs_is_shared"
SINKS_LEFT_OUT = {
    **_all(
        "Accountant AddRemoveRecord ApproxDP BetaRewards Budget BudgetExceeded Choice "
        "Concentrated Cost Diffuse DirichletCost DirichletMechanism DiscreteGaussianMechanism "
        "DiscreteLaplaceMechanism EveryEpisode ExponentialMechanism GaussianCost "
        "GaussianMechanism Geometric HatRewards Journal KnownRewards LaplaceMechanism Ledger "
        "LedgerError Mechanism Method NoisyCounts NoisyPosteriorMechanism NoisyRewards "
        "NonPrivate Number PldAccountant PosteriorExponentialMechanism PureDP RdpAccountant "
        "Relation RenyiDP ReplaceEpisode ReplaceRecord ReplaceStep Sampler SimplexMechanism "
        "SparseCounts SumsMechanism Support TablesMechanism TabularSetup Target Transition "
        "ZeroConcentratedDP audit_dirichlet audit_mechanism audit_replay audit_scores benchmark "
        "calibrate design draw law_test plan preset riverswim separation target_of",
        _SETTINGS,
    ),
    **_all(
        "Categories ContinuousLog ContinuousSchema Log discretise fit_model from_minari load "
        "networks read_continuous_log read_documentation read_header read_log "
        "read_partitioned_records read_partitions write_template",
        _DATA,
    ),
    **_all(
        "Bins ContinuousModel ContinuousPolicy LoggedPolicy Policy PolicyValue",
        _RESULT,
    ),
    **_all(
        "SuiteSpec SweepSpec run_suite run_sweep",
        _RUNS,
    ),
    **_all(
        "DPUCBVI ExploreThenPlan QLearning RLSVI SparsePSRL TabularAgent UCBVI",
        "test_every_agent_states_what_it_was_trained_in",
    ),
    **_all(
        "TrainSpec run_training",
        "privrl train, below",
    ),
    **_all(
        "load_policy load_released load_tables",
        "test_copies_state_the_same",
    ),
    "Checkpoint": "tests/agents/test_released_environments.py::test_a_checkpoint_keeps_it",
    "select_private": "test_no_file_of_a_chosen_one_lacks_the_choice",
}
#: Roads on which a statement is lost, and that nothing in a process or file can show.
ROADS_LEFT_OUT = {
    "arrays": "numbers taken out of a release (tables, edges, plans, names of parents) are plain",
    "environments of users": "one that holds a released one, and is no wrapper, hides it",
    "steps by hand": "an agent that is told steps (`observe`) does not know where they are from",
    "synthetic records": "a table of `sample_log` or `sample`, or its file, is a table like others",
    "statements by hand": "whoever makes a Released or a Policy says what it costs",
}


def test_every_public_name_is_a_slot_or_left_out_with_a_reason() -> None:
    exported = {name for name, _ in calls.names()}
    assert exported == (exported & {slot.partition(".")[0] for slot in SLOTS}) | (
        SINKS_LEFT_OUT.keys() & exported
    )
    assert SINKS_LEFT_OUT.keys() <= exported


# What they state ----------------------------------------------------------------------------------


def check(guarantee: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    """What is made of a source names it, and promises and is shared no more than it."""
    every = list(releases_in(guarantee))
    (named,) = (each for each in every if each["relation"] == source["relation"])
    for entry in ("unit", "epsilon", "delta", "order", "randomness", "caveats"):
        assert named.get(entry, []) == source.get(entry, []), entry
    assert guarantee.get("randomness") == source.get("randomness")
    assert set(source.get("caveats", ())) <= set(guarantee["caveats"])
    for mine, theirs in zip(amounts_of(guarantee), amounts_of(source), strict=True):
        assert mine >= theirs
    verdict, whole = (judge_by("policy.json", {"guarantee": each}) for each in (source, guarantee))
    if "id" not in source:  # bins have no caveats, so that nothing judges them alone
        assert whole.shareable is verdict.shareable


def check_page(page: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    """A file states it, and says of itself whether it may be shared."""
    stated = page.get("guarantee") or page["statement"]
    check(stated, source)
    assert page["shareable"] is judge_by("policy.json", {"guarantee": stated}).shareable


def pages_of(thing: Any, to: Path) -> Iterator[dict[str, Any]]:
    """What a policy or model states in memory, in plain data, and in its file."""
    if isinstance(thing, Released | ReleasedPolicy | ContinuousModel | ContinuousPolicy):
        yield {"statement": thing.statement, "shareable": _shareable(thing.statement)}
    if isinstance(thing, Released):
        save_released(to, thing)
        yield json.loads((to / "model.json").read_text())
    elif isinstance(thing, ContinuousModel | ContinuousPolicy):
        thing.save(to)
        yield json.loads((to / thing._page).read_text())
    elif isinstance(thing, TabularMDP):
        yield learned(thing).to_dict()
    else:
        yield thing.to_dict()
        save = save_policy if isinstance(thing, ReleasedPolicy) else None
        to.mkdir()
        save(to / "file", thing) if save else thing.save(to / "file")
        yield json.loads((to / "file").read_text())


def _shareable(stated: Mapping[str, Any]) -> bool:
    return judge_by("model.json", {"guarantee": stated}).shareable


FORMS: dict[str, Callable[[Released, Path], Any]] = {
    "an environment": lambda r, _: ReleasedEnv(released=r),
    "its tables": lambda r, _: r.mdp,
    "an environment of its tables": lambda r, _: TabularEnv(r.mdp),
    "a made one": lambda r, _: gym.make("privrl/Released-v0", released=r),
    "a wrapped one": lambda r, _: gym.wrappers.TimeLimit(ReleasedEnv(released=r), 4),
    "numbers of numbers": lambda r, _: numbered(ReleasedEnv(released=r)),
    "a copy": lambda r, _: copy.copy(ReleasedEnv(released=r)),
    "a deep copy": lambda r, _: copy.deepcopy(ReleasedEnv(released=r)),
    "a pickle": lambda r, _: pickle.loads(pickle.dumps(ReleasedEnv(released=r))),
    "a pickled model": lambda r, _: pickle.loads(pickle.dumps(r)).mdp,
    "a copied model": lambda r, _: copy.deepcopy(r).mdp,
    "another label": lambda r, _: replace(r, action_names=("left", "right")).mdp,
    "copied tables": lambda r, _: copy.copy(r.mdp),
    "pickled tables": lambda r, _: pickle.loads(pickle.dumps(r.mdp)),
    "another horizon": lambda r, _: replace(replace(r.mdp, horizon=9), horizon=4),
    "tables that were read": lambda r, _: TabularMDP.from_gymnasium(ReleasedEnv(released=r)),
    "a saved model": lambda r, to: ReleasedEnv(_kept(to, save_released, r)),
    "a loaded model": lambda r, to: load_released(_kept(to, save_released, r)).mdp,
    "saved tables": lambda r, to: TabularEnv(path=_kept(to / "t.npz", save_tables, r.mdp)),
    "tables saved again": lambda r, to: load_tables(
        _kept(to / "u.npz", save_tables, load_tables(_kept(to / "t.npz", save_tables, r.mdp)))
    ),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "made for it": learned,
    "learns in it": lambda env: learned(env, _agent()),
    "is trained in it": lambda env: _trained(_agent(), env),
    "learns in several": lambda env: _in_vector(gym.vector.SyncVectorEnv([lambda: _played(env)])),
    "learns in wrapped ones": lambda env: _in_vector(
        gym.wrappers.vector.RecordEpisodeStatistics(
            gym.vector.SyncVectorEnv([lambda: _played(env)] * 2)
        )
    ),
}


def _kept(to: Path, save: Callable[[Any, Any], object], thing: object) -> Path:
    save(to, thing)
    return to


def _trained(agent: Any, env: object) -> Policy:
    train(agent, env, 4)
    policy: Policy = agent.to_policy()
    return policy


def _played(env: Any) -> gym.Env[Any, Any]:
    return TabularEnv(env) if isinstance(env, TabularMDP) else env


def _in_vector(env: Any) -> Policy:
    try:
        return learned(env, _agent())
    finally:
        env.close()


@pytest.mark.few(311)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_learned_in_a_model_states_it(form, way, kind, tmp_path):
    policy = WAYS[way](FORMS[form](model(kind), tmp_path))
    for page in pages_of(policy, tmp_path / "policy"):
        check_page(page, statement(kind))


@pytest.mark.parametrize("kind", ["weak", "seeded"])
@pytest.mark.parametrize("mdp", [lambda r: r.mdp, lambda r: replace(r.mdp, horizon=4)])
def test_what_is_learned_side_by_side_in_tables_states_it(mdp, kind):
    env = TabularVectorEnv(2, mdp(model(kind)))
    check(learned(env, _agent()).guarantee, statement(kind))


@pytest.mark.few(7)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_states_what_it_was_trained_in(name, kind):
    """Those without a release, as the best policy of public tables, have no guarantee at all."""
    env = ReleasedEnv(released=model(kind))
    facts = public_facts(env)
    method = Method(agent=name, sampler="auto" if AGENTS[name].releases else "none")
    mdp = env.mdp
    told = {"expected_reward": mdp.expected_reward, "best_policy": mdp.plan()[0]}
    relation = importlib.import_module("privrl.costs").ReplaceStep(arrival_rewards=True)
    task = Task.of(facts, relation=relation, episodes=4, **told)
    target = ApproxDP(1.0, 1e-5) if AGENTS[name].releases else None
    policy = _trained(make_agent(method, task, [target], 0), env)
    if AGENTS[name].releases:
        assert policy.guarantee["environments"][0]["relation"] == RELATION
        assert policy.guarantee["environments"][0].get("caveats") == KINDS[kind].get("caveats", [])
    assert policy.to_dict()["shareable"] is False  # it has a seed, or no promise


@pytest.mark.few(7)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "road",
    {
        "a plan": lambda it, _: plan_continuous(it),
        "a plan of a file": lambda it, to: plan_continuous(
            ContinuousModel.load(_kept(to / "model", lambda path, m: m.save(path), it))
        ),
        "an agent": lambda it, _: learned(number_env(it)),
        "an agent of a file": lambda it, to: learned(
            _with_range(ReleasedContinuousEnv(_kept(to / "m", lambda path, m: m.save(path), it)))
        ),
        "an agent of a wrapped one": lambda it, _: learned(Ranged(number_env(it))),
        "an agent of a copy": lambda it, _: learned(copy.deepcopy(number_env(it))),
        "an agent of cells": lambda it, _: learned(_cells(it)),
        "another schema": lambda it, _: replace(it, persons=7.0),
    }.items(),
    ids=lambda road: road[0],
)
def test_what_is_made_of_a_model_of_numbers_states_it(road, kind, tmp_path):
    made = road[1](numbers(kind), tmp_path)
    for page in pages_of(made, tmp_path / "made"):
        check_page(page, statement(kind))


def _with_range(env: ReleasedContinuousEnv) -> ReleasedContinuousEnv:
    env._horizon, env.reward_range = 4, (-1.0, 0.0)
    return env


def _cells(it: ContinuousModel) -> gym.Env[Any, Any]:
    env = Discretised(gym.wrappers.TimeLimit(number_env(it), 4), [[0.0]])
    env.reward_range = (-1.0, 0.0)
    return env


def pay(kind: str) -> dict[str, Any]:
    """What a source of its own release spends, and on which randomness."""
    return OWN | {"epsilon": 40.0 if kind == "weak" else 1.0} | (
        {"rng": 0} if kind == "seeded" else {}
    )  # fmt: skip


@pytest.mark.parametrize("kind", OF_BINS)
@pytest.mark.parametrize("sink", [*_CLASSIFIERS, "PrivateHistogram", "BayesNet", "begun"])
def test_what_is_fitted_in_bins_states_them(sink, kind, tmp_path):
    frame, domain = people(), schema(kind)
    if sink == "begun":
        made: Any = begun(classifier(PrivateNaiveBayes, domain), domain)
    elif sink == "PrivateHistogram":
        made = histogram(frame["age"].tolist(), bins=bins(kind), **OWN)
    elif sink == "BayesNet":
        made = PrivateBayesNet(parents={"age": (), "ill": ("age",)}, schema=domain, **OWN).fit(
            frame
        )
    else:
        made = classifier(globals()[sink], domain)
        made = getattr(made, "classifier_", made)
    read = type(made)
    made.save(tmp_path / "model.json")
    for each in (made, *copies(made), read.load(tmp_path / "model.json")):
        page = each.to_dict()
        assert page == made.to_dict() == json.loads((tmp_path / "model.json").read_text())
        stated = {"relation": "own", **OWN, "caveats": [], **page.get("guarantee", {})}
        if "guarantee" not in page:  # it keeps what was spent, and its columns
            stated["bins"] = [bins_in(page)]
        check(stated | {"randomness": page["randomness"]}, bins_release(kind).to_dict())
        assert page["shareable"] is (kind != "seeded")


def bins_in(page: Any) -> dict[str, Any]:
    """The release of bins in a file, wherever that has columns."""
    if isinstance(page, Mapping):
        if "released" in page:
            return dict(page["released"])
        page = list(page.values())
    if not isinstance(page, list):
        return {}
    return next((found for each in page if (found := bins_in(each))), {})


def copies(thing: Any) -> Iterator[Any]:
    yield from (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing)))
    if is_dataclass(thing) and not hasattr(thing, "fit"):  # a new one is not fitted
        yield replace(thing)


@pytest.mark.parametrize("kind", OF_BINS)
def test_a_regression_that_begins_with_another_classifier_states_both(kind, tmp_path):
    """Their records may be the same, so the costs are added."""
    spent = pay(kind)
    seed = {"random_state": spent.pop("rng")} if "rng" in spent else {}
    bayes = PrivateNaiveBayes(schema(None), classes="ill", target=ApproxDP(*spent.values()), **seed)
    made = begun(bayes.fit(people()[["age"]], people()["ill"]), schema(None))
    made.save(tmp_path / "model.json")
    for each in (made, *copies(made), PrivateLogisticRegression.load(tmp_path / "model.json")):
        page = each.to_dict()
        assert amounts_of(page["guarantee"])[0] > spent["epsilon"]
        assert (page["randomness"] == SECRET) is page["shareable"] is (kind != "seeded")


@pytest.mark.parametrize("kind", OF_BINS)
def test_a_policy_of_a_log_states_its_own_release(kind):
    spent = pay(kind)
    logged = fit_policy(log(), **spent)
    for each in (logged, *copies(logged)):
        page = ReleasedPolicy.of_log(each, epsilon=spent["epsilon"]).to_dict()
        assert page["statement"]["epsilon"] == spent["epsilon"]
        assert (
            (page["statement"]["randomness"] == SECRET) is page["shareable"] is (kind != "seeded")
        )


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "make",
    [
        model, numbers, lambda kind: ReleasedPolicy.of_model(model(kind)),
        lambda kind: plan_continuous(numbers(kind)), lambda kind: learned(model(kind).mdp),
        lambda kind: learned(number_env(numbers(kind))),
    ],
    ids=["Released", "ContinuousModel", "ReleasedPolicy", "ContinuousPolicy", "Policy", "agent's"],
)  # fmt: skip
def test_copies_state_the_same(make, kind, tmp_path):
    thing = make(kind)
    pages = list(pages_of(thing, tmp_path / "0"))
    for page in pages:
        check_page(page, statement(kind))
    readers = {Released: load_released, ReleasedPolicy: load_policy}
    path = tmp_path / "0"
    if isinstance(thing, ReleasedPolicy | Policy):
        path /= "file"
    read = readers.get(type(thing)) or type(thing).load
    for number, each in enumerate((*copies(thing), read(path)), 1):
        assert list(pages_of(each, tmp_path / f"{number}")) == pages


# Choices ------------------------------------------------------------------------------------------

_CHOSEN = "chosen among several|in the trial that chose it|trial"
FILES: dict[str, Callable[[Any, Path], object]] = {
    "Released": lambda it, to: save_released(to, it),
    "its tables": lambda it, to: save_tables(to / "t.npz", it.mdp),
    "its tables, of another horizon": lambda it, to: save_tables(
        to / "t.npz", replace(it.mdp, horizon=2)
    ),
    "its plan": lambda it, to: save_policy(to / "p.json", ReleasedPolicy.of_model(it)),
    "what is learned in it": lambda it, to: learned(it.mdp).save(to / "p.json"),
    "what is learned in a copy": lambda it, to: learned(replace(it.mdp, horizon=2)).save(to / "p"),
    "ContinuousModel": lambda it, to: it.save(to),
    "a plan of numbers": lambda it, to: plan_continuous(it).save(to),
    "what is learned in numbers": lambda it, to: learned(number_env(it)).save(to),
    "ReleasedPolicy": lambda it, to: save_policy(to / "p.json", it),
    "ContinuousPolicy": lambda it, to: it.save(to),
    "LoggedPolicy": lambda it, to: save_policy(
        to / "p.json", ReleasedPolicy.of_log(it, epsilon=1.0)
    ),
    "Policy": lambda it, to: it.save(to / "p.json"),
    "PrivateHistogram": lambda it, to: it.save(to / "m.json"),
    "BayesNet": lambda it, to: it.save(to / "m.json"),
    "PrivateNaiveBayes": lambda it, to: it.save(to / "m.json"),
    "PrivateLogisticRegression": lambda it, to: it.save(to / "m.json"),
    "a regression that begins with it": lambda it, to: begun(it, schema()).save(to / "m.json"),
}
_OF = {
    "a plan of numbers": "ContinuousModel",
    "what is learned in numbers": "ContinuousModel",
    "a regression that begins with it": "PrivateNaiveBayes",
}  # the others are of what they are named after, or of a Released


@pytest.mark.parametrize("road", FILES)
def test_no_file_of_a_chosen_one_lacks_the_choice(road, tmp_path):
    """The choice paid for nothing that was released before; it may not leave as if alone."""
    source = copy.deepcopy(objects()[_OF.get(road, road if road in STATES else "Released")])
    chosen = select_private({"a": lambda _: (source, 0.0)}, target=ApproxDP(1.0, 1e-5), trials=1)
    for each in (chosen.result, *copies(chosen.result)):
        with pytest.raises(ValueError, match=_CHOSEN):
            FILES[road](each, tmp_path)
    assert not any(tmp_path.iterdir())


# Commands -----------------------------------------------------------------------------------------

_TRAIN = ["--epsilon", 0.1, "--episodes", 4, "--horizon", 4]
_BY_RECORDS = ["people.csv", "--schema", "source.toml"]
COMMANDS: dict[str, tuple[str, list[Any]]] = {
    "train": ("model", ["privrl/Released-v0", "source"]),
    "train, in tables": ("tables", ["privrl/Tabular-v0", "source.npz"]),
    "train, in numbers": ("numbers", ["privrl/ReleasedContinuous-v0", "source"]),
    "train, in cells of numbers": ("numbers", ["privrl/ReleasedContinuous-v0", "source"]),
    "fit-policy": ("model", ["--from-model", "source"]),
    "fit-policy, of numbers": ("numbers", ["--from-model", "source"]),
    "histogram": ("bins", [*_BY_RECORDS, "--column", "age"]),
    "naive-bayes": ("bins", [*_BY_RECORDS, "--target-column", "ill"]),
    "classify": ("bins", [*_BY_RECORDS, "--target-column", "ill"]),
    "bayes-net": ("bins", _BY_RECORDS),
}
COMMANDS_LEFT_OUT = {
    **dict.fromkeys(("play", "watch"), "shows episodes; writes pictures that are not shared"),
    **dict.fromkeys(("sweep", "suite"), _RUNS),
    "schema": "writes schemas: tests/models/test_released_bins.py",
    "predict": "writes predictions that are not shared",
    "fit-model": "takes a log and a schema of public bins, and is where models are from",
    **dict.fromkeys(("account", "ledger", "reproduce"), "takes no release"),
    **dict.fromkeys(("share", "report"), "takes what each of the commands here wrote"),
}
FILES_LEFT_OUT = {
    **dict.fromkeys(("synthetic.csv", "synthetic.parquet", "synthetic.zip"), "of fit-model"),
    **dict.fromkeys(("histogram.csv", "model.bif", "policy.png"), "beside files with statements"),
}


def test_every_command_and_file_is_listed() -> None:
    every = (*app.registered_commands, *app.registered_groups)
    names = {str(each.name or each.callback.__name__) for each in every}
    assert names == {each.partition(",")[0] for each in COMMANDS} | COMMANDS_LEFT_OUT.keys()
    shared = {name for name, verdict in ARTEFACTS.items() if verdict.shareable}
    read = {"histogram.json", "model.json", "policy.json", "tables.npz"}
    assert shared == read | FILES_LEFT_OUT.keys()
    assert {name for name, shared in STATEMENTS.items() if shared} == {"release.json", "train.json"}


def test_no_file_of_runs_is_shared() -> None:
    """Whatever they learned in, so no statement of theirs has to name it."""
    for name in ("results.csv", "curves.parquet", "sweep.sqlite", "suite.csv", "suite.sqlite"):
        assert not judge_by(name, {"guarantee": statement()}).shareable


def written(command: str, kind: str) -> None:
    source, options = COMMANDS[command]
    name = command.partition(",")[0]
    if source == "bins":
        schema(kind).save("source.toml")
        people().to_csv("people.csv", index=False)
    elif source == "tables":
        save_tables("source.npz", model(kind).mdp)
    elif source == "numbers":
        numbers(kind).save("source")
    else:
        save_released("source", model(kind))
    if name == "train":
        env, path = options
        options = ["--env", f"privrl.envs:{env}", "--env-arg", f'path="{path}"', *_TRAIN]
        if source == "numbers":
            options += ["--reward-range", "-1,0"]
        if "cells" in command:
            options += ["--bins", "2"]
    result = run(name, *options, "--out", "out")
    assert result.exit_code == 0, said(result)


@pytest.mark.few(37)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_makes_of_it_states_it_and_is_shared_as_it(
    command, kind, tmp_path, monkeypatch
):
    of_bins = COMMANDS[command][0] == "bins"
    if of_bins and kind not in OF_BINS:
        kind = "secret"
    source = bins_release(kind).to_dict() if of_bins else statement(kind)
    monkeypatch.chdir(tmp_path)
    written(command, kind)
    stated = "train.json" if command.startswith("train") else "release.json"
    guarantee = json.loads(Path("out", stated).read_text())["guarantee"]
    check(guarantee | {"caveats": source.get("caveats", [])}, source)
    told = said(run("share", "out", "--to", "shared"))
    if kind in ("seeded", "unsaid", "caveats"):
        assert "nothing of 'out' may be shared" in told
    elif kind == "weak":
        assert "that is weak privacy" in told
        assert run("share", "out", "--to", "shared", "--weak").exit_code == 0
    else:
        assert RELATION in told
    assert Path("shared").exists() is (kind in ("secret", "Rényi", "weak"))
    if Path("shared").exists():
        copied = json.loads(Path("shared", stated).read_text())
        assert copied["guarantee"] == guarantee
        again = said(run("share", "shared", "--to", "again", "--weak"))
        assert RELATION in again
    for name in ("policy.json", "model.json"):
        if Path("out", name).exists() and command not in ("bayes-net",):
            page = json.loads(Path("out", name).read_text())
            assert page["shareable"] is Path("shared").exists()
            assert RELATION in json.dumps(page)


@pytest.mark.slow
@pytest.mark.needs("bokeh")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_says_what_it_costs(command, kind, tmp_path, monkeypatch):
    of_bins = COMMANDS[command][0] == "bins"
    monkeypatch.chdir(tmp_path)
    written(command, "secret" if of_bins and kind not in OF_BINS else kind)
    assert run("report", "out").exit_code == 0
    (page,) = Path("out").glob("report-*.html")
    text = page.read_text()
    assert RELATION in text
    assert ("report-researcher" in page.name) is (
        kind in ("seeded", "unsaid", "caveats")
    ) or of_bins


# What a file says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["seeded", "unsaid", "caveats", "weak"])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_verdict_looks_at_all_that_is_stated(depth, kind):
    """A file that was edited by hand may say nothing of it at its top."""
    inner = statement(kind)
    for _ in range(depth):
        inner = {**statement(), "environments": [inner]}
    assert _shareable(inner) is (kind == "weak")
    assert amounts_of(inner)[0] == pytest.approx(0.5 * depth + amounts_of(statement(kind))[0])
    seeded = bins_release("seeded").to_dict()
    assert not _shareable({**statement(), "bins": [dict(seeded)]})


def test_a_policy_s_environments_are_checked(tmp_path):
    policy = learned(model().mdp)
    policy.save(tmp_path / "policy.json")
    page = json.loads((tmp_path / "policy.json").read_text())
    for wrong in ({}, "none", [1], [{}], [{**statement(), "epsilon": -1}], [{"epsilon": 1.0}]):
        page["guarantee"]["environments"] = wrong
        (tmp_path / "other.json").write_text(json.dumps(page))
        with pytest.raises(ValueError, match="must state"):
            Policy.load(tmp_path / "other.json")
        with pytest.raises(ValueError, match="must state"):
            replace(policy, guarantee=page["guarantee"])
    page["guarantee"]["environments"] = [statement("seeded")]
    (tmp_path / "other.json").write_text(json.dumps(page))
    with pytest.raises(ValueError, match="shareable must be false"):
        Policy.load(tmp_path / "other.json")


def test_a_file_of_released_tables_states_them(tmp_path):
    path, mdp = tmp_path / "t.npz", model("weak").mdp
    save_tables(path, mdp)
    check(learned(TabularEnv(path=path)).guarantee, statement("weak"))
    save_tables(path, public())
    assert "environments" not in learned(TabularEnv(path=path)).guarantee
    before, chosen = path.read_bytes(), replace(mdp, horizon=2)
    select_private({"a": lambda _: (chosen, 0.0)}, target=ApproxDP(1.0, 1e-5), trials=1)
    with pytest.raises(ValueError, match="chosen among several"):
        save_tables(path, chosen)
    assert path.read_bytes() == before


def test_a_statement_in_a_file_of_tables_is_checked(tmp_path):
    path = tmp_path / "t.npz"
    save_tables(path, model().mdp)
    with np.load(path) as file:
        tables = dict(file)
    (name,) = (each for each, array in tables.items() if array.dtype.kind == "U")
    for wrong in ("none", "{}", "[1]", json.dumps({**statement(), "epsilon": -1}), np.zeros(3)):
        np.savez(path, **tables | {name: np.array(wrong)})
        with pytest.raises(ValueError, match=r"statement|Expecting value"):
            load_tables(path)


@pytest.mark.parametrize("words", ["a\nb", "a\x1b[31mb", "[/]a"], ids=repr)
def test_what_a_file_says_of_its_unit_breaks_no_line(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = {**statement("caveats"), "unit": words, "caveats": [words]}
    save_released("source", replace(model(), statement=odd))
    for command in (["fit-policy", "--from-model", "source"], _train("source")):
        result = run(*command, "--out", command[0])
        assert result.exit_code == 0, said(result)
        shown = words if words.isprintable() else ascii(words)
        assert f", {shown}" in said(result)
        assert f"no guarantee: {shown}" in said(result)
        assert "\x1b[31mb" not in result.output
        assert "a\nb" not in result.output
        assert "nothing of" in said(run("share", command[0], "--to", "public"))
    save_released("fine", replace(model(), statement={**odd, "caveats": []}))
    assert run(*_train("fine"), "--out", "fine-out").exit_code == 0
    assert f", {shown}" in said(run("share", "fine-out", "--to", "public"))


def _train(source: str) -> list[Any]:
    env = ["--env", "privrl.envs:privrl/Released-v0", "--env-arg", f'path="{source}"']
    return ["train", *env, *_TRAIN]
