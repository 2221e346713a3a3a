"""Every comparison of numbers that costs and draws rest on, and both of its sides.

A branch on a rounded number once decided between two samplers at once. ``switches.txt`` lists such
comparisons with why both sides are right, so a new one has to be thought about, and entered. Below
are those between two formulas or two rules, tried on the switch and one float to either side.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_comparison import comparisons, found, listed, unexplained, unlike
from mpmath import mp, mpf
from oracle_mpmath import bregman_lgamma as exact_bregman
from oracle_mpmath import change_divergence

from privrl.accounting.pld import _Spent
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import RenyiDP
from privrl.continuous.moments import by_person, by_row
from privrl.costs.choice import ChoiceCost
from privrl.costs.conversion import DEFAULT_ORDERS, epsilon_by_order, log_delta_by_order
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import (
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    NoiseCost,
)
from privrl.costs.noise_pairs import DiscreteLaplacePair, GaussianPair
from privrl.costs.profiles import Density, Factor, Shape, _start
from privrl.costs.relations import (
    GRAINS,
    AddRemoveRecord,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
)
from privrl.costs.selection import PureCost, SelectionCost
from privrl.mechanisms.posterior_exponential import PosteriorExponentialMechanism, _law
from privrl.mechanisms.simplex import SimplexMechanism
from privrl.numerics import exact_dirichlet, special
from privrl.numerics.discrete_noise import _bernoulli
from privrl.numerics.upwards import product_down, product_up, quotient_up
from privrl.samplers.factorisations import factorise
from privrl.samplers.noisy_counts import NoisyCounts

ROOT = Path(__file__).parents[2] / "privrl"
LIST = Path(__file__).with_name("switches.txt")

# The list ---------------------------------------------------------------------------------

FOLDERS = ("numerics", "costs", "mechanisms", "samplers", "accounting")
#: Of names, files and error bars for users: nothing charged or drawn depends on a number in them.
LEFT_OUT = {
    *("accounting.journal", "accounting.ledger", "accounting.ledger_file", "accounting.names"),
    *("costs.relations", "mechanisms.errors"),
}


def test_every_comparison_is_listed() -> None:
    new, gone = unlike(found(ROOT, FOLDERS, LEFT_OUT), listed(LIST))
    assert not new, f"try both sides of these, and list them in switches.txt:\n{new}"
    assert not gone, f"no longer there, so leave them out of switches.txt:\n{gone}"


def test_every_entry_says_why() -> None:
    assert not unexplained(listed(LIST))


def test_a_new_comparison_is_seen() -> None:
    source = """
class Sampler:
    def draw(self, shape, name):
        if not shape > 0:
            raise ValueError
        if name == "plain" or len(shape) > 2:
            return 0
        return np.where(shape < 1, shape + 1, shape)
