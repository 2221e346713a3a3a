"""The Dirichlet mechanism: calibration, the papers' settings, synthetic records."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from scipy.stats import beta, chisquare, kstest

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP, Target
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import AddRemoveRecord, Relation, ReplaceEpisode, ReplaceRecord
from privrl.mechanisms import DirichletMechanism
from privrl.mechanisms.dirichlet import synthetic_counts
from privrl.mechanisms.papers import dkl_algorithm_1, dps_prior

FALSE_ALARM = 1e-6
TARGETS = [RenyiDP(2, 0.1), RenyiDP(20, 1.0), ApproxDP(1, 1e-5), ApproxDP(0.1, 1e-9)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("lower_bound", [0.0, 10.0])
@pytest.mark.parametrize("given", [{"alpha": 0.7}, {"weight": 0.02}, {"alpha": 30}])
def test_calibrated_meets_its_target_and_no_better_one(
    target: Target, count: int, lower_bound: float, given: dict[str, float]
) -> None:
    loose = DirichletMechanism(**({"weight": 1, "alpha": 1e-9, "lower_bound": lower_bound} | given))
    if "weight" in given and target.excess(loose.cost, count) <= 0:
        # What is known of the counts is prior enough: no smallest one exists.
        with pytest.raises(ValueError, match="must be one that binds"):
            DirichletMechanism.calibrated(target, count=count, lower_bound=lower_bound, **given)
        return
    found = DirichletMechanism.calibrated(target, count=count, lower_bound=lower_bound, **given)
    assert target.excess(found.cost, count) <= 0
    free = "weight" if "alpha" in given else "alpha"
    greedy = getattr(found, free) * (1.001 if free == "weight" else 0.999)
    assert target.excess(dataclasses.replace(found, **{free: greedy}).cost, count) > 0


@pytest.mark.few(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [1, 5])
def test_algorithm_1_meets_its_target_by_its_own_bound(target: Target, count: int) -> None:
    mechanism = DirichletMechanism.algorithm_1(target, count=count)
    accountant = RdpAccountant(budget=target)
    accountant.compose(mechanism.cost, count)
    exact = dataclasses.replace(mechanism, bound="exact")
    assert exact.cost.rdp(2) < mechanism.cost.rdp(2)


def test_numbers_of_the_papers() -> None:
    """Algorithm 1 at (2, 1), Remark 1 with g = 0, and DPS's example (2, 1): 3.46, exactly 2.164."""
    ours = DirichletMechanism.calibrated(RenyiDP(2, 1), weight=1)
    theirs = DirichletMechanism.calibrated(RenyiDP(2, 1), weight=1, bound="dps")
    assert ours.alpha == pytest.approx(2.164, abs=5e-4)
    assert theirs.alpha == pytest.approx(3.46, abs=5e-3)
    assert dps_prior(RenyiDP(2, 1), relation=ReplaceRecord()) == 4.0  # (9): closed, so larger
    closed = dkl_algorithm_1(RenyiDP(2, 1), relation=ReplaceRecord(), g=lambda _: 0.0)
    assert closed.weight == pytest.approx(math.sqrt(2 * 1 / (2 * 2 * math.pi**2 / 6)), rel=1e-9)
    paper = DirichletMechanism.algorithm_1(RenyiDP(2, 1))
    assert paper.alpha == pytest.approx(1 + 4 * paper.weight, rel=1e-9)


def test_a_known_lower_bound_acts_as_a_prior() -> None:
    mechanism = DirichletMechanism(weight=0.5, alpha=1, lower_bound=6)
    assert mechanism.cost == DirichletCost(weight=0.5, alpha=4, relation=ReplaceRecord())
    better = dkl_algorithm_1(RenyiDP(2, 1), relation=ReplaceRecord(), lower_bound=6)
    assert better.weight > DirichletMechanism.algorithm_1(RenyiDP(2, 1)).weight
    drawn = DirichletMechanism(weight=better.weight, alpha=better.alpha, lower_bound=6, bound="dkl")
    assert drawn.cost == better.cost


def test_a_wrong_lower_bound_does_no_harm() -> None:
    """Counts below it are raised: the draw has the law of the raised counts."""
    mechanism = DirichletMechanism(weight=1, alpha=1, lower_bound=4)
    drawn = mechanism.release(np.tile([0, 9], (100_000, 1)), np.random.default_rng(0))
    raised = kstest(drawn[:, 0], beta(1 + 4, 1 + 9).cdf)
    trusted = kstest(drawn[:, 0], beta(1 + 0, 1 + 9).cdf)
    assert raised.pvalue > FALSE_ALARM
    assert trusted.pvalue < FALSE_ALARM  # the test would see it


@pytest.mark.few(2)
@pytest.mark.parametrize(("alpha", "first"), [(2.0, 2.0), ((0.5, 3.0, 1.0), 0.5)])
def test_draws_have_the_right_law(alpha: float, first: float) -> None:
    """Kolmogorov-Smirnov with 100,000 draws; a weight 5 % off is rejected."""
    mechanism = DirichletMechanism(weight=0.3, alpha=alpha)
    counts = np.array([10, 20, 0])
    others = 0.3 * 20 + 4.0
    drawn = mechanism.release(np.tile(counts, (100_000, 1)), np.random.default_rng(1))[:, 0]
    assert kstest(drawn, beta(3 + first, others).cdf).pvalue > FALSE_ALARM
    assert kstest(drawn, beta(0.95 * 3 + first, others).cdf).pvalue < FALSE_ALARM


