"""A log in many parts on a cluster is the log in one place."""

import dataclasses
import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import Elsewhere, ElsewhereBehind, write_parts

from privrl.accounting import ApproxDP, RdpAccountant, releases
from privrl.continuous import ContinuousSchema, Number, fit_continuous_model, read_continuous_log
from privrl.data import Categories, Schema
from privrl.data.logs import Log, LogSchema, read_log, read_partitions
from privrl.data.logs.partitions import PartitionedLog, _dealt, digests_of
from privrl.data.logs.rows import Rows
from privrl.data.logs.sources import parquet_table
from privrl.envs import save_released
from privrl.offline import evaluate_policy, fit_model, fit_policy

cloudpickle = pytest.importorskip("cloudpickle", reason="no Dask: pip install 'privrl[dask]'")
pytestmark = pytest.mark.needs("cloudpickle", "pyarrow")

N_STATES, N_ACTIONS = 4, 3
LARGEST = 12_000  # bytes of a function, which holds public tables and nothing of 300 persons
SCHEMA = LogSchema(
    person="who",
    episode="stay",
    most_steps=6,
    most_episodes=2,
    state={"state": Categories(tuple(range(N_STATES)))},
    action={"action": Categories(tuple(range(N_ACTIONS)))},
    reward="score",
    reward_bounds=(-0.5, 0.5),
    outcome="left",
    outcomes=("well", "ill"),
    outcome_rewards=(1.0, -1.0),
)
OUTCOMES_ONLY = dataclasses.replace(SCHEMA, reward=None, reward_bounds=None)
ALL = np.ones((N_STATES, N_ACTIONS), np.bool_)


def rows_of(n_persons: int, seed: int = 0) -> pd.DataFrame:
    """Rows of persons: the first of all of them, then the second, and so on."""
    rng = np.random.default_rng(seed)
    rows = []
    for person in range(n_persons):
        for stay in range(rng.integers(1, 4)):
            length = int(rng.integers(1, 8))
            for step in range(length):
                state, action = int(rng.integers(N_STATES)), int(rng.integers(N_ACTIONS))
                end = ("well", "ill")[rng.integers(2)] if step == length - 1 else None
                rows.append((f"p{person}", stay, state, action, rng.uniform(-1, 1), end))
    frame = pd.DataFrame(rows, columns=["who", "stay", "state", "action", "score", "left"])
    # In turn, so that the rows of a person are all over, in their order.
    return frame.assign(turn=frame.groupby("who").cumcount()).sort_values(["turn", "who"])


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Log, PartitionedLog]]:
    def both(n_persons: int = 300, n_files: int = 9, schema: LogSchema = SCHEMA) -> Any:
        frame = rows_of(n_persons)
        folder = write_parts(tmp_path / f"{n_persons}-{n_files}", frame, n_files)
        return read_log(folder, schema), read_partitions(folder, schema, Elsewhere())

    return both


def persons_in(log: Log) -> list[bytes]:
    """All that is of each person, in no order."""
    persons = []
    for number in range(log.n_persons):
        episodes = range(*log.person_starts[number : number + 2])
        steps = [slice(*log.episode_starts[each : each + 2]) for each in episodes]
        columns = (log.state, log.action, log.next_state, log.reward)
        persons.append(b"|".join(c[step].tobytes() for step in steps for c in columns))
    return sorted(persons)


@pytest.mark.few(4)
@pytest.mark.parametrize("n_files", [1, 2, 7])
def test_parts_have_all_persons_each_with_all_rows(n_files: int, read: Any) -> None:
    whole, parted = read(300, n_files)
    parts = [each.result() for each in parted.parts]
    assert len(parts) == n_files
    assert all(part.n_persons for part in parts)
    found = sorted(person for part in parts for person in persons_in(part))
    assert found == persons_in(whole)
    assert parted.n_steps == whole.n_steps
    assert parted.n_steps > LARGEST / 8


def moved(policy: Any) -> tuple[Any, ...]:
    plain = dataclasses.asdict(policy)
    return tuple(
        value.tobytes() if isinstance(value, np.ndarray) else value for value in plain.values()
    )


