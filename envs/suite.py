"""The tasks that agents are compared on, each with its exact optimum and that of chance."""

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.envs.blackjack import blackjack
from privrl.envs.exploration import deep_sea, double_chain, key_and_door, six_arms
from privrl.envs.operations import inventory, machine_replacement, queue
from privrl.envs.random_tables import dense, garnet
from privrl.envs.riverswim import riverswim
from privrl.envs.tables import load_tables
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.numerics.checks import check_is


@dataclass(frozen=True)
class Benchmark:
    """A task, with the number of episodes and the values to compare with.

    Parameters
    ----------
    name : str
        What it is called.
    make : callable
        Makes the task; called when it is first asked for.
    episodes : int
        How many a run has.
    half : {"set", "judged"}
        Whether an agent's settings may be chosen by its results here; on the other half it is
        judged.
    """

    name: str
    make: Callable[[], TabularMDP]
    episodes: int
    half: Literal["set", "judged"]

    @cached_property
    def mdp(self) -> TabularMDP:
        """The task, made once."""
        return self.make()

    @cached_property
    def optimal_value(self) -> float:
        """Largest expected sum of rewards over an episode, exact."""
        return self.mdp.optimal_value()

    @cached_property
    def random_value(self) -> float:
        """Expected sum of rewards over an episode of uniformly random actions, exact."""
        return self.mdp.random_value()

    def share(self, value: ArrayLike) -> NDArray[np.float64] | np.float64:
        """Return how far a value has come from chance, 0, to the optimum, 1.

        Parameters
        ----------
        value : float or array, shape (...)
            Expected sums of rewards over an episode.

        Returns
        -------
        float, or array of shape (...)
            Negative below chance.
        """
        gain = np.asarray(value, dtype=np.float64) - self.random_value
        return gain / (self.optimal_value - self.random_value)


def _gymnasium(name: str, horizon: int, **settings: Any) -> TabularMDP:
    return TabularMDP.from_gymnasium(gym.make(name, **settings), horizon)


def shop(capacity: int) -> TabularMDP:
    """Return a stock for as many customers as it has room for: each buys with probability .4."""
    demand = [
        math.comb(capacity, sold) * 0.4**sold * 0.6 ** (capacity - sold)
        for sold in range(capacity + 1)
    ]
    return inventory(demand, capacity=capacity, horizon=30)


_LAKE = "FrozenLake-v1"

SUITE: Final[dict[str, Benchmark]] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("RiverSwim6", partial(riverswim, 6, 20), 20_000, "set"),
        Benchmark("RiverSwim50", partial(riverswim, 50, 250), 10_000, "set"),
        Benchmark("Garnet20x4", partial(garnet, 20, 4, 3, 20, seed=7), 3_000, "set"),
        Benchmark("FrozenLake4x4", partial(_gymnasium, _LAKE, 100, map_name="4x4"), 3_000, "set"),
        Benchmark("FrozenLake8x8", partial(_gymnasium, _LAKE, 200, map_name="8x8"), 10_000, "set"),
        Benchmark("DeepSea10-3k", partial(deep_sea, 10), 3_000, "set"),
        Benchmark("DeepSea10-10k", partial(deep_sea, 10), 10_000, "set"),
        Benchmark("CliffWalking", partial(_gymnasium, "CliffWalking-v1", 100), 3_000, "set"),
        Benchmark("Taxi-3k", partial(_gymnasium, "Taxi-v4", 200), 3_000, "set"),
        Benchmark("Taxi-30k", partial(_gymnasium, "Taxi-v4", 200), 30_000, "set"),
        Benchmark("Blackjack", blackjack, 100_000, "set"),
        Benchmark("DoubleChain", double_chain, 10_000, "set"),
        Benchmark("SixArms", six_arms, 10_000, "set"),
        Benchmark("Inventory", partial(shop, 10), 3_000, "set"),
        Benchmark("KeyAndDoor5", partial(key_and_door, 5), 10_000, "set"),
        Benchmark("DeepSea20", partial(deep_sea, 20), 10_000, "judged"),
        Benchmark("Queue", queue, 3_000, "judged"),
        Benchmark("MachineReplacement", machine_replacement, 3_000, "judged"),
        Benchmark("Dense10x5", partial(dense, 10, 5, 20, seed=7), 3_000, "judged"),
    )
}
"""The tasks by name. The half on which settings were chosen says little of an agent."""

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
    "Queue": Family((("capacity", 1, 100),), queue, 3_000),
    "MachineReplacement": Family(
        (_STATES,), machine_replacement, 3_000
    ),
}  # fmt: skip
"""The families of which `benchmark` makes tasks outside the suite; the default seed is 7."""


def benchmark(name: str) -> Benchmark:
    """Return the task of a name.

    Parameters
    ----------
    name : str
        One of `SUITE`; a member of a family, whose numbers say how large it is and, where tables
        are drawn at random, after ``-`` their seed: ``DeepSea15``, ``Queue20``, ``Garnet30x3-11``;
        or a file that `load_tables` reads, with the ending ``.npz``. Tasks outside the suite belong
        to the half "judged".

    Returns
    -------
    Benchmark
        Its tables are made, or read, when they are asked for.

    Raises
    ------
    ValueError
        If the name is unknown, or a number is out of range.
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
    # A family is not a task: suggest one of its members.
    tasks = {kind.lower(): family.smallest(kind) for kind, family in FAMILIES.items()}
    tasks |= {task.lower(): task for task in SUITE}
    near = difflib.get_close_matches(name.lower(), tasks, n=1)
    return (
        f"task must be one of {', '.join(SUITE)}, look like one of {kinds}, or be a file that "
        f"ends in .npz, got {name!r}" + (f"; did you mean {tasks[near[0]]!r}?" if near else ".")
    )
