"""Calibrated values meet the target, never exceed it, and waste nothing."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_mpmath import pair_delta, relation_divergence

from privrl.accounting.calibration import (
    calibrate,
    dirichlet_alpha,
    dirichlet_weight,
)
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import relations
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteLaplaceCost, LaplaceCost
from privrl.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from privrl.mechanisms.dirichlet import DirichletMechanism

RECORD = relations.ReplaceRecord()
RELATIONS = [
    RECORD,
    relations.AddRemoveRecord(),
    relations.ReplaceStep(),
    relations.ReplaceEpisode(30),
]
RDP_TARGETS = [RenyiDP(2, 1), RenyiDP(2, 1e-6), RenyiDP(1.01, 0.1), RenyiDP(64, 20)]
DP_TARGETS = [ApproxDP(1, 1e-5), ApproxDP(0.01, 1e-12), ApproxDP(10, 1e-3), ApproxDP(3, 1e-100)]
NUDGE = 1e-7


def meets(target: RenyiDP | ApproxDP, cost: DirichletCost, count: int) -> bool:
    """Say whether a user who checks with the public API sees the target met, strictly."""
    if isinstance(target, RenyiDP):
        return count * float(cost.rdp(target.order)) <= target.epsilon
    if count == 1:
        return float(cost.delta(target.epsilon)) <= target.delta
    accountant = RdpAccountant()
    accountant.compose(cost, count)
    return float(accountant.epsilon(target.delta)) <= target.epsilon


def check_weight(target: RenyiDP | ApproxDP, alpha: float, count: int, **options) -> None:
    weight = DirichletMechanism.calibrated(target, alpha=alpha, count=count, **options).weight
    assert 0 < weight < math.inf
    assert meets(target, DirichletCost(weight=weight, alpha=alpha, **options), count)
    more = DirichletCost(weight=weight * (1 + NUDGE), alpha=alpha, **options)
    assert not meets(target, more, count)


def check_alpha(target: RenyiDP | ApproxDP, weight: float, count: int, **options) -> None:
    alpha = DirichletMechanism.calibrated(target, weight=weight, count=count, **options).alpha
    assert 0 < alpha < math.inf
    assert meets(target, DirichletCost(weight=weight, alpha=alpha, **options), count)
    if alpha == 0.5 and isinstance(options["relation"], relations.ReplaceEpisode):
        return  # the least prior that the relation allows
    less = DirichletCost(weight=weight, alpha=alpha * (1 - NUDGE), **options)
    assert not meets(target, less, count)


@pytest.mark.few(33)
@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize("target", RDP_TARGETS, ids=repr)
@pytest.mark.parametrize("bound", ["exact", "dps"])
def test_rdp_targets(target: RenyiDP, relation: relations.Relation, bound: str) -> None:
    for count in (1, 3000):
        for alpha in (0.5, 300.0):
            check_weight(target, alpha, count, relation=relation, bound=bound)
        check_alpha(target, 0.03, count, relation=relation, bound=bound)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "relation", [RECORD, relations.AddRemoveRecord(), relations.ReplaceEpisode(30)], ids=repr
)
@pytest.mark.parametrize("target", DP_TARGETS, ids=repr)
def test_dp_targets_of_one_release(target: ApproxDP, relation: relations.Relation) -> None:
    check_weight(target, 3.0, 1, relation=relation)
    check_alpha(target, 0.5, 1, relation=relation)


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize("target", DP_TARGETS[:2], ids=repr)
def test_dp_targets_of_many_releases(target: ApproxDP, relation: relations.Relation) -> None:
    for count in (65, 3000):
        check_weight(target, 3.0, count, relation=relation)
        check_alpha(target, 0.5, count, relation=relation)


def test_parts_of_a_budget_fit_into_it() -> None:
    """Of 77 ways to share one among four, rounded sums exceed it in some where none is left."""
    for n in (7, 13, 60):
        for k in range(1, n):
            accountant = RdpAccountant(orders=[2.0], budget=RenyiDP(2, 1.0))
            for part in (k / n / 3, k / n / 3, k / n / 3, (n - k) / n):
                accountant.compose(GaussianMechanism.calibrated(RenyiDP(2, part)).cost)


@pytest.mark.parametrize("bound", ["exact", "dps"])
def test_other_tables_and_bounds(bound: str) -> None:
    options = {"relation": relations.ReplaceStep(), "table": "rewards", "bound": bound}
    check_weight(ApproxDP(1, 1e-5), 3.0, 1, **options)
    check_alpha(ApproxDP(1, 1e-5), 0.5, 1, **options)
    check_weight(RenyiDP(2, 1), 3.0, 5, **options)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.floats(-4, 5).map(math.exp),
    st.floats(-9, 4).map(math.exp),
    st.floats(-3, 4).map(math.exp),
    st.sampled_from([1, 2, 17, 1000]),
    st.sampled_from([RECORD, relations.AddRemoveRecord(), relations.ReplaceStep()]),
)
def test_any_rdp_target(
    above_one: float, epsilon: float, known: float, count: int, relation: relations.Relation
) -> None:
    target = RenyiDP(1 + above_one, epsilon)
    check_weight(target, known, count, relation=relation)
    check_alpha(target, known, count, relation=relation)


# Against the oracle ---------------------------------------------------------------------------


def test_printed_priors() -> None:
    exact = DirichletMechanism.calibrated(RenyiDP(2, 1), weight=1, relation=RECORD).alpha
    paper = DirichletMechanism.calibrated(
        RenyiDP(2, 1), weight=1, relation=RECORD, bound="dps"
    ).alpha
    assert exact == pytest.approx(2.163953, abs=5e-7)
    assert paper == pytest.approx(3.46, abs=5e-3)
    assert paper < 3.46


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_the_true_divergence_is_the_target(relation: relations.Relation) -> None:
    for count, order, epsilon in ((1, 2.0, 1.0), (3000, 2.0, 1.0), (65, 9.0, 0.01)):
        weight = DirichletMechanism.calibrated(
            RenyiDP(order, epsilon), alpha=3, relation=relation, count=count
        ).weight
        true = count * relation_divergence(relation.changes(), order, weight=weight, alpha=3)
        assert float(true / epsilon) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("target", DP_TARGETS, ids=repr)
def test_the_true_delta_is_the_target(target: ApproxDP) -> None:
    weight = DirichletMechanism.calibrated(target, alpha=3, relation=RECORD).weight
    true = pair_delta(target.epsilon, shift=weight, alpha=3)
    assert float(true / target.delta) == pytest.approx(1, rel=1e-6)


def test_exact_accounting_always_gains() -> None:
    for target in (*RDP_TARGETS, *DP_TARGETS[:3]):
        weights = [
            DirichletMechanism.calibrated(target, alpha=3, relation=RECORD, bound=bound).weight
            for bound in ("exact", "dps")
        ]
        assert weights[0] > weights[1]


# Edges -----------------------------------------------------------------------------------------


def test_a_table_that_never_changes() -> None:
    never = {"relation": relations.ReplaceTransition(), "table": "rewards"}
    for one in ({"alpha": 1}, {"weight": 1}):
        with pytest.raises(ValueError, match="'rewards', so any weight and any prior are private"):
            DirichletMechanism.calibrated(RenyiDP(2, 1), **one, **never)


def test_a_loose_target_gives_the_least_prior_that_the_relation_allows() -> None:
    assert (
        DirichletMechanism.calibrated(
            RenyiDP(2, 100), weight=1e-6, relation=relations.ReplaceEpisode(3)
        ).alpha
        == 0.5
    )


def test_a_prior_that_the_relation_refuses() -> None:
    with pytest.raises(ValueError, match=r"alpha.*0\.3"):
        DirichletMechanism.calibrated(
            RenyiDP(2, 1), alpha=0.3, relation=relations.ReplaceEpisode(3)
        )


@dataclass(frozen=True)
class Stairs:
    """A release whose cost rises, or falls, with a parameter by so many steps to a unit."""

    steps: int
    rises: bool
    size: float
    relation: relations.Relation = RECORD

    def rdp(self, orders):
        size = self.size if self.rises else 1 / self.size
        return np.full(np.shape(orders), np.ceil(size * self.steps) / self.steps)


@pytest.mark.parametrize("rises", [True, False])
def test_the_root_of_a_cost_with_steps_is_on_the_safe_side(rises: bool) -> None:
    """At a step a solver ends on either side; twenty of them, so that one is wrong by chance."""
    for steps in range(20, 40):
        target, cost = RenyiDP(2, 0.5 + 0.3 / steps), partial(Stairs, steps, rises)
        size = calibrate(target, cost, rises=rises)
        assert float(cost(size).rdp(2.0)) <= target.epsilon
        further = size * (1 + 1e-6 if rises else 1 - 1e-6)
        assert float(cost(further).rdp(2.0)) > target.epsilon


def test_numpy_numbers_are_numbers() -> None:
    target = RenyiDP(np.float64(2), np.float32(1))
    weight = DirichletMechanism.calibrated(
        target, alpha=np.float64(3), relation=RECORD, count=np.int32(4)
    ).weight
    assert (
        weight
        == DirichletMechanism.calibrated(RenyiDP(2, 1), alpha=3, relation=RECORD, count=4).weight
    )


@pytest.mark.parametrize("target", [RenyiDP(2, 1), ApproxDP(1, 1e-5), ApproxDP(3, 1e-9)], ids=repr)
@pytest.mark.parametrize("kind", [LaplaceCost, DiscreteLaplaceCost])
def test_no_guess_changes_what_is_found(
    kind: type[LaplaceCost], target: RenyiDP | ApproxDP
) -> None:
    """However wrong: next to the root, on either side of it, and out of range."""
    solve = partial(
        calibrate, target, lambda size: kind(scale=size, relation=RECORD), rises=False, least=1e-3
    )
    found = solve()
    for guess in (found, found * (1 + 1e-12), found * (1 - 1e-6), 2 * found, 1e-9, 1e40, math.inf):
        again = solve(guess=guess, off=1e-9)
        assert again == pytest.approx(found, rel=1e-11)
        assert target.excess(kind(scale=again, relation=RECORD)) <= 0


@pytest.mark.parametrize("target", [ApproxDP(1, 1e-5), ApproxDP(0.01, 1e-12), ApproxDP(10, 1e-3)])
def test_guesses_are_close(target: ApproxDP) -> None:
    """To a billionth: else calibration, which starts there, is as slow as from anywhere."""
    root = math.sqrt(2)
    sigma, scale = target.gaussian_sigma(root), target.laplace_scale(2.0, 2)
    assert sigma == pytest.approx(GaussianMechanism.calibrated(target).sigma, rel=1e-9)
    assert scale == pytest.approx(LaplaceMechanism.calibrated(target).scale, rel=1e-9)
    assert RenyiDP(3, 2).gaussian_sigma(root) == pytest.approx(
        GaussianMechanism.calibrated(RenyiDP(3, 2)).sigma, rel=1e-9
    )


def test_every_target_has_a_guess() -> None:
    for epsilon in (5e-324, 1e-30, 1.0, 800.0, 1.7e308):
        targets = [ApproxDP(epsilon, delta) for delta in (5e-324, 1e-300, 0.5, 1 - 2**-53)]
        for target in (*targets, RenyiDP(1 + 2**-52, epsilon), RenyiDP(1e300, epsilon)):
            assert target.gaussian_sigma(1e-30) > 0
            assert target.laplace_scale(1.0, 1) > 0
            assert target.laplace_scale(1.0, 7) > 0
            for size in (1e-30, 1.0, 1e30):
                assert 0 < dirichlet_weight(target, size, 1 / size) < math.inf
                assert 0 < dirichlet_alpha(target, size, size) < math.inf


@pytest.mark.parametrize(
    "target", [ApproxDP(1, 1e-5), ApproxDP(0.01, 1e-12), RenyiDP(2, 1)], ids=repr
)
def test_guesses_of_dirichlet_draws_are_rough(target: RenyiDP | ApproxDP) -> None:
    """Near enough that a calibration's second try is on the other side."""
    weight = DirichletMechanism.calibrated(target, alpha=20.0).weight
    assert dirichlet_weight(target, 2.0, 20.0) == pytest.approx(weight, rel=0.1)
    assert dirichlet_alpha(target, 2.0, weight) == pytest.approx(20.0, rel=0.2)
