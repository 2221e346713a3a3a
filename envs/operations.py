"""Classical tasks of operations research: a stock, a machine and a queue."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.envs.tabular import TabularMDP
from privrl.numerics.checks import as_floats, check_count, check_finite


def inventory(
    demand: ArrayLike = (0.25, 0.5, 0.25),
    *,
    capacity: int = 3,
    price: float = 8.0,
    order_cost: float = 4.0,
    unit_cost: float = 2.0,
    holding_cost: float = 1.0,
    horizon: int = 3,
) -> TabularMDP:
    """Return the tables of a stock that is ordered for before the demand is known.

    State ``s`` is the stock in the evening, and an episode starts with none. Action ``a`` orders
    ``a`` units, as far as space allows; they arrive overnight, are paid for with the cost of
    storage, and then customers come. Demand beyond the stock is lost.

    Parameters
    ----------
    demand : array, shape (any,)
        Probabilities that 0, 1, 2, ... units are asked for in a day, such as those of
        ``scipy.stats.binom`` or ``poisson``, the latter cut off and divided by their sum.
    capacity : int
        Largest stock, >= 1.
    price : float
        Income from a unit sold.
    order_cost, unit_cost : float
        Cost of ordering anything, and of each unit ordered.
    holding_cost : float
        Cost of having a unit in stock in the morning.
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
    chance = _checked_chances("demand", demand)
    price, unit_cost = check_finite("price", price), check_finite("unit_cost", unit_cost)
    order_cost = check_finite("order_cost", order_cost)
    holding_cost = check_finite("holding_cost", holding_cost)
    stock = np.arange(capacity + 1)
    morning = np.minimum(stock[:, None] + stock, capacity)  # by stock and order
    ordered = morning - stock[:, None]

    left = np.zeros((capacity + 1, capacity + 1))  # the law of the evening's stock, by morning's
    for available in stock:
        np.add.at(left[available], np.maximum(available - np.arange(len(chance)), 0), chance)
    sold = np.maximum(morning[..., None] - stock, 0)
    with np.errstate(over="ignore", invalid="ignore"):  # refused where they are not finite
        paid = order_cost * (ordered > 0) + unit_cost * ordered + holding_cost * morning
        reward = price * sold - paid[..., None]
    return TabularMDP(left[morning], reward, np.eye(capacity + 1)[0], horizon)


def machine_replacement(
    wear: ArrayLike = (0.6, 0.3, 0.1),
    *,
    n_states: int = 10,
    income: float = 5.0,
    upkeep: float = 1.0,
    price: float = 10.0,
    horizon: int = 20,
) -> TabularMDP:
    """Return the tables of a machine that wears out and may be replaced.

    State ``s`` is how worn the machine is: 0 is as good as new, where an episode starts, and the
    last state cannot get worse. Action 0 keeps it and action 1 replaces it first; then it
    works for a period, which earns ``income - upkeep * wear``, and wears on.

    Parameters
    ----------
    wear : array, shape (any,)
        Probabilities that a period wears the machine by 0, 1, 2, ... states.
    n_states : int
        States of wear, >= 2.
    income : float
        What a period earns.
    upkeep : float
        What each state of wear takes from it.
    price : float
        Cost of a new machine.
    horizon : int
        Periods in an episode, >= 1.

    Returns
    -------
    TabularMDP
        With 2 actions. At each step the best policy replaces from some state of wear on.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Puterman (1994), Markov Decision Processes, section 4.7.5.
    """
    check_count("n_states", n_states, least=2)
    chance = _checked_chances("wear", wear)
    income, upkeep = check_finite("income", income), check_finite("upkeep", upkeep)
    price = check_finite("price", price)
    states = np.arange(n_states)
    worn = np.zeros((n_states, n_states))
    for state in states:
        np.add.at(worn[state], np.minimum(state + np.arange(len(chance)), n_states - 1), chance)
    working = np.stack([states, np.zeros_like(states)], axis=1)  # with what, by action
    with np.errstate(over="ignore", invalid="ignore"):  # refused where they are not finite
        reward = income - upkeep * working - price * np.arange(2)
    return TabularMDP(worn[working], reward, np.eye(n_states)[0], horizon)


def queue(
    service: ArrayLike = (0.2, 0.4, 0.6),
    *,
    capacity: int = 10,
    arrival: float = 0.4,
    payment: float = 5.0,
    service_cost: ArrayLike = (0.0, 1.0, 3.0),
    holding_cost: float = 0.2,
    horizon: int = 50,
) -> TabularMDP:
    """Return the tables of a server that may work at several speeds.

    State ``s`` is the number of jobs, and an episode starts without any. Action ``a`` works
    for a period at speed ``a``: one of the waiting jobs is done and paid for with probability
    ``service[a]``. Then a new job comes with probability ``arrival``, and goes elsewhere if
    ``capacity`` jobs are there.

    Parameters
    ----------
    service : array, shape (A,)
        Probability, in 0..1, of doing a job in a period, by speed.
    capacity : int
        Most jobs that may be there, >= 1.
    arrival : float
        Probability, in 0..1, that a job comes in a period.
    payment : float
        Income from a job done.
    service_cost : array, shape (A,)
        Cost of a period, by speed, also without a job.
    holding_cost : float
        Cost of each job there at the start of a period.
    horizon : int
        Periods in an episode, >= 1.

    Returns
    -------
    TabularMDP
        With ``capacity + 1`` states. Rewards are the expected ones of an action: the next state
        does not show whether a job was done.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Puterman (1994), Markov Decision Processes, section 3.7.2.
    """
    check_count("capacity", capacity)
    payment = check_finite("payment", payment)
    holding_cost = check_finite("holding_cost", holding_cost)
    done = as_floats("service", service)
    speed_cost = as_floats("service_cost", service_cost)
    for name, chance in (("service", done), ("arrival", as_floats("arrival", arrival))):
        if not ((chance >= 0) & (chance <= 1)).all():
            raise ValueError(
                f"{name} must hold probabilities in 0..1, got {chance}; make periods shorter "
                "where more than one event may happen in one."
            )
    if done.ndim != 1 or not done.size or speed_cost.shape != done.shape:
        raise ValueError(
            f"service and service_cost must be two rows of one length, got shapes {done.shape} "
            f"and {speed_cost.shape}; give one probability and one cost to each speed."
        )
    states = np.arange(capacity + 1)
    finished = np.where(states[:, None] > 0, done, 0.0)
    transition = np.zeros((capacity + 1, len(done), capacity + 1))
    for gone, leaving in ((0, 1 - finished), (1, finished)):
        for came, coming in ((0, 1 - arrival), (1, arrival)):
            jobs = np.clip(states - gone + came, 0, capacity)
            transition[states, :, jobs] += leaving * coming
    with np.errstate(over="ignore", invalid="ignore"):  # refused where they are not finite
        reward = payment * finished - holding_cost * states[:, None] - speed_cost
    return TabularMDP(transition, reward, np.eye(capacity + 1)[0], horizon)


def _checked_chances(name: str, chances: ArrayLike) -> NDArray[np.float64]:
    chances = as_floats(name, chances)
    if (
        chances.ndim != 1
        or not (chances >= 0).all()
        or not abs(chances.sum() - 1) <= 1e-9  # also refuses NaN
    ):
        raise ValueError(
            f"{name} must be one row of probabilities that sum to 1 within 1e-9, got {chances}; "
            "give those of 0, 1, 2 and so on."
        )
    return chances
