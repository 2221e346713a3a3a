"""Bad input at scale: ``python tests/fuzz/run.py --cases 100000 -j 2``.

Every case is a kind of input (`kinds.py`) and a number, and the same whenever it is tried:
``python tests/fuzz/run.py --only schema:123`` tries one, and shows it.
"""

import argparse
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1]))

_STUCK = 30.0  # seconds without a word, after which a worker is ended: it is in C for good
_SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where nothing waits for a disk
_COMPILED = "privrl.numerics.kernels"
_AT_ONCE = 50  # cases for a worker at a time


@dataclass
class Report:
    """The results of all cases."""

    cases: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str, str], list[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    slowest: list[tuple[float, str]] = field(default_factory=list)
    peak: int = 0

    def add(self, said: dict[str, Any]) -> None:
        """Add what a worker said of a case."""
        kind, case = said["kind"], f"{said['kind']}:{said['number']}"
        self.cases[kind] += 1
        self.succeeded[kind] += said["succeeded"]
        self.seconds[kind] += said["seconds"]
        self.peak = max(self.peak, said["peak"])
        self.slowest = sorted([*self.slowest, (said["seconds"], case)], reverse=True)[:5]
        for each in said["findings"]:
            self.findings[kind, each["sort"], each["where"]].append((case, each["words"]))

    def show(self, wall: float) -> None:
        """Print it."""
        print(f"{'kind':<14}{'cases':>8}{'taken':>8}{'refused':>9}{'ms each':>9}{'findings':>10}")
        for kind, count in sorted(self.cases.items()):
            taken, ms = self.succeeded[kind], 1000 * self.seconds[kind] / count
            wrong = sum(len(v) for (k, *_), v in self.findings.items() if k == kind)
            print(f"{kind:<14}{count:>8}{taken:>8}{count - taken:>9}{ms:>9.1f}{wrong:>10}")
        total, wrong = sum(self.cases.values()), sum(map(len, self.findings.values()))
        print(f"{'all':<14}{total:>8}{'':>26}{wrong:>10}   in {wall:.0f} s")
        print(f"most memory {self.peak / 2**20:.0f} MB; slowest", *self.slowest[:3])
        for (_, sort, where), cases in sorted(self.findings.items()):
            case, words = cases[0]
            print(f"\n{sort} at {where}, {len(cases)} times, such as {case}\n  {words}")


def main(arguments: list[str] | None = None) -> int:
    """Try the given number of cases, and return 1 for a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="Kinds of input; by default all.")
    parser.add_argument("--cases", type=int, default=2000, help="How many, over all kinds.")
    parser.add_argument("--first", type=int, default=0, help="Number of each kind's first case.")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="Worker processes.")
    parser.add_argument("--only", help="One case, KIND:NUMBER, shown with its traceback.")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        return _work(given.worker)
    if given.only:
        return _show(*given.only.split(":"))
    from kinds import KINDS, prepare

    with suppress(ImportError):  # workers load what is compiled: they cannot write beside it
        import_module(_COMPILED)
    began, report = time.monotonic(), Report()
    chosen = {name: KINDS[name] for name in given.kinds or KINDS}
    whole = sum(kind.weight for kind in chosen.values())
    tasks = [
        (name, given.first + first, min(_AT_ONCE, count - first))
        for name, kind in chosen.items()
        for count in [max(1, round(given.cases * kind.weight / whole))]
        for first in range(0, count, _AT_ONCE)
    ]
    Random(0).shuffle(tasks)  # slow kinds are spread over the time
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="privrl-fuzz-", dir=_SCRATCH) as base,
        suppress(KeyboardInterrupt),  # what was found until then is shown
    ):
        prepare(Path(base))
        for said in _over(tasks, given.jobs, base):
            report.add(said)
    report.show(time.monotonic() - began)
    return 1 if report.findings else 0


def _over(tasks: list[tuple[str, int, int]], jobs: int, base: str) -> Iterator[dict[str, Any]]:
    """Have workers do tasks, and return what they say of each case; one that is stuck is ended."""
    todo, total, shown = list(reversed(tasks)), sum(n for *_, n in tasks), 0.0
    done = 0
    with selectors.DefaultSelector() as selector:
        workers = {_Worker(selector, base) for _ in range(min(jobs, len(todo)))}
        for worker in workers:
            worker.give(todo)
        while workers:
            events = selector.select(timeout=1.0)
            ready = [key.data for key, _ in events]
            for worker in list(workers):
                for said in worker.heard() if worker in ready else ():
                    done += 1
                    yield said
                lost = worker.lost()
                if lost is not None:
                    done += 1
                    yield lost
                    worker.stop()
                    workers.remove(worker)
                    if worker.rest is not None:
                        todo.append(worker.rest)
                    if todo:
                        fresh = _Worker(selector, base)
                        workers.add(fresh)
                        fresh.give(todo)
                elif worker.idle and not worker.give(todo):
                    worker.stop()
                    workers.remove(worker)
            if sys.stderr.isatty() and time.monotonic() - shown > 5:
                shown = time.monotonic()
                print(f"{done} of {total}", end="\r", file=sys.stderr, flush=True)


class _Worker:
    """A process that tries cases, one after the other."""

    def __init__(self, selector: selectors.BaseSelector, base: str) -> None:
        self._selector = selector
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", base],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        selector.register(self._process.stdout, selectors.EVENT_READ, self)
        self._buffer, self._last = b"", time.monotonic() + 60  # it takes its time to load
        self._task: tuple[str, int, int] | None = None

    @property
    def idle(self) -> bool:
        """Whether all that it was given is done."""
        return self._task is None

    @property
    def rest(self) -> tuple[str, int, int] | None:
        """The rest of its task after the case in which it was lost."""
        kind, first, count = self._task or ("", 0, 1)
        return (kind, first + 1, count - 1) if count > 1 else None

    def give(self, todo: list[tuple[str, int, int]]) -> bool:
        """Give it the next task, if any."""
        if not todo:
            return False
        self._task = todo.pop()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps(self._task)}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # found lost when it is looked at
        return True

    def heard(self) -> list[dict[str, Any]]:
        """Return what it said since."""
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        self._buffer += data or b""
        *lines, self._buffer = self._buffer.split(b"\n")
        said = [json.loads(line) for line in lines]
        if said:
            self._last = time.monotonic()
        for _ in said:
            assert self._task is not None
            kind, first, count = self._task
            self._task = (kind, first + 1, count - 1) if count > 1 else None
        return said

    def lost(self) -> dict[str, Any] | None:
        """Return the finding of the case in which it ended or got stuck."""
        ended = self._process.poll()
        stuck = time.monotonic() - self._last > _STUCK
        if self._task is None or (ended is None and not stuck):
            return None
        sort = "hang" if ended is None else "crash"
        words = "stuck, and ended" if ended is None else f"ended with {ended}"
        kind, number, _ = self._task
        return {
            "kind": kind, "number": number, "succeeded": False, "seconds": _STUCK, "peak": 0,
            "findings": [{"sort": sort, "where": kind, "words": words}],
        }  # fmt: skip

    def stop(self) -> None:
        """End it."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._selector.unregister(self._process.stdout)
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def _work(base: Path) -> int:
    """Try cases that the parent names, line by line, and say what came of each."""
    from judge import MEMORY
    from kinds import KINDS, prepare

    told, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)  # what a case prints is not for the parent
    prepare(base)
    _enclosed(base)
    with tempfile.TemporaryDirectory(dir=base) as name:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        for line in sys.stdin:
            kind, first, count = json.loads(line)
            for number in range(first, first + count):
                began = time.monotonic()
                verdict, _ = trial_of(KINDS, kind, number, Path(name))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                said = {
                    "kind": kind, "number": number, "succeeded": verdict.succeeded, "peak": peak,
                    "seconds": time.monotonic() - began,
                    "findings": [asdict(each) for each in verdict.findings],
                }  # fmt: skip
                print(json.dumps(said), file=told, flush=True)
    return 0


