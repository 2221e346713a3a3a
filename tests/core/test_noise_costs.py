"""Cost of additive noise, against many-digit answers that start from the densities.

The oracles are at the top: tails of the normal distribution, an integral over the loss of one
Laplace cell at a time, and sums over all outcomes of discrete noise.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from oracle_mpmath import partitions
from scipy.special import logsumexp

from privrl.accounting.rdp import RdpAccountant
from privrl.costs import relations
from privrl.costs.base import Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import (
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    NoiseCost,
)
from privrl.costs.noise_pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
)
from privrl.numerics.convolution import ProductProfile

RECORD, STEP = relations.ReplaceRecord(), relations.ReplaceStep()
ORDERS = np.array([1 + 1e-6, 1.0001, 1.2, 2.0, 2.37, 3.5, 8.0, 64.3, 1e3, 1e6])
TYPES: dict[str, Callable[..., NoiseCost]] = {
    "gaussian": lambda size, **more: GaussianCost(sigma=size, **more),
    "laplace": lambda size, **more: LaplaceCost(scale=size, **more),
    "discrete laplace": lambda size, **more: DiscreteLaplaceCost(scale=size, **more),
    "discrete gaussian": lambda size, **more: DiscreteGaussianCost(sigma=size, **more),
}
each_type = pytest.mark.parametrize("make", TYPES.values(), ids=TYPES)


Array = np.ndarray


def change(*amounts: float) -> relations.Relation:
    return relations.Relation("this change", {"counts": [amounts]})


@pytest.fixture(autouse=True)
def _fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


# Oracles ----------------------------------------------------------------------------------------


def normal_delta(shift: float, epsilon: float) -> mpf:
    """Return the profile of N(shift, 1) against N(0, 1) by two tails."""
    m, e = mpf(shift), mpf(epsilon)
    low, high = e / m - m / 2, e / m + m / 2
    with mp.extradps(30 + min(400, int(high**2 / 4))):  # digits that the difference cancels
        return mp.erfc(low / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(high / mp.sqrt(2)) / 2


def laplace_rdp(shift: float, order: float) -> mpf:
    s, lam = mpf(shift), mpf(order)
    up, down = mp.exp((lam - 1) * s), mp.exp(-lam * s)
    return mp.log((lam * up + (lam - 1) * down) / (2 * lam - 1)) / (lam - 1)


def laplace_delta(shift: mpf, epsilon: mpf) -> mpf:
    """Return the profile of one cell at any real epsilon."""
    s, e = mpf(shift), mpf(epsilon)
    if abs(e) >= s:
        return mpf(0) if e > 0 else 1 - mp.exp(e)
    x = (s - e) / 2  # the loss of a noise below x is above e
    return 1 - mp.exp(-x) / 2 - mp.exp(e) * mp.exp(x - s) / 2


def laplace_delta_of_two(shift: float, epsilon: float) -> mpf:
    """Return one cell's profile averaged over the other's loss."""
    s, e = mpf(shift), mpf(epsilon)
    cuts = sorted({mpf(0), s, *(x for x in (s - e / 2, -e / 2, (s - e) / 2) if 0 < x < s)})
    inner = mp.quad(lambda x: mp.exp(-x) / 2 * laplace_delta(s, e - s + 2 * x), cuts)
    return inner + laplace_delta(s, e - s) / 2 + mp.exp(-s) / 2 * laplace_delta(s, e + s)


def laplace_delta_of_many(shifts: Sequence[float], epsilon: Array) -> Array:
    """Return the same of any cells, by Gauss's rule between all points where it bends."""
    s, rest = shifts[0], shifts[1:]
    if not rest:
        x = np.clip((s - epsilon) / 2, 0, s)
        inside = -np.expm1(-x) / 2 + 0.5 - np.exp(epsilon + x - s) / 2
        return np.where(epsilon >= s, 0.0, np.where(epsilon <= -s, -np.expm1(epsilon), inside))
    sums = [np.dot(signs, rest) for signs in product((1, -1), repeat=len(rest))]
    bends = np.clip([(s - epsilon + each) / 2 for each in (*sums, 0)], 0, s)
    edges = np.sort(
        np.concatenate([np.zeros_like(bends[:1]), bends, np.full_like(bends[:1], s)]), 0
    )
    nodes, weights = np.polynomial.legendre.leggauss(14)
    half = np.diff(edges, axis=0)[..., None] / 2
    x = edges[:-1, ..., None] + half + half * nodes
    values = laplace_delta_of_many(rest, (epsilon[:, None] - s + 2 * x).ravel()).reshape(x.shape)
    inner = (np.exp(-x) / 2 * values * half * weights).sum((0, -1))
    ends = [laplace_delta_of_many(rest, epsilon + sign * s) / 2 for sign in (-1, 1)]
    return inner + ends[0] + math.exp(-s) * ends[1]


