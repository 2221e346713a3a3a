"""`select_private`: what is charged, what a trial may spend, and the law of what is released."""

import asyncio
import copy
import math
import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from privrl.accounting import (
    ApproxDP,
    BudgetExceeded,
    Ledger,
    PureDP,
    RdpAccountant,
    RenyiDP,
    ZeroConcentratedDP,
)
from privrl.accounting.releases import Release
from privrl.audit import audit_mechanism, audit_replay
from privrl.costs import AddRemoveRecord, GaussianCost, ReplaceRecord
from privrl.costs.selection import PureCost, SelectionCost
from privrl.mechanisms import GaussianMechanism, select_private
from privrl.mechanisms.selection import Trial, plan_selection
from privrl.models.histograms.release import value_counts

TARGET = PureDP(3.0)
RECORDS = np.array([40, 60])


def counting(share: float = 1.0):
    """Return a candidate that releases two counts, whose difference is its score."""

    def candidate(trial: Trial):
        counts = trial.noisy(RECORDS, share)
        return counts.tolist(), counts[0] - counts[1]

    return candidate


def constant(result, score=0.0):
    return lambda trial: (result, score)


# Charges ----------------------------------------------------------------------------------------


@pytest.mark.few(9)
@pytest.mark.parametrize("target", [TARGET, ApproxDP(1, 1e-5), RenyiDP(4, 0.5)], ids=repr)
def test_one_charge_meets_the_target_before_any_trial(target) -> None:
    accountant, charged = RdpAccountant(budget=target), []

    def candidate(trial):
        charged.append(len(accountant.journal))
        return counting(0.999)(trial)

    best = select_private({"a": candidate}, target=target, rng=1, accountant=accountant)
    assert set(charged) == {1}
    assert [entry.cost for entry in accountant.journal] == [best.cost]
    assert abs(target.excess(best.cost)) < 1e-9
    assert isinstance(best.cost, SelectionCost)
    assert best.cost.trials == 5


def test_a_refused_selection_runs_no_trial() -> None:
    def never(trial):
        raise AssertionError

    with pytest.raises(BudgetExceeded):
        select_private(
            {"a": never}, target=TARGET, accountant=RdpAccountant(budget=PureDP(2.9)), rng=0
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": {}},
        {"candidates": [constant(1)]},
        {"candidates": {"a": 3}},
        {"candidates": {1: constant(1)}},
        {"target": 1.0},
        {"target": ZeroConcentratedDP(0.1)},
        {"trials": 0},
        {"trials": 2.5},
        {"relation": "records"},
        {"rng": "seed"},
        {"accountant": RdpAccountant},
    ],
    ids=" ".join,  # values have addresses
)
def test_wrong_arguments_run_no_trial_and_cost_nothing(wrong) -> None:
    def never(trial):
        raise AssertionError

    accountant = RdpAccountant()
    given = {"candidates": {"a": never}, "target": TARGET, "accountant": accountant, "rng": 0}
    candidates = {**given, **wrong}.pop("candidates")
    with pytest.raises(ValueError, match="must"):
        select_private(
            candidates, **{k: v for k, v in {**given, **wrong}.items() if k != "candidates"}
        )
    assert not accountant.journal


def test_a_ledger_keeps_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    once = ledger.accountant("ages", delta=1e-5)
    select_private({"a": counting(0.9)}, target=ApproxDP(1, 1e-5), accountant=once, rng=0)
    (account,) = ledger.accounts()
    assert 0.999 < account.total.epsilon(1e-5) <= 1


# What a trial may spend -------------------------------------------------------------------------


APPROXIMATE = ApproxDP(1, 1e-5)


def _refused(candidate, match: str, target=APPROXIMATE) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=match) as caught:
        select_private({"a": candidate}, target=target, rng=0, accountant=accountant)
    assert len(accountant.journal) == 1
    assert "was charged for this release, and nothing was released" in caught.value.__notes__[0]


