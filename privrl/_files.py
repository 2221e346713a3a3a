"""The files that runs leave: written whole or not at all."""

import json
import os
import platform
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

if TYPE_CHECKING:  # whoever has a table or a figure has loaded these
    import pandas as pd
    from matplotlib.figure import Figure

Write = Callable[[BinaryIO], object]


def check_folder(out: Path) -> None:
    """Check, before a run, that a folder can be written to or made; make nothing.

    Raises
    ------
    ValueError
        If ``out`` is a file or lies where nothing may be written.
    """
    nearest = out
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ValueError(f"out must be a folder that can be written to, got {str(out)!r}.")


def save_all(out: Path, files: dict[str, Write]) -> list[Path]:
    """Write several files into a folder; none of them is ever seen half-written.

    Parameters
    ----------
    out : pathlib.Path
        The folder; made if it does not exist.
    files : dict
        For each name, a function that writes the contents to a binary file. Files of these
        names that were there before are replaced.

    Returns
    -------
    list of pathlib.Path
        Where the files are.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".writing-") as scratch:
        for name, write in files.items():
            with (Path(scratch) / name).open("wb") as file:
                write(file)
        return [(Path(scratch) / name).replace(out / name) for name in files]


def table_writer(table: "pd.DataFrame") -> Write:
    """Return what writes a table as CSV, all digits kept."""
    return lambda file: table.to_csv(file, index=False)


def check_parquet() -> None:
    """Check, before a run, that Parquet can be written.

    Raises
    ------
    ValueError
        If pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ValueError(
            "parquet needs the package pyarrow, which is not installed; "
            "pip install 'privrl[parquet]'."
        )


def parquet_writer(table: "pd.DataFrame") -> Write:
    """Return what writes a table as Parquet."""
    return lambda file: table.to_parquet(file, engine="pyarrow", index=False)


def figure_writer(figure: "Figure", kind: Literal["png", "svg"] = "png") -> Write:
    """Return what writes a figure, on one machine the same bytes each time."""
    stamps = {"Date": None} if kind == "svg" else {}

    def write(file: BinaryIO) -> None:
        with import_module("matplotlib").rc_context({"svg.hashsalt": "privrl"}):
            figure.savefig(file, format=kind, dpi=150, metadata=stamps)

    return write


def text_writer(text: str) -> Write:
    """Return what writes a text."""
    return lambda file: file.write(text.encode())


def json_writer(data: dict[str, Any]) -> Write:
    """Return what writes plain data as JSON, with the versions that made it."""
    stamped = data | {"versions": _versions()}
    return lambda file: file.write((json.dumps(stamped, indent=2) + "\n").encode())


def array_writer(array: np.ndarray[Any, Any]) -> Write:
    """Return what writes an array in NumPy's format."""
    return lambda file: np.save(file, array, allow_pickle=False)


def _versions() -> dict[str, str]:
    packages = ("privrl", "numpy", "scipy", "gymnasium", "pandas")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