Law = dict[int, mpf]


def discrete_laplace_law(scale: float, reach: int) -> Law:
    q = mp.exp(-1 / mpf(scale))
    return {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-reach, reach + 1)}


def discrete_gaussian_law(sigma: float, reach: int) -> Law:
    weights = {x: mp.exp(-(mpf(x) ** 2) / (2 * mpf(sigma) ** 2)) for x in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {x: w / total for x, w in weights.items()}


def outcomes(
    law: Law, log_ratio: Callable[[int, int], mpf], amounts: Sequence[int]
) -> list[tuple[mpf, mpf]]:
    """Return (loss, probability) of every outcome of the noise of several cells."""
    each = [[(log_ratio(x, m), p) for x, p in law.items()] for m in amounts]
    return [
        (mp.fsum(loss for loss, _ in cells), mp.fprod(p for _, p in cells))
        for cells in product(*each)
    ]


def brute_delta(losses: list[tuple[mpf, mpf]], epsilon: float) -> mpf:
    return mp.fsum(p * (1 - mp.exp(epsilon - loss)) for loss, p in losses if loss > epsilon)


def brute_rdp(losses: list[tuple[mpf, mpf]], order: float) -> mpf:
    more = mpf(order) - 1
    return mp.log(mp.fsum(p * mp.exp(more * loss) for loss, p in losses)) / more


def discrete_laplace_outcomes(scale: float, *amounts: int) -> list[tuple[mpf, mpf]]:
    law = discrete_laplace_law(scale, max(amounts))
    # what lies beyond has the same loss as the end
    q = mp.exp(-1 / mpf(scale))
    cells = []
    for m in amounts:
        atoms = [((abs(x - m) - abs(x)) / mpf(scale), law[x]) for x in range(1, m)]
        atoms += [(m / mpf(scale), 1 / (1 + q)), (-m / mpf(scale), q**m / (1 + q))]
        cells.append(atoms)
    return [
        (mp.fsum(loss for loss, _ in some), mp.fprod(p for _, p in some))
        for some in product(*cells)
    ]


def discrete_gaussian_outcomes(sigma: float, *amounts: int) -> list[tuple[mpf, mpf]]:
    law = discrete_gaussian_law(sigma, int((60 if len(amounts) == 1 else 14) * sigma) + 8)
    double = 2 * mpf(sigma) ** 2
    return outcomes(law, lambda x, m: (m * m + 2 * m * x) / double, amounts)


# Exactness --------------------------------------------------------------------------------------


def check_delta(cost: Any, epsilon: float, oracle: Callable[[mpf], mpf]) -> None:
    """Check that a delta is the true one, or a little above, and never below.

    A little: 1e-10 of it, or what the last digits of epsilon decide, at the end of a bounded loss
    and where an atom of a loss is.
    """
    seen = float(cost.delta(epsilon))
    assert seen >= float(oracle(mpf(epsilon))) * (1 - 1e-14)
    assert seen <= float(oracle(mpf(epsilon) * (1 - mpf(1e-14)))) * (1 + 1e-10)


@pytest.mark.few(8)
@pytest.mark.parametrize("sigma", [1e-6, 0.01, 0.026, 0.3, 1.0, 10.0, 1e4, 1e9])
def test_gaussian_is_exact(sigma: float) -> None:
    cost = GaussianCost(sigma=sigma, relation=change(1, -2, 2))
    np.testing.assert_allclose(cost.rdp(ORDERS), ORDERS * 9 / (2 * sigma**2), rtol=3e-14)
    epsilons = [0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0, 100.0, 700.0]
    for epsilon, delta in zip(epsilons, cost.delta(epsilons), strict=True):
        right = normal_delta(3 / mpf(sigma), epsilon)
        if right > 1e-300:
            assert delta == pytest.approx(float(right), rel=1e-10, abs=0)
        else:
            assert delta <= 1e-299


def test_only_the_longest_vector_matters_to_the_gaussian() -> None:
    step, longest = (GaussianCost(sigma=2, relation=r) for r in (STEP, change(2, -1, -1)))
    ((pair,),) = step.dominating_pairs()
    assert pair.shift == pytest.approx(math.sqrt(6) / 2, rel=1e-14)
    np.testing.assert_allclose(step.rdp(ORDERS), longest.rdp(ORDERS), rtol=3e-14)
    assert step.epsilon(1e-6) == pytest.approx(float(longest.epsilon(1e-6)), rel=1e-12)


@pytest.mark.parametrize("shift", [1e-12, 1e-8, 1e-4, 0.01, 0.3, 1.0, 5.0, 50.0, 1e3, 1e6])
def test_laplace_rdp_is_exact(shift: float) -> None:
    right = [float(laplace_rdp(shift, order)) for order in ORDERS]
    one = LaplaceCost(scale=1, relation=change(-shift))
    np.testing.assert_allclose(one.rdp(ORDERS), right, rtol=5e-13)
    two = LaplaceCost(scale=0.5, relation=change(shift / 2, -shift / 2))
    np.testing.assert_allclose(two.rdp(ORDERS), 2 * np.array(right), rtol=5e-13)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [1e-4, 0.3, 1.0, 5.0, 20.0, 200.0])
