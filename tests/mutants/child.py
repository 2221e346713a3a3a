"""What a forked child does: serve one module mutated, run the named tests, say what came of it.

The parent has imported what tests need and what takes long, and nothing of privrl.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import hypothesis
import pytest
from mutant import TESTS, Mutant

_WAITING = 30  # times the processor time that a child may take by the clock, lest it wait for ever


class _Loader(SourceFileLoader):
    """Loads a text in place of what is in the file; no bytecode is read or written."""

    text: str

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module of privrl, mutated."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._text = f"privrl.{mutant.module}", mutant.source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.text = self._text
        spec.loader = loader
        return spec


class _Witness:
    """Counts the tests that passed, and names those that failed while they ran."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.passed += report.passed
            if report.failed:
                self.failed.append(report.nodeid)


def run(mutant: Mutant | None, tests: Sequence[str], scratch: Path, seconds: int) -> None:
    """Run tests in this process, with a mutant or without any.

    Writes ``log`` and ``result.json`` to the scratch folder. After so many seconds of processor
    time the process is ended.
    """
    log = os.open(scratch / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    signal.alarm(_WAITING * seconds)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(scratch / "hypothesis")
    # Nothing is remembered and no example made smaller: whether there is one is all.
    hypothesis.settings.register_profile(
        "mutants",
        database=None,
        derandomize=True,
        deadline=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")
    os.chdir(TESTS.parent)
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    witness = _Witness()
    # Assertions are not rewritten: it takes longer than most tests here.
    options = ["-x", "-q", "--tb=native", "--assert=plain", "-p", "no:cacheprovider"]
    options += [f"--rootdir={TESTS.parent}", f"--basetemp={scratch / 'tmp'}"]
    options += ["-m", ""]  # slow or not, it is named
    code = pytest.main([*options, *(str(TESTS / test) for test in tests)], plugins=[witness])
    said = {"code": int(code), "passed": witness.passed, "failed": witness.failed}
    (scratch / "result.json").write_text(json.dumps(said), encoding="utf-8")
    sys.stdout.flush()