def test_a_trial_that_overspends_is_refused() -> None:
    def greedy(trial):
        trial.noisy(RECORDS, 0.9)
        return counting(0.2)(trial)

    _refused(greedy, "over the budget")
    _refused(greedy, "over the budget", TARGET)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_the_budget_of_a_trial_has_no_copy(how: Callable[[object], object]) -> None:
    """A copy spent a second budget, and was not closed when the trial ended."""

    def twice(trial: Trial):
        with pytest.raises(TypeError, match="two would spend one budget"):
            how(trial.accountant)
        return None, 0.0

    select_private({"a": twice}, target=TARGET, trials=1, rng=0)


def test_the_whole_budget_of_a_trial_can_be_spent() -> None:
    def thrifty(trial):
        for _ in range(10):
            counts = trial.noisy(RECORDS, 0.1)
        return None, counts[0]

    for target in (TARGET, ApproxDP(1, 1e-5)):
        select_private({"a": thrifty}, target=target, rng=0)


def test_a_trial_spends_under_the_relation_of_the_selection() -> None:
    def other(trial):
        noise = GaussianMechanism(sigma=1e6, relation=AddRemoveRecord())
        return None, noise.release(RECORDS, trial.rng, accountant=trial.accountant)[0]

    _refused(other, "under the relation")
    select_private(
        {"a": other}, target=ApproxDP(1, 1e-5), relation=AddRemoveRecord(), rng=0, trials=1
    )


def test_a_cost_without_a_rho_is_refused() -> None:
    def unproven(trial):
        trial.accountant.compose(
            SelectionCost(trial=GaussianCost(sigma=1e9, relation=ReplaceRecord()), trials=2)
        )
        return None, 0.0

    _refused(unproven, "rho")


@pytest.mark.parametrize("paid", [True, False])
def test_no_trial_pays_for_another_selection(*, paid: bool) -> None:
    """The file of a classifier that it chose stated .45 of epsilon 1, and others paid nothing."""

    def nested(trial):
        accountant = trial.accountant if paid else RdpAccountant()
        select_private({"a": counting(0.9)}, target=trial.part(0.5), accountant=accountant)

    _refused(nested, "give all candidates to one selection", TARGET)


NOISE = GaussianMechanism(sigma=1e3)
FORGOTTEN = "accountant must be that of the trial for each release in a candidate"


def free() -> object:
    return NOISE.release(RECORDS, 0)


def later():
    yield free()


async def in_a_task() -> object:
    return await asyncio.create_task(asyncio.to_thread(free))


@pytest.mark.parametrize(
    "release",
    [
        *(free, partial(NOISE.release, RECORDS, 0, accountant=RdpAccountant())),
        *(lambda: next(later()), lambda: copy_context().run(free)),
        lambda: asyncio.run(in_a_task()),
    ],
    ids=["without", "to another", "in a generator", "in a copied context", "in a task"],
)
def test_a_release_that_a_trial_does_not_pay_for_is_refused(release) -> None:
    """Who forgot ``accountant=trial.accountant`` was not told, and nothing was charged."""
    _refused(lambda trial: (release(), 0.0), FORGOTTEN)
    free()  # after a trial that failed, as before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_an_interrupt_of_a_draw_makes_no_later_release_of_the_trial_free(error) -> None:
    """While it draws, its parts cost nothing more."""

    def interrupted(data, rng):
        free()  # a part of what is paid for
        raise error

    def candidate(trial):
        paid = GaussianCost(sigma=1e3, relation=ReplaceRecord())
        with pytest.raises(error):
            Release(trial.accountant, paid, partial(interrupted, None), trial.rng).make()
        return free(), 0.0

    _refused(candidate, FORGOTTEN)
    free()


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, RuntimeError])
def test_after_a_trial_that_failed_all_is_as_before(error) -> None:
    def failing(trial):
        counting(0.5)(trial)
        raise error

    with pytest.raises(error):
        select_private({"a": failing}, target=TARGET, rng=0)
    free()
    assert select_private({"a": counting(0.9)}, target=TARGET, rng=0).name == "a"


