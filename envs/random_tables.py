"""Tasks whose tables are drawn at random: nothing about them is special."""

import numpy as np

from privrl.envs.tabular import TabularMDP
from privrl.numerics.checks import check_count


def garnet(n_states: int, n_actions: int, branching: int, horizon: int, seed: int) -> TabularMDP:
    """Draw the tables of a Garnet: every action leads to a few states, chosen at random.

    Each action of a state may lead to ``branching`` different states, uniformly chosen, with
    probabilities that are uniform among all, as are the gaps between uniform points on a line;
    it pays a reward uniform in 0..1. Episodes start in state 0.

    Parameters
    ----------
    n_states, n_actions : int
        How many, >= 1.
    branching : int
        Next states of an action, in ``1 .. n_states``.
    horizon : int
        Steps in an episode, >= 1.
    seed : int
        Fixes the tables, >= 0.

    Returns
    -------
    TabularMDP
        Rewards are those of an action, whatever follows.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Archibald, McKinnon and Thomas (1995), On the Generation of Markov Decision Processes.
    .. [2] Bhatnagar, Sutton, Ghavamzadeh and Lee (2009), Natural Actor-Critic Algorithms,
       from where the name and the rewards are.
    """
    check_count("n_states", n_states)
    check_count("n_actions", n_actions)
    if check_count("branching", branching) > n_states:
        raise ValueError(
            f"branching must be a whole number in 1..{n_states}, got {branching}; an action "
            "leads to no more states than there are."
        )
    rng = np.random.default_rng(check_count("seed", seed, least=0))
    transition = np.zeros((n_states, n_actions, n_states))
    for row in transition.reshape(-1, n_states):
        row[rng.choice(n_states, branching, replace=False)] = rng.dirichlet(np.ones(branching))
    reward = rng.random((n_states, n_actions))
    return TabularMDP(transition, reward, np.eye(n_states)[0], horizon)


def dense(n_states: int, n_actions: int, horizon: int, seed: int) -> TabularMDP:
    """Draw tables where every action may lead to every state.

    Rows are drawn from the flat Dirichlet distribution, all probabilities alike, and
    rewards uniformly from 0..1. Episodes start in state 0. It is the `garnet` that branches to
    all states.

    Parameters
    ----------
    n_states, n_actions, horizon, seed
        As for `garnet`.

    Returns
    -------
    TabularMDP
        As `garnet` does.

    Raises
    ------
    ValueError
        As `garnet` does.

    References
    ----------
    .. [1] Osband, Russo and Van Roy (2013), (More) Efficient Reinforcement Learning via
       Posterior Sampling, the random tables of the experiments.
    """
    return garnet(n_states, n_actions, n_states, horizon, seed)
