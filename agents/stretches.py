"""One stretch of episodes under one policy, of all runs of an agent at once, on tables."""

import math

import numpy as np

from privrl.agents.tabular import TabularAgent
from privrl.envs import TabularMDP
from privrl.envs.steps import rollout_steps
from privrl.numerics.special import FloatArray

_LARGE = 2**20  # cells of the tables of all runs: of those that are smaller, counts are quick
_AT_ONCE = 2**18  # steps


def play(
    agent: TabularAgent, mdp: TabularMDP, episodes: int, rng: np.random.Generator
) -> FloatArray:
    """Play episodes in an MDP, and tell the agent of them.

    By counts, which take no more time for more episodes; or, where tables are large and hardly
    touched, step by step, so that no table is made. Both have the same law.

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
        parts = [min(at_once, episodes - done) for done in range(0, episodes, at_once)]
        return np.asarray(sum(_step_by_step(agent, mdp, part, rng) for part in parts))
    if agent.support is not None and reward.shape[-1] > 1:
        reward = np.take_along_axis(reward, np.maximum(agent.support.next_states, 0), axis=-1)
    counts = mdp.rollout_counts(
        agent.behaviour, episodes, rng, support=agent.support, free=agent.free
    )
    agent.observe_counts(counts, reward, ends=mdp.ends if agent.terminates else None)
    return np.einsum("...sax,sax->...", counts, reward)


def _step_by_step(
    agent: TabularAgent, mdp: TabularMDP, episodes: int, rng: np.random.Generator
) -> FloatArray:
    state, action, following = rollout_steps(mdp, agent.behaviour, episodes, rng, free=agent.free)
    table = mdp.reward_table
    if table.shape[-1] > 1:  # steps do not tell
        agent.check_covers_arrival()
    paid = table[state, action, following if table.shape[-1] > 1 else 0]
    observed, terminated = np.ones(state.shape, np.bool_), np.zeros(state.shape, np.bool_)
    if agent.terminates:  # in an end nothing more happens
        observed, terminated = ~mdp.ends[state], mdp.ends[following]
    agent.observe_steps(
        state, action, paid, following, observed=observed, terminated=terminated & observed
    )
    return paid.sum(axis=(0, 1))
