"""Training one agent: Gymnasium environments step by step, a tabular MDP by its counts."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from privrl._checks import check_count
from privrl.agents import TabularAgent, Transition
from privrl.envs import TabularMDP
from privrl.envs.arrival import Playable, pays_on_arrival
from privrl.numerics.special import FloatArray

Progress = Callable[[int], None]


def train(
    agent: TabularAgent,
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
    episodes: int,
    rng: np.random.Generator,
    *,
    on_progress: Progress | None = None,
) -> pd.DataFrame:
    """Train an agent and record what it earned.

    Parameters
    ----------
    agent : TabularAgent
        Learns; its policy afterwards is ``agent.policy``.
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        Where it learns. A Gymnasium environment needs Discrete spaces, and a single run. In a
        vector environment, whatever its autoreset mode, an agent with ``batch_shape ==
        (num_envs,)`` learns an independent run in each environment; the environments of an
        agent that is a single run play its episodes side by side, as many at once as the
        policy stays for.
    episodes : int
        How many in each run, >= 1.
    rng : numpy.random.Generator
        The environment's randomness (the agent has its own).
    on_progress : callable, optional
        Is told after each stretch how many episodes are done.

    Returns
    -------
    pandas.DataFrame
        A row for each stretch of episodes under one policy (in a single Gymnasium environment,
        for each episode) and each run: ``run`` (0 for a single one), ``episode`` the first of the
        stretch, ``episodes`` their number, ``reward`` their sum, ``draws`` made so far. This
        is the researcher's view: the guarantee covers the policy, not this record.

    Raises
    ------
    BudgetExceeded
        If the agent's budget does not last.
    ValueError
        If agent and environment do not fit together, a reward leaves the declared range, or the
        environment's public tables (``P``, or a `TabularMDP`) show that rewards are paid on
        arrival and the agent's relation does not cover that. Of an environment without such
        tables, or whose wrappers change rewards, nobody but you can know.
    """
    check_count("episodes", episodes)
    if isinstance(env, TabularMDP):
        starts, rewards = learn_counts(agent, env, episodes, rng, on_progress=on_progress)
        draws = np.searchsorted(agent.schedule.starts(episodes), starts, side="right")
        return _record(starts, episodes, rewards.reshape(len(starts), -1), draws)
    if isinstance(env, VectorEnv):
        return _train_side_by_side(agent, env, episodes, rng, on_progress)
    _check_fit(agent, env, env.observation_space, env.action_space)
    _check_arrival(agent, env)
    if agent.batch_shape:
        raise ValueError(
            f"agent must be a single run on a Gymnasium environment, got batch_shape="
            f"{agent.batch_shape}; train batches on a TabularMDP, or on a vector environment."
        )
    rows = []
    for episode in range(episodes):
        agent.begin_episode(episode)
        # Seeding is slow; from its first reset on, the environment goes on by itself.
        seed = None if episode else int(rng.integers(2**31))
        earned = _one_episode(agent, env, seed)
        rows.append((0, episode, 1, earned, agent.draws))
        if on_progress:
            on_progress(episode + 1)
    return pd.DataFrame(rows, columns=["run", "episode", "episodes", "reward", "draws"])


def learn_counts(
    agent: TabularAgent,
    mdp: TabularMDP,
    episodes: int,
    rng: np.random.Generator,
    *,
    on_progress: Progress | None = None,
) -> tuple[list[int], FloatArray]:
    """Train all runs of an agent at once, a whole stretch under one policy at a time.

    Returns
    -------
    starts : list of int
        The first episode of each stretch.
    rewards : array, shape (len(starts), *agent.batch_shape)
        Sum of the rewards in each stretch and run.
    """
    sizes = (mdp.n_states, mdp.n_actions, mdp.horizon)
    if sizes != (agent.n_states, agent.n_actions, agent.horizon):
        raise ValueError(
            "agent must be made for the states, actions and horizon of the MDP, "
            f"{sizes}, got {(agent.n_states, agent.n_actions, agent.horizon)}."
        )
    if agent.terminates:
        raise ValueError(
            "agent must be made with terminates=False for a TabularMDP, whose episodes all last "
            "until the horizon."
        )
    _check_arrival(agent, mdp)
    starts = list(agent.starts(episodes))
    reward = mdp.reward_table
    if agent.support is not None and reward.shape[-1] > 1:
        reward = np.take_along_axis(reward, np.maximum(agent.support.next_states, 0), axis=-1)
    rewards = np.empty((len(starts), *agent.batch_shape))
    for i, (start, end) in enumerate(zip(starts, [*starts[1:], episodes], strict=True)):
        agent.begin_episode(start)
        counts = mdp.rollout_counts(agent.policy, end - start, rng, support=agent.support)
        agent.observe_counts(counts, reward)
        rewards[i] = np.einsum(
            "...sax,sax->...", counts, np.broadcast_to(reward, counts.shape[-3:])
        )
        if on_progress:
            on_progress(end)
    return starts, rewards


def _one_episode(agent: TabularAgent, env: gym.Env[Any, Any], seed: int | None) -> float:
    # Plain integers: the agent compares and looks up several at each step.
    first_state = int(env.observation_space.start)  # type: ignore[attr-defined] # Discrete
    first_action = int(env.action_space.start)  # type: ignore[attr-defined] # Discrete
    state = int(env.reset(seed=seed)[0]) - first_state
    earned = 0.0
    for step in range(agent.horizon):
        action = agent.act(state, step)
        following, reward, terminated, truncated, _ = env.step(action + first_action)
        if terminated and not agent.terminates:
            raise ValueError(
                f"{env} ended an episode before the horizon; make the agent with "
                "terminates=True so that it can learn where episodes end."
            )
        following, paid = int(following) - first_state, float(reward)
        agent.observe(Transition(state, action, paid, following, terminated))
        earned += paid
        state = following
        if terminated or truncated:
            break
    return earned


def _train_side_by_side(
    agent: TabularAgent,
    env: VectorEnv[Any, Any, Any],
    episodes: int,
    rng: np.random.Generator,
    on_progress: Progress | None,
) -> pd.DataFrame:
    """Train in rounds: in each, every environment plays one episode, all under one policy."""
    _check_fit(agent, env, env.single_observation_space, env.single_action_space)
    _check_arrival(agent, env)
    if agent.batch_shape not in ((), (env.num_envs,)):
        raise ValueError(
            f"agent must have batch_shape=({env.num_envs},), a run for each environment, or (), "
            f"one run in all of them, got {agent.batch_shape}."
        )
    if not isinstance(env.metadata.get("autoreset_mode"), AutoresetMode):
        raise ValueError(
            "env must name its AutoresetMode in metadata['autoreset_mode'], got "
            f"{env.metadata.get('autoreset_mode')!r}; which steps are real depends on it."
        )
    runs = env.num_envs if agent.batch_shape else 1
    at_once = env.num_envs // runs
    starts = list(agent.starts(episodes))
    rewards, draws = np.zeros((len(starts), runs)), np.zeros(len(starts), np.int64)
    env.reset(seed=int(rng.integers(2**31)))
    for i, (start, end) in enumerate(zip(starts, [*starts[1:], episodes], strict=True)):
        agent.begin_episode(start)
        draws[i] = agent.draws
        for first in range(start, end, at_once):
            playing = np.arange(env.num_envs) < runs * min(at_once, end - first)
            rewards[i] += _one_round(agent, env, playing).reshape(at_once, runs).sum(axis=0)
        if on_progress:
            on_progress(end)
    return _record(starts, episodes, rewards, draws)


def _one_round(
    agent: TabularAgent, env: VectorEnv[Any, Any, Any], playing: NDArray[np.bool_]
) -> FloatArray:
    """Play one episode in each environment, and tell the agent of those that count.

    An environment whose episode has ended is not looked at again before the next round, which
    resets all of them: so no step that resets is ever counted, whichever way they do it, nor
    any of the episodes that it may begin while it waits.

    Returns
    -------
    array, shape (num_envs,)
        Sum of the rewards of each episode that counts.
    """
    mode = env.metadata["autoreset_mode"]
    first_state, first_action = env.single_observation_space.start, env.single_action_space.start  # type: ignore[attr-defined] # Discrete
    policy = np.moveaxis(agent.policy, -2, 0).reshape(agent.horizon, -1)
    offset = np.arange(env.num_envs) * agent.n_states if agent.batch_shape else 0
    shape = agent.horizon, env.num_envs
    state, action, following = (np.zeros(shape, np.intp) for _ in range(3))
    observed, terminated = (np.zeros(shape, np.bool_) for _ in range(2))
    reward = np.zeros(shape)
    here = env.reset()[0] - first_state
    for step in range(agent.horizon):
        state[step], observed[step] = here, playing
        action[step] = policy[step].take(offset + here)
        seen, reward[step], terminated[step], truncated, infos = env.step(
            action[step] + first_action
        )
        following[step] = here = seen - first_state
        ended = terminated[step] | truncated
        if not ended.any():
            continue
        if (terminated[step] & playing).any() and not agent.terminates:
            raise ValueError(
                f"{env} ended an episode before the horizon; make the agent with "
                "terminates=True so that it can learn where episodes end."
            )
        if mode == AutoresetMode.SAME_STEP:
            following[step, ended] = _final_states(infos, ended) - first_state
        playing = playing & ~ended
        if not playing.any():
            break
        if mode == AutoresetMode.DISABLED:
            here = env.reset(options={"reset_mask": ended})[0] - first_state
    columns = len(observed), -1, *agent.batch_shape  # a run in each, or all of them of one
    agent.observe_steps(
        state.reshape(columns),
        action.reshape(columns),
        reward.reshape(columns),
        following.reshape(columns),
        observed=observed.reshape(columns),
        terminated=terminated.reshape(columns),
    )
    return np.where(observed, reward, 0.0).sum(axis=0)


def _final_states(infos: dict[str, Any], ended: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the observations that episodes ended with, where a step resets by itself."""
    if "final_obs" not in infos:
        raise ValueError(
            "env must give infos['final_obs'] where an episode has ended, as its autoreset mode "
            "'SameStep' says, and does not; the observation it returns is of the next episode."
        )
    return np.array([infos["final_obs"][i] for i in np.flatnonzero(ended)], np.intp)


