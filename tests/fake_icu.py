"""Tables as those of ICU-Sepsis, but simple: for tests without the package."""

import zipfile
from pathlib import Path

import numpy as np

ASSETS = "icu_sepsis/envs/assets/"
ACTIONS = [[3, 5], *([[3]] * 712), *([list(range(25))] * 3)]  # of each state


def write_tables(folder: Path) -> Path:
    """Half of all patients survive the first dose, with action 3; nobody any other.

    In state 0 actions 3 and 5 are admissible, elsewhere 3 alone; clinicians take 5 and, as their
    table has it, 7.
    """
    transition = np.zeros((716, 25, 716))
    transition[:713, :, 713] = 1
    transition[:713, 3, 713:715] = 0.5
    transition[713:, :, 715] = 1
    expert = np.zeros((716, 25))
    expert[0, [5, 7]] = 0.3, 0.7
    path = folder / "dynamics.npz"
    np.savez_compressed(path, tx_mat=transition, d_0=np.eye(716)[0], expert_policy=expert)
    write_actions(folder, ACTIONS)
    return path


def write_actions(folder: Path, actions: list[list[int]]) -> None:
    """Write the file of admissible actions, which begins with how many there are."""
    rows = [[len(each) for each in actions], *actions]
    text = "".join(" ".join(map(str, row)) + " \n" for row in rows)
    (folder / "admissible_actions.txt").write_text(text)


def write_wheel(tables: Path, wheel: Path) -> None:
    """Write a wheel of the package, whose code must not be run."""
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("icu_sepsis/__init__.py", "import gym")
        for path in (tables, tables.with_name("admissible_actions.txt")):
            file.write(path, ASSETS + path.name)
