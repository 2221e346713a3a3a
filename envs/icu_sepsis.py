"""ICU-Sepsis: the treatment of sepsis by 25 doses, learned from records of intensive care units."""

import zipfile
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

import numpy as np

from privrl.envs.tabular import TabularMDP

_TABLES = "icu_sepsis/envs/assets/dynamics.npz"
_SURVIVED = 714  # 713: died; 715: the episode is over
_GET = "'pip download --no-deps icu-sepsis' gets a wheel, icu_sepsis(path) reads it"


def icu_sepsis(path: str | PathLike[str] | None = None, *, horizon: int = 20) -> TabularMDP:
    """Return ICU-Sepsis, of 716 states and 25 actions, from the tables of its package.

    Parameters
    ----------
    path : str or path-like, optional
        A wheel of the package ``icu-sepsis``, or its file ``dynamics.npz``. By default that of
        the package that is installed. None of its code is run: importing it would load an old
        ``gym``.
    horizon : int
        Steps in an episode. Under random actions a treatment takes 9 on average, and of one in
        eight nothing has come after 20: they pay nothing then. The package allows 500.

    Returns
    -------
    TabularMDP
        Rewards are paid on arrival: 1 for a patient who survives. States 0 to 712 are patients,
        713 and 714 death and survival, which both lead to 715, and that to itself. Actions of
        which there are no records in a state move on like the mean of those of which there are, as
        they do in the package by default.

    Raises
    ------
    ValueError
        If there is no such package or file, or it holds other tables.
    OSError
        If a file cannot be read.

    References
    ----------
    Choudhary, Gupta and Thomas, *ICU-Sepsis: A benchmark MDP built from real medical data*, 2024.
    """
    path = _installed() if path is None else Path(path)
    wrong = f"path must be a wheel of icu-sepsis or its dynamics.npz, got {str(path)!r}; {_GET}."
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as outer:
            inner = outer.open(_TABLES) if _TABLES in outer.namelist() else raw
            with inner:
                tables = np.load(inner, allow_pickle=False)
                transition, start = tables["tx_mat"], tables["d_0"]
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(wrong) from error
    if transition.shape != (716, 25, 716):
        raise ValueError(wrong)
    reward = np.broadcast_to(np.arange(716) == _SURVIVED, transition.shape)
    return TabularMDP(transition, reward, start, horizon)


def _installed() -> Path:
    """Return the tables of the package that is installed, without importing it."""
    spec = find_spec("icu_sepsis")
    if spec is None or spec.origin is None:
        raise ValueError(f"path must be given, as the package icu-sepsis is not installed; {_GET}.")
    return Path(spec.origin).parents[1] / _TABLES
