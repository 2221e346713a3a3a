"""Policies from logs under record and replay: all kinds of neighbours, and leaks that are seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crowds import says
from offline_logs import SCHEMA, Person, log_of, random_person, worth_choosing

from privrl.accounting import releases
from privrl.accounting.rdp import RdpAccountant
from privrl.audit import audit_replay
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import SUMS, AddRemovePerson, ReplacePerson
from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline import LoggedPolicy, evaluate_policy, fit_model, fit_policy, persons, policy
from privrl.offline.facts import LogFacts, release_facts
from privrl.offline.persons import PersonStream

Pipeline = Callable[[Log], Any]
ALL = np.ones((3, 2), np.bool_)


def fit(epsilon: float, *, replaced: bool = False, **given: Any) -> Pipeline:
    """Return what fits a policy, always with the same seed, and shows all that it can."""

    def run(log: Log) -> tuple[LoggedPolicy, Any]:
        accountant = RdpAccountant()
        relation = ReplacePerson() if replaced else AddRemovePerson()
        found = fit_policy(
            log, epsilon=epsilon, relation=relation, accountant=accountant,
            rng=np.random.default_rng(0), **given,
        )  # fmt: skip
        return found, accountant.rdp

    return run


def kinds(rng: np.random.Generator) -> list[Person]:
    """Persons of every kind that a log can hold."""
    low, high = SCHEMA["step_rewards"]
    most, times = SCHEMA["most_steps"], SCHEMA["most_episodes"]
    return [
        [([(0, 0, 0.0)], CUT)],  # next to nothing
        [([(2, 1, high)] * most, 0)] * times,  # as long as can be, always the best
        [([(1, 0, low)] * most, 1)] * times,  # or the worst
        [([(s % 3, s % 2, high) for s in range(most)], 1)],
        [([(0, 1, 1e-310), (1, 0, 5e-324)], CUT)],
        random_person(rng),
    ]


def neighbours(seed: int, *, replaced: bool, few: int = 10) -> list[tuple[Log, Log]]:
    """Logs of a few persons, and of one of another kind, one less or one more.

    They are more than the ten that a log is taken to have at the least.
    """
    rng = np.random.default_rng(seed)
    base: list[Person] = [random_person(rng) for _ in range(few)]
    base += worth_choosing(2, seed)
    place = int(rng.integers(len(base)))
    log, less = log_of(base), log_of([*base[:place], *base[place + 1 :]])
    if replaced:
        return [(log, log_of([*base[:place], each, *base[place + 1 :]])) for each in kinds(rng)]
    more = [log_of([*base[:place], each, *base[place:]]) for each in kinds(rng)]
    return [(log, less), (less, log), *((log, each) for each in more), *((m, log) for m in more)]


@pytest.mark.few(27)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "given"),
    [
        (0.1, {}),
        (20.0, {}),
        (20.0, {"admissible": ALL}),
        (50.0, {"admissible": ALL, "behaviour": "uniform"}),
        (1000.0, {"admissible": ALL, "behaviour": "uniform", "discount": 0.9}),
        (1000.0, {"behaviour": np.tile([0.2, 0.8], (3, 1))}),
        (3e4, {"discount": 0.5}),
        (3.0, {"admissible": ALL, "behaviour": "uniform", "discount": 0.999}),
        (2.0, {"delta": 1e-6}),
        (100.0, {"order": 2.0, "admissible": ALL}),
    ],
)
def test_nothing_is_found(epsilon: float, given: dict[str, Any], replaced: bool) -> None:
    for log, other in neighbours(int(epsilon), replaced=replaced):
        result = audit_replay(fit(epsilon, replaced=replaced, **given), log, other)
        assert not result.findings
        assert result.error is None
        assert result.releases >= 1


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("epsilon", "n_persons", "kind", "releases"),
    [
        (0.01, 300, "behaviour", 1),
        (1.0, 300, "vote", 2),
        (1000.0, 300, "rounds", 5),
        (1000.0, 3000, "rounds", 6),
        (20.0, 1500, "counts", 4),
    ],
)
def test_each_kind_is_among_what_is_tried(
    epsilon: float, n_persons: int, kind: str, releases: int
) -> None:
    persons = worth_choosing(n_persons)
    public = {"step_rewards": (0.0, 0.0), "most_steps": 1, "most_episodes": 1}
    discount = 1.0 if kind == "counts" else 0.999
    run = fit(epsilon, admissible=ALL, behaviour="uniform", discount=discount)
    log = log_of(persons, **public)
    assert run(log)[0].kind == kind
    for other in (persons[1:], [*persons, *persons[:1]], persons[:-1]):
        result = audit_replay(run, log, log_of(other, **public))
        assert not result.findings
        assert result.releases == releases


@pytest.mark.slow
def test_nobody_beside_one() -> None:
    rng = np.random.default_rng(3)
    for each in kinds(rng):
        for epsilon in (0.1, 20.0, 3e4):
            for one, other in ((log_of([]), log_of([each])), (log_of([each]), log_of([]))):
                result = audit_replay(fit(epsilon), one, other)
                assert not result.findings
                assert result.error is None


# What each adds ----------------------------------------------------------------------------------

SKEWED = np.tile([0.85, 0.15], (3, 1))
TRIAL: dict[str, Any] = {"admissible": ALL, "behaviour": "uniform", "discount": 0.97}
BY_OUTCOME: dict[str, Any] = {"step_rewards": (0.0, 0.0)}
PLAYED = {"action": np.array([0, 1, -1]), "behaviour": SKEWED}
WAYS: list[tuple[Any, str, int, dict[str, Any], dict[str, Any]]] = [
    (fit_policy, "vote", 3, {"epsilon": 3.0, **TRIAL}, {}),
    (fit_policy, "rounds", 7, {"epsilon": 300.0, **TRIAL}, {}),
    (fit_policy, "rounds", 5, {"epsilon": 100.0, **TRIAL}, BY_OUTCOME),  # and returns
    (fit_policy, "rounds", 9, {"epsilon": 100.0, "behaviour": SKEWED, "discount": 0.97}, {}),
    (fit_policy, "counts", 5, {"epsilon": 300.0}, {}),
    (fit_policy, "counts", 5, {"epsilon": 300.0, "order": 2.0}, {}),
    (fit_model, "endings", 5, {"epsilon": 1.0}, {}),
    (evaluate_policy, "steps", 2, {"epsilon": 1.0, "discount": 0.97, **PLAYED}, {}),
    (evaluate_policy, "last", 3, {"epsilon": 1.0, "method": "last", **PLAYED}, BY_OUTCOME),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("way", "kind", "number", "given", "public"), WAYS)
def test_each_adds_among_others_what_they_add_alone(
    *, way, kind, number, given, public, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, in all tables: no step, length or rounding of others moves an amount."""
    whole, drawn = releases.release, list[Any]()

    def run(persons: list[Person]) -> tuple[Any, list[Any]]:
        sums: list[Any] = []

        def release(owner: Any, cost: Any, data: Any, *given: Any) -> Any:
            sums.append(data.copy())
            if len(drawn) < number:
                drawn.append(whole(owner, cost, data, *given))
            return drawn[len(sums) - 1]

        monkeypatch.setattr(releases, "release", release)
        return way(log_of(persons, **public), rng=np.random.default_rng(0), **given), sums

    draw = np.random.default_rng(0)
    persons: list[Person] = [random_person(draw, **public) for _ in range(200)]
    made, everybody = run(persons)
    said = made.statement["details"]["model"] if way is fit_model else vars(made)
    assert kind in (said if isinstance(said, str) else (said.get("kind"), said.get("method")))
    assert len(everybody) == number
    for place in (0, 77, 199):
        others, alone = run([*persons[:place], *persons[place + 1 :]])[1], run([persons[place]])[1]
        assert sum(np.abs(each).sum() for each in alone) > 0
        for all_of_them, less, own in zip(everybody, others, alone, strict=True):
            np.testing.assert_array_equal(all_of_them - less, own)


