"""Budgets are privacy filters: the exact delta of adaptive strategies, against every accountant.

A strategy is a tree. *Gates* split it: each returns a bit, and what is released next depends on it.
Every path ends with as large a *final* release as the accountant lets through. The adversary knows
the accountants' rules, and makes gates and finals of which different Rényi orders are the best, so
that an accountant that picks the best order afterwards pays the whole of delta on every path.

The exact delta of a tree is the sum over its leaves of ``max(0, P(leaf) - exp(epsilon) Q(leaf))``;
of releases on the real line, after they were rounded to cells, which is post-processing.
"""

import math
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from privrl.accounting import (
    ApproxDP,
    Budget,
    BudgetExceeded,
    Ledger,
    PldAccountant,
    RdpAccountant,
    RenyiDP,
)
from privrl.accounting.amounts import Amount, curve_from_bytes, curve_of_one, pure_of
from privrl.costs.base import BatchCost, Cost
from privrl.costs.conversion import DEFAULT_ORDERS
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import AddRemoveRecord, Relation

RELATION = AddRemoveRecord()
ORDERS = DEFAULT_ORDERS[::8]  # which is quicker
N_STRATEGIES = 1000
_CELLS = 64


@dataclass(frozen=True)
class Bit:
    """A plug-in cost, of randomised response: a bit that is 1 with probability p or q."""

    p: float
    q: float
    relation: Relation = RELATION
    fixed: ClassVar[bool] = True

    def laws(self) -> np.ndarray:
        return np.array([[1 - self.p, self.p], [1 - self.q, self.q]])

    def rdp(self, orders: Any) -> np.ndarray:
        return bits_rdp(np.array([self.p]), np.array([self.q]), np.asarray(orders, float))[0]

    def delta(self, epsilon: Any) -> np.ndarray:
        (p, q), times = self.laws(), np.exp(np.asarray(epsilon, float))[..., None]
        there, back = np.maximum(p - times * q, 0), np.maximum(q - times * p, 0)
        return np.maximum(there.sum(-1), back.sum(-1))

    def epsilon(self, delta: float) -> np.ndarray:
        grid = np.append(0.0, np.geomspace(1e-3, 100, 2000))
        fits = self.delta(grid) <= delta
        return np.asarray(grid[fits.argmax()] if fits.any() else np.inf)


