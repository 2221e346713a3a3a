"""Rules of privacy, each at every place that releases, stores or remembers something.

Most faults of earlier versions were twins: a rule that one of several alike places kept, and
another did not. Places are found by looking, and a new one that no list here has is refused.
"""

import copy
import dataclasses
import importlib
import inspect
import json
import os
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import calls
import numpy as np
import pandas as pd
import pytest
from calls import Valid
from forks import forked
from sklearn.exceptions import NotFittedError

import privrl
from privrl import agents, continuous, envs, models, offline
from privrl.accounting import ApproxDP, BudgetExceeded, Ledger, RdpAccountant, releases
from privrl.agents import HatRewards, NoisyRewards, TabularAgent
from privrl.agents.bandits import _ArmSums, imed
from privrl.agents.policy_release import PolicyMechanism
from privrl.continuous.moments import MomentsMechanism, MomentStream
from privrl.costs import GaussianCost, Relation, ReplaceStep
from privrl.data.logs.templates import write_log_template
from privrl.envs import Ranged, TabularMDP, riverswim
from privrl.experiments import SweepSpec, run_sweep
from privrl.files.chosen import TrialName, paying
from privrl.files.sharing import STATEMENTS
from privrl.mechanisms import select_private
from privrl.models.bayes_net.network import BayesNet
from privrl.models.histograms.result import PrivateHistogram
from privrl.models.logistic_regression.choice import load_classifier
from privrl.offline.persons import Added, PersonStream
from privrl.samplers import Concentrated, Diffuse, NoisyCounts, SparseCounts, draw
from privrl.samplers.base import PaidSampler
from privrl.samplers.moments import MomentSampler

pytestmark = pytest.mark.filterwarnings("ignore")
STEP = ReplaceStep()

#: For each public function or class with an ``accountant``: the call of it.
RELEASES = {
    "ContinuousAgent.private": "continuous agent",
    "DirichletMechanism.release": "dirichlet.release",
    "DiscreteGaussianMechanism.release": "discrete_gaussian.release",
    "DiscreteLaplaceMechanism.release": "discrete_laplace.release",
    "ExponentialMechanism.release": "choice.release",
    "GaussianMechanism.release": "gaussian.release",
    "LaplaceMechanism.release": "laplace.release",
    "NoisyPosteriorMechanism.release": "noisy_posterior.release",
    "PSRL.private": "PSRL.private",
    "PolicyMechanism.release": "policy mechanism",
    "PosteriorExponentialMechanism.release": "exponential.release",
    "PrivateBayesNet.fit": "PrivateBayesNet.fit",
    "PrivateClassifier.fit": "PrivateClassifier.fit",
    "PrivateLogisticRegression.fit": "PrivateLogisticRegression.fit",
    "PrivateNaiveBayes.fit": "PrivateNaiveBayes.fit",
    "SimplexMechanism.release": "simplex.release",
    "SumsMechanism.release": "sums.release",
    "TablesMechanism.release": "tables.release",
    "TabularSetup": "PSRL",
    "discretise": "discretise",
    "draw": "draw",
    "evaluate_policy": "evaluate_policy",
    "fit_continuous_model": "fit_continuous_model",
    "fit_model": "fit_model",
    "fit_policy": "fit_policy",
    "histogram": "histogram",
    "imed": "imed",
    "select_private": "select_private",
}
#: Calls of the same in other ways.
ALSO = (
    "PersonStream", "PrivateBayesNet.fit, parents chosen", "PrivateLogisticRegression.fit, begun",
    "value_counts", "UCBVI", "DPUCBVI", "RLSVI", "ExploreThenPlan", "SparsePSRL",
)  # fmt: skip
#: An ``accountant`` that is no accountant to charge: a function that makes one, or a hook.
NOT_CHARGED = {"calibrate", "calibrated", "set_fit_request", "Mechanism.release"}
#: What they make that must be set going, and how long until something is released.
EPISODES = 9


