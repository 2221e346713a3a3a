"""Objects that several public calls share: each kind, every call that takes it, and each pair.

Whatever two calls share, such as an accountant, a generator, a sampler, an agent or an array, the
total is the sum of what each release costs, no noise is repeated, and nothing that is done later
changes what an earlier call has stated. What threads share is in `core/test_threads.py` and
`agents/test_threads_of_agents.py`; what processes do, in `core/test_randomness.py`.
"""

import copy
import inspect
import pickle
import threading
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import calls
import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import privrl
from privrl.accounting import ApproxDP, Ledger, PldAccountant, RdpAccountant, RenyiDP, releases
from privrl.agents import (
    PSRL,
    BetaRewards,
    Checkpoint,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    Policy,
    TabularSetup,
)
from privrl.costs import ReplaceStep
from privrl.data import Schema
from privrl.experiments import train
from privrl.models import PrivateLogisticRegression, PrivateNaiveBayes, discretise, histogram
from privrl.numerics.randomness import SECRET, secret_rng
from privrl.samplers import Concentrated, Diffuse, NoisyCounts, SparseCounts, draw
from privrl.samplers.base import stack

pytestmark = pytest.mark.filterwarnings("ignore")

#: Every public call that takes what others take as well, by the name of its parameter.
TAKES: Final = {
    "accountant": (
        "AdditiveMechanism.calibrated DirichletMechanism.calibrated Mechanism.release "
        "NoisyPosteriorMechanism.calibrated PSRL.private PrivateBayesNet.fit "
        "PrivateClassifier.fit PrivateLogisticRegression.fit PrivateNaiveBayes.fit "
        "SimplexMechanism.calibrated TabularSetup calibrate discretise draw evaluate_policy "
        "fit_continuous_model fit_model fit_policy histogram select_private"
    ),
    "rng": (
        "BetaRewards.encode BetaRewards.encode_counts BetaRewards.update ContinuousModel.sample "
        "ContinuousModel.sample_start DirichletSampler.update HatRewards.encode "
        "HatRewards.encode_counts HatRewards.update KnownRewards.encode "
        "KnownRewards.encode_counts KnownRewards.update Mechanism.release NoisyCounts.update "
        "NoisyRewards.encode NoisyRewards.encode_counts NonPrivate.update PSRL.private "
        "PrivateBayesNet.fit QLearning.play Sampler.update SparseCounts.update "
        "TabularAgent.learn TabularMDP.rollout_counts TabularSetup audit_dirichlet "
        "audit_mechanism discretise draw evaluate_policy fit_continuous_model fit_model "
        "fit_policy histogram sample_log select_private train"
    ),
    "ledger": "Checkpoint Checkpoint.parse Checkpointed.load Checkpointed.save",
    "sampler": "BetaRewards HatRewards Method NoisyRewards TabularSetup audit_dirichlet",
    "updates": "NoisyCounts draw",
    "rewards": "Method TabularSetup",
    "setup": (
        "DPUCBVI ExploreThenPlan PSRL PSRL.build QLearning QLearning.build RLSVI SparsePSRL "
        "SparsePSRL.build TabularAgent TabularAgent.build UCBVI"
    ),
    "env": (
        "PSRL.private Policy Policy.of Ranged SweepSpec TabularAgent.learn "
        "TabularMDP.from_gymnasium TrainSpec numbered public_facts train"
    ),
    "log": "evaluate_policy fit_continuous_model fit_model fit_policy",
    "schema": (
        "ContinuousLog ContinuousLog.from_buffer ContinuousLog.from_minari "
        "ContinuousLog.grouped ContinuousLog.of_arrays ContinuousModel ContinuousPolicy "
        "PrivateBayesNet PrivateClassifier PrivateLogisticRegression PrivateNaiveBayes "
        "read_continuous_log read_log read_partitioned_records read_partitions sample_log"
    ),
    "naive_bayes": "PrivateLogisticRegression.fit",
    "candidates": "select_private",
    "checkpoint": "TabularAgent.learn run_training train",
    "callback": "TabularAgent.learn run_training train",
}


