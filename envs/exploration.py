"""Small tasks that are hard to explore: what pays lies far from where random actions lead."""

import numpy as np

from privrl.envs.tabular import TabularMDP
from privrl.numerics.checks import check_count


def double_chain(n_states: int = 31, horizon: int = 20) -> TabularMDP:
    """Return the tables of DoubleChain: two chains that look alike, one with a prize.

    The states form a row, and an episode starts in the middle one. Action 0 steps left and
    action 1 right, each the other way with probability .1; who steps out of the row stays. Every
    step from the last state pays 1 and nothing else pays.

    Parameters
    ----------
    n_states : int
        Length of the row, >= 3; where it is even, the start is right of the middle.
    horizon : int
        Steps in an episode, >= 1; with ``n_states // 2`` or fewer the prize is out of reach.

    Returns
    -------
    TabularMDP
        With 2 actions.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Kaufmann, Ménard, Domingues, Jonsson, Leurent and Valko (2021), Adaptive Reward-Free
       Exploration, whose experiments have such a task; lengths and chances are those of public
       implementations.
    """
    check_count("n_states", n_states, least=3)
    states = np.arange(n_states)
    left, right = np.maximum(states - 1, 0), np.minimum(states + 1, n_states - 1)
    transition = np.zeros((n_states, 2, n_states))
    for action, (ahead, back) in enumerate(((left, right), (right, left))):
        transition[states, action, ahead] = 0.9
        transition[states, action, back] = 0.1
    reward = np.zeros((n_states, 2))
    reward[-1] = 1.0
    return TabularMDP(transition, reward, np.eye(n_states)[n_states // 2], horizon)


def six_arms(horizon: int = 100) -> TabularMDP:
    """Return the tables of SixArms: the more an arm pays, the more rarely it is reached.

    State 0 is a hub, where episodes start, and states 1 to 6 are the arms around it. In the hub,
    action ``i`` leads to arm ``i + 1`` with probability 1, .15, .1, .05, .03 and .01, and
    otherwise nowhere. In an arm, the action that led there stays and pays 50, 133, 300, 800,
    1660 and 6000; every other one leads back to the hub. The first arm is more forgiving: only
    action 4 leaves it, and all others pay.

    Parameters
    ----------
    horizon : int
        Steps in an episode, >= 1.

    Returns
    -------
    TabularMDP
        With 7 states and 6 actions.

    Raises
    ------
    ValueError
        If ``horizon`` is out of range.

    References
    ----------
    .. [1] Strehl and Littman (2008), An Analysis of Model-Based Interval Estimation for Markov
       Decision Processes, the experiments; chances and rewards are those of public implementations.
    """
    arms = np.arange(1, 7)
    chance = np.array([1.0, 0.15, 0.1, 0.05, 0.03, 0.01])
    stays = np.eye(6, dtype=np.bool_)
    stays[0] = np.arange(6) != 4

    transition = np.zeros((7, 6, 7))
    transition[0, :, 0] = 1 - chance
    transition[0, arms - 1, arms] = chance
    transition[arms, :, 0] = ~stays
    transition[arms, :, arms] = stays
    reward = np.zeros((7, 6))
    reward[arms] = stays * np.array([50.0, 133.0, 300.0, 800.0, 1660.0, 6000.0])[:, None]
    return TabularMDP(transition, reward, np.eye(7)[0], horizon)


def deep_sea(size: int) -> TabularMDP:
    """Return the tables of DeepSea: one of ``2**size`` paths down pays.

    A diver starts in the upper left corner of a grid and sinks by a row a step, down to the left
    with action 0 and down to the right with action 1, which costs ``.01 / size``; the walls hold
    the diver in. From the lower right corner, which only ``size - 1`` steps to the right reach,
    one more to the right pays 1: .99 in all. Cell ``(row, column)`` is state
    ``row * size + column``, and the last state is the bottom, where the episode is over. Cells
    right of the diagonal are never reached.

    Parameters
    ----------
    size : int
        Rows and columns of the grid, >= 1, and steps in an episode.

    Returns
    -------
    TabularMDP
        With ``size**2 + 1`` states and 2 actions, deterministic.

    Raises
    ------
    ValueError
        If ``size`` is out of range.

    Notes
    -----
    bsuite may swap the two actions of a state, by a seed; here right is always action 1.

    References
    ----------
    .. [1] Osband et al. (2020), Behaviour Suite for Reinforcement Learning, "deep sea".
    """
    over = check_count("size", size) ** 2
    cells = np.arange(over)
    row, column = np.divmod(cells, size)
    transition = np.zeros((over + 1, 2, over + 1))
    for action, aim in enumerate((np.maximum(column - 1, 0), np.minimum(column + 1, size - 1))):
        below = np.where(row == size - 1, over, (row + 1) * size + aim)
        transition[cells, action, below] = 1.0
    transition[over, :, over] = 1.0
    reward = np.zeros((over + 1, 2))
    reward[:over, 1] = -0.01 / size
    reward[over - 1, 1] += 1.0
    return TabularMDP(transition, reward, np.eye(over + 1)[0], horizon=size)


def key_and_door(size: int) -> TabularMDP:
    """Return the tables of a room with a key and a locked door: one reward, late.

    A walker starts in the upper left corner of a square room, with a key in the upper right corner
    and a door in the lower left one. Actions 0 to 3 step up, right, down and left; walls stop. To
    arrive at the key is to take it, to arrive at the door with the key pays 1 and ends the episode,
    and nothing else pays. The best way has ``3 * (size - 1)`` steps and an episode at most ``4 *
    size``. Cell ``(row, column)`` is state ``row * size + column``, with the key ``size**2`` more,
    and the last state is "over".

    Parameters
    ----------
    size : int
        Cells along a wall, >= 2.

    Returns
    -------
    TabularMDP
        With ``2 * size**2 + 1`` states and 4 actions, deterministic.

    Raises
    ------
    ValueError
        If ``size`` is out of range.

    References
    ----------
    .. [1] The rooms of MiniGrid's DoorKey without their inner wall: Chevalier-Boisvert et al.
       (2023), Minigrid & Miniworld.
    """
    cells = check_count("size", size, least=2) ** 2
    over, key, door = 2 * cells, size - 1, cells - size
    states = np.arange(over)
    held, (row, column) = states // cells, np.divmod(states % cells, size)
    transition = np.zeros((over + 1, 4, over + 1))
    reward = np.zeros((over + 1, 4))
    for action, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
        cell = np.clip(row + down, 0, size - 1) * size + np.clip(column + right, 0, size - 1)
        opened = (held == 1) & (cell == door)
        arrival = np.where(opened, over, np.where(cell == key, 1, held) * cells + cell)
        transition[states, action, arrival] = 1.0
        reward[:over, action] = opened
    transition[over, :, over] = 1.0
    return TabularMDP(transition, reward, np.eye(over + 1)[0], horizon=4 * size)