@pytest.fixture(scope="module")
def valid() -> dict[str, Valid]:
    table = calls.table()

    def paid(**more: Any) -> dict[str, Any]:
        return {"rng": np.random.default_rng(0), "accountant": RdpAccountant(), **more}

    bandit = TabularMDP(np.ones((1, 2, 1)), np.array([[0.3, 0.6]]), np.ones(1), 1)
    table["imed"] = Valid(imed, lambda: paid(mdp=bandit, steps=[10], runs=2, epsilon=1.0))
    policy = PolicyMechanism(weight=20.0, n_actions=2, mixing=0.3)
    table["policy mechanism"] = Valid(policy.release, lambda: paid(data=np.array([[0.3, 0.7]])))
    env = Ranged(calls._cartpole(), "-2:2,-3:3,-1:1,-3:3")
    table["continuous agent"] = Valid(
        agents.PSRL.private, lambda: paid(env=env, epsilon=1.0, episodes=EPISODES, relation=STEP)
    )
    return table


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(privrl.__path__, "privrl."):
        if not (found.name.endswith("__main__") or ".figures." in found.name):
            with suppress(ModuleNotFoundError):  # such as numba, which is an extra
                yield importlib.import_module(found.name)


def classes() -> Iterator[type]:
    for module in modules():
        for thing in vars(module).values():
            if inspect.isclass(thing) and thing.__module__ == module.__name__:
                yield thing


def takes(thing: Any, argument: str) -> bool:
    try:
        return argument in inspect.signature(thing).parameters
    except (ValueError, TypeError):
        return False


def public_with(argument: str) -> set[str]:
    """Public functions, and methods of public classes, that take an argument."""
    found = set()
    for name, thing in [*calls.names(), ("imed", imed), ("PolicyMechanism", PolicyMechanism)]:
        if takes(thing, argument):
            found.add(name)
        for method in dir(thing) if inspect.isclass(thing) else ():
            if not method.startswith("_") and takes(getattr(thing, method), argument):
                found.add(f"{name}.{method}")
    return found


