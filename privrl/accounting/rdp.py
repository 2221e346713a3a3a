"""The Rényi accountant: it adds up the costs of releases and enforces the budget."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.filters import Plan, check_plan
from privrl.accounting.journal import KeepsJournal, one_at_a_time
from privrl.accounting.pending import Indices, Pending
from privrl.accounting.targets import (
    DEFAULT_DELTA,
    UNDECIDED,
    ApproxDP,
    CurveTarget,
    PureDP,
    RenyiDP,
    SumTarget,
    Target,
    float_up,
    short,
)
from privrl.costs.base import (
    BatchCost,
    Cost,
    InBulk,
    Together,
    check_cost,
    check_delta,
    check_epsilons,
    curve_of,
    delta_of,
    epsilon_of,
    have_bulk,
    is_fixed,
)
from privrl.costs.conversion import (
    DEFAULT_ORDERS,
    epsilon_by_order,
    log_delta_by_order,
    rdp_to_epsilon,
    rdp_to_log_delta,
)
from privrl.costs.relations import Relation
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_orders, check_repeats
from privrl.numerics.printing import exact, up
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import exp_up, product_up, sum_up, two_sum

_FEW = 32  # costs that are quick to evaluate at all orders
_LAST_ORDER = 1e100  # up to which no divergence overflows
_MARGIN = 1e-8  # relative, for the rounding of a sum of quick bounds


class BudgetExceeded(ValueError):
    """A release was refused because it would exceed the budget; nothing was spent."""


class RdpAccountant(KeepsJournal):
    """Compose costs by adding their Rényi divergences.

    Parameters
    ----------
    orders : array_like, shape (n_orders,), optional
        Rényi orders > 1 at which the sum is kept; by default a dense grid. The order of a
        budget is added to them.
    budget : Target or sequence of them, optional
        The limit on the joint cost of all releases. A sequence holds one budget (or None) for each
        row of a `BatchCost`; a release is refused if any row cannot afford it. `PureDP` and
        `ZeroConcentratedDP` budgets add up pure epsilons and rhos exactly, and refuse a cost
        without one.
    plan : sequence of (Cost, int), optional
        All planned charges: each cost, and its count. The plan decides at which Rényi order an
        `ApproxDP` budget is kept, and limits nothing. By default the first release is planned,
        repeated until the budget is full. Give a plan if later releases are of another kind.

    Notes
    -----
    A single release is converted to (epsilon, delta) by its own profile, which is tighter than
    its Rényi curve.

    Sums are kept in twice the working precision, so that a thousand small releases add up to
    a thousand times one of them.

    Every budget is a privacy filter: the next release, its cost and the moment of stopping may
    depend on the outcomes of earlier releases, and all releases together stay within the budget
    (`privrl.accounting.filters` has the proof). An `ApproxDP` budget is kept at one Rényi order,
    which is fixed by the plan or by the first release. `epsilon` and `delta` take the best order
    of the recorded costs; they hold if costs and number of releases (not the data) were fixed in
    advance, as by a public schedule. After adaptive choices, state the budget.

    Threads may share an accountant: checking a cost against the budget and recording it are one
    atomic step. Processes may not share one and are refused, since each would have its own copy.

    Dirichlet and Gaussian costs are evaluated lazily, all at once and only at the orders that
    matter (`privrl.accounting.pending`); all others are evaluated when they are composed.
    """

    def __init__(
        self,
        *,
        orders: ArrayLike | None = None,
        budget: Target | Sequence[Target | None] | None = None,
        plan: Plan | None = None,
    ) -> None:
        super().__init__()
        wanted = DEFAULT_ORDERS if orders is None else check_orders(orders).ravel()
        if wanted.size == 0:
            raise ValueError("orders must hold at least one Rényi order > 1, got none.")
        self._budgets = tuple(budget) if isinstance(budget, Sequence) else (budget,)
        if not self._budgets:
            raise ValueError("budget must hold one target for each row, got an empty list.")
        for target in self._budgets:
            if not isinstance(target, Target | None):
                raise ValueError(
                    "budget must be a target such as ApproxDP(...), or a list of them, got "
                    f"{shown(target)}."
                )
        points = [order for b in self._budgets if b is not None for order in b.orders]
        self._orders: FloatArray = np.array(sorted({*wanted.tolist(), *points}))
        # A copy: later changes to the argument have no effect.
        self._budget = tuple(budget) if isinstance(budget, Sequence) else budget
        self._relation: Relation | None = None
        self._sum: FloatArray = np.zeros_like(self._orders)
        self._lost: FloatArray = np.zeros_like(self._orders)  # rounding error of the sum
        self._pending = Pending(self._orders)  # composed, but not yet in the sum
        # Not where a cost could overflow, or be compared with several budgets.
        self._may_wait = bool(self._orders[-1] < _LAST_ORDER) and len(self._budgets) == 1
        self._plan = None if plan is None else check_plan(plan)
        only_one = self._budgets[0] if len(self._budgets) == 1 else None
        self._limit = _Limit(only_one) if isinstance(only_one, CurveTarget) else None
        self._exact = (Fraction(0),) * len(self._budgets)  # the spends of each `SumTarget`
        self._curve: tuple[Cost, FloatArray] | None = None
        self._only: Cost | None = None
        planned = np.zeros_like(self._orders)
        for each, count in self._plan or ():
            planned = planned + product_up(count, self._rdp_of(each))
        self._decides = self._deciding(planned)  # of each row, the order's index

    @property
    def orders(self) -> FloatArray:
        """The Rényi orders, ascending, shape (n_orders,)."""
        return self._orders.copy()

    @property
    @one_at_a_time
    def rdp(self) -> FloatArray:
        """Rényi divergence spent so far (nats), shape (..., n_orders)."""
        self._settle()
        return sum_up(self._sum, self._lost)

    @property
    def settings(self) -> tuple[object, ...]:
        """Budget and orders, and the plan if one was given."""
        own = (self._budget, self._orders)
        return own if self._plan is None else (*own, self._plan)

    @property
    def budget(self) -> Target | Sequence[Target | None] | None:
        """The limit on the joint cost of all releases."""
        return self._budget

    def unlimited(self) -> "RdpAccountant":
        """Return an accountant of the same orders, without charges or a budget."""
        return RdpAccountant(orders=self._orders)

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost ``count`` times, before the corresponding draws.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover all of them; then none is recorded.
        ValueError
            If the cost's neighbouring relation differs from that of earlier costs, ``count`` is not
            a whole number from 1 to 2**53, or another process made the accountant.
        """
        self._check_made_here()
        check_repeats("count", count)
        check_cost(cost)
        relation = self._relation_of(cost)
        only = cost if self._relation is None and count == 1 else None
        exact = self._exact_with(cost, count)
        parts = cost.parts if type(cost) is Together else (cost,)
        if self._may_wait and self._sum.ndim == 1 and have_bulk(parts):
            if self._limit is not None:
                self._check_limit(self._limit, parts, count, only)
            self._exact = exact
            for part in parts:
                self._pending.add(part, count)
        else:
            curve = product_up(count, self._rdp_of(cost))
            if self._budget is not None or curve.ndim > 1:
                self._settle()
            total, lost = two_sum(self._sum, self._lost, curve)
            self._check_budget(sum_up(total, lost), curve, only)
            self._exact, self._sum, self._lost = exact, total, lost
            if self._limit is not None:
                self._limit.spent = math.inf  # to be recomputed
        self._only, self._relation = only, relation
        self._book.add(cost, count)

    @one_at_a_time
    def spent(self, order: float) -> FloatArray:
        """Return the Rényi divergence spent at one of `orders` (nats), shape (...).

        Raises
        ------
        ValueError
            If the accountant does not keep that order.
        """
        asked = as_floats("order", order)
        at = np.flatnonzero(self._orders == asked) if asked.ndim == 0 else np.zeros(0, np.intp)
        if at.size == 0:
            raise ValueError(
                f"order must be one that this accountant keeps, got {shown(order)}; name it in "
                "orders= when making the accountant."
            )
        total, lost = self._spent_at(at)
        return np.asarray(sum_up(total, lost)[..., 0])

    @one_at_a_time
    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) at ``delta`` in (0, 1), shape (...), at the best order.

        It holds if the costs and their number were fixed in advance. After adaptive choices, the
        guarantee is the budget, which holds in any case.
        """
        delta = check_delta(delta)
        if self._search_pays:
            at, rdp = self._best(partial(epsilon_by_order, self._orders, delta=delta))
            return self._at_most_pure(rdp_to_epsilon(self._orders[at], rdp, delta))
        epsilon = rdp_to_epsilon(self._orders, self.rdp, delta)
        if self._only is not None:
            epsilon = np.minimum(epsilon, epsilon_of(self._only, delta))
        return self._at_most_pure(epsilon)

    def _at_most_pure(self, epsilon: FloatArray) -> FloatArray:
        """Return epsilons, or the sums of pure epsilons where these are known and smaller."""
        if not any(isinstance(budget, PureDP) for budget in self._budgets):
            return epsilon
        budgets = [self._budgets[i % len(self._budgets)] for i in range(len(self._exact))]
        pure = np.array(
            [
                float_up(spent) if isinstance(budget, PureDP) else np.inf
                for budget, spent in zip(budgets, self._exact, strict=True)
            ]
        )
        return np.minimum(epsilon, pure if epsilon.ndim else pure.max())

    @one_at_a_time
    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats), shape ``(..., *epsilon.shape)``.

        It holds as `epsilon` does.
        """
        epsilon = check_epsilons(epsilon)
        if self._search_pays:
            return np.reshape([self._delta_by_search(e) for e in epsilon.flat], epsilon.shape)
        rdp = self.rdp.reshape(*self._sum.shape[:-1], *(1,) * epsilon.ndim, -1)
        by_order = exp_up(rdp_to_log_delta(self._orders, rdp, epsilon))
        if self._only is None:
            return by_order
        return np.minimum(by_order, delta_of(self._only, epsilon))

    def _delta_by_search(self, epsilon: float) -> FloatArray:
        at, rdp = self._best(partial(log_delta_by_order, self._orders, epsilon=epsilon))
        return exp_up(rdp_to_log_delta(self._orders[at], rdp, epsilon))

    @property
    def _search_pays(self) -> bool:
        return self._pending.waiting > _FEW and self._sum.ndim == 1

    def _best(self, objective: Callable[[FloatArray], FloatArray]) -> tuple[Indices, FloatArray]:
        """Return indices of orders that include the best one, and the divergences spent there."""
        at = self._pending.best(self._sum + self._lost, objective)
        return at, sum_up(*self._spent_at(at))

    def _spent_at(self, at: Indices) -> tuple[FloatArray, FloatArray]:
        """Return the sum at the orders of some indices, and its rounding error."""
        more, lost = self._pending.sums(at)
        total, all_lost = two_sum(self._sum[..., at], self._lost[..., at], more)
        return total, all_lost + lost

    def _settle(self) -> None:
        """Evaluate all pending costs at every order, and add them to the sum."""
        if self._pending.waiting:
            self._sum, self._lost = self._spent_at(np.arange(len(self._orders)))
            self._pending = Pending(self._orders)

    @one_at_a_time
    def __copy__(self) -> Self:
        """Return an independent copy."""
        other = super().__copy__()
        # These are modified in place; arrays of sums are not.
        other._pending, other._limit = deepcopy(self._pending), deepcopy(self._limit)
        return other

    def _spent_in_words(self) -> str:
        # On a copy: reading must not change how sums are rounded.
        seen = RdpAccountant.__copy__(self)  # of a trial's as well, which nobody else may copy
        if self._budget is None:
            seen._only = None  # its own profile is tighter, but may take a minute
        n = max(len(self._budgets), self._sum.shape[0] if self._sum.ndim > 1 else 1)
        budgets = [self._budgets[i % len(self._budgets)] for i in range(n)]
        at = {b: DEFAULT_DELTA if b is None else b.stated_delta for b in self._budgets}
        kept = {b: np.ravel(seen._stated(b)) for b in self._budgets}
        epsilons = [kept[b][i % len(kept[b])] for i, b in enumerate(budgets)]
        at_most = "at most " if self._only is not None and self._budget is None else ""
        deltas = " or ".join(dict.fromkeys(f"delta {exact(delta)}" for delta in at.values()))
        own = [seen._own_measure(b, i) for i, b in enumerate(budgets)]
        return f"epsilon {at_most}{_range(epsilons)} at {deltas}" + _measures(own)

    def _stated(self, budget: Target | None) -> FloatArray:
        """Return epsilon of each row at the delta of a statement."""
        if isinstance(budget, PureDP):
            return np.array([float_up(spent) for spent in self._exact])
        return self.epsilon(DEFAULT_DELTA if budget is None else budget.stated_delta)

    def _own_measure(self, budget: Target | None, row: int) -> tuple[str, float] | None:
        """Return the budget's own measure if it is not (epsilon, delta): words and value."""
        if isinstance(budget, RenyiDP):
            spent = np.ravel(self.spent(budget.order))
            return f"Rényi divergence {{}} at order {exact(budget.order)}", spent[row % len(spent)]
        if isinstance(budget, SumTarget) and not isinstance(budget, PureDP):
            return f"{budget.unit} {{}}", float_up(self._exact[row % len(self._exact)])
        return None

    def _rdp_of(self, cost: Cost) -> FloatArray:
        """Return a cost's curve; the last one is cached if the cost cannot change."""
        fixed = is_fixed(cost)
        if fixed and self._curve is not None and self._curve[0] == cost:
            return self._curve[1]
        curve = curve_of(cost, self._orders)
        if fixed:
            self._curve = cost, curve
        return curve

    def _check_limit(
        self, limit: "_Limit", parts: tuple[InBulk, ...], count: int, only: Cost | None
    ) -> None:
        """Refuse costs of known kinds if the budget does not cover them.

        If a quick bound at one order shows that a cost fits, it is admitted at once.
        """
        if limit.at != UNDECIDED:
            if parts == limit.last:
                bound = count * limit.cost
            else:
                bound = count * sum(self._pending.at_most(part, limit.order) for part in parts)
            # Up, or bounds too small for a float next to the spends would never count.
            spent = math.nextafter(limit.spent + bound * (1 + _MARGIN), math.inf)
            if bound >= 0 and spent <= limit.allowed:  # else it is looked at, and may be refused
                limit.spent = spent
                return
        at = self._decides
        if at[0] == UNDECIDED:
            at = self._deciding(_rdp_of_all(parts, 1, self._orders))
        if at[0] == UNDECIDED:  # they cost nothing
            return
        more = _rdp_of_all(parts, count, self._orders[at])
        before = self._spent_at(at)
        rdp = sum_up(*two_sum(*before, more))
        order = float(self._orders[at[0]])
        if not (
            limit.budget.keeps(order, float(rdp[0]))
            or (only is not None and limit.budget.keeps_alone(only))
        ):
            raise _exceeded(limit.budget, order, float(rdp[0]), float(sum_up(*before)[0]))
        self._decides = at
        limit.last = ()  # an interrupt must not leave the cost at another order
        limit.use(int(at[0]), order, float(rdp[0]))
        limit.cost, limit.last = float(more[0]) / count, parts

    def _check_budget(self, rdp: FloatArray, curve: FloatArray, only: Cost | None) -> None:
        """Refuse a cost that brings the spends to ``rdp``, if a row's budget does not cover it."""
        rows = rdp if rdp.ndim > 1 else rdp[None]
        if self._budget is not None and len(self._budgets) not in (1, len(rows)):
            raise ValueError(
                f"budget must be one target, or one for each of the {len(rows)} rows of the "
                f"cost, got {len(self._budgets)}."
            )
        decides = self._decides
        if len(decides) < len(rows):
            decides = np.repeat(decides, len(rows))
        if (decides == UNDECIDED).any():
            decides = np.where(decides == UNDECIDED, self._deciding(curve), decides)
        for i, row in enumerate(rows):
            budget, at = self._budgets[i % len(self._budgets)], int(decides[i])
            if not isinstance(budget, CurveTarget) or at == UNDECIDED:
                continue
            order = float(self._orders[at])
            if budget.keeps(order, float(row[at])):
                continue
            if only is None or not budget.keeps_alone(only, i):
                before = np.broadcast_to(sum_up(self._sum, self._lost), rows.shape)
                where = f" in row {i}" if len(rows) > 1 else ""
                raise _exceeded(budget, order, float(row[at]), float(before[i, at]), where)
        self._decides = decides

    def _deciding(self, curve: FloatArray) -> Indices:
        """Return for each row the index of the deciding order for a planned curve."""
        rows = curve if curve.ndim > 1 else curve[None]
        n_rows, n_budgets = len(rows), len(self._budgets)
        budgets = [self._budgets[i % n_budgets] for i in range(max(n_rows, n_budgets))]
        return np.array(
            [
                0 if budget is None else budget.deciding_order(self._orders, rows[i % n_rows])
                for i, budget in enumerate(budgets)
            ]
        )

    def _exact_with(self, cost: Cost, count: int) -> tuple[Fraction, ...]:
        """Return the sums of each row including a cost, for budgets of exact sums.

        Raises
        ------
        BudgetExceeded
            If a sum is over its budget, or the cost lacks such a number.
        """
        if not any(isinstance(budget, SumTarget) for budget in self._budgets):
            return self._exact
        rows = cost.rows if isinstance(cost, BatchCost) else (cost,)
        sums = []
        for i in range(max(len(rows), len(self._exact))):
            budget = self._budgets[i % len(self._budgets)]
            before = self._exact[i % len(self._exact)]
            if isinstance(budget, SumTarget):
                where = f" in row {i}" if len(rows) > 1 else ""
                before = _sum_with(budget, before, rows[i % len(rows)], count, where)
            sums.append(before)
        return tuple(sums)