POLICIES: list[dict[str, Any]] = [
    {"epsilon": 2.0},
    {"epsilon": 200.0},
    {"epsilon": 2000.0, "discount": 0.9},
    {"epsilon": 2000.0, "discount": 0.9, "behaviour": "uniform", "admissible": ALL},
    {"epsilon": 3e4, "discount": 0.9, "behaviour": "uniform", "admissible": ALL},
    {"epsilon": 3e4, "delta": 1e-6},
]


@pytest.mark.few(12)
@pytest.mark.parametrize("schema", [SCHEMA, OUTCOMES_ONLY], ids=["rewards", "outcomes"])
@pytest.mark.parametrize("given", POLICIES, ids=repr)
def test_policies(given: Any, schema: LogSchema, read: Any) -> None:
    whole, parted = read(schema=schema)
    one, other = (fit_policy(log, **given, rng=np.random.default_rng(5)) for log in (whole, parted))
    assert moved(one) == moved(other)
    assert parted.client.largest < LARGEST


@pytest.mark.few(9)
@pytest.mark.parametrize("order", [None, 8.0])
@pytest.mark.parametrize("epsilon", [1.0, 1e4])
@pytest.mark.parametrize("schema", [SCHEMA, OUTCOMES_ONLY], ids=["rewards", "outcomes"])
def test_models(epsilon: float, order: float, schema: LogSchema, read: Any, tmp_path: Path) -> None:
    for place, log in zip(("one", "other"), read(schema=schema), strict=True):
        model = fit_model(log, epsilon=epsilon, order=order, rng=np.random.default_rng(5))
        save_released(tmp_path / place, model)
    for name in ("model.json", "tables.npz"):
        one, other = ((tmp_path / place / name).read_bytes() for place in ("one", "other"))
        assert one == other


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["last", "steps"])
def test_values(method: Any, read: Any) -> None:
    logs = read(schema=OUTCOMES_ONLY if method == "last" else SCHEMA)
    one, other = (
        evaluate_policy(
            log,
            np.zeros(N_STATES, np.intp),
            epsilon=3.0,
            behaviour="uniform",
            admissible=ALL,
            method=method,
            rng=np.random.default_rng(5),
        )
        for log in logs
    )
    assert one == other
    assert logs[1].client.largest < LARGEST


