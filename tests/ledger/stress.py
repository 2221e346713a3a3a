"""Does the ledger lose a spend or admit one twice, where processes are killed or race?

``python tests/ledger/stress.py`` kills processes 500 times at random moments, and lets two race for
the last of 10,000 budgets; ``--kills N --races N`` for fewer. It exits with 1 if anything was lost,
admitted twice or overspent. A process writes each draw it makes to a file of its own, at once; the
ledger has to hold at least as many spends, at most one more for each process that was killed, and
never more than the budget.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from privrl.accounting import Budget, BudgetExceeded, Ledger
from privrl.costs import ReplaceRecord
from privrl.costs.noise import LaplaceCost
from privrl.mechanisms import LaplaceMechanism

UNIT = ReplaceRecord()
_AT_ONCE = 250  # races in one ledger
PIECE = LaplaceMechanism(scale=2.0, relation=UNIT)  # pure epsilon 1
_FOR_EVER = "import sys; from stress import draw_for_ever; draw_for_ever(*sys.argv[1:])"


def draw_for_ever(path: str, drawn: str) -> None:
    """Release, and note each draw; until killed."""
    rng = np.random.default_rng()
    accountant = Ledger(path).accountant("people")
    note = os.open(drawn, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(note, b"s")  # started
    parent = os.getppid()
    while os.getppid() == parent:  # and not for ever where nobody is left to kill it
        PIECE.release([1.0, 2.0], rng, accountant=accountant)
        os.write(note, b"d")


def kills(times: int, folder: Path, *, limit: int = 1_000_000) -> dict[str, int]:
    """Kill pairs of processes at random moments, and count what they drew and what is entered."""
    book, rng = Ledger(folder / "ledger.sqlite"), random.Random(0)
    book.set_budget("people", Budget(float(limit)))
    drawn = killed = 0
    paths = [str(Path(__file__).parent), *sys.path]
    here = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    while killed < times:
        notes = [folder / f"drawn-{killed + i}" for i in range(2)]
        started = [
            subprocess.Popen([sys.executable, "-c", _FOR_EVER, str(book.path), str(note)], env=here)
            for note in notes
        ]
        while not all(note.exists() and note.stat().st_size for note in notes):
            time.sleep(0.01)
        for process in started:
            time.sleep(rng.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
        drawn += sum(note.read_bytes().count(b"d") for note in notes)
    entered, _ = book.verify()
    spent = entered - 1  # the first entry is the budget
    accounts = book.accounts()
    total = int(accounts[0].total.pure or 0) if accounts else 0
    return {"killed": killed, "drawn": drawn, "spent": spent, "total": total}


def _race(path: str, names: list[str], barrier: Any, won: Any) -> None:
    book, cost = Ledger(path), LaplaceCost(scale=2.0, relation=UNIT)
    for i, name in enumerate(names):
        accountant = book.accountant(name)
        barrier.wait()
        try:
            accountant.compose(cost)
        except BudgetExceeded:
            continue
        with won.get_lock():
            won[i] += 1


def races(times: int, folder: Path) -> dict[str, int]:
    """Let two processes at once ask for the whole of a budget, many times, in several ledgers."""
    found = Counter[str]()
    for first in range(0, times, _AT_ONCE):
        part = min(_AT_ONCE, times - first)
        found.update(_raced(part, Ledger(folder / f"races-{first}.sqlite")))
    return dict(found)


def _raced(times: int, book: Ledger) -> dict[str, int]:
    names = [f"set {i}" for i in range(times)]
    for name in names:
        book.set_budget(name, Budget(1.0))
    context = multiprocessing.get_context("fork")
    barrier, won = context.Barrier(2), context.Array("i", times)
    both = [
        context.Process(target=_race, args=(str(book.path), names, barrier, won)) for _ in range(2)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    book.verify()
    entered = {each.dataset: each.total.releases for each in book.accounts()}
    return {
        "races": times,
        "won by none": sum(n == 0 for n in won),
        "won by both": sum(n > 1 for n in won),
        "overspent": sum(n > 1 for n in entered.values()),
        "entered": sum(entered.values()),
    }


def main() -> int:
    """Run both, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--races", type=int, default=10_000)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="privrl-stress-"))
    try:
        killed, raced = kills(given.kills, folder), races(given.races, folder)
    finally:
        shutil.rmtree(folder)
    print(killed)
    print(raced)
    return int(not is_sound(killed, raced))


def is_sound(killed: dict[str, int], raced: dict[str, int]) -> bool:
    """Whether no spend was lost or admitted twice, and no budget overspent."""
    kept = killed["drawn"] <= killed["spent"] <= killed["drawn"] + killed["killed"]
    once = raced["won by none"] == raced["won by both"] == raced["overspent"] == 0
    return kept and killed["total"] == killed["spent"] and once


if __name__ == "__main__":
    sys.exit(main())
