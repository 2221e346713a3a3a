"""The eight data sets: where they come from, how their files are read, and their public schemas.

They are described in ``sources.toml``, beside this module.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from privrl.data.datasets.files import Files
from privrl.data.schema import Column, Schema
from privrl.files.extras import extra
from privrl.files.files import package_text


@dataclass(frozen=True, eq=False)
class Source:
    """A data set before it is read.

    Attributes
    ----------
    files : Files
        What it is read from.
    read : callable
        Makes the table of the folder with the files.
    columns : mapping from str to Categories or Bins
        The schema's columns, the target last.
    citation : str
        How to cite it.
    """

    files: Files
    read: Callable[[Path], pd.DataFrame]
    columns: Mapping[str, Column]
    citation: str

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return Schema(self.columns)


def _read(entry: Mapping[str, Any], folder: Path) -> pd.DataFrame:
    """Return the rows of the files of a data set, one file after the other."""
    if "excel" in entry:
        (name,) = entry["digests"]
        extra("python_calamine", "reading an Excel file", "data")
        return pd.read_excel(folder / name, **entry["excel"])
    options: dict[str, Any] = dict(entry["csv"])
    if not entry.get("named", True):
        options["names"] = list(entry["columns"])
    parts: list[pd.DataFrame] = [pd.read_csv(folder / n, **options) for n in entry["digests"]]
    frame = pd.concat(parts, ignore_index=True)
    for column, suffix in entry.get("suffixes", {}).items():
        frame[column] = frame[column].str.removesuffix(suffix)
    return frame


def _source(entry: Mapping[str, Any]) -> Source:
    where = Files(entry["folder"], entry["digests"], entry["archive"])
    columns = Schema.from_dict({"columns": entry["columns"]}).columns
    return Source(where, partial(_read, entry), columns, entry["citation"])


_ENTRIES = tomllib.loads(package_text(__package__, "sources.toml"))
SOURCES = {name: _source(entry) for name, entry in _ENTRIES.items()}


def networks() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for three data sets, each node's parents; parents come before children.

    The structures are those of the experiments of Ponnoprat, *Dirichlet Mechanism for
    Differentially Private KL Divergence Minimization* (TMLR), as its companion repository
    ``donlapark/Dirichlet-Mechanism`` on GitHub has them (commit ``5b06f4b24fd2``, notebook
    ``experiments/bayesian_networks.ipynb``). How they were chosen is not said there; they are taken
    as public.

    Returns
    -------
    dict
        For ``"Adult"``, ``"Bank"`` and ``"GermanCredit"``: the parents of each node, all of them
        columns of the data set's schema.
    """
    return {
        name: {node: tuple(parents) for node, parents in entry["network"].items()}
        for name, entry in sorted(_ENTRIES.items())
        if "network" in entry
    }