# Leaks that must be seen -------------------------------------------------------------------------


def found(run: Pipeline, *, replaced: bool = False) -> list[str]:
    return [
        finding
        for log, other in neighbours(0, replaced=replaced)
        for finding in audit_replay(run, log, other).findings
    ]


@pytest.mark.slow
def test_the_number_of_persons_is_seen_to_leak() -> None:
    def counts(log: Log) -> Any:
        return fit(20.0)(log), log.n_persons

    def scales(log: Log) -> Any:
        return fit(20.0 / log.n_persons)(log)

    def refuses(log: Log) -> Any:
        if log.n_persons < 12:
            raise ValueError("too few persons")
        return fit(20.0)(log)

    assert any("the result differs" in each for each in found(counts))
    assert any("the cost differs" in each for each in found(scales))
    assert any("the exception differs" in each for each in found(refuses))
    assert not found(fit(20.0))


@pytest.mark.slow
def test_an_exact_fact_is_seen_to_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = release_facts

    def exact(stream: PersonStream, log: Log) -> LogFacts:
        facts = whole(stream, log)
        return replace(facts, steps=float(max(1, log.n_steps)))

    monkeypatch.setattr(policy, "release_facts", exact)
    assert found(fit(20.0))


@pytest.mark.slow
def test_a_stream_without_budgets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = persons.pay

    def forgets(part: Log, left: Any, adds: persons.Adds, *given: Any) -> Any:
        def more(part: Log, left: Any) -> persons.Added:
            added = adds(part, left / 64)
            return replace(added, most=added.most if np.ndim(added.most) else 64.0)

        return whole(part, 64 * persons.full(part, "sums"), more, *given)

    monkeypatch.setattr(persons, "pay", forgets)
    seen = found(fit(1000.0, admissible=ALL, behaviour="uniform", discount=0.9))
    assert any("more than its cost covers" in each for each in seen)