@pytest.mark.slow
def test_parts_without_anybody(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts", rows_of(1), 5)
    whole, parted = read_log(folder, SCHEMA), read_partitions(folder, SCHEMA, Elsewhere())
    for given in POLICIES:
        one, other = (
            fit_policy(log, **given, rng=np.random.default_rng(5)) for log in (whole, parted)
        )
        assert moved(one) == moved(other)


def test_without_privacy_there_may_be_nothing_to_learn_from(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts", rows_of(1).iloc[:0], 2)
    parted = read_partitions(folder, OUTCOMES_ONLY, Elsewhere())
    found = fit_policy(parted, epsilon=None, rng=np.random.default_rng(0), discount=0.9)
    assert found.kind == "behaviour"


@pytest.mark.slow
def test_what_is_public_of_it_is_all_that_it_shows(read: Any) -> None:
    for log in read():
        shown = repr(log)
        assert shown.startswith(f"{type(log).__name__}(n_states=4, n_actions=3, outcomes=")
        assert "array" not in shown
        assert "parts" not in shown


def test_files_are_told_apart(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "parts", rows_of(5), 2)
    with pytest.raises(ValueError, match="'weight' absent"):
        read_partitions(folder, dataclasses.replace(SCHEMA, person="weight"), Elsewhere())
    with pytest.raises(ValueError, match="schema must be a LogSchema, got str"):
        read_partitions(folder, "schema", Elsewhere())  # type: ignore[arg-type] # none
    (folder / "part-01.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match="it is something else, or damaged"):
        read_partitions(folder, SCHEMA, Elsewhere())
    with pytest.raises(ValueError, match="must hold files"):
        read_partitions(tmp_path, SCHEMA, Elsewhere())
    (tmp_path / "log.csv").write_text("who\n")
    with pytest.raises(ValueError, match="must hold files"):
        read_partitions(tmp_path / "log.csv", SCHEMA, Elsewhere())


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("who", pd.Timestamp(0), "'who' must hold texts, numbers or truth values, got type timest"),
        ("state", "SECRET", "'state' must hold whole numbers, got type"),
        ("score", "SECRET", "'score' must hold numbers, got type"),
    ],
)
def test_types_are_refused_before_anything_is_done_elsewhere(
    column: str, values: object, words: str, tmp_path: Path
) -> None:
    folder = write_parts(tmp_path / "parts", rows_of(5).assign(**{column: values}), 2)
    cluster = Elsewhere()
    with pytest.raises(ValueError, match=words):
        read_partitions(folder, SCHEMA, cluster)
    assert not cluster.submitted


class Later:
    """What a function will make, elsewhere, when somebody waits for it."""

    def __init__(self, make: Callable[..., Any], given: tuple[Any, ...]) -> None:
        self.result = functools.cache(lambda: make(*map(made, given)))


def made(each: Any) -> Any:
    return each.result() if isinstance(each, Later) else each


class InNoHurry:
    """Does as a cluster that tells what went wrong to whoever waits for it, and to nobody else."""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Later:
        return Later(function, given)


@pytest.mark.slow
def test_what_is_wrong_with_a_part_is_told_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_parts(tmp_path / "parts", rows_of(20), 3)
    calls = list[Rows]()

    def fails_once(rows: Rows) -> Any:
        calls.append(rows)
        raise MemoryError("of one part")

    monkeypatch.setattr(Rows, "log", fails_once)
    with pytest.raises(MemoryError, match="of one part"):
        read_partitions(folder, SCHEMA, InNoHurry())
    assert len(calls) == 1


class Again(Later):
    """What a function makes, elsewhere, whenever somebody asks for it."""

    def __init__(self, make: Callable[..., Any], given: tuple[Any, ...]) -> None:
        self.result = lambda: make(*map(made, given))


class Forgets(InNoHurry):
    """Does as a cluster whose workers all died, so that everything is made again."""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Later:
        return Again(function, given)


@pytest.mark.parametrize("kind", ["cells", "numbers", "records"])
def test_workers_with_other_files_are_refused(kind: str, tmp_path: Path) -> None:
    """The ledger knows the files here, and what workers read would be released."""
    folder = write_parts(tmp_path / "parts", rows_of(20), 3)
    other = write_parts(tmp_path / "stale", rows_of(20, seed=1), 3)

    def read(cluster: Any) -> Any:
        if kind == "records":
            models = pytest.importorskip("privrl.models", exc_type=ImportError)
            records = Schema({"state": Categories(tuple(range(N_STATES)))})
            return models.read_partitioned_records(folder, records, cluster)
        if kind == "numbers":
            number = Number(low=0, high=4, levels=2)
            space: Any = {"state": {"state": number}, "action": {"action": number}}
            return read_continuous_log(
                folder, ContinuousSchema(**space, person="who"), client=cluster
            )
        return read_partitions(folder, SCHEMA, cluster)

    with pytest.raises(ValueError, match=r"^part-00\.parquet must have the same bytes here and on"):
        read(ElsewhereBehind(folder, other))
    shutil.rmtree(other)
    shutil.copytree(folder, other)
    read(ElsewhereBehind(folder, other))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cells", "numbers", "records"])
def test_files_that_changed_are_not_read_again(kind: str, tmp_path: Path) -> None:
    """The ledger was charged for what they had been."""
    folder = write_parts(tmp_path / "parts", rows_of(20), 3)
    records = Schema({"state": Categories(tuple(range(N_STATES)))})
    number = Number(low=0, high=4, levels=2)
    numbers = ContinuousSchema(state={"state": number}, action={"action": number}, person="who")
    accountant, cluster = RdpAccountant(), Forgets()
    if kind == "records":
        models = pytest.importorskip("privrl.models", exc_type=ImportError)
        read: Any = models.read_partitioned_records(folder, records, cluster).of(records)
    elif kind == "numbers":
        read = read_continuous_log(folder, numbers, client=cluster)
    else:
        read = read_partitions(folder, SCHEMA, cluster)

    def release() -> Any:
        if kind == "records":
            target = ApproxDP(1.0, 1e-5)
            cells = records.columns["state"]
            return models.histogram(read, cells, target=target, accountant=accountant)
        fit: Any = fit_continuous_model if kind == "numbers" else fit_model
        return fit(read, epsilon=1.0, accountant=accountant)

    release()
    for each in folder.iterdir():
        pd.read_parquet(each).assign(state=0).to_parquet(each, index=False)
    with pytest.raises(ValueError, match="must not change while its data are used"):
        release()


def test_rows_are_counted(tmp_path: Path) -> None:
    frame, told = rows_of(20), list[int]()
    folder = write_parts(tmp_path / "parts", frame, 3)
    read_partitions(folder, SCHEMA, Elsewhere(), progress=told.append)
    assert len(told) == 3
    assert told[-1] == len(frame)
    assert told == sorted(told)


@pytest.mark.parametrize("column", [[1, 2, 3, 2], [True, False, True, False], ["a", "", None, "b"]])
def test_persons_of_any_kind(column: list[Any], tmp_path: Path) -> None:
    frame = rows_of(4).groupby("who").head(1)
    frame = pd.concat([frame, frame]).assign(who=np.repeat(np.array(column, object), 2), left=None)
    folder = write_parts(tmp_path / "parts", frame.convert_dtypes(), 3)
    parts = [each.result() for each in read_partitions(folder, SCHEMA, Elsewhere()).parts]
    found = sorted(person for part in parts for person in persons_in(part))
    assert found == persons_in(read_log(folder, SCHEMA))
    assert found


# On a real cluster ------------------------------------------------------------------------------


def cluster_of(distributed: Any, workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


class KillsOneWorker:
    """Stands at the gate, and kills a worker at the second release."""

    def __init__(self, client: Any) -> None:
        self._client, self._seen = client, 0
        self.killed = False

    def charged(self, cost: Any) -> None:
        """Nothing happens here."""

    def released(self, who: object, cost: Any, data: Any, rng: Any, draw: Any) -> Any:
        self._seen += 1
        if self._seen == 2:
            pid = next(iter(self._client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            self.killed = True
        return draw(data, rng)


@pytest.mark.needs("distributed")
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_worker_is_killed_on_the_way(workers: int, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'privrl[dask]'")
    folder = write_parts(tmp_path / "parts", rows_of(200), 16)
    whole = read_log(folder, SCHEMA)
    with cluster_of(distributed, workers) as cluster, distributed.Client(cluster) as client:
        parted = read_partitions(folder, SCHEMA, client)
        for given in POLICIES[1:4]:
            expected = fit_policy(whole, **given, rng=np.random.default_rng(5))
            killer = KillsOneWorker(client)
            with releases.watched_by(killer):
                found = fit_policy(parted, **given, rng=np.random.default_rng(5))
            assert killer.killed
            assert moved(found) == moved(expected)


@pytest.mark.needs("distributed")
@pytest.mark.slow
@pytest.mark.parametrize("task", ["of rows", "of parts"])
def test_logs_of_workers_show_nobodys_rows(task: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'privrl[dask]'")
    frame = rows_of(20).assign(who="SECRET", score=0.123456)
    folder = write_parts(tmp_path / "parts", frame, 2)
    table = parquet_table(folder / "part-00.parquet", SCHEMA.columns)
    private = ("SECRET", "0.123456")
    assert all(cell in repr(table) for cell in private)  # it would show them

    def fails(*given: Any) -> None:
        assert given
        raise RuntimeError("on purpose")

    with cluster_of(distributed, 1) as cluster, distributed.Client(cluster) as client:
        parted = read_partitions(folder, SCHEMA, client)
        given = list(parted.parts)
        if task == "of rows":
            files = sorted(folder.iterdir())
            given = [
                parted.submit(_dealt, each, digest, SCHEMA, 2)
                for each, digest in zip(files, digests_of(parted, files), strict=True)
            ]
        with pytest.raises(RuntimeError, match="on purpose") as caught:
            parted.result(parted.submit(fails, *given))
        logged = f"{client.get_worker_logs()} {client.get_scheduler_logs()} {caught.value!r}"
    assert "on purpose" in logged
    assert "Compute Failed" in logged
    assert not any(cell in logged for cell in private)


@pytest.mark.needs("distributed")
@pytest.mark.slow
def test_workers_that_always_die_are_given_up(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="no Dask: pip install 'privrl[dask]'")
    folder = write_parts(tmp_path / "parts", rows_of(20), 2)
    with cluster_of(distributed, 1) as cluster, distributed.Client(cluster) as client:
        parted = read_partitions(folder, SCHEMA, client)
        with pytest.raises(ChildProcessError, match="workers died again and again"):
            parted.result(parted.submit(os._exit, 1))
