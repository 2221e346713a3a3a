"""Requirements for any input: each trial is carried out, and judged.

A trial is a call of a public function, or a whole command line. It may succeed, or be refused by a
`ValueError`, `TypeError` or `OSError` in words. Nothing else is right: no other exception, no
warning of NumPy's, no file half-written or left behind, nothing spent by what was refused, no field
of private data in a message.
"""

import hashlib
import io
import json
import os
import re
import signal
import sqlite3
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

#: In private data alone: no message may hold it, nor a part of a number with its digits.
CANARY = "Xq7canary"
CANARY_NUMBER = "73517351"
SECONDS = 5.0  # of processor time for one case
WAITS = 20.0  # of wall time: for what waits
MEMORY = 1 << 30  # bytes beyond what is loaded already

RELEASES = (
    *("histogram", "naive-bayes", "bayes-net"),
    *("fit-model", "fit-policy"),
)
# NumPy's and Python's readers of arguments refuse wrong types so, and say what they got.
ALLOWED = (ValueError, TypeError, OSError, ImportError)
_NOT = (UnicodeError, NotImplementedError)


class TooLong(BaseException):
    """A case took longer than it may."""


@dataclass(frozen=True)
class Call:
    """A call of a public function.

    Attributes
    ----------
    said : str
        The call, to be read by people.
    make : callable
        Makes it.
    folder : Path
        In which nothing may have changed if it is refused.
    accountants : sequence
        That must not have been charged if it is refused.
    """

    said: str
    make: Callable[[], object]
    folder: Path
    accountants: Sequence[Any] = ()


@dataclass(frozen=True)
class Command:
    """A command line; its files and its ledger are in one folder."""

    argv: tuple[str, ...]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """The command line, to be read by people."""
        return f"privrl {' '.join(map(repr, self.argv))}"

    @property
    def ledger(self) -> Path:
        """The ledger that commands use by default."""
        return self.folder / "ledger.sqlite"


Trial = Call | Command


@dataclass(frozen=True)
class Finding:
    """A finding: in a word, for a count, and in words."""

    sort: str
    where: str
    words: str


@dataclass(frozen=True)
class Verdict:
    """Whether a trial succeeded, and its findings."""

    succeeded: bool
    findings: tuple[Finding, ...]


def judge(trial: Trial) -> Verdict:
    """Carry a trial out within its time, and say what is wrong."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with _in_time():
                verdict = _call(trial) if isinstance(trial, Call) else _command(trial)
        except TooLong as error:
            at = _frame(error)
            return Verdict(False, (Finding("hang", at, f"longer than {SECONDS:g} s"),))
    numpy = [
        w
        for w in heard  # pandas warns where it writes a Series of 16 bits as a text
        if issubclass(w.category, RuntimeWarning) and "pandas/io/formats/" not in w.filename
    ]
    more = tuple(
        Finding("warning", f"{Path(w.filename).name}:{w.lineno}", str(w.message)) for w in numpy[:1]
    )
    return Verdict(verdict.succeeded, verdict.findings + more)


def _call(trial: Call) -> Verdict:
    folder = trial.folder
    before, spent = _without_ledgers(snapshot(folder)), spends(folder)
    error: BaseException | None = None
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            trial.make()
    except Exception as caught:
        error = caught
    findings = [] if error is None else _of_error(error)
    if CANARY in said.getvalue():
        findings.append(Finding("canary", "stdout", "printed a private value"))
    if error is not None:
        if any(len(each.journal) for each in trial.accountants):
            findings.append(Finding("spend", _frame(error), "refused, and charged"))
        if spends(folder) not in (spent, None):
            findings.append(Finding("spend", _frame(error), "refused, and entered"))
        if _without_ledgers(snapshot(folder)) != before:
            findings.append(Finding("files", _frame(error), "refused, and files changed"))
    return Verdict(error is None, tuple(findings))


def _without_ledgers(found: dict[str, str]) -> dict[str, str]:
    """Return what is in a folder but for ledgers, which are judged by their entries."""
    return {name: said for name, said in found.items() if ".sqlite" not in name}


def _of_error(error: BaseException) -> list[Finding]:
    where, words = _frame(error), f"{type(error).__name__}: {_short(str(error))}"
    found = []
    if isinstance(error, MemoryError):
        return [Finding("memory", where, words)]
    gymnasiums = type(error).__module__ == "gymnasium.error"  # what an environment may raise
    if not gymnasiums and (not isinstance(error, ALLOWED) or isinstance(error, _NOT)):
        found.append(Finding("exception", where, words))
    elif not str(error).strip():
        found.append(Finding("silent", where, words))
    for each in chain(error):
        if _tells(str(each)):
            found.append(Finding("canary", where, words))
            break
    return found


def chain(error: BaseException) -> Iterator[BaseException]:
    """Return an error and those that a traceback shows with it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _tells(text: str) -> bool:
    return CANARY in text or CANARY_NUMBER in text.replace(",", "").replace("_", "")