def _range(values: Sequence[float]) -> str:
    least, most = up(float(min(values))), up(float(max(values)))
    return most if len(values) == 1 else f"{least} to {most} in {len(values)} rows"


def _measures(each: Sequence[tuple[str, float] | None]) -> str:
    """Return the measures of budgets in brackets, grouped by wording."""
    found: dict[str, list[float]] = {}
    for words, value in filter(None, each):
        found.setdefault(words, []).append(value)
    said = ", ".join(words.format(_range(values)) for words, values in found.items())
    return f" ({said})" if said else ""


class _Limit:
    """A budget, and an upper bound on the spends at its deciding order."""

    def __init__(self, budget: CurveTarget) -> None:
        self.budget = budget
        self.at, self.order, self.allowed = UNDECIDED, 2.0, 0.0
        self.spent = math.inf  # not known yet
        self.last: tuple[InBulk, ...] = ()
        self.cost = 0.0  # of the last ones, exactly

    def use(self, at: int, order: float, rdp: float) -> None:
        """Record the spends at the deciding order."""
        self.order = order
        self.allowed = float(self.budget.allowed(np.array([order]))[0])
        self.spent = rdp * (1 + _MARGIN)
        self.at = at


def _rdp_of_all(parts: Sequence[Cost], count: int, orders: FloatArray) -> FloatArray:
    return product_up(count, curve_of(parts[0] if len(parts) == 1 else Together(parts), orders))