def walked() -> dict[str, str]:
    found = defaultdict(set)
    for name, thing in calls.names():
        public = [(name, thing)]
        for each in dir(thing) if inspect.isclass(thing) else ():
            kind = inspect.getattr_static(thing, each)
            made = getattr(kind, "__func__", kind)
            if each[0] != "_" and inspect.isfunction(made):
                public.append((made.__qualname__, made))
        for called, one in public:
            try:
                parameters = inspect.signature(one).parameters
            except (TypeError, ValueError):
                continue
            for parameter in TAKES.keys() & parameters.keys():
                found[parameter].add(called)
    return {name: " ".join(sorted(each)) for name, each in found.items()}


def test_every_call_that_takes_what_others_share_is_listed() -> None:
    """A new one belongs into `TAKES`, and into the pairs below."""
    assert walked() == {name: " ".join(sorted(each.split())) for name, each in TAKES.items()}


# --- what is compared -----------------------------------------------------------------------

_PLAIN = (str, int, float, bool, bytes, complex, type(None), np.generic)
_CODE = (types.ModuleType, type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


def content(thing: Any, met: dict[int, Any] | None = None) -> str:
    """All that an object holds, but generators and locks."""
    met = {} if met is None else met
    if isinstance(thing, _PLAIN):
        return repr(thing)
    if id(thing) in met or isinstance(thing, (np.random.Generator, *_CODE)):
        return "~"
    met[id(thing)] = thing
    if isinstance(thing, np.ndarray):
        return f"{thing.shape}{thing.dtype}{thing.tolist()}"
    if isinstance(thing, pd.DataFrame | pd.Series):
        return thing.to_csv()
    if isinstance(thing, Mapping):
        return "{" + ", ".join(f"{k}: {content(v, met)}" for k, v in thing.items()) + "}"
    if isinstance(thing, list | tuple | set | frozenset):
        return "[" + ", ".join(content(each, met) for each in thing) + "]"
    return f"{type(thing).__name__}{content(getattr(thing, '__dict__', {}), met)}"


def stated(thing: Any) -> str:
    """What an object says of itself; as a first look it makes what is made when asked for."""
    said = []
    for name in ("to_dict", "guarantee", "statement", "total_cost_", "cost_", "cost", "__repr__"):
        try:
            value = getattr(thing, name)
            said.append(content(value() if callable(value) else value))
        except Exception as error:
            said.append(type(error).__name__)
    return " ".join(said)


def spoil(value: Any, met: dict[int, Any]) -> int:
    """Change what can be changed in place, at every depth; return how much there was."""
    if id(value) in met:
        return 0
    met[id(value)] = value
    if isinstance(value, np.ndarray):
        if not (value.size and value.flags.writeable and value.dtype.kind in "biuf"):
            return 0
        value[...] = ~value if value.dtype.kind == "b" else value + 1
    elif isinstance(value, pd.DataFrame | pd.Series):
        value.iloc[:] = value.iloc[::-1].to_numpy()
    elif type(value) is dict:
        within = sum(spoil(each, met) for each in value.values())
        value["spoilt"] = 0.125
        return within + 1
    elif isinstance(value, list | tuple | types.SimpleNamespace):
        parts = vars(value).values() if isinstance(value, types.SimpleNamespace) else value
        within = sum(spoil(each, met) for each in parts)
        if type(value) is list:
            value.reverse()
            value.append(0.125)
            return within + 1
        return within
    else:
        return 0
    return 1


def open_to_changes(value: Any) -> Any:
    """A copy of arrays, frames, lists, tuples and dictionaries that can be changed in place."""
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Series):
        return value.copy()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [open_to_changes(each) for each in value]
    if type(value) is dict:
        return {name: open_to_changes(each) for name, each in value.items()}
    return value