"""
    assert list(comparisons(source)) == [("Sampler.draw", "shape < 1")]


# Two formulas of one number -----------------------------------------------------------------


def around(x: float, floats: int = 1) -> list[float]:
    """Return a number and the next ones below and above."""
    found = [x]
    for way in (-math.inf, math.inf):
        at = x
        for _ in range(floats):
            found.append(at := math.nextafter(at, way))
    return found


def off(got: Any, true: mpf) -> float:
    """Return by what part of it a number is above the truth; of 0 by how much."""
    return float((mpf(float(got)) - true) / (abs(true) or 1))


def log1pmx(x: mpf) -> mpf:
    return mp.log1p(x) - x


SPECIAL: list[tuple[Callable[[Any], Any], Callable[[mpf], mpf], tuple[float, ...]]] = [
    (special.log1pmx, log1pmx, (-0.25, 0.25)),
    (special.expm1mx, lambda x: mp.expm1(x) - x, (-0.25, 0.25)),
    (
        lambda x: special._xlog1pmx(np.array([x, 3.0]), special.log1pmx(np.array([x, 3.0])))[0],
        lambda x: (1 + x) * mp.log1p(x) - x,
        (-0.5, 0.5),
    ),
    (special.lgamma_excess, lambda a: mp.loggamma(a) - a * mp.log(a) + a, (8.0,)),
    (special.digamma_excess, lambda a: mp.digamma(a) - mp.log(a), (8.0,)),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("function", "truth", "switches"), SPECIAL)
def test_special_functions(function, truth, switches: tuple[float, ...]) -> None:
    with mp.workdps(50):
        for x in itertools.chain.from_iterable(map(around, switches)):
            assert abs(mpf(float(function(x))) - truth(mpf(x))) < 4e-15  # of numbers from .03 to .6


def test_differences_of_log_gamma() -> None:
    """At a = 8, at a + t = 8, at 1e50, and where products of four are −1/2 and 2."""
    places = [(a, t) for a in around(8.0) for t in (-0.5, 0.5, 1e3)]
    places += [(a, s - a) for a in (3.0, 8.5, 20.0) for s in around(8.0)]
    places += [(a, t) for a in (0.5, 20.0) for t in around(1e50)]
    for a, begin, wanted in itertools.product((0.5, 2.0), (0, 4), (0.5, 3.0)):
        lowest = -0.99 * a if wanted < 1 else 0.0
        low, high = lowest, 10 * (a + begin)
        for _ in range(200):
            middle = (low + high) / 2
            product = math.prod(1 + middle / (a + j) for j in range(begin, begin + 4))
            low, high = (low, middle) if product > wanted else (middle, high)
        places += [(a, t) for t in around(low)]
    for a, t in places:
        assert abs(off(special.bregman_lgamma(a, t), exact_bregman(a, t))) < 2e-14


CELL = [(1.0,), (-1.0,), (1.0, -1.0)]


def relation_of(*changes: tuple[float, ...]) -> Relation:
    return Relation("of a test", {"counts": list(changes)})


@pytest.mark.few(3)
@pytest.mark.parametrize("change", CELL)
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e6])
def test_divergences_of_large_moves(change: tuple[float, ...], alpha: float) -> None:
    """From a move of a thousand priors on log-gamma itself is taken."""
    for weight in around(1e3 * alpha, 6):
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation_of(change))
        for order in (1.0005, 2.0, 64.0):
            true = change_divergence(change, order, weight=weight, alpha=alpha)
            got = float(cost.rdp(order))
            assert got == math.inf if mp.isinf(true) else 0 <= off(got, true) < 1e-11


@pytest.mark.parametrize("order", [1.5, 2.0, 17.0])
def test_divergences_near_the_last_finite_order(order: float) -> None:
    for part in [*around(1 - 1e-7, 3), 1 - 1e-6, *around(1.0, 3)]:
        weight = 3.0 * part / (order - 1)
        cost = DirichletCost(weight=weight, alpha=3.0, relation=relation_of((-1.0,)))
        true = change_divergence((-1.0,), order, weight=weight, alpha=3.0)
        got = float(cost.rdp(order))
        assert got == math.inf or 0 <= off(got, true) < 1e-7
        assert (got < math.inf) == (part < 1 - 2e-7) or part < 1  # and infinite beyond


def moment_of_laplace(order: mpf, shift: mpf) -> mpf:
    ahead, behind = order * mp.exp((order - 1) * shift), (order - 1) * mp.exp(-order * shift)
    return mp.log((ahead + behind) / (2 * order - 1)) / (order - 1)


def law_of_discrete_laplace(scale: float, m: int) -> list[tuple[mpf, mpf]]:
    """Return the masses of shifted noise, and their losses."""
    q = mp.exp(-1 / mpf(scale))
    one = (1 - q) / (1 + q)
    law = [(q ** (m - x) * one, (2 * x - m) / mpf(scale)) for x in range(1, m)]
    return [*law, (1 / (1 + q), m / mpf(scale)), (q**m / (1 + q), -m / mpf(scale))]


def law_of_discrete_gaussian(sigma: float, m: int) -> list[tuple[mpf, mpf]]:
    weights = {x: mp.exp(-(mpf(x) ** 2) / (2 * mpf(sigma) ** 2)) for x in range(-60, 61)}
    total = mp.fsum(weights.values())
    precision = 1 / mpf(sigma) ** 2
    return [(weight / total, (m * x + mpf(m * m) / 2) * precision) for x, weight in weights.items()]


def divergence_of(law: list[tuple[mpf, mpf]], order: float) -> mpf:
    return mp.log(mp.fsum(p * mp.exp((mpf(order) - 1) * loss) for p, loss in law)) / (
        mpf(order) - 1
    )


def delta_of(law: list[tuple[mpf, mpf]], epsilon: float) -> mpf:
    return mp.fsum(p * (1 - mp.exp(epsilon - loss)) for p, loss in law if loss > epsilon)


def both_ways(m: float) -> Relation:
    return relation_of((m,), (-m,))


def test_divergences_of_laplace_noise() -> None:
    """Where the order less 1 times the shift is 1, and times a whole number's step."""
    with mp.workdps(60):
        for scale, order in [(s, 1 + s * x) for s in (0.02, 0.7, 30.0) for x in around(1.0, 2)]:
            cost: NoiseCost = LaplaceCost(scale=scale, relation=both_ways(1.0))
            true = moment_of_laplace(mpf(order), 1 / mpf(scale))
            assert 0 <= off(cost.rdp(order), true) < 3e-13
            for m in (1, 3):
                cost = DiscreteLaplaceCost(scale=scale, relation=both_ways(float(m)))
                for at in (order, 1 + (order - 1) / m, max(scale, 1.1)):
                    true = divergence_of(law_of_discrete_laplace(scale, m), at)
                    assert 0 <= off(cost.rdp(at), true) < 3e-13


