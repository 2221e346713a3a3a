"""privrl histogram."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli.released import Data, Release, SchemaFile, check_name, plain_writer, release_command
from privrl.cli.terminal import OUT

if TYPE_CHECKING:
    from privrl.models.histograms.result import PrivateHistogram


_MOST_CELLS = 40  # printed
_BAR = 20  # characters
_FILES = ("histogram.csv", "histogram.json", "release.json")


@release_command("histogram")
def histogram(
    release: Release,
    data: Data,
    schema: SchemaFile,
    column: str,
    mechanism: str = "auto",
    loss: str = "kl",
    relation: str = "replace-record",
    n_records: float | None = None,
) -> None:
    """Release a private histogram of one column.

    Writes histogram.csv and histogram.json (the released histogram, which you may share) and
    release.json (its cost). Each run is a separate release, and their costs add up.

    Parameters
    ----------
    column
        The column of the schema to count.
    mechanism
        auto, discrete-gaussian, discrete-laplace, gaussian, laplace, dirichlet, or blocks:
        noise on counts, and on sums of 20 blocks of neighbouring cells.
    loss
        kl, l2 or l1: the expected loss to minimise.
    relation
        Privacy unit: replace-record (the number of records is public) or add-remove-record.
    n_records
        A public guess at the number of records, with add-remove-record.
    """
    from privrl.data.records import read_records
    from privrl.data.schema import Schema
    from privrl.experiments.names import RELATIONS
    from privrl.files import files as _files
    from privrl.files.plain import lookup
    from privrl.models.histograms.choice import choose_mechanism
    from privrl.models.histograms.release import histogram as release_histogram

    chosen = Schema.load(schema)
    check_name("column", column, chosen.names)
    target, rng = release.target, release.rng()
    units = {name: RELATIONS[name] for name in ("replace-record", "add-remove-record")}
    unit = lookup("relation", relation, units)(1, False)
    options: dict[str, Any] = {"mechanism": mechanism, "loss": loss, "relation": unit}
    cells = chosen.columns[column]
    # Errors in the options are found before the data are read.
    is_private = relation == "add-remove-record"
    if is_private or mechanism != "dirichlet":
        guess = n_records if is_private else 1.0
        choose_mechanism(target, n_records=guess, n_cells=cells.size, **options)
    accountant = release.account(_FILES, f"histogram of {column}")
    records = read_records(data, chosen.subset([column]), separator=release.separator)
    found = release_histogram(
        records[column],
        cells,
        target=target,
        rng=rng,
        n_records=n_records,
        accountant=accountant,
        **options,
    )
    found = replace(found, name=column)
    table = found.to_frame().rename_axis("cell").reset_index()
    guarantee = release.guarantee(found.cost, cells)
    written = release.save(
        {
            "histogram.csv": _files.table_writer(table),
            "histogram.json": plain_writer(found.to_dict()),
        },
        guarantee,
    )
    _print_histogram(column, found)
    release.answer |= {
        "column": column,
        "records": found.n_records,
        "is_size_public": found.is_size_public,
        "cells": table.to_dict("records"),
    }
    release.finish("histogram.json", guarantee, written)


def _print_histogram(name: str, found: "PrivateHistogram") -> None:
    from privrl.models.histograms.choice import mechanism_name

    frame = found.to_frame()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(escape(name), overflow="fold")
    for head in ("probability", "count", *(("95 % interval",) if "lower" in frame else ())):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    most = frame["probability"].max()
    for label, values in zip(found.labels[:_MOST_CELLS], frame.to_numpy(), strict=False):
        probability, count, *ends = values.tolist()
        interval = [" to ".join(f"{end:.0f}" for end in ends)] if ends else []
        bar = "█" * round(_BAR * probability / most)
        table.add_row(escape(label), f"{probability:.4f}", f"{count:.0f}", *interval, bar)
    about = "" if found.is_size_public else "about "
    OUT.print(
        f"{escape(name)} of {about}{found.n_records:.0f} records, by "
        f"{mechanism_name(found.mechanism)}"
    )
    OUT.print(table)
    if len(frame) > _MOST_CELLS:
        OUT.print(f"and {len(frame) - _MOST_CELLS} more cells, in histogram.csv")
