"""Playing a policy that was saved: what it earns, and what it looks like."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from privrl.agents.continuous import ContinuousPlayer
from privrl.agents.policies import Policy
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray


class Moment(NamedTuple):
    """An episode as it is played: where it begins, and after each step.

    Attributes
    ----------
    step : int
        How many steps were taken; 0 where the episode begins.
    action : str
        What was done last, "" at first.
    reward, total : float
        Of that step, and of the episode so far.
    """

    step: int
    action: str
    reward: float
    total: float


Played = Policy | ContinuousPlayer


def moments(policy: Played, env: gym.Env[Any, Any], seed: int | None = None) -> Iterator[Moment]:
    """Play one episode, and stop at each moment of it.

    Parameters
    ----------
    policy : Policy or ContinuousPlayer
        What to do.
    env : gymnasium.Env
        Where; its spaces are Discrete, as the policy's.
    seed : int, optional
        Of the environment; without, its randomness goes on.

    Raises
    ------
    ValueError
        If the policy is for another number of states or actions.
    """
    if isinstance(policy, ContinuousPlayer):
        policy.check_fits(env)
    else:
        _check_sizes(policy, env)
    observation, _ = env.reset(seed=seed)
    step, total, over = 0, 0.0, False
    yield Moment(0, "", 0.0, 0.0)
    while not over and step < policy.horizon:
        action, _ = policy.predict(observation, step)
        step += 1
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
        name = policy.action_name(int(action) - policy.first_action)
        yield Moment(step, name, float(reward), total)


def _check_sizes(policy: Policy, env: gym.Env[Any, Any]) -> None:
    sizes = tuple(getattr(space, "n", None) for space in (env.observation_space, env.action_space))
    if sizes != (policy.n_states, policy.n_actions):
        raise ValueError(
            f"env must have the policy's {policy.n_states} states and {policy.n_actions} actions, "
            f"got {env.observation_space} and {env.action_space}; make it as it was for training."
        )


def play_policy(
    policy: Played, env: gym.Env[Any, Any], episodes: int, rng: Rng = None
) -> FloatArray:
    """Return what a policy earns in each of some episodes, shape (episodes,).

    It costs no privacy of those it was learned from. What is seen here is as private as who is met
    in these episodes.

    Raises
    ------
    ValueError
        As `moments`, and if an argument is of the wrong kind.
    """
    check_is("policy", policy, Policy, ContinuousPlayer)
    check_is("env", env, gym.Env, hint="gymnasium.make makes one")
    rng = as_rng(rng)
    earned = np.empty(check_count("episodes", episodes))
    for episode in range(episodes):
        *_, last = moments(policy, env, None if episode else int(rng.integers(2**31)))
        earned[episode] = last.total
    return earned
