"""Slow and obvious answers that the tests of tabular MDPs compare with."""

from collections import Counter
from itertools import product

import numpy as np
from scipy.stats import chisquare

from privrl.envs import TabularMDP

FALSE_ALARM = 1e-6
"""Chance that a statistical test rejects code that is right; seeds are fixed on top of it."""


def random_mdp(rng, n_states=3, n_actions=2, horizon=4):
    return TabularMDP(
        transition=rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
        reward=rng.random((n_states, n_actions)),
        start=rng.dirichlet(np.ones(n_states)),
        horizon=horizon,
    )


def two_ways_on(total):
    """Return transition and start tables, and the states that follow each state.

    30 states and 300 actions; two states follow each state, and two begin, each as likely as the
    other: probabilities are ``total / 2``.
    """
    here = np.arange(30)
    pairs = np.sort([here, (here + 7) % 30], axis=0).T
    transition = np.zeros((30, 300, 30))
    for state, pair in enumerate(pairs):
        transition[state, :, pair] = total / 2
    start = np.zeros(30)
    start[[3, 28]] = total / 2
    return transition, start, pairs


def all_policies(n_states, n_actions, horizon):
    """Every deterministic policy, shape (n, H, S)."""
    actions = list(product(range(n_actions), repeat=horizon * n_states))
    return np.array(actions).reshape(-1, horizon, n_states)


def episode_law(mdp, policy):
    """Return the probability of every path of states that one episode can take."""
    law = {}
    for path in product(range(mdp.n_states), repeat=mdp.horizon + 1):
        probability = mdp.start[path[0]]
        for step in range(mdp.horizon):
            state, following = path[step : step + 2]
            probability *= mdp.transition[state, policy[step, state], following]
        if probability > 0:
            law[path] = probability
    return law


def counts_of(mdp, policy, path):
    counts = np.zeros(mdp.transition.shape, dtype=np.int64)
    for step in range(mdp.horizon):
        state, following = path[step : step + 2]
        counts[state, policy[step, state], following] += 1
    return counts


def value_by_paths(mdp, policy):
    """Return the expected sum of rewards, summed over all paths."""
    return sum(
        probability * (counts_of(mdp, policy, path) * mdp.reward_table).sum()
        for path, probability in episode_law(mdp, policy).items()
    )


def expected_counts(mdp, policy):
    """Return the expected transition counts of one episode, by the forward recursion."""
    here, counts = mdp.start, np.zeros(mdp.transition.shape)
    for actions in policy:
        states = np.arange(mdp.n_states)
        moves = here[:, None] * mdp.transition[states, actions]
        counts[states, actions] += moves
        here = moves.sum(axis=0)
    return counts


def counts_law(mdp, policy, episodes):
    """Return the probability of every table of counts, summed over a few episodes."""
    one = Counter()
    for path, probability in episode_law(mdp, policy).items():
        one[tuple(counts_of(mdp, policy, path).ravel())] += probability
    law = {tuple([0] * mdp.transition.size): 1.0}
    for _ in range(episodes):
        added = Counter()
        for (before, p), (more, q) in product(law.items(), one.items()):
            added[tuple(np.add(before, more).tolist())] += p * q
        law = added
    return law


def p_value(observed, probability):
    """Return the p-value of a chi-square test; outcomes that are rare are taken together."""
    observed, expected = np.asarray(observed), np.sum(observed) * np.asarray(probability)
    rare = expected < 20
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert expected.min() >= 5, "sample too small for a chi-square test"
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def play(env, seed, steps=60):
    """Act at random and return everything that was seen."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(int(rng.integers(env.action_space.n))))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen
