"""Releasing stochastic policies: cost, law, and the value that is left."""

import numpy as np
import pytest
from scipy import special

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents.policy_release import PolicyMechanism, policy_value
from privrl.costs.dirichlet import DirichletCost
from privrl.envs import riverswim

MDP = riverswim(n_states=4, horizon=6)


def optimal() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.eye(2)[MDP.plan()[0]]


def test_value_of_a_deterministic_policy_is_that_of_the_planner() -> None:
    assert float(policy_value(MDP, optimal())) == pytest.approx(MDP.optimal_value(), rel=1e-12)
    stationary = np.zeros((6, 4), dtype=np.intp)
    assert float(policy_value(MDP, np.eye(2)[stationary[0]])) == pytest.approx(
        float(MDP.policy_value(stationary)), rel=1e-12
    )


def test_value_of_a_mixed_policy_is_the_mean_over_its_actions() -> None:
    """Brute force over all action sequences of two steps in every state."""
    mdp = riverswim(n_states=3, horizon=2)
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(2), size=(5, 2, 3))
    for one, value in zip(policy, policy_value(mdp, policy), strict=True):
        expected = 0.0
        for code in range(2**6):
            actions = np.array([code >> i & 1 for i in range(6)]).reshape(2, 3)
            chance = np.take_along_axis(one, actions[..., None], -1).prod()
            expected += chance * float(mdp.policy_value(actions))
        assert value == pytest.approx(expected, rel=1e-12)


def test_cost_is_that_of_one_row_changed() -> None:
    mechanism = PolicyMechanism(weight=10, n_actions=4, mixing=0.2, distance=0.5)
    cost = mechanism.cost
    assert isinstance(cost, DirichletCost)
    assert cost.alpha == pytest.approx(10 * 0.2 / 4)
    assert max(cost.changes[0]) == pytest.approx(0.8 * 0.25)  # after mixing


def test_neighbours_move_as_far_as_the_cost_says() -> None:
    """Two rows at the distance, mixed: what is drawn from differs by the change vector."""
    mechanism = PolicyMechanism(weight=10, n_actions=3, mixing=0.3, distance=2)
    rows = np.eye(3)[[0, 1]]
    mixed = 0.7 * rows + 0.1
    assert np.abs(mixed[0] - mixed[1]).max() == pytest.approx(max(mechanism.cost.changes[0]))
    assert mixed.min() == pytest.approx(mechanism.cost.alpha / 10)


def test_rows_that_miss_their_sum_move_no_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divided by a sum that rounding had left below 1, they moved farther than is paid for."""
    drawn = []
    monkeypatch.setattr(
        "privrl.mechanisms.simplex.posterior_rows",
        lambda counts, *_: [drawn.append(counts.copy()), counts][1],
    )
    mechanism = PolicyMechanism(weight=10, n_actions=2, mixing=0.25, distance=1)
    for row in ([0.25, 0.75 - 9e-10], [0.75, 0.25 - 9e-10]):
        mechanism.release([row], np.random.default_rng(0))
    moved = np.abs(drawn[0] - drawn[1]).max()
    assert moved <= 10 * max(mechanism.cost.changes[0])


def test_rows_above_one_move_no_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a probability is above 1 by rounding, a row could move farther than is paid for."""
    drawn = []
    monkeypatch.setattr(
        "privrl.mechanisms.simplex.posterior_rows",
        lambda counts, *_: [drawn.append(counts.copy()), counts][1],
    )
    mechanism = PolicyMechanism(weight=20, n_actions=2, mixing=0.1)
    above = 1 + 9.9e-10
    for row in ([above, 0.0], [0.0, above]):
        mechanism.release([row], np.random.default_rng(0))
    moved = np.abs(drawn[0] - drawn[1]).max()
    assert moved <= 20 * max(mechanism.cost.changes[0])