class Gate:
    """See charges and releases, and perhaps stop the first release."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.seen, self._error = "", error

    def charged(self, cost: Any) -> None:
        self.seen += "c"

    def released(self, who: Any, cost: Any, data: Any, rng: Any, draw: Any) -> Any:
        self.seen += "r"
        if self._error is not None:
            raise self._error
        return draw(data, rng)


class Refusing(RdpAccountant):
    def compose(self, cost: Any, count: int = 1) -> None:
        raise BudgetExceeded("not covered")


class Interrupted(RdpAccountant):
    def compose(self, cost: Any, count: int = 1) -> None:
        raise KeyboardInterrupt


class Extreme(Gate):
    """Meets what draws and posteriors may: numbers that floats do not hold."""

    def released(self, who: Any, cost: Any, data: Any, rng: Any, draw: Any) -> Any:
        np.exp([-1e3, 1e3]), np.log([0.0, -1.0])
        return super().released(who, cost, data, rng, draw)


def nothing(part: Any, left: Any) -> Added:
    return Added(np.zeros(0, int), np.zeros(0, int), np.zeros(0))


def go(thing: Any) -> Any:
    """Let what a call made release something, if it is made for that."""
    if hasattr(thing, "begin_episode"):
        for episode in range(EPISODES):
            thing.begin_episode(episode)
            if thing.draws:
                break
    elif isinstance(thing, PersonStream):
        thing.update(nothing, 2)
    return thing


def attempt(call: Valid, gate: Gate, **changed: Any) -> Any:
    """Return what a call makes, or the exception that it raises."""
    given = call.given()
    with releases.watched_by(gate):
        try:
            return go(call.function(**given | {k: v for k, v in changed.items() if k in given}))
        except BaseException as error:  # as Ctrl-C
            return error


def each_release(valid: dict[str, Valid]) -> Iterator[tuple[str, Valid]]:
    for name in (*RELEASES.values(), *ALSO):
        assert "accountant" in valid[name].given(), name
        yield name, valid[name]


def test_every_release_has_a_call() -> None:
    found = {each for each in public_with("accountant") if each.split(".")[-1] not in NOT_CHARGED}
    inherited = {f"{each}.private" for each in ("SparsePSRL",)}
    assert found - inherited - NOT_CHARGED == {*RELEASES} - {"ContinuousAgent.private"}


@pytest.mark.slow
def test_every_release_is_charged_and_then_drawn(valid: dict[str, Valid]) -> None:
    wrong = []
    for name, call in each_release(valid):
        gate = Gate()
        made = attempt(call, gate)
        if isinstance(made, BaseException) or not gate.seen.startswith("c") or "r" not in gate.seen:
            wrong.append(f"{name}: {gate.seen} {made!r}")
    assert not wrong


@pytest.mark.slow
def test_what_an_accountant_refuses_is_not_drawn(valid: dict[str, Valid]) -> None:
    other = RdpAccountant()
    other.compose(GaussianCost(sigma=9.0, relation=Relation("other", {"counts": [(1,)]})))
    refusals = ((Refusing(), BudgetExceeded), (other, ValueError), (5, ValueError))
    wrong = []
    for name, call in each_release(valid):
        for accountant, error in (*refusals, (RdpAccountant, ValueError)):
            gate = Gate()
            made = attempt(call, gate, accountant=accountant)
            if not isinstance(made, error) or gate.seen:
                wrong.append(f"{name} with {accountant}: {gate.seen} {made!r}")
    assert not wrong


@pytest.mark.parametrize("bad", [-1, True, "0", np.random, [0], 1.5], ids=repr)
def test_what_is_no_generator_costs_nothing(valid: dict[str, Valid], bad: Any) -> None:
    wrong = []
    for name, call in each_release(valid):
        if "rng" in call.given():
            gate, accountant = Gate(), RdpAccountant()
            made = attempt(call, gate, accountant=accountant, rng=bad)
            if not isinstance(made, ValueError) or gate.seen or accountant.journal:
                wrong.append(f"{name}: {gate.seen} {made!r}")
    assert not wrong


@pytest.mark.slow
def test_an_interrupt_says_what_is_spent(valid: dict[str, Valid]) -> None:
    wrong = []
    for name, call in each_release(valid):
        if name == "PersonStream":  # its users say it
            continue
        for accountant, gate in ((Interrupted(), Gate()), (None, Gate(KeyboardInterrupt()))):
            made = attempt(call, gate, **{"accountant": accountant} if accountant else {})
            notes = " ".join(getattr(made, "__notes__", ()))
            said = "may have been charged" if accountant else "was charged"
            if not isinstance(made, KeyboardInterrupt) or said not in notes:
                wrong.append(f"{name}: {notes} {made!r}")
    assert not wrong


@pytest.mark.slow
def test_no_error_state_of_the_caller_stops_a_release(valid: dict[str, Valid]) -> None:
    """After numpy.seterr(all="raise") a draw of large numbers was charged, and failed."""
    wrong = []
    for name, call in each_release(valid):
        gate = Extreme()
        with np.errstate(all="raise"):
            made = attempt(call, gate)
        if isinstance(made, BaseException) or "r" not in gate.seen:
            wrong.append(f"{name}: {gate.seen} {made!r}")
    assert not wrong


class Writing(RdpAccountant):
    """An accountant during whose charge another thread writes to the data."""

    data: tuple[Any, ...] = ()

    def compose(self, cost: Any, count: int = 1) -> None:
        super().compose(cost, count)
        for each in self.data:
            if isinstance(each, np.ndarray):
                each[...] = each.flat[0]
            elif isinstance(each, pd.DataFrame):
                for column in each:
                    each[column] = each[column].iloc[0]
            else:
                each[:] = [each[0]] * len(each)


def numbers_of(thing: Any) -> Any:
    """Everything that was released, as far as it is numbers."""
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, dict | list | tuple):
        each = thing.values() if isinstance(thing, dict) else thing
        return [numbers_of(one) for one in each]
    if isinstance(thing, pd.Series | pd.DataFrame):
        return thing.to_numpy().tolist()
    released = ("probabilities", "values", "alpha", "weights_", "feature_log_prob_", "classifier_")
    if type(thing).__module__.startswith("privrl"):
        return [numbers_of(getattr(thing, name)) for name in released if hasattr(thing, name)]
    return thing if isinstance(thing, int | float) else None


@pytest.mark.slow
def test_data_written_during_the_charge_are_released_as_they_were(valid: dict[str, Valid]) -> None:
    """Checks are of what is released: a copy, or cells that were counted before."""
    tried, wrong = 0, []
    for name, call in each_release(valid):
        made = []
        for kind in (RdpAccountant, Writing):
            given = call.given()
            held = [k for k in ("data", "values", "frame", "X", "y") if k in given]
            given |= {k: copy.deepcopy(given[k]) for k in held}
            given["accountant"] = kind()
            parts = [given[k] if isinstance(given[k], tuple) else (given[k],) for k in held]
            given["accountant"].data = tuple(each for part in parts for each in part)
            made.append(numbers_of(call.function(**given)) if held else None)
        tried += made[0] is not None
        if made[0] != made[1]:
            wrong.append(name)
    assert tried > 15
    assert not wrong


@pytest.mark.slow
def test_every_release_states_what_was_charged(valid: dict[str, Valid]) -> None:
    stating, wrong = set(), []
    for name, call in each_release(valid):
        accountant = RdpAccountant()
        made = attempt(call, Gate(), accountant=accountant)
        for said in ("cost", "cost_"):
            cost = getattr(made, said, None)
            if hasattr(cost, "rdp"):
                stating.add(name)
                # A network keeps 1e-13 of its budget back, for the rounding of sums.
                if not np.allclose(cost.rdp(accountant.orders), accountant.rdp, 2e-13, 0.0):
                    wrong.append(f"{name}.{said}")
    assert stating >= {"histogram", "PrivateNaiveBayes.fit", "PrivateBayesNet.fit", "fit_policy"}
    assert not wrong


# What remembers a release ------------------------------------------------------------------------


def of_sampler(sampler: Any, counts: Any) -> tuple[Any, Callable[[], Any]]:
    return sampler, lambda: draw(RdpAccountant(), [(sampler, counts)])


def of_agent(agent: Any) -> tuple[Any, Callable[[], Any]]:
    numbers = iter(range(EPISODES))

    def until_drawn() -> None:
        before = agent.draws
        while agent.draws == before:
            agent.begin_episode(next(numbers))

    return agent, until_drawn


def of_setup(kind: str, valid: dict[str, Valid]) -> tuple[Any, Callable[[], Any]]:
    return of_agent(valid[kind].function(**valid[kind].given()))


def of_rewards(rewards: Any) -> tuple[Any, Callable[[], Any]]:
    sampler = NoisyCounts(sigma=3.0, updates=9, relation=STEP)
    agent, draws = of_agent(
        agents.PSRL(agents.TabularSetup(2, 2, 3, sampler=sampler, rewards=rewards, rng=0))
    )
    return agent._rewards, draws


def of_stream(valid: dict[str, Valid]) -> tuple[Any, Callable[[], Any]]:
    stream = valid["PersonStream"].function(**valid["PersonStream"].given())
    return stream, lambda: stream.update(nothing, 1)


def of_moments(valid: dict[str, Valid]) -> tuple[Any, Callable[[], Any]]:
    log = valid["fit_continuous_model"].given()["log"]
    stream = MomentStream(log, MomentsMechanism(sigma=3.0), 0, RdpAccountant())
    return stream, lambda: stream.update(lambda part: np.ones((len(part.state), 1)), 1, 0.3)


TABLE = np.ones((2, 2, 2))
REWARDS = {"sigma": 3.0, "updates": 9, "relation": STEP, "table": "rewards"}
#: For each class: one of it, and what lets it release something.
STATEFUL: dict[str, Callable[[dict[str, Valid]], tuple[Any, Callable[[], Any]]]] = {
    "Concentrated": lambda _: of_sampler(Concentrated(alpha=40.0, relation=STEP), TABLE),
    "Diffuse": lambda _: of_sampler(Diffuse(relation=STEP), TABLE),
    "NoisyCounts": lambda _: of_sampler(NoisyCounts(sigma=3.0, updates=3, relation=STEP), TABLE),
    "SparseCounts": lambda _: of_sampler(
        SparseCounts(sigma=3.0, releases=[0, 1, 2], relation=STEP), TABLE
    ),
    "MomentSampler": lambda _: of_sampler(
        MomentSampler(sigma=3.0, updates=3, columns=2, cells=1, relation=STEP), np.zeros(4)
    ),
    "_ArmSums": lambda _: of_sampler(_ArmSums(1.0), np.zeros((1, 2))),
    **{
        kind: lambda valid, kind=kind: of_setup(kind, valid)
        for kind in ("PSRL", "UCBVI", "DPUCBVI", "RLSVI", "ExploreThenPlan", "SparsePSRL")
    },
    "QLearning": lambda valid: of_setup("QLearning", valid),
    "ContinuousAgent": lambda valid: of_setup("continuous agent", valid),
    "BetaRewards": lambda _: of_rewards(
        agents.BetaRewards(Diffuse(relation=STEP, table="rewards"))
    ),
    "NoisyRewards": lambda _: of_rewards(NoisyRewards(NoisyCounts(**REWARDS))),
    "HatRewards": lambda _: of_rewards(HatRewards(NoisyCounts(**REWARDS))),
    "PersonStream": of_stream,
    "MomentStream": of_moments,
}
ABSTRACT = {
    "PaidSampler", "PaidOnce", "DirichletSampler", "TabularAgent", "Observer", "Checkpointed",
    "CountsAgent", "_Baseline",
}  # fmt: skip
NO_DATA = {"Oracle", "RandomPolicy"}  # agents that release nothing
OTHERWISE = {"KeepsJournal", "SecretGenerator", "RdpAccountant", "PldAccountant"}  # tests/core


@pytest.mark.slow
def test_every_class_that_remembers_a_release_is_tried() -> None:
    """They know the process that they are of, or are samplers or agents."""
    of_one_process = {
        module.__name__ for module in modules() if "this_process()" in inspect.getsource(module)
    }
    found = {
        each.__name__
        for each in classes()
        if issubclass(each, PaidSampler | TabularAgent)
        or (each.__module__ in of_one_process and "this_process()" in inspect.getsource(each))
    }
    assert found - ABSTRACT - NO_DATA - OTHERWISE <= {*STATEFUL}


@pytest.mark.parametrize("kind", STATEFUL)
def test_no_copy_releases_again(kind: str, valid: dict[str, Valid]) -> None:
    """Two of them would share their noise, or have one budget each."""
    thing, draws = STATEFUL[kind](valid)
    draws()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps, lambda x: copy.deepcopy([x])):
        with pytest.raises((ValueError, TypeError), match=r"must not be|cannot be"):
            copied(thing)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_after_a_draw_that_failed_nothing_is_drawn(
    valid: dict[str, Valid], error: type[BaseException]
) -> None:
    wrong = []
    for kind, make in STATEFUL.items():
        if kind in ("PersonStream", "MomentStream"):  # they have paid, and draw other noise
            continue
        _, draws = make(valid)
        with releases.watched_by(Gate(error())), pytest.raises(error):
            draws()
        gate = Gate()
        try:
            with releases.watched_by(gate):
                draws()
        except ValueError:
            continue
        finally:
            wrong += [kind] * bool(gate.seen)
        wrong.append(kind)
    assert not wrong


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_in_a_child_nothing_is_released(valid: dict[str, Valid]) -> None:
    used = {kind: make(valid) for kind, make in STATEFUL.items()}
    for _, draws in used.values():
        draws()
    rng, accountant = np.random.default_rng(0), RdpAccountant()

    def child() -> None:
        wrong = []
        for kind, (_, draws) in used.items():
            try:
                draws()
            except ValueError:
                continue
            wrong.append(kind)
        for name, call in each_release(valid):
            for inherited in ({"rng": rng}, {"accountant": accountant}):
                gate = Gate()
                made = attempt(call, gate, **inherited)
                if "rng" in inherited and "rng" not in call.given():
                    continue
                if not isinstance(made, ValueError) or gate.seen:
                    wrong.append(f"{name} with {[*inherited]}")
        raise ValueError(f"these release in a child: {wrong}")

    assert "these release in a child: []" in str(forked(child))


# What is written and read -------------------------------------------------------------------------


def made_to_save(valid: dict[str, Valid]) -> dict[str, Any]:
    def of(name: str) -> Any:
        return valid[name].function(**valid[name].given())

    agent = of("PSRL.private").learn(3)
    return {
        "PrivateHistogram": of("histogram"),
        "PrivateNaiveBayes": of("PrivateNaiveBayes.fit"),
        "PrivateLogisticRegression": of("PrivateLogisticRegression.fit"),
        "BayesNet": of("PrivateBayesNet.fit"),
        "ContinuousModel": of("fit_continuous_model"),
        "ContinuousPolicy": of("plan_continuous"),
        "Policy": agent.to_policy(),
        "SparsePSRL": agent,
        "Schema": of("Schema"),
        "LogSchema": of("LogSchema"),
        "ContinuousSchema": of("ContinuousSchema"),
        "Released": of("fit_model"),
    }


#: Which inherit ``save`` from one that is tried.
SAVED_ALIKE = {
    "PSRL", "UCBVI", "DPUCBVI", "RLSVI", "ExploreThenPlan", "QLearning", "Oracle", "RandomPolicy",
    "PrintedNaiveBayes", "SavedClassifier", "PlainFile", "Saved", "Spec",
}  # fmt: skip
ELSEWHERE = {"Database", "Release", "CheckpointManager"}  # of sweeps; and of commands


def test_every_class_with_save_is_tried(valid: dict[str, Valid]) -> None:
    found = {each.__name__ for each in classes() if callable(getattr(each, "save", None))}
    assert found - ABSTRACT - SAVED_ALIKE - ELSEWHERE <= {*made_to_save(valid)}


@pytest.mark.slow
def test_no_save_writes_over_a_ledger(valid: dict[str, Valid], tmp_path: Path) -> None:
    """Schemas did, and through a link as well."""
    made = made_to_save(valid)
    released = made.pop("Released")
    plan = offline.ReleasedPolicy.of_model(released)
    sweep = SweepSpec(epsilons=(1.0,), episodes=3, horizon=4, runs=1)
    writers: dict[str, Callable[[Path], Any]] = {name: each.save for name, each in made.items()}
    writers |= {
        "save_policy": lambda path: offline.save_policy(path, plan),
        "save_tables": lambda path: envs.save_tables(path, riverswim(3)),
        "save_released": lambda path: envs.save_released(path, released),
        "write_template": lambda path: valid["write_template"].function(
            **valid["write_template"].given() | {"path": path}
        ),
        "write_log_template": lambda path: write_log_template(path, ["a", "b"]),
        "run_sweep": lambda path: run_sweep(sweep, database=path),
        "Checkpoint": lambda path: (
            valid["PSRL.private"]
            .function(**valid["PSRL.private"].given())
            .learn(3, checkpoint=agents.Checkpoint(path=path, episodes=1))
        ),
    }
    found = {
        f"{name}"
        for name, thing in calls.names()
        if name.startswith(("save", "write")) and takes(thing, "path")
    }
    assert found <= {*writers}
    for name, write in writers.items():
        for ending in (".json", ".toml"):
            folder = tmp_path / f"{name}{ending}"
            folder.mkdir()
            ledger = Ledger(folder / f"ledger{ending}")
            accountant = ledger.accountant("people", delta=1e-5)
            accountant.compose(GaussianCost(sigma=9.0, relation=STEP))
            link = folder / f"link{ending}"
            link.symlink_to(ledger.path)
            for path in (ledger.path, link):
                before = ledger.path.read_bytes()
                try:
                    write(path)
                except (ValueError, OSError):
                    assert link.is_symlink()
                else:
                    assert path == link, name
                assert ledger.path.read_bytes() == before, name


@pytest.mark.slow
def test_nothing_is_read_beside_a_statement_about_another(
    valid: dict[str, Valid], tmp_path: Path
) -> None:
    made = made_to_save(valid)
    released = made["Released"]
    policy = offline.ReleasedPolicy.of_model(released)
    saves = {name: each.save for name, each in made.items() if hasattr(each, "save")}
    saves["Released"] = lambda path: envs.save_released(path, released)
    saves["ReleasedPolicy"] = lambda path: offline.save_policy(path, policy)
    for name, load, page in (
        ("PrivateHistogram", PrivateHistogram.load, ""),
        ("PrivateNaiveBayes", models.PrivateNaiveBayes.load, ""),
        ("PrivateNaiveBayes", load_classifier, ""),
        ("PrivateLogisticRegression", models.PrivateLogisticRegression.load, ""),
        ("BayesNet", BayesNet.load, ""),
        ("Policy", agents.Policy.load, ""),
        ("ReleasedPolicy", offline.load_policy, ""),
        ("ContinuousModel", continuous.ContinuousModel.load, "model.json"),
        ("ContinuousModel", continuous.ReleasedContinuousEnv, "model.json"),
        ("ContinuousPolicy", continuous.ContinuousPolicy.load, "policy.json"),
        ("Released", envs.load_released, "model.json"),
        ("Released", envs.ReleasedEnv, "model.json"),
    ):
        folder = tmp_path / f"{name}{load.__qualname__}"
        folder.mkdir()
        path = folder if page else folder / "m.json"
        saves[name](path)
        load(path)
        for about in STATEMENTS:
            (folder / about).write_text(json.dumps({"sha256": {page or "m.json": "0" * 64}}))
            with pytest.raises(ValueError, match=about.replace(".", r"\.")):
                load(path)
            (folder / about).unlink()


def pages_of(thing: Any, folder: Path) -> Iterator[dict[str, Any]]:
    """What a thing says of itself, wherever it goes; ValueError if it does not."""
    if isinstance(thing, envs.Released):
        envs.save_released(folder, thing)
    elif hasattr(thing, "save"):
        thing.save(folder if hasattr(thing, "core") else folder / "page.json")
    if hasattr(thing, "to_text"):
        yield json.loads(thing.to_text())
    if hasattr(thing, "to_dict"):
        yield thing.to_dict()
    yield from (json.loads(each.read_text()) for each in folder.glob("*.json"))


@pytest.mark.slow
def test_what_was_chosen_states_the_choice_or_nothing(
    valid: dict[str, Valid], tmp_path: Path
) -> None:
    made = made_to_save(valid)
    made["ReleasedPolicy"] = offline.ReleasedPolicy.of_model(made["Released"])
    wrong, target = [], ApproxDP(9.0, 1e-5)
    for name, thing in made.items():
        if name.endswith("Schema"):
            continue
        chosen = select_private({"it": lambda _, t=thing: (t, 0.0)}, target=target, trials=1)
        for how in (
            lambda x: x, copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
            dataclasses.replace, lambda x: x.with_temperature(0.5), lambda x: x.to_policy(),
            offline.ReleasedPolicy.of_model, continuous.plan_continuous,
        ):  # fmt: skip
            folder = tmp_path / f"{len([*tmp_path.iterdir()])}"
            folder.mkdir()
            try:
                it = how(chosen.result)
            except (ValueError, TypeError, AttributeError):  # it has no such thing
                continue
            try:
                pages = [*pages_of(it, folder)]
            except (ValueError, NotFittedError):
                assert not [*folder.iterdir()]
                continue
            for page in pages:
                if page.get("guarantee", {}).get("epsilon", 0) < 8.99:
                    wrong.append(f"{name}: {page.get('guarantee')}")
    assert not wrong


class OfTrial(RdpAccountant):
    """Stands for the accountant of a trial, in a thread that a candidate started."""

    trial = TrialName("a trial")


@pytest.mark.slow
def test_a_trial_pays_for_every_release_in_it(valid: dict[str, Valid]) -> None:
    """Who forgot ``accountant=trial.accountant`` released for nothing, and was not told."""
    wrong = []
    for name, call in each_release(valid):
        if name == "select_private":  # which no trial pays for
            continue
        for accountant in (None, RdpAccountant(), OfTrial()):
            gate = Gate()
            made = paying(OfTrial.trial, partial(attempt, call, gate, accountant=accountant))
            if name == "discretise":  # never in a trial: bins have no file that could refuse
                fine = isinstance(made, ValueError) and not gate.seen
            elif isinstance(accountant, OfTrial):
                fine = not isinstance(made, BaseException) and "r" in gate.seen
            else:
                told = isinstance(made, ValueError) and "pass accountant=trial.acc" in str(made)
                fine = told and not gate.seen
            if not fine:
                wrong.append(f"{name} with {accountant}: {gate.seen} {made!r}")
    assert not wrong


@pytest.mark.parametrize("kind", STATEFUL)
def test_what_is_in_use_elsewhere_releases_nothing_in_a_trial(
    kind: str, valid: dict[str, Valid]
) -> None:
    """What was paid for once was free in a trial, and in all others: they were not independent."""
    _, draws = STATEFUL[kind](valid)
    if kind != "QLearning":  # which draws once, and no noise
        draws()
    gate = Gate()
    with releases.watched_by(gate), pytest.raises(ValueError, match=r"accountant must be|stream"):
        paying(OfTrial.trial, draws)
    assert not gate.seen


@pytest.mark.parametrize(
    ("sampler", "counts"),
    [
        (NoisyCounts(sigma=3.0, updates=3, relation=STEP), TABLE),
        (SparseCounts(sigma=3.0, releases=[0, 1, 2], relation=STEP), TABLE),
        (MomentSampler(sigma=3.0, updates=3, columns=2, cells=1, relation=STEP), np.zeros(4)),
    ],
    ids=["NoisyCounts", "SparseCounts", "MomentSampler"],
)
def test_a_sampler_is_paid_for_in_each_trial(sampler: Any, counts: Any) -> None:
    """What a sampler of one trial released in the next one was free."""
    used, relation = [], sampler.cost.relation

    def candidate(trial: Any) -> tuple[None, float]:
        used.append(draw(trial.accountant, [(sampler, counts)]))
        draw(trial.accountant, [(sampler, counts)])
        return None, 0.0

    def selected() -> None:
        target = ApproxDP(9.0, 1e-5)
        select_private({"it": candidate}, target=target, trials=1, relation=relation)

    selected()
    with pytest.raises(ValueError, match="in that trial alone"):
        selected()
    sampler = sampler.fresh()
    selected()
    assert len(used) == 2


#: What has no file, whatever is made of it: numbers, and mechanisms.
OF_NUMBERS = {
    *("choice.release", "dirichlet.release", "draw", "evaluate_policy", "imed"),
    *("discrete_gaussian.release", "discrete_laplace.release", "exponential.release"),
    *("gaussian.release", "laplace.release", "noisy_posterior.release", "policy mechanism"),
    *("select_private", "simplex.release", "sums.release", "tables.release", "PersonStream"),
}


def made_of_release(made: Any) -> Iterator[Any]:
    """What may have a file, of what a release made."""
    if isinstance(made, offline.policy.LoggedPolicy):
        budget, ends = float(made.cost.pure_epsilon), tuple("abcd"[: len(made.facts.outcomes)])
        yield offline.ReleasedPolicy.of_log(made, epsilon=budget, outcomes=ends)
    for how in (
        lambda x: x, lambda x: x.classifier_,
        lambda x: None if x._is_begun_before else x.naive_bayes_,
        copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
        dataclasses.replace, lambda x: x.with_temperature(0.5), lambda x: x.to_policy(),
        lambda x: x.learn().to_policy(), offline.ReleasedPolicy.of_model,
        continuous.plan_continuous,
    ):  # fmt: skip
        with suppress(ValueError, TypeError, AttributeError, NotFittedError):
            yield how(made)  # if it has such a thing


@pytest.mark.slow
def test_every_release_keeps_which_trial_paid_for_it(
    valid: dict[str, Valid], tmp_path: Path
) -> None:
    """Classifiers alone did: files of the others stated one trial of a selection."""
    without, wrong = set(), []
    for name, call in each_release(valid):
        refused = 0
        made = attempt(call, Gate(), accountant=OfTrial())
        if name == "discretise":  # bins have no file that could refuse
            assert "not in a trial" in str(made)
            continue
        for number, each in enumerate(made_of_release(made)):
            (folder := tmp_path / f"{name}{number}").mkdir()
            try:
                wrong += [f"{name}: {page.get('format')}" for page in pages_of(each, folder)]
            except ValueError as error:
                refused += "trial" in str(error)
            assert not [*folder.iterdir()], name
        if not refused:
            without.add(name)
    assert not wrong
    assert without == OF_NUMBERS
