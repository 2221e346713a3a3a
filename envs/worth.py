"""The exact value of a policy by an environment's tables, beside chance and optimum."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from privrl.envs.facts import tables_hold
from privrl.files.html import InHtml
from privrl.numerics.checks import check_is, plain_array
from privrl.numerics.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Worth(InHtml):
    """Expected sums of rewards over an episode, exact.

    Attributes
    ----------
    policy, optimum, random : float
        Of a policy, of the best one, and of uniformly random actions.
    """

    policy: float
    optimum: float
    random: float

    def share(self, value: float) -> float | None:
        """Return how far a value is from chance, 0, to the optimum, 1; None if these are equal."""
        gap = self.optimum - self.random
        return (value - self.random) / gap if gap > 1e-12 * abs(self.optimum) else None


def worth(env: gym.Env[Any, Any], policy: IntArray) -> Worth | None:
    """Return what a policy is worth in an environment, if it carries tables that hold.

    Parameters
    ----------
    env : gymnasium.Env
        See `privrl.envs.facts.tables_hold`, and `privrl.envs.toy_text.read_tables` for what its
        tables are.
    policy : array of int, shape (H, S)
        Action at each step and state; -1 for any, uniformly at random.
    """
    check_is("env", env, gym.Env)
    policy = plain_array("policy", policy)
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    if start is None or not tables_hold(env):
        return None
    table: Any = env.unwrapped.P  # type: ignore[attr-defined] # it holds
    n_states, n_actions = len(table), len(table[0])
    fits = policy.ndim == 2 and policy.shape[1] == n_states and policy.dtype.kind in "iu"
    if not fits or ((policy < -1) | (policy >= n_actions)).any():
        raise ValueError(
            f"policy must be actions from -1 to {n_actions - 1} for each step and each of "
            f"{n_states} states, got {policy.dtype} of shape {policy.shape}."
        )
    # One after the other, since most rows lead to a few states of many.
    flat = [
        (state * n_actions + action, *outcome)
        for state in range(n_states)
        for action in range(n_actions)
        for outcome in table[state][action]
    ]
    row, chance, following, paid, over = map(np.asarray, zip(*flat, strict=True))
    weight, goes_on = chance.astype(np.float64), ~over.astype(np.bool_)
    row, following = row.astype(np.intp), following.astype(np.intp)

    def ahead(values: FloatArray) -> FloatArray:
        gain = weight * (paid + values[following] * goes_on)
        sums = np.bincount(row, gain, n_states * n_actions).astype(np.float64)
        return sums.reshape(n_states, n_actions)

    followed, best, random = np.zeros((3, n_states))
    states = np.arange(n_states)
    for actions in policy[::-1]:
        mine, best, random = ahead(followed), ahead(best).max(axis=1), ahead(random).mean(axis=1)
        followed = np.where(actions < 0, mine.mean(axis=1), mine[states, actions])
    return Worth(*(float(values @ start) for values in (followed, best, random)))
