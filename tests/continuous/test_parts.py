"""A continuous log in many parts on a cluster is the log in one place."""

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from continuous_worlds import MIXED, SCHEMA
from made import Elsewhere, write_parts
from typer.testing import CliRunner

from privrl.accounting import Ledger, RdpAccountant
from privrl.cli import app
from privrl.continuous import (
    Choice,
    ContinuousLog,
    ContinuousSchema,
    fit_continuous_model,
    read_continuous_log,
)
from privrl.costs.relations import AddRemovePerson, ReplaceLoggedStep, ReplacePerson

pytest.importorskip("cloudpickle", reason="no Dask: pip install 'privrl[dask]'")
pytestmark = pytest.mark.needs("cloudpickle", "pyarrow")

LARGEST = 40_000  # bytes of a function: features and released weights, not the rows of 400 persons


def named(schema: ContinuousSchema) -> ContinuousSchema:
    return ContinuousSchema(
        state=schema.state, action=schema.action, reward=schema.reward,
        terminates=schema.terminates, person="who", episode="stay", order="hour",
    )  # fmt: skip


def rows_of(schema: ContinuousSchema, persons: int) -> pd.DataFrame:
    """Rows of persons with one to three stays, in no order."""
    rng, rows = np.random.default_rng(0), []
    for person in range(persons):
        for stay in rng.permutation(3)[: rng.integers(1, 4)]:
            x, other = rng.uniform(-0.5, 0.5), float(rng.integers(3)) / 3
            for hour in range(rng.integers(1, 9)):
                action = schema.levels[rng.integers(schema.n_actions)][0]
                rows.append((f"p{person}", f"s{stay}", hour, x, other, action, -abs(x), False))
                x, other = 0.9 * x + 0.1 * action + rng.normal(0, 0.01), (other + 0.1) % 1
    frame = pd.DataFrame(
        rows, columns=["who", "stay", "hour", *schema.state, *schema.action, "reward", "terminated"]
    )
    for role in (schema.state, schema.action):
        for name, column in role.items():
            if isinstance(column, Choice):
                n = len(column.values)
                place = np.clip((frame[name] * n).astype(int), 0, n - 1)
                frame[name] = np.array(column.values)[place]
    return frame.sample(frac=1, random_state=0)


def bytes_of(log: Any, **options: Any) -> bytes:
    model = fit_continuous_model(log, epsilon=5, rng=3, **options)
    return pickle.dumps(
        [vars(model.start), model.mean, model.covariance, model.residual, model.persons]
    )


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, MIXED], ids=["numbers", "mixed"])
@pytest.mark.parametrize("relation", [AddRemovePerson(), ReplacePerson(), ReplaceLoggedStep()])
def test_fits_are_the_same_bit_for_bit(schema: Any, relation: Any, tmp_path: Path) -> None:
    schema = named(schema)
    frame = rows_of(schema, 400)
    wanted = bytes_of(read_continuous_log(frame, schema), relation=relation)
    for n_files in (1, 2, 7):
        folder, cluster = write_parts(tmp_path / f"{n_files}", frame, n_files), Elsewhere()
        log = read_continuous_log(folder, schema, client=cluster)
        assert bytes_of(log, relation=relation) == wanted
        assert bytes_of(read_continuous_log(folder, schema), relation=relation) == wanted
        assert len(log.parts) == n_files
        assert cluster.largest < LARGEST
        assert repr(log) == f"PartitionedContinuousLog(schema={schema!r})"


def test_parts_have_all_persons_each_with_all_rows(tmp_path: Path) -> None:
    schema = named(SCHEMA)
    frame = rows_of(schema, 50)
    whole = read_continuous_log(frame, schema)
    folder = write_parts(tmp_path / "parts", frame, 7)
    parted = read_continuous_log(folder, schema, client=Elsewhere())

    def persons(log: ContinuousLog) -> list[bytes]:
        rows = [slice(*log.offsets[i : i + 2]) for i in range(log.n_persons)]
        columns = (log.state, log.action, log.next_state, log.reward)
        return [b"|".join(c[each].tobytes() for c in columns) for each in rows]

    parts = [each.result() for each in parted.parts]
    assert sum(part.n_persons > 0 for part in parts) > 3
    assert sorted(chain.from_iterable(map(persons, parts))) == sorted(persons(whole))


