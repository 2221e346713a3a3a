"""The ledger's file: what it remembers, what it refuses, and that an edit shows."""

import json
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from privrl.accounting import ApproxDP, Budget, BudgetExceeded, Ledger, LedgerError
from privrl.accounting import ledger as ledger_module
from privrl.accounting.ledger import LedgerAccountant
from privrl.accounting.ledger_file import LedgerFile, default_path
from privrl.costs import ReplaceRecord
from privrl.costs.noise import LaplaceCost
from privrl.mechanisms import LaplaceMechanism
from privrl.models import histogram

COST = LaplaceCost(scale=4.0, relation=ReplaceRecord())  # pure epsilon 0.5
COUNTS = [10.0, 20.0, 30.0]


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger.sqlite")


def spend(book: Ledger, times: int = 1, name: str = "people") -> None:
    for _ in range(times):
        book.accountant(name).compose(COST)


def sql(book: Ledger, *statements: str) -> None:
    with closing(sqlite3.connect(book.path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


class NoDraws(np.random.Generator):
    """A generator from which nothing may be drawn."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def __getattribute__(self, name: str) -> object:
        looked_at = ("bit_generator", "made_in")  # whose it is
        if not name.startswith("_") and name not in looked_at:
            raise AssertionError("something was drawn")
        return super().__getattribute__(name)


def refused(book: Ledger, words: str) -> None:
    """Neither an accountant nor a whole release gets anything out of this ledger."""
    mechanism = LaplaceMechanism(scale=4.0, relation=ReplaceRecord())
    with pytest.raises(LedgerError, match=words):
        mechanism.release(COUNTS, NoDraws(), accountant=Ledger(book.path).accountant("people"))
    target = ApproxDP(1.0, 1e-5)
    with pytest.raises(LedgerError, match=words):
        histogram(
            np.arange(50.0), 4, (0, 50), target=target, rng=NoDraws(),
            accountant=Ledger(book.path).accountant("people"),
        )  # fmt: skip


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, ledger_path: Path) -> None:
    assert Ledger().path == default_path() == ledger_path
    monkeypatch.delenv("PRIVRL_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path() == Path("/state/privrl/ledger.sqlite")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", unset)
        monkeypatch.setenv("HOME", "/home/somebody")
        assert default_path() == Path("/home/somebody/.local/state/privrl/ledger.sqlite")


def test_a_file_for_its_owner_alone(book: Ledger) -> None:
    spend(book)
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(book.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in book.path.parent.iterdir()] == ["ledger.sqlite"]
    with closing(sqlite3.connect(book.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.slow
def test_what_was_spent_is_there_in_another_process(book: Ledger) -> None:
    spend(book, 2)
    code = (
        "import sys; from privrl.accounting import Ledger\n"
        "(found,) = Ledger(sys.argv[1]).accounts()\n"
        "print(found.dataset, found.relation, found.total.releases, found.total.epsilon(None))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(book.path)], capture_output=True, text=True, check=True
    )
    assert told.stdout == "people replace one record 2 1.0\n"


EDITS = {
    "an amount": "UPDATE entries SET text = replace(text, '1/2', '1/9') WHERE number = 2",
    "a name": "UPDATE entries SET text = replace(text, 'people', 'others') WHERE number = 2",
    "a commitment": "UPDATE entries SET commitment = link WHERE number = 2",
    "a link": "UPDATE entries SET link = commitment WHERE number = 2",
    "one left out": "DELETE FROM entries WHERE number = 2",
    "two exchanged": "UPDATE entries SET number = 7 - number WHERE number IN (3, 4)",
    "one erased": "UPDATE entries SET text = NULL WHERE number = 2",
    "one repeated": "INSERT INTO entries SELECT 5, text, commitment, link FROM entries "
    "WHERE number = 4",
    "the salt": "UPDATE meta SET salt = zeroblob(32)",
    "no salt": "DELETE FROM meta",
    "a curve": "UPDATE curves SET curve = zeroblob(length(curve))",
    "no curve": "DELETE FROM curves",
    "no table": "DROP TABLE entries",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_shows(book: Ledger, edit: str) -> None:
    spend(book, 4)
    number, _ = book.verify()
    assert number == 4
    if edit == "two exchanged":
        sql(book, "UPDATE entries SET number = -number WHERE number IN (3, 4)",
            "UPDATE entries SET number = 7 + number WHERE number < 0")  # fmt: skip
    else:
        sql(book, EDITS[edit])
    fresh = Ledger(book.path)
    with pytest.raises(LedgerError, match=r"damaged|altered"):
        fresh.verify()
    with pytest.raises(LedgerError, match=r"damaged|altered"):
        spend(fresh)


def test_entries_cut_off_show_against_an_export(book: Ledger) -> None:
    spend(book, 3)
    earlier = json.loads(json.dumps(book.export()))
    spend(book)
    assert Ledger(book.path).verify(earlier)[0] == 4
    sql(book, "DELETE FROM entries WHERE number > 2")
    assert Ledger(book.path).verify()[0] == 2  # which is why an export is kept elsewhere
    with pytest.raises(LedgerError, match="removed or replaced"):
        Ledger(book.path).verify(earlier)
    with pytest.raises(LedgerError, match="entry 4 has disappeared"):
        spend(book)  # a process that has seen them misses them
    book.path.unlink()
    fresh = Ledger(book.path)
    spend(fresh, 4)
    with pytest.raises(LedgerError, match="removed or replaced"):
        fresh.verify(earlier)
    with pytest.raises(ValueError, match="must be an export"):
        fresh.verify({"number": True, "head": earlier["head"]})


def test_a_process_misses_what_was_put_in_place_of_another(book: Ledger) -> None:
    spend(book, 3)
    before = book.path.read_bytes()
    spend(book)
    book.path.write_bytes(before)  # an older copy
    spend(Ledger(book.path), 2)  # as which it goes on, for those who know no better
    with pytest.raises(LedgerError, match="entry 4 has disappeared"):
        spend(book)


def test_an_export_has_no_salt_and_all_else(book: Ledger, tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("a\n1\n")
    book.accountant(book.dataset(data)).compose(COST)
    with closing(sqlite3.connect(book.path)) as connection:
        (salt,) = connection.execute("SELECT salt FROM meta").fetchone()
    text = json.dumps(book.export())
    assert salt.hex() not in text
    entry = json.loads(book.export()["entries"][0]["text"])
    assert entry["content"] not in (None, "")
    assert entry["pure"] == "1/2"
    assert entry["about"] is None
    for wrong in ("", "a\nb", "a" * 101, 3):
        with pytest.raises(ValueError, match="about must be a name of 1 to 100 characters"):
            book.accountant("a", about=wrong).compose(COST)


def test_forgetting_leaves_nothing_of_a_data_set(book: Ledger) -> None:
    spend(book, 2)
    spend(book, 1, "secretive")
    book.set_budget("secretive", Budget(3.0))
    earlier = book.export()
    assert book.forget("secretive") == 2
    assert b"secretive" not in book.path.read_bytes()
    assert [each.dataset for each in book.accounts()] == ["people"]
    assert not book.budgets()
    for one in (book, Ledger(book.path)):
        assert one.verify(earlier)[0] == 5
    spend(book, 1, "secretive")
    for name, releases in (("secretive", 1), ("people", 2)):
        account = book.account(name, ReplaceRecord())
        assert account is not None
        assert account.total.releases == releases
    with pytest.raises(ValueError, match="must be one of the ledger's"):
        book.forget("nobody")


# How it says no -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"hello" * 5000])
def test_what_is_no_ledger_is_refused_and_left(book: Ledger, content: bytes) -> None:
    book.path.parent.mkdir()
    book.path.write_bytes(content)
    refused(book, "is not a ledger|is damaged")
    assert book.path.read_bytes() == content


def test_words_that_are_no_text_are_damage(book: Ledger) -> None:
    spend(book)
    whole = book.path.read_bytes()
    assert b"CREATE TABLE entries" in whole
    book.path.write_bytes(whole.replace(b"CREATE TABLE entries", b"CREATE \xc2\xe7BLE entries"))
    refused(book, "is damaged")


def test_another_programs_database_is_refused(book: Ledger) -> None:
    book.path.parent.mkdir()
    sql(book, "CREATE TABLE entries (number)")
    refused(book, "is not a ledger")


def test_a_newer_schema_is_refused(book: Ledger) -> None:
    spend(book)
    sql(book, "PRAGMA user_version = 2")
    refused(book, "must have schema 1, got 2")


@pytest.mark.few(4)
@pytest.mark.parametrize("at", [0.05, 0.3, 0.5, 0.8])
def test_damaged_pages_are_refused(book: Ledger, at: float) -> None:
    for i in range(40):
        book.accountant("people").compose(LaplaceCost(scale=4.0 + i, relation=ReplaceRecord()))
    data = bytearray(book.path.read_bytes())
    place = int(at * len(data))
    data[place : place + 6000] = os.urandom(6000)
    book.path.write_bytes(data)
    refused(book, "damaged")


@pytest.mark.parametrize("kept", [b"", bytes(3584)], ids=["torn", "of zeros"])
def test_a_last_page_that_was_not_written_is_not_an_empty_one(book: Ledger, kept: bytes) -> None:
    """Of so few entries all are in it; SQLite then returns none, and no error."""
    for _ in range(2):
        spend(book)
    with closing(sqlite3.connect(book.path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'entries'"
        ).fetchone()
    data = book.path.read_bytes()
    assert len(data) == root * 4096, "the page of the entries is not the last one"
    book.path.write_bytes(data[: len(data) - 3584] + kept)
    refused(book, "damaged")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(book.path).accounts()


@pytest.mark.slow
def test_flipped_bytes_change_no_total(book: Ledger) -> None:
    """A random byte is either seen or means nothing."""
    for i in range(5):
        book.accountant("people").compose(LaplaceCost(scale=4.0 + i, relation=ReplaceRecord()))
    whole, (account,) = book.path.read_bytes(), book.accounts()
    rng, seen = np.random.default_rng(0), 0
    for place in rng.integers(len(whole), size=300):
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        book.path.write_bytes(data)
        try:
            (found,) = Ledger(book.path).accounts()
        except LedgerError:
            seen += 1
        else:
            assert found == account
    assert seen > 100


def test_a_clock_that_jumps_back_is_refused(book: Ledger, monkeypatch) -> None:
    now = datetime.now(UTC)
    spend(book)
    monkeypatch.setattr(ledger_module, "_clock", lambda: now - timedelta(seconds=20))
    spend(book)  # by so much clocks are set all the time; times in the ledger do not go back
    times = [entry["time"] for entry in book.entries() if entry]
    assert times == sorted(times)
    monkeypatch.setattr(ledger_module, "_clock", lambda: now - timedelta(hours=1))
    refused(book, "the clock says")
    with pytest.raises(LedgerError, match="the clock says"):
        book.set_budget("people", Budget(1.0))
    monkeypatch.undo()
    spend(book)


def test_a_file_in_use_is_refused_in_time(book: Ledger, monkeypatch) -> None:
    spend(book)
    monkeypatch.setattr("privrl.accounting.ledger_file._PATIENCE", 0.2)
    with closing(sqlite3.connect(book.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused(book, "in use by another process for 0.2 seconds")
    spend(book)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(Ledger(tmp_path / "file" / "ledger.sqlite"), "cannot be created")


@pytest.fixture
def mounted(tmp_path: Path):
    """A file system of 256 kB, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.call(command, stderr=-3):
        pytest.skip("this user may not mount a file system; run it as root")
    yield place
    subprocess.run(["mount", "-o", "remount,rw", str(place)], check=False, capture_output=True)
    subprocess.run(["umount", str(place)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))


def spend_for_ever(accountant: LedgerAccountant) -> None:
    for i in count():
        accountant.compose(LaplaceCost(scale=4.0 + i, relation=ReplaceRecord()))


def test_a_full_disk_is_refused_and_nothing_lost(mounted: Path) -> None:
    book = Ledger(mounted / "ledger.sqlite")
    spend(book)
    filler = mounted / "filler"
    with pytest.raises(OSError, match="No space"):
        fill(filler)
    refused(book, "the disk is full|cannot be written")
    filler.unlink()
    assert book.verify()[0] == 1
    spend(book)
    assert book.verify()[0] == 2


def test_a_file_system_that_fills_up_loses_no_entry(mounted: Path) -> None:
    book = Ledger(mounted / "ledger.sqlite")
    accountant = book.accountant("people")
    with pytest.raises(LedgerError, match=r"the disk is full|cannot be written"):
        spend_for_ever(accountant)
    assert accountant.receipt is not None
    entered = accountant.receipt.number
    assert entered > 3
    with pytest.raises(LedgerError):
        book.accountant("people").compose(LaplaceCost(scale=4.5, relation=ReplaceRecord()))
    copy = mounted.parent / "copied"
    shutil.copytree(mounted, copy)
    assert Ledger(copy / "ledger.sqlite").verify()[0] == entered


def test_a_read_only_file_system_is_refused(mounted: Path) -> None:
    book = Ledger(mounted / "ledger.sqlite")
    spend(book)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    refused(book, "cannot be written|cannot be created|read-only")
    refused(Ledger(mounted / "other.sqlite"), "Read-only file system")


def test_a_read_only_file_is_refused(book: Ledger) -> None:
    spend(book)
    if os.geteuid() == 0:
        pytest.skip("root may write every file; run it as another user")
    book.path.chmod(0o400)
    refused(book, "cannot be written")


def test_a_limit_on_files_is_refused_as_a_full_disk_is(book: Ledger) -> None:
    """Where nothing can be mounted: writes fail in the same place."""
    spend(book)
    code = f"""
import resource, signal
import numpy as np
from privrl.costs import ReplaceRecord
from privrl.costs.noise import LaplaceCost
from privrl.accounting import Ledger, LedgerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    Ledger({str(book.path)!r}).accountant("people").compose(
        LaplaceCost(scale=5.0, relation=ReplaceRecord()))
except LedgerError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout or "disk is full" in done.stdout
    assert book.verify()[0] == 1


def test_over_the_budget_nothing_is_drawn_or_entered(book: Ledger) -> None:
    book.set_budget("people", Budget(1.0))
    spend(book, 2)
    mechanism = LaplaceMechanism(scale=4.0, relation=ReplaceRecord())
    with pytest.raises(BudgetExceeded, match=r"from 100 % to 150 % of its budget, epsilon 1\.0"):
        mechanism.release(COUNTS, NoDraws(), accountant=book.accountant("people"))
    assert book.verify()[0] == 3


def test_another_thread_may_enter_something_while_this_one_looks(tmp_path, monkeypatch) -> None:
    """What it has seen then is of before, and nothing is missing from it."""
    book, reading = Ledger(tmp_path / "ledger.sqlite"), LedgerFile.reading
    book.set_budget("people", Budget(1.0))

    @contextmanager
    def slow(self):
        with reading(self) as transaction:
            assert len(transaction.rows(1)) == 1  # from here on it sees that state
            other = threading.Thread(target=book.set_budget, args=("others", Budget(1.0)))
            other.start()
            other.join(30)
            yield transaction

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "reading", slow)
        assert {name for name, _ in book.budgets()} == {"people"}
    assert {name for name, _ in book.budgets()} == {"people", "others"}


def test_another_folder_has_no_ledger_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is meant in the folder where it was given, also in another process."""
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    Ledger("ledger.sqlite").set_budget("d", Budget(1.0))
    ledger = Ledger("ledger.sqlite")
    sent = pickle.dumps(ledger)
    monkeypatch.chdir(elsewhere)
    for each in (ledger, pickle.loads(sent)):
        assert each.budgets() == {("d", None): Budget(1.0)}
        each.set_budget("d", Budget(1.0))
    assert not list(elsewhere.iterdir())
