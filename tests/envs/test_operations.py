"""Operations research: a published solution, and days enumerated one by one."""

import numpy as np
import pytest

from privrl.envs import plan
from privrl.envs.operations import inventory, machine_replacement, queue


def test_the_stock_that_puterman_solves():
    """Sections 3.2.2 and 4.6.1: rewards, and values and orders of three months, in sixteenths."""
    mdp = inventory()
    reward = [[0, -1, -2, -5], [5, 0, -3], [6, -1], [5]]
    for stock, row in enumerate(reward):
        np.testing.assert_allclose(mdp.expected_reward[stock, : len(row)], row, atol=1e-12)
    policy, value = plan(mdp.transition, mdp.expected_reward, 3)
    np.testing.assert_allclose(16 * value, [67, 129, 194, 227], rtol=1e-12)
    np.testing.assert_array_equal(policy, [[3, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])


def test_a_day_of_the_stock():
    demand = [0.1, 0.2, 0.0, 0.4, 0.3]
    mdp = inventory(demand, capacity=2, horizon=4)
    assert (mdp.n_states, mdp.n_actions, mdp.horizon, mdp.start[0]) == (3, 3, 4, 1)
    for stock in range(3):
        for order in range(3):
            law = np.zeros(3)
            for asked, chance in enumerate(demand):
                bought = min(order, 2 - stock)
                sold = min(stock + bought, asked)
                left = stock + bought - sold
                law[left] += chance
                paid = 8 * sold - 4 * (bought > 0) - 2 * bought - (stock + bought)
                if chance:
                    assert mdp.reward[stock, order, left] == pytest.approx(paid)
            np.testing.assert_allclose(mdp.transition[stock, order], law, atol=1e-15)


def test_what_never_sells_is_never_ordered():
    assert inventory([1.0], horizon=10).optimal_value() == 0


def test_a_period_of_the_machine():
    wear = [0.6, 0.3, 0.1]
    mdp = machine_replacement(4)
    for state in range(4):
        for action, working in ((0, state), (1, 0)):
            law = np.zeros(4)
            for worse, chance in enumerate(wear):
                law[min(working + worse, 3)] += chance
            np.testing.assert_allclose(mdp.transition[state, action], law, atol=1e-15)
            paid = 5 - working - 10 * action
            assert mdp.expected_reward[state, action] == paid


def test_the_machine_is_replaced_from_some_wear_on():
    mdp = machine_replacement()
    policy, _ = mdp.plan()
    assert (np.diff(policy, axis=1) >= 0).all()
    assert policy[0, 0] == 0
    assert policy[0, -1] == 1
    assert (policy[-1] == 0).all()  # a new one is not worth it for one period


def test_a_period_of_the_queue():
    service, costs = [0.2, 0.4, 0.6], [0.0, 1.0, 3.0]
    mdp = queue(2)
    assert (mdp.n_states, mdp.n_actions, mdp.horizon, mdp.start[0]) == (3, 3, 50, 1)
    for jobs in range(3):
        for speed in range(3):
            law, paid = np.zeros(3), -costs[speed] - 0.2 * jobs
            chance = service[speed] if jobs else 0.0
            for done, p in ((1, chance), (0, 1 - chance)):
                paid += p * 5 * done
                for came, q in ((1, 0.4), (0, 0.6)):
                    law[min(jobs - done + came, 2)] += p * q
            np.testing.assert_allclose(mdp.transition[jobs, speed], law, atol=1e-15)
            assert mdp.expected_reward[jobs, speed] == pytest.approx(paid)


def test_a_queue_in_equilibrium():
    """A birth-death chain: what leaves a number of jobs upwards comes back."""
    arrival, served = 0.4, 0.6
    law = np.linalg.matrix_power(queue(6).transition[:, 2], 2000)[0]
    up = arrival * np.where(np.arange(6) == 0, 1, 1 - served)
    np.testing.assert_allclose(law[:-1] * up, law[1:] * served * (1 - arrival), rtol=1e-9)


def test_more_jobs_are_served_faster_until_the_last_steps():
    policy, _ = queue().plan()
    assert policy[0, 0] == 0
    assert set(policy[0]) == {0, 1, 2}
    assert (np.diff(policy[0, :8]) >= 0).all()  # a full queue turns jobs away, which saves costs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: inventory(capacity=0), "capacity must be a whole number >= 1, got 0"),
        (lambda: inventory([0.5, 0.6]), "demand must be one row of probabilities that sum to 1"),
        (lambda: inventory([1.5, -0.5]), "demand must be one row of probabilities"),
        (lambda: inventory([]), "demand must be one row of probabilities"),
        (lambda: inventory([[1.0]]), "demand must be one row of probabilities"),
        (lambda: inventory([np.nan, 1.0]), "demand must be one row of probabilities"),
        (lambda: machine_replacement(n_states=1), "n_states must be a whole number >= 2, got 1"),
        (lambda: queue(capacity=2.5), "capacity must be a whole number >= 1, got 2.5"),
        (lambda: inventory(horizon=0), "horizon must be a whole number >= 1, got 0"),
    ],
)
def test_what_is_out_of_range_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
