"""The best plan in a released model, and its value there."""

import math

import numpy as np

from privrl.envs.released import Released
from privrl.envs.tabular import TabularMDP
from privrl.numerics.checks import check_is
from privrl.numerics.typing import FloatArray, IntArray
from privrl.offline.design import FACTS
from privrl.offline.facts import Estimate, estimate
from privrl.offline.support import check_discount


def plan_for(released: Released, *, discount: float = 1.0) -> tuple[IntArray, Estimate]:
    """Return the best policy of a released model, and its value there.

    Parameters
    ----------
    released : Released
        A model.
    discount : float
        In (0, 1].

    Returns
    -------
    policy : array of int, shape (H, S)
        An admissible action for each step and state, outcomes included.
    value : Estimate
        Of an episode in the model. It is the largest of many noisy values, and so likely to be
        above the value in the world: `evaluate_policy` estimates that. Bounds are of the model's
        ``deviations``, to first order; where it has none, all that is possible is between them.
    """
    check_is("released", released, Released)
    check_discount(discount)
    mdp = released.mdp
    barred = np.zeros((mdp.n_states, mdp.n_actions))
    if released.admissible is not None:
        barred[~released.admissible] = -math.inf
    policy, ahead = best_plan(mdp, barred, discount)
    value = float(ahead[0] @ mdp.start)
    low, high = (
        each * mdp.horizon for each in (mdp.expected_reward.min(), mdp.expected_reward.max())
    )
    possible = min(low, 0.0), max(high, 0.0)
    if released.deviations is None:
        return policy, estimate(value, math.inf, math.inf, possible)
    often, here = np.zeros((mdp.n_states, mdp.n_actions)), mdp.start
    states = np.arange(mdp.n_states)
    for step, chosen in enumerate(policy):
        often[states, chosen] += discount**step * here
        here = here @ mdp.transition[states, chosen]
    off = FACTS.deviations * math.sqrt(float(((often * released.deviations) ** 2).sum()))
    return policy, estimate(value, FACTS.chosen * off, off, possible)


def best_plan(
    mdp: TabularMDP, barred: FloatArray, discount: float = 1.0
) -> tuple[IntArray, FloatArray]:
    """Return the best policy, shape (H, S), and the values at each step, shape (H + 1, S).

    ``barred``, shape (S, A), is added to rewards: zero, or minus infinity for actions that are not
    admissible.
    """
    horizon, n_states = mdp.horizon, mdp.n_states
    worth, policy = np.zeros((horizon + 1, n_states)), np.empty((horizon, n_states), np.intp)
    for step in reversed(range(horizon)):
        ahead = mdp.expected_reward + discount * (mdp.transition @ worth[step + 1]) + barred
        policy[step] = ahead.argmax(axis=1)
        worth[step] = ahead.max(axis=1)
    return policy, worth
