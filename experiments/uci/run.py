"""DKL's experiments: naive Bayes and Bayesian networks on UCI data, mechanism by mechanism.

The cells of one split are run together, since they share its data.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from privrl.experiments.uci.data import NotPrivateWarning, split
from privrl.experiments.uci.fits import fit_naive_bayes, fit_networks
from privrl.experiments.uci.jobs import Cell, Found
from privrl.experiments.workers import on_workers


@dataclass(frozen=True)
class Block:
    """Cells that share a data set, a model, a kind of bins and a split."""

    cells: tuple[Cell, ...]

    def __str__(self) -> str:
        first = self.cells[0]
        return f"{first.model} on {first.data}, {first.cells} bins, split {first.split}"


def run_cells(
    cells: Iterable[Cell],
    *,
    folder: Path | None = None,
    backend: str = "sequential",
    workers: int | None = None,
) -> pd.DataFrame:
    """Run cells, those of a split together.

    Parameters
    ----------
    cells : iterable of Cell
        In any order, and no matter in which company.
    folder : pathlib.Path, optional
        Where the data sets are, see `privrl.data.datasets.load`.
    backend, workers
        As for `privrl.experiments.workers.on_workers`.

    Returns
    -------
    DataFrame
        A row for each cell, in their order: its fields, and those of `Found`.

    Warns
    -----
    NotPrivateWarning
        Once, if there are cells over the paper's bins.
    """
    cells = list(cells)
    if any(cell.cells == "paper" for cell in cells):
        warnings.warn(
            "cells='paper' reads bins and categories from the private records, so that the models "
            "are not private, whatever their guarantees say; cells='public' is.",
            NotPrivateWarning,
            stacklevel=2,
        )
    together: dict[tuple[str, str, str, int], list[Cell]] = defaultdict(list)
    for cell in dict.fromkeys(cells):
        together[cell.data, cell.model, cell.cells, cell.split].append(cell)
    blocks = [Block(tuple(each)) for each in together.values()]
    found: dict[Cell, Found] = {}
    for block, results in on_workers(run_block, blocks, folder, backend=backend, workers=workers):
        found |= dict(zip(block.cells, results, strict=True))
    return pd.DataFrame([asdict(cell) | found[cell]._asdict() for cell in cells])


def run_block(block: Block, folder: Path | None) -> list[Found]:
    """Return what each cell of a block finds."""
    first = block.cells[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # it is given once, for all blocks
        parts = split(first.data, first.split, first.cells, folder=folder)
    return (fit_networks if first.model == "network" else fit_naive_bayes)(block.cells, parts)