@pytest.mark.parametrize("cells", [1, 2])
def test_laplace_delta_is_exact_for_one_cell_and_for_one_record(shift: float, cells: int) -> None:
    cost = LaplaceCost(scale=1, relation=change(*[shift] * cells))
    for share in (0, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6):
        epsilon = share * cells * shift
        check_delta(cost, epsilon, partial((laplace_delta, laplace_delta_of_two)[cells - 1], shift))
    assert cost.delta(cells * shift) == 0


def test_the_two_oracles_for_laplace_agree() -> None:
    for shift, epsilon in ((0.3, 0.1), (2.0, 0.5), (2.0, 3.0)):
        by_rule = laplace_delta_of_many([shift, shift], np.array([epsilon]))
        assert by_rule[0] == pytest.approx(float(laplace_delta_of_two(shift, epsilon)), rel=1e-12)


SEVERAL = [(1, 1, 1), (2, 1, 1), (1.5, 1, 0.5), (1, 1, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("amounts", SEVERAL, ids=str)
@pytest.mark.parametrize("scale", [0.3, 20.0])
def test_laplace_delta_of_many_cells_is_a_tight_upper_bound(
    scale: float, amounts: tuple[float, ...]
) -> None:
    cost = LaplaceCost(scale=scale, relation=change(*amounts))
    epsilons = np.array([0.01, 0.2, 0.6, 0.9]) * sum(amounts) / scale
    exact = laplace_delta_of_many([m / scale for m in amounts], epsilons)
    assert np.all(exact <= cost.delta(epsilons) * (1 + 1e-9))
    for epsilon, delta in zip(epsilons, exact, strict=True):
        assert cost.epsilon(float(delta)) <= epsilon * (1 + 3e-4)


@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 3.0, 50.0, 1e4, 1e9])
@pytest.mark.parametrize("amounts", [(1,), (2,), (5,), (1, 1), (2, 1, 1), (1, 1, 1, 1)], ids=str)
def test_discrete_laplace_is_exact(scale: float, amounts: tuple[int, ...]) -> None:
    cost = DiscreteLaplaceCost(scale=scale, relation=change(*amounts))
    losses = discrete_laplace_outcomes(scale, *amounts)
    right = [float(brute_rdp(losses, order)) for order in ORDERS]
    np.testing.assert_allclose(cost.rdp(ORDERS), right, rtol=5e-13)
    for share in (0, 1e-5, 0.1, 0.333, 0.5, 0.77, 0.99, 1 - 1e-6):
        epsilon = min(share * sum(amounts) / scale, 700.0)
        check_delta(cost, epsilon, partial(brute_delta, losses))
    assert cost.delta(cost.pure_epsilon) == 0