def handed_out(thing: Any, met: dict[int, Any]) -> Iterator[Any]:
    """Arrays, lists and dictionaries that public attributes give, at every depth."""
    if isinstance(thing, (*_PLAIN, *_CODE, np.random.Generator)) or id(thing) in met:
        return
    met[id(thing)] = thing
    if isinstance(thing, np.ndarray | list) or type(thing) is dict:
        yield thing
    if isinstance(thing, Mapping | list | tuple):
        for each in list(thing.values() if isinstance(thing, Mapping) else thing):
            yield from handed_out(each, met)
    elif type(thing).__module__.startswith("privrl"):
        for name in dir(thing):
            if name[0] != "_" and name != "metadata":  # of a class, and so of all later tests
                try:
                    yield from handed_out(getattr(thing, name), met)
                except (AttributeError, ValueError, ImportError):
                    continue  # not there yet


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls write files."""
    monkeypatch.chdir(tmp_path)


@cache
def table() -> dict[str, calls.Valid]:
    return calls.table()


# --- arguments and results ------------------------------------------------------------------

#: Which keep an argument as it is: laws of audits, and plain settings; no statement rests on them.
KEPT = {"GaussianLaw", "DiscreteGaussianLaw", "LaplaceLaw", "DiscreteLaplaceLaw", "DirichletLaw",
        "PublicFacts", "TrainSpec"}  # fmt: skip


@pytest.mark.parametrize("part", range(3))
@pytest.mark.few(3)
def test_no_change_of_an_argument_changes_an_earlier_result(part: int) -> None:
    tried, changed = 0, []
    for name in sorted(table().keys() - KEPT)[part::3]:
        call = table()[name]
        for argument, value in call.given().items():
            other = open_to_changes(value)
            if other is value:
                continue
            try:
                made = call.function(**{**call.given(), argument: other})
            except (ValueError, TypeError, AttributeError):
                continue  # a list in place of a tuple
            stated(made)
            before = stated(made), content(made)
            if spoil(other, {}):
                tried += 1
                if (stated(made), content(made)) != before:
                    changed.append(f"{name}({argument})")
    assert tried > 40
    assert not changed


@pytest.mark.parametrize("part", range(6))
@pytest.mark.few(6)
def test_no_change_of_a_result_changes_the_next_one(part: int) -> None:
    """What a function remembers, or takes from a constant, is not what it hands out."""
    tried, changed = 0, []
    for name in sorted(table().keys() - KEPT)[part::6]:
        call = table()[name]
        results = [call.function(**call.given()) for _ in range(2)]
        before = list(map(stated, results))
        for result in results:
            met: dict[int, Any] = {}
            for each in list(handed_out(result, {})):
                tried += spoil(each, met)
        if "begun" not in name and before[0] == before[1]:  # that starts with what was spoilt
            changed += [name] * (stated(call.function(**call.given())) != before[0])
    assert tried > 20
    assert not changed


# --- accountants ----------------------------------------------------------------------------

#: One for each relation, and quick.
SECOND: Final = ("gaussian.release", "draw", "evaluate_policy", "simplex.release")


def charges(accountant: Any) -> Counter[str]:
    made: Counter[str] = Counter()
    for entry in accountant.journal:
        made[repr(entry.cost)] += entry.count
    return made


def calls_with(accountant: Any, name: str, **more: Any) -> dict[str, Any]:
    """Arguments of a valid call, charged to this accountant."""
    given = table()[name].given()
    for each, value in given.items():
        if isinstance(value, RdpAccountant):
            given[each] = accountant
    return given | {each: value for each, value in more.items() if each in given}


@cache
def alone(kind: Callable[[], Any]) -> dict[str, tuple[str, Counter[str]]]:
    """Of each call that charges an accountant: the relation and the costs."""
    found = {}
    for name, call in table().items():
        accountant = kind()
        if any(isinstance(each, RdpAccountant) for each in call.given().values()):
            try:
                call.function(**calls_with(accountant, name))
            except ValueError:  # one of loss distributions takes no relation of one direction
                continue
            if made := charges(accountant):
                found[name] = str(accountant.relation), made
    return found


@pytest.mark.parametrize("kind", [RdpAccountant, PldAccountant])
@pytest.mark.parametrize("seconds", [SECOND, None], ids=["some", "all"])
@pytest.mark.few(4)
def test_an_accountant_adds_up_each_pair_of_one_relation_and_refuses_others(
    kind: Callable[[], Any], seconds: tuple[str, ...] | None
) -> None:
    """Each call first, then each one on a copy of the accountant: also the same one again."""
    known = alone(kind)
    assert len(known) > 20
    for first, (relation, cost) in known.items():
        accountant = kind()
        table()[first].function(**calls_with(accountant, first))
        assert charges(accountant) == cost, first
        for second in {*(seconds or known), *([first] if seconds is None else ())} & known.keys():
            copied = copy.copy(accountant)
            other, more = known[second]
            if other == relation:
                table()[second].function(**calls_with(copied, second))
                assert charges(copied) == cost + more, (first, second)
                assert copied.epsilon(1e-5) >= accountant.epsilon(1e-5), (first, second)
            else:
                with pytest.raises(ValueError, match="relation"):
                    table()[second].function(**calls_with(copied, second))
                assert charges(copied) == cost, (first, second)
        assert charges(accountant) == cost, first


def test_a_ledger_adds_up_pairs_of_one_relation(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    names = ("gaussian.release", "histogram", "PrivateNaiveBayes.fit", "draw")
    known, total = alone(RdpAccountant), Counter[str]()
    for name in names[:3]:
        for accountant in (ledger.accountant("people"), copy.copy(ledger.accountant("people"))):
            table()[name].function(**calls_with(accountant, name))
            assert charges(accountant) == known[name][1]
            total += known[name][1]
    assert len(ledger.amounts("people")) == total.total() == 6
    one = ledger.accountant("people")
    table()["histogram"].function(**calls_with(one, "histogram"))
    with pytest.raises(ValueError, match="relation"):
        table()["draw"].function(**calls_with(one, "draw"))
    assert len(ledger.amounts("people")) == 7


class Stops:
    """Interrupts each draw when its noise is there, as Ctrl-C may."""

    def charged(self, cost: object) -> None:
        pass

    def released(self, who: object, cost: object, data: Any, rng: Any, make: Any) -> Any:
        make(data, rng)
        raise KeyboardInterrupt


@pytest.mark.slow
def test_whatever_came_before_the_same_call_pays_again_or_refuses() -> None:
    """After it was made, refused by a budget, and interrupted when its noise was drawn."""
    for name, (_, cost) in alone(RdpAccountant).items():
        call, accountant = table()[name], RdpAccountant()
        given = calls_with(accountant, name, rng=secret_rng())
        first = call.function(**given)
        before = stated(first)
        call.function(**given)
        assert charges(accountant) == cost + cost, name
        assert stated(first) == before, name

        refusing = RdpAccountant(budget=RenyiDP(2.0, 1e-12))
        given = calls_with(refusing, name, rng=secret_rng())
        with pytest.raises(ValueError, match="nothing was spent"):
            call.function(**given)
        assert not charges(refusing), name
        given = {each: accountant if value is refusing else value for each, value in given.items()}
        call.function(**given)
        assert charges(accountant) == cost + cost + cost, name

        stopped = RdpAccountant()
        given = calls_with(stopped, name, rng=secret_rng())
        try:
            with releases.watched_by(Stops()):
                call.function(**given)
        except KeyboardInterrupt:
            assert charges(stopped) == cost, name
            try:
                call.function(**given)
            except ValueError:
                assert charges(stopped) == cost, name
            else:
                assert charges(stopped) == cost + cost, name
        else:
            assert name == "PersonStream"  # which has drawn nothing yet


def test_two_threads_with_the_same_arguments_pay_twice() -> None:
    for name, (_, cost) in alone(RdpAccountant).items():
        accountant, failed = RdpAccountant(), []
        given = calls_with(accountant, name, rng=secret_rng())

        def work(name: str = name, given: Any = given, failed: list[Any] = failed) -> None:
            try:
                table()[name].function(**given)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in "ab"]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert not failed, name
        assert charges(accountant) == cost + cost, name


# --- generators -----------------------------------------------------------------------------


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


COPIES: Final = (copy.copy, copy.deepcopy, again)


def test_one_secret_generator_for_all_calls_never_repeats_itself(tmp_path: Path) -> None:
    rng = secret_rng()
    seen = {rng.bytes(16)}

    def check(name: str) -> None:
        for each in (rng, *(how(rng) for how in COPIES), *rng.spawn(1)):
            number = each.bytes(16)
            assert number not in seen, name
            seen.add(number)

    for name, call in table().items():
        given = call.given()
        if isinstance(given.get("rng"), np.random.Generator):
            made = call.function(**{**given, "rng": rng})
            check(name)
            for each in ("randomness", "randomness_"):
                assert getattr(made, each, SECRET) == SECRET, name

    ledger = Ledger(tmp_path / "ledger.sqlite")
    saved = {"path": tmp_path / "run.private", "ledger": ledger}
    for _ in range(2):  # the second one begins where the first one was saved
        given = {"env": gym.make("privrl/RiverSwim-v0", max_episode_steps=3), "epsilon": 1}
        agent = PSRL.private(**given, episodes=2, rng=rng)
        train(agent, given["env"], 2, rng, checkpoint=Checkpoint(**saved, episodes=1))
        check("checkpoint")
        agent.save(tmp_path / "agent.private", ledger=ledger)
        other = PSRL.private(**given, episodes=2, rng=rng)
        other.load(tmp_path / "agent.private", ledger=ledger)
        check("load")


def test_a_release_after_a_run_that_is_resumed_has_noise_of_its_own(tmp_path: Path) -> None:
    """A script that ran twice published the difference of two data sets, as it was."""
    ledger, released = Ledger(tmp_path / "ledger.sqlite"), []
    values = np.array([[10.0] * 500, [10.0] * 499 + [70.0]])
    for data in values:
        rng, env = privrl.secret_rng(), gym.make("privrl/RiverSwim-v0", max_episode_steps=3)
        agent = PSRL.private(env, epsilon=1, episodes=2)
        checkpoint = Checkpoint(path=tmp_path / "run.private", episodes=1, ledger=ledger)
        agent.learn(2, env=env, rng=rng, checkpoint=checkpoint)
        released.append(histogram(data, 4, (0, 80), target=ApproxDP(1, 1e-5), rng=rng))
    assert [each.randomness for each in released] == [SECRET, SECRET]
    assert (released[0].noisy - released[1].noisy).tolist() != [1, 0, 0, -1]


# --- samplers -------------------------------------------------------------------------------

STEP: Final = ReplaceStep()
COUNTED: Final = {"sigma": 3.0, "relation": STEP}


def noisy(table: str = "transitions", **more: Any) -> NoisyCounts:
    return NoisyCounts(**COUNTED, updates=6, table=table, **more)


#: Each sampler, and how many of four draws pay.
SAMPLERS: Final[dict[str, tuple[Callable[[], Any], int]]] = {
    "Diffuse": (lambda: Diffuse(relation=STEP), 4),
    "Diffuse, window": (lambda: Diffuse(relation=STEP, window=2), 2),
    "Concentrated": (lambda: Concentrated(relation=STEP), 4),
    "NoisyCounts": (noisy, 1),
    "NoisyCounts, buffered": (lambda: noisy(factorisation="buffered"), 1),
    "SparseCounts": (lambda: SparseCounts(**COUNTED, releases=range(6)), 1),
    "stack": (lambda: stack([noisy(), noisy()]), 1),
    "BetaRewards": (lambda: BetaRewards(Diffuse(relation=STEP, table="rewards")), 4),
    "NoisyRewards": (lambda: NoisyRewards(noisy("rewards")), 1),
    "HatRewards": (lambda: HatRewards(noisy("rewards")), 1),
}
DATA: Final = np.random.default_rng(1).integers(0, 4, (4, 2, 3, 2, 22)).astype(float)


def batch(sampler: Any, k: int) -> np.ndarray:
    return DATA[k, ..., : getattr(sampler, "width", 4)].copy()


@pytest.mark.parametrize("name", SAMPLERS)
def test_four_draws_pay_and_are_alike_whatever_is_done_in_between(name: str) -> None:
    make, paying = SAMPLERS[name]
    shown = []
    for changes in (False, True):
        sampler, accountant, rng = make(), RdpAccountant(), np.random.default_rng(2)
        seen, kept = [], []
        for k in range(4):
            data = batch(sampler, k)
            (posterior,) = draw(accountant, [(sampler, data)], rng)
            seen.append(content(posterior))
            kept.append(posterior)
            if changes:
                spoil(data, {})
                for how in COPIES:
                    with pytest.raises(ValueError, match="sampler"):
                        how(sampler)
                for other in (RdpAccountant(), copy.copy(accountant)):
                    with pytest.raises(ValueError, match="accountant must be that"):
                        draw(other, [(sampler, batch(sampler, k))], rng)
                    assert charges(other) in (Counter(), charges(accountant))
        assert [content(each) for each in kept] == seen  # also after the later ones
        assert charges(accountant).total() == paying
        shown.append(seen)
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_change_of_a_posterior_changes_the_next_one(name: str) -> None:
    shown = []
    for changes in (False, True):
        sampler, accountant, rng = SAMPLERS[name][0](), RdpAccountant(), np.random.default_rng(2)
        for k in range(4):
            (posterior,) = draw(accountant, [(sampler, batch(sampler, k))], rng)
            shown += [content(posterior)] * (k == 3)
            for each in list(handed_out(posterior, {})) if changes else ():
                spoil(each, {})
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_came_before_a_draw_makes_none_free(name: str) -> None:
    make, rng = SAMPLERS[name][0], np.random.default_rng(2)
    used = make()  # by an update that nobody paid for
    used.update(batch(used, 0), rng)
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="accountant must be that of the sampler's earlier draws"):
        draw(accountant, [(used, batch(used, 1))], rng)
    draw(accountant, [(used.fresh(), batch(used, 1))], rng)
    assert charges(accountant).total() == 1

    used = make()  # by a draw that the budget did not cover
    with pytest.raises(ValueError, match="nothing was spent"):
        draw(RdpAccountant(budget=RenyiDP(2.0, 1e-9)), [(used, batch(used, 0))], rng)
    draw(accountant, [(used, batch(used, 0))], rng)
    assert charges(accountant).total() == 2

    used, poor = make(), RdpAccountant(budget=RenyiDP(2.0, 1e-9))  # by both, one after the other
    with pytest.raises(ValueError, match="nothing was spent"):
        draw(poor, [(used, batch(used, 0))], rng)
    used.update(batch(used, 0), rng)
    with pytest.raises(ValueError, match="accountant must be that of the sampler's earlier draws"):
        draw(poor, [(used, batch(used, 1))], rng)

    used = make()  # by an interrupt
    with releases.watched_by(Stops()), pytest.raises(KeyboardInterrupt):
        draw(accountant, [(used, batch(used, 0))], rng)
    with pytest.raises(ValueError, match="failed midway"):
        draw(accountant, [(used, batch(used, 1))], rng)
    assert charges(accountant).total() == 3


# --- agents ---------------------------------------------------------------------------------


def setup(**more: Any) -> TabularSetup:
    rewards = {"rewards": KnownRewards(np.zeros((2, 2)))}
    return TabularSetup(2, 2, 3, sampler=Diffuse(relation=STEP), **{**rewards, **more})


def test_two_agents_of_one_setup_share_the_account_and_nothing_else() -> None:
    shared = setup(accountant=RdpAccountant(), rng=secret_rng())
    first, second = PSRL(shared), PSRL(shared)
    ones, paid = np.ones((2, 2, 2), int), np.zeros((2, 2, 1))
    first.begin_episode(0)
    first.observe_counts(ones, paid)
    before = first.to_policy()
    said = copy.deepcopy(before.guarantee)
    for episode in range(3):
        second.begin_episode(episode)
    assert (first.draws, second.draws, charges(shared.accountant).total()) == (1, 3, 4)
    assert second._new.is_empty
    first.begin_episode(1)
    after = first.to_policy()
    assert before.guarantee == said
    assert after.guarantee["epsilon_delta"] > said["epsilon_delta"]
    assert after.guarantee["draws"] == 2


def test_what_an_agent_has_observed_is_its_own() -> None:
    agent = PSRL(setup(rewards=HatRewards(noisy("rewards"))))
    agent.begin_episode(0)
    counts, paid = np.ones((2, 2, 2), int), np.full((2, 2, 1), 0.5)
    steps = {name: np.array([[0, 1], [1, 0]]) for name in ("state", "action", "next_state")}
    steps |= {"reward": np.full((2, 2), 0.5), "observed": np.ones((2, 2), bool)}
    steps["terminated"] = np.zeros((2, 2), bool)
    agent.observe_counts(counts, paid)
    agent.observe_steps(**steps)
    before = content(agent._new)
    assert spoil([counts, paid, steps], {}) > 8
    assert content(agent._new) == before


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_an_agent_has_an_account_of_its_own_or_is_refused(how: Any) -> None:
    agent = PSRL(setup(rng=secret_rng()))
    if how is not again:
        other = how(agent)
        other.begin_episode(0)
        assert (charges(agent.accountant).total(), charges(other.accountant).total()) == (0, 1)
    agent.begin_episode(0)
    with pytest.raises(ValueError, match="must not be"):
        how(agent)
    assert charges(agent.accountant).total() == 1


def test_a_policy_stays_as_it_was_stated() -> None:
    actions, said = np.zeros((3, 2), int), {"epsilon": 1.0, "caveats": ["a"]}
    policy = Policy(actions=actions, n_actions=2, guarantee=said)
    before = content(policy)
    spoil([actions, said], {})
    assert content(policy) == before
    assert all(content(how(policy)) == before for how in COPIES)


def test_the_statement_of_a_run_can_not_be_changed() -> None:
    call = table()["run_training"]
    result = call.function(**call.given())
    with pytest.raises(TypeError, match="read-only"):
        result.guarantee["epsilon"] = 1e-9
    with pytest.raises(TypeError, match="read-only"):
        result.guarantee["caveats"].append("none")


def test_whose_a_step_is_cannot_be_changed() -> None:
    """Not by what adds to a table either: a stream asks it about the same parts again."""
    log = table()["fit_model"].given()["log"]
    for each in (log, *log.blocks(1), *(how(log) for how in COPIES)):
        with pytest.raises(ValueError, match="read-only"):
            each.person[...] = 0


# --- estimators, and released bins ----------------------------------------------------------

X: Final = np.array([[0, 0], [1, 0], [2, 1], [2, 1]] * 50)
Y: Final = np.array([0, 0, 1, 1] * 50)


@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression])
def test_a_fit_states_the_same_whatever_is_fitted_later(kind: Any) -> None:
    sizes, classes = [3, 2], [0, 1]
    model = kind(sizes, classes=classes, target=RenyiDP(2, 1))
    accountant = RdpAccountant()
    model.fit(X, Y, accountant=accountant)
    before, cost = model.to_dict(), model.total_cost_
    copies = [how(model) for how in COPIES]
    model.set_params(target=RenyiDP(2, 9)).fit(X[::2], Y[::2], accountant=accountant)
    assert charges(accountant) == Counter(map(repr, (cost, model.total_cost_)))
    assert [each.to_dict() for each in copies] == [before] * 3
    other = clone(model)
    with pytest.warns(UserWarning, match="a clone"):
        other.fit(X, Y, accountant=accountant)
    for each in (other, *(how(other) for how in COPIES)):
        assert each.guarantee["caveats"]
    assert charges(accountant).total() == 3
    for values in (sizes, classes):
        values.append(7)
    with pytest.raises(ValueError, match="fitted with"):
        model.to_dict()


def test_what_a_fit_began_with_can_be_fitted_again() -> None:
    first = PrivateNaiveBayes([3, 2], classes=[0, 1], target=RenyiDP(2, 1)).fit(X, Y)
    model = PrivateLogisticRegression([3, 2], classes=[0, 1], target=RenyiDP(2, 1))
    model.fit(X, Y, naive_bayes=first)
    before, cost = model.to_dict(), first.cost_
    first.set_params(target=RenyiDP(2, 0.01)).fit(X, Y)
    assert model.to_dict() == before
    assert repr(cost) in repr(model.total_cost_)


def test_released_bins_state_what_they_cost_however_they_are_copied() -> None:
    frame = pd.DataFrame({"age": np.arange(200.0) % 80, "y": Y})
    found = discretise(frame[["age"]], {"age": (0, 80)}, target=ApproxDP(1, 1e-5), bins=3)
    bins = found["age"] if isinstance(found, Mapping) else found.columns["age"]
    domain = Schema({"age": bins, "more": bins})
    copies = [Schema({"age": how(bins)}) for how in COPIES]
    copies += [Schema({"age": replace(bins)}), domain.subset(["age"])]
    copies += [Schema.from_dict(domain.to_dict()), *(how(domain) for how in COPIES)]
    said = []
    for schema in copies:
        model = PrivateNaiveBayes(schema.subset(["age"]), classes=[0, 1], target=RenyiDP(2, 1))
        model.fit(frame[["age"]], Y)
        said += [each.guarantee["bins"] for each in (model, *(how(model) for how in COPIES))]
    assert len(said[0]) == 1
    assert all(each == said[0] for each in said)
