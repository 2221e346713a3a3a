"""By how much one record changes a gradient: against all pairs of records there are."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from scipy import sparse

from privrl.mechanisms import SumsMechanism
from privrl.models.logistic_regression.scores import shortened_sums
from privrl.models.logistic_regression.sensitivity import largest_change
from privrl.models.logistic_regression.slopes import shortened_products
from privrl.models.logistic_regression.training import scaled_sums


class World:
    """Weights, scales and targets of a few small features, and every record there can be."""

    def __init__(self, seed: int, longest: float | None = None) -> None:
        rng = np.random.default_rng(seed)
        n_features, n_classes = rng.integers(1, 4), rng.integers(2, 5)
        sizes = rng.integers(2, 4, n_features)
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        d = int(sizes.sum())
        self.weights = rng.normal(size=(d, n_classes)) * rng.choice([0, 0.01, 0.3, 1, 4, 40])
        self.intercept = rng.normal(size=n_classes) * rng.choice([0, 0.5, 2])
        self.longest = longest or float(rng.choice([0.1, 0.5, 1, math.inf]))
        self.feature_roots = (
            rng.integers(4, 17, n_features) / 16 if seed % 2 else np.ones(n_features)
        )
        self.roots = np.append(np.repeat(self.feature_roots, sizes), 1.0)
        values = list(itertools.product(*map(range, sizes)))
        self.records = np.array([(*v, y) for v in values for y in range(n_classes)])

    @property
    def change(self) -> float:
        return largest_change(
            self.weights, self.intercept, self.starts, np.append(1.0, self.feature_roots**2),
            longest=self.longest,
        )  # fmt: skip

    def residuals(self, records: np.ndarray) -> np.ndarray:
        logits = self.weights[records[:, :-1] + self.starts].sum(axis=1) + self.intercept
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        residuals = chances - np.eye(chances.shape[1])[records[:, -1]]
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        return residuals * np.minimum(1, self.longest / np.maximum(lengths, 1e-12))

    def ones(self, records: np.ndarray) -> sparse.csr_array:
        n, d = len(records), len(self.weights)
        dense = np.zeros((n, d + 1))
        dense[np.arange(n)[:, None], records[:, :-1] + self.starts] = 1
        dense[:, d] = 1
        return sparse.csr_array(dense)

    def parts(self) -> np.ndarray:
        """What each record adds to a sum of gradients, shape (n, (d + 1) J), without any code of
        the library."""
        rows = self.ones(self.records).toarray() * self.roots
        return (rows[:, :, None] * self.residuals(self.records)[:, None]).reshape(len(rows), -1)


def _farthest(parts: np.ndarray) -> float:
    return max(float(np.linalg.norm(parts - part, axis=1).max()) for part in parts)


@pytest.mark.parametrize("block", range(6))
def test_no_pair_of_records_is_farther_apart(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        world = World(seed)
        assert _farthest(world.parts()) <= world.change, seed


@pytest.mark.slow
def test_the_bound_is_nearly_met() -> None:
    """Of 300 worlds, half are within an eighth of it and some within a thousandth.

    No residual is shortened.
    """
    worlds = [World(seed, math.inf) for seed in range(300)]
    shares = [(_farthest(world.parts()) / world.change) for world in worlds]
    assert np.median(shares) > 0.85
    assert max(shares) > 0.999


def test_at_no_weights_it_is_known() -> None:
    """Then p is the intercept's; the farthest two differ in everything."""
    for n_features, longest in ((1, math.inf), (5, math.inf), (5, 0.5)):
        sizes = np.full(n_features, 2)
        change = largest_change(
            np.zeros((sizes.sum(), 2)), np.zeros(2), np.arange(n_features) * 2,
            np.ones(n_features + 1), longest=longest,
        )  # fmt: skip
        # Each residual is (1/2, −1/2), or shorter: two of opposite classes with the same values.
        by_class = 4 * min(longest, math.sqrt(0.5)) ** 2 * (n_features + 1)
        assert change == pytest.approx(math.sqrt(by_class), rel=0.05)
        assert change >= math.sqrt(by_class)