@pytest.mark.parametrize("sigma", around(0.5))
def test_divergences_of_discrete_gaussian_noise(sigma: float) -> None:
    """Where one series takes over from the other, and half way between two whole numbers."""
    with mp.workdps(60):
        for m, order in [(1, 1.5), (1, 2.0), (2, 1.25), (3, 2.5)]:
            cost = DiscreteGaussianCost(sigma=sigma, relation=both_ways(float(m)))
            for at in around(order):
                true = divergence_of(law_of_discrete_gaussian(sigma, m), at)
                assert 0 <= off(cost.rdp(at), true) < 3e-13


def test_deltas_where_losses_end() -> None:
    """At each loss that discrete noise has, and where those of all others end."""
    with mp.workdps(60):
        for scale in (0.05, 1.0, 7.3):
            for m in (1, 4):
                cost: NoiseCost = DiscreteLaplaceCost(scale=scale, relation=both_ways(float(m)))
                law = law_of_discrete_laplace(scale, m)
                losses = [(m - 2 * k) / scale for k in range((m + 1) // 2)]
                for epsilon in itertools.chain.from_iterable(map(around, losses)):
                    assert off(cost.delta(epsilon), delta_of(law, epsilon)) >= 0
            cost = LaplaceCost(scale=scale, relation=both_ways(1.0))
            for epsilon in around(1 / scale, 3):
                true = -mp.expm1(-max(1 / mpf(scale) - epsilon, mpf(0)) / 2)
                assert off(cost.delta(epsilon), true) >= 0
        for size in (1e-6, 0.3, 40.0):
            choice = ChoiceCost(scale=2 / size, sensitivity=1.0, relation=ReplaceRecord())
            spread = 2 / mpf(choice.scale)
            pure = PureCost(epsilon_pure=size, relation=ReplaceRecord())
            for epsilon in around(size, 3):
                over = min(epsilon - spread, mpf(0))
                true = mp.expm1(over / 2) ** 2 / -mp.expm1(-spread)
                assert off(choice.delta(epsilon), true) >= 0
                more = max(mp.exp(mpf(size)) - mp.exp(mpf(epsilon)), mpf(0))
                assert off(pure.delta(epsilon), more / (mp.exp(mpf(size)) + 1)) >= 0


def test_delta_of_the_gaussian_where_nearly_all_mass_is_ahead() -> None:
    sigma, relation = 0.0124, AddRemoveRecord()
    cost, shift = GaussianCost(sigma=sigma, relation=relation), 1 / sigma
    with mp.workdps(400):
        for epsilon in [*around((shift / 2 - 40) * shift, 2), 0.0, 3.0]:
            mu = 1 / mpf(sigma)
            true = mp.ncdf(mu / 2 - epsilon / mu)
            true -= mp.exp(mpf(epsilon)) * mp.ncdf(-mu / 2 - epsilon / mu)
            assert 0 <= off(cost.delta(epsilon), true) < 1e-10


@pytest.mark.few(2)
@pytest.mark.parametrize("change", [(1.0,), (-1.0,)])
@pytest.mark.parametrize("alpha", [*around(1.0), 4.0])
def test_deltas_of_a_cell_where_terms_change(change: tuple[float, ...], alpha: float) -> None:
    """At a prior of 1, and at a weight as large as the prior.

    The loss of a gamma is linear in its logarithm, so where it is zero fixes all of delta.
    """
    shape = Shape.UP if change[0] > 0 else Shape.DOWN
    with mp.workdps(50):
        for shift in [*around(alpha), 1e-9 * alpha, 1e4 * alpha]:
            a, s = mpf(alpha), mpf(shift)
            zero = (mp.loggamma(a + s) - mp.loggamma(a)) / s
            true = zero - mp.log(a + s) if shape is Shape.UP else mp.log(a) - zero
            got, size = _start(Factor(shape, alpha, shift))
            assert abs(mpf(got) - true) < 2e-15 * size  # deltas are raised by far more


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e6])
def test_densities_of_a_pair_of_cells(alpha: float) -> None:
    """A unit from the mode of their variable, where exponentials are as they are."""
    for shift in (1e-6, 1.0, 1e6):
        density = Density(Factor(Shape.PAIR, alpha, shift))
        for y in [*around(1.0), *around(-1.0)]:
            with mp.workdps(50):
                a, total = mpf(alpha), 2 * mpf(alpha) + mpf(shift)
                share = a / total
                true = total * (mp.log1p(share * mp.expm1(-mpf(y))) + share * y)
            assert abs(off(density.bend(np.array([y, 3.0]))[0], true)) < 2e-14
            assert abs(off(density.bend(np.array([y]))[0], true)) < 2e-14


