"""The cost of the best of a random number of trials, against brute force on small mechanisms.

A trial has a few outcomes, in the order of their scores. The law of the released outcome is summed
over numbers of trials, so its divergences are exact. So are the trial's, in both directions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, PureDP
from privrl.costs import GaussianCost, ReplaceRecord
from privrl.costs.base import BatchCost, Cost, NoPrivacy, pure_ratio
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import Relation
from privrl.costs.selection import ConcentratedCost, PureCost, SelectionCost

RELATION = ReplaceRecord()
ORDERS = np.array([1.001, 1.5, 2.0, 4.0, 8.0, 20.0, 100.0, 1e4])
EPSILONS = np.linspace(0, 4, 30)
MEANS = [1, 2, 10, 100]


@dataclass(frozen=True)
class PairCost:
    """The exact cost of a mechanism with two data sets, neighbours of each other."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    relation = RELATION

    @property
    def laws(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.first), np.array(self.second)

    def rdp(self, orders: np.ndarray) -> np.ndarray:
        p, q = self.laws
        return np.maximum(divergence(p, q, orders), divergence(q, p, orders))

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        p, q = self.laws
        return np.maximum(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))

    def epsilon(self, delta: float) -> np.ndarray:
        fine = np.linspace(0, 60, 6001)
        return np.asarray(fine[(self.delta(fine) <= delta).argmax()])


