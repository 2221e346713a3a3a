"""What is charged is released: nothing fails after the charge, whatever is public of a log.

And what stops a run all the same, as an interrupt does, says that the budget is spent.
"""

import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowds import crowd, left_of, one_says, says
from test_cli_offline import FIT, SCHEMA, run, said, visits

from privrl.accounting import Budget, BudgetExceeded, Ledger, RdpAccountant
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, ReplacePerson
from privrl.data import Categories
from privrl.data.logs import Log, LogSchema, read_log
from privrl.data.logs.episodes import from_buffer
from privrl.data.logs.log import CUT, LogSpace
from privrl.data.logs.partitions import PartitionedLog
from privrl.files import files as _files
from privrl.offline import (
    ReleasedPolicy,
    evaluate_policy,
    fit_model,
    fit_policy,
    load_policy,
    plan_for,
    sample_log,
)
from privrl.offline.persons import PersonStream, person_cost
from privrl.offline.saving import unit_in_words

Random = np.random.Generator
LOUD = LaplaceCost(scale=2.0**-15, relation=AddRemovePerson(), table=SUMS)  # hardly any noise
NORMAL = GaussianCost(sigma=2.0**-15, relation=AddRemovePerson(), table=NORMS)


# Public facts of all kinds ------------------------------------------------------------------------

REWARDS = (0.0, 1.0, -1.0, 0.5, 1e-8, 3e-16, 1e50, -1e50, 1e-50)
STEP_REWARDS = (
    *((0.0, 0.0), (0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, 1 + 2**-52)),
    *((1e50, 1e50), (-1e50, -1e50), (-1e50, 1e50), (1e-50, 1e-50), (0.0, 1e-50), (1e-50, 1.0)),
)


