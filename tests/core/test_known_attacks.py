"""Published attacks on the noise itself: each wins against a naive version, and here it does not.

An attack is an event that is to tell two neighbouring counts apart. Against the naive version it
happens nearly always under one and hardly ever under the other. Against ours its frequencies
under both are what the guarantee allows; the limit on differences has a false-alarm rate of 1e-6
(five deviations of a difference of two frequencies, for a law that is the same but for epsilon).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privrl.costs.relations import AddRemoveRecord, ReplaceRecord
from privrl.mechanisms import GaussianMechanism, LaplaceMechanism
from privrl.numerics.discrete_gaussian import discrete_gaussian
from privrl.numerics.exact_dirichlet import posterior_rows, rounded_log_gammas
from privrl.offline.persons import Added, full, pay
from privrl.samplers import NoisyCounts

Array = np.ndarray
N = 20_000
LIMIT = 5 * math.sqrt(0.5 / N)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def laplace(count: float) -> Array:
    return LaplaceMechanism(scale=20.0, relation=AddRemoveRecord()).release(
        np.full(N, count), rng(1)
    )


def gaussian(count: float) -> Array:
    return GaussianMechanism(sigma=20.0).release(np.full(N, count), rng(2))


def stream(name: Any) -> Callable[[float], Array]:
    def released(count: float) -> Array:
        sampler = NoisyCounts(sigma=20.0, updates=3, relation=ReplaceRecord(), factorisation=name)
        generator = rng(3)
        first = sampler.update(np.full(N, count), generator).counts
        sampler.update(np.zeros(N), generator)
        last = sampler.update(np.zeros(N), generator).counts
        return np.concatenate([first[: N // 2], last[: N // 2]])

    return released


OURS = {
    "laplace": laplace,
    "gaussian": gaussian,
    **{name: stream(name) for name in ("square-root", "optimal", "tree", "buffered")},
}
each_of_ours = pytest.mark.parametrize("ours", OURS.values(), ids=OURS)


# Mironov, *On significance of the least significant bits for differential privacy* (2012) ---------


def by_inversion(count: float) -> Array:
    """Textbook Laplace noise: the logarithm of a uniform float, scaled, with a sign."""
    generator = rng(4)
    sign = np.where(generator.random(N) < 0.5, -1.0, 1.0)
    return count + sign * (20.0 * np.log(1 - generator.random(N)))


def is_reachable(y: Array) -> Array:
    """Whether textbook Laplace noise around 0 could be these numbers, to the last bit."""
    places = np.rint(np.exp(-np.abs(y) / 20.0) * 2.0**53)
    near = places[:, None] + np.arange(-40, 41)
    u = np.clip(near, 1, 2.0**53) / 2.0**53
    return (np.abs(20.0 * np.log(u)) == np.abs(y)[:, None]).any(axis=1)


def test_low_bits_of_laplace_noise_tell_its_centre() -> None:
    assert is_reachable(by_inversion(0.0)).mean() > 0.999
    assert is_reachable(by_inversion(1.0)).mean() < 0.7


@each_of_ours
def test_low_bits_of_ours_tell_nothing(ours: Callable[[float], Array]) -> None:
    """Multiples of one grid under both; the attack's event has the same frequency."""
    one, other = is_reachable(ours(0.0)).mean(), is_reachable(ours(1.0)).mean()
    assert abs(one - other) < LIMIT + 1 / 20
    assert max(one, other) < 0.7


# Jin, McMurtry, Rubinstein, Ohrimenko, *Are we there yet? Timing and floating-point attacks on
# differential privacy systems* (2022) -------------------------------------------------------------


def is_finer_than_one(y: Array) -> Array:
    """Whether a number near 0 has bits that no sum of 1 and something else has."""
    return (np.abs(y) < 0.25) & (y * 2.0**54 != np.rint(y * 2.0**54))