@pytest.mark.few(25)
@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3, 0.49, 0.51, 0.8, 2.0, 10.3])
@pytest.mark.parametrize("amount", [1, 2, 7])
def test_discrete_gaussian_is_exact_for_one_cell(sigma: float, amount: int) -> None:
    cost = DiscreteGaussianCost(sigma=sigma, relation=change(amount))
    losses = discrete_gaussian_outcomes(sigma, amount)
    shift = amount / sigma
    for share in (0, 0.01 / shift, 0.5, 0.5 + 3 / shift, 0.5 + 20 / shift, 0.5 + 36 / shift):
        epsilon = share * shift**2
        if epsilon <= 2000 and brute_delta(losses, epsilon) > 1e-300:
            check_delta(cost, epsilon, partial(brute_delta, losses))
    theta = {}
    for order in ORDERS:
        c = (mpf(float(order)) - 1) * amount
        c -= mp.nint(c)
        reach = int(15 * sigma) + 8
        for at in (c, mpf(0)):
            theta[at] = mp.fsum(
                mp.exp(-((x - at) ** 2) / (2 * mpf(sigma) ** 2)) for x in range(-reach, reach + 1)
            )
        lattice = mp.log(theta[c] / theta[mpf(0)]) / (mpf(float(order)) - 1)
        right_rdp = mpf(float(order)) * amount**2 / (2 * mpf(sigma) ** 2) + lattice
        assert cost.rdp(order) == pytest.approx(float(right_rdp), rel=1e-12)
    for order in (1.2, 2.0, 3.5):  # and that formula, from the definition
        if order * amount < 40 * sigma:
            by_sum = float(brute_rdp(losses, order))
            assert cost.rdp(order) == pytest.approx(by_sum, rel=1e-12)


@pytest.mark.few(12)
@pytest.mark.parametrize("sigma", [0.1, 0.4, 0.6, 1.0, 3.3])
@pytest.mark.parametrize("amount", [1, 3])
def test_discrete_gaussian_is_exact_for_one_record(sigma: float, amount: int) -> None:
    cost = DiscreteGaussianCost(sigma=sigma, relation=change(amount, -amount))
    losses: Counter[mpf] = Counter()
    with mp.workdps(30):
        for loss, p in discrete_gaussian_outcomes(sigma, amount, amount):
            losses[loss] += p
        shift = math.sqrt(2) * amount / sigma
        for epsilon in (0.0, 0.1 * shift, shift**2 / 2, shift**2 / 2 + 3 * shift):
            check_delta(cost, epsilon, partial(brute_delta, list(losses.items())))


@pytest.mark.few(6)
@pytest.mark.parametrize("sigma", [600.0, 2e4])
@pytest.mark.parametrize("amount", [1, 30, 1000])
def test_discrete_gaussian_is_exact_for_much_noise(sigma: float, amount: int) -> None:
    """All terms, of which there are a million; the Gaussian's own delta would be 2e-4 off."""
    shift = amount / sigma
    epsilons = np.array([0, 0.1 * shift, shift**2 / 2 + 3 * shift, shift**2 / 2 + 30 * shift])
    x = np.arange(-int(10 * sigma), int(38 * sigma), dtype=np.float64)
    log_p = -((x / sigma) ** 2) / 2 - math.log(sigma) - math.log(2 * math.pi) / 2
    loss = amount * (amount + 2 * x) / (2 * sigma**2)
    for epsilon, log_delta in zip(
        epsilons, DiscreteGaussianPair(sigma, amount).log_delta(epsilons), strict=True
    ):
        above = loss > epsilon
        right = logsumexp(log_p[above] + np.log(-np.expm1(epsilon - loss[above])))
        assert log_delta == pytest.approx(right, rel=0, abs=1e-11)


