"""What all benchmarks share: how a call is timed, and what is written down beside the times."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from peers import CLOCK, Peer

PEERS = ("diffprivlib", "rlberry")
_PACKAGES = (
    "privrl",
    "numpy",
    "scipy",
    "gymnasium",
    "dp-accounting",
    "scikit-learn",
    "joblib",
    "numba",
)
_SIZES = ("num_envs", "runs", "n_states", "n_values", "n")  # parameters of tests
_STARTED_WITH = os.getloadavg()[0] if hasattr(os, "getloadavg") else None


@dataclass(frozen=True)
class Measure:
    """Time a call and enter it as ``what``, of this file's group.

    Parameters
    ----------
    what : str
        Which row of the page it is for.
    function : callable
        What is timed. With ``setup`` it takes what that returns.
    at : float, optional
        Where on a plot's horizontal axis.
    work : float
        How many units, such as environment steps, are done in one call.
    setup : callable, optional
        Makes fresh input before each call, outside the time.
    rounds : int, optional
        How many calls; by default as many as 0.3 seconds allow, at least five, after one that is
        not counted. Fewer than three are of something long, which needs no such call. A quick run
        makes one.
    peak : callable, optional
        Returns how many bytes of memory a call took at the most; by default those that one more
        call asks for in this process, beside what was there before.
    """

    benchmark: Any
    group: str
    quick: bool

    def __call__(
        self,
        what: str,
        function: Callable[..., object],
        *,
        at: float | None = None,
        work: float = 1.0,
        setup: Callable[[], Any] | None = None,
        rounds: int | None = None,
        peak: Callable[[], float | None] | None = None,
    ) -> None:
        """Time it."""
        self.benchmark.extra_info.update(group=self.group, what=what, at=at, work=work)
        if setup is None and rounds is None:
            self.benchmark(function)
        else:
            counted = 1 if self.quick else rounds or 5
            self.benchmark.pedantic(
                function,
                setup=None if setup is None else lambda: ((setup(),), {}),
                rounds=counted,
                warmup_rounds=int((rounds or 5) >= 3),
            )
        self.benchmark.extra_info["peak"] = peak() if peak else _peak(function, setup)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="smaller sizes, fewer rounds")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STARTED] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    for peer in config.stash[_STARTED].values():
        peer.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what is compared be measured in a row: first all that is of one size, then the next."""
    modules = list(dict.fromkeys(item.path for item in items))

    def order(item: pytest.Item) -> tuple[int, int]:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        size = next((params[name] for name in _SIZES if name in params), 0)
        return modules.index(item.path), size

    items.sort(key=order)


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict) -> None:
    machine_info["node"] = ""  # the name of a machine is nobody's business


def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[Any], output_json: dict[str, Any]
) -> None:
    peers = config.stash[_STARTED]
    output_json["about"] = {
        "quick": config.getoption("--quick"),
        "python": ".".join(map(str, sys.version_info[:3])),
        "versions": {package: _version(package) for package in _PACKAGES},
        "load": _loads(),
        "peers": {
            name: {"variable": p.variable, "versions": p.versions, "missing": p.missing}
            for name, p in peers.items()
        },
    }


_STARTED = pytest.StashKey[dict[str, Peer]]()


@pytest.fixture(scope="session")
def quick(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--quick"))


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest, quick: bool) -> Measure:
    return Measure(benchmark, request.module.__name__.removeprefix("bench_"), quick)


@pytest.fixture
def measure_peer(measure: Measure, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Time a task of a peer; the test is to have the marker ``benchmark(timer=CLOCK)``."""

    def run(
        peer: str,
        task: str,
        what: str,
        *,
        at: float | None = None,
        work: float = 1.0,
        **arguments: Any,
    ) -> None:
        started = request.config.stash[_STARTED]
        if peer not in started:
            started[peer] = Peer(peer)
        if started[peer].missing:
            pytest.skip(f"{peer} is not installed: {started[peer].missing}")
        measure(
            what,
            lambda: CLOCK.add(started[peer].seconds(task, **arguments)),
            at=at,
            work=work,
            rounds=5,
            peak=lambda: None,  # it is another process's
        )

    return run


def _peak(function: Callable[..., object], setup: Callable[[], Any] | None) -> float:
    """Return how many bytes one call has at the most, beside what was there before."""
    given = () if setup is None else (setup(),)
    tracemalloc.start()
    try:
        function(*given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _loads() -> list[float] | None:
    """Return how many processes wanted a core, when this began and now."""
    return None if _STARTED_WITH is None else [_STARTED_WITH, os.getloadavg()[0]]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