@pytest.mark.few(1)
@pytest.mark.parametrize("shift", [0.02, 0.3, 4.0])
def test_grids_where_panels_change(shift: float) -> None:
    """At steps of .2 and .5 nats, and narrow or wide next to the density."""
    with mp.workdps(60):
        mean, sides = mpf(shift) ** 2 / 2, (1, -1)
        for step in [*around(0.2), *around(0.5), shift / 10, shift / 40, shift**2 / 8, 2.0]:
            first = int(float(mean) / step) - 4
            ends = [mpf(first + k) * step for k in range(9)]
            mass, other = (
                [mp.ncdf(-x) if x > 0 else mp.ncdf(x) for x in at]
                for at in ([(end - way * mean) / shift for end in ends] for way in sides)
            )
            true = [mpf(0)] * 9
            for k in range(8):
                m, q = (
                    abs(each[k + 1] - each[k])
                    if (ends[k] - way * mean) * (ends[k + 1] - way * mean) >= 0
                    else 1 - each[k] - each[k + 1]
                    for each, way in ((mass, 1), (other, -1))
                )
                low, high = mp.exp(-ends[k]), mp.exp(-ends[k + 1])
                up = (m * low - q) / (low - high)
                true[k], true[k + 1] = true[k] + m - up, true[k + 1] + up
            masses, _ = GaussianPair(shift).grid_masses(step, first, first + 8)
            for got, exact in list(zip(masses.tolist(), true, strict=True))[1:-1]:
                assert abs(mpf(got) - exact) <= 1e-12 * exact + mpf(10) ** -250


def test_deltas_of_many_whole_amounts() -> None:
    """Up to a sum of 4095 cells are convolved exactly, from then on cell by cell on a grid."""
    for amounts in ((2047, 2048), (2048, 2048)):
        change = tuple(map(float, amounts))
        opposite = tuple(-m for m in change)
        cost = DiscreteLaplaceCost(scale=500.0, relation=relation_of(change, opposite))
        pair = DiscreteLaplacePair(500.0, amounts)
        for epsilon in (0.0, 2.0, 6.0):
            exact = float(np.exp(pair.log_delta(np.array([epsilon])))[0])
            assert exact <= float(cost.delta(epsilon)) < exact * 1.01


