"""Shared code of the commands that release something from a log of persons."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from privrl.cli import released
from privrl.cli.terminal import rows_read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privrl.costs.base import Cost
    from privrl.costs.relations import Relation
    from privrl.data.logs import Log, LogSchema
    from privrl.data.logs.log import LogSpace
    from privrl.data.logs.partitions import PartitionedLog

LOG: Final = typer.Argument(
    help="The private log: a file .csv, .csv.gz or .parquet, or a folder of the latter."
)
SCHEMA: Final = typer.Option(
    "--schema",
    help="The meaning of its columns: a file with cells, see privrl schema --log, or with ranges "
    "of numbers, see docs/continuous.md.",
)
Person = Annotated[str | None, "The column of persons, in place of the schema's."]
Unit = Annotated[
    str,
    typer.Option(
        "--relation",
        help="A person, with all episodes, by add-remove, or by replace: their number is public. "
        "The column of persons identifies a person.",
    ),
]
Workers = Annotated[
    int | None, "Read a folder of Parquet files with this many Dask processes on this machine."
]
Address = Annotated[str | None, "Address of a Dask scheduler, whose workers see the folder."]
Behaviour = Annotated[
    str | None,
    "If public, how actions were chosen: uniform, or a file .csv, .npy or .npz of "
    "chances, a row for each state.",
]
Admissible = Annotated[
    Path | None,
    "If public, which actions there are: a file .csv or .npy of 0 and 1, a row for each state.",
]
_TRUTH: Final = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Budget:
    """The budget of a release from a log, and its statement."""

    epsilon: float
    delta: float
    order: float | None
    relation: "Relation"
    seed: int | None

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that `fit_model` and `fit_policy` take."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "order": self.order,
            "relation": self.relation,
        }

    @property
    def cost(self) -> "Cost":
        """Of all that is released."""
        from privrl.offline.persons import person_cost

        return person_cost(**self.given)

    @property
    def reported(self) -> float | None:
        """The delta at which it is reported; None for pure privacy."""
        from privrl.accounting.targets import DEFAULT_DELTA

        return self.delta if self.order is None else DEFAULT_DELTA

    def guarantee(self, space: "LogSpace") -> dict[str, Any]:
        """Return what it cost, as plain data; the unit is named as the column of persons is."""
        from privrl.accounting.targets import RenyiDP
        from privrl.envs.released import unit_in_words

        told = {"unit": unit_in_words(space.unit)}
        cost = self.cost
        if self.order is not None:
            target = RenyiDP(self.order, self.epsilon)
            return told | released.guarantee_of(cost, target, self.delta, self.seed)
        without = released.guarantee_of(cost, None, 0.0, self.seed)  # Laplace noise is pure
        return told | without | {"epsilon_delta": self.epsilon}


def relation_of(name: str, unit: str) -> "Relation":
    """Return the relation that --relation names, about the persons of a column."""
    from privrl.costs.relations import AddRemovePerson, ReplacePerson
    from privrl.files.plain import lookup

    return lookup("relation", name, {"add-remove": AddRemovePerson, "replace": ReplacePerson})(unit)


def budget_of(release: released.Release, relation: str, unit: str) -> Budget:
    """Return the budget of a person, checked."""
    assert release.target  # which checks the numbers
    chosen = relation_of(relation, unit)
    budget = Budget(release.epsilon, release.delta, release.renyi_order, chosen, release.seed)
    assert budget.cost  # which checks them for this noise
    return budget


@dataclass(frozen=True)
class PublicLog:
    """All that is public of a log, from its schema and the options: read before the log is."""

    schema: "LogSchema"
    space: "LogSpace"
    support: dict[str, Any]
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None

    @contextmanager
    def read(self, private: "PrivateLog") -> Iterator["Log | PartitionedLog"]:
        """Have the log itself."""
        from privrl.data.logs import read_log, read_partitions

        log: Log | PartitionedLog
        data, separator = private.data, private.separator
        with private.client(self.schema.columns) as client:
            with rows_read("reading") as progress:
                if client is None:
                    log = read_log(data, self.schema, separator=separator, progress=progress)
                else:
                    log = read_partitions(data, self.schema, client, progress=progress)
            yield log


@dataclass(frozen=True)
class PrivateLog:
    """The log that a command is given, the relation, and how it is read: here, or on a cluster."""

    data: Path
    relation: str
    separator: str
    workers: int | None
    address: str | None

    @property
    def on_cluster(self) -> bool:
        """Whether it is on a cluster."""
        return self.workers is not None or self.address is not None

    def check(self) -> None:
        """Check what can be checked before the log is read."""
        from privrl.data.csv_files import check_separator
        from privrl.experiments.workers import check_workers

        check_separator(self.separator)
        if self.on_cluster:
            check_workers("dask", self.workers, self.address)

    @contextmanager
    def client(self, columns: Sequence[str]) -> Iterator[Any]:
        """Have the client of a cluster that reads columns of a folder; None for no cluster."""
        from privrl.data.logs.sources import parquet_files
        from privrl.experiments.workers import dask_client

        if not self.on_cluster:
            yield None
            return
        parquet_files(self.data, columns)  # before a cluster is waited for
        with dask_client(self.workers, self.address) as client:
            yield client


def public_log(
    schema: Path, page: Any, *, person: str | None, admissible: Path | None, behaviour: str | None
) -> PublicLog:
    """Return what the options and the schema's page say of a log, checked."""
    import numpy as np

    from privrl.data.logs import LogSchema
    from privrl.data.logs.schema import cell_labels
    from privrl.offline.support import check_support

    chosen = LogSchema.of_page(schema, page)
    if person is not None:
        chosen = replace(chosen, person=person)
    support: dict[str, Any] = {"admissible": None, "behaviour": behaviour}
    if admissible is not None:
        table = _table("admissible", admissible)
        if not np.isin(table, (0, 1)).all():
            raise ValueError(f"admissible must be 0 or 1 everywhere, see {admissible.name}.")
        support["admissible"] = table.astype(np.bool_)
    if behaviour is not None and behaviour != "uniform":
        support["behaviour"] = _table("behaviour", Path(behaviour))
    check_support(chosen.space, **support)
    names = cell_labels(chosen.state), cell_labels(chosen.action)
    return PublicLog(chosen, chosen.space, support, *names)


def _table(option: str, path: Path) -> "NDArray[Any]":
    """Return the table of numbers that a public file holds."""
    import numpy as np

    from privrl.files.files import read_bytes

    ending = path.suffix.lower()
    if ending not in {".csv", ".npy", ".npz"}:
        raise ValueError(f"{option} must be a file .csv, .npy or .npz, got {str(path)!r}.")
    content = read_bytes(path)
    table = None
    try:
        table = np.array(_rows(content)) if ending == ".csv" else _array(content)
    except Exception:  # whatever NumPy raises of a file that is none
        table = None
    # An entry of an archive that is no array is bytes.
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "biuf":
        raise ValueError(
            f"{option} must be a table of numbers, a row for each state and no header, and "
            f"{path.name} is none."
        )
    return table


def _rows(content: bytes) -> list[list[float]]:
    return [
        [_TRUTH[cell] if (cell := field.strip().lower()) in _TRUTH else float(cell)
         for field in row]
        for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        if row
    ]  # fmt: skip


def _array(content: bytes) -> "NDArray[Any] | None":
    import numpy as np

    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return loaded[loaded.files[0]] if len(loaded.files) == 1 else None
