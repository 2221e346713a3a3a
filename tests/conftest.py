"""What holds for every test.

One core a process, no verdict that depends on time or luck, and nobody's own ledger is touched.
"""

import atexit
import gc
import math
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from turns import Turn

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported
    os.environ.setdefault(name, "1")  # as many processes run side by side as there are cores

# What is compiled is kept, or else each process that a test starts compiles all of it again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Nothing that tests write has to outlive a crash: where memory serves as a disk, none waits.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 1 << 32:
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="", dir=_MEMORY)
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)

# Else a third of the time of collection goes to looking for garbage where there is none.
gc.set_threshold(100_000, 20, 100)

# The suite judges a change, so it tries the same examples wherever and whenever it runs: a
# failure is the change's own, and whoever runs it again sees it too. No example has a time limit:
# that a machine is busy says nothing about the code.
_untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}
settings.register_profile("suite", derandomize=True, max_examples=50, **_untimed)
# New examples: pytest --hypothesis-profile=search, which prints what repeats a failure.
settings.register_profile("search", print_blob=True, **_untimed)
settings.load_profile("suite")

# Nothing may be spent before the first test; where there is no folder, none is made.
os.environ["PRIVRL_LEDGER"] = f"{os.devnull}/ledger.sqlite"


# Of a test with many cases every eighth is quick to run; the rest is among what is slow.
_MANY, _EVERY = 2, 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", type=Turn.parse, help="K/N: only every N-th test function or so")


@pytest.hookimpl(tryfirst=True)  # before what is slow is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    many = Counter(item.nodeid.partition("[")[0] for item in items)
    for item in items:
        function = item.nodeid.partition("[")[0]
        few = item.get_closest_marker("few")
        every = few.args[0] if few else _EVERY if many[function] > _MANY else 1
        if cases[function] % every:
            item.add_marker(pytest.mark.slow)
        cases[function] += 1
        for needs in item.iter_markers("needs"):
            for package in needs.args:
                reason = f"no {package}: pip install -e '.[dev]'"
                item.add_marker(pytest.mark.skipif(not _is_there(package), reason=reason))
    turn = config.getoption("--turn")
    if turn is not None:
        items[:] = [item for item in items if _is_in(turn, item)]


def _is_in(turn: Turn, item: pytest.Item) -> bool:
    """All cases of one function at once: they share what was made for them."""
    needs, slow = (item.get_closest_marker(name) is not None for name in ("needs", "slow"))
    # What needs more packages runs in one step of CI alone, so it is always in turn.
    return (needs and not slow) or turn.has(item.nodeid.partition("[")[0])


def pytest_collection_finish() -> None:
    """What was collected is no garbage: a fork that looks for some there copies all memory."""
    gc.freeze()


@cache
def _is_there(package: str) -> bool:
    return find_spec(package) is not None


@pytest.fixture(autouse=True, scope="session")
def _ledger_of_fixtures(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A ledger for what runs outside of a test, such as fixtures of a module."""
    os.environ["PRIVRL_LEDGER"] = str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_compiled() -> None:
    """What is compiled takes over when a process is old enough; here, where a test says so."""
    from privrl.numerics import compiled  # noqa: PLC0415 # imports NumPy

    compiled._WORTH = math.inf


@pytest.fixture(autouse=True, scope="session")
def _commands_are_made_once() -> None:
    """Making all commands of the command line takes longer than most calls of one."""
    from typer import testing  # noqa: PLC0415 # imported where a test runs

    testing._get_command = cache(testing._get_command)


@pytest.fixture(scope="session")
def _ledger_folders() -> Iterator[Iterator[Path]]:
    """Yield new folders with short names, which are in what commands print."""
    with tempfile.TemporaryDirectory(prefix="privrl-ledger-") as folder:
        yield (Path(tempfile.mkdtemp(prefix="", dir=folder)) for _ in count())


@pytest.fixture(scope="session")
def _unused_folders() -> list[Path]:
    """The ledger's folder of the last test, if that did not write to it."""
    return []


@pytest.fixture(autouse=True)
def ledger_path(_ledger_folders: Iterator[Path], _unused_folders: list[Path]) -> Iterator[Path]:
    """A ledger of the test's own, for all that it runs and starts."""
    folder = _unused_folders.pop() if _unused_folders else next(_ledger_folders)
    path, outside = folder / "ledger.sqlite", os.environ["PRIVRL_LEDGER"]
    os.environ["PRIVRL_LEDGER"] = str(path)
    yield path
    os.environ["PRIVRL_LEDGER"] = outside
    if folder.exists() and not any(folder.iterdir()):
        _unused_folders.append(folder)
