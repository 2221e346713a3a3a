"""A few of what stress.py does many of, threads, and that its verdict can be bad."""

import threading
from pathlib import Path

import pytest
import stress

from privrl.accounting import Budget, BudgetExceeded, Ledger
from privrl.costs import ReplaceRecord
from privrl.costs.noise import LaplaceCost

COST = LaplaceCost(scale=2.0, relation=ReplaceRecord())


@pytest.mark.slow
def test_killed_processes_and_races(tmp_path: Path) -> None:
    killed, raced = stress.kills(2, tmp_path), stress.races(24, tmp_path)
    assert stress.is_sound(killed, raced), (killed, raced)
    assert killed["drawn"] > 0
    assert raced["entered"] == 24


@pytest.mark.parametrize(
    ("killed", "raced"),
    [
        ({"spent": 9, "total": 9}, {}),  # one lost
        ({"spent": 16, "total": 16}, {}),  # more entered than were killed
        ({"total": 11}, {}),
        ({}, {"won by both": 1}),
        ({}, {"won by none": 1}),
        ({}, {"overspent": 1}),
    ],
)
def test_the_verdict_can_be_bad(killed: dict[str, int], raced: dict[str, int]) -> None:
    good = {"killed": 5, "drawn": 10, "spent": 12, "total": 12}
    fine = {"won by none": 0, "won by both": 0, "overspent": 0}
    assert stress.is_sound(good, fine)
    assert not stress.is_sound(good | killed, fine | raced)


def test_threads_of_one_ledger_do_not_overspend(tmp_path: Path) -> None:
    book, won, barrier = Ledger(tmp_path / "ledger.sqlite"), [], threading.Barrier(6)
    book.set_budget("people", Budget(10.0))

    def spend() -> None:
        accountant = book.accountant("people")  # of their own: one of all has a lock
        barrier.wait()
        for _ in range(5):
            try:
                accountant.compose(COST)
            except BudgetExceeded:
                continue
            won.append(1)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 10
    assert Ledger(book.path).accounts()[0].total.pure == 10


def test_two_processes_that_begin_a_ledger_begin_one(tmp_path: Path) -> None:
    path, barrier = tmp_path / "ledger.sqlite", threading.Barrier(8)

    def begin() -> None:
        barrier.wait()
        Ledger(path).accountant("people").compose(COST)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Ledger(path).accounts()[0].total.releases == 8
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.sqlite"]