@pytest.mark.few(1)
@pytest.mark.parametrize("order", around(2.0))
def test_conversions_at_order_two(order: float) -> None:
    at = np.array([order])
    with mp.workdps(50):
        more, share = mpf(order) - 1, mp.log(1 - 1 / mpf(order))
        for rdp, delta, epsilon in itertools.product(
            (0.0, 1e-12, 3.0, 1e8), (5e-324, 1e-5, 0.5), (0.0, 1e-6, 3.0, 1e8)
        ):
            true = rdp + share - (mp.log(mpf(delta)) + mp.log(mpf(order))) / more
            assert epsilon_by_order(at, np.array([rdp]), delta)[0] >= true
            true = more * (mpf(rdp) - epsilon) - mp.log(more) + mpf(order) * share
            assert log_delta_by_order(at, np.array([rdp]), epsilon)[0] >= true


# Two rules for one condition ----------------------------------------------------------------


def test_no_budget_admits_what_may_be_infinite() -> None:
    """The quick bound had its own end of finite orders, beyond that of the divergence itself."""
    order, relation = 1e40, ReplaceEpisode(3)
    alpha, weight = 2.5387931880884775e20, 8.462643960294925e-21
    assert (Fraction(order) - 1) * Fraction(weight) * 3 >= Fraction(alpha)  # so it is infinite
    assert alpha - (order - 1) * weight * 3 > 0  # which floats do not see
    spent = RdpAccountant(budget=RenyiDP(order, 10.0))
    spent.compose(DirichletCost(weight=weight / 2, alpha=alpha, relation=relation))
    with pytest.raises(BudgetExceeded):
        spent.compose(DirichletCost(weight=weight, alpha=alpha, relation=relation))
    assert spent.spent(order) < 10


@pytest.mark.parametrize("ulps", [-9, -4, 1])
def test_the_quick_bound_ends_where_the_divergence_does(ulps: int) -> None:
    """It looked at moves that were a little shorter, so that an infinite spend was admitted."""
    order, alpha, relation = 1e17, 1e10, ReplaceRecord()
    last = DirichletCost(
        weight=(1 - 1e-7) * alpha / (order - 1) * (1 + ulps * 2.0**-53),
        alpha=alpha,
        relation=relation,
    )
    spent = RdpAccountant(budget=RenyiDP(order, 10.0))
    spent.compose(DirichletCost(weight=1e-12, alpha=alpha, relation=relation))
    with suppress(BudgetExceeded):
        spent.compose(last)
    assert spent.spent(order) < 10


def test_very_many_cells_cost_as_many_times_one() -> None:
    few, many = (
        DirichletCost(
            weight=1.0,
            alpha=1.0,
            relation=Relation(name="places", tables={"counts": [(1.0,) * n, (-1.0,) * n]}),
        ).rdp(1.01)
        for n in (1, 100_000)
    )
    assert Fraction(float(many)) >= 100_000 * Fraction(float(few)) / (1 + Fraction(1e-13))


def test_tiny_costs_count_against_a_budget() -> None:
    """Next to what is spent their bounds are too small for a float, and were never added."""
    relation = ReplaceRecord()
    spent = RdpAccountant(budget=RenyiDP(2.0, 1.0))
    spent.compose(GaussianCost(sigma=2.0, relation=relation))
    before = spent._limit.spent
    tiny = GaussianCost(sigma=1e12, relation=relation)
    for _ in range(5):
        spent.compose(tiny)
    bounds = 5 * Fraction(float(tiny.rdp(2.0)))
    assert Fraction(spent._limit.spent) >= Fraction(before) + bounds


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["tree", "independent", "square-root", "optimal", "buffered"])
def test_noise_is_no_less_than_is_paid_for(name: Any) -> None:
    """The norm of a tree's columns, a root of a whole number, was rounded to the nearest."""
    for n, sigma in itertools.product((1, 2, 4, 6, 16), (1.0, 0.1, 3.7)):
        factors = factorise(name, n)
        columns = np.atleast_2d(factors.right.T)
        norm = max(sum(Fraction(x) ** 2 for x in column) for column in columns.tolist())
        stream = NoisyCounts(sigma=sigma, updates=n, relation=relation_of((1.0, -1.0)),
                             factorisation=name)  # fmt: skip
        stream._begin((1, 2))
        deviation = float(stream._noise._innovations._deviation)
        assert Fraction(deviation) ** 2 >= Fraction(sigma) ** 2 * norm
        assert deviation <= sigma * math.sqrt(norm) * 1.001


