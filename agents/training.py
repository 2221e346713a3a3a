"""Training of one agent: step by step in Gymnasium environments, by counts in tabular MDPs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from numpy.typing import NDArray

from privrl.agents.checkpoints import Checkpoint, CheckpointManager, Record
from privrl.agents.observer import Transition
from privrl.agents.released import learns_in
from privrl.agents.tabular import TabularAgent
from privrl.costs.base import NoPrivacy
from privrl.costs.relations import ReplaceEpisode
from privrl.envs.facts import (
    Playable,
    check_steps_alone,
    pays_on_arrival,
    proved_without_arrival,
)
from privrl.envs.steps import any_action, rollout_steps
from privrl.envs.tabular import TabularMDP
from privrl.files.chosen import check_file
from privrl.files.shown import shown, shown_env
from privrl.numerics.checks import check_count, check_is, plain_array, plain_float
from privrl.numerics.randomness import Rng, as_rng, own_rng
from privrl.numerics.typing import BoolArray, FloatArray

_seen = partial(tuple.__new__, Transition)  # faster than Transition.__new__
Environment = gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive episodes of an agent under one policy, for callbacks.

    Attributes
    ----------
    first : int
        Number of the first episode, counted over all calls.
    episodes : int
        Number of episodes.
    done, total : int
        Numbers of finished and of all episodes of this call.
    draws : int
        The agent's draws so far; public, since the schedule is.
    reward : array, shape (runs,)
        Sum of the rewards in each run. **Not private**: the guarantee does not cover it.
    """

    first: int
    episodes: int
    done: int
    total: int
    draws: int
    reward: FloatArray

    @property
    def mean_reward(self) -> float:
        """Mean reward of an episode over all runs; not private."""
        return float(self.reward.mean()) / self.episodes


Callback = Callable[[Stretch], object]


class Earned(NamedTuple):
    """The rewards of a call of `run`, for research; not private.

    Attributes
    ----------
    starts : list of int
        The first episode of each stretch.
    last : int
        The episode after the last.
    reward : array, shape (len(starts), runs)
        Sum of the rewards in each stretch and run.
    draws : array of int, shape (len(starts),)
        Number of draws so far.
    """

    starts: list[int]
    last: int
    reward: FloatArray
    draws: NDArray[np.int64]