@pytest.mark.slow
def test_a_replaced_person_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost that says one budget does not cover them."""

    def one_budget(epsilon: float, *_: Any, **__: Any) -> LaplaceCost:
        return LaplaceCost(scale=1 / epsilon, relation=AddRemovePerson(), table=SUMS)

    monkeypatch.setattr(policy, "person_cost", one_budget)
    assert any("more than its cost covers" in each for each in found(fit(1e3), replaced=True))
    assert not found(fit(1e3), replaced=False)


def test_amounts_that_depend_on_who_else_is_there_are_seen() -> None:
    """Of four persons each adds a whole budget, of three each three quarters: 1.75 are gone."""
    cost = LaplaceCost(scale=1.0, relation=AddRemovePerson(), table=SUMS)

    def run(log: Log) -> Any:
        n = log.n_persons
        stream = PersonStream(log, cost, np.random.default_rng(0))
        return stream.update(says(np.arange(n), np.zeros(n, np.intp), np.full(n, n / 4)), 1)

    one, other = (log_of([[([(0, 0, 0.0)], 0)]] * n) for n in (4, 3))
    findings = audit_replay(run, one, other).findings
    assert any("more than its cost covers" in each for each in findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [{"epsilon": 0.5}, {"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 1.0, "order": 2.0},
     {"epsilon": 500.0, "admissible": ALL}],
)  # fmt: skip
@pytest.mark.parametrize("cut_only", [False, True])
def test_nothing_is_found_of_models(given: dict[str, Any], cut_only: bool) -> None:
    """Of endings, and of counts where there are no outcomes."""
    none: dict[str, Any] = {"outcomes": (), "outcome_rewards": ()} if cut_only else {}

    def run(log: Log) -> Any:
        return fit_model(log, rng=np.random.default_rng(0), **given)

    rng = np.random.default_rng(1)
    base = [random_person(rng, **none) for _ in range(11)]
    for each in [None, *(random_person(rng, **none) for _ in range(4))]:
        other = base[1:] if each is None else [*base, each]
        for one, two in ((base, other), (other, base)):
            result = audit_replay(run, log_of(one, **none), log_of(two, **none))
            assert not result.findings
            assert result.error is None
            assert result.releases >= 3


@pytest.mark.slow
def test_rounds_of_persons_of_all_kinds() -> None:
    """Long and short ones, each of whom says as much as they have left to pay with."""
    every = kinds(np.random.default_rng(2))
    base = [*worth_choosing(400), *every, *every]
    run = fit(20_000.0, admissible=ALL, discount=0.9)
    assert run(log_of(base))[0].kind == "rounds"
    for place in range(400, 406):
        other = log_of([*base[:place], *base[place + 1 :]])
        for one, two in ((log_of(base), other), (other, log_of(base))):
            result = audit_replay(run, one, two)
            assert not result.findings
            assert result.releases >= 5
    alone = log_of([*worth_choosing(400), every[1]])
    for one, two in ((alone, log_of(base[:400])), (log_of(base[:400]), alone)):
        assert not audit_replay(run, one, two).findings