@pytest.mark.slow
def test_smaller_changes_of_two_components_cost_less() -> None:
    """Rows whose sums differ: one component grows by u, one falls by v, and s pays for both."""
    rng = np.random.default_rng(0)
    mechanism = PolicyMechanism(weight=4, n_actions=3, mixing=0.3, distance=1)
    least, paid = mechanism.cost.alpha, max(mechanism.cost.changes[0]) * 4

    def log_beta(x: np.ndarray) -> float:
        return float(special.gammaln(x).sum() - special.gammaln(x.sum()))

    near = 0.0
    for order in (1.01, 1.5, 3.0):
        most = float(mechanism.cost.rdp(order))
        for _ in range(3000):
            u, v = paid * (1 - rng.random(2) ** 3)
            lowest = least + rng.exponential(1, 3) * rng.integers(0, 2, 3)
            before, after = lowest + np.array([[0, v, 0], [u, 0, 0]])
            between = order * after - (order - 1) * before
            if (between <= 0).any():
                assert np.isinf(most)
                continue
            divergence = log_beta(between) - order * log_beta(after)
            divergence = (divergence + (order - 1) * log_beta(before)) / (order - 1)
            assert divergence <= most * (1 + 1e-9)
            near = max(near, divergence / most)
    assert near > 0.9  # it can fail


@pytest.mark.slow
def test_draws_are_policies_around_the_mixed_one() -> None:
    mechanism = PolicyMechanism(weight=50, n_actions=2, mixing=0.2)
    drawn = mechanism.release(
        np.broadcast_to(optimal(), (20_000, 6, 4, 2)), np.random.default_rng(1)
    )
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-12)
    expected = 0.8 * optimal() + 0.1
    np.testing.assert_allclose(drawn.mean(0), expected, atol=6 * np.sqrt(0.25 / 51 / 20_000))
    np.testing.assert_allclose(drawn.var(0), expected * (1 - expected) / 51, rtol=0.1)


@pytest.mark.few(6)
@pytest.mark.parametrize("target", [ApproxDP(3, 1e-5), ApproxDP(10, 1e-3)])
@pytest.mark.parametrize("distance", [0.2, 2.0])
def test_calibrated_meets_its_target(target: ApproxDP, distance: float) -> None:
    mechanism = PolicyMechanism.calibrated(target, n_actions=2, mixing=0.9, distance=distance)
    assert target.excess(mechanism.cost) <= 0
    assert float(mechanism.cost.epsilon(target.delta)) == pytest.approx(target.epsilon, rel=1e-6)


def test_taking_the_likeliest_action_brings_value_back() -> None:
    """At (3, 1e-5) for a change of a tenth; means of 500 releases, standard errors below 0.01."""
    mechanism = PolicyMechanism.calibrated(ApproxDP(3, 1e-5), n_actions=2, mixing=0.9, distance=0.2)
    released = mechanism.release(
        np.broadcast_to(optimal(), (500, 6, 4, 2)), np.random.default_rng(2)
    )
    as_it_is = policy_value(MDP, released).mean() / MDP.optimal_value()
    likeliest = np.eye(2)[released.argmax(axis=-1)]
    sharpened = policy_value(MDP, likeliest).mean() / MDP.optimal_value()
    assert as_it_is < 0.6
    assert sharpened > 0.95


def test_targets_that_no_weight_meets() -> None:
    with pytest.raises(ValueError, match="target must be one that the release can meet"):
        PolicyMechanism.calibrated(ApproxDP(1, 1e-5), n_actions=4, mixing=0.1)
    with pytest.raises(ValueError, match="target must be one that the release can meet"):
        PolicyMechanism.calibrated(RenyiDP(2, 100), n_actions=2, mixing=0.5)  # infinite at order 2


def test_budget_and_bad_input() -> None:
    rng, mechanism = np.random.default_rng(0), PolicyMechanism(weight=9, n_actions=2, mixing=0.9)
    poor = RdpAccountant(budget=ApproxDP(1e-9, 1e-12))
    with pytest.raises(BudgetExceeded):
        mechanism.release(optimal(), rng, accountant=poor)
    for data, words in (
        ([0.5, 0.4], "each sum to 1"),
        ([np.nan, 1.0], "each sum to 1"),
        ([1.0, 0.0, 0.0], "2 actions on the last axis"),
        (1.0, "2 actions on the last axis"),
    ):
        with pytest.raises(ValueError, match=words):
            mechanism.release(data, rng)
    for settings, words in (
        ({"mixing": 0.0}, "mixing must be"),
        ({"mixing": 1.0}, "mixing must be"),
        ({"n_actions": 1}, "n_actions must be"),
        ({"distance": 3}, "distance must be"),
        ({"distance": 0}, "distance must be"),
        ({"weight": -1}, "weight must be"),
    ):
        with pytest.raises(ValueError, match=words):
            PolicyMechanism(**({"weight": 1.0, "n_actions": 2, "mixing": 0.5} | settings))
    with pytest.raises(ValueError, match="policy must have shape"):
        policy_value(MDP, np.ones((3, 2)) / 2)
