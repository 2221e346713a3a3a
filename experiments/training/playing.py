"""Playing a policy that was saved: what it earns, and what it looks like."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np

from privrl.agents.policies import Policy
from privrl.continuous import ContinuousPolicy
from privrl.files.plain import listed
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray

_LONGEST: Final = 100_000  # steps, for environments without a limit

Playable = Policy | ContinuousPolicy
_Act = Callable[[Any, int], tuple[Any, str]]
"""From an observation and the step to an action and its name."""


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


def moments(policy: Playable, env: gym.Env[Any, Any], seed: int | None = None) -> Iterator[Moment]:
    """Play one episode, and stop at each moment of it.

    Parameters
    ----------
    policy : Policy or ContinuousPolicy
        What to do.
    env : gymnasium.Env
        Where. For a `Policy` its spaces are Discrete. For a `ContinuousPolicy` observations are a
        Box of its columns, and actions are numbered or have its columns.
    seed : int, optional
        Of the environment; without, its randomness continues.

    Raises
    ------
    ValueError
        If the policy is for another number of states or actions.
    """
    if isinstance(policy, Policy):
        act, horizon = _by_cells(policy, env), policy.horizon
    else:
        act, horizon = _by_numbers(policy, env), _LONGEST
    observation, _ = env.reset(seed=seed)
    step, total, over = 0, 0.0, False
    yield Moment(0, "", 0.0, 0.0)
    while not over and step < horizon:
        action, name = act(observation, step)
        step += 1
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
        yield Moment(step, name, float(reward), total)


def _by_cells(policy: Policy, env: gym.Env[Any, Any]) -> _Act:
    sizes = tuple(getattr(space, "n", None) for space in (env.observation_space, env.action_space))
    if sizes != (policy.n_states, policy.n_actions):
        raise ValueError(
            f"env must have the policy's {policy.n_states} states and {policy.n_actions} actions, "
            f"got {env.observation_space} and {env.action_space}; make it as it was for training."
        )

    def act(observation: Any, step: int) -> tuple[Any, str]:
        action, _ = policy.predict(observation, step)
        return action, policy.action_name(int(action) - policy.first_action)

    return act


def _by_numbers(policy: ContinuousPolicy, env: gym.Env[Any, Any]) -> _Act:
    schema, seen, done = policy.schema, env.observation_space, env.action_space
    boxes = gym.spaces.Box | gym.spaces.MultiDiscrete
    if not (isinstance(seen, boxes) and np.prod(seen.shape) == schema.n_state):
        raise ValueError(
            f"env must have observations of the policy's {schema.n_state} columns "
            f"{listed(schema.state)}, got {seen}; name an environment whose states are as in the "
            "log, or the folder of a model."
        )
    numbered = isinstance(done, gym.spaces.Discrete) and done.n == schema.n_actions
    if not (numbered or (isinstance(done, boxes) and np.prod(done.shape) == len(schema.action))):
        raise ValueError(
            f"env must have the policy's {schema.n_actions} actions, or actions of its columns "
            f"{listed(schema.action)}, got {done}."
        )
    names = schema.action_names

    def act(observation: Any, _: int) -> tuple[Any, str]:
        number = int(policy.act(np.asarray(observation, np.float64).reshape(-1)))
        if isinstance(done, gym.spaces.Discrete):
            return done.start + number, names[number]
        return schema.levels[number].reshape(done.shape or ()).astype(done.dtype), names[number]

    return act


def play_policy(
    policy: Playable, env: gym.Env[Any, Any], episodes: int, rng: Rng = None
) -> FloatArray:
    """Return what a policy earns in each of some episodes, shape (episodes,).

    It costs no privacy of those it was learned from. What is seen here is as private as who is met
    in these episodes.

    Raises
    ------
    ValueError
        As `moments`, and if an argument is of the wrong kind.
    """
    check_is("policy", policy, Policy, ContinuousPolicy)
    check_is("env", env, gym.Env, hint="gymnasium.make makes one")
    rng = as_rng(rng)
    earned = np.empty(check_count("episodes", episodes))
    for episode in range(episodes):
        *_, last = moments(policy, env, None if episode else int(rng.integers(2**31)))
        earned[episode] = last.total
    return earned