def test_selection_beyond_the_last_order() -> None:
    """That two bounds are equal was taken for the end of all losses."""
    trial = GaussianCost(sigma=9e29, relation=both_ways(1e-40))
    cost = SelectionCost(trial=trial, trials=5)
    for order in [*around(1e100), 1e150, 1e200]:
        assert cost.rdp(order) >= trial.rdp(order)
    pure = SelectionCost(trial=PureCost(epsilon_pure=1.0, relation=ReplaceRecord()), trials=5)
    assert pure.rdp(1e200) == pytest.approx(float(pure.pure_ratio))


MATRICES = [
    {"prior": (0.5, 2.0), "n": 8, "epsilon": 0.01, "sensitivity": "constant"},
    {"prior": (1.0, 1.0), "n": 5, "epsilon": 1e-5},
    {"prior": (1e-3, 1e-3, 1.0), "n": 3, "epsilon": 5.0, "sensitivity": "local"},
    {"prior": (1e3, 1e3), "n": 5, "epsilon": 50.0, "sensitivity": "global"},
]


@pytest.mark.few(2)
@pytest.mark.parametrize("settings", MATRICES)
def test_certificates_include_what_rounding_hides(settings: dict[str, Any]) -> None:
    """Only the largest loss did: up to it, deltas were below those of what is drawn."""
    mechanism = PosteriorExponentialMechanism(**settings)
    law, cost = _law(mechanism), mechanism.cost
    with mp.workdps(50):
        weights = [
            [mp.exp(-mpf(gap)) for gap in row]
            for row in law.gaps(np.arange(law.n_outputs)).tolist()
        ]
        rows = [[weight / mp.fsum(row) for weight in row] for row in weights]
        pairs = [*law.pairs.tolist(), *law.pairs[:, ::-1].tolist()]
        laws = [
            [(p, mp.log(p / q)) for p, q in zip(rows[first], rows[second], strict=True)]
            for first, second in pairs
        ]
        largest = max(loss for each in laws for _, loss in each)
        assert off(cost.pure_epsilon, largest) >= 0
        for order in (1 + 1e-6, 1.5, 2.0, 64.0, 1e4, 1e8):
            true = max(divergence_of(each, order) for each in laws)
            assert 0 <= off(cost.rdp(order), true) < 1e-4
        end = float(largest)
        for epsilon in (0.0, 0.5 * end, end * (1 - 1e-9), *around(end, 2), cost.pure_epsilon):
            true = max(delta_of(each, epsilon) for each in laws)
            assert off(cost.delta(epsilon), true) >= 0


def test_products_that_are_too_small_for_what_rounding_takes() -> None:
    rng = np.random.default_rng(0)
    sizes = [0.0, 5e-324, 1.5e-323, 1e-300, 2.0**-960, 2.0**-968, 1.0, 1.2, 1e300, 1.79e308]
    sizes += [math.ldexp(rng.uniform(0.5, 1), int(rng.integers(-1070, 1000))) for _ in range(20)]
    with np.errstate(all="ignore"):
        for x, y in itertools.product(sizes, sizes):
            up, down = float(product_up(x, y)), float(product_down(x, y))
            assert up == math.inf or Fraction(up) >= Fraction(x) * Fraction(y)
            assert Fraction(min(down, 1e308)) <= Fraction(x) * Fraction(y)
            if y:
                over = float(quotient_up(x, y))
                assert over == math.inf or Fraction(over) >= Fraction(x) / Fraction(y)
    assert product_up(0.0, 1e-200) == product_down(1e-200, 0.0) == 0
    assert product_up(1e-200, 1e-200) == 5e-324


def test_sums_of_many_kinds_are_not_rounded_down() -> None:
    kinds = [
        GaussianCost(sigma=s, relation=ReplaceRecord()) for s in (1.0, *np.linspace(3e7, 4e7, 400))
    ]
    spent = _Spent(Counter(kinds))._rdp
    for place in (0, 240, -1):
        exact = sum(Fraction(float(kind.rdp(DEFAULT_ORDERS[place]))) for kind in kinds)
        assert exact <= Fraction(float(spent[place])) <= exact * (1 + Fraction(1, 2**50))


