"""Real data sets with public schemas, and the papers' Bayesian networks over them.

Eight classification data sets of the UCI Machine Learning Repository, those of Ponnoprat,
*Dirichlet Mechanism for Differentially Private KL Divergence Minimization* (TMLR). Each has a
schema that is written down and never read from its rows.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from privrl.data.datasets.files import locate
from privrl.data.datasets.sources import SOURCES, networks
from privrl.data.schema import Schema
from privrl.numerics.checks import check_among

NAMES = tuple(SOURCES)
FOLDER_VARIABLE = "PRIVRL_DATA"
LICENCE = "CC BY 4.0"

__all__ = ["NAMES", "load", "networks"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table, its target, and its public schema.

    Attributes
    ----------
    name : str
        One of `NAMES`.
    frame : pandas.DataFrame
        All rows and all columns of the original, in its order; missing values are missing.
    target : str
        The column of classes.
    schema : Schema
        The columns to model, the target last.
    citation : str
        How to cite the data set.
    licence : str
        As UCI states it.
    """

    name: str
    frame: pd.DataFrame
    target: str
    schema: Schema
    citation: str
    licence: str


def load(name: str, folder: str | Path | None = None, *, progress: bool = False) -> Dataset:
    """Return one of the data sets.

    Parameters
    ----------
    name : str
        One of `NAMES`: ``"CreditCard"``, ``"Thyroid"``, ``"Shopper"``, ``"Digit"``,
        ``"GermanCredit"``, ``"Bank"``, ``"Spam"`` or ``"Adult"``.
    folder : str or pathlib.Path
        Where UCI's files are, such as ``adult/adult.data``; nothing is downloaded then. By
        default the environment variable ``PRIVRL_DATA``; otherwise the user's cache, into which
        missing files are downloaded from UCI.
    progress : bool
        Whether a bar shows how far a download is; needs tqdm.

    Raises
    ------
    ValueError
        If the name is unknown, or a file is not, byte for byte, the one that UCI distributes.
    FileNotFoundError
        If a folder was given and a file is not in it.
    ConnectionError
        If a download fails; nothing is left behind.
    ImportError
        If a download, or reading CreditCard, needs the extra ``privrl[data]``.

    Notes
    -----
    The checksums are of the single files, and were found as those of the files downloaded from
    UCI in several public repositories that know nothing of each other. The addresses of UCI's
    archives are from the same repositories. The downloads themselves were never tried against UCI:
    where an archive is laid out otherwise than expected, or its files have changed, loading fails
    and says so. That every set is under CC BY 4.0 was likewise read in copies of UCI's pages.
    """
    check_among("name", name, SOURCES)
    source = SOURCES[name]
    if folder is None:
        folder = os.environ.get(FOLDER_VARIABLE) or None
    where = locate(source.files, None if folder is None else Path(folder), progress=progress)
    schema = source.schema
    target = schema.names[-1]
    return Dataset(name, source.read(where), target, schema, source.citation, LICENCE)