@pytest.mark.slow
def test_selections_in_threads_know_their_own_trials() -> None:
    """Each of 200 charges its own, and none that of another."""
    kept = []

    def candidate(trial):
        kept.append(trial.accountant)
        counts = trial.noisy(RECORDS, 0.5)
        for each in kept[-5:]:
            if each is not trial.accountant:
                with pytest.raises(ValueError, match=FORGOTTEN):
                    NOISE.release(RECORDS, 0, accountant=each)
        return counts.tolist(), 0.0

    def select(seed: int) -> str:
        return select_private({"a": candidate}, target=APPROXIMATE, trials=5, rng=seed).name

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(select, range(40))) == {"a"}
    assert len(kept) > 100
    assert all(len(each.journal) == 1 for each in kept)


def test_the_budget_ends_with_the_trial() -> None:
    best = select_private({"a": lambda trial: (trial, 0.0)}, target=TARGET, rng=0)
    with pytest.raises(ValueError, match="has ended"):
        best.result.noisy(RECORDS, 0.1)


def test_the_budget_ends_with_a_trial_that_failed() -> None:
    """It could release more after "nothing was released"."""
    kept = []

    def failing(trial):
        kept.append(trial)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        select_private({"a": failing}, target=TARGET, rng=0)
    with pytest.raises(ValueError, match="has ended"):
        kept[0].noisy(RECORDS, 0.1)


def test_a_trial_shows_no_warning_and_an_error_spends_the_budget() -> None:
    def warns(trial):
        warnings.warn("of a trial", UserWarning, stacklevel=1)
        return 1, 0.0

    select_private({"a": warns}, target=TARGET, rng=0)
    _refused(constant(1, "a text"), "could not convert")


def test_nan_is_the_worst_score() -> None:
    both = {"nan": constant(1, math.nan), "low": constant(2, -1e300)}
    names = [select_private(both, target=TARGET, trials=50, rng=s).name for s in range(20)]
    assert names.count("low") >= 18


# The law of what is released --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1, 4])
def test_the_number_of_trials_is_geometric(mean: int) -> None:
    """2,000 selections; chi-square of 6 cells, false alarm 1e-6 (critical value 35.9)."""
    rng, lengths = np.random.default_rng(3), []
    for _ in range(2000):
        runs = []
        select_private(
            {"a": lambda trial, runs=runs: (runs.append(1), 0.0)}, target=TARGET, trials=mean,
            rng=rng,
        )  # fmt: skip
        lengths.append(len(runs))
    stop = 1 / mean
    expected = [stop * (1 - stop) ** k for k in range(5)]
    expected.append(1 - sum(expected))
    found = [lengths.count(k) for k in range(1, 6)]
    found.append(2000 - sum(found))
    kept = [(f, 2000 * e) for f, e in zip(found, expected, strict=True) if e > 0 or f]
    assert sum((f - e) ** 2 / e for f, e in kept) < 35.9


@pytest.mark.slow
def test_the_best_is_released_and_candidates_are_drawn_evenly() -> None:
    """3,000 selections of five trials; three scores; false alarm 1e-6 (chi-square, 27.6)."""
    rng = np.random.default_rng(4)
    candidates = {str(score): constant(score, score) for score in range(3)}
    found = Counter(
        select_private(candidates, target=TARGET, trials=5, rng=rng).result for _ in range(3000)
    )
    f = [s / 5 / (1 - 0.8 * s) for s in (0, 1 / 3, 2 / 3, 1)]
    expected = 3000 * np.diff(f)
    counts = np.array([found[score] for score in range(3)])
    assert (((counts - expected) ** 2) / expected).sum() < 27.6


def _response(data, rng, *, honest: bool = True) -> np.ndarray:
    """Release by selection whether a record is there, from randomised responses."""

    def candidate(trial):
        pure = trial.target.epsilon * (0.999 if honest else 3)
        trial.accountant.compose(
            PureCost(epsilon_pure=0.999 * trial.target.epsilon, relation=ReplaceRecord())
        )
        true = trial.rng.random() < 1 / (1 + math.exp(-pure))
        answer = int(data[0]) if true else 1 - int(data[0])
        return answer, float(answer)

    return np.array([select_private({"a": candidate}, target=TARGET, trials=3, rng=rng).result])