def test_discrete_gaussian_of_many_cells_is_a_tight_upper_bound() -> None:
    sigma, amounts = 1.3, (2, 1, 1)
    cost = DiscreteGaussianCost(sigma=sigma, relation=change(2, -1, -1))
    x = np.arange(-20, 21)
    p = np.exp(-(x**2) / (2 * sigma**2))
    each = [(m * m + 2 * m * x) / (2 * sigma**2) for m in amounts]
    loss = each[0][:, None, None] + each[1][:, None] + each[2]
    mass = (p[:, None, None] * p[:, None] * p) / p.sum() ** 3
    for epsilon in (0.1, 1.0, 3.0, 6.0):
        right = float((mass * -np.expm1(np.minimum(epsilon - loss, 0))).sum())
        assert right * (1 - 1e-9) <= cost.delta(epsilon)
        assert cost.epsilon(right) <= epsilon * (1 + 1e-3)


def test_discrete_noise_tends_to_noise_on_the_line() -> None:
    for line, discrete in (
        (GaussianCost(sigma=1e6, relation=RECORD), DiscreteGaussianCost),
        (LaplaceCost(scale=1e6, relation=RECORD), DiscreteLaplaceCost),
    ):
        size = {"sigma": 1e6} if hasattr(line, "sigma") else {"scale": 1e6}
        whole = discrete(**size, relation=RECORD)
        np.testing.assert_allclose(whole.rdp(ORDERS), line.rdp(ORDERS), rtol=1e-5)
        assert whole.epsilon(1e-7) == pytest.approx(float(line.epsilon(1e-7)), rel=1e-5)


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.5, 1.0, 100.0])
def test_discrete_gaussian_costs_no_more_rdp_than_the_gaussian(sigma: float) -> None:
    orders = 1 + np.geomspace(1e-6, 1e4, 500)
    whole = DiscreteGaussianCost(sigma=sigma, relation=STEP).rdp(orders)
    assert np.all(whole <= GaussianCost(sigma=sigma, relation=STEP).rdp(orders) * (1 + 1e-13))
    assert np.all(whole[1:] >= whole[:-1] * (1 - 1e-13))


# Pure differential privacy ----------------------------------------------------------------------


@pytest.mark.few(30)
@pytest.mark.parametrize("make", [LaplaceCost, DiscreteLaplaceCost])
@pytest.mark.parametrize(
    "relation", [RECORD, relations.AddRemoveRecord(), STEP, relations.ReplaceEpisode(4)], ids=str
)
@pytest.mark.parametrize("scale", [0.02, 7.0, 1e5])
def test_epsilon_approaches_the_pure_one_and_stays_below(
    make: type[LaplaceCost], relation: relations.Relation, scale: float
) -> None:
    cost = make(scale=scale, relation=relation)
    largest = max(sum(map(abs, v)) for v in relation.changes())
    pure = largest / scale
    assert cost.pure_epsilon == pytest.approx(pure, rel=1e-15)
    assert np.all(cost.delta([cost.pure_epsilon, 2 * pure, 700 + pure]) == 0)
    epsilons = [float(cost.epsilon(d)) for d in (1e-3, 1e-12, 1e-300)]
    assert np.all(np.diff(epsilons) >= 0)
    assert epsilons[-1] <= cost.pure_epsilon
    assert epsilons[-1] == pytest.approx(pure, rel=1e-6)
    for delta in (1e-12, 1e-17):
        assert cost.delta(cost.epsilon(delta)) <= delta


def test_where_nothing_changes_nothing_is_spent() -> None:
    for make in TYPES.values():
        cost = make(1.0, relation=relations.ReplaceTransition(), table="rewards")
        assert not cost.rdp(ORDERS).any()
        assert not cost.delta([0.0, 1.0]).any()
        assert cost.epsilon(1e-9) == 0


# On a grid --------------------------------------------------------------------------------------

