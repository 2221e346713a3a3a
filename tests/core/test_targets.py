"""Targets of every kind: budgets, calibration, and what accountants state."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from privrl.accounting import (
    ApproxDP,
    BudgetExceeded,
    Ledger,
    PureDP,
    RdpAccountant,
    RenyiDP,
    Target,
    ZeroConcentratedDP,
    target_of,
)
from privrl.accounting.budgets import Budget
from privrl.accounting.calibration import calibrate
from privrl.accounting.pld import PldAccountant
from privrl.costs.base import BatchCost, Cost, NoPrivacy, Together, pure_ratio, zcdp_rho
from privrl.costs.choice import ChoiceCost
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import (
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
)
from privrl.costs.relations import AddRemoveRecord, ReplaceEpisode, ReplaceRecord
from privrl.mechanisms import (
    DirichletMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.choice import ExponentialMechanism
from privrl.numerics.special import FloatArray

RECORD = ReplaceRecord()  # changes two cells by 1: sum 2, square 2
TENTH = LaplaceCost(scale=20, relation=RECORD)
GAUSS = GaussianCost(sigma=2, relation=RECORD)  # rho 1/4
DIRICHLET = DirichletCost(weight=0.001, alpha=1e6, relation=RECORD)
KINDS: dict[str, Target] = {
    "approx": ApproxDP(1, 1e-5),
    "pure": PureDP(1),
    "renyi": RenyiDP(2, 1),
    "zcdp": ZeroConcentratedDP(0.3),
}
each_kind = pytest.mark.parametrize("target", KINDS.values(), ids=KINDS)


# Exact sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_pure_epsilons_add_up_exactly(epsilon: float) -> None:
    times = round(epsilon * 10)
    for counts in ([1] * times, [times], [times - 1, 1]):
        accountant = RdpAccountant(budget=PureDP(epsilon))
        for count in counts:
            accountant.compose(TENTH, count)
        with pytest.raises(BudgetExceeded, match=r"to pure epsilon .*Spent before: 100 %"):
            accountant.compose(LaplaceCost(scale=1e29, relation=RECORD))
        assert len(accountant.journal) == 1


def test_rhos_add_up_exactly() -> None:
    accountant = RdpAccountant(budget=ZeroConcentratedDP(1))
    accountant.compose(GAUSS, 3)
    accountant.compose(Together([GaussianCost(sigma=math.sqrt(8), relation=RECORD)] * 1))
    for _ in range(20):
        accountant.compose(TENTH)  # 1/200 each
    with pytest.raises(BudgetExceeded, match="to rho 1"):
        accountant.compose(GAUSS)


@pytest.mark.parametrize(
    ("budget", "cost", "words"),
    [
        (PureDP(1e9), GAUSS, "GaussianCost has no pure epsilon"),
        (PureDP(1e9), DIRICHLET, "DirichletCost has no pure epsilon"),
        (PureDP(1e9), Together([TENTH, GAUSS]), "Together has no pure epsilon"),
        (ZeroConcentratedDP(1e9), DIRICHLET, "DirichletCost has no rho"),
        (ZeroConcentratedDP(1e9), NoPrivacy(RECORD), "NoPrivacy has no rho"),
    ],
)
def test_a_cost_without_the_number_is_refused(budget: Target, cost: Cost, words: str) -> None:
    accountant = RdpAccountant(budget=budget)
    with pytest.raises(BudgetExceeded, match=words):
        accountant.compose(cost)
    assert not accountant.journal
    assert not accountant.rdp.any()


def test_rows_have_exact_budgets_of_their_own() -> None:
    budgets = [PureDP(1.0), None, ZeroConcentratedDP(0.5), ApproxDP(0.9, 1e-5)]
    accountant = RdpAccountant(budget=budgets)
    rows = [LaplaceCost(scale=scale, relation=RECORD) for scale in (4, 1, 4, 40)]
    accountant.compose(BatchCost(rows))
    accountant.compose(BatchCost(rows))  # the first row has spent its 1, the third 1/4 of 1/2
    with pytest.raises(BudgetExceeded, match=r"in row 0 to pure epsilon 1\.5"):
        accountant.compose(BatchCost(rows))
    free = LaplaceCost(scale=1e29, relation=RECORD)
    with pytest.raises(BudgetExceeded, match=r"in row 2 to rho 0\.75"):
        RdpAccountant(budget=[None, None, ZeroConcentratedDP(0.5), None]).compose(
            BatchCost(rows), 6
        )
    accountant = RdpAccountant(budget=budgets[2:])
    accountant.compose(BatchCost([TENTH, TENTH]))
    for _ in range(3):  # the second row refuses, and the first has paid nothing
        with pytest.raises(BudgetExceeded, match="in row 1 "):
            accountant.compose(BatchCost([GAUSS, LaplaceCost(scale=1, relation=RECORD)]))
    accountant.compose(BatchCost([GAUSS, free]))


# Proofs -----------------------------------------------------------------------------------------

PROVEN: list[Any] = [
    TENTH,
    GAUSS,
    LaplaceCost(scale=0.3, relation=RECORD),
    DiscreteLaplaceCost(scale=1.5, relation=AddRemoveRecord()),
    DiscreteGaussianCost(sigma=0.7, relation=RECORD),
    DiscreteGaussianCost(sigma=9.0, relation=ReplaceEpisode(10)),
    GaussianCost(sigma=3.0, relation=ReplaceEpisode(10)),
    ChoiceCost(scale=2.0, sensitivity=1.0, relation=RECORD),
    ChoiceCost(scale=0.1, sensitivity=1.0, relation=RECORD),
    Together([TENTH, GAUSS, GAUSS]),
]


@pytest.mark.parametrize("cost", PROVEN, ids=repr)
def test_rho_bounds_every_order(cost: Cost) -> None:
    """Orders far beyond those of any grid are among them."""
    orders, rho = 1 + np.geomspace(1e-6, 1e9, 150), zcdp_rho(cost)
    assert rho is not None
    assert (cost.rdp(orders) <= float(rho) * orders * (1 + 1e-9)).all()


def test_rho_of_gaussian_noise_is_exact() -> None:
    assert zcdp_rho(GAUSS) == Fraction(1, 4)
    assert zcdp_rho(TENTH) == Fraction(1, 200)
    assert zcdp_rho(Together([TENTH, GAUSS, GAUSS])) == Fraction(101, 200)


class OnTheGrid:
    """Tiny at all orders that a grid would look at, and infinite beyond."""

    relation = RECORD
    fixed = True

    def rdp(self, orders: ArrayLike) -> FloatArray:
        return np.where(np.asarray(orders) > 1e7, np.inf, 1e-9)


@pytest.mark.parametrize("cost", [OnTheGrid(), DIRICHLET], ids=["own", "dirichlet"])
def test_a_grid_of_orders_proves_no_rho(cost: Any) -> None:
    assert np.isfinite(cost.rdp(np.array([2.0, 64.0]))).all()
    assert zcdp_rho(cost) is None
    assert ZeroConcentratedDP(1e6).excess(cost) == math.inf


@pytest.mark.parametrize(
    "cost", [cost for cost in PROVEN if pure_ratio(cost) is not None], ids=repr
)
def test_pure_epsilons_are_where_delta_vanishes(cost: Cost) -> None:
    pure = pure_ratio(cost)
    assert pure is not None
    assert float(cost.delta(float(pure) * (1 + 1e-12))) == 0
    assert (cost.rdp(np.array([1e3, 1e9])) <= float(pure) * (1 + 1e-12)).all()


# Calibration ------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("kind", [LaplaceMechanism, DiscreteLaplaceMechanism])
def test_planned_releases_fit_their_budget(target: Target, count: int, kind: Any) -> None:
    made = kind.calibrated(target, relation=RECORD, count=count)
    accountant = RdpAccountant(budget=target)
    for _ in range(count):
        accountant.compose(made.cost)
    with pytest.raises(BudgetExceeded):
        accountant.compose(made.cost)
    assert -1e-6 < target.excess(made.cost, count) <= 0


def test_calibration_by_closed_forms() -> None:
    pure, rho = PureDP(0.5), ZeroConcentratedDP(0.02)
    assert LaplaceMechanism.calibrated(pure).scale == pytest.approx(4, rel=1e-10)
    assert LaplaceMechanism.calibrated(pure, count=3).scale == pytest.approx(12, rel=1e-10)
    assert GaussianMechanism.calibrated(rho, count=3).sigma ** 2 == pytest.approx(150, rel=1e-10)
    assert DiscreteGaussianMechanism.calibrated(rho).sigma ** 2 == pytest.approx(50, rel=1e-10)
    choice = ExponentialMechanism.calibrated(pure, sensitivity=1.0)
    assert choice.scale == pytest.approx(4, rel=1e-10)
    choice = ExponentialMechanism.calibrated(rho, sensitivity=1.0)
    assert choice.scale**2 == pytest.approx(4 / 8 / 0.02, rel=1e-10)


@pytest.mark.parametrize("kind", [GaussianMechanism, DiscreteGaussianMechanism])
def test_gaussian_noise_meets_no_pure_target(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"GaussianCost has no pure epsilon\. Add Laplace noise"):
        kind.calibrated(PureDP(1))


@pytest.mark.parametrize("target", [PureDP(1), ZeroConcentratedDP(1)], ids=repr)
def test_dirichlet_draws_meet_neither(target: Target) -> None:
    for given in ({"alpha": 3.0}, {"weight": 0.1}):
        with pytest.raises(ValueError, match="DirichletCost has no "):
            DirichletMechanism.calibrated(target, **given)  # type: ignore[arg-type] # one float
    with pytest.raises(ValueError, match=r"must be RenyiDP\(\.\.\.\) or ApproxDP\(\.\.\.\), got"):
        DirichletMechanism.algorithm_1(target)


@pytest.mark.parametrize("target", [PureDP(1), ZeroConcentratedDP(1), RenyiDP(2, 1)], ids=repr)
def test_another_accountant_is_for_epsilon_and_delta(target: Target) -> None:
    with pytest.raises(ValueError, match="accountant is for ApproxDP targets"):
        calibrate(
            target,
            lambda scale: LaplaceCost(scale=scale, relation=RECORD),
            rises=False,
            accountant=RdpAccountant,
        )


def test_numbers_name_targets() -> None:
    assert target_of(1) == ApproxDP(1, 1e-5)
    assert target_of(1, 0) == PureDP(1)
    assert target_of(1, renyi_order=3) == RenyiDP(3, 1)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be"):
        PureDP(value)
    with pytest.raises(ValueError, match="rho must be"):
        ZeroConcentratedDP(value)


# Statements -------------------------------------------------------------------------------------


@each_kind
def test_statements_lead_with_epsilon_delta_and_the_relation(target: Target) -> None:
    accountant = RdpAccountant(budget=target)
    accountant.compose(TENTH)
    assert (accountant.budget, accountant.relation) == (target, RECORD)
    text = repr(accountant)
    delta = 0 if target == PureDP(1) else 1e-5
    assert text.startswith("<RdpAccountant spent: epsilon 0.")
    assert text.index(f"at delta {delta:g}") < text.index("relation: replace one record")
    assert text.index("relation: ") < text.index("budget: ")
    assert ("Rényi divergence" in text) == isinstance(target, RenyiDP)
    assert ("(rho 0.005)" in text) == isinstance(target, ZeroConcentratedDP)


def test_a_pure_statement_is_never_rounded_down() -> None:
    accountant = RdpAccountant(budget=PureDP(2))
    third = LaplaceCost(scale=3, relation=RECORD)  # 2/3 each
    accountant.compose(third)
    assert Fraction(repr(accountant).split("epsilon ")[1].split(" ")[0]) >= Fraction(2, 3)
    accountant.compose(third, 2)
    assert float(accountant.epsilon(1e-300)) == 2
    with pytest.raises(BudgetExceeded):
        accountant.compose(third)


def test_ledgers_take_targets_of_epsilon_and_delta(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    for target, budget in ((ApproxDP(1, 1e-6), Budget(1, 1e-6)), (PureDP(1), Budget(1))):
        book.set_budget("d", target)
        assert book.budgets()["d", None] == budget
    accountant = book.accountant("d")
    accountant.compose(TENTH, 10)
    with pytest.raises(BudgetExceeded):
        accountant.compose(TENTH)
    for wrong in (RenyiDP(2, 1), ZeroConcentratedDP(1), 1.0):
        with pytest.raises(ValueError, match=r"budget must be a Budget, ApproxDP\(\.\.\.\) or"):
            book.set_budget("d", wrong)  # type: ignore[arg-type] # what is refused


@pytest.mark.needs("dp_accounting")
def test_loss_distributions_take_epsilon_and_delta() -> None:
    for budget in (PureDP(1), ZeroConcentratedDP(1), RenyiDP(2, 1)):
        with pytest.raises(ValueError, match="budget must be an ApproxDP"):
            PldAccountant(budget=budget)  # type: ignore[arg-type] # what is refused


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("curve", [-1.0, np.nan, "all"])
def test_a_cost_of_ones_own_is_checked_where_noise_is_calibrated(curve: Any, count: int) -> None:
    """A target took negative divergences, which no accountant does, and lent out its orders."""

    class Mine:
        relation = ReplaceRecord()

        def rdp(self, orders: Any) -> Any:
            if curve == "all":
                orders *= 2
            return np.full(np.shape(orders), curve)

        def delta(self, epsilon: Any) -> Any:
            return np.full(np.shape(epsilon), 0.5)

    assert ApproxDP(1, 1e-5).excess(Mine()) > 0
    targets = [RenyiDP(2, 1.0), ApproxDP(1, 1e-5)] if count == 2 else [RenyiDP(2, 1.0)]
    for target in targets:
        with pytest.raises(ValueError, match=r"divergence|read-only"):
            target.excess(Mine(), count)