@pytest.mark.slow
@pytest.mark.parametrize("honest", [True, False])
def test_an_audit_finds_what_is_claimed_and_what_is_not(honest: bool) -> None:
    """1,500 selections from each data set, at 99 %: with three times the loss it is found."""
    cost, _ = plan_selection(TARGET, 1, trials=3)
    audit = audit_mechanism(
        lambda data, rng: _response(data, rng, honest=honest),
        np.array([1.0, 0.0]),
        np.array([0.0, 1.0]),
        rng=5,
        claimed=float(cost.epsilon(0.01)),
        draws=1500,
    )
    assert audit.violated is not honest
    if honest:
        assert audit.epsilon_lower > 0.3 * float(cost.epsilon(0.01))


def test_a_neighbour_changes_nothing_but_what_was_paid_for() -> None:
    def pipeline(data):
        def coarse(trial):
            table = trial.noisy(data.reshape(2, -1).sum(axis=1), 0.9)
            return table.tolist(), abs(trial.noisy(data, 0.05)).max()

        def fine(trial):
            table = trial.noisy(data, 0.9)
            return table.tolist(), abs(trial.noisy(data, 0.05)).max()

        accountant = RdpAccountant()
        return select_private(
            {"coarse": coarse, "fine": fine}, target=TARGET, rng=8, accountant=accountant
        )

    found = audit_replay(pipeline, np.array([5, 3, 2, 8]), np.array([4, 3, 2, 9]))
    assert not found.violated, found.findings
    assert found.releases >= 2
    beyond = audit_replay(pipeline, np.array([5, 3, 2, 8]), np.array([3, 3, 2, 10]))
    assert beyond.violated


def test_what_knows_its_trial_is_replayed() -> None:
    """The name of a trial is random, so that a chosen model was told not to be reproducible."""

    def pipeline(data):
        def candidate(trial):
            target, paid = trial.part(0.9), {"rng": trial.rng, "accountant": trial.accountant}
            return value_counts(data, (0, 1), target=target, **paid), 0.0

        accountant = RdpAccountant()
        return select_private({"a": candidate}, target=TARGET, rng=8, accountant=accountant)

    found = audit_replay(pipeline, np.array([0, 1, 1]), np.array([0, 0, 1]))
    assert not found.violated, found.findings


def test_a_result_may_be_anything() -> None:
    """What looks for models in it, after the charge, must not fail."""
    ring: list[object] = [int, object(), {"a": (1, [2])}, np.zeros(3)]
    ring.append(ring)
    best = select_private(
        {"ring": lambda _: (ring, 0.0)}, target=ApproxDP(1, 1e-5), rng=0, trials=1
    )
    assert best.result is ring


def test_a_mechanism_that_was_chosen_still_works() -> None:
    """The mark of what a selection returns is none of its settings."""
    made = GaussianMechanism(sigma=3.0)
    best = select_private({"a": lambda _: (made, 0.0)}, target=ApproxDP(1, 1e-5), rng=0, trials=1)
    assert best.result.cost == GaussianCost(sigma=3.0, relation=ReplaceRecord(), table="counts")
    assert best.result.release([1, 2], 0).shape == (2,)


def test_a_score_warns_of_nothing() -> None:
    """Warnings would tell how many trials there were."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_private({"a": lambda _: (0, np.ma.masked)}, target=ApproxDP(1, 1e-5), rng=0)


def test_what_a_trial_may_spend_is_read_only() -> None:
    def candidate(trial: Trial) -> tuple[int, float]:
        for thing, name in (
            (trial, "target"), (trial, "accountant"), (trial.accountant, "trial"),
            (trial.accountant, "budget"), (trial.accountant, "relation"),
        ):  # fmt: skip
            with pytest.raises(AttributeError, match=r"read-only|no setter"):
                setattr(thing, name, None)
        return 0, 0.0

    select_private({"a": candidate}, target=ApproxDP(1, 1e-5), rng=0)
