"""Which cells are filled: a posterior that is right under its own model, and told by classes."""

from itertools import pairwise

import numpy as np
import pytest

from privrl.agents.sparse_model import chance_filled

N, LARGEST = 200_000, 100.0


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def simulated(part, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which cells are filled, and their noisy counts in deviations; ``part`` of each cell.

    Amounts are log-uniform from half a deviation up: half a deviation more than they are is so.
    """
    numbers = rng(seed)
    filled = numbers.random(N) < part
    amount = np.exp(numbers.uniform(0, np.log(LARGEST + 0.5), N)) - 0.5
    return filled, np.where(filled, amount, 0.0) + numbers.standard_normal(N)


def worst_miss(chance: np.ndarray, filled: np.ndarray, z: np.ndarray) -> float:
    """Return by how many standard errors the part that is filled is not what chances said.

    In ten bins of positive counts, with 50 cells at least; what a bin's width in deviations, an
    eighth, and the weight's own error can do to a chance is left off: a fiftieth of it.
    """
    worst = 0.0
    for low, high in pairwise(EDGES):
        here = (chance >= low) & (chance < high) & (z > 0.01)
        if here.sum() >= 50:
            said, seen = chance[here].mean(), filled[here].mean()
            error = np.sqrt(max(said * (1 - said), 1e-4) / here.sum())
            worst = max(worst, (abs(seen - said) - 0.02 * min(said, 1 - said)) / error)
    return worst


EDGES = [0, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 1.01]


@pytest.mark.parametrize("part", [0.3, 0.03, 0.003])
def test_chances_are_right_under_their_own_model(part: float) -> None:
    """200,000 cells: within 5 standard errors in each of ten bins, of 3 runs.

    The power check: noise that is a fifth larger than said is caught each time.
    """
    for seed in range(3):
        filled, z = simulated(part, seed)
        assert worst_miss(chance_filled(z), filled, z) < 5
        assert worst_miss(chance_filled(1.2 * z), filled, z) > 5


def test_how_many_are_filled_is_learned() -> None:
    """The sum of chances is the number of those that are filled, but for what noise makes negative.

    Within a tenth; a chance that is not learned would be off by factors.
    """
    for part in (0.5, 0.1, 0.01):
        filled, z = simulated(part, 5)
        wanted = filled[z > 0].sum()
        assert abs(chance_filled(z).sum() - wanted) < 0.1 * wanted


def test_cells_are_judged_by_their_class() -> None:
    """One in two of the first class is filled, one in 2000 of the other.

    Right in each, which chances without classes are not, and with less surprise.
    """
    classes = (np.arange(N) % 2).astype(np.int16)
    filled, z = simulated(np.where(classes == 0, 0.5, 0.0005), 6)
    known, unknown = chance_filled(z, classes, 2), chance_filled(z)
    for each in (0, 1):
        mine = classes == each
        assert worst_miss(known[mine], filled[mine], z[mine]) < 5
        assert worst_miss(unknown[mine], filled[mine], z[mine]) > 5

    def surprise(chance: np.ndarray) -> float:
        chance = np.clip(chance[z > 0].astype(np.float64), 1e-9, 1 - 1e-7)
        return float(-np.log(np.where(filled[z > 0], chance, 1 - chance)).mean())

    assert surprise(known) < 0.9 * surprise(unknown)


def test_a_class_of_few_is_judged_by_all() -> None:
    """A single cell of two deviations is nothing special because it is alone; nor is no cell."""
    filled, z = simulated(0.01, 7)
    z[:1] = 2.0
    classes = np.where(np.arange(N) == 0, 3, 0)
    alone, together = chance_filled(z, classes, 5)[0], chance_filled(z)[0]
    assert filled.any()
    assert 0.5 < alone / together < 2.5


@pytest.mark.parametrize("seed", range(10))
def test_an_empty_table_has_hardly_a_filled_cell(seed: int) -> None:
    """Of 50,000 cells of noise, 34 of which exceed 3 deviations on either side of 0."""
    chance = chance_filled(rng(seed).standard_normal((50, 20, 50)))
    assert chance.shape == (50, 20, 50)
    assert chance.sum() < 50
    assert (chance > 0.5).sum() <= 2


def test_a_table_may_be_filled_everywhere_or_have_no_cell() -> None:
    full = chance_filled(10 + rng().standard_normal(1000))
    assert full.min() > 0.999
    assert chance_filled(np.zeros((0, 3))).shape == (0, 3)
    assert chance_filled(np.full(1000, -3.0)).max() == 0


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 1.0])
def test_the_more_the_likelier(part: float) -> None:
    """Chances are within [0, 1], 0 below 0, and never fall with the count."""
    _, z = simulated(part, 8)
    z[:6] = -1e9, -7.0, -1e-3, 12.0, 1e5, 1e9
    z = np.sort(z)
    chance = chance_filled(z)
    assert (np.diff(chance) >= 0).all()
    assert (chance[z < 0] == 0).all()
    assert 0 < chance[np.searchsorted(z, 0.01)] <= 1
    assert (chance[z >= 12] == 1).all()


@pytest.mark.parametrize("count", [1e8, 1e10, 1e15, 1e30])
def test_counts_as_large_as_one_likes_are_filled(count: float) -> None:
    z = np.concatenate([rng().standard_normal(1000), [count]]).astype(np.float32)
    assert chance_filled(z)[-1] == 1
    assert chance_filled(-z)[-1] == 0


@pytest.mark.parametrize("count", [0.0, -1e-30, -1e-9, -2e-7])
def test_a_cell_without_a_positive_count_is_never_filled(count: float) -> None:
    """Not even where all others are filled; a negative count would end the sampling of a model."""
    z = (10 + rng().standard_normal(1000)).astype(np.float32)
    z[0] = count
    chance = chance_filled(z)
    assert chance[0] == 0
    assert chance[1:].min() > 0.999