def _enclosed(folder: Path) -> None:
    """Let this process write into a folder alone, once what commands load is there."""
    from fence import fence

    for name in ("matplotlib.pyplot", "pyarrow.parquet", "sklearn.base", _COMPILED):
        with suppress(ImportError):
            import_module(name)  # not a command's own time
    sys.dont_write_bytecode = True
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    fence(folder)


def trial_of(kinds: Any, kind: str, number: int, base: Path) -> tuple[Any, Any]:
    """Make a case in a separate folder, and judge it."""
    from damage import leave
    from judge import Finding, Verdict, judge
    from kinds import seeded

    folder = base / "case" / "here"  # of which ".." is removed, too
    folder.mkdir(parents=True)
    os.chdir(folder)
    try:
        with seeded(f"{kind} {number}"):
            trial = kinds[kind].make(Random(f"{kind} {number}"), folder)
            return judge(trial), trial
    except Exception as error:
        traceback.print_exc()
        fault = Finding("fuzzer", f"kinds.py, {kind}", repr(error))  # to be mended itself
        return Verdict(False, (fault,)), None
    finally:
        os.chdir(base)
        leave()
        shutil.rmtree(base / "case")


def _show(kind: str, number: str) -> int:
    """Try one case, and show what it is and what became of it."""
    import judge
    from kinds import KINDS, prepare, seeded

    case = f"{kind} {int(number)}"
    with tempfile.TemporaryDirectory(prefix="privrl-fuzz-", dir=_SCRATCH) as name:
        prepare(Path(name))
        folder = Path(name) / "case" / "here"
        folder.mkdir(parents=True)
        os.chdir(folder)
        _enclosed(Path(name))
        with seeded(case):
            trial = KINDS[kind].make(Random(case), folder)
            print(trial.said[:2000])
            for path in sorted(folder.rglob("*")):
                own = path.is_file() and not path.name.startswith("ledger")
                if own and path.stat().st_size < 3000:
                    print(f"-- {path.name}: {path.read_bytes()[:1500]!r}")
            verdict = _traced(trial) if isinstance(trial, judge.Call) else judge.judge(trial)
        os.chdir("/")
        print("taken" if verdict.succeeded else "refused")
        for each in verdict.findings:
            print(f"{each.sort} at {each.where}\n  {each.words}")
        return 1 if verdict.findings else 0


def _traced(trial: Any) -> Any:
    """Judge a call, and show its traceback."""
    from dataclasses import replace

    from judge import judge

    def make() -> object:
        try:
            return trial.make()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            raise

    return judge(replace(trial, make=make))


if __name__ == "__main__":
    sys.exit(main())
