"""ICU-Sepsis: the treatment of sepsis by 25 doses, learned from records of intensive care units."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np

from privrl.envs.tabular import TabularMDP
from privrl.numerics.typing import BoolArray, FloatArray

_ASSETS = "icu_sepsis/envs/assets/"
_TABLES = "dynamics.npz"
_ADMISSIBLE = "admissible_actions.txt"
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
        713 and 714 death and survival, which both lead to 715, and that to itself. Actions without
        records in a state move like the mean of the actions with records, the default of the
        package.

    Raises
    ------
    ValueError
        If the package or file is missing, or holds other tables.
    OSError
        If a file cannot be read.

    References
    ----------
    Choudhary, Gupta and Thomas, *ICU-Sepsis: A benchmark MDP built from real medical data*, 2024.
    """
    path = _path(path)
    try:
        with _asset(path, _TABLES) as file:
            tables = np.load(file, allow_pickle=False)
            transition, start = tables["tx_mat"], tables["d_0"]
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(_wrong(path)) from error
    if transition.shape != (716, 25, 716):
        raise ValueError(_wrong(path))
    reward = np.broadcast_to(np.arange(716) == _SURVIVED, transition.shape)
    return TabularMDP(transition, reward, start, horizon)


def icu_sepsis_choices(path: str | PathLike[str] | None = None) -> tuple[BoolArray, FloatArray]:
    """Return between which actions clinicians chose in ICU-Sepsis, and how.

    Parameters
    ----------
    path : str or path-like, optional
        As for `icu_sepsis`; beside a file ``dynamics.npz`` there must be the package's
        ``admissible_actions.txt``.

    Returns
    -------
    admissible : array of bool, shape (716, 25)
        The actions with records; all, where an episode is over.
    expert : array, shape (716, 25)
        How often clinicians took each of them, summing to 1 in each state.

    Raises
    ------
    ValueError, OSError
        As `icu_sepsis`.
    """
    path = _path(path)
    try:
        with _asset(path, _TABLES) as file:
            expert = np.asarray(np.load(file, allow_pickle=False)["expert_policy"], np.float64)
        with _asset(path, _ADMISSIBLE) as file:
            # The first line says how many there are in each state, which the others name.
            lines = [[int(word) for word in line.split()] for line in file.read().splitlines()[1:]]
        admissible = np.zeros((716, 25), np.bool_)
        for state, actions in zip(range(716), lines, strict=True):
            admissible[state, actions] = True
        fine = expert.shape == admissible.shape and (expert >= 0).all()
        if not (fine and admissible.any(axis=1).all()):
            raise ValueError(_wrong(path))
    except (ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise ValueError(_wrong(path)) from error
    expert = np.where(admissible, expert, 0.0)
    expert = np.where(expert.any(axis=1, keepdims=True), expert, admissible)
    return admissible, expert / expert.sum(axis=1, keepdims=True)


def _path(path: str | PathLike[str] | None) -> Path:
    return _installed() if path is None else Path(path)


@contextmanager
def _asset(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file of the package: within its wheel, or beside its tables."""
    with path.open("rb") as raw, zipfile.ZipFile(raw) as outer:
        if _ASSETS + _TABLES in outer.namelist():
            with outer.open(_ASSETS + name) as inner:
                yield inner
            return
    beside = path if name == _TABLES else path.with_name(name)
    with beside.open("rb") as inner:
        yield inner


def _wrong(path: Path) -> str:
    return f"path must be a wheel of icu-sepsis or its dynamics.npz, got {str(path)!r}; {_GET}."


def _installed() -> Path:
    """Return the tables of the package that is installed, without importing it."""
    spec = find_spec("icu_sepsis")
    if spec is None or spec.origin is None:
        raise ValueError(f"path must be given, as the package icu-sepsis is not installed; {_GET}.")
    return Path(spec.origin).parents[1] / _ASSETS / _TABLES