def run(
    agent: TabularAgent,
    env: Environment,
    episodes: int,
    rng: np.random.Generator,
    *,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Earned:
    """Train an agent; see `privrl.experiments.train`."""
    check_count("episodes", episodes)
    if not (callback is None or callable(callback)):
        raise ValueError(
            f"callback must be callable with a Stretch, got {shown(callback)}; "
            "privrl.experiments.callbacks has some."
        )
    with agent._lock:  # one at a time: a draw of another thread could divide an episode
        return _run(agent, env, episodes, own_rng(rng), callback=callback, checkpoint=checkpoint)


def _run(
    agent: TabularAgent, env: Environment, episodes: int, rng: np.random.Generator, **kept: Any
) -> Earned:
    if isinstance(env, TabularMDP):
        starts, rewards = learn_counts(agent, env, episodes, rng, **kept)
        last = starts[0] + episodes
        draws = np.searchsorted(agent.schedule.starts(last), starts, side="right")
        return Earned(starts, last, rewards.reshape(len(starts), -1), draws)
    if isinstance(env, VectorEnv):
        return _side_by_side(agent, env, episodes, rng, **kept)
    return _one_by_one(agent, env, episodes, rng, **kept)


def _one_by_one(
    agent: TabularAgent,
    env: gym.Env[Any, Any],
    episodes: int,
    rng: np.random.Generator,
    *,
    callback: Callback | None,
    checkpoint: Checkpoint | None,
) -> Earned:
    check_is("env", env, gym.Env, VectorEnv, TabularMDP)
    _check_fit(agent, env, env.observation_space, env.action_space)
    if agent.batch_shape:
        raise ValueError(
            f"agent must be a single run on a Gymnasium environment, got batch_shape="
            f"{agent.batch_shape}; train batches on a TabularMDP, or on a vector environment."
        )
    _check_arrival(agent, env)
    kept = _begun(checkpoint, agent, env, rng, episodes)
    done = kept.record or {"reward": np.empty(0), "draws": np.empty(0, np.int64)}
    rewards, draws = done["reward"].tolist(), done["draws"].tolist()
    rows = partial(_rows, rewards, draws)
    # Seeding is slow, and only the first reset needs a seed.
    seeds_next = kept.seeds_episodes or not _was_in(agent, env)
    for episode in range(kept.next, kept.last):
        kept.before(episode, rows)
        agent.begin_episode(episode)
        agent.episodes_done, _LAST_IN[agent] = episode + 1, ref(env.unwrapped)
        rewards.append(_one_episode(agent, env, int(rng.integers(2**31)) if seeds_next else None))
        draws.append(agent.draws)
        seeds_next = kept.seeds_episodes
        if callback:
            paid = np.array(rewards[-1:])
            callback(Stretch(episode, 1, episode + 1 - kept.first, episodes, agent.draws, paid))
    kept.end(rows)
    starts = list(range(kept.first, kept.last))
    return Earned(starts, kept.last, np.array(rewards, np.float64)[:, None], rows()["draws"])


def _begun(
    checkpoint: Checkpoint | None, agent: TabularAgent, env: Environment, *run: Any
) -> CheckpointManager:
    """Begin a run, or resume it; the agent states from now on what the environment cost."""
    kept = CheckpointManager(checkpoint, agent, env, *run)
    _check_plan(agent, kept.last)
    learns_in(agent, env)  # after a load, which states that of the file, and unless it is refused
    if checkpoint is not None:
        check_file(agent)  # before the first draw
    return kept


def _rows(rewards: list[float], draws: list[int]) -> Record:
    return {"reward": np.array(rewards, np.float64), "draws": np.array(draws, np.int64)}


#: The environment of each agent's last episode.
_LAST_IN: Final[WeakKeyDictionary[TabularAgent, ReferenceType[object]]] = WeakKeyDictionary()


def _was_in(agent: TabularAgent, env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> bool:
    return agent in _LAST_IN and _LAST_IN[agent]() is env.unwrapped


def _check_plan(agent: TabularAgent, last: int) -> None:
    """Check that the planned draws suffice for the episodes up to ``last``."""
    first = agent.episodes_done
    episodes = last - first
    planned = getattr(agent.sampler, "updates", None)
    if planned is None:
        return
    due = [
        start
        for start in agent.schedule.starts(first + episodes)
        if start >= first and start != agent._unplanned
    ]
    left = planned - agent.draws
    if len(due) > left:
        raise ValueError(
            f"episodes must be at most {due[left] - first} more, since the agent has made "
            f"{agent.draws} of the {planned} draws that its sampler is planned for, got "
            f"{episodes}; plan for the total when you make the agent: PSRL.private(env, "
            "episodes=...)."
        )


def _stretches(agent: TabularAgent, first: int, last: int) -> list[tuple[int, int]]:
    """Return the first episode of each stretch under one policy, and the one after its last."""
    _check_plan(agent, last)
    starts = [first, *(start for start in agent.starts(last) if start > first)]
    return list(pairwise([*starts, last]))


def learn_counts(
    agent: TabularAgent,
    mdp: TabularMDP,
    episodes: int,
    rng: Rng = None,
    *,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[list[int], FloatArray]:
    """Train all runs of an agent at once, by stretches of episodes under one policy.

    See `privrl.experiments.train` for the arguments.

    Returns
    -------
    starts : list of int
        The first episode of each stretch.
    rewards : array, shape ``(len(starts), *agent.batch_shape)``
        Sum of the rewards in each stretch and run.
    """
    rng = own_rng(as_rng(rng))
    sizes = (mdp.n_states, mdp.n_actions, mdp.horizon)
    if sizes != (agent.n_states, agent.n_actions, agent.horizon):
        raise ValueError(
            "agent must be made for the states, actions and horizon of the MDP, "
            f"{sizes}, got {(agent.n_states, agent.n_actions, agent.horizon)}."
        )
    _check_arrival(agent, mdp)
    if agent.needs_steps:
        if checkpoint is not None:
            raise ValueError(
                "checkpoint must be None on tables for an agent that learns from single steps; "
                "train it on a Gymnasium environment."
            )
        learns_in(agent, mdp)
        first = agent.episodes_done
        agent.episodes_done = first + episodes

        def tell(episode: int, reward: FloatArray) -> None:
            if callback:
                callback(Stretch(episode, 1, episode + 1 - first, episodes, agent.draws, reward))

        played: tuple[list[int], FloatArray] = agent.play(  # type: ignore[attr-defined] # see needs_steps
            mdp, episodes, rng, first=first, tell=tell
        )
        return played
    if agent.support is not None:
        if agent.terminates:
            raise ValueError(
                "agent must have no support with terminates=True on tables, which never terminate; "
                "train it on a Gymnasium environment, or make it without a support."
            )
        agent.support.columns(*np.nonzero(mdp.transition))  # refused before the first draw
    kept = _begun(checkpoint, agent, mdp, rng, episodes)
    stretches = _stretches(agent, kept.first, kept.last)
    rewards = np.empty((len(stretches), *agent.batch_shape))
    done = kept.record.get("reward", rewards[:0])
    rewards[: len(done)] = done
    for i, (start, end) in list(enumerate(stretches))[len(done) :]:
        kept.before(start, lambda i=i: {"reward": rewards[:i]})  # type: ignore[misc] # a default
        agent.begin_episode(start)
        agent.episodes_done = start + 1
        rewards[i] = play(agent, mdp, end - start, rng, first=start)
        if callback:
            paid = rewards[i].ravel().copy()
            callback(Stretch(start, end - start, end - kept.first, episodes, agent.draws, paid))
    kept.end(lambda: {"reward": rewards})
    return [start for start, _ in stretches], rewards


def _one_episode(agent: TabularAgent, env: gym.Env[Any, Any], seed: int | None) -> float:
    # Plain integers are faster for the agent's comparisons and lookups.
    first_state = int(env.observation_space.start)  # type: ignore[attr-defined] # Discrete
    first_action = int(env.action_space.start)  # type: ignore[attr-defined] # Discrete
    n_states = agent.n_states
    # Python's errors would show the private value.
    try:
        state = int(_unmasked(env.reset(seed=seed)[0])) - first_state
    except (TypeError, ValueError, OverflowError):
        state = -1
    if not 0 <= state < n_states:
        raise _no_state(env, env.observation_space)
    earned, act, observe, move = 0.0, agent.act, agent.observe, env.step
    for step in range(agent.horizon):
        action = act(state, step)
        following, reward, terminated, truncated, _ = move(action + first_action)
        if terminated and not agent.terminates:
            raise _unexpected_end(env)
        try:
            if type(following) is not np.int64:
                following = _unmasked(following)
            following = int(following) - first_state
            paid = reward if type(reward) is float else plain_float("reward", reward)
        except (TypeError, ValueError, OverflowError):
            following = -1
        if not 0 <= following < n_states:
            raise _no_state(env, env.observation_space)
        observe(_seen((state, action, paid, following, terminated)))
        earned += paid
        state = following
        if terminated or truncated:
            break
    return earned


def _side_by_side(
    agent: TabularAgent,
    env: VectorEnv[Any, Any, Any],
    episodes: int,
    rng: np.random.Generator,
    *,
    callback: Callback | None,
    checkpoint: Checkpoint | None,
) -> Earned:
    """Train in rounds, in which every environment plays one episode under one policy."""
    _check_fit(agent, env, env.single_observation_space, env.single_action_space)
    if agent.batch_shape not in ((), (env.num_envs,)):
        raise ValueError(
            f"agent must have batch_shape=({env.num_envs},), a run for each environment, or (), "
            f"one run in all of them, got {agent.batch_shape}."
        )
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise ValueError(
            f"env must name its AutoresetMode in metadata['autoreset_mode'], got {shown(mode)}; "
            "which steps are real depends on it."
        )
    apart = isinstance(env.unwrapped, AsyncVectorEnv) and not env.unwrapped.shared_memory
    if apart and mode == AutoresetMode.NEXT_STEP:  # its processes forget that they were reset
        raise ValueError(
            "env must share memory with its processes, or its first step after a reset resets "
            "again, and would be counted; pass shared_memory=True, or autoreset_mode='SameStep'."
        )
    _check_arrival(agent, env)
    runs = env.num_envs if agent.batch_shape else 1
    at_once = env.num_envs // runs
    kept = _begun(checkpoint, agent, env, rng, episodes)
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
            agent.episodes_done = min(first + at_once, end)  # no fewer than are recorded, ever
            playing = np.arange(env.num_envs) < runs * min(at_once, end - first)
            if kept.seeds_episodes:
                env.reset(seed=int(rng.integers(2**31)))
            rewards[i] += _one_round(agent, env, playing, rng).reshape(at_once, runs).sum(axis=0)
        if callback:
            paid = rewards[i].copy()
            callback(Stretch(start, end - start, end - kept.first, episodes, agent.draws, paid))
    kept.end(lambda: {"reward": rewards, "draws": draws})
    return Earned([start for start, _ in stretches], stretches[-1][1], rewards, draws)


def _one_round(
    agent: TabularAgent,
    env: VectorEnv[Any, Any, Any],
    playing: NDArray[np.bool_],
    rng: np.random.Generator,
) -> FloatArray:
    """Play one episode in each environment, and pass those that count to the agent.

    After the end of its episode, an environment is ignored until the next round, which resets all
    environments. Reset steps are therefore never counted, in any autoreset mode, nor are episodes
    that an environment starts in the meantime.

    Returns
    -------
    array, shape (num_envs,)
        Sum of the rewards of each episode that counts.
    """
    mode = env.metadata["autoreset_mode"]
    first_action = env.single_action_space.start  # type: ignore[attr-defined] # Discrete
    policy = np.moveaxis(agent.behaviour, -2, 0).reshape(agent.horizon, -1)
    offset = np.arange(env.num_envs) * agent.n_states if agent.batch_shape else 0
    shape = agent.horizon, env.num_envs
    state, action, following = (np.zeros(shape, np.intp) for _ in range(3))
    observed, terminated = (np.zeros(shape, np.bool_) for _ in range(2))
    reward = np.zeros(shape)
    here = _states_of(env, env.reset()[0])
    for step in range(agent.horizon):
        state[step], observed[step] = here, playing
        wanted = policy[step].take(offset + here)
        torn = np.flatnonzero(wanted < 0)
        if torn.size:
            run = torn if agent.batch_shape else np.zeros_like(torn)
            wanted[torn] = any_action(agent.n_actions, run, here[torn], agent.free, rng)
        action[step] = wanted
        seen, paid, over, truncated, infos = env.step(action[step] + first_action)
        following[step] = here = _states_of(env, seen)
        with np.errstate(all="ignore"):  # a warning would tell of longer floats
            reward[step] = _rewards_of(env, paid)
        terminated[step] = over = _flags_of(env, over)
        ended = over | _flags_of(env, truncated)
        if not ended.any():
            continue
        if (terminated[step] & playing).any() and not agent.terminates:
            raise _unexpected_end(env)
        if mode == AutoresetMode.SAME_STEP:
            following[step, ended] = _final_states(env, infos, ended)
        playing = playing & ~ended
        if not playing.any():
            break
        if mode == AutoresetMode.DISABLED:
            here = _states_of(env, env.reset(options={"reset_mask": ended})[0])
    columns = len(observed), -1, *agent.batch_shape  # one run per environment, or one run in all
    agent.observe_steps(
        state.reshape(columns),
        action.reshape(columns),
        reward.reshape(columns),
        following.reshape(columns),
        observed=observed.reshape(columns),
        terminated=terminated.reshape(columns),
    )
    return np.where(observed, reward, 0.0).sum(axis=0)


def _unmasked(state: Any) -> Any:
    return plain_array("state", state) if isinstance(state, np.ndarray) else state


def _states_of(env: VectorEnv[Any, Any, Any], seen: object) -> NDArray[np.intp]:
    """Return observations as states counted from 0; errors do not show them."""
    space: Any = env.single_observation_space  # Discrete
    try:
        numbers = plain_array("observations", seen)
    except ValueError:  # ragged
        numbers = np.empty(0)
    if (
        numbers.dtype.kind not in "iu"
        or not ((numbers >= space.start) & (numbers < space.start + space.n)).all()
    ):
        raise _no_state(env, space)
    return numbers.astype(np.intp) - int(space.start)


def _rewards_of(env: VectorEnv[Any, Any, Any], paid: object) -> NDArray[Any]:
    """Return rewards as an array; errors do not show them."""
    numbers = plain_array("rewards", paid)
    if numbers.dtype.kind not in "biuf":
        raise _no_state(env, env.single_observation_space)
    return numbers


def _flags_of(env: VectorEnv[Any, Any, Any], flags: object) -> BoolArray:
    """Return for each environment whether its episode has ended."""
    found = plain_array("flags", flags)
    if found.dtype != np.bool_ or found.shape != (env.num_envs,):
        raise ValueError(
            "env must tell of each environment whether its episode has ended, as bool, and "
            f"{shown_env(env)} did not; check its step."
        )
    return found


def _unexpected_end(env: object) -> ValueError:
    return ValueError(
        f"{shown_env(env)} ended an episode before the horizon; make the agent with "
        "terminates=True so that it can learn where episodes end."
    )


def _no_state(env: object, space: object) -> ValueError:
    """Return the error for an invalid observation or reward, without its value."""
    return ValueError(
        f"env must show states of its observation space {space} and pay numbers, and "
        f"{shown_env(env)} did not; check its reset and step."
    )


def _final_states(
    env: VectorEnv[Any, Any, Any], infos: Any, ended: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the final observations of ended episodes, in mode SAME_STEP."""
    if isinstance(infos, list):  # one for each environment, by `DictInfoToList`
        infos = {"final_obs": [each.get("final_obs") for each in infos]}
    if "final_obs" not in infos:
        raise ValueError(
            "env must give infos['final_obs'] where an episode has ended, as its autoreset mode "
            "'SameStep' says, and does not; the observation it returns is of the next episode."
        )
    try:
        last = [infos["final_obs"][i] for i in np.flatnonzero(ended)]
    except (TypeError, LookupError):
        raise _no_state(env, env.single_observation_space) from None
    return _states_of(env, last)


def _check_arrival(agent: TabularAgent, env: Playable) -> None:
    """Check, before any charge, that rewards on arrival are covered or impossible."""
    if agent.covers_arrival or proved_without_arrival(env):
        return
    if pays_on_arrival(env):
        agent.check_covers_arrival()
    raise ValueError(
        f"nothing shows that rewards of {shown_env(env)} do not depend on the state that is "
        "arrived in, and the agent's relation does not cover those that do; make it with "
        "arrival_rewards=True, or give the class of its step an attribute arrival_rewards = False "
        "if you know that they do not."
    )


def _check_fit(agent: TabularAgent, env: Any, states: Space[Any], actions: Space[Any]) -> None:
    costs = [part.fresh().cost for part in (agent._sampler, agent._rewards)]  # a used one is free
    paid = [cost.relation for cost in costs if not isinstance(cost, NoPrivacy | None)]
    check_steps_alone(env, by_episode=all(isinstance(each, ReplaceEpisode) for each in paid))
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
        raise ValueError(
            f"env must have Discrete spaces, got {states} and {actions}; privrl.envs.numbered "
            "wraps it so that states and actions are numbered."
        )
    if (int(states.n), int(actions.n)) != (agent.n_states, agent.n_actions):
        raise ValueError(
            f"agent must be made for the {states.n} states and {actions.n} actions of "
            f"{shown_env(env)}, got {agent.n_states} and {agent.n_actions}."
        )


_LARGE = 2**20  # cells of the tables of all runs, up to which counts are fast
_AT_ONCE = 2**18  # steps to play at a time


def play(
    agent: TabularAgent, mdp: TabularMDP, episodes: int, rng: np.random.Generator, *, first: int = 0
) -> FloatArray:
    """Play episodes in an MDP from number ``first`` on, and pass the data to the agent.

    Counts are sampled directly, in a time that hardly depends on the number of episodes. If the
    tables are large and few cells are visited, single steps are sampled instead, without a table.
    Both have the same distribution.

    Returns
    -------
    array, shape agent.batch_shape
        Sum of the rewards of each run.
    """
    reward, width = mdp.reward_table, mdp.n_states
    if agent.support is not None:
        width = agent.support.width
    runs = math.prod(agent.batch_shape)
    cells = runs * mdp.n_states * mdp.n_actions * width
    steps = runs * episodes * mdp.horizon
    if cells > _LARGE and steps < cells / 4:
        at_once = max(1, _AT_ONCE // (runs * mdp.horizon))
        earned = np.zeros(agent.batch_shape)
        for done in range(0, episodes, at_once):
            part = min(at_once, episodes - done)
            agent.episodes_done = first + done + part  # before they are recorded
            earned += _step_by_step(agent, mdp, part, rng)
        return earned
    if agent.support is not None and reward.shape[-1] > 1:
        reward = np.take_along_axis(reward, np.maximum(agent.support.next_states, 0), axis=-1)
    counts = mdp.rollout_counts(
        agent.behaviour, episodes, rng, support=agent.support, free=agent.free
    )
    agent.episodes_done = first + episodes
    agent.observe_counts(counts, reward, ends=mdp.ends if agent.terminates else None)
    return np.einsum("...sax,sax->...", counts, reward)


def _step_by_step(
    agent: TabularAgent, mdp: TabularMDP, episodes: int, rng: np.random.Generator
) -> FloatArray:
    state, action, following = rollout_steps(mdp, agent.behaviour, episodes, rng, free=agent.free)
    table = mdp.reward_table
    if table.shape[-1] > 1:  # steps do not show it
        agent.check_covers_arrival()
    paid = table[state, action, following if table.shape[-1] > 1 else 0]
    observed, terminated = np.ones(state.shape, np.bool_), np.zeros(state.shape, np.bool_)
    if agent.terminates:  # no steps after the end
        observed, terminated = ~mdp.ends[state], mdp.ends[following]
    agent.observe_steps(
        state, action, paid, following, observed=observed, terminated=terminated & observed
    )
    return paid.sum(axis=(0, 1))
