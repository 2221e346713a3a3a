"""Every comparison of numbers where agents learn, where they play, and where logs are learned from.

As in ``core/test_every_switch.py``: ``core/switches_offline.txt`` lists them with why both sides
are right. Here what counts is whether a record, or a person, can decide what is taken of another.
"""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from every_comparison import found, listed, unexplained, unlike

from privrl.agents import HatRewards, NoisyRewards
from privrl.agents.rewards import BetaRewards, reward_loops
from privrl.costs.relations import DAMPED_REWARDS, ReplaceStep
from privrl.samplers.base import GRID
from privrl.samplers.noisy_counts import NoisyCounts

ROOT = Path(__file__).parents[2] / "privrl"
LIST = Path(__file__).parents[1] / "core" / "switches_offline.txt"
FOLDERS = ("offline", "agents", "envs", "experiments/training", "experiments/sweeps")
#: Pictures of what was released, or of what states itself that it is not private.
LEFT_OUT = {
    *("envs.released_render", "envs.riverswim_render", "experiments.training.frames"),
    *("experiments.training.plots", "experiments.sweeps.plots"),
}


def test_every_comparison_is_listed() -> None:
    new, gone = unlike(found(ROOT, FOLDERS, LEFT_OUT), listed(LIST))
    assert not new, f"try both sides of these, and list them in {LIST.name}:\n{new}"
    assert not gone, f"no longer there, so leave them out of {LIST.name}:\n{gone}"


def test_every_entry_says_why() -> None:
    assert not unexplained(listed(LIST))


# Rewards -----------------------------------------------------------------------------------------

RELATION = ReplaceStep(arrival_rewards=True)
RANGES = [
    (0.0, 1.0), (-1.0, 1.0), (0.1, 0.3), (1 / 3, 2 / 3), (0.1, math.nextafter(0.1, 1)),
    (1e10, 1e10 + 2e-6), (-1e307, 1e307), (-3.0, 1e300), (0.0, 5e-324), (-1e-320, 0.0),
]  # fmt: skip


def models(low: float, high: float) -> list[BetaRewards]:
    """Of all kinds; the last has points of its own for self-loops."""
    plain, loops = NoisyCounts(sigma=1.0, updates=1, table="rewards"), reward_loops(RELATION)
    damped = NoisyCounts(sigma=1.0, updates=1, relation=RELATION, table=DAMPED_REWARDS, loops=loops)
    kinds = BetaRewards, NoisyRewards, HatRewards
    made = [kind(plain, low=low, high=high) for kind in kinds]
    return [*made, HatRewards(damped, low=low, high=high)]


def edges(low: float, high: float) -> tuple[list[float], list[float]]:
    """Rewards within, at the ends, at points and one float beside; and those just outside."""
    slack = 4 * np.finfo(np.float64).eps * max(abs(low), abs(high))
    ends = low - slack, high + slack
    points = [low + (high - low) * (k / 10) for k in range(11)]
    beside = [math.nextafter(each, way) for each in points for way in (-math.inf, math.inf)]
    inside = [*points, *(each for each in beside if low <= each <= high), low, high, *ends]
    outside = [math.nextafter(ends[0], -math.inf), math.nextafter(ends[1], math.inf)]
    return inside, [each for each in outside if each != np.float32(each)]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_rewards_at_the_ends_of_their_range(low: float, high: float) -> None:
    """Each adds 1 in all, exactly, and as much among others, in steps and in counts."""
    inside, outside = map(np.array, edges(low, high))
    n = len(inside)
    counts = np.random.default_rng(1).integers(0, 2**20, (n, 1, n)) * (np.eye(n)[:, None] + 1)
    for model, stays in product(models(low, high), (False, True)):
        rng = np.random.default_rng(0)
        table = model.encode(inside, np.full(n, stays), rng)
        assert (table >= 0).all()
        assert (table.sum(axis=-1) == 1).all()
        np.testing.assert_array_equal(table / GRID, np.rint(table / GRID))
        for wrong in outside:
            with pytest.raises(ValueError, match="reward must be within the declared range"):
                model.encode(np.append(inside, wrong), np.full(n + 1, stays), rng)
        paid = np.broadcast_to(inside, (n, 1, n))
        summed = model.encode_counts(counts, paid, np.arange(n), rng)
        np.testing.assert_array_equal(summed.sum(axis=-1), counts.sum(axis=-1))
        if isinstance(model, NoisyRewards):  # without coins
            alone = [model.encode(inside[k : k + 1], np.array([stays]), rng) for k in range(n)]
            np.testing.assert_array_equal(np.concatenate(alone), table)
            each = model.encode(
                paid, np.broadcast_to(np.eye(n, dtype=bool)[:, None], paid.shape), rng
            )
            np.testing.assert_array_equal(summed, (counts[..., None] * each).sum(axis=-2))
        else:
            sure = model.encode_counts(counts, np.full((n, 1, 1), high), np.arange(n), rng)
            np.testing.assert_array_equal(sure[..., 0], counts.sum(axis=-1))