def _command(trial: Command) -> Verdict:
    ledger = trial.ledger
    for name in os.environ.keys() & {"PRIVRL_LEDGER", "COLUMNS"}:
        del os.environ[name]
    os.environ.update({"PRIVRL_LEDGER": str(ledger), "COLUMNS": "200"} | trial.environment)
    before, spent = snapshot(trial.folder), spends(trial.folder)
    out, err = io.StringIO(), io.StringIO()
    code, error = _run(trial.argv, out, err)
    said = out.getvalue() + err.getvalue()
    findings = judged(trial, code, said, before, spent)
    if error is not None:
        if isinstance(error, MemoryError) or "out of memory" in said or "Unable to alloc" in said:
            findings.append(Finding("memory", _frame(error), _short(str(error) or said)))
        elif code is None:
            findings += [each for each in _of_error(error) if each.sort != "exception"]
            words = f"{type(error).__name__}: {_short(str(error))}"
            findings.append(Finding("traceback", _frame(error), words))
        elif isinstance(error, OverflowError | UnicodeError):
            words = f"{type(error).__name__}: {_short(str(error))}"
            findings.append(Finding("words", _frame(error), words))
    return Verdict(code == 0, tuple(findings))


def judged(
    trial: Command, code: int | None, said: str, before: dict[str, str], spent: int | None
) -> list[Finding]:
    """Return the faults of a command's files and messages."""
    findings = []
    verb = trial.argv[0] if trial.argv else ""
    after, more = snapshot(trial.folder), spends(trial.folder)
    if _tells(said):
        findings.append(Finding("canary", verb, "told a private value"))
    if "Traceback (most recent" in said:
        findings.append(Finding("traceback", verb, _short(said[-500:])))
    if code != 0 and not said.strip():
        findings.append(Finding("silent", verb, f"exit code {code} without a word"))
    changed = sorted(name for name in before.keys() | after if before.get(name) != after.get(name))
    left = [name for name in changed if ".writing-" in name or re.search(r"/?\.ledger.*-", name)]
    if left:
        findings.append(Finding("files", verb, f"left behind: {left}"))
    if code != 0:
        # Judged by entries; an empty ledger may be made where the command is told of one.
        chosen = [p[0] for a, b in pairwise(trial.argv) if a == "--ledger" and (p := Path(b).parts)]
        kept = ("ledger", "other.sqlite", "sweep.sqlite", "suite.sqlite", *chosen)
        others = [name for name in changed if not any(each in name for each in kept)]
        others = [
            name for name in others if name != "out" or list((trial.folder / "out").glob("*"))
        ]
        if others:
            findings.append(Finding("files", verb, f"refused, and changed {others}"))
        if spent is not None and more != spent:
            findings.append(Finding("spend", verb, f"refused, and spent {spent} to {more}"))
    # A ledger under another name is not looked into here.
    elif spent is not None and not {"--help", "--ledger"} & set(trial.argv):
        free = verb not in RELEASES or "--from-model" in " ".join(trial.argv)
        if verb != "ledger" and more is not None and more - spent != (0 if free else 1):
            findings.append(Finding("spend", verb, f"succeeded, and spent {spent} to {more}"))
    for name in changed:
        if Path(name).name in ("release.json", "train.json") and name in after and code == 0:
            findings += _stated(trial.folder / name, verb)
    return findings


def _stated(statement: Path, verb: str) -> list[Finding]:
    """Check that what a statement is about is there, and is that."""
    said = json.loads(statement.read_text(encoding="utf-8"))
    wrong = [
        name
        for name, digest in said["sha256"].items()
        if hashlib.sha256((statement.parent / name).read_bytes()).hexdigest() != digest
    ]
    return [Finding("files", verb, f"not as stated: {wrong}")] if wrong else []


def _run(argv: Sequence[str], out: Any, err: Any) -> tuple[int | None, BaseException | None]:
    """Return a command's exit code, None where it would end in a traceback, and its error."""

    with redirect_stdout(out), redirect_stderr(err):
        try:
            _entry().main(list(argv), prog_name="privrl")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
            stopped = ended.__context__  # by Click, whose cause is what the command caught
            return code, stopped.__cause__ if code and stopped is not None else None
        except Exception as error:
            return None, error
    return 0, None


@cache
def _entry() -> Any:
    """Return the command line itself, which `privrl.cli.main` runs."""
    from typer.main import get_command

    from privrl.cli import app

    return get_command(app)


def snapshot(folder: Path) -> dict[str, str]:
    """Return what is in a folder, by its content; links and pipes by their name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder" if path.is_dir() else "pipe"
    return found


def spends(folder: Path) -> int | None:
    """Return how many entries the ledgers in a folder have; None where one cannot be read."""
    total = 0
    for path in folder.glob("*.sqlite"):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
                total += connection.execute("SELECT count(*) FROM entries").fetchone()[0]
        except (sqlite3.Error, UnicodeError):  # the words of an error are of the file, too
            return None
    return total


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 300 else f"{text[:200]} ... {text[-80:]}"


def _frame(error: BaseException) -> str:
    """Return the last line of privrl's that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f
        for f in frames
        if re.search(r"/(privrl|envs|agents|experiments)/", f.filename)
        and "site-packages" not in f.filename
        and "/tests/" not in f.filename
    ]
    last = (ours or frames or [None])[-1]
    if last is None:
        return "?"
    return f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno}"


@contextmanager
def _in_time() -> Iterator[None]:
    """Stop what takes too long."""

    def stop(*_: object) -> None:
        raise TooLong

    kept = [(each, signal.signal(each, stop)) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, before in kept:
            signal.signal(each, before)
