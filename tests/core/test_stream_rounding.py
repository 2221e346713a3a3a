"""What rounding adds to the distance of neighbouring streams is no more than is said, and paid for.

Given what was released, a neighbour's fresh noises are found one after the other, by the very
code that mixes them. Their distance from the first ones, in deviations, is what privacy rests on.
"""

import copy
import math
from typing import Any

import numpy as np
import pytest

from privrl.accounting import RdpAccountant
from privrl.costs.relations import ReplaceRecord
from privrl.samplers import NoisyCounts, buffered, draw, factorisations, innovations
from privrl.samplers.factorisations import LocalNoise, factorise
from privrl.samplers.innovations import LARGEST_DEVIATION, Innovations

Array = np.ndarray
CELLS, UPDATES = 400, 60
ROUNDED = ["square-root", "optimal", "buffered"]
WHOLE = ["tree", "independent"]


class Given(Innovations):
    """Fresh noises that are handed in, a table an update."""

    def __init__(self, factors: Any, deviation: float = 1.0) -> None:
        super().__init__(np.asarray(deviation), float(factors.fresh.max()), (CELLS,))
        self.table = np.zeros(CELLS)

    def draw(self, factors: Array, rng: np.random.Generator) -> Array:
        assert len(factors) == 1
        return self.table[None].copy()


def mixed(noise: Any, table: Array) -> Array:
    """The noise in the next sum, if this is the fresh one."""
    noise._innovations.table = table
    return noise.next(np.random.default_rng())


def distance(factors: Any, moved: Array, deviation: float = 1.0) -> Array:
    """How far the neighbour's fresh noises are from the first ones, in each cell.

    ``moved``, in grains, is what the neighbour's first batch has less.
    """
    first, other = (factors.noise(Given(factors, deviation)) for _ in range(2))
    grain = float(first._innovations.grain)
    square, rng = np.zeros(CELLS), np.random.default_rng(1)
    for t in range(UPDATES):
        size = deviation * factors.fresh[t] / grain
        fresh = np.rint(size * rng.standard_normal(CELLS))
        released = mixed(first, fresh)
        older = mixed(copy.deepcopy(other), np.zeros(CELLS))
        neighbours = released + moved - older
        np.testing.assert_array_equal(mixed(other, neighbours), released + moved)
        square += ((neighbours - fresh) / size) ** 2
    return np.sqrt(square)