def test_gaussian_noise_in_floats_has_finer_numbers_near_its_centre() -> None:
    """By a ziggurat, which is NumPy's: never under one neighbour, mostly under the other."""
    generator = rng(5)
    near, far = (c + 20.0 * generator.standard_normal(20 * N) for c in (0.0, 1.0))
    close = np.abs(near) < 0.25
    assert is_finer_than_one(near)[close].mean() > 0.5
    assert not is_finer_than_one(far).any()


@each_of_ours
def test_ours_is_on_one_grid_wherever_it_is(ours: Callable[[float], Array]) -> None:
    for count in (0.0, 1.0):
        y = ours(count)
        assert (np.abs(y) < 0.25).sum() > 50  # there are such numbers
        assert not is_finer_than_one(y).any()


def words(draw: Callable[[np.random.Generator], object], seed: int) -> int:
    """How many random words of 64 bits a draw takes: its time, without the clock's noise."""
    counted = np.random.Philox(seed)
    draw(np.random.Generator(counted))
    state = counted.state
    blocks = int(state["state"]["counter"][0])
    return 4 * blocks - 4 + int(state["buffer_pos"]) if blocks else 0


def one_by_one(generator: np.random.Generator) -> int:
    """A geometric sampler that counts its coins, as the attacked libraries have."""
    count = 0
    while generator.random() < math.exp(-1 / 20):
        count += 1
    return count


@pytest.mark.slow
def test_time_of_a_loop_tells_its_noise_and_that_of_a_table_does_not() -> None:
    """Correlation of a draw's size with the words it takes, over 2,000 draws of one number."""
    naive = [(one_by_one(rng_of(s)), words(one_by_one, s)) for s in range(500)]
    assert np.corrcoef(np.array(naive).T)[0, 1] > 0.99

    def ours(generator: np.random.Generator) -> int:
        return abs(int(discrete_gaussian(2.0**40, 1, generator)[0]))

    seen = np.array([(ours(rng_of(s)), words(ours, s)) for s in range(2000)])
    assert (seen[:, 1] == seen[0, 1]).mean() > 0.999


def rng_of(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


# Casacuberta, Shoemate, Vadhan, Wagaman, *Widespread underestimation of sensitivity in
# differentially private libraries and how to fix it* (2022) ---------------------------------------


def test_rounding_doubles_the_sensitivity_of_a_floating_point_sum() -> None:
    """One count of 1 more moves the sum by 2; here such totals and fractions are refused."""

    def summed(start: float) -> float:
        for _ in range(10):
            start += 0.5
        return start

    assert summed(2.0**53 - 1) - summed(2.0**53 - 2) == 2
    for batches in ([[2.0**53 - 1, 0.0]], [[2.0**37 - 1, 0.0], [1.0, 0.0]], [[2.0**-17, 0.0]]):
        sampler, generator = NoisyCounts(sigma=1.0, updates=3), rng()
        for batch in batches[:-1]:
            sampler.update(np.array(batch), generator)
        with pytest.raises(ValueError, match=r"counts must (sum to less|be multiples)"):
            sampler.update(np.array(batches[-1]), generator)
    with pytest.raises(ValueError, match="data must be counts"):
        GaussianMechanism(sigma=1.0).release([2.0**53 + 2, 0.0], rng())


def test_the_order_of_a_floating_point_sum_is_seen_in_it() -> None:
    """Thousands of amounts of 0.1 and one large: ours are the same in every order."""
    amounts = np.concatenate([[1e9], np.full(4000, 0.1)])
    assert float(np.add.reduce(amounts.tolist())) != sum(amounts[::-1].tolist())
    crowd: Any = SimpleNamespace(n_persons=4001)  # all that is asked of a log here
    summed = []
    for order in (slice(None), slice(None, None, -1)):
        adds = Added(np.arange(4001)[order], np.zeros(4001, int), amounts[order], unit=0.3)
        summed.append(pay(crowd, full(crowd, "sums"), lambda *_, a=adds: a, 1, "sums")[0])
    np.testing.assert_array_equal(*summed)


def test_whole_numbers_that_overflow() -> None:
    """One record more takes a sum of 32 bits round the clock; ours are floats below 2^37."""
    ones = np.full(2, 2**30, np.int32)
    more = ones.sum(dtype=np.int32, initial=0)
    assert int(more) - int((ones - np.array([0, 1], np.int32)).sum(dtype=np.int32)) < -(2**31)
    sampler, generator = NoisyCounts(sigma=1.0, updates=2, relation=ReplaceRecord()), rng(7)
    sampler.update(np.array([2.0**30, 0.0]), generator)
    assert sampler.update(np.array([2.0**30, 0.0]), generator).counts[0] > 2**31 - 100


# Holohan and Braghin, *Secure random sampling in differential privacy* (2021) ---------------------


def box_muller(counts: tuple[float, float]) -> Array:
    """Pairs of Gaussians from pairs of uniform numbers, of 32 bits that nobody can predict."""
    u = (rng(8).integers(1, 2**32, (N, 2))) / 2.0**32
    r = np.sqrt(-2 * np.log(u[:, 0]))
    angle = 2 * np.pi * u[:, 1]
    return counts + 20.0 * np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)


