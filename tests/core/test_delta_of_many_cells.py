"""Privacy profile of changes of more than one pair of cells, by a second, different method.

The loss of a change is a sum of independent losses, each that of log(X) for a gamma X,
whose density is known. Here the densities of all cells but one are convolved by the
trapezoid rule, which converges exponentially for them, in logarithms; the last cell, one
that loses, enters by its exact profile. No grid point is rounded to any side.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from oracle_mpmath import pair_delta, two_pairs_delta
from scipy import special

from privrl.costs.base import Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost
from privrl.costs.profiles import Factor, Shape
from privrl.costs.relations import Relation, ReplaceEpisode, ReplaceRecord, ReplaceStep
from privrl.numerics.convolution import ProductProfile

Array = np.ndarray
CHANGES = [(1, -1, 1, -1), (-2, 1, 1), (2, -1, -1)]
SETTINGS = [(0.1, 0.7), (0.01, 10.0), (5.0, 1.0)]
DELTAS = [0.1, 1e-5, 1e-120]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("last", [100, 150])
def test_mass_beyond_a_grid_counts_as_infinite(shape: Shape, last: int) -> None:
    """A grid that ends in the upper tail of the losses: none of the mass is lost."""
    masses, beyond = Factor(shape, alpha=2.0, shift=1.0).grid_masses(0.01, -500, last)
    assert beyond > 1e-3
    assert masses.sum() + beyond >= 1 - 1e-11


@dataclass(frozen=True)
class Catastrophe:
    """A pair that tells all with a probability, and nothing otherwise."""

    failure: float

    def rdp(self, orders: Array) -> Array:
        return np.full_like(orders, np.inf)

    def log_delta(self, epsilon: Array) -> Array:
        return np.full_like(epsilon, np.log(self.failure))

    def loss_range(self, level: float) -> tuple[float, float]:
        return -1.0, 1.0

    def grid_masses(self, step: float, first: int, last: int) -> tuple[Array, float]:
        masses = np.zeros(last - first + 1)
        masses[-first] = 1 - self.failure
        return masses, self.failure


def test_infinite_losses_add_up() -> None:
    """Three failures of 1e-3: delta is at least the chance of any, at every epsilon."""
    pairs = Counter({Catastrophe(1e-3): 2, Catastrophe(1e-3 + 1e-12): 1})
    profile = ProductProfile(pairs, np.log(1e-20))
    delta = np.exp(profile.log_delta(np.array([0.0, 0.5, 20.0])))
    assert (delta >= 1 - (1 - 1e-3) ** 3).all()
    assert (delta <= 3.01e-3).all()


def log_density_of_loss(loss: Array, shift: float, alpha: float, gains: bool) -> Array:
    """Log-density of the loss of one cell, when the data are those of the first neighbour."""
    c = special.gammaln(alpha + shift) - special.gammaln(alpha)
    log_x = (loss + c) / shift if gains else (c - loss) / shift
    shape = alpha + shift if gains else alpha
    with np.errstate(over="ignore"):
        return shape * log_x - np.exp(log_x) - special.gammaln(shape) - np.log(shift)


def convolve(first: Array, second: Array, step: float) -> Array:
    """Convolution of two log-densities on grids of one step, positive terms only."""
    long, short = (first, second) if len(first) >= len(second) else (second, first)
    padded = np.pad(long, len(short) - 1, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(short))
    return np.concatenate(
        [
            special.logsumexp(block + short[::-1], axis=1) + np.log(step)
            for block in np.array_split(windows, 1 + len(windows) // 500)
        ]
    )


def delta_of_a_loss(epsilon: Array, shift: float, alpha: float) -> Array:
    """Profile of Gamma(alpha) against Gamma(alpha + shift), at any real epsilon."""
    c = special.gammaln(alpha + shift) - special.gammaln(alpha)
    log_t = (c - epsilon) / shift
    with np.errstate(over="ignore", invalid="ignore"):
        t = np.exp(log_t)
        plain = special.gammainc(alpha, t) - np.exp(epsilon) * special.gammainc(alpha + shift, t)

    def leading(a: float, weight: float) -> Array:  # of exp(weight) * gammainc(a, t), t small
        small = np.minimum(t, 1e-3)
        series = 1 + small / (a + 1) * (1 + small / (a + 2) * (1 + small / (a + 3)))
        exponent = weight + alpha * np.minimum(log_t, 0) - small - special.gammaln(a + 1)
        return np.exp(exponent) * series

    return np.where(log_t > -7, plain, leading(alpha, 0) - leading(alpha + shift, c))


def several_cells_delta(
    change: tuple[int, ...], epsilons: Array, *, weight: float, alpha: float, lowest: float
) -> Array:
    """Hockey-stick divergence of a change that has a loss, at deltas of at least `lowest`."""
    rest = sorted(change)
    last = -rest.pop(rest.index(max(m for m in rest if m < 0))) * weight
    step = weight * min(1, alpha**-0.5) / 6
    floor = np.log(lowest) - 30
    ladder = np.arange(-60_000, 60_001)
    total, first = None, 0
    for m in rest:
        density = log_density_of_loss(ladder * step, abs(m) * weight, alpha, m > 0)
        kept = np.flatnonzero(density > floor)
        assert kept[0] > 0
        assert kept[-1] < len(ladder) - 1
        density, start = density[kept[0] : kept[-1] + 1], ladder[kept[0]]
        total = density if total is None else convolve(total, density, step)
        first += start
    losses = (first + np.arange(len(total))) * step
    left = np.asarray(epsilons)[:, None] - losses
    return step * np.sum(np.exp(total) * delta_of_a_loss(left, last, alpha), axis=1)


# The method itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("alpha", [0.02, 2.0, 10.0, 300.0, 1e6])
@pytest.mark.parametrize("points", [20, 300, 4096])
def test_panels_are_narrow_enough_for_their_nodes(shape: Shape, alpha: float, points: int) -> None:
    """However many nodes there are, no mass is lost: neither of the one law nor of the other."""
    factor = Factor(shape, alpha, shift=0.1 * alpha**0.5)
    low, high = factor.loss_range(np.log(1e-20))
    step = (high - low) / points
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    masses, _ = factor.grid_masses(step, first, last)
    losses = step * np.arange(first, last + 1)
    assert masses.sum() == pytest.approx(1, rel=1e-12)
    assert masses @ np.exp(-losses) == pytest.approx(1, rel=1e-11)


@pytest.mark.few(9)
@pytest.mark.parametrize(("weight", "alpha"), SETTINGS)
def test_the_method_gives_the_closed_form_of_one_pair(weight: float, alpha: float) -> None:
    cost = DirichletCost(
        weight=weight, alpha=alpha, relation=Relation("one pair", {"counts": [(1, -1)]})
    )
    epsilons = np.array([float(cost.epsilon(d)) for d in DELTAS])
    exact = [float(pair_delta(e, shift=weight, alpha=alpha, digits=40)) for e in epsilons]
    got = several_cells_delta((1, -1), epsilons, weight=weight, alpha=alpha, lowest=min(DELTAS))
    np.testing.assert_allclose(got, exact, rtol=1e-8, atol=0)


@pytest.mark.slow
def test_the_method_gives_the_integral_of_two_pairs() -> None:
    epsilon, weight, alpha = 1.0, 0.25, 1.0
    exact = float(two_pairs_delta(epsilon, shift=weight, alpha=alpha, digits=15))
    (got,) = several_cells_delta(
        (1, -1, 1, -1), np.array([epsilon]), weight=weight, alpha=alpha, lowest=1e-5
    )
    assert got == pytest.approx(exact, rel=1e-9)


# The library -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize(("weight", "alpha"), SETTINGS)
def test_epsilon_is_sound_and_close(weight: float, alpha: float, change: tuple[int, ...]) -> None:
    cost = DirichletCost(
        weight=weight, alpha=alpha, relation=Relation("one vector", {"counts": [change]})
    )
    epsilons = np.array([float(cost.epsilon(d)) for d in DELTAS])
    here = {"weight": weight, "alpha": alpha, "lowest": min(DELTAS)}
    positive = epsilons > 0
    at_epsilon = several_cells_delta(change, epsilons, **here)
    assert np.all(at_epsilon <= np.array(DELTAS) * (1 + 1e-8))
    just_below = several_cells_delta(change, epsilons * (1 - 5e-4), **here)
    assert np.all((just_below > DELTAS)[positive]), (epsilons, just_below)


@pytest.mark.few(9)
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize(("weight", "alpha"), SETTINGS)
def test_delta_is_sound_and_close(weight: float, alpha: float, change: tuple[int, ...]) -> None:
    cost = DirichletCost(
        weight=weight, alpha=alpha, relation=Relation("one vector", {"counts": [change]})
    )
    epsilons = np.array([0.0, 0.05, 0.5, 2.0, 10.0])
    exact = several_cells_delta(change, epsilons, weight=weight, alpha=alpha, lowest=min(DELTAS))
    bound = cost.delta(epsilons)
    seen = exact > min(DELTAS)
    assert np.all(bound[seen] >= exact[seen] * (1 - 1e-8))
    common = exact > 1e-5
    np.testing.assert_allclose(bound[common], exact[common], rtol=3e-4)
    np.testing.assert_allclose(bound[seen], exact[seen], rtol=0.1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_step_costs_the_worst_of_its_vectors(epsilon: float) -> None:
    here = {"weight": 0.5, "alpha": 3.0}
    exact = max(
        float(several_cells_delta(c, np.array([epsilon]), **here, lowest=1e-30)[0]) for c in CHANGES
    )
    bound = float(DirichletCost(**here, relation=ReplaceStep()).delta(epsilon))
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 3e-4)


def test_each_epsilon_has_the_worst_of_all_vectors() -> None:
    """Many small changes are worst for small epsilons, one large change is for large ones."""
    vectors = [(1, -1) * 4, (3, -1), (1, -1)]
    epsilons = np.array([0.05, 0.3, 1.0, 4.0, 8.0])

    def delta(changes: list[tuple[int, ...]]) -> np.ndarray:
        relation = Relation("as they say", {"counts": changes})
        return DirichletCost(weight=0.5, alpha=3.0, relation=relation).delta(epsilons)

    alone = np.array([delta([vector]) for vector in vectors])
    assert set(alone.argmax(axis=0).tolist()) == {0, 1}
    for order in (vectors, vectors[::-1]):
        np.testing.assert_allclose(delta(order), alone.max(axis=0), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("change", [(2, -2), (1, 1, -1, -1), (2, -1, -1), (-2, 1, 1)], ids=str)
def test_the_bound_of_an_episode_covers_every_way_of_spreading_it(
    change: tuple[int, ...], epsilon: float
) -> None:
    here = {"weight": 0.5, "alpha": 4.0}
    (exact,) = several_cells_delta(change, np.array([epsilon]), **here, lowest=1e-30)
    bound = float(DirichletCost(**here, relation=ReplaceEpisode(2)).delta(epsilon))
    assert exact * (1 - 1e-9) <= bound <= 1


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_a_step_of_two_tables_costs_the_worst_of_both_at_once(epsilon: float) -> None:
    here = {"weight": 0.25, "alpha": 4.0}
    exact = max(
        float(several_cells_delta((*c, 1, -1), np.array([epsilon]), **here, lowest=1e-30)[0])
        for c in CHANGES
    )
    tables = [
        DirichletCost(**here, relation=ReplaceStep(), table=table)
        for table in ("transitions", "rewards")
    ]
    bound = float(Together(tables).delta(epsilon))
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-3)


@pytest.mark.slow
def test_delta_and_epsilon_of_unlike_losses_agree() -> None:
    """A finer level of the grid never undoes what a coarser one has found."""
    cost = Together(
        [
            DiscreteLaplaceCost(scale=3.8e-5, relation=ReplaceRecord()),
            DiscreteGaussianCost(sigma=0.001, relation=ReplaceRecord()),
        ]
    )
    for delta in (1e-3, 1e-9):
        assert cost.delta(cost.epsilon(delta)) <= delta
