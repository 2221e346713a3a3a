"""Simulate episodes in whichever of two ways is quicker."""

import numpy as np

from privrl.envs.flows import Flows
from privrl.envs.rollouts import Rollouts
from privrl.envs.support import Support
from privrl.envs.walkers import Walkers
from privrl.numerics.randomness import generators
from privrl.numerics.typing import BoolArray
from privrl.numerics.typing import FloatArray
from privrl.numerics.typing import IntArray


class Quicker(Rollouts):
    """Walk through a few episodes, and draw many as flows; see `Rollouts`.

    Which way is taken does not depend on the support.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        super().__init__(transition, start, support)
        self._walkers = Walkers(transition, start, support)
        self._flows = Flows(transition, start, support)
        # Measured: an episode more costs walkers what three cells cost flows, which win
        # from 40 (6 states, 3 cells each) to 170 (20 states, 20 cells) and 200 (500, 1) on.
        self._break_even = 34 + np.count_nonzero(transition, axis=-1).max() * len(transition) / 3

    def counts(
        self,
        policy: IntArray,
        episodes: int,
        rng: np.random.Generator,
        *,
        free: BoolArray | None = None,
    ) -> IntArray:
        """See `Rollouts.counts`."""
        each = generators(rng)
        runs = len(policy) // len(each)
        # A call to flows costs as much as 300 walkers more.
        few = runs * (episodes - self._break_even) <= 300
        way = self._walkers if few else self._flows
        if len(each) == 1 or (few and self._walkers.go_abreast(policy, episodes)):
            return way.counts(policy, episodes, rng, free=free)
        parts = [slice(first, first + runs) for first in range(0, len(policy), runs)]
        counts = [
            way.counts(policy[part], episodes, own, free=None if free is None else free[part])
            for part, own in zip(parts, each, strict=True)
        ]
        return np.concatenate(counts)
