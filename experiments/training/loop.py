"""Training one agent: Gymnasium environments step by step, a tabular MDP by its counts."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final
from weakref import ReferenceType, WeakKeyDictionary, ref

import gymnasium as gym
import numpy as np
import pandas as pd
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from privrl._checks import check_count
from privrl.agents import QLearning, TabularAgent, Transition
from privrl.envs import TabularMDP
from privrl.envs.arrival import Playable, pays_on_arrival, proved_without_arrival
from privrl.envs.steps import any_action
from privrl.experiments.training.checkpoints import Checkpoint, Keeper, Record
from privrl.experiments.training.stretches import play
from privrl.numerics.special import FloatArray

Progress = Callable[[int], None]


def train(
    agent: TabularAgent,
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
    episodes: int,
    rng: np.random.Generator,
    *,
    on_progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> pd.DataFrame:
    """Train an agent and record what it earned.

    An agent that was trained here before goes on where it was: its episodes are numbered on, so
    its schedule is, and in the environment that it was in last the random numbers are too. Two
    calls are as one of all their episodes: in a single Gymnasium environment bit for bit; where
    whole stretches are played at once, if the first ends with one, and otherwise by their law.
    A budget and a number of draws are planned for the total, when the agent is made.

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
        How many more in each run, >= 1.
    rng : numpy.random.Generator
        The environment's randomness (the agent has its own).
    on_progress : callable, optional
        Is told after each stretch how many of these episodes are done.
    checkpoint : Checkpoint, optional
        Where the run is saved. If the file is there, it is gone on with, by an unused agent made as
        the one before: the same call after a stop gives what it would have given without one, bit
        for bit (the environment is then seeded before every episode, and is to follow from its
        seeds).

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
        If agent and environment do not fit together, so many episodes take more draws than the
        agent's sampler has left, a reward leaves the declared range, or rewards may be paid on
        arrival and the agent's relation does not cover that. That they are not is shown by the
        environment's public tables (``P``, or a `TabularMDP`) or declared by its attribute
        ``arrival_rewards = False``, if no unknown wrapper changes rewards.
    """
    check_count("episodes", episodes)
    if isinstance(env, TabularMDP):
        starts, rewards = learn_counts(
            agent, env, episodes, rng, on_progress=on_progress, checkpoint=checkpoint
        )
        last = starts[0] + episodes
        draws = np.searchsorted(agent.schedule.starts(last), starts, side="right")
        return _record(starts, last, rewards.reshape(len(starts), -1), draws)
    if isinstance(env, VectorEnv):
        return _train_side_by_side(
            agent, env, episodes, rng, on_progress=on_progress, checkpoint=checkpoint
        )
    _check_fit(agent, env, env.observation_space, env.action_space)
    if agent.batch_shape:
        raise ValueError(
            f"agent must be a single run on a Gymnasium environment, got batch_shape="
            f"{agent.batch_shape}; train batches on a TabularMDP, or on a vector environment."
        )
    _check_arrival(agent, env)
    kept = Keeper(checkpoint, agent, env, rng, episodes)
    _check_plan(agent, kept.last)
    done = kept.record or {"reward": np.empty(0), "draws": np.empty(0, np.int64)}
    rewards, draws = done["reward"].tolist(), done["draws"].tolist()
    rows = partial(_rows, rewards, draws)
    # Seeding is slow; from its first reset on, the environment goes on by itself.
    seeds_next = kept.seeds_episodes or not _was_in(agent, env)
    for episode in range(kept.next, kept.last):
        kept.before(episode, rows)
        agent.begin_episode(episode)
        agent.episodes_done, _LAST_IN[agent] = episode + 1, ref(env.unwrapped)
        rewards.append(_one_episode(agent, env, int(rng.integers(2**31)) if seeds_next else None))
        draws.append(agent.draws)
        seeds_next = kept.seeds_episodes
        if on_progress:
            on_progress(episode + 1 - kept.first)
    kept.end(rows)
    columns = {"run": 0, "episode": np.arange(kept.first, kept.last), "episodes": 1}
    return pd.DataFrame(columns | rows())


def _rows(rewards: list[float], draws: list[int]) -> Record:
    return {"reward": np.array(rewards, np.float64), "draws": np.array(draws, np.int64)}


#: In which environment an agent had its last episode here.
_LAST_IN: Final[WeakKeyDictionary[TabularAgent, ReferenceType[object]]] = WeakKeyDictionary()


def _was_in(agent: TabularAgent, env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> bool:
    return agent in _LAST_IN and _LAST_IN[agent]() is env.unwrapped


def _check_plan(agent: TabularAgent, last: int) -> None:
    """Check that what is planned lasts for all episodes from the next to before the last."""
    first = agent.episodes_done
    episodes = last - first
    planned = getattr(agent.sampler, "updates", None)
    if planned is None:
        return
    due = [start for start in agent.schedule.starts(first + episodes) if start >= first]
    left = planned - agent.draws
    if len(due) > left:
        raise ValueError(
            f"episodes must be at most {due[left] - first} more, since the agent has made "
            f"{agent.draws} of the {planned} draws that its sampler is planned for, got "
            f"{episodes}; plan for the total when you make the agent."
        )


def _stretches(agent: TabularAgent, first: int, last: int) -> list[tuple[int, int]]:
    """Return first and last episode (the last is not in it) of each stretch under one policy."""
    _check_plan(agent, last)
    starts = [first, *(start for start in agent.starts(last) if start > first)]
    return list(pairwise([*starts, last]))


def learn_counts(
    agent: TabularAgent,
    mdp: TabularMDP,
    episodes: int,
    rng: np.random.Generator,
    *,
    on_progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[list[int], FloatArray]:
    """Train all runs of an agent at once, a whole stretch under one policy at a time.

    See `train` for the arguments.

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
    _check_arrival(agent, mdp)
    if isinstance(agent, QLearning):  # it learns of single steps
        if checkpoint is not None:
            raise ValueError(
                "checkpoint must be None for QLearning on tables, which plays all at once; train "
                "it on a Gymnasium environment."
            )
        first = agent.episodes_done
        agent.episodes_done = first + episodes
        return agent.learn(mdp, episodes, rng, first=first, on_progress=on_progress)
    kept = Keeper(checkpoint, agent, mdp, rng, episodes)
    stretches = _stretches(agent, kept.first, kept.last)
    rewards = np.empty((len(stretches), *agent.batch_shape))
    done = kept.record.get("reward", rewards[:0])
    rewards[: len(done)] = done
    for i, (start, end) in list(enumerate(stretches))[len(done) :]:
        kept.before(start, lambda i=i: {"reward": rewards[:i]})  # type: ignore[misc] # a default
        agent.begin_episode(start)
        agent.episodes_done = start + 1
        rewards[i] = play(agent, mdp, end - start, rng)
        agent.episodes_done = end
        if on_progress:
            on_progress(end - kept.first)
    kept.end(lambda: {"reward": rewards})
    return [start for start, _ in stretches], rewards


