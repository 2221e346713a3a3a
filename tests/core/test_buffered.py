"""Streams that keep a few tables: the factors are exact, as good as the square root, and small."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from privrl.samplers import buffered
from privrl.samplers.base import stack
from privrl.samplers.buffered import BufferedFactorisation
from privrl.samplers.factorisations import factorise
from privrl.samplers.innovations import Innovations
from privrl.samplers.noisy_counts import NoisyCounts

BITS = 200  # of fixed-point numbers, after the point


def fixed(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * 2**BITS // denominator


def exact_norm(factors: BufferedFactorisation) -> float:
    """The norm of C by whole numbers: so many digits that none of those of a float is wrong."""
    rates = [fixed(rate) for rate in factors.rates.tolist()]
    weights = [fixed(weight) for weight in factors.weights.tolist()]
    one, first, kept, square = 2**BITS, fixed(factors.direct) + sum(weights), [0] * len(rates), 0
    for _ in range(factors.updates):
        now = ((one - sum(kept)) << BITS) // first
        square += now * now
        kept = [
            rate * (y + (weight * now >> BITS)) >> BITS
            for rate, weight, y in zip(rates, weights, kept, strict=True)
        ]
    return math.isqrt(square) / one


@pytest.mark.few(6)
@pytest.mark.parametrize("n", [1, 2, 17, 300, 5000, 100_000])
def test_a_record_s_change_is_never_said_to_be_smaller(n: int) -> None:
    factors = BufferedFactorisation(n)
    exact = exact_norm(factors)
    assert exact < factors.column_norm < exact * (1 + 1e-9)


@pytest.mark.few(12)
@pytest.mark.parametrize("n", [1, 2, 5, 10, 11, 100, 316, 317, 3000, 10_000, 10_001, 100_000])
def test_within_one_percent_of_the_square_root(n: int) -> None:
    factors, steps = BufferedFactorisation(n), np.arange(1, n)
    root = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    wanted = math.sqrt((root**2).sum()) * np.sqrt(np.cumsum(root**2))
    assert factors.deviations.max() < 1.01 * wanted.max()
    assert (factors.deviations**2).mean() < 1.01**2 * (wanted**2).mean()
    buffers = len(factors.rates)
    assert buffers == sum(n > fewer for fewer in (0, 10, 316, 10_000, 316_227))
    if n <= 100:  # the same by the definition that other factorisations have
        found = factorise("square-root", n).deviations
        np.testing.assert_allclose(wanted[:-1], found[:-1])
        assert found[-1] <= wanted[-1]


def test_rates_and_weights_are_as_good_as_a_search_finds() -> None:
    """Nelder and Mead's, from ours: a fifth less of the excess over the square root, at most."""
    from scipy.optimize import minimize  # noqa: PLC0415 # here alone

    n = 300
    factors = factorise("buffered", n)
    root = float((factorise("square-root", n).right[:, 0] ** 2).sum())

    def excess(logs: Any) -> float:
        rates, weights = 1 / (1 + np.exp(logs[:2])), np.exp(logs[2:4])
        left = weights @ rates[:, None] ** np.arange(n)
        left[0] += np.exp(logs[4])
        right = np.empty(n)
        for t in range(n):
            right[t] = (1 - left[t:0:-1] @ right[:t]) / left[0]
        return float(np.linalg.norm(left) * np.linalg.norm(right) / root - 1)

    ours = np.log([*(1 / factors.rates - 1), *factors.weights, factors.direct])
    best = minimize(excess, ours, method="Nelder-Mead", options={"maxfev": 400}).fun
    largest = factors.column_norm * float(np.linalg.norm(factors._left))  # without the last row's
    assert excess(ours) == pytest.approx(largest / root - 1, abs=1e-8)
    assert 0.8 * excess(ours) < best


