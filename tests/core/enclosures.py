"""Hold every cost that the library prints against a ball that provably holds the truth.

    python tests/core/enclosures.py             # 100,000 random parameters of every cost
    python tests/core/enclosures.py 1000 delta  # 1,000 of those whose name holds "delta"

The truth is a closed form in ball arithmetic (Arb, by python-flint): what it returns is an
interval, and the number is in it by proof, not by trust in digits. The formulas start from the
densities and are written without looking at the library. Precision is raised until a ball is far
narrower than any margin.

Of every cost two things are asked. No printed number lies below its ball. And none lies above it by
more than 1e-9, relative to the number, or to what it is where the inputs are off by `NUDGE` (16
roundings): where the last digits of an input decide, no float can be closer. See "Rounding" in
docs/exact-accounting.md.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
from flint import arb, ctx, fmpq

from privrl.accounting.rdp import RdpAccountant
from privrl.costs.base import Together
from privrl.costs.choice import ChoiceCost
from privrl.costs.conversion import rdp_to_epsilon, rdp_to_log_delta
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, GaussianCost, LaplaceCost
from privrl.costs.relations import (
    AddRemoveRecord,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
)
from privrl.costs.simplex import SimplexCost

Rng = np.random.Generator
Vector = tuple[float, ...]

NUDGE = 2.0**-48
ABOVE = 1e-9
SMALLEST = 1e-307  # below, floats have fewer digits
GAIN = Relation("add one record", {"counts": [(1,)]})
LOSS = Relation("remove one record", {"counts": [(-1,)]})
DELTAS_A_RELEASE = 10


# Balls ------------------------------------------------------------------------------------------


def enclosed(truth: Callable[[], arb], bits: int = 60) -> arb:
    """Return a ball of so many bits, of relative accuracy, around a number."""
    precision = 96
    while True:
        ctx.prec = precision
        ball = truth()
        if ball.is_finite() and (ball.rel_accuracy_bits() >= bits or ball == 0):
            return ball
        precision *= 2
        if precision > 1 << 17:
            raise ArithmeticError("no ball is narrow enough")


def largest(balls: list[arb]) -> arb:
    ball = balls[0]
    for other in balls[1:]:
        ball = ball.max(other)
    return ball


def exactly(value: float | Fraction) -> arb:
    fraction = Fraction(value)
    return arb(fmpq(fraction.numerator, fraction.denominator))


@dataclass(frozen=True)
class Case:
    """A printed number, and the truth at its inputs moved outwards by so much."""

    printed: float
    truth: Callable[[float], arb]
    about: str
    least: bool = False
    """Whether nothing smaller could be printed."""


@dataclass
class Tally:
    """What was found of one cost."""

    checked: int = 0
    below: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    least: float = math.inf
    most: float = 0.0
    most_nudged: float = 0.0

    def add(self, case: Case) -> None:
        self.checked += 1
        ball = enclosed(partial(case.truth, 0.0))
        printed = arb(case.printed)
        if not printed >= ball.lower():
            self.below.append(f"{case.about}: {case.printed!r} is below {ball.str(20)}")
        if case.least or case.printed < SMALLEST:
            return
        excess = _over(printed, ball)
        self.least = min(self.least, excess)
        if excess <= ABOVE:
            self.most = max(self.most, excess)
            return
        nudged = _over(printed, enclosed(partial(case.truth, NUDGE)))
        self.most_nudged = max(self.most_nudged, excess)
        if not nudged <= ABOVE:
            self.above.append(f"{case.about}: {case.printed!r} is above {ball.str(20)}")

    def merge(self, other: "Tally") -> None:
        self.checked += other.checked
        self.below += other.below
        self.above += other.above
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.most_nudged = max(self.most_nudged, other.most_nudged)


def _over(printed: arb, ball: arb) -> float:
    return math.inf if ball.upper() <= 0 else float((printed / ball - 1).mid())


# Rényi divergences ------------------------------------------------------------------------------


def gamma_rdp(after: arb, before: arb, order: arb) -> arb:
    """Of Gamma(after) from Gamma(before): a mean of powers of the ratio of the densities."""
    mixed = order * after - (order - 1) * before
    if not mixed > 0:
        return arb("inf") if mixed <= 0 else arb("nan")
    log_moment = mixed.lgamma() + (order - 1) * before.lgamma() - order * after.lgamma()
    return log_moment / (order - 1)


def vector_rdp(vector: Vector, weight: float, alpha: float, order: float, nudge: float) -> arb:
    a, lam, total = exactly(alpha), exactly(order), arb(0)
    for amount in vector:
        s = exactly(abs(amount)) * exactly(weight) * (1 + exactly(nudge))
        total += gamma_rdp(a + s, a, lam) if amount > 0 else gamma_rdp(a, a + s, lam)
    return total


RELATIONS = [ReplaceRecord(), AddRemoveRecord(), ReplaceStep(), ReplaceEpisode(7), GAIN, LOSS]
RELATIONS += [Relation("a mixture", {"counts": [(0.3, -2.5, 1.7), (5.0, -0.01)]})]


def _alpha_and_weight(rng: Rng) -> tuple[float, float]:
    match rng.integers(3):
        case 0:  # all that is accepted
            return 10 ** rng.uniform(-29.9, 29.9), 10 ** rng.uniform(-29.9, 29.9)
        case 1:
            return 10 ** rng.uniform(-5, 9), 10 ** rng.uniform(-6, 6)
    alpha = 10 ** rng.uniform(-3, 4)
    return alpha, alpha * 10 ** rng.uniform(-3, 3)


def _order(rng: Rng, alpha: float, shift: float) -> float:
    match rng.integers(4):
        case 0:
            return 1 + 10 ** rng.uniform(-6, 6)
        case 1:
            return 1 + 10 ** rng.uniform(-12, 15)
        case 2:  # just before a loss is infinite
            return 1 + alpha / shift * (1 - 10 ** rng.uniform(-6.9, 0))
    return 1 + 10 ** rng.uniform(-1, 2)


def dirichlet_rdp(rng: Rng) -> Iterator[Case]:
    relation = RELATIONS[rng.integers(len(RELATIONS))]
    alpha, weight = _alpha_and_weight(rng)
    alpha = max(alpha, relation.convex_from or 0)
    fall = max([-m for v in relation.changes() for m in v if m < 0], default=1.0)
    order = _order(rng, alpha, fall * weight)
    if not 1 < order < 1e100:
        return
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
    printed = float(cost.rdp(order))

    def truth(nudge: float) -> arb:
        return largest([vector_rdp(v, weight, alpha, order, nudge) for v in relation.changes()])

    limit = Fraction(alpha) * (1 - Fraction(1e-7) * 2)
    near = Fraction(fall) * Fraction(weight) * (Fraction(order) - 1) > limit
    if math.isinf(printed) and near and relation is not GAIN:
        return  # it ends a little early: said on the page
    yield Case(printed, truth, f"{cost!r} at order {order!r}")


def gaussian_rdp(rng: Rng) -> Iterator[Case]:
    vector = _amounts(rng, whole=bool(rng.integers(2)))
    relation = Relation("this change", {"counts": [vector]})
    sigma = 10 ** rng.uniform(-29.9, 29.9) if rng.integers(2) else float(rng.integers(1, 9))
    order = _order(rng, 1.0, 1.0) if rng.integers(2) else float(rng.integers(2, 99))
    if order <= 1:
        return
    cost = GaussianCost(sigma=sigma, relation=relation)

    def truth(nudge: float) -> arb:
        square = sum(Fraction(m) ** 2 for m in vector)
        return exactly(Fraction(order) * square / (2 * Fraction(sigma) ** 2)) * (1 + exactly(nudge))

    yield Case(float(cost.rdp(order)), truth, f"{cost!r} {vector} at order {order!r}")


def _amounts(rng: Rng, whole: bool = True, most: int = 20, cells: int = 4) -> Vector:
    size = int(rng.integers(1, cells + 1))
    amounts = rng.integers(1, most + 1, size) if whole else 10 ** rng.uniform(-3, 3, size)
    return tuple(float(m) for m in amounts * rng.choice([-1, 1], size))


def laplace_rdp(rng: Rng) -> Iterator[Case]:
    vector = _amounts(rng, whole=bool(rng.integers(2)))
    scale = 10 ** rng.uniform(-20, 20) if rng.integers(2) else 10 ** rng.uniform(-2, 3)
    order = _order(rng, 1.0, 1.0)
    if order <= 1:
        return
    cost = LaplaceCost(scale=scale, relation=Relation("this", {"counts": [vector]}))

    def truth(nudge: float) -> arb:
        lam, total = exactly(order), arb(0)
        for amount in vector:
            s = exactly(Fraction(abs(amount)) / Fraction(scale)) * (1 + exactly(nudge))
            # by the parts of the line before, between and after the two peaks
            up, down = ((lam - 1) * s).exp(), (-lam * s).exp()
            total += ((lam * up + (lam - 1) * down) / (2 * lam - 1)).log() / (lam - 1)
        return total

    yield Case(float(cost.rdp(order)), truth, f"{cost!r} {vector} at order {order!r}")


def laplace_law(amount: int, scale: float, nudge: float = 0.0) -> list[tuple[int, arb]]:
    """Losses of a cell with discrete Laplace noise, in units of 1/scale, and their masses."""
    q, m = (-(1 + exactly(nudge)) / exactly(scale)).exp(), abs(amount)
    law = [(m, 1 / (1 + q)), (-m, q**m / (1 + q))]  # a noise of at most 0, of at least m
    return law + [(m - 2 * x, (1 - q) / (1 + q) * q**x) for x in range(1, m)]


def discrete_laplace_rdp(rng: Rng) -> Iterator[Case]:
    vector = _amounts(rng)
    scale = 10 ** rng.uniform(-20, 20) if rng.integers(4) == 0 else 10 ** rng.uniform(-1.5, 3)
    order = _order(rng, 1.0, 1.0)
    if order <= 1:
        return
    cost = DiscreteLaplaceCost(scale=scale, relation=Relation("this", {"counts": [vector]}))

    def truth(nudge: float) -> arb:
        more, total = exactly(order) - 1, arb(0)
        for amount in vector:
            law = laplace_law(int(amount), scale, nudge)
            moments = [mass * (more * loss / exactly(scale)).exp() for loss, mass in law]
            total += sum(moments, arb(0)).log() / more
        return total

    yield Case(float(cost.rdp(order)), truth, f"{cost!r} {vector} at order {order!r}")


def bell_sum(centre: arb, variance: arb, first: int | None = None) -> arb:
    """The sum of exp(-(x - centre)^2 / (2 variance)) over integers, all or from the first on."""
    middle = int(centre.mid().floor().unique_fmpz())
    if first is None:
        return _bell_side(centre, variance, middle + 1, 1) + _bell_side(
            centre, variance, middle, -1
        )
    if first > middle:
        return _bell_side(centre, variance, first, 1)
    return bell_sum(centre, variance) - _bell_side(centre, variance, first - 1, -1)


def _bell_side(centre: arb, variance: arb, start: int, way: int) -> arb:
    """From a start beyond the centre outwards: ratios fall, a geometric series bounds the rest."""
    term = (-((start - centre) ** 2) / (2 * variance)).exp()
    ratio = (-(2 * way * (start - centre) + 1) / (2 * variance)).exp()
    fall = (-1 / variance).exp()
    total, least = arb(0), arb(2) ** -(ctx.prec + 10)
    while True:
        total += term
        if ratio < 1 and term * ratio < total * least * (1 - ratio):
            return total + (term * ratio / (1 - ratio)).upper() * arb(0.5, 0.5)
        term *= ratio
        ratio *= fall


def _sigma(rng: Rng) -> float:
    if rng.integers(30) == 0:
        return 10 ** rng.uniform(1.5, 2.7)
    return 10 ** rng.uniform(-1.5, 1.2)


def discrete_gaussian_rdp(rng: Rng) -> Iterator[Case]:
    vector, sigma = _amounts(rng, most=9, cells=2), _sigma(rng)
    order = _order(rng, 1.0, 1.0)
    if not 1 + 1e-9 < order < 1e12:
        return
    cost = DiscreteGaussianCost(sigma=sigma, relation=Relation("this", {"counts": [vector]}))

    def truth(nudge: float) -> arb:
        lam, variance, total = exactly(order), exactly(sigma) ** 2 * (1 - exactly(nudge)), arb(0)
        base = bell_sum(arb(0), variance)
        for amount in map(abs, vector):
            # P at x is the bell at 0, Q that at -amount: a bell around (λ - 1) amount
            m = arb(int(amount))
            height = lam * (lam - 1) * m**2 / (2 * variance)
            total += (height + (bell_sum((lam - 1) * m, variance) / base).log()) / (lam - 1)
        return total

    yield Case(float(cost.rdp(order)), truth, f"{cost!r} {vector} at order {order!r}")


def paper_rdp(rng: Rng) -> Iterator[Case]:
    relation = RELATIONS[rng.integers(len(RELATIONS))]
    alpha, weight = _alpha_and_weight(rng)
    alpha = max(alpha, relation.convex_from or 0)
    bound = ("dps", "dkl", "geumlek")[rng.integers(3)]
    furthest = max(abs(m) for v in relation.changes() for m in v)
    order = _order(rng, alpha, furthest * weight)
    if not 1 < order < 1e100:
        return
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=bound)
    printed = float(cost.rdp(order))
    if math.isinf(printed):
        return  # it says nothing, which is never below

    def truth(nudge: float) -> arb:
        lam, r, each = exactly(order), exactly(weight) * (1 + exactly(nudge)), []
        for vector in relation.changes():
            at = exactly(alpha) - (lam - 1) * r * exactly(max(map(abs, vector)))
            if not at > 0:
                return arb("inf") if at <= 0 else arb("nan")
            square = exactly(sum(Fraction(m) ** 2 for m in vector))
            trigamma = arb(2).zeta(at)
            each.append(lam / 2 * r**2 * square * trigamma * (2 if bound == "geumlek" else 1))
        return largest(each)

    yield Case(printed, truth, f"{cost!r} at order {order!r}")


# Privacy profiles: delta, and epsilon as its inverse ----------------------------------------------

Profile = Callable[[float, float], arb]  # from epsilon, and how far inputs move, to delta


def lower_gamma(t: arb, a: arb) -> arb:
    """The regularised incomplete gamma function from zero to t: a series, or one less the rest."""
    x, shape = float(t), float(a)
    if x > 0 and not (x < shape and ctx.prec / math.log2(shape / x) < 30_000):
        return 1 - t.gamma_upper(a, 1)
    term, total, n = arb(1), arb(1), 1
    while not term < arb(2) ** -ctx.prec:
        term *= t / (a + n)
        total += term
        n += 1
    ratio = t / (a + n)
    total += (term * ratio / (1 - ratio)).upper() * arb(0.5, 0.5)
    return total * (a * t.log() - t - (a + 1).lgamma()).exp()


def dirichlet_profile(kind: str, alpha: float, shift: float, epsilon: float, nudge: float) -> arb:
    """The hockey-stick divergence where the loss is a function of one gamma or beta variable."""
    a, e = exactly(alpha), exactly(epsilon) * (1 - exactly(nudge))
    s = exactly(shift) * (1 + exactly(nudge))
    if kind == "pair":
        x = 1 / (1 + (e / s).exp())
        return x.beta_lower(a, a + s, True) - e.exp() * x.beta_lower(a + s, a, True)
    c = (a + s).lgamma() - a.lgamma()
    if kind == "gain":
        t = ((e + c) / s).exp()
        return t.gamma_upper(a + s, 1) - e.exp() * t.gamma_upper(a, 1)
    t = ((c - e) / s).exp()
    return lower_gamma(t, a) - e.exp() * lower_gamma(t, a + s)


def _of_profile(
    rng: Rng, cost, profile: Profile, top: float, *, wanted: str, about: str = ""
) -> Iterator[Case]:
    """Deltas at epsilons up to the top, or epsilons at random deltas."""
    about = f"{cost!r} {about}"
    if wanted == "delta":
        shares = rng.uniform(0, 1, DELTAS_A_RELEASE)
        epsilons = top * np.where(rng.integers(2, size=len(shares)), shares, shares**6)
        for epsilon, printed in zip(epsilons, cost.delta(epsilons), strict=True):
            yield Case(float(printed), partial(profile, float(epsilon)), f"{about} at {epsilon!r}")
        return
    delta = float(10 ** -rng.uniform(0, 299) if rng.integers(2) else rng.uniform())
    epsilon = float(cost.epsilon(delta))
    # Epsilon is not too small if its delta is not too large; nor too large but in its digits.
    yield Case(
        delta,
        lambda nudge: profile(epsilon, 1e-9 if nudge else 0.0),
        f"{about} at delta {delta!r}",
        least=epsilon == 0,
    )


def dirichlet_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    kinds = {"pair": ReplaceRecord(), "gain": GAIN, "loss": LOSS, "worse": AddRemoveRecord()}
    kind = list(kinds)[rng.integers(4)]
    alpha = 10 ** rng.uniform(-4, 7 if rng.integers(20) == 0 else 5)
    weight = 10 ** rng.uniform(-5, 5) if rng.integers(2) else alpha * 10 ** rng.uniform(-3, 2)
    cost = DirichletCost(weight=weight, alpha=alpha, relation=kinds[kind])
    each = ["gain", "loss"] if kind == "worse" else [kind]

    def profile(epsilon: float, nudge: float) -> arb:
        return largest([dirichlet_profile(k, alpha, weight, epsilon, nudge) for k in each])

    top = float(cost.epsilon(1e-300)) if wanted == "delta" else 0.0
    yield from _of_profile(rng, cost, profile, top, wanted=wanted)


def gaussian_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    vector = _amounts(rng, whole=bool(rng.integers(2)))
    square = sum(Fraction(m) ** 2 for m in vector)
    sigma = 10 ** rng.uniform(-4, 9)
    cost = GaussianCost(sigma=sigma, relation=Relation("this", {"counts": [vector]}))

    def profile(epsilon: float, nudge: float) -> arb:
        e = exactly(epsilon) * (1 - exactly(nudge))
        m = exactly(square).sqrt() / exactly(sigma) * (1 + exactly(nudge))
        low, high = (e / m - m / 2) / arb(2).sqrt(), (e / m + m / 2) / arb(2).sqrt()
        # erfc(z) = exp(−z²) U(1/2, 1/2, z²) / √π, and e − high² = −low²
        scaled = (high**2).hypgeom_u(arb(0.5), arb(0.5)) / arb.pi().sqrt()
        return (low.erfc() - (-(low**2)).exp() * scaled) / 2

    m = math.sqrt(square) / sigma
    yield from _of_profile(rng, cost, profile, m * (37 + m / 2), wanted=wanted, about=f"{vector}")


def choice_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    scale, sensitivity = 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-2, 3)
    if sensitivity > 100 * scale:
        return
    cost = ChoiceCost(scale=scale, sensitivity=sensitivity, relation=ReplaceRecord())
    spread = Fraction(2) * Fraction(sensitivity) / Fraction(scale)

    def profile(epsilon: float, nudge: float) -> arb:
        apart = exactly(spread) * (1 + exactly(nudge))
        e = exactly(epsilon) * (1 - exactly(nudge))
        if e >= apart:
            return arb(0)
        # the larger of two outcomes' deltas, where the first has the loss (apart + e) / 2
        t = (apart + e) / 2
        return (apart.exp() - t.exp()) / (apart.exp() - 1) * (1 - (e - t).exp())

    yield from _of_profile(rng, cost, profile, float(spread), wanted=wanted)


def choice_rdp(rng: Rng) -> Iterator[Case]:
    scale, sensitivity = 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-2, 3)
    order = _order(rng, 1.0, 1.0)
    if order <= 1:
        return
    cost = ChoiceCost(scale=scale, sensitivity=sensitivity, relation=ReplaceRecord())

    def truth(nudge: float) -> arb:
        apart = exactly(Fraction(2) * Fraction(sensitivity) / Fraction(scale)) * (
            1 + exactly(nudge)
        )
        return (exactly(order) * apart**2 / 8).min(apart)

    yield Case(float(cost.rdp(order)), truth, f"{cost!r} at order {order!r}")


def laplace_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    two = bool(rng.integers(2))
    amount = float(10 ** rng.uniform(-2, 2))
    vector = (amount, -amount) if two else (amount,)
    scale = 10 ** rng.uniform(-5, 9)
    cost = LaplaceCost(scale=scale, relation=Relation("this", {"counts": [vector]}))

    def profile(epsilon: float, nudge: float) -> arb:
        s = exactly(Fraction(amount) / Fraction(scale)) * (1 + exactly(nudge))
        e = exactly(epsilon) * (1 - exactly(nudge))
        top = 2 * s if two else s
        if not e < top:
            return arb(0)
        h = (top - e) / 2
        # The loss is V below its top: V = 0 with one half, or exponential with mean 2. Of two
        # cells, V = 0 with one quarter, else exponential (one half) or a sum of two.
        if not two:
            return 1 - (-h).exp()
        return 1 - (1 + h / 2) * (-h).exp()

    yield from _of_profile(rng, cost, profile, cost.pure_epsilon, wanted=wanted, about=f"{vector}")


def discrete_laplace_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    vector, scale = _amounts(rng, most=12, cells=3), 10 ** rng.uniform(-1.5, 6)
    cost = DiscreteLaplaceCost(scale=scale, relation=Relation("this", {"counts": [vector]}))

    def profile(epsilon: float, nudge: float) -> arb:
        e, b = exactly(epsilon) * (1 - exactly(nudge)), exactly(scale) * (1 - exactly(nudge))
        total = arb(0)
        for atoms in product(*(laplace_law(int(m), scale, nudge) for m in vector)):
            gap = sum(loss for loss, _ in atoms) / b - e
            if gap > 0:
                total += math.prod([mass for _, mass in atoms], start=arb(1)) * (1 - (-gap).exp())
        return total

    yield from _of_profile(rng, cost, profile, cost.pure_epsilon, wanted=wanted, about=f"{vector}")


def discrete_gaussian_profiles(rng: Rng, wanted: str) -> Iterator[Case]:
    m, sigma, two = int(rng.integers(1, 10)), _sigma(rng), bool(rng.integers(2))
    vector = (m, -m) if two else (m,)
    cost = DiscreteGaussianCost(sigma=sigma, relation=Relation("this", {"counts": [vector]}))

    def profile(epsilon: float, nudge: float) -> arb:
        variance = exactly(sigma) ** 2
        e, steep = exactly(epsilon) * (1 - exactly(nudge)), m / variance
        lattices = [(arb(0), variance, arb(1))]
        norm = bell_sum(arb(0), variance)
        if two:
            halves = [(arb(c) / 2, bell_sum(arb(c) / 2, variance / 2)) for c in (0, 1)]
            lattices = [(offset, variance / 2, weight) for offset, weight in halves]
            norm = norm**2
        # The loss is steep (x + m/2) of one cell, and steep (d + m) of two, d a difference; d/2 has
        # the bell of half the variance. Either is shifted by m under the other law.
        start, total = (e / steep - m) / 2 if two else e / steep - arb(m) / 2, arb(0)
        for offset, spread, weight in lattices:
            first = int((start - offset).upper().floor().unique_fmpz()) + 1
            here = bell_sum(-offset, spread, first)
            there = bell_sum(-offset - m, spread, first)
            total += weight * (here - e.exp() * there)
        return total / norm

    width = sigma / math.sqrt(len(vector))
    top = m / width * (37 + m / width)
    yield from _of_profile(rng, cost, profile, top, wanted=wanted, about=f"{vector}")


# Pure epsilons and conversions -------------------------------------------------------------------


def pure_epsilon(rng: Rng) -> Iterator[Case]:
    whole = bool(rng.integers(2))
    vector, scale = _amounts(rng, whole=whole), float(10 ** rng.uniform(-29.9, 29.9))
    kind = DiscreteLaplaceCost if whole else LaplaceCost
    cost = kind(scale=scale, relation=Relation("this", {"counts": [vector]}))
    most = sum(abs(Fraction(m)) for m in vector)
    yield Case(cost.pure_epsilon, lambda _: exactly(most / Fraction(scale)), f"{cost!r} {vector}")


def _point(rng: Rng) -> tuple[float, float]:
    order = 1 + 10 ** (rng.uniform(-6, 6) if rng.integers(2) else rng.uniform(-1, 2))
    return float(order), float(10 ** rng.uniform(-12, 6))


def epsilon_of_rdp(rng: Rng) -> Iterator[Case]:
    order, rdp = _point(rng)
    delta = float(10 ** -rng.uniform(0, 300) if rng.integers(2) else rng.uniform(1e-9, 1))
    printed = float(rdp_to_epsilon(np.array([order]), np.array([rdp]), delta))

    def truth(nudge: float) -> arb:
        lam, d = exactly(order), exactly(delta)
        parts = exactly(rdp), (1 - 1 / lam).log(), -d.log() / (lam - 1), -lam.log() / (lam - 1)
        return sum(parts, exactly(nudge) * sum(map(abs, parts), arb(0))).max(arb(0))

    yield Case(printed, truth, f"rdp {rdp!r} of order {order!r} at delta {delta!r}")


def delta_of_rdp(rng: Rng) -> Iterator[Case]:
    order, rdp = _point(rng)
    epsilon = rdp + float(rng.uniform(-5, 600)) / (order - 1)
    if epsilon < 0:
        return
    accountant = RdpAccountant(orders=[order])
    accountant.compose(_Fixed(rdp))
    printed = float(accountant.delta(epsilon))

    def truth(nudge: float) -> arb:
        lam, e, cost = exactly(order), exactly(epsilon), exactly(rdp)
        log_moment = (lam - 1) * (cost * (1 + exactly(nudge)) - e * (1 - exactly(nudge)))
        return (log_moment.exp() * (1 - 1 / lam) ** lam / (lam - 1)).min(arb(1))

    log_delta = float(rdp_to_log_delta(np.array([order]), np.array([rdp]), epsilon))
    assert math.exp(log_delta) <= printed
    yield Case(printed, truth, f"rdp {rdp!r} of order {order!r} at epsilon {epsilon!r}")


@dataclass(frozen=True)
class _Fixed:
    """A release of which one number is known."""

    cost: float
    relation: Relation = field(default_factory=ReplaceRecord)

    def rdp(self, orders):
        return np.full_like(orders, self.cost)

    def delta(self, epsilon):
        return np.ones_like(epsilon)

    def epsilon(self, delta):
        return np.asarray(np.inf)


# Many releases ------------------------------------------------------------------------------------


def _several(rng: Rng) -> tuple[list[tuple[DirichletCost | GaussianCost, int]], Callable]:
    """Some releases with counts, and the truth about their sum at an order."""
    some = []
    for _ in range(rng.integers(1, 5)):
        size, prior = 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-1, 3)
        record = ReplaceRecord()
        cost = (
            GaussianCost(sigma=1 / size, relation=record)
            if rng.integers(2)
            else DirichletCost(weight=size, alpha=prior, relation=record)
        )
        some.append((cost, 2 * int(rng.integers(1, 500)) + 1))

    def truth(order: float) -> arb:
        total = arb(0)
        for cost, count in some:
            if isinstance(cost, GaussianCost):
                total += count * exactly(order) / exactly(cost.sigma) ** 2
            else:
                one = vector_rdp((1.0, -1.0), cost.weight, cost.alpha, order, 0.0)
                total += count * one
        return total

    return some, truth


def _composed(some, rng: Rng, orders) -> RdpAccountant:
    accountant = RdpAccountant(orders=orders)
    if rng.integers(2):
        for _ in range(2):
            accountant.compose(Together([cost for cost, n in some for _ in range(n // 2)]))
        for cost, n in some:
            accountant.compose(cost, n % 2)
    else:
        for cost, n in some:
            accountant.compose(cost, n)
    return accountant


def sum_of_rdps(rng: Rng) -> Iterator[Case]:
    some, truth = _several(rng)
    orders = np.unique(1 + 10 ** rng.uniform(-3, 2, 8))
    accountant = _composed(some, rng, orders)
    for order, printed in zip(orders.tolist(), accountant.rdp, strict=True):
        if math.isfinite(printed):
            yield Case(float(printed), lambda _, at=order: truth(at), f"{some} at order {order!r}")


def epsilon_of_many(rng: Rng) -> Iterator[Case]:
    some, truth = _several(rng)
    orders, delta = 1 + np.geomspace(1e-3, 1e3, 25), float(10 ** -rng.uniform(0.1, 200))
    accountant = _composed(some, rng, orders)

    def least(_: float) -> arb:
        each = []
        for order in orders.tolist():
            lam, cost = exactly(order), truth(order)
            if cost.is_finite():
                gap = (exactly(delta) * lam).log() / (lam - 1)
                each.append(cost + (1 - 1 / lam).log() - gap)
        lowest = each[0]
        for ball in each[1:]:
            lowest = lowest.min(ball)
        return lowest.max(arb(0))

    yield Case(float(accountant.epsilon(delta)), least, f"{some} at delta {delta!r}")


# The unit simplex: with whole concentrations the law is a finite sum ------------------------------


def simplex_delta(rng: Rng) -> Iterator[Case]:
    n, a = int(rng.integers(2, 4)), int(rng.integers(1, 6))
    total = int(n * a + rng.integers(1, 60) + 1)
    eta, rest = a / total, 1 - n * a / total
    eta_bar = rest * float(rng.uniform(0.1, 0.9))
    if total * eta_bar < 1 or total * eta != a:
        return
    room = 1 - eta_bar - n * eta
    distance, vectors = float(2 * room * rng.uniform(0.01, 0.99)), int(rng.integers(1, 50))
    try:
        cost = SimplexCost(
            weight=total, eta=eta, eta_bar=eta_bar, n_components=n, distance=distance,
            n_vectors=vectors,
        )  # fmt: skip
    except ValueError:
        return

    def truth(epsilon: float, nudge: float) -> arb:
        shrink = 1 - exactly(nudge)
        whole, e = arb(a), exactly(epsilon) * shrink
        c = total * (1 - exactly(eta_bar))
        s = total * exactly(Fraction(distance) / (2 * vectors)) / shrink
        ratio = _log_beta(whole, c - whole) - _log_beta(whole + s, c - whole - s)
        gamma = 1 / (((e - ratio) / s).exp() + n - 1)
        # No component is short where, of total − 1 uniform points, fewer than a are in each of n
        # intervals of length gamma (Olkin and Sobel, 1965).
        none, points = arb(0), total - 1
        for counts in product(range(a), repeat=n):
            here, ways, left = sum(counts), 1, points
            for k in counts:
                ways *= math.comb(left, k)
                left -= k
            none += ways * gamma**here * (1 - n * gamma) ** (points - here)
        return 1 - none

    epsilons = float(cost.epsilon(0.5)) * (1 + 10 ** rng.uniform(-2, 1.3, 3))
    for epsilon, printed in zip(epsilons.tolist(), cost.delta(epsilons), strict=True):
        if 0 < printed < 1:
            yield Case(float(printed), partial(truth, epsilon), f"{cost!r} at {epsilon!r}")


def _log_beta(a: arb, b: arb) -> arb:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# All of them --------------------------------------------------------------------------------------

COSTS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "dirichlet rdp": dirichlet_rdp,
    "gaussian rdp": gaussian_rdp,
    "choice rdp": choice_rdp,
    "laplace rdp": laplace_rdp,
    "discrete laplace rdp": discrete_laplace_rdp,
    "discrete gaussian rdp": discrete_gaussian_rdp,
    "papers' rdp": paper_rdp,
    "pure epsilon": pure_epsilon,
    "epsilon of rdp": epsilon_of_rdp,
    "delta of rdp": delta_of_rdp,
    "sum of rdps": sum_of_rdps,
    "epsilon of many": epsilon_of_many,
    "simplex delta": simplex_delta,
}
for _name, _profiles in {
    "dirichlet": dirichlet_profiles,
    "gaussian": gaussian_profiles,
    "choice": choice_profiles,
    "laplace": laplace_profiles,
    "discrete laplace": discrete_laplace_profiles,
    "discrete gaussian": discrete_gaussian_profiles,
}.items():
    COSTS |= {f"{_name} {w}": partial(_profiles, wanted=w) for w in ("delta", "epsilon")}


def hold(name: str, n: int, seed: int = 0) -> Tally:
    """Hold ``n`` random parameters of one cost against balls."""
    rng, tally = np.random.default_rng([seed, *name.encode()]), Tally()
    while tally.checked < n:
        for case in COSTS[name](rng):
            tally.add(case)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=100_000)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", type=int, default=20)
    given = parser.parse_args()
    names = [name for name in COSTS if given.name in name]
    wrong = 0
    print(f"{'cost':25} {'checked':>8} {'below':>6} {'above':>6}  least over  most over  by digits")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in names:
            seconds, tally = time.monotonic(), Tally()
            each = math.ceil(given.n / given.parts)
            seeds = range(given.seed * given.parts, (given.seed + 1) * given.parts)
            for part in pool.map(partial(hold, name, each), seeds):
                tally.merge(part)
            seconds = time.monotonic() - seconds
            print(
                f"{name:25} {tally.checked:8} {len(tally.below):6} {len(tally.above):6}  "
                f"{tally.least:10.1e} {tally.most:10.1e} {tally.most_nudged:10.1e}  "
                f"({seconds:.0f} s)",
                flush=True,
            )
            for line in (tally.below + tally.above)[:6]:
                print("   ", line)
            wrong += len(tally.below) + len(tally.above)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
