"""Do jobs on workers; what a worker that dies was at is done again."""

import importlib
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed  # type: ignore[import-untyped] # has no types

from privrl.files.plain import lookup
from privrl.files.shown import shown
from privrl.numerics.checks import check_count

_DEATHS = 3  # in a row, without any job finished
_LOOPBACK = "127.0.0.1"
#: What each backend needs: the package that is it, and what makes the keys of a Dask cluster.
_PACKAGES = {"dask": ("distributed", "cryptography"), "ray": ("ray",)}

Job = TypeVar("Job")
Result = TypeVar("Result")
#: A job's place, and what the function returned or raised.
_Outcome = tuple[int, Any, Exception | None]


class WorkersDied(ChildProcessError):
    """Workers die again and again."""


class JobFailed(ValueError):
    """The function raised an error; it is the cause of this one."""


class _WorkerDied(Exception):
    pass


def check_workers(backend: str, workers: int | None, address: str | None) -> None:
    """Check that a backend can be had.

    Raises
    ------
    ValueError
        If there is no such backend, its package is not installed, or an option is not for it.
    """
    lookup("backend", backend, _BACKENDS)
    if backend in ("dask", "ray"):
        _package(backend)
    elif address is not None:
        raise ValueError(f"address is for the backends dask and ray, got {shown(backend)}.")
    if workers is not None:
        check_count("workers", workers)
        if address is not None:
            raise ValueError("workers must be left out with an address: the cluster has its own.")


def on_workers(
    function: Callable[[Job, Any], Result],
    jobs: Sequence[Job],
    shared: Any,
    *,
    backend: str,
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[tuple[Job, Result]]:
    """Apply ``function(job, shared)`` to all jobs, and yield each as soon as it is done.

    Parameters
    ----------
    function : callable
        A pure function of a module: a job may be done twice.
    jobs : sequence
        What to do, the longest first, so that no worker is left alone with it at the end. Errors
        call a job what ``str`` does.
    shared : object
        What all jobs need; sent to each worker.
    backend : str
        One of "sequential" (in this process), "loky" (processes of this machine), "dask" and
        "ray".
    workers : int, optional
        How many; by default one for each core. With one, loky works in this process.
    address : str, optional
        Of a Dask scheduler or a Ray cluster; by default one is started on this machine.

    Raises
    ------
    JobFailed
        If the function raised an error; it names the job. Nothing is tried again.
    WorkersDied
        If three times in a row workers died and no job was finished in between.
    """
    check_workers(backend, workers, address)
    left = dict(enumerate(jobs))
    deaths = 0
    while left:
        try:
            todo = _Todo(function, dict(left), shared, workers, address)
            with closing(_BACKENDS[backend](todo)) as outcomes:
                for place, result, error in outcomes:
                    job = left.pop(place)
                    deaths = 0
                    if error is not None:
                        raise JobFailed(f"{job}: {type(error).__name__}: {error}") from error
                    yield job, result
        except _WorkerDied as death:
            deaths += 1
            if deaths == _DEATHS:
                raise WorkersDied(
                    f"workers died {deaths} times in a row, {len(left)} of {len(jobs)} not done, "
                    f"such as: {next(iter(left.values()))}. Memory is the usual reason; take "
                    f"fewer workers or smaller blocks. ({death.__cause__})"
                ) from death


@dataclass(frozen=True)
class _Todo:
    """What a backend is asked to do: jobs by their places, and by whom."""

    function: Callable[[Any, Any], Any]
    jobs: dict[int, Any]
    shared: Any
    workers: int | None
    address: str | None


def _attempt(function: Callable[[Any, Any], Any], place: int, job: Any, shared: Any) -> _Outcome:
    """Return an error as a value, so that what a backend raises is always about its workers."""
    try:
        return place, function(job, shared), None
    except Exception as error:  # whatever it is, it is raised where the results arrive
        error.add_note(f"In a worker:\n{traceback.format_exc()}")
        return place, None, error


def _sequential(todo: _Todo) -> Generator[_Outcome, None, None]:
    for place, job in todo.jobs.items():
        yield _attempt(todo.function, place, job, todo.shared)


def _loky(todo: _Todo) -> Generator[_Outcome, None, None]:
    parallel = Parallel(
        n_jobs=min(todo.workers or cpu_count(), len(todo.jobs)),
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        idle_worker_timeout=60,  # how long they stay if this process is killed
    )
    outcomes = parallel(
        delayed(_attempt)(todo.function, place, job, todo.shared)
        for place, job in todo.jobs.items()
    )
    try:
        for outcome in outcomes:  # noqa: UP028 # `yield from` would close it too, with a warning
            yield outcome
    except BrokenExecutor as error:
        raise _WorkerDied from error
    finally:
        with warnings.catch_warnings():  # joblib warns of a generator that is closed early
            warnings.simplefilter("ignore", UserWarning)
            outcomes.close()


@contextmanager
def dask_client(workers: int | None, address: str | None) -> Iterator[Any]:
    """Have a client of a Dask cluster: at an address, or of as many processes of this machine."""
    distributed = _package("dask")
    with ExitStack() as stack:
        cluster = address or stack.enter_context(
            distributed.LocalCluster(
                n_workers=workers or cpu_count(),
                threads_per_worker=1,
                # Whoever reaches a scheduler can run code in its workers: no other machine does,
                # and no other account of this one has the key, which is made for this run.
                host=_LOOPBACK,
                security=True,
                dashboard_address=f"{_LOOPBACK}:0",
            )
        )
        yield stack.enter_context(distributed.Client(cluster, set_as_default=False))


def _dask(todo: _Todo) -> Generator[_Outcome, None, None]:
    # Not through joblib, whose Dask backend waits for ever for a task that killed its workers.
    distributed = _package("dask")
    with dask_client(todo.workers, todo.address) as client:
        # On all workers, so that it outlives any of them.
        everywhere = client.scatter(todo.shared, broadcast=True, hash=False)
        futures = [
            client.submit(_attempt, todo.function, place, job, everywhere, pure=False)
            for place, job in todo.jobs.items()
        ]
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                yield future.result()
        except (distributed.KilledWorker, CancelledError) as error:
            raise _WorkerDied from error
        finally:
            client.cancel(futures)


def _ray(todo: _Todo) -> Generator[_Outcome, None, None]:
    # Not through joblib, whose Ray backend gives no result before all are there.
    ray = _package("ray")
    ours = not ray.is_initialized()
    if ours:
        local: dict[str, Any] = {}
        if not todo.address:
            local = {"num_cpus": todo.workers or cpu_count(), "include_dashboard": False}
        ray.init(address=todo.address, log_to_driver=False, **local)
    try:
        everywhere = ray.put(todo.shared)
        attempt = ray.remote(_attempt)
        left = [
            attempt.remote(todo.function, place, job, everywhere)
            for place, job in todo.jobs.items()
        ]
        while left:
            (done,), left = ray.wait(left)
            yield ray.get(done)
    except ray.exceptions.RayError as error:
        raise _WorkerDied from error
    finally:
        if ours:
            ray.shutdown()


_BACKENDS: dict[str, Callable[[_Todo], Generator[_Outcome, None, None]]] = {
    "sequential": _sequential,
    "loky": _loky,
    "dask": _dask,
    "ray": _ray,
}


def _package(backend: str) -> Any:
    found = []
    for name in _PACKAGES[backend]:
        try:
            found.append(importlib.import_module(name))
        except ImportError as error:
            raise ValueError(
                f"backend {shown(backend)} needs the package {name}, which is not installed; "
                f"pip install 'privrl[{backend}]'."
            ) from error
    return found[0]
