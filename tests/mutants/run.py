"""Break privacy, one rule at a time, and require that a test fails each time.

``python tests/mutants/run.py`` runs every mutant, ``--fast`` the half that takes seconds each.
`mutant` says what one is, and how to add one.
"""

import argparse
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mutant import HERE, Mutant, catalogue

sys.path.insert(0, str(HERE.parent))
from turns import Turn

#: What tests need and what takes long to import; nothing of privrl, which is mutated.
_HEAVY = (
    "gymnasium",
    "hypothesis.extra.numpy",
    "joblib",
    "matplotlib.pyplot",
    "mpmath",
    "numpy.testing",
    "pandas",
    "pytest",
    "rich",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.signal",
    "scipy.special",
    "scipy.stats",
    "sklearn.utils.validation",
    "typer",
)
_SECONDS = {"fast": 60, "slow": 120, "hangs": 5}  # of processor time, before it counts as hung
_ENDED = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)


@dataclass(frozen=True)
class Job:
    """Tests to be run, with a mutant or, to see that they pass, without."""

    tests: tuple[str, ...]
    mutant: Mutant | None = None

    @property
    def seconds(self) -> int:
        """How much processor time it may take."""
        return _SECONDS[self.mutant.speed if self.mutant else "slow"]

    @property
    def wanted(self) -> str:
        """The fate that it should have."""
        if self.mutant is None:
            return "passed"
        if self.mutant.equivalent:
            return "equivalent"
        return "hung" if self.mutant.speed == "hangs" else "killed"


@dataclass(frozen=True)
class Outcome:
    """What came of a job: its fate, the processor time it took, and what there is to say."""

    job: Job
    fate: str
    seconds: float
    why: str = ""

    @property
    def is_as_wanted(self) -> bool:
        """Whether it is what the catalogue says."""
        return self.fate == self.job.wanted


def run_all(jobs: Iterable[Job], processes: int) -> Iterator[Outcome]:
    """Run each job in a forked child, so many at a time; yield outcomes as they come."""
    sys.dont_write_bytecode = True
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # threads do not outlive a fork
        os.environ[name] = "1"
    for name in _HEAVY:
        importlib.import_module(name)
    gc.freeze()  # no child need look at what is there already
    waiting, running = list(jobs)[::-1], dict[int, tuple[Job, Path]]()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                job = waiting.pop()
                scratch = Path(tempfile.mkdtemp(dir=folder))
                running[_fork(job, scratch)] = job, scratch
            pid, status, usage = os.wait4(-1, 0)
            job, scratch = running.pop(pid)
            yield _outcome(job, scratch, status, usage.ru_utime + usage.ru_stime)
            shutil.rmtree(scratch, ignore_errors=True)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _fork(job: Job, scratch: Path) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        from child import run  # noqa: PLC0415, only here, where nothing of privrl was imported

        run(job.mutant, job.tests, scratch, job.seconds)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)  # what came of it is in the scratch folder


def _outcome(job: Job, scratch: Path, status: int, seconds: float) -> Outcome:
    """Say what a child's end means: killed is a mutant with which a test failed while it ran."""
    result, log = scratch / "result.json", scratch / "log"
    tail = log.read_text("utf-8", "replace")[-2000:] if log.exists() else ""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in _ENDED:
        return Outcome(job, "hung", seconds, tail)
    if not result.exists():
        return Outcome(job, "broken", seconds, f"the tests ended early.\n{tail}")
    said = json.loads(result.read_text("utf-8"))
    if said["failed"]:
        return Outcome(job, "killed" if job.mutant else "failed", seconds, tail)
    if said["code"] or not said["passed"]:
        return Outcome(job, "broken", seconds, f"no test failed while it ran.\n{tail}")
    fate = "passed" if job.mutant is None else "survived"
    return Outcome(job, "equivalent" if job.wanted == "equivalent" else fate, seconds)


def main() -> int:
    """Run what the command line names; return 1 unless every mutant fares as it should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of first lines; by default all mutants")
    parser.add_argument("--fast", action="store_true", help="only the fast half")
    parser.add_argument("--turn", type=Turn.parse, help="K/N: only every N-th mutant or so")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--catalogue", type=Path, default=HERE / "catalogue", help="a folder")
    given = parser.parse_args()
    chosen = [
        mutant
        for mutant in catalogue(given.catalogue)
        if (mutant.speed == "fast" or not given.fast)
        and (given.turn is None or given.turn.has(str(mutant)))
        and (not given.names or any(part in str(mutant) for part in given.names))
    ]
    jobs, outcomes = [], []
    for mutant in chosen:
        job = Job(mutant.tests, mutant)
        try:
            mutant.check()
            jobs.append(job)
        except ValueError as error:
            outcomes.append(_shown(Outcome(job, "broken", 0.0, str(error))))
    if not given.fast:  # then left to the suite, which runs the same tests
        jobs += [Job((test,)) for test in {test: 0 for job in jobs for test in job.tests}]
    outcomes += map(_shown, run_all(jobs, given.j))
    counts = Counter(outcome.fate for outcome in outcomes if outcome.job.mutant)
    fates = ", ".join(f"{number} {fate}" for fate, number in counts.most_common())
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f"{len(chosen)} mutants: {fates or 'none'}; {seconds:.0f} s of processor time.")
    wrong = [outcome for outcome in outcomes if not outcome.is_as_wanted]
    if wrong:
        print(f"{len(wrong)} of {len(outcomes)} are not as they should be, see the lines with !.")
    return 1 if wrong or not chosen else 0


def _shown(outcome: Outcome) -> Outcome:
    """Print a line for a mutant, and in full what is not as it should be."""
    what = outcome.job.mutant or f"without a mutant: {' '.join(outcome.job.tests)}"
    mark = " " if outcome.is_as_wanted else "!"
    if outcome.job.mutant or mark == "!":
        print(f"{mark} {outcome.fate:10} {outcome.seconds:5.1f} s  {what}", flush=True)
    if mark == "!":
        print(textwrap.indent(f"{' '.join(outcome.job.tests)}\n{outcome.why}", "    "), flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