@pytest.mark.parametrize("n", [1, 2, 3, 10, 40, 500])
@pytest.mark.parametrize("name", ["square-root", "buffered"])
def test_the_last_sum_spends_what_later_columns_leave(name: Any, n: int) -> None:
    """All columns of C have one norm, and no other sum has more noise than without."""
    factors = factorise(name, n)
    left, right = factors.left, factors.right
    np.testing.assert_allclose(left @ right, np.tril(np.ones((n, n))), rtol=0, atol=1e-13 * n)
    np.testing.assert_allclose(np.linalg.norm(right, axis=0), factors.column_norm, rtol=1e-9)
    lengths = np.linalg.norm(left, axis=1)
    np.testing.assert_allclose(factors.deviations, factors.column_norm * lengths, rtol=1e-12)
    np.testing.assert_array_equal(factors.fresh, np.diagonal(left))
    if name == "buffered":
        coefficients = BufferedFactorisation(n)._left
    else:
        coefficients = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, n))])
    alike = factors.column_norm * np.sqrt(np.cumsum(coefficients**2))
    np.testing.assert_allclose(factors.deviations[:-1], alike[:-1], rtol=1e-9)
    assert factors.deviations[-1] <= alike[-1]
    if n == 40:
        gained = {"square-root": 0.731, "buffered": 0.739}[name]
        assert factors.deviations[-1] / alike[-1] == pytest.approx(gained, abs=1e-3)