PAIRS = [
    LaplacePair(0.1),
    LaplacePair(1.0, 2),
    LaplacePair(3.0),
    LaplacePair(50.0, 2),
    LaplacePair(2000.0, 2),
    DiscreteLaplacePair(0.3, (1,)),
    DiscreteLaplacePair(3.0, (2, 1, 5)),
    DiscreteGaussianPair(0.1, 1),
    DiscreteGaussianPair(0.4, 1, 2),
    DiscreteGaussianPair(3.7, 2, 2),
    DiscreteGaussianPair(1e3, 2),
    DiscreteGaussianPair(1e6, 2, 2),
    GaussianPair(0.1),
    GaussianPair(30.0),
]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("coarser", [1.0, 10.3])
def test_a_grid_keeps_the_profile_at_its_points(pair: LaplacePair, coarser: float) -> None:
    low, high = pair.loss_range(math.log(1e-30))
    step = (high - low) / 4096 * coarser
    first, last = math.floor(low / step), math.ceil(high / step)
    masses, beyond = pair.grid_masses(step, first, last)
    assert masses.shape == (last - first + 1,)
    assert np.all(masses >= 0)
    assert masses.sum() + beyond == pytest.approx(1, rel=1e-11)
    losses = step * np.arange(first, last + 1)
    points = losses[losses >= 0][::97]
    right = np.exp(pair.log_delta(points))
    seen = -np.expm1(np.minimum(points[:, None] - losses, 0)) @ masses + beyond
    relevant = right > 1e-20
    np.testing.assert_allclose(seen[relevant], right[relevant], rtol=1e-7)


@pytest.mark.parametrize("pair", PAIRS[:-2], ids=repr)
@pytest.mark.parametrize("start", [-0.7, 0.0, 0.4])
def test_mass_outside_a_grid_is_not_lost(pair: LaplacePair, start: float) -> None:
    _, high = pair.loss_range(math.log(1e-30))
    step = high / 1000
    masses, beyond = pair.grid_masses(step, int(1000 * start), 900)
    total = masses.sum() + beyond
    assert total >= 1 - 1e-11
    if start >= 0 and not isinstance(pair, DiscreteGaussianPair):  # elsewhere it is a bound
        assert total == pytest.approx(1, rel=1e-11)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_mass_above_a_grid_that_ends_early_is_not_lost(pair: LaplacePair) -> None:
    """With a thousandth of the mass beyond its end, or an atom that is."""
    low, high = pair.loss_range(math.log(1e-3))
    step = (high - low) / 100
    masses, beyond = pair.grid_masses(step, math.floor(low / step), math.floor(high / step) - 2)
    assert beyond > 0
    assert masses.sum() + beyond >= 1 - 1e-11


@pytest.mark.few(14)
@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_a_grid_bounds_the_profile_between_its_points(pair: LaplacePair) -> None:
    _, high = pair.loss_range(math.log(1e-30))
    epsilons = np.linspace(0, high, 333)
    right = pair.log_delta(epsilons)
    bound = ProductProfile(Counter({pair: 1}), math.log(1e-20)).log_delta(epsilons)
    relevant = right > math.log(1e-20)
    assert np.all(bound[relevant] >= right[relevant] - 1e-9)


@pytest.mark.slow
def test_together_is_a_tight_upper_bound() -> None:
    one = relations.AddRemoveRecord()
    both = Together([GaussianCost(sigma=3, relation=one), GaussianCost(sigma=4, relation=one)])
    exact = GaussianCost(sigma=1 / math.hypot(1 / 3, 1 / 4), relation=one)
    twice = Together([LaplaceCost(scale=3, relation=one)] * 2)
    record = LaplaceCost(scale=3, relation=RECORD)
    for loose, right in ((both, exact), (twice, record)):
        for delta in (0.05, 1e-6):
            epsilon = float(right.epsilon(delta))
            assert epsilon * (1 - 1e-9) <= loose.epsilon(delta) <= epsilon * (1 + 3e-4)


@pytest.mark.slow
def test_all_kinds_compose_with_a_dirichlet_draw() -> None:
    parts = [make(20.0, relation=RECORD) for make in TYPES.values()]
    parts.append(DirichletCost(weight=0.1, alpha=2, relation=RECORD))
    accountant = RdpAccountant()
    for part in parts:
        accountant.compose(part)
    joint = float(Together(parts).epsilon(1e-6))
    assert max(float(part.epsilon(1e-6)) for part in parts) < joint
    assert joint < float(accountant.epsilon(1e-6))