def bits_rdp(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the larger of both divergences of bits, shape (n, *orders.shape), rounded up."""
    p, q = (each.reshape(-1, *(1,) * orders.ndim) for each in (p, q))
    both = [
        np.logaddexp(
            orders * np.log(a) + (1 - orders) * np.log(b),
            orders * np.log1p(-a) + (1 - orders) * np.log1p(-b),
        )
        for a, b in ((p, q), (q, p))
    ]
    return np.maximum(np.maximum(*both), 0) / (orders - 1) * (1 + 1e-12)


def final_bits(loss: float, left: np.ndarray, at: int) -> list[Cost]:
    """Return bits of a loss, the likeliest first, that fit by any order or by one of them.

    About so: the moments of rare bits are nearly linear in their probability.
    """
    more = ORDERS - 1
    with np.errstate(over="ignore", invalid="ignore"):
        each = np.expm1(more * np.maximum(left, 0)) / (np.expm1(more * loss) + 1 - ORDERS)
    each = np.where(np.isfinite(each), each, 0.0).clip(0, 0.5)
    likely = [share * p for p in (each.max(), each[at]) for share in (0.999, 0.9)]
    return [Bit(p, p * math.exp(-loss)) for p in map(float, likely) if p > 1e-12]


def noise(kind: str, size: float) -> Cost:
    """Return a cost of the library; ``size`` is about the privacy loss."""
    match kind:
        case "gaussian":
            return GaussianCost(sigma=1 / size, relation=RELATION)
        case "laplace":
            return LaplaceCost(scale=1 / size, relation=RELATION)
    return DirichletCost(weight=size, alpha=2.0, relation=RELATION)


def laws(cost: Cost, cells: int) -> np.ndarray:
    """Return both laws of a release that is rounded to cells, shape (2, cells)."""
    return cost.laws() if isinstance(cost, Bit) else noise_laws(cost, cells)


@cache
def noise_laws(cost: Cost, cells: int) -> np.ndarray:
    match cost:
        case GaussianCost():
            one, other = stats.norm(1, cost.sigma), stats.norm(0, cost.sigma)
        case LaplaceCost():
            one, other = stats.laplace(1, cost.scale), stats.laplace(0, cost.scale)
        case DirichletCost():
            one, other = stats.gamma(cost.alpha + cost.weight), stats.gamma(cost.alpha)
    ends = [other.ppf(1e-9), one.isf(1e-9)]
    edges = np.linspace(*ends, cells - 1) if cells > 2 else np.array([one.isf(0.05)])
    return np.diff([np.r_[0, each.cdf(edges), 1] for each in (one, other)], axis=1)


KINDS = ("gaussian", "laplace", "dirichlet")
NOISES = {kind: [noise(kind, s) for s in np.geomspace(8, 1e-3, 40)] for kind in KINDS}
CURVES = {kind: np.array([cost.rdp(ORDERS) for cost in costs]) for kind, costs in NOISES.items()}


def free_at(budget: ApproxDP) -> np.ndarray:
    """Return the divergence that each order allows."""
    more = ORDERS - 1
    return (
        budget.epsilon
        + (math.log(budget.delta) + np.log(more)) / more
        - ORDERS / more * (np.log1p(-1 / ORDERS))
    )


class InMemory:
    """An accountant that was told of the releases of one path."""

    def __init__(self, accountant: Any) -> None:
        self.accountant = accountant

    def accepts(self, cost: Cost) -> bool:
        try:
            self.accountant.compose(cost)
        except BudgetExceeded:
            return False
        return True

    def fork(self) -> "InMemory":
        return type(self)(copy(self.accountant))


class InBatch(InMemory):
    """The same, with other runs beside it that have budgets of their own."""

    def accepts(self, cost: Cost) -> bool:
        return super().accepts(BatchCost([GaussianCost(sigma=1e4, relation=RELATION), cost, cost]))


class InLedger:
    """What a ledger's budget says of the sums of one path."""

    def __init__(self, budget: Budget, total: Amount | None = None) -> None:
        self.budget = budget
        self.total = Amount.nothing(tuple(ORDERS.tolist())) if total is None else total

    def accepts(self, cost: Cost) -> bool:
        curve = curve_from_bytes(curve_of_one(cost, self.total.orders).astype("<f8").tobytes())
        after = self.total + Amount(self.total.orders, curve, pure_of(cost), 1)
        if not self.budget.admits(after, cost if after.releases == 1 else None):
            return False
        self.total = after
        return True

    def fork(self) -> "InLedger":
        return InLedger(self.budget, self.total)


class InFile:
    """A ledger's file: every path is a data set of its own, of which all is charged anew."""

    def __init__(self, ledger: Ledger, budget: Budget, path: tuple[Cost, ...] = ()) -> None:
        self.ledger, self.budget, self.path = ledger, budget, ()
        name = f"path {len(ledger.budgets()) if ledger.is_there else 0}"
        ledger.set_budget(name, budget)
        self.accountant = ledger.accountant(name)
        for cost in path:
            assert self.accepts(cost)

    def accepts(self, cost: Cost) -> bool:
        try:
            self.accountant.compose(cost)
        except BudgetExceeded:
            return False
        self.path = (*self.path, cost)
        return True

    def fork(self) -> "InFile":
        return InFile(self.ledger, self.budget, self.path)


class Strategy:
    """Chooses each release by the outcomes before it, at random and as large as it may be."""

    def __init__(self, budget: ApproxDP, rng: np.random.Generator, plug_in: bool) -> None:
        self.budget, self.rng, self.plug_in = budget, rng, plug_in
        self.free = free_at(budget)
        self.depth = int(rng.integers(2, 5))
        # Gates decide between finals of ever smaller best orders.
        self.best = np.sort(1 + np.exp(rng.uniform(-0.7, 4, self.depth)))[::-1]

    def gate(self, level: int) -> Cost:
        if not self.plug_in and self.rng.random() < 0.5:
            return NOISES[str(self.rng.choice(KINDS))][int(self.rng.integers(10, 35))]
        high, low = self.best[level] - 1, self.best[level + 1] - 1
        loss = self.rng.uniform(0.3, 0.9) * self.budget.epsilon * self.rng.random()
        # Its cost is large at the one order and small at the next.
        rate = -loss * (low + (high - low) * self.rng.uniform(0.3, 0.8))
        p = min(math.exp(max(rate, -25.0)), 0.4)
        return Bit(p, p * math.exp(-loss))

    def finals(self, level: int, path_loss: float, spent: np.ndarray, first: Cost) -> list[Cost]:
        """Return releases that may fit, the largest first: by any order, or by the first one's."""
        left = self.free - spent
        at = self.budget.deciding_order(ORDERS, first.rdp(ORDERS))
        if self.plug_in or self.rng.random() < 0.4:
            beyond = -math.log1p(-1 / self.best[level])
            return final_bits(max(self.budget.epsilon + beyond - path_loss, 0.01), left, at)
        kind = str(self.rng.choice(KINDS))
        fits = CURVES[kind] <= left
        largest = [int(each.argmax()) for each in (fits.any(axis=1), fits[:, at]) if each.any()]
        return [NOISES[kind][i] for i in largest]

    def delta(self, play: Any) -> float:
        """Play against an accountant and return the exact delta of all that it lets through."""
        leaves: list[np.ndarray] = []  # of each, both probabilities
        path, spent, first = np.ones(2), np.zeros_like(ORDERS), None
        for level in range(self.depth):
            gate = self.gate(level) if level < self.depth - 1 else None
            if gate is None or not play.accepts(gate):
                leaves.append(self.end(play, level, path, spent, first))
                break
            first = gate if first is None else first
            spent = spent + gate.rdp(ORDERS)
            split = laws(gate, 2)
            leaves.append(self.end(play.fork(), level, path * split[:, 1], spent, first))
            path = path * split[:, 0]
        probabilities = np.concatenate(leaves, axis=1)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
        times = math.exp(self.budget.epsilon)
        both = (probabilities, probabilities[::-1])
        return max(float(np.maximum(p - times * q, 0).sum()) for p, q in both)

    def end(
        self, play: Any, level: int, path: np.ndarray, spent: np.ndarray, first: Cost | None
    ) -> np.ndarray:
        """Make the largest final release that is let through; return its leaves."""
        loss = math.log(path[0] / path[1])
        tried = self.finals(level, loss, spent, Bit(0.5, 0.4) if first is None else first)
        made = next((cost for cost in tried if play.accepts(cost)), None)
        return path[:, None] if made is None else path[:, None] * laws(made, _CELLS)


def budget_of(rng: np.random.Generator) -> ApproxDP:
    return ApproxDP(float(rng.uniform(1, 10)), float(10 ** rng.uniform(-7, -3)))


def worst_share(make: Any, n: int, seed: int) -> float:
    """Return the largest share of its budget's delta that a strategy reaches."""
    rng = np.random.default_rng(seed)
    shares = []
    for i in range(n):
        budget = budget_of(rng)
        strategy = Strategy(budget, rng, plug_in=i % 2 == 0)
        shares.append(strategy.delta(make(budget)) / budget.delta)
    return max(shares)


ACCOUNTANTS = {
    "renyi": lambda budget: InMemory(RdpAccountant(orders=ORDERS, budget=budget)),
    "batch": lambda budget: InBatch(
        RdpAccountant(orders=ORDERS, budget=[None, RenyiDP(2, 1e9), budget])
    ),
    "ledger": lambda budget: InLedger(Budget(budget.epsilon, budget.delta)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_no_strategy_of_some_exceeds_a_budget(name: str) -> None:
    assert worst_share(ACCOUNTANTS[name], N_STRATEGIES // 4, seed=11) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_no_strategy_exceeds_a_budget(name: str) -> None:
    worst = worst_share(ACCOUNTANTS[name], N_STRATEGIES, seed=1)
    assert 0.5 < worst <= 1  # and the adversary is a strong one


@pytest.mark.slow
def test_no_strategy_exceeds_the_budget_of_a_ledgers_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    worst = worst_share(
        lambda budget: InFile(ledger, Budget(budget.epsilon, budget.delta)), 15, seed=2
    )
    assert worst <= 1


@pytest.mark.slow
def test_no_strategy_exceeds_a_budget_of_loss_distributions() -> None:
    """Without a plan the first cost is let through again, and nothing else."""
    worst = worst_share(lambda budget: InMemory(PldAccountant(budget=budget)), 12, seed=3)
    assert worst <= 1


PLANNED = [Bit(0.3, 0.1), Bit(0.2, 0.02), Bit(0.6, 0.3), NOISES["laplace"][8]]


@pytest.mark.slow
def test_no_order_of_a_plan_exceeds_its_budget() -> None:
    """Outcomes choose which of the planned releases is next, or another; or none."""
    rng, worst = np.random.default_rng(4), 0.0
    for _ in range(20):
        plan = [(PLANNED[i], int(rng.integers(1, 3))) for i in rng.permutation(4)[:3]]
        whole = PldAccountant()
        for cost, count in plan:
            whole.compose(cost, count)
        delta = float(10 ** rng.uniform(-4, -1))
        budget = ApproxDP(float(whole.epsilon(delta)) * (1 + 1e-9), delta)
        play = InMemory(PldAccountant(budget=budget, plan=plan))
        leaves = [(play, np.ones((2, 1)))]
        for _ in range(4):
            leaves = [
                (branch, part)
                for one, path in leaves
                for branch, part in _next(one, path, PLANNED[int(rng.integers(4))])
            ]
        p, q = np.concatenate([path for _, path in leaves], axis=1)
        for one, other in ((p, q), (q, p)):
            share = np.maximum(one - math.exp(budget.epsilon) * other, 0).sum() / delta
            worst = max(worst, float(share))
    assert 0.1 < worst <= 1


def _next(play: InMemory, path: np.ndarray, cost: Cost) -> list[tuple[InMemory, np.ndarray]]:
    if not play.accepts(cost):
        return [(play, path)]
    return [(play.fork(), path * part) for part in np.split(laws(cost, 2), 2, axis=1)]


# What is stated --------------------------------------------------------------------------------

FIRST = Bit(0.00038612329824953747, 8.909242493473887e-05)
AFTER = (  # what is released next, if the first bit is 0 and if it is 1
    Bit(5.699546076534534e-06, 3.7282317340130497e-10),
    Bit(0.08634337095724277, 3.3638237115295754e-05),
)
ATTACKED = ApproxDP(9.261728198673865, 1.7935119876602662e-06)


def test_a_known_attack_is_refused() -> None:
    """Three bits whose delta is twice the budget's; the best orders of both paths are far apart."""
    first = RdpAccountant(budget=ATTACKED)
    first.compose(FIRST)
    assert sum(InMemory(copy(first)).accepts(cost) for cost in AFTER) < 2
    planned = RdpAccountant(budget=ATTACKED, plan=[(FIRST, 1), (AFTER[0], 1)])
    planned.compose(FIRST)
    with pytest.raises(
        BudgetExceeded, match=r"kept at Rényi order 3\.\d+, as fixed before the first"
    ):
        copy(planned).compose(AFTER[1])
    planned.compose(AFTER[0])


def test_an_epsilon_of_what_was_spent_is_for_planned_costs() -> None:
    """Either path alone has that epsilon; both, chosen by the first bit, have not."""
    stated, exact = [], 0.0
    for bit, cost in enumerate(AFTER):
        accountant = RdpAccountant()
        accountant.compose(FIRST)
        accountant.compose(cost)
        stated.append(float(accountant.epsilon(ATTACKED.delta)))
        p, q = FIRST.laws()[:, bit, None] * cost.laws()
        exact += np.maximum(p - math.exp(ATTACKED.epsilon) * q, 0).sum()
    assert max(stated) <= ATTACKED.epsilon
    assert exact > 1.9 * ATTACKED.delta


def test_a_plan_that_is_kept_to_loses_nothing() -> None:
    """The order that is best for all of it decides, and not the first release's."""
    plan = [(NOISES["laplace"][12], 1), (NOISES["gaussian"][20], 30), (Bit(0.6, 0.3), 2)]
    free = RdpAccountant()
    for cost, count in plan:
        free.compose(cost, count)
    budget = ApproxDP(float(free.epsilon(1e-5)) * (1 + 1e-9), 1e-5)
    kept = RdpAccountant(budget=budget, plan=plan)
    for cost, count in reversed(plan):
        kept.compose(cost, count)
    with pytest.raises(BudgetExceeded, match=r"to epsilon .*, over the budget .* 100 % of it"):
        kept.compose(Bit(0.6, 0.3))


def test_a_large_first_release_leaves_room_for_others() -> None:
    """Half of a budget for one Laplace release, whose own best order is infinite."""
    accountant = RdpAccountant(budget=ApproxDP(1, 1e-5))
    accountant.compose(LaplaceCost(scale=1 / 0.55, relation=RELATION))
    accountant.compose(GaussianCost(sigma=20, relation=RELATION))


def test_rows_of_a_batch_have_orders_of_their_own() -> None:
    costs = [NOISES["laplace"][14], NOISES["gaussian"][14]]
    budgets = []
    for cost in costs:
        free = RdpAccountant()
        free.compose(cost, 7)
        budgets.append(ApproxDP(float(free.epsilon(1e-5)) * (1 + 1e-9), 1e-5))
    accountant = RdpAccountant(budget=budgets)
    for _ in range(7):
        accountant.compose(BatchCost(costs))
    with pytest.raises(BudgetExceeded, match="in row 0"):
        accountant.compose(BatchCost(costs))