def _record(
    starts: list[int], episodes: int, rewards: FloatArray, draws: NDArray[np.int64]
) -> pd.DataFrame:
    """Return a row for each stretch and run."""
    runs = rewards.shape[1]
    return pd.DataFrame(
        {
            "run": np.tile(np.arange(runs), len(starts)),
            "episode": np.repeat(starts, runs),
            "episodes": np.repeat(np.diff([*starts, episodes]), runs),
            "reward": rewards.ravel(),
            "draws": np.repeat(draws, runs),
        }
    )


def _check_arrival(agent: TabularAgent, env: Playable) -> None:
    """Check, before anything is spent, that rewards on arrival are covered where there are any."""
    if not agent.covers_arrival and pays_on_arrival(env):
        agent.check_covers_arrival()


def _check_fit(agent: TabularAgent, env: object, states: Space[Any], actions: Space[Any]) -> None:
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
        raise ValueError(
            f"env must have Discrete spaces, got {states} and {actions}; wrap it so that states "
            "and actions are numbered."
        )
    if (int(states.n), int(actions.n)) != (agent.n_states, agent.n_actions):
        raise ValueError(
            f"agent must be made for the {states.n} states and {actions.n} actions of {env}, got "
            f"{agent.n_states} and {agent.n_actions}."
        )