def pick(rng: Random, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def space_of(rng: Random) -> dict[str, Any]:
    n_outcomes = int(rng.integers(4))
    return {
        "n_states": pick(rng, (1, 2, 5)),
        "n_actions": pick(rng, (1, 2, 3)),
        "outcomes": tuple("abc"[:n_outcomes]),
        "outcome_rewards": tuple(pick(rng, REWARDS) for _ in range(n_outcomes)),
        "step_rewards": pick(rng, STEP_REWARDS),
        "most_steps": pick(rng, (1, 1, 2, 5, 60, 2**53)),
        "most_episodes": pick(rng, (1, 1, 3, 2**53)),
    }


def some_log(rng: Random, space: dict[str, Any], n_persons: int, ends: str) -> Log:
    """Persons who do anything; their episodes are all cut off, all ended, or some."""
    low, high = space["step_rewards"]
    n_states, n_outcomes = space["n_states"], len(space["outcomes"])
    columns: dict[str, list[Any]] = {"state": [], "action": [], "next_state": [], "reward": []}
    episodes, persons = [0], [0]
    for _ in range(n_persons):
        for _ in range(int(rng.integers(1, min(space["most_episodes"], 3) + 1))):
            n = int(rng.integers(1, min(space["most_steps"], 5) + 1))
            states = rng.integers(n_states, size=n).tolist()
            rewards = rng.choice([low, high], n).tolist()
            end = CUT
            if n_outcomes and (ends == "ended" or (ends == "any" and rng.random() < 0.5)):
                outcome = int(rng.integers(n_outcomes))
                end = n_states + outcome
                rewards[-1] += space["outcome_rewards"][outcome]
            columns["state"] += states
            columns["action"] += rng.integers(space["n_actions"], size=n).tolist()
            columns["next_state"] += [*states[1:], end]
            columns["reward"] += rewards
            episodes.append(episodes[-1] + n)
        persons.append(len(episodes) - 1)
    arrays = {name: np.array(each, np.intp) for name, each in columns.items() if name != "reward"}
    return Log(
        **space, **arrays, reward=np.array(columns["reward"]),
        episode_starts=np.array(episodes), person_starts=np.array(persons),
    )  # fmt: skip


def support_of(rng: Random, shape: tuple[int, int]) -> dict[str, Any]:
    one = np.zeros(shape, np.bool_)
    one[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    admissible = pick(rng, (None, np.ones(shape, np.bool_), one, one | (rng.random(shape) < 0.5)))
    even = np.full(shape, 1 / shape[1])
    behaviour = pick(rng, (None, "uniform", even, rng.dirichlet(np.full(shape[1], 0.3), shape[0])))
    return {"admissible": admissible, "behaviour": behaviour}


def budget_of(rng: Random) -> dict[str, Any]:
    budget = {"epsilon": pick(rng, (2**-13, 0.01, 0.1, 1.0, 10.0, 100.0, 3e4))}
    more = pick(rng, ({}, {}, {}, {"delta": 1e-6}, {"order": 2.0}))
    return budget | more | {"relation": pick(rng, (AddRemovePerson(), ReplacePerson()))}


def policy_and_file(
    log: Log, given: dict[str, Any], budget: dict[str, Any], discount: float
) -> Any:
    policy = fit_policy(log, **budget, **given, discount=discount)
    told = {name: each for name, each in budget.items() if name != "relation"}
    shared = ReleasedPolicy.of_log(policy, **told, outcomes=log.outcomes)
    return ReleasedPolicy.from_dict(json.loads(json.dumps(shared.to_dict(), allow_nan=False)))


def model_and_plan(log: Log, given: dict[str, Any], budget: dict[str, Any]) -> Any:
    model = fit_model(log, **budget, **given)
    plan_for(model)
    return ReleasedPolicy.of_model(model).to_dict()


def value(
    rng: Random, log: Log, given: dict[str, Any], budget: dict[str, Any], discount: float
) -> Any:
    there = np.ones((log.n_states, log.n_actions))
    if given["admissible"] is not None:
        there = np.where(given["admissible"], there, -1.0)
    if isinstance(given["behaviour"], np.ndarray):
        there = np.where((there > 0) & (given["behaviour"] > 0), there, -1.0)
    action = pick(rng, (there.argmax(axis=1), np.full(log.n_states, -1)))
    told = {"epsilon": budget["epsilon"], "relation": budget["relation"]}
    found = evaluate_policy(
        log, action, **told, **given, discount=discount,
        confidence=pick(rng, (0.51, 0.95, 1 - 1e-15)), method=pick(rng, (None, "last", "steps")),
    )  # fmt: skip
    assert np.isfinite([found.lower, found.value, found.upper, found.deviation]).all()
    assert found.lower <= found.value <= found.upper
    return found


class _Refused(Exception):
    """What is public was refused, and nothing was charged."""


@contextmanager
def refusals(spent: RdpAccountant) -> Iterator[None]:
    """Tell a refusal from what is raised after the charge, which is an error of the test."""
    try:
        yield
    except ValueError as error:
        if len(spent.journal):
            raise
        raise _Refused from error


@pytest.mark.slow
@pytest.mark.parametrize("n_cases", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_whatever_is_public_what_is_charged_is_released(n_cases: int) -> None:
    """Refused before the charge, or released: with warnings and floating-point flags as errors."""
    released = 0
    for seed in range(n_cases):
        rng = np.random.default_rng(seed)
        space = space_of(rng)
        n_persons = pick(rng, (0, 1, 2, 30, 1000))
        log = some_log(rng, space, n_persons, pick(rng, ("any", "ended", "cut")))
        support, budget = support_of(rng, (log.n_states, log.n_actions)), budget_of(rng)
        discount = pick(rng, (1.0, 1.0, 0.9, 1 - 1e-12, 1e-3, 1e-300))
        for make in (
            lambda given: policy_and_file(log, given, budget, discount),  # noqa: B023
            lambda given: model_and_plan(log, given, budget),  # noqa: B023
            lambda given: value(rng, log, given, budget, discount),  # noqa: B023
        ):
            spent = RdpAccountant()
            refused = True
            with (
                warnings.catch_warnings(), np.errstate(over="raise", invalid="raise"),
                suppress(_Refused), refusals(spent),
            ):  # fmt: skip
                warnings.simplefilter("error")
                make(support | {"rng": seed, "accountant": spent})
                refused = False
            assert len(spent.journal) == (0 if refused else 1)
            released += not refused
    assert released > n_cases  # of three each


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("admissible", [None, np.ones((2, 2), np.bool_)])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("paid", [1.0, -2.5])
def test_steps_that_all_earn_alike(
    discount: float, admissible: Any, epsilon: float, paid: float
) -> None:
    """Without outcomes: there was nothing to take the least and the greatest of."""
    n, rng = 2000, np.random.default_rng(0)
    log = Log(
        n_states=2, n_actions=2, outcomes=(), outcome_rewards=(), step_rewards=(paid, paid),
        most_steps=2, most_episodes=1, state=rng.integers(0, 2, n), action=rng.integers(0, 2, n),
        next_state=np.full(n, CUT), reward=np.full(n, paid), episode_starts=np.arange(n + 1),
        person_starts=np.arange(n + 1),
    )  # fmt: skip
    spent = RdpAccountant()
    found = fit_policy(
        log, epsilon=epsilon, discount=discount, admissible=admissible, accountant=spent, rng=rng
    )
    assert len(spent.journal) == 1
    assert found.facts.persons > 0


@pytest.mark.parametrize("rewards", [(1e50, 1e50), (1.0, 1 + 2**-52), (-7e9, -7e9)])
def test_rewards_of_a_model_that_are_nearly_alike(rewards: tuple[float, float]) -> None:
    """The points that they were split between were one float."""
    rng = np.random.default_rng(0)
    space = {
        "n_states": 2, "n_actions": 2, "outcomes": (), "outcome_rewards": (),
        "step_rewards": rewards, "most_steps": 2, "most_episodes": 1,
    }  # fmt: skip
    model = fit_model(some_log(rng, space, 500, "any"), epsilon=100.0, rng=0)
    assert model.statement["details"]["model"] == "counts"
    np.testing.assert_allclose(model.mdp.expected_reward[:2], rewards[0], rtol=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [{"step_rewards": (0.0, 1e60)}, {"step_rewards": (1e-60, 1.0)}, {"outcome_rewards": (5e-324,)},
     {"most_steps": 2**53 + 1}, {"most_episodes": 10**400}, {"outcomes": "a"}, {"outcomes": [1]},
     {"outcome_rewards": [1.0, 2.0]}, {"step_rewards": [0.0]}],
    ids=str,
)  # fmt: skip
def test_sizes_that_cannot_be_computed_with_are_no_log(wrong: dict[str, Any]) -> None:
    space = {
        "n_states": 1, "n_actions": 1, "outcomes": ("a",), "outcome_rewards": (1.0,),
        "step_rewards": (0.0, 1.0), "most_steps": 1, "most_episodes": 1,
    }  # fmt: skip
    assert LogSpace(**space)
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        LogSpace(**space | wrong)


def test_what_is_public_of_a_log_is_kept_as_plain_numbers() -> None:
    """Small numbers of NumPy's overflowed after the charge, and arrays were compared with pairs."""
    space = {
        "n_states": np.int8(3), "n_actions": np.int8(50), "outcomes": ["a", "b"],
        "outcome_rewards": np.array([1.0, 0.0]), "step_rewards": np.zeros(2),
        "most_steps": np.uint8(200), "most_episodes": np.uint8(200),
    }  # fmt: skip
    steps = {name: np.zeros(1, np.intp) for name in ("state", "action", "reward")}
    starts = {name: np.arange(2) for name in ("episode_starts", "person_starts")}
    spent = RdpAccountant()
    for outcomes in (["a", "b"], np.array(["a", "b"])):
        log = Log(**space | {"outcomes": outcomes}, **steps, **starts, next_state=np.array([-1]))
        space["outcome_rewards"][:] = 5  # the caller's array is not the log's
        assert log.outcome_rewards == (1.0, 0.0)
        space["outcome_rewards"][:] = 1, 0
        fit_policy(log, epsilon=1.0, accountant=spent)
        fit_model(log, epsilon=1.0, accountant=spent)
        evaluate_policy(
            log, np.zeros(3, int), epsilon=1.0, behaviour="uniform",
            admissible=np.ones((3, 50), np.bool_), accountant=spent,
        )  # fmt: skip


@pytest.mark.parametrize("least", [5e-324, 1e-310, 1e-101])
def test_chances_that_cannot_be_divided_by_are_refused_before_the_charge(least: float) -> None:
    """One over the square of a chance was no float."""
    steps = {"state": np.zeros(9, np.intp), "action": np.arange(9) % 2, "reward": np.ones(9)}
    log = Log(
        n_states=1, n_actions=2, outcomes=("a",), outcome_rewards=(1.0,), step_rewards=(0.0, 0.0),
        most_steps=1, most_episodes=1, **steps, next_state=np.ones(9, np.intp),
        episode_starts=np.arange(10), person_starts=np.arange(10),
    )  # fmt: skip
    spent = RdpAccountant()
    given: dict[str, Any] = {"epsilon": 5.0, "behaviour": [[least, 1.0]], "accountant": spent}
    for call in (fit_policy, fit_model):
        with pytest.raises(ValueError, match="behaviour must be chances of 0 or of at least"):
            call(log, **given)
    with pytest.raises(ValueError, match="behaviour must be chances of 0 or of at least"):
        evaluate_policy(log, np.zeros(1, int), **given)
    for names in ("ab", 5):
        with pytest.raises(ValueError, match="action_names must be a list of texts"):
            fit_model(log, epsilon=1.0, accountant=spent, action_names=names)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method must be"):
        evaluate_policy(
            log, np.zeros(1, int), epsilon=1.0, behaviour=[[0.5, 0.5]], accountant=spent,
            method=["last"],
        )  # type: ignore[arg-type] # fmt: skip
    assert spent.relation is None


def test_tables_and_plans_that_no_memory_holds_are_refused_before() -> None:
    spent = RdpAccountant()
    given = {"outcomes": ("a",), "outcome_rewards": (1.0,), "step_rewards": (0.0, 0.0)}
    given |= {"n_actions": 2, "most_episodes": 1}
    none = {name: np.empty(0, np.intp) for name in ("state", "action", "next_state", "reward")}
    none |= {"episode_starts": np.zeros(1, np.intp), "person_starts": np.zeros(1, np.intp)}
    large = Log(**given, **none, n_states=2**30, most_steps=1)
    long = Log(**given, **none, n_states=1, most_steps=2**40)
    with pytest.raises(ValueError, match="states times actions must be at most"):
        fit_policy(large, epsilon=1.0, discount=0.9, accountant=spent)
    with pytest.raises(ValueError, match="most_steps times states must be at most"):
        fit_model(long, epsilon=1.0, accountant=spent)
    assert evaluate_policy(
        long, np.zeros(1, int), epsilon=1.0, behaviour=np.full((1, 2), 0.5), discount=0.9
    ).value <= 1  # fmt: skip
    assert not len(spent.journal)


# Interrupts ---------------------------------------------------------------------------------------

OFFLINE = str(Path("privrl", "offline"))


@contextmanager
def stopped_at(number: int, seen: list[tuple[str, int]]) -> Iterator[None]:
    """Interrupt at a line of the log functions, by number; those before are kept in ``seen``."""

    def trace(frame: Any, event: str, _: Any) -> Any:
        if OFFLINE not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen.append((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) - 1 == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def first_times(act: Callable[[], Any]) -> list[int]:
    """When each line that is run is run first."""
    seen: list[tuple[str, int]] = []
    with stopped_at(-1, seen):
        act()
    return sorted({line: k for k, line in reversed(list(enumerate(seen)))}.values())


FITS: dict[str, Callable[..., Any]] = {
    "policy by counts": lambda log, **given: fit_policy(log, epsilon=1e4, **given),
    "policy by rounds": lambda log, **given: fit_policy(log, epsilon=3.0, discount=0.9, **given),
    "model": lambda log, **given: fit_model(log, epsilon=1.0, **given),
    "value": lambda log, **given: evaluate_policy(
        log, np.array([0, 1]), epsilon=1.0, behaviour=np.full((2, 2), 0.5), **given
    ),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_an_interrupt_after_the_charge_says_what_is_spent(
    fit: Callable[..., Any], every: int
) -> None:
    rng = np.random.default_rng(0)
    space = {
        "n_states": 2, "n_actions": 2, "outcomes": ("a", "b"), "outcome_rewards": (0.0, 1.0),
        "step_rewards": (0.0, 1.0), "most_steps": 3, "most_episodes": 2,
    }  # fmt: skip
    log = some_log(rng, space, 40, "any")
    told = 0
    whole = first_times(lambda: fit(log, rng=0, accountant=RdpAccountant()))
    for number in whole[::every]:
        spent = RdpAccountant()
        with pytest.raises(KeyboardInterrupt) as stop, stopped_at(number, []):
            fit(log, rng=0, accountant=spent)
        notes = " ".join(getattr(stop.value, "__notes__", ()))
        if len(spent.journal):
            assert "The accountant was charged for this" in notes
        told += len(spent.journal)
    assert told


@pytest.mark.few(6)
@pytest.mark.parametrize("cost", [LOUD, NORMAL], ids=["sums", "norms"])
def test_an_interrupted_table_is_not_paid_for_twice(cost: Any) -> None:
    """Wherever it stops, all tables together get one budget of each person at most."""
    adds = says(np.arange(50), np.zeros(50, np.intp), np.ones(50))
    for number in first_times(lambda: PersonStream(crowd(50), cost, 0).update(adds, 1)):
        stream = None
        with suppress(KeyboardInterrupt), stopped_at(number, []):
            stream = PersonStream(crowd(50), cost, 0)
            stream.update(adds, 1)
        told = [0.0, 0.0]
        with suppress(ValueError):  # stopped where it ends, it is not to be used again
            for k in range(2 if stream is not None else 0):
                told[k] = float(stream.update(adds, 1)[0])
        assert (sum(map(abs, told)) if cost is LOUD else np.hypot(*told)) <= 50 + 0.1


# Threads ------------------------------------------------------------------------------------------


class Here:
    """A cluster that is here, and does at once what it is asked for."""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Any:
        made: Future[Any] = Future()
        given = tuple(each.result() if isinstance(each, Future) else each for each in given)
        made.set_result(function(*given))
        return made


def in_parts(log: Log) -> PartitionedLog:
    public = {name: getattr(log, name) for name in LogSpace.__dataclass_fields__}
    client = Here()
    parts = tuple(client.submit(lambda each: each, each, pure=False) for each in log.blocks(50))
    return PartitionedLog(**public, client=client, parts=parts)


@pytest.mark.few(12)
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("asks", ["updates", "votes"])
def test_threads_get_one_budget_together(partitioned: bool, asks: str) -> None:
    """Each waits within what the other adds; without a lock both see full budgets."""
    log = in_parts(crowd(100)) if partitioned else crowd(100)
    spent = RdpAccountant()
    stream = PersonStream(log, LOUD, 0, spent)
    meet = threading.Barrier(2)
    paid: list[float] = []

    def adds(part: Log, left: Any) -> Any:
        with suppress(threading.BrokenBarrierError):  # nobody else is here: as it should be
            meet.wait(timeout=0.2)
        paid.append(float(left.sum()))
        n = part.n_persons
        return says(np.arange(n), np.zeros(n, np.intp), np.ones(n))(part, left)

    def ask() -> None:
        if asks == "updates":
            stream.update(adds, 1)
        else:
            stream.vote(adds, np.ones((1, 2), np.bool_), np.zeros((1, 2)))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(paid) == pytest.approx(100)
    assert len(spent.journal) == 1


def test_a_table_within_another_is_refused() -> None:
    stream = PersonStream(crowd(1), LOUD, 0)

    def greedy(part: Log, left: Any) -> Any:
        stream.update(one_says(), 1)
        return one_says()(part, left)

    with pytest.raises(ValueError, match="the stream must not be in use"):
        stream.update(greedy, 1)
    np.testing.assert_array_equal(left_of(stream), [1.0])
    assert stream.update(one_says(), 1)[0] == pytest.approx(1, abs=0.01)


def test_a_stream_keeps_its_cost() -> None:
    stream = PersonStream(crowd(1), person_cost(1.0), 0)
    with pytest.raises(AttributeError):
        stream.cost = LOUD  # type: ignore[misc]


# The command line ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVRL_LEDGER", str(tmp_path / "ledger.sqlite"))
    SCHEMA.save("visits.toml")
    visits(300).rename(columns={"patient": "visit"}).to_csv("visits.csv", index=False)
    return tmp_path


@pytest.mark.few(6)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_the_unit_is_what_the_column_says(folder: Path, command: str) -> None:
    result = run(command, *FIT, "--person", "visit", "--out", "out")
    assert result.exit_code == 0, result.output
    assert "privacy unit: add or remove one person (visit), visit: all episodes" in said(result)
    stated = json.loads(Path("out", "release.json").read_text())
    assert stated["guarantee"]["unit"] == "visit: all episodes"
    name = "model.json" if command == "fit-model" else "policy.json"
    saved = json.loads(Path("out", name).read_text())
    assert saved["statement"]["unit"] == "visit: all episodes"


def test_the_unit_goes_with_the_log() -> None:
    lived = type("Lived", (), {"observations": [0, 0], "actions": [0], "rewards": [1.0],
                               "terminations": [True], "truncations": [False]})  # fmt: skip
    given = {"n_states": 1, "n_actions": 1, "reward_bounds": (0, 1), "most_steps": 1}
    for person, unit in ((None, "episode"), (["p"], "person: all episodes")):
        log = from_buffer([lived], **given, person=person)
        assert fit_model(log, epsilon=1.0).statement["unit"] == unit
        assert fit_policy(log, epsilon=1.0).cost.relation == AddRemovePerson(log.unit)
    odd = LogSchema(person="a\nb", action={"x": Categories((0, 1))}, most_steps=1)
    assert unit_in_words(odd.space.unit) == "'a\\nb': all episodes"


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("release", "more", "kind"),
    [
        (fit_policy, {}, "add or remove one person"),
        (fit_policy, {"relation": ReplacePerson()}, "replace one person"),
        (fit_model, {}, "add or remove one person"),
        (evaluate_policy, {"action": np.zeros(6, int), "behaviour": np.full((6, 3), 1 / 3)},
         "add or remove one person"),
    ],
    ids=["fit_policy", "replaced", "fit_model", "evaluate_policy"],
)  # fmt: skip
def test_two_units_are_two_relations(
    release: Any, more: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    """A patient may have many visits: one account added up what hid a visit and what hid them."""
    logs = [
        read_log(visits(40).rename(columns={"patient": unit}), replace(SCHEMA, person=unit))
        for unit in ("patient", "visit")
    ]
    one, more = RdpAccountant(), {"epsilon": 1.0, **more}
    release(logs[0], **more, accountant=one)
    with pytest.raises(ValueError, match=r"cost must be about .*\(patient\).*got .*\(visit\)"):
        release(logs[1], **more, accountant=one)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.set_budget("clinic", Budget(2.0))
    release(logs[0], **more, accountant=book.accountant("clinic"))
    with pytest.raises(BudgetExceeded, match=r"must have a budget for .*\(visit\)"):
        release(logs[1], **more, accountant=book.accountant("clinic"))
    book.set_budget("clinic", Budget(1.0), f"{kind} (visit)")
    release(logs[1], **more, accountant=book.accountant("clinic"))
    spent = {each.relation: each.total.epsilon(None) for each in book.accounts()}
    assert spent == {f"{kind} (patient)": 1.0, f"{kind} (visit)": 1.0}


def test_a_cost_about_another_unit_is_refused() -> None:
    accountant = RdpAccountant()
    cost = person_cost(1.0, AddRemovePerson("visit"))
    with pytest.raises(ValueError, match="relation must be about the unit 'person' of the log"):
        PersonStream(crowd(1), cost, 0, accountant)
    assert not accountant.journal


def test_a_made_up_log_is_of_its_schemas_unit() -> None:
    model = fit_model(read_log(visits(40), SCHEMA), epsilon=1.0, rng=0)
    made = read_log(sample_log(model, SCHEMA, 20, rng=0), SCHEMA)
    policy = fit_policy(made, epsilon=1.0, rng=0)
    assert str(policy.cost.relation) == "add or remove one person (patient)"


@pytest.mark.few(4)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_what_stops_a_command_after_the_charge_says_so(
    folder: Path, command: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(_files, "_write", fail)
        result = run(command, *FIT, "--person", "visit", "--out", "out")
    assert result.exit_code != 0
    assert "The release is entry 1 of the ledger, and is spent" in said(result)
    assert not any(path.is_file() for path in Path("out").glob("*"))
    again = run(command, *FIT, "--person", "visit", "--out", "out")
    assert again.exit_code == 0
    assert "ledger: entry 2" in said(again)


def test_the_policy_that_is_saved_names_the_unit(folder: Path) -> None:
    assert run("fit-policy", *FIT, "--person", "visit", "--out", "out").exit_code == 0
    assert load_policy("out/policy.json").statement["unit"] == "visit: all episodes"