def comes_from_bits(pairs: Array, counts: tuple[float, float]) -> Array:
    """Whether noise around these counts is that of two uniform numbers of 32 bits."""
    z = (pairs - counts) / 20.0
    u = np.exp(-(z**2).sum(axis=1) / 2) * 2.0**32
    turn = np.arctan2(z[:, 1], z[:, 0]) / (2 * np.pi) % 1 * 2.0**32
    return (np.abs(u - np.rint(u)) < 1e-4) & (np.abs(turn - np.rint(turn)) < 1e-4)


def test_pairs_of_secure_uniform_numbers_give_their_counts_away() -> None:
    """However secure the bits are: of two neighbours one is possible."""
    pairs = box_muller((1.0, 0.0))
    assert comes_from_bits(pairs, (1.0, 0.0)).mean() > 0.99
    assert comes_from_bits(pairs, (0.0, 1.0)).mean() < 0.01


@each_of_ours
def test_pairs_of_ours_come_from_neither(ours: Callable[[float], Array]) -> None:
    pairs = ours(1.0).reshape(-1, 2)
    for counts in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0)):
        assert comes_from_bits(pairs, counts).mean() < 0.01


# The same of Dirichlet rows: low bits of a gamma draw tell its shape ------------------------------


def is_a_gamma(y: Array, shape: float) -> Array:
    """Whether NumPy's way (Marsaglia and Tsang's), a float's cube times another, leads here."""
    d = shape - 1 / 3
    root = np.cbrt(y / d)
    near = root[:, None] + np.spacing(root)[:, None] * np.arange(-4, 5)
    return (d * (near * near * near) == y[:, None]).any(axis=1)


def test_low_bits_of_a_gamma_tell_its_shape_and_ours_are_rounded() -> None:
    """NumPy's are reached under their own shape, and under another's one time in three."""
    naive = rng(9).standard_gamma(2.0, N)
    assert is_a_gamma(naive, 2.0).mean() > 0.99
    assert is_a_gamma(naive, 2.5).mean() < 0.5
    one, other = (
        np.exp(rounded_log_gammas(np.full(N, a), lambda _, a=a: Fraction(a), rng(9)))
        for a in (2.0, 2.5)
    )
    for shape in (2.0, 2.5):
        assert abs(is_a_gamma(one, shape).mean() - is_a_gamma(other, shape).mean()) < LIMIT


def test_rows_are_functions_of_rounded_logarithms() -> None:
    rows = posterior_rows(np.zeros((N, 2)), np.asarray(1.0), np.asarray(2.0), rng(9))
    steps = (np.log(rows[:, 0]) - np.log(rows[:, 1])) * 2.0**30
    assert np.abs(steps - np.rint(steps)).max() < 1e-4