# Draws ---------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("n_vectors", [1, 20])
def test_components_too_small_for_floats_are_none(n_vectors: int) -> None:
    """Their draws' logarithms overflowed, after the charge: an error, or rows of NaN."""
    mechanism = SimplexMechanism(weight=1.0, eta=0.1, sensitive=(0, 1))
    for small in [5e-324, 1e-320, *around(1e-290), 1e-289]:
        drawn = mechanism.release(np.tile([0.5, 0.5, small], (n_vectors, 1)), 0)
        assert np.isfinite(drawn).all()
        assert drawn.sum(-1) == pytest.approx(1)
        none = mechanism.release(np.tile([0.5, 0.5, 0.0], (n_vectors, 1)), 0)
        assert (drawn == none).all() == (small <= 1e-290)


SHAPES = [*around(1.0), *around(0.5), *around(2.0**30), 1e-30, 1e-289, 7.0, 1e12, 9e45]
EDGES = (2.0**-53, 2.0**-48, 2.0**-49, 0.5, 1 - 2.0**-53, 1 - 2.0**-48)


@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_whatever_further_bits_are(shape: float) -> None:
    """What floats are sure of holds with all further bits 0 or 1, in each of three versions."""
    candidates = pytest.importorskip("privrl.numerics.kernels").candidates
    rng, n = np.random.default_rng(1), 12
    uniform = rng.random((3, n))
    edges = rng.random(uniform.shape) < 0.5
    uniform[edges] = rng.choice(EDGES, edges.sum())
    versions = [exact_dirichlet._in_floats, candidates]
    if shape < exact_dirichlet._LARGE:
        versions.append(exact_dirichlet._one_by_one)
    with np.errstate(all="ignore"):
        outcomes = [version(np.full(n, shape), uniform) for version in versions]
    ends = (1 << 20, (1 << 200) - (1 << 20))
    for i, more in itertools.product(range(n), itertools.product(ends, repeat=3)):
        sure = {
            float(values[i]) if accepted[i] else None
            for accepted, values, doubts in outcomes
            if i not in doubts
        }
        known = [int(u * 2.0**53) << 200 | end for u, end in zip(uniform[:, i], more, strict=True)]
        if sure:
            (outcome,) = sure
            exact = exact_dirichlet._evaluated(Fraction(shape), known, 253, small=shape < 1)
            assert abs(exact.margin) > exact.margin_off
            assert (exact.margin > 0) == (outcome is not None)
            assert outcome is None or exact_dirichlet._rounded(exact.value) == Fraction(outcome)


class Told(np.random.Generator):
    """A generator of one uniform number, and of bits that follow."""

    def __init__(self, known: float, bits: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.known, self.bits = known, bits

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(size, self.known)

    def integers(self, *_: Any, **__: Any) -> Any:
        return self.bits


@pytest.mark.few(1)
@pytest.mark.parametrize("place", [-1, 0, 1])
def test_decisions_next_to_their_probability(place: int) -> None:
    """A uniform number of which 53 bits are those of the probability, or next to it."""
    first = math.floor(0.3 * 2**53) / 2**53
    probability = Fraction(first) + Fraction(1, 2**56)  # between two of them
    known = first + place * 2.0**-53
    for bits in (0, 1 << 28, (1 << 29) - 1, (1 << 29) + 1, (1 << 32) - 1):
        decided = _bernoulli(np.array([first]), lambda _: probability, Told(known, bits))
        uniform = Fraction(known) + Fraction(bits, 2**85)
        assert decided[0] == (uniform < probability)


# What a person adds --------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("add", [by_person, by_row])
def test_shares_of_a_little_more_than_a_budget(add) -> None:
    """They may sum to 1 + 1e-12: contributions are shorter than they pay for by more."""
    rng = np.random.default_rng(0)
    for parts, columns in itertools.product((1, 3, 7), (1, 2, 40)):
        shares = np.full(parts, (1 + 1e-12) / parts)
        paid = Fraction(0)
        for share in shares.tolist():
            row = rng.normal(size=(1, columns))
            added = add(row, math.sqrt(share), np.array([0, 1])) / GRAINS
            paid += sum(Fraction(x) ** 2 for x in added.ravel().tolist())
        assert paid <= 1
