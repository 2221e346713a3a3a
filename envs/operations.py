"""Classical tasks of operations research: a stock, a machine and a queue."""

import numpy as np
from numpy.typing import ArrayLike

from privrl.envs.tabular import TabularMDP
from privrl.numerics.checks import as_floats, check_count
from privrl.numerics.typing import FloatArray


def inventory(
    demand: ArrayLike = (0.25, 0.5, 0.25), *, capacity: int = 3, horizon: int = 3
) -> TabularMDP:
    """Return the tables of a stock that is ordered for before the demand is known.

    State ``s`` is the stock in the evening, and an episode starts with none. Action ``a`` orders
    ``a`` units, as far as space allows; they arrive overnight, are paid for with the cost of
    storage, and then customers come. Demand beyond the stock is lost. A unit sold brings 8; an
    order costs 4, and 2 for each unit; each unit in stock in the morning costs 1.

    Parameters
    ----------
    demand : array, shape (any,)
        Probabilities that 0, 1, 2, ... units are asked for in a day, such as those of
        ``scipy.stats.binom`` or ``poisson``, the latter cut off and divided by their sum.
    capacity : int
        Largest stock, >= 1.
    horizon : int
        Days in an episode, >= 1.

    Returns
    -------
    TabularMDP
        With ``capacity + 1`` states and actions. Rewards are paid on arrival: the next stock shows
        what was sold.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Puterman (1994), Markov Decision Processes, section 3.2, whose example the defaults
       are; section 4.6.1 solves it.
    """
    check_count("capacity", capacity)
    chance = as_floats("demand", demand)
    total = chance.sum()
    if chance.ndim != 1 or not (chance >= 0).all() or not abs(total - 1) <= 1e-9:  # also NaN
        raise ValueError(
            f"demand must be one row of probabilities that sum to 1 within 1e-9, got {chance}; "
            "give those of 0, 1, 2 and so on."
        )
    stock = np.arange(capacity + 1)
    morning = np.minimum(stock[:, None] + stock, capacity)  # by stock and order
    ordered = morning - stock[:, None]
    sold = np.maximum(morning[..., None] - stock, 0)
    paid = 4.0 * (ordered > 0) + 2.0 * ordered + 1.0 * morning
    evening = _moved(-1, chance, capacity + 1)[morning]
    return TabularMDP(evening, 8.0 * sold - paid[..., None], np.eye(capacity + 1)[0], horizon)


def machine_replacement(n_states: int = 10) -> TabularMDP:
    """Return the tables of a machine that wears out and may be replaced.

    State ``s`` is how worn the machine is: 0 is as good as new, where an episode starts, and the
    last state cannot get worse. Action 0 keeps it and action 1 replaces it first, for 10; then it
    works for a period, which earns 5 less its wear, and wears on by 0, 1 or 2 states, with
    probabilities .6, .3 and .1. An episode has 20 periods.

    Parameters
    ----------
    n_states : int
        States of wear, >= 2.

    Returns
    -------
    TabularMDP
        With 2 actions. At each step the best policy replaces from some state of wear on.

    Raises
    ------
    ValueError
        If the number of states is out of range.

    References
    ----------
    .. [1] Puterman (1994), Markov Decision Processes, section 4.7.5.
    """
    check_count("n_states", n_states, least=2)
    states = np.arange(n_states)
    working = np.stack([states, np.zeros_like(states)], axis=1)  # with what, by action
    worn = _moved(1, np.array((0.6, 0.3, 0.1)), n_states)[working]
    return TabularMDP(worn, 5.0 - working - 10.0 * np.arange(2), np.eye(n_states)[0], 20)


def queue(capacity: int = 10) -> TabularMDP:
    """Return the tables of a server that may work at three speeds.

    State ``s`` is the number of jobs, and an episode starts without any. Action ``a`` works
    for a period at speed ``a``: one of the waiting jobs is done, and pays 5, with probability .2,
    .4 or .6; a period costs 0, 1 or 3, also without a job. Each job that is there at its start
    costs .2. Then a new job comes with probability .4, and goes elsewhere if ``capacity`` jobs are
    there. An episode has 50 periods.

    Parameters
    ----------
    capacity : int
        Most jobs that may be there, >= 1.

    Returns
    -------
    TabularMDP
        With ``capacity + 1`` states. Rewards are the expected ones of an action: the next state
        does not show whether a job was done.

    Raises
    ------
    ValueError
        If the capacity is out of range.

    References
    ----------
    .. [1] Puterman (1994), Markov Decision Processes, section 3.7.2.
    """
    check_count("capacity", capacity)
    states = np.arange(capacity + 1)
    finished = np.where(states[:, None] > 0, (0.2, 0.4, 0.6), 0.0)
    transition = np.zeros((capacity + 1, 3, capacity + 1))
    for gone, leaving in ((0, 1 - finished), (1, finished)):
        for came, coming in ((0, 0.6), (1, 0.4)):
            jobs = np.clip(states - gone + came, 0, capacity)
            transition[states, :, jobs] += leaving * coming
    reward = 5.0 * finished - 0.2 * states[:, None] - (0.0, 1.0, 3.0)
    return TabularMDP(transition, reward, np.eye(capacity + 1)[0], 50)


def _moved(way: int, chance: FloatArray, n_states: int) -> FloatArray:
    """Return the law of the next state, by state, that 0, 1, ... up or down may be from it."""
    moved = np.zeros((n_states, n_states))
    for state in range(n_states):
        reached = state + way * np.arange(len(chance))
        np.add.at(moved[state], np.clip(reached, 0, n_states - 1), chance)
    return moved