def divergence(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the exact Rényi divergence; outcomes have positive probabilities."""
    orders = np.asarray(orders, float)[..., None]
    terms = orders * np.log(p) + (1 - orders) * np.log(q)
    largest = terms.max(axis=-1, keepdims=True)
    total = np.log(np.exp(terms - largest).sum(axis=-1)) + largest[..., 0]
    return np.maximum(total / (orders[..., 0] - 1), 0)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    return np.maximum(p - np.exp(np.asarray(epsilon))[..., None] * q, 0).sum(axis=-1)


def released(law: np.ndarray, mean: int) -> np.ndarray:
    """Return the law of the best outcome; a test below sums it over trials."""
    stop = 1 / mean
    above = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    # f(1 - a) - f(1 - a') of neighbouring tails a > a', without cancellation
    each = stop + (1 - stop) * above
    return law * stop / (each[:-1] * each[1:])


def pairs() -> list[PairCost]:
    """Return randomised response, ordered in several ways, and random mechanisms."""
    found = []
    for epsilon in (0.05, 0.5, 3.0):
        for good in (0.4, 0.05):
            # Outcomes: reached more often under the second set, one tiny level, and the rest.
            p = np.array([1 - good - 1e-3, 1e-3, good])
            q = p * np.exp([0, epsilon, epsilon])
            q[0] = max(1 - q[1] - q[2], p[0] * math.exp(-epsilon))
            for order in ([0, 1, 2], [2, 1, 0]):
                found.append(PairCost(tuple(p[order]), tuple((q / q.sum())[order])))
    rng = np.random.default_rng(20)
    for symbols in (2, 3, 6) * 4:
        p = rng.dirichlet(np.full(symbols, 0.7)) + 1e-4
        q = p * np.exp(rng.uniform(-1, 1, symbols) * rng.choice([0.05, 0.5, 2, 6]))
        found.append(PairCost(tuple(p / p.sum()), tuple(q / q.sum())))
    return found


PAIRS = pairs()


@pytest.mark.few(4)
@pytest.mark.parametrize("mean", MEANS)
def test_no_small_mechanism_costs_more(mean: int) -> None:
    for pair in PAIRS:
        exact = PairCost(*(tuple(released(law, mean)) for law in pair.laws))
        cost = SelectionCost(trial=pair, trials=mean)
        assert (exact.rdp(ORDERS) <= cost.rdp(ORDERS) + 1e-9).all(), pair
        assert (exact.delta(EPSILONS) <= cost.delta(EPSILONS) + 1e-9).all(), pair


@pytest.mark.few(9)
@pytest.mark.parametrize("mean", MEANS[1:])
def test_the_check_can_fail(mean: int) -> None:
    """Without the mean's logarithm, or as one trial, the bound would be too small somewhere."""
    beyond, alone = 0, 0
    for pair in PAIRS:
        exact = PairCost(*(tuple(released(law, mean)) for law in pair.laws)).rdp(ORDERS)
        bound = SelectionCost(trial=pair, trials=mean).rdp(ORDERS)
        beyond += (exact > bound - math.log(mean) / (ORDERS - 1) + 1e-9).any()
        alone += (exact > pair.rdp(ORDERS) + 1e-9).any()
    assert beyond > 0
    assert alone > len(PAIRS) / 2


@pytest.mark.parametrize("mean", [2, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_privacy_is_exact(epsilon: float, mean: int) -> None:
    """One mechanism loses all but a thousandth of the pure epsilon, and none loses more."""
    good, tiny = 1 / (1 + math.exp(epsilon)), 1e-5
    first = np.array([1 - good - tiny, tiny, good])
    second = np.array([0, tiny * math.exp(-epsilon), good * math.exp(epsilon)])
    # A tiny level that is likelier under the first set, just below what is reached.
    second[0] = 1 - second.sum()
    losses = np.log(released(first, mean) / released(second, mean))
    claimed = float(
        pure_ratio(
            SelectionCost(trial=PureCost(epsilon_pure=epsilon, relation=RELATION), trials=mean)
        )
    )
    assert 0.999 * claimed < losses.max() < claimed * (1 + 1e-3)
    assert epsilon < claimed < 3 * epsilon


@pytest.mark.parametrize("mean", [1, 2, 10])
def test_the_law_is_a_sum_over_trials(mean: int) -> None:
    law, stop = np.array([0.2, 0.5, 0.05, 0.25]), 1 / mean
    below = np.append(0.0, np.cumsum(law))
    summed = sum(stop * (1 - stop) ** (k - 1) * np.diff(below**k) for k in range(1, 60 * mean))
    np.testing.assert_allclose(released(law, mean), summed, atol=1e-12)


def theorem_2(trial: Cost, mean: int, orders: np.ndarray) -> np.ndarray:
    """Return the bound of Papernot and Steinke, Theorem 2, of the geometric law."""
    grid = 1 + np.geomspace(1e-3, 1e5, 2000)
    other = ((1 - 1 / grid) * trial.rdp(grid) + math.log(mean) / grid).min()
    return trial.rdp(orders) + 2 * other + math.log(mean) / (orders - 1)


@pytest.mark.parametrize("sigma", [0.5, 3, 30])
@pytest.mark.parametrize("mean", [2, 10, 1000])
def test_it_is_sharper_than_theorem_2(mean: int, sigma: float) -> None:
    trial = GaussianCost(sigma=sigma, relation=RELATION)
    ours = SelectionCost(trial=trial, trials=mean).rdp(ORDERS)
    # Between the orders of its grid it is a chord, which is at most a thousandth above.
    assert (ours <= theorem_2(trial, mean, ORDERS) * (1 + 1e-3)).all()


def test_how_much_sharper() -> None:
    trial = GaussianCost(sigma=10, relation=RELATION)  # epsilon .497 at delta 1e-5
    orders = 1 + np.geomspace(1e-2, 1e3, 2000)
    rdp = theorem_2(trial, 10, orders)
    printed = rdp + np.log1p(-1 / orders) - (math.log(1e-5) + np.log(orders)) / (orders - 1)
    assert printed.min() == pytest.approx(1.209, abs=2e-3)
    budget = ConcentratedCost(rho=0.01, relation=RELATION)  # of the same divergences
    for cost, epsilon in ((trial, 0.824), (budget, 0.889)):
        found = float(SelectionCost(trial=cost, trials=10).epsilon(1e-5))
        assert found == pytest.approx(epsilon, abs=2e-3)


def test_one_trial_costs_what_it_costs() -> None:
    trial = LaplaceCost(scale=3, relation=RELATION)
    cost = SelectionCost(trial=trial, trials=1)
    np.testing.assert_array_equal(cost.rdp(ORDERS), trial.rdp(ORDERS))
    assert pure_ratio(cost) == pure_ratio(trial) == Fraction(2, 3)


def test_more_trials_cost_more_and_slowly() -> None:
    trial = ConcentratedCost(rho=0.01, relation=RELATION)
    epsilons = [float(SelectionCost(trial=trial, trials=m).epsilon(1e-5)) for m in (1, 3, 30, 300)]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] < 3.5 * epsilons[0]


def test_no_privacy_stays_none() -> None:
    cost = SelectionCost(trial=NoPrivacy(RELATION), trials=5)
    assert np.isinf(cost.rdp(ORDERS)).all()
    assert (cost.delta(EPSILONS) == 1).all()


def test_randomised_response_is_the_worst_of_pure_trials() -> None:
    p = np.array([1, math.exp(0.7)]) / (1 + math.exp(0.7))
    exact, claimed = (
        PairCost(tuple(p), tuple(p[::-1])),
        PureCost(epsilon_pure=0.7, relation=RELATION),
    )
    np.testing.assert_allclose(claimed.rdp(ORDERS), exact.rdp(ORDERS), rtol=1e-9)
    np.testing.assert_allclose(claimed.delta(EPSILONS), exact.delta(EPSILONS), atol=1e-13)
    assert (claimed.delta(EPSILONS) >= exact.delta(EPSILONS)).all()


def test_concentrated_is_what_gaussian_noise_costs() -> None:
    trial = GaussianCost(sigma=2, relation=RELATION)  # rho 1/4
    claimed = ConcentratedCost(rho=0.25, relation=RELATION)
    np.testing.assert_allclose(claimed.rdp(ORDERS), trial.rdp(ORDERS), rtol=1e-12)


def test_neighbours_have_to_be_mutual() -> None:
    """The derivation needs both directions, and a cost gives those that the relation lists."""
    one_way = Relation("one way", {"counts": [(1.0, 1.0)]})
    with pytest.raises(ValueError, match="reverse of each change"):
        SelectionCost(trial=LaplaceCost(scale=1, relation=one_way), trials=3)
    both = Relation("both ways", {"counts": [(1.0, -1.0), (1.0, -1.0, -1.0), (1.0, 1.0, -1.0)]})
    SelectionCost(trial=LaplaceCost(scale=1, relation=both), trials=3)


def test_budgets_take_it() -> None:
    pure = SelectionCost(trial=PureCost(epsilon_pure=0.2, relation=RELATION), trials=8)
    accountant = RdpAccountant(budget=PureDP(0.6))
    accountant.compose(pure)
    with pytest.raises(ValueError, match="budget"):
        accountant.compose(pure)
    other = RdpAccountant(budget=ApproxDP(1.0, 1e-5))
    other.compose(SelectionCost(trial=ConcentratedCost(rho=0.01, relation=RELATION), trials=8))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SelectionCost(trial=None, trials=3),
        lambda: SelectionCost(trial=NoPrivacy(RELATION), trials=0),
        lambda: SelectionCost(trial=NoPrivacy(RELATION), trials=2.5),
        lambda: SelectionCost(trial=NoPrivacy(RELATION), trials=10**10),
        lambda: SelectionCost(trial=BatchCost([NoPrivacy(RELATION)]), trials=3),
        lambda: ConcentratedCost(rho=0, relation=RELATION),
        lambda: ConcentratedCost(rho=1, relation=None),
        lambda: PureCost(epsilon_pure=math.nan, relation=RELATION),
        lambda: PureCost(epsilon_pure=1, relation="records"),
    ],
)
def test_wrong_arguments(make) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        make()