@pytest.mark.few(21)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_released_changes_by_no_more_than_the_relation_says(seed: int) -> None:
    """Rounded sums, over all pairs: √2, as of a record replaced in a table of counts."""
    world = World(seed)
    residuals, ones = world.residuals(world.records), world.ones(world.records)
    parts, factor = [], 0.0
    for i in range(len(residuals)):
        each, factor = scaled_sums(
            ones[[i]].T.tocsr(), residuals[[i]], world.roots, world.change, len(world.starts)
        )
        SumsMechanism(sigma=1e5).check(each)
        parts.append(each.ravel())
    assert _farthest(np.array(parts)) <= math.sqrt(2)
    whole, _ = scaled_sums(
        ones.T.tocsr(), residuals, world.roots, world.change, len(world.starts)
    )  # fmt: skip
    np.testing.assert_array_equal(whole.ravel(), np.sum(parts, axis=0))  # sums are exact
    gradient = (ones.T @ residuals) * world.roots[:, None]
    np.testing.assert_allclose(whole / factor, gradient, atol=1e-4 * len(residuals))


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_features_weights_change_by_no_more_than_the_relation_says(seed: int) -> None:
    """Shortened and rounded, over all pairs of records: √2 at the most, and nearly that."""
    world = World(seed)
    residuals, ends = world.residuals(world.records), np.append(world.starts[1:], None)
    said = np.stack([
        world.weights[start:end][column]
        for start, end, column in zip(world.starts, ends, world.records.T, strict=False)
    ])  # fmt: skip
    parts = np.concatenate([np.einsum("knj,nj->kn", said, residuals), residuals.T])
    lengths = np.linalg.norm(parts, axis=0)
    for length in (0.3 * lengths.min(), np.median(lengths), 1.1 * lengths.max()):
        alone = np.array([shortened_sums(part[:, None], length)[0] for part in parts.T])
        SumsMechanism(sigma=1e5).check(alone)
        assert _farthest(alone) <= math.sqrt(2)
        whole, factor = shortened_sums(parts, length)
        np.testing.assert_array_equal(whole, alone.sum(axis=0))  # sums are exact
        by_hand = (parts * np.minimum(1, length / lengths)).sum(axis=1)
        np.testing.assert_allclose(whole / factor, by_hand, atol=1e-4 * length * len(lengths))


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_slopes_change_by_no_more_than_the_relation_says(seed: int) -> None:
    """Shortened and rounded, over all pairs of records: √2 at the most, and they are exact."""
    world = World(seed)
    places = [np.array([-1.0, 1.0, 0.25])[column] for column in world.records.T[:-1]]
    rows = np.column_stack([*places, np.full(len(world.records), 0.5)])
    longest = math.sqrt(len(places) + 0.25)
    residuals = world.residuals(world.records)
    whole = np.linalg.norm(residuals, axis=1) * np.linalg.norm(rows, axis=1)
    assert np.linalg.norm(rows, axis=1).max() <= longest
    for length in (max(0.3 * whole.min(), 1e-3), np.median(whole) + 1e-3, 1.1 * whole.max()):
        each = [
            shortened_products(rows[[i]], residuals[[i]], length, longest)[0].ravel()
            for i in range(len(rows))
        ]
        SumsMechanism(sigma=1e5).check(np.array(each))
        assert _farthest(np.array(each)) <= math.sqrt(2)
        found, factor = shortened_products(rows, residuals, length, longest)
        np.testing.assert_array_equal(found.ravel(), np.sum(each, axis=0))  # sums are exact
        shorter = residuals * np.minimum(1, length / np.maximum(whole, 1e-12))[:, None]
        np.testing.assert_allclose(found / factor, rows.T @ shorter, atol=1e-3 * length * len(rows))


def test_opposite_residuals_change_sums_of_slopes_by_just_that() -> None:
    row = np.array([[1.0, 0.5]])
    first, second = (
        shortened_products(row, np.array([[r, -r]]), 0.5, math.sqrt(1.25))[0] for r in (0.9, -0.9)
    )
    assert math.sqrt(2) * (1 - 1e-3) < np.linalg.norm(first - second) <= math.sqrt(2)


def test_two_opposite_records_change_it_by_just_that() -> None:
    parts = np.array([[3.0, -8.0], [4.0, -6.0]])
    (first, second), lengths = (
        [shortened_sums(parts[:, [k]] * sign, 5.0)[0] for k, sign in ((0, 1), (0, -1))],
        [float(np.linalg.norm(shortened_sums(parts[:, [k]], 5.0)[0])) for k in range(2)],
    )
    assert math.sqrt(2) * (1 - 1e-4) < np.linalg.norm(first - second) <= math.sqrt(2)
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)  # of 5 and of 10, both are 5


@pytest.mark.parametrize("data", [[0.5, 2.0**-21], [np.nan, 1.0], [2.0**34, 0.0], [np.inf, 0.0]])
def test_sums_off_the_grain_or_too_large_are_refused(data: list[float]) -> None:
    with pytest.raises(ValueError, match="data must be"):
        SumsMechanism(sigma=1.0).release(data, np.random.default_rng(0))


def test_noise_of_sums_can_be_drawn() -> None:
    with pytest.raises(ValueError, match="sigma must be"):
        SumsMechanism(sigma=2.0**27)
    drawn = SumsMechanism(sigma=2.0**26).release(np.zeros(4000), np.random.default_rng(0))
    # Of 4000 draws the standard deviation is within 6 % but once in 1e7.
    assert drawn.std() == pytest.approx(2.0**26, rel=0.06)
    np.testing.assert_array_equal(drawn, np.rint(drawn * 2.0**20) / 2.0**20)
    assert (drawn % 2.0**-19).any()  # and on no wider grid: sums may be any multiples