@pytest.mark.slow
def test_designed_loses_less_than_algorithm_1() -> None:
    target, rng = ApproxDP(1, 1e-5), np.random.default_rng(2)
    counts = np.array([119, 74, 618, 272, 13, 187])
    p = counts / counts.sum()

    def loss(mechanism: DirichletMechanism) -> float:
        rows = mechanism.release(np.tile(counts, (2000, 1)), rng)
        return float((p * np.log(p / rows)).sum(-1).mean())

    designed = DirichletMechanism.designed(target, n_records=counts.sum(), n_cells=6)
    assert loss(designed) < 0.6 * loss(DirichletMechanism.algorithm_1(target))


def test_any_relation() -> None:
    for relation in (AddRemoveRecord(), ReplaceEpisode(5), Relation("r", {"a": [(2, -1, -1)]})):
        mechanism = DirichletMechanism.calibrated(RenyiDP(2, 1), alpha=2, relation=relation)
        assert mechanism.cost.relation == relation
        assert float(mechanism.cost.rdp(2)) <= 1
    episode = DirichletMechanism.calibrated(RenyiDP(2, 1e3), weight=0.1, relation=ReplaceEpisode(5))
    assert episode.alpha >= 0.5


def test_synthetic_counts_are_multinomial() -> None:
    """Chi-square over the joint outcomes of three records, 200,000 draws; 5 % off is rejected."""
    p, rng = np.array([0.2, 0.5, 0.3]), np.random.default_rng(3)
    drawn = synthetic_counts(np.tile(p, (200_000, 1)), 3, rng)
    assert (drawn.sum(1) == 3).all()
    outcomes, seen = np.unique(drawn, axis=0, return_counts=True)

    def pvalue(p: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        factorials = np.array([1, 1, 2, 6])
        law = 6 / factorials[outcomes].prod(1) * (p**outcomes).prod(1)
        return float(chisquare(seen, law * len(drawn)).pvalue)

    assert pvalue(p) > FALSE_ALARM
    assert pvalue(np.array([0.21, 0.49, 0.3])) < FALSE_ALARM


def test_synthetic_counts_broadcast_and_reach_a_billion() -> None:
    rows = np.array([[0.5, 0.5], [1.0, 0.0]])
    drawn = synthetic_counts(rows, [10**9, 7], np.random.default_rng(0))
    assert drawn.sum(1).tolist() == [10**9, 7]
    assert drawn[1].tolist() == [7, 0]
    assert synthetic_counts(rows[0], 0, np.random.default_rng(0)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": 0, "alpha": 1}, "weight must be"),
        ({"weight": 1, "alpha": -1}, "alpha must be"),
        ({"weight": 1, "alpha": (1.0, 0.0)}, "alpha must be"),
        ({"weight": 1, "alpha": ()}, "alpha must hold"),
        ({"weight": 1, "alpha": 1, "lower_bound": -1}, "lower_bound must be"),
        ({"weight": 1, "alpha": 1, "lower_bound": math.nan}, "lower_bound must be"),
        ({"weight": 1, "alpha": 1, "bound": "sim"}, "bound must be"),
        ({"weight": 1, "alpha": 1, "relation": "step"}, "relation must be"),
        ({"weight": 1, "alpha": 0.1, "relation": ReplaceEpisode(3)}, "alpha must be >= 0.5"),
    ],
)
def test_bad_settings(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DirichletMechanism(**settings)


def test_bad_calls() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="give either weight or alpha"):
        DirichletMechanism.calibrated(RenyiDP(2, 1))
    with pytest.raises(ValueError, match="give either weight or alpha"):
        DirichletMechanism.calibrated(RenyiDP(2, 1), weight=1, alpha=1)
    still = Relation("nothing changes", {"counts": []})
    with pytest.raises(ValueError, match="any weight and any prior are private"):
        DirichletMechanism.calibrated(RenyiDP(2, 1), alpha=1, relation=still)
    with pytest.raises(ValueError, match="count must be"):
        DirichletMechanism.algorithm_1(RenyiDP(2, 1), count=0)
    with pytest.raises(ValueError, match="data must have 2 cells"):
        DirichletMechanism(weight=1, alpha=(1.0, 2.0)).release([1, 2, 3], rng)
    with pytest.raises(ValueError, match="at least two cells"):
        DirichletMechanism(weight=1, alpha=1).release([1], rng)
    with pytest.raises(ValueError, match="probabilities must be"):
        synthetic_counts([0.5, 0.6], 3, rng)
    with pytest.raises(ValueError, match="probabilities must be"):
        synthetic_counts([np.nan, 1], 3, rng)
    with pytest.raises(ValueError, match="n_records must be"):
        synthetic_counts([0.5, 0.5], -1, rng)
    with pytest.raises(ValueError, match="n_records must be"):
        synthetic_counts([0.5, 0.5], 1.5, rng)


def test_a_lower_bound_of_single_precision_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = DirichletMechanism(weight=1, alpha=1, lower_bound=np.float32(2))
    assert type(made.lower_bound) is float
