"""The steps of a log as what is learned from: decisions, and what came of each."""

from dataclasses import dataclass

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.numerics.typing import BoolArray
from privrl.numerics.typing import FloatArray
from privrl.numerics.typing import IntArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of persons, in order.

    Attributes
    ----------
    person, state, action : array of int, shape (n,)
        Who decided what where.
    reward : array of float, shape (n,)
        What was earned until the next decision, discounted.
    next_state : array of int, shape (n,)
        Where the next decision is to be made; ``n_states`` where the episode was over.
    discount : array of float, shape (n,)
        What counts of what comes after.
    steps : array of int, shape (n,)
        How many steps it took.
    """

    person: IntArray
    state: IntArray
    action: IntArray
    reward: FloatArray
    next_state: IntArray
    discount: FloatArray
    steps: IntArray


def decisions_of(log: Log, discount: float) -> Decisions:
    """Return all steps of a log. Where an episode was cut off its last state is taken to stay."""
    following = np.where(log.next_state == CUT, log.state, log.next_state)
    return Decisions(
        person=log.person,
        state=log.state,
        action=log.action,
        reward=log.reward,
        next_state=np.minimum(following, log.n_states),
        discount=np.full(log.n_steps, discount),
        steps=np.ones(log.n_steps, np.intp),
    )


def with_a_choice(log: Log, discount: float, choice: BoolArray) -> Decisions:
    """Return the decisions in states that leave a choice; what follows in others is theirs.

    Parameters
    ----------
    log : Log
        The log.
    discount : float
        In (0, 1].
    choice : array of bool, shape (S,)
        In which states there is one.
    """
    steps = decisions_of(log, discount)
    decides = choice[steps.state]
    first = np.flatnonzero(decides)
    if not len(first):
        nothing = np.empty(0, np.intp)
        none = np.empty(0)
        return Decisions(nothing, nothing, nothing, none, nothing, none, nothing)
    # Each step belongs to the last decision before it in its episode, if there is one.
    owner = np.maximum.accumulate(np.where(decides, np.arange(log.n_steps), -1))
    start = np.repeat(log.episode_starts[:-1], np.diff(log.episode_starts))
    owned = owner >= start
    place = np.searchsorted(first, owner[owned])
    since = np.flatnonzero(owned) - owner[owned]
    taken = np.bincount(place, minlength=len(first))
    # Powers one after the other: the bits of one are the same whoever else is in the log.
    powers = np.cumprod(np.append(1.0, np.full(taken.max(), discount)))
    earned = steps.reward[owned] * powers[since]
    reward = np.bincount(place, earned, len(first)).astype(np.float64, copy=False)
    end = first + taken - 1
    return Decisions(
        person=steps.person[first],
        state=steps.state[first],
        action=steps.action[first],
        reward=reward,
        next_state=steps.next_state[end],
        discount=powers[taken],
        steps=taken,
    )
