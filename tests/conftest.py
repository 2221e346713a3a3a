"""What holds for every test.

One core a process, no verdict that depends on time or luck, and nobody's own ledger is touched.
"""

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from turns import Turn

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported
    os.environ.setdefault(name, "1")  # as many processes run side by side as there are cores

# The suite judges a change, so it tries the same examples wherever and whenever it runs: a
# failure is the change's own, and whoever runs it again sees it too. No example has a time limit:
# that a machine is busy says nothing about the code.
_untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}
settings.register_profile("suite", derandomize=True, **_untimed)
# New examples: pytest --hypothesis-profile=search, which prints what repeats a failure.
settings.register_profile("search", print_blob=True, **_untimed)
settings.load_profile("suite")

# Nothing may be spent before the first test; where there is no folder, none is made.
os.environ["PRIVRL_LEDGER"] = f"{os.devnull}/ledger.sqlite"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", type=Turn.parse, help="K/N: only every N-th test function or so")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    turn = config.getoption("--turn")
    if turn is not None:  # all cases of one function at once: they share what was made for them
        items[:] = [item for item in items if turn.has(item.nodeid.partition("[")[0])]


@pytest.fixture(autouse=True, scope="session")
def _ledger_of_fixtures(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A ledger for what runs outside of a test, such as fixtures of a module."""
    os.environ["PRIVRL_LEDGER"] = str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_compiled() -> None:
    """What is compiled takes over when a process is old enough; here, where a test says so."""
    from privrl.numerics import compiled  # noqa: PLC0415 # imports NumPy

    compiled._WORTH = math.inf


@pytest.fixture(autouse=True)
def ledger_path() -> Iterator[Path]:
    """A ledger of the test's own, for all that it runs and starts."""
    with (
        tempfile.TemporaryDirectory(prefix="privrl-ledger-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        path = Path(folder) / "ledger.sqlite"
        patch.setenv("PRIVRL_LEDGER", str(path))
        yield path