def _sum_with(budget: SumTarget, before: Fraction, cost: Cost, count: int, where: str) -> Fraction:
    """Return an exact sum including a cost, if it is within the budget."""
    if why := budget.missing(cost):
        raise BudgetExceeded(f"the release is not within the budget {budget}: {why}")
    amount = budget.amount(cost)
    assert amount is not None
    after = short(before + count * amount)
    if after > budget.limit:
        share = float_up(before / budget.limit)
        raise _refusal(f"{budget.unit} {up(float_up(after), 6)}", budget, where, _spent(share))
    return after


def _exceeded(
    budget: CurveTarget, order: float, rdp: float, before: float, where: str = ""
) -> BudgetExceeded:
    """Return the refusal of a release, from the spends with and without it at an order."""
    share = before / float(budget.allowed(np.array([order]))[0])
    kept = _spent(share)
    if isinstance(budget, ApproxDP) and share > 0:
        kept = (
            f" The budget is kept at Rényi order {order:.4g}, as fixed before the first "
            f"release, where {up(100 * share)} % of it is spent."
        )
    return _refusal(f"epsilon {up(budget.spent_at(order, rdp), 6)}", budget, where, kept)


def _spent(share: float) -> str:
    return f" Spent before: {up(100 * share)} %." if share > 0 else ""


def _refusal(spent: str, budget: Target, where: str, kept: str) -> BudgetExceeded:
    return BudgetExceeded(
        f"the release would bring the cost{where} to {spent}, over the budget {budget}; nothing "
        f"was spent.{kept} Plan for fewer releases, or make each more private."
    )