@pytest.mark.parametrize("n", [1, 2, 17, 300])
def test_no_column_of_the_exact_factor_is_longer_than_is_paid_for(n: int) -> None:
    """By fractions: of the floats that mix and scale the noise, C is what B makes of A."""
    factors = BufferedFactorisation(n)
    rates, weights = ([*map(fixed, each.tolist())] for each in (factors.rates, factors.weights))
    one, first, kept, coefficients = 2**BITS, fixed(factors.direct) + sum(weights), [0] * 9, []
    for _ in range(n):
        now = ((one - sum(kept[: len(rates)])) << BITS) // first
        coefficients.append(now)
        kept = [
            rate * (y + (weight * now >> BITS)) >> BITS
            for rate, weight, y in zip(rates, weights, kept, strict=False)
        ]
    ahead = np.cumsum([fixed(share) for share in factors.shares.tolist()][::-1], dtype=object)[::-1]
    last = [((one - share) << BITS) // fixed(float(factors.fresh[-1])) for share in ahead]
    squares = [c * c for c in coefficients[: n - 1]]
    columns = [sum(squares[: n - 1 - j]) + last[j] ** 2 for j in range(n)]
    exact = math.isqrt(max(columns)) / one
    assert exact < factors.column_norm < exact * (1 + 1e-9)


@pytest.mark.few(9)
@pytest.mark.parametrize("n", [2, 17, 120])
def test_no_column_of_the_square_root_s_exact_factor_is_longer_than_is_paid_for(n: int) -> None:
    """By fractions, as for buffered streams: ``C = B⁻¹ A`` of the floats that are B."""
    factors = factorise("square-root", n)
    left = [[*map(fixed, row)] for row in factors.left.tolist()]
    for j in range(n):
        column: list[int] = []
        for row in left[j:]:
            known = sum(a * c for a, c in zip(row[j:], column, strict=False))
            column.append(((1 << 2 * BITS) - known) // row[j + len(column)])
        exact = math.isqrt(sum(c * c for c in column)) / 2**BITS
        assert exact < factors.column_norm < exact * (1 + 1e-9)


@pytest.mark.slow
def test_the_square_root_s_last_row_is_exact_enough_for_what_is_said_of_rounding() -> None:
    """By floats of 60 digits: off by less than 14n roundings, as `Factorisation.rounding` says."""
    with mp.workdps(60):
        for n in (2, 30, 400):
            c = [mpf(1)]
            for k in range(1, n):
                c.append(c[-1] * (2 * k - 1) / (2 * k))
            row = [mp.sqrt(mp.fsum(x * x for x in c[n - 1 - j :])) for j in range(n)]
            shares = [(row[j + 1] - row[j]) / row[-1] for j in range(n - 1)]
            found = factorise("square-root", n).left[-1]
            for j in range(n - 1):
                exact = mp.fsum(shares[i] * c[i - j] for i in range(j, n - 1))
                assert abs(float(found[j] / exact - 1)) < 14 * n * 2.0**-53
            assert abs(float(found[-1] * row[-1] - 1)) < 14 * n * 2.0**-53


class Kept(Innovations):
    """Fresh noises that are kept."""

    def __init__(self, deviation: float, shape: tuple[int, ...]) -> None:
        super().__init__(np.asarray(deviation), 1.0, shape)
        self.drawn: list[np.ndarray] = []

    def draw(self, factors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.drawn.append(super().draw(factors, rng))
        return self.drawn[-1].copy()


@pytest.mark.parametrize("at_once", [1, 7, 2**14])
def test_noise_is_the_left_factor_times_standard_noise(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many cells are worked on at a time; cell by cell, for every update."""
    monkeypatch.setattr(buffered, "_AT_ONCE", at_once)
    factors, kept = factorise("buffered", 40), Kept(1.0, (3, 5, 2))
    stream, rng = factors.noise(kept), np.random.default_rng(4)
    seen = np.stack([stream.next(rng) for _ in range(40)])
    wanted = np.tensordot(factors.left / factors.fresh, np.concatenate(kept.drawn), axes=1)
    np.testing.assert_allclose(seen[:-1], wanted[:-1], rtol=0, atol=0.51)  # grains
    np.testing.assert_allclose(seen[-1], wanted[-1], rtol=0, atol=1.01)  # of rounded noise, rounded


def test_what_was_released_is_not_written_to_later() -> None:
    sampler, rng = NoisyCounts(sigma=1.0, updates=5, factorisation="buffered"), rng_of(2)
    released = [sampler.update(np.ones((4, 3)), rng).counts for _ in range(5)]
    again, rng = sampler.fresh(), rng_of(2)
    for counts in released:
        np.testing.assert_array_equal(counts, again.update(np.ones((4, 3)), rng).counts)


@pytest.mark.slow
@pytest.mark.parametrize(("updates", "tables"), [(30, 4), (10_000, 5), (100_000, 6)])
def test_memory_does_not_grow_with_updates(updates: int, tables: int) -> None:
    """The sums, a table for each buffer and the last sum's; drawing, what is released and a bit."""
    sampler = NoisyCounts(sigma=1.0, updates=updates, factorisation="buffered")
    sampler.deviations  # noqa: B018 # worked out once for all streams of a length
    counts, rng, kept = np.zeros((3000, 100)), rng_of(0), []
    tracemalloc.start()
    for _ in range(12):
        sampler.update(counts, rng)
        kept.append(tracemalloc.get_traced_memory()[0] / counts.nbytes)
    peak = tracemalloc.get_traced_memory()[1] / counts.nbytes
    tracemalloc.stop()
    assert kept[-1] == pytest.approx(tables, abs=0.03)
    assert kept[0] == pytest.approx(tables, abs=0.03)
    assert tables + 1 < peak < tables + 1.5


def test_more_updates_than_a_matrix_has_room_for() -> None:
    sampler = NoisyCounts(sigma=2.0, updates=50_000, factorisation="buffered")
    assert sampler.deviations.shape == (50_000,)
    with pytest.raises(ValueError, match="n must be at most 1,000,000, got 1,000,001"):
        factorise("buffered", 1_000_001)


def test_factors_are_shared_and_cannot_be_changed() -> None:
    factors = factorise("buffered", 40)
    assert factors is factorise("buffered", 40)
    for numbers in (factors.rates, factors.weights, factors.left):
        with pytest.raises(ValueError, match="read-only"):
            numbers[...] = 0.0


@pytest.mark.parametrize("name", ["square-root", "buffered"])
def test_an_update_that_is_interrupted_is_the_last(
    name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the noise has been drawn, and the counts are in the sums."""
    sampler, rng = NoisyCounts(sigma=1.0, updates=5, factorisation=name), rng_of(0)
    sampler.update(np.ones((4, 3)), rng)
    with monkeypatch.context() as patch:
        patch.setattr("privrl.samplers.noisy_counts.NoisyPosterior", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            sampler.update(np.ones((4, 3)), rng)
    with pytest.raises(ValueError, match="after a draw that failed midway"):
        sampler.update(np.ones((4, 3)), rng)


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_runs_side_by_side_share_factors_and_no_noise() -> None:
    """With one generator a stack's noise is that of one table; each run has its own size."""
    alone = [NoisyCounts(sigma=s, updates=50, factorisation="buffered") for s in (1.0, 64.0)]
    stacked, rng = stack(alone), rng_of(1)
    factors = factorise("buffered", 50)
    size = np.array([1.0, 64.0]) * factors.column_norm / (1 - stacked._rounded((2, 3, 4)))
    kept = Innovations(size, factors.fresh[0], (2, 3, 4))
    again, plain = rng_of(1), factors.noise(kept)
    for _ in range(50):
        noise = stacked.update(np.zeros((2, 3, 4)), rng).counts
        wanted = plain.next(again) * kept.grain[:, None, None]
        np.testing.assert_allclose(noise, wanted, atol=64 * 2.0**-28)
    with pytest.raises(ValueError, match="one factorisation"):
        stack([alone[0].fresh(), NoisyCounts(sigma=1.0, updates=50)])