@pytest.mark.slow
def test_parts_without_anybody(tmp_path: Path) -> None:
    schema = named(SCHEMA)
    for n, frame in enumerate((rows_of(schema, 1), rows_of(schema, 1).iloc[:0])):
        folder = write_parts(tmp_path / f"{n}", frame.astype({"reward": float}), 4)
        whole = read_continuous_log(folder, schema)
        parted = read_continuous_log(folder, schema, client=Elsewhere())
        assert bytes_of(parted, order=2) == bytes_of(whole, order=2)


def test_rows_are_counted_and_types_refused(tmp_path: Path) -> None:
    schema, told = named(SCHEMA), list[int]()
    frame = rows_of(schema, 20)
    folder = write_parts(tmp_path / "parts", frame, 3)
    read_continuous_log(folder, schema, client=Elsewhere(), progress=told.append)
    assert (len(told), told[-1]) == (3, len(frame))
    cluster = Elsewhere()
    folder = write_parts(tmp_path / "texts", frame.assign(x="SECRET"), 2)
    with pytest.raises(ValueError, match="'x' must hold numbers") as caught:
        read_continuous_log(folder, schema, client=cluster)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(ValueError, match="'stay' absent"):
        read_continuous_log(
            write_parts(tmp_path / "less", frame.drop(columns="stay"), 2), schema, client=cluster
        )
    with pytest.raises(ValueError, match="must hold files"):
        read_continuous_log(tmp_path, schema, client=cluster)
    assert not cluster.submitted


class Dies(Elsewhere):
    """A cluster whose workers die once the log is there."""

    def submit(self, function: Any, *given: Any, pure: bool) -> Any:
        if "_sum_of" in repr(function):
            raise ChildProcessError("workers died")
        return super().submit(function, *given, pure=pure)


def test_what_fails_after_the_charge_says_that_it_is_spent(tmp_path: Path) -> None:
    schema = named(SCHEMA)
    folder = write_parts(tmp_path / "parts", rows_of(schema, 20), 3)
    log, spent = read_continuous_log(folder, schema, client=Dies()), RdpAccountant()
    with pytest.raises(ChildProcessError) as caught:
        fit_continuous_model(log, epsilon=1, order=2, accountant=spent)
    assert any("The accountant was charged" in note for note in caught.value.__notes__)
    assert float(spent.epsilon(1e-5)) > 0.9


# On a real cluster ------------------------------------------------------------------------------


@pytest.mark.needs("distributed")
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_any_number_of_workers(workers: int, tmp_path: Path, monkeypatch: Any) -> None:
    """The command writes the same bytes with workers as without."""
    pytest.importorskip("distributed", reason="no Dask: pip install 'privrl[dask]'")
    monkeypatch.chdir(tmp_path)
    schema = ContinuousSchema(
        state=MIXED.state, action=MIXED.action, reward=MIXED.reward,
        person="who", episode="stay", order="hour",
    )  # fmt: skip
    schema.save("schema.toml")
    write_parts(Path("log"), rows_of(schema, 200), 9)
    fit = ["fit-policy", "log", "--schema", "schema.toml", "--seed", "1", "--reproducible"]
    for place, more in (("one", []), ("other", ["--workers", str(workers)])):
        result = CliRunner().invoke(app, [*fit, "--out", place, *more])
        assert result.exit_code == 0, result.output
    for name in ("policy.json", "tables.npz"):
        assert Path("one", name).read_bytes() == Path("other", name).read_bytes()
    assert len(Ledger().entries()) == 2
