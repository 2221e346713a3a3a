"""Workers: the same results from all backends, whatever dies in between."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl.experiments.sweeps import execution
from privrl.experiments.workers import (
    JobFailed,
    WorkersDied,
    check_workers,
    dask_client,
    on_workers,
)

JOBS = list(range(8))


def double(job: int, shared: int) -> int:
    return 2 * job + shared


def slowly(job: int, shared: int) -> int:
    time.sleep(0.3)
    return double(job, shared)


def dies_once(job: int, folder: Path) -> int:
    if job == 3 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * job


def dies_always(job: int, folder: Path) -> int:
    (folder / f"{time.monotonic_ns()}").touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return job


def listening(job: int, shared: int) -> list[str]:
    """Return on which addresses this process listens, and the one that started it."""
    psutil = import_module("psutil")  # Dask has it
    return [
        connection.laddr.ip
        for process in (psutil.Process(), psutil.Process(shared))
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]


def raises(job: int, folder: Path) -> int:
    (folder / f"{job} {time.monotonic_ns()}").touch()
    if job == 2:
        raise ZeroDivisionError("two is too much")
    return job


@pytest.fixture(scope="module")
def cluster():
    """Two Dask workers, processes of their own."""
    distributed = pytest.importorskip(
        "distributed", reason="no distributed: pip install 'privrl[dask]'"
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as running:
        yield running


@pytest.mark.few(3)
@pytest.mark.parametrize(("backend", "workers"), [("sequential", None), ("loky", 1), ("loky", 2)])
def test_every_job_is_done(backend: str, workers: int | None) -> None:
    done = dict(on_workers(double, JOBS, 5, backend=backend, workers=workers))
    assert done == {i: 2 * i + 5 for i in JOBS}


def test_nothing_to_do() -> None:
    assert list(on_workers(double, [], 5, backend="loky")) == []


@pytest.mark.slow
def test_dask_does_every_job_though_a_worker_is_killed(cluster) -> None:
    results = on_workers(slowly, JOBS, 5, backend="dask", address=cluster.scheduler_address)
    done = dict([next(results)])
    victim = next(iter(cluster.workers.values())).pid
    os.kill(victim, signal.SIGKILL)
    done |= dict(results)
    assert done == {i: 2 * i + 5 for i in JOBS}
    while victim in {nanny.pid for nanny in cluster.workers.values()}:  # it dies in its own time
        time.sleep(0.1)


@pytest.mark.slow
def test_dask_does_every_job_though_all_workers_are_killed(cluster) -> None:
    results = on_workers(slowly, JOBS, 5, backend="dask", address=cluster.scheduler_address)
    done = dict([next(results)])
    for nanny in cluster.workers.values():
        os.kill(nanny.pid, signal.SIGKILL)
    done |= dict(results)
    assert done == {i: 2 * i + 5 for i in JOBS}


@pytest.mark.slow
@pytest.mark.needs("distributed")
def test_our_own_cluster_is_reached_from_this_machine_alone() -> None:
    done = on_workers(listening, [0], os.getpid(), backend="dask", workers=1)
    ((_, addresses),) = done
    assert len(addresses) >= 4  # worker, nanny, scheduler, dashboard
    assert set(addresses) <= {"127.0.0.1", "::1"}


@pytest.fixture(scope="module")
def ours():
    """Have a client of a cluster that privrl starts."""
    with dask_client(1, None) as client:
        yield client


STRANGER = "import os, sys, distributed; distributed.Client(sys.argv[1], timeout=3).run(os.getpid)"


@pytest.mark.slow
@pytest.mark.needs("distributed", "cryptography")
def test_who_has_no_key_cannot_speak_to_our_own_cluster(ours: Any) -> None:
    """Such as another account of this machine: code that it sends would run as ours."""
    address = ours.scheduler.address
    for known in (address, address.replace("tls://", "tcp://")):
        command = [sys.executable, "-c", STRANGER, known]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        *_, why = done.stderr.split("\nTraceback")[-1].strip().splitlines()
        assert re.match(r"TypeError: TLS|OSError: Timed out|[\w.]*CommClosedError", why), why
    assert ours.submit(os.getpid, pure=False).result() != os.getpid()


@pytest.mark.needs("distributed", "cryptography")
def test_what_a_worker_writes_to_disk_is_for_its_owner_alone(ours: Any) -> None:
    (folder,) = ours.run(lambda dask_worker: dask_worker.local_directory).values()
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700


def fails(part: Any, more: Any) -> None:
    raise ZeroDivisionError("of no use")


@pytest.mark.slow
@pytest.mark.needs("distributed", "cryptography")
def test_the_log_of_a_worker_does_not_show_what_a_task_was_given(ours: Any) -> None:
    part = ours.submit(pd.DataFrame, {"who": ["SECRET7"]}, pure=False)
    with pytest.raises(ZeroDivisionError):
        ours.submit(fails, part, np.array([987654321]), pure=False).result()
    (lines,) = ours.get_worker_logs().values()
    told = "\n".join(line for _, line in lines)
    assert "of no use" in told
    assert "SECRET7" not in told
    assert "987654321" not in told


@pytest.mark.slow
def test_loky_does_every_job_though_a_worker_dies(tmp_path: Path) -> None:
    done = dict(on_workers(dies_once, JOBS, tmp_path, backend="loky", workers=2))
    assert done == {i: 2 * i for i in JOBS}
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_workers_that_always_die_are_given_up(tmp_path: Path) -> None:
    with pytest.raises(WorkersDied, match=r"3 times in a row, 2 of 2 not done, such as: 7\. Mem"):
        list(on_workers(dies_always, [7, 8], tmp_path, backend="loky", workers=2))
    assert 3 <= len(list(tmp_path.iterdir())) <= 6


# When its other jobs are cancelled, loky's thread may still look for one that is gone.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("backend", ["sequential", "loky"])
def test_an_error_names_the_job_and_is_not_tried_again(backend: str, tmp_path: Path) -> None:
    results = on_workers(raises, JOBS, tmp_path, backend=backend, workers=2)
    with pytest.raises(JobFailed, match="2: ZeroDivisionError: two is too much") as caught:
        dict(results)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "in raises" in caught.value.__cause__.__notes__[0]  # where it happened
    assert len(list(tmp_path.glob("2 *"))) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "locky"}, "did you mean 'loky'"),
        ({"backend": "loky", "workers": 0}, "workers must be"),
        ({"backend": "loky", "address": "tcp://here:1"}, "address is for the backends dask"),
    ],
    ids=str,
)
def test_bad_options(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_workers(**{"workers": None, "address": None} | options)


@pytest.mark.parametrize(
    ("backend", "package"), [("dask", "distributed"), ("dask", "cryptography"), ("ray", "ray")]
)
def test_a_missing_package_names_its_extra(backend: str, package: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"pip install 'privrl\[{backend}\]'"):
        check_workers(backend, None, None)


@pytest.mark.needs("distributed")
def test_a_cluster_has_its_own_workers() -> None:
    with pytest.raises(ValueError, match="workers must be left out with an address"):
        check_workers("dask", 2, "tcp://here:1")


@pytest.mark.parametrize(
    ("efforts", "wanted"),
    [
        ([], 1),
        ([5.0], 1),
        ([90.0, 8.0, 8.0], 1),
        ([60.0, 40.0], 2),
        ([1.0] * 3, 3),
        ([1.0] * 99, 4),
    ],
)
def test_no_worker_is_started_that_has_little_to_do(
    efforts: list[float], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With four cores: beside the longest job, or the others."""
    monkeypatch.setattr(execution, "cpu_count", lambda: 4)
    assert execution._useful(efforts) == wanted
