"""The tasks that agents are compared on, each with its exact optimum and that of chance."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.envs.blackjack import blackjack
from privrl.envs.exploration import deep_sea, double_chain, key_and_door, six_arms
from privrl.envs.operations import inventory, machine_replacement, queue
from privrl.envs.random_tables import dense, garnet
from privrl.envs.riverswim import riverswim
from privrl.envs.tabular import TabularMDP


@dataclass(frozen=True)
class Benchmark:
    """A task, how long an agent may learn it, and what its result is to be compared with.

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
            Negative for what is worse than chance.
        """
        gain = np.asarray(value, dtype=np.float64) - self.random_value
        share: NDArray[np.float64] | np.float64 = gain / (self.optimal_value - self.random_value)
        return share


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