@pytest.fixture
def one_update_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factorisations, "_MIXED_AT_ONCE", 1)
    monkeypatch.setattr(buffered, "_AT_ONCE", 1 << 9)


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_adds_no_more_than_it_is_said_to(
    name: Any, one_update_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With grains so coarse, 2^-6 of the noise, that it shows; and a change of three grains."""
    for module in (factorisations, buffered, innovations):
        monkeypatch.setattr(module, "FINENESS", 2.0**-6)
    monkeypatch.setattr(innovations, "GRID", 1.0)
    factors = factorise.__wrapped__(name, UPDATES)
    grain = float(Given(factors).grain)
    seen = distance(factors, np.full(CELLS, 3.0))
    exact = 3 * grain * float(np.linalg.norm(factors.right[:, 0]))
    assert seen.max() > exact * 1.1
    assert seen.max() <= exact + factors.rounding
    assert seen.max() - exact > factors.rounding / 40  # and it is not far from what it can be


@pytest.mark.few(9)
@pytest.mark.parametrize("name", [*ROUNDED, *WHOLE, LocalNoise([3, 40, *[7] * (UPDATES - 2)])])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 1000.0])
def test_neighbours_are_no_farther_apart_than_is_paid_for(
    name: Any, sigma: float, one_update_at_once: None
) -> None:
    """With the noise that a stream has: one record, of norm √2, in all of the cells at once."""
    sampler = NoisyCounts(
        sigma=sigma, updates=UPDATES, relation=ReplaceRecord(), factorisation=name
    )
    factors = factorise(name, UPDATES)
    lost = float(sampler._rounded((CELLS,)))
    deviation = sigma * factors.column_norm / (1 - lost)
    grain = float(Given(factors, deviation).grain)
    amount = math.sqrt(2 / CELLS)  # each cell's share, here a whole number of grains
    seen = distance(factors, np.full(CELLS, np.floor(amount / grain)), deviation)
    assert np.linalg.norm(seen) <= math.sqrt(2) / sigma
    if not isinstance(name, LocalNoise):  # by whose first batch three users' noise is paid for
        assert np.linalg.norm(seen) > 0.999 * math.sqrt(2) / sigma


@pytest.mark.parametrize("name", WHOLE)
def test_whole_multiples_are_not_rounded(name: Any, one_update_at_once: None) -> None:
    factors = factorise(name, UPDATES)
    assert factors.rounding == 0
    moved = np.full(CELLS, 5.0)
    grain = float(Given(factors).grain)
    exact = 5 * grain * float(np.linalg.norm(factors.right[:, 0]))
    np.testing.assert_allclose(distance(factors, moved), exact, rtol=1e-13)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "n", "most"),
    [("square-root", 300, 1e-9), ("square-root", 1000, 8e-9), ("optimal", 300, 2e-9),
     ("buffered", 300, 1e-10), ("buffered", 10_000, 3e-9), ("buffered", 100_000, 3e-8),
     ("buffered", 1_000_000, 4e-7)],
)  # fmt: skip
def test_rounding_is_as_small_as_the_page_says(name: Any, n: int, most: float) -> None:
    """docs/finite-precision.md."""
    assert most / 3 < factorise(name, n).rounding < most


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("optimal", 200), ("square-root", 1500)])
def test_matrices_multiply_to_prefix_sums_within_what_the_norm_is_raised_by(
    name: Any, n: int
) -> None:
    factors = factorise(name, n)
    off = np.abs(factors.left @ factors.right - np.tril(np.ones((n, n)))).max()
    inverse = np.abs(np.diff(factors.right, axis=1, append=0.0))
    norm = math.sqrt(inverse.sum(0).max() * inverse.sum(1).max())
    assert norm * math.sqrt(n) * off < factorisations._ROUNDED_AWAY * factors.column_norm


@pytest.mark.slow
def test_noise_that_rounding_would_drown_is_refused() -> None:
    """Before anything is charged; by public facts alone."""
    accountant, rng = RdpAccountant(), np.random.default_rng(0)
    sampler = NoisyCounts(sigma=1e5, updates=1_000_000, factorisation="buffered")
    with pytest.raises(ValueError, match="sigma must be smaller for so many updates and cells"):
        draw(accountant, [(sampler, np.zeros((200, 4, 200)))], rng)
    assert accountant.relation is None
    draw(accountant, [(sampler, np.zeros((2, 2)))], rng)
    largest = LARGEST_DEVIATION / factorise("independent", 1).column_norm
    NoisyCounts(sigma=largest, updates=1, factorisation="independent")
    with pytest.raises(ValueError, match=r"sigma must be at most 5\.37e"):
        NoisyCounts(sigma=largest * 1.01, updates=1, factorisation="independent")


def test_runs_of_many_sizes_get_their_own() -> None:
    """Deviations of 50,000 cells for each run, factor and side of the loops, within 2 %."""
    loops = np.arange(20_000) < 10_000
    fresh = Innovations(np.array([1.0, 300.0, 1.0]), 4.0, (3, 20_000), loops)
    drawn = fresh.draw(np.array([1.0, 0.0, 4.0]), np.random.default_rng(2))
    assert (drawn == np.rint(drawn)).all()
    for t, factor in enumerate((1.0, 0.0, 4.0)):
        for run, size in enumerate((1.0, 300.0, 1.0)):
            noise = drawn[t, run] * fresh.grain[run]
            for some, louder in ((loops, math.sqrt(2)), (~loops, 1.0)):
                wanted = factor * size * louder
                assert noise[some].std() == pytest.approx(wanted, rel=0.04)
    assert fresh.grain[0] == fresh.grain[2] == 2.0**-38
    assert abs(np.corrcoef(drawn[0, 0], drawn[0, 2])[0, 1]) < 0.05


@pytest.mark.parametrize("multiplications", [1, 200, 10**6])
def test_a_product_by_columns_is_the_product(
    multiplications: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factorisations, "_ONE_THREAD", multiplications)
    rng = np.random.default_rng(0)
    left, right = (np.rint(rng.normal(0, 100, shape)) for shape in ((5, 7), (7, 3, 11)))
    product = factorisations._product(left, right)  # of whole numbers, so that nothing is rounded
    np.testing.assert_array_equal(product, np.einsum("ij,jkl->ikl", left, right))