def test_loss_distributions_agree_with_the_gaussian_in_closed_form() -> None:
    pytest.importorskip("dp_accounting", reason="no dp_accounting: pip install 'privrl[pld]'")
    from privrl.accounting.pld import PldAccountant  # noqa: PLC0415 -- an extra, needed here alone

    for many in (2, 100):
        accountant = PldAccountant()
        accountant.compose(GaussianCost(sigma=10, relation=RECORD), many)
        right = GaussianCost(sigma=10 / math.sqrt(many), relation=RECORD)
        epsilon = float(right.epsilon(1e-6))
        assert epsilon <= accountant.epsilon(1e-6) <= epsilon * (1 + 3e-4)


# Spreads ----------------------------------------------------------------------------------------


@pytest.mark.few(12)
@each_type
@pytest.mark.parametrize("size", [0.3, 2.0, 40.0])
def test_an_episode_costs_no_less_than_any_spread_of_it(
    make: Callable[..., NoiseCost], size: float
) -> None:
    """All ways in which five gains and five losses can sit in cells, some gone to one cell."""
    episode = make(size, relation=relations.ReplaceEpisode(5))
    rdp = episode.rdp(ORDERS)
    ups = [part for lost in (0, 1, 3) for part in partitions(5 - lost)]
    for gains, losses in product(ups, list(partitions(5))):
        spread = make(size, relation=change(*gains, *(-m for m in losses)))
        assert np.all(spread.rdp(ORDERS) <= rdp * (1 + 1e-12))
        if len(gains) * len(losses) in (1, 4, 25):
            epsilons = [0.0, 0.5, 3.0]
            assert np.all(spread.delta(epsilons) <= episode.delta(epsilons) * (1 + 1e-9))


@pytest.mark.slow
def test_real_spreads_cost_no_more_either() -> None:
    rng = np.random.default_rng(5)
    episode = LaplaceCost(scale=2, relation=relations.ReplaceEpisode(5))
    for _ in range(200):
        gains, losses = (5 * rng.dirichlet(np.full(rng.integers(1, 5), 0.7)) for _ in range(2))
        spread = LaplaceCost(scale=2, relation=change(*gains, *-losses))
        assert np.all(spread.rdp(ORDERS) <= episode.rdp(ORDERS) * (1 + 1e-12))


def test_under_spreads_only_the_gaussian_keeps_its_pair() -> None:
    relation = relations.ReplaceEpisode(5)
    assert GaussianCost(sigma=2, relation=relation).dominating_pairs() is not None
    for make in (LaplaceCost, DiscreteLaplaceCost):
        assert make(scale=2, relation=relation).dominating_pairs() is None
    discrete = DiscreteGaussianCost(sigma=0.3, relation=relation)
    assert discrete.dominating_pairs() is None
    gaussian = GaussianCost(sigma=0.3, relation=relation)
    np.testing.assert_allclose(discrete.rdp(ORDERS), gaussian.rdp(ORDERS), rtol=1e-14)


# Behaviour --------------------------------------------------------------------------------------


@pytest.mark.few(12)
@each_type
@pytest.mark.parametrize("relation", [RECORD, STEP, relations.ReplaceEpisode(3)], ids=str)
def test_more_noise_costs_less(
    make: Callable[..., NoiseCost], relation: relations.Relation
) -> None:
    sizes = np.geomspace(0.2, 200, 6)
    rdp = np.array([make(float(s), relation=relation).rdp(ORDERS) for s in sizes])
    assert np.all(np.diff(rdp, axis=0) < 0)
    epsilon = [float(make(float(s), relation=relation).epsilon(1e-6)) for s in sizes]
    assert np.all(np.diff(epsilon) < 0)