def _one_episode(agent: TabularAgent, env: gym.Env[Any, Any], seed: int | None) -> float:
    # Plain integers: the agent compares and looks up several at each step.
    first_state = int(env.observation_space.start)  # type: ignore[attr-defined] # Discrete
    first_action = int(env.action_space.start)  # type: ignore[attr-defined] # Discrete
    state = int(env.reset(seed=seed)[0]) - first_state
    if not 0 <= state < agent.n_states:  # those that follow are checked by the agent
        raise ValueError(
            f"env must begin in a state of its observation space {env.observation_space}, and "
            f"{env} does not; look into its reset."
        )
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
    *,
    on_progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> pd.DataFrame:
    """Train in rounds: in each, every environment plays one episode, all under one policy."""
    _check_fit(agent, env, env.single_observation_space, env.single_action_space)
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
    _check_arrival(agent, env)
    runs = env.num_envs if agent.batch_shape else 1
    at_once = env.num_envs // runs
    kept = Keeper(checkpoint, agent, env, rng, episodes)
    stretches = _stretches(agent, kept.first, kept.last)
    rewards, draws = np.zeros((len(stretches), runs)), np.zeros(len(stretches), np.int64)
    done = len(kept.record.get("draws", draws[:0]))
    if done:
        rewards[:done], draws[:done] = kept.record["reward"], kept.record["draws"]
    elif not _was_in(agent, env):
        env.reset(seed=int(rng.integers(2**31)))
    for i, (start, end) in list(enumerate(stretches))[done:]:
        kept.before(start, lambda i=i: {"reward": rewards[:i], "draws": draws[:i]})  # type: ignore[misc] # a default
        agent.begin_episode(start)
        agent.episodes_done, _LAST_IN[agent] = start + 1, ref(env.unwrapped)
        draws[i] = agent.draws
        for first in range(start, end, at_once):
            playing = np.arange(env.num_envs) < runs * min(at_once, end - first)
            if kept.seeds_episodes:
                env.reset(seed=int(rng.integers(2**31)))
            rewards[i] += _one_round(agent, env, playing, rng).reshape(at_once, runs).sum(axis=0)
        agent.episodes_done = end
        if on_progress:
            on_progress(end - kept.first)
    kept.end(lambda: {"reward": rewards, "draws": draws})
    starts = [start for start, _ in stretches]
    return _record(starts, stretches[-1][1], rewards, draws)


