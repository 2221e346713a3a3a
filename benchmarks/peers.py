"""Time other libraries in a Python of their own, where they cannot be installed beside privrl.

A peer is a script of this folder, run by the interpreter that an environment variable names, and
asked through its standard input: ``PRIVRL_BENCH_RLBERRY=/some/env/bin/python``. Folders that its
imports need can follow, separated as in ``PYTHONPATH``. Without the variable this interpreter is
tried. The script measures each call itself, so that starting it and talking to it cost nothing.

Only the standard library is used here, since the peers import this module too.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

Call = Callable[[], object]


class Peer:
    """The script ``peer_<name>.py`` and what it says of itself.

    Attributes
    ----------
    versions : dict of str to str
        Of Python and the libraries there; empty where the peer is not installed.
    missing : str
        Why it is not installed; empty where it is.
    """

    def __init__(self, name: str) -> None:
        self.variable = f"PRIVRL_BENCH_{name.upper()}"
        python, *folders = os.environ.get(self.variable, sys.executable).split(os.pathsep)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        script = Path(__file__).with_name(f"peer_{name}.py")
        self._process = subprocess.Popen(
            [python, "-W", "ignore", script],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        told = self._answer() or {"missing": "it ends before it says anything"}
        self.versions: dict[str, str] = told.get("versions", {})
        self.missing: str = told.get("missing", "")

    def seconds(self, task: str, **arguments: Any) -> float:
        """Return how long one call took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def close(self) -> None:
        """End the script."""
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"'):  # what a library prints as it is imported is no answer
                return json.loads(line)
        return {}


class Clock:
    """A clock that stands still but for the time that a peer has measured.

    What pytest-benchmark takes for time, so that a peer's rounds are kept as all others are.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._now

    def add(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


CLOCK = Clock()


def say_missing(error: ImportError) -> NoReturn:
    """Tell that the library of a peer cannot be imported, and end."""
    print(json.dumps({"missing": re.sub(r" \(/.*\)", "", str(error))}))  # no paths of this machine
    raise SystemExit


def serve(versions: Mapping[str, str], tasks: Mapping[str, Callable[..., Call]]) -> None:
    """Answer requests until there are no more: the main program of a peer.

    Parameters
    ----------
    versions : dict of str to str
        Of the libraries.
    tasks : dict of str to callable
        Each takes the arguments of a request, prepares what needs no timing, and returns the
        call to time.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nor is what tasks print

    def answer(**told: Any) -> None:
        answers.write(json.dumps(told) + "\n")
        answers.flush()

    python = ".".join(map(str, sys.version_info[:3]))
    answer(versions={"Python": python, **versions})
    for line in sys.stdin:
        request = json.loads(line)
        call = tasks[request["task"]](**request["arguments"])
        begin = time.perf_counter()
        call()
        answer(seconds=time.perf_counter() - begin)
