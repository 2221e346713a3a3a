"""Whole processes: what starting costs, and the sweep that `privrl sweep` does by itself."""

import os
import subprocess
import sys

import pytest
from peers import CLOCK

_PRIVRL = "import sys; from privrl.cli import main; main()"
#: Runs a command and prints its processor time, and the bytes of its largest process. What starts
#: a process counts as its memory until the process is itself, so that this one has to be small.
_WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * (1024 if sys.platform == "linux" else 1))
"""
_STARTS = {
    "import numpy": ["-c", "import numpy"],
    "import privrl.agents": ["-c", "import privrl.agents"],
    "privrl --help": ["-c", _PRIVRL, "--help"],
    "privrl account": ["-c", _PRIVRL, "account", "--weight", "1", "--alpha", "5"],
}


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("what", _STARTS)
def test_start(measure, what):
    _measure(measure, what, _STARTS[what], rounds=5)


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("workers", [1, 2])
def test_default_sweep(measure, quick, tmp_path, workers):
    if quick:
        pytest.skip("a quick run does no whole sweep")
    what = f"privrl sweep, {workers} worker{'s' * (workers > 1)}"
    sweep = ["-c", _PRIVRL, "sweep", "--force", "--workers", str(workers), "--out"]
    folders = iter(range(100))
    _measure(measure, what, lambda: [*sweep, str(tmp_path / str(next(folders)))], rounds=1)


def _measure(measure, what, command, *, rounds):
    """Time a process by the processor time of it and its workers, as the system counts it."""
    used = {}

    def run() -> None:
        arguments = command() if callable(command) else command
        # As it is where it is installed: bytecode is there.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            [sys.executable, "-c", _WATCH, sys.executable, *arguments],
            stdout=subprocess.PIPE, env=environment, text=True, check=True,
        )  # fmt: skip
        seconds, used["peak"] = map(float, done.stdout.split())
        CLOCK.add(seconds)

    measure(what, run, rounds=rounds, peak=lambda: used["peak"])
