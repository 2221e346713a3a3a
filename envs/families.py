"""Tasks by name: those of the suite, other sizes and seeds of their kinds, and files of tables."""

import difflib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from privrl.envs.exploration import deep_sea, double_chain, key_and_door
from privrl.envs.operations import machine_replacement, queue
from privrl.envs.random_tables import dense, garnet
from privrl.envs.riverswim import riverswim
from privrl.envs.suite import SUITE, Benchmark, shop
from privrl.envs.tables import load_tables
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.numerics.checks import check_is

_EPISODES = 3_000  # of a run on tables from a file
_NAME = re.compile(r"([A-Za-z]+)(\d+(?:x\d+)*)(?:-(\d+))?")


class Family(NamedTuple):
    """Tasks of one kind, such as DeepSea.

    Parameters
    ----------
    sizes : tuple
        What the numbers of a name are, and the least and greatest of each.
    make : callable
        Makes the tables from those numbers and, if they are drawn, from ``seed``.
    episodes : int
        How many a run has.
    drawn : bool
        Whether a name may end in a seed: ``Garnet30x3-11``.
    """

    sizes: tuple[tuple[str, int, int], ...]
    make: Callable[..., TabularMDP]
    episodes: int
    drawn: bool = False

    def pattern(self, kind: str) -> str:
        """Return how the names of a family look, such as ``GarnetSTATESxACTIONS[-SEED]``."""
        return kind + "x".join(name.upper() for name, _, _ in self.sizes) + "[-SEED]" * self.drawn

    def smallest(self, kind: str) -> str:
        """Return the name of its smallest member, such as ``Garnet2x2``."""
        return kind + "x".join(str(least) for _, least, _ in self.sizes)


_STATES, _ACTIONS = ("states", 2, 100), ("actions", 2, 10)

FAMILIES: Final[dict[str, Family]] = {
    "RiverSwim": Family((("states", 6, 50),), lambda n: riverswim(n, 5 * n), 10_000),
    "DeepSea": Family((("size", 5, 20),), deep_sea, 10_000),
    "KeyAndDoor": Family((("size", 2, 10),), key_and_door, 10_000),
    "DoubleChain": Family((("states", 3, 100),), lambda n: double_chain(n, 2 * n // 3), 10_000),
    "Garnet": Family(
        (_STATES, _ACTIONS),
        lambda n, k, seed: garnet(n, k, min(3, n), 20, seed),
        3_000,
        drawn=True,
    ),
    "Dense": Family(
        (_STATES, _ACTIONS), lambda n, k, seed: dense(n, k, 20, seed), 3_000, drawn=True
    ),
    "Inventory": Family((("capacity", 1, 50),), shop, 3_000),
    "Queue": Family((("capacity", 1, 100),), lambda n: queue(capacity=n), 3_000),
    "MachineReplacement": Family(
        (_STATES,), lambda n: machine_replacement(n_states=n), 3_000
    ),
}  # fmt: skip
"""What `benchmark` makes of names that the suite does not have; without a seed, it is 7."""


def benchmark(name: str) -> Benchmark:
    """Return the task of a name.

    Parameters
    ----------
    name : str
        One of `SUITE`; a member of a family, whose numbers say how large it is and, where tables
        are drawn at random, after ``-`` their seed: ``DeepSea15``, ``Queue20``, ``Garnet30x3-11``;
        or a file that `load_tables` reads, with the ending ``.npz``. What the suite does not
        have is of the half "judged".

    Returns
    -------
    Benchmark
        Its tables are made, or read, when they are asked for.

    Raises
    ------
    ValueError
        If there is no such task, or a number is out of range.
    """
    check_is("task", name, str)
    if name in SUITE:
        return SUITE[name]
    if name.endswith(".npz"):
        return Benchmark(Path(name).stem, partial(load_tables, name), _EPISODES, "judged")
    found = _NAME.fullmatch(name)
    family = FAMILIES.get(found[1]) if found else None
    if not found or family is None:
        raise ValueError(_unknown(name))
    numbers = [int(number) for number in found[2].split("x")]
    if len(numbers) != len(family.sizes) or (found[3] and not family.drawn):
        raise ValueError(f"task must look like {family.pattern(found[1])}, got {shown(name)}.")
    for number, (what, least, most) in zip(numbers, family.sizes, strict=True):
        if not least <= number <= most:
            raise ValueError(
                f"task {shown(name)} must have {least} to {most} {what}, got {number}."
            )
    make = partial(family.make, *numbers)
    if family.drawn:
        make = partial(make, seed=int(found[3] or 7))
    return Benchmark(name, make, family.episodes, "judged")


def _unknown(name: str) -> str:
    kinds = ", ".join(family.pattern(kind) for kind, family in FAMILIES.items())
    # A family is no task: what is suggested is one of its members.
    tasks = {kind.lower(): family.smallest(kind) for kind, family in FAMILIES.items()}
    tasks |= {task.lower(): task for task in SUITE}
    near = difflib.get_close_matches(name.lower(), tasks, n=1)
    return (
        f"task must be one of {', '.join(SUITE)}, look like one of {kinds}, or be a file that "
        f"ends in .npz, got {name!r}" + (f"; did you mean {tasks[near[0]]!r}?" if near else ".")
    )