def _one_round(
    agent: TabularAgent,
    env: VectorEnv[Any, Any, Any],
    playing: NDArray[np.bool_],
    rng: np.random.Generator,
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
    policy = np.moveaxis(agent.behaviour, -2, 0).reshape(agent.horizon, -1)
    offset = np.arange(env.num_envs) * agent.n_states if agent.batch_shape else 0
    shape = agent.horizon, env.num_envs
    state, action, following = (np.zeros(shape, np.intp) for _ in range(3))
    observed, terminated = (np.zeros(shape, np.bool_) for _ in range(2))
    reward = np.zeros(shape)
    here = env.reset()[0] - first_state
    for step in range(agent.horizon):
        state[step], observed[step] = here, playing
        wanted = policy[step].take(offset + here)
        torn = np.flatnonzero(wanted < 0)
        if torn.size:
            run = torn if agent.batch_shape else np.zeros_like(torn)
            wanted[torn] = any_action(agent.n_actions, run, here[torn], agent.free, rng)
        action[step] = wanted
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
    starts: list[int], last: int, rewards: FloatArray, draws: NDArray[np.int64]
) -> pd.DataFrame:
    """Return a row for each stretch and run."""
    runs = rewards.shape[1]
    return pd.DataFrame(
        {
            "run": np.tile(np.arange(runs), len(starts)),
            "episode": np.repeat(starts, runs),
            "episodes": np.repeat(np.diff([*starts, last]), runs),
            "reward": rewards.ravel(),
            "draws": np.repeat(draws, runs),
        }
    )


def _check_arrival(agent: TabularAgent, env: Playable) -> None:
    """Check, before anything is spent, that rewards on arrival are covered or cannot be."""
    if agent.covers_arrival or proved_without_arrival(env):
        return
    if pays_on_arrival(env):
        agent.check_covers_arrival()
    raise ValueError(
        f"nothing shows that rewards of {env} do not depend on the state that is arrived in, and "
        "the agent's relation does not cover those that do; make it with arrival_rewards=True, or "
        "give the environment an attribute arrival_rewards = False if you know that they do not."
    )


def _check_fit(agent: TabularAgent, env: object, states: Space[Any], actions: Space[Any]) -> None:
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
        raise ValueError(
            f"env must have Discrete spaces, got {states} and {actions}; privrl.envs.numbered "
            "wraps it so that states and actions are numbered."
        )
    if (int(states.n), int(actions.n)) != (agent.n_states, agent.n_actions):
        raise ValueError(
            f"agent must be made for the {states.n} states and {actions.n} actions of {env}, got "
            f"{agent.n_states} and {agent.n_actions}."
        )