@pytest.mark.few(4)
@each_type
def test_more_change_costs_more(make: Callable[..., NoiseCost]) -> None:
    vectors = [(1,), (1, -1), (1, -1, 1), (2, -1, 1), (2, -2, 1), (3, -2, 1)]
    rdp = np.array([make(4.0, relation=change(*v)).rdp(ORDERS) for v in vectors])
    assert np.all(np.diff(rdp, axis=0) > 0)
    epsilon = [float(make(4.0, relation=change(*v)).epsilon(1e-6)) for v in vectors]
    assert np.all(np.diff(epsilon) > 0)


@each_type
def test_signs_order_and_unit_do_not_matter(make: Callable[..., NoiseCost]) -> None:
    one, other = (make(4.0, relation=change(*v)) for v in ((2, -1, 1), (-1, -1, -2)))
    np.testing.assert_allclose(one.rdp(ORDERS), other.rdp(ORDERS), rtol=1e-14)
    np.testing.assert_allclose(one.delta([0.0, 1.0]), other.delta([0.0, 1.0]), rtol=1e-12)
    if not isinstance(one, DiscreteLaplaceCost | DiscreteGaussianCost):
        scaled = make(40.0, relation=change(20, -10, 10))
        np.testing.assert_allclose(scaled.rdp(ORDERS), one.rdp(ORDERS), rtol=1e-14)


@each_type
def test_count_means_repetition(make: Callable[..., NoiseCost]) -> None:
    at_once, one_by_one = RdpAccountant(), RdpAccountant()
    at_once.compose(make(4.0, relation=STEP), count=7)
    for _ in range(7):
        one_by_one.compose(make(4.0, relation=STEP))
    np.testing.assert_allclose(at_once.rdp, one_by_one.rdp, rtol=1e-14)


@each_type
@pytest.mark.parametrize("relation", [RECORD, STEP, relations.ReplaceEpisode(30)], ids=str)
@pytest.mark.parametrize("size", [1e-10, 1e-3, 1e3, 1e10, 1e14])
def test_the_whole_domain_gives_numbers(
    make: Callable[..., NoiseCost], relation: relations.Relation, size: float
) -> None:
    cost = make(size, relation=relation)
    rdp, delta = cost.rdp(ORDERS), cost.delta([0.0, 1.0])
    assert np.all(np.isfinite(rdp) & (rdp > 0) & (np.diff(rdp, append=np.inf) >= 0))
    assert np.all((delta >= 0) & (delta <= 1) & (np.diff(delta, append=0) <= 0))


# Refusals ---------------------------------------------------------------------------------------


@each_type
@pytest.mark.parametrize("size", [0, -1, np.nan, np.inf, 1e-31, 1e31, True, "2", None])
def test_bad_sizes_are_refused(make: Callable[..., NoiseCost], size: object) -> None:
    with pytest.raises(ValueError, match=r"(sigma|scale) must be a number > 1e-30 and < 1e\+30"):
        make(size, relation=RECORD)


@each_type
def test_bad_relations_are_refused(make: Callable[..., NoiseCost]) -> None:
    with pytest.raises(ValueError, match=r"relation must be a Relation such as"):
        make(1.0, relation="replace one record")
    with pytest.raises(ValueError, match=r"table must be one of 'counts'"):
        make(1.0, relation=RECORD, table="rewards")


@pytest.mark.parametrize("name", ["discrete laplace", "discrete gaussian"])
def test_discrete_noise_is_for_whole_changes(name: str) -> None:
    with pytest.raises(ValueError, match=r"whole numbers where noise is discrete, got -0\.5"):
        TYPES[name](1.0, relation=change(1, -0.5))


@each_type
def test_bad_questions_are_refused(make: Callable[..., NoiseCost]) -> None:
    cost = make(1.0, relation=RECORD)
    with pytest.raises(ValueError, match="orders must be > 1"):
        cost.rdp([2.0, 1.0])
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        cost.delta([-0.1])
    with pytest.raises(ValueError, match="delta must be a number > 0 and < 1"):
        cost.epsilon(0)


@each_type
def test_the_table_is_filled_in(make: Callable[..., NoiseCost]) -> None:
    assert make(1, relation=STEP) == make(1.0, relation=STEP, table="transitions")
    assert make(1, relation=STEP) != make(1, relation=STEP, table="rewards")
