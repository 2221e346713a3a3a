"""Decisions of persons, and values of states by the mean return of the episodes that pass them.

For worlds where outcomes alone pay. Temporal differences carry what an outcome is worth back by one
state in each round. But under values that are alike an episode comes to one amount, that of its
end, and the mean amount of those who pass a state is what that state is worth, however far from an
end it is: one table, with a cell for each state and not for each action.

Under values that differ a person adds not only where they ended but where they moved, and who pays
most for an outcome has nothing left for that. So their moves get small weights, and those of others
larger ones, by the chance that persons in a state end with such an outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import CUT, LogSpace
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.design import RETURNS
from privrl.offline.facts import LogFacts
from privrl.offline.persons import Added, PersonStream
from privrl.offline.shrinkage import expected


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
        In which states there can be several actions.
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


@dataclass(frozen=True, eq=False)
class Telling:
    """The weights of the moves of persons.

    Attributes
    ----------
    part : array, shape (O,)
        By the outcome of an episode, from 0 to 1; 1 if it was cut off.
    heard : array, shape (S,)
        Of all moves to a state, > 0.
    """

    part: FloatArray
    heard: FloatArray

    def weights(self, log: Log) -> FloatArray:
        """Return by what to multiply the difference of each step, so that sums stay what they are.

        The end of an episode has weight 1.
        """
        ends = log.next_state[log.episode_starts[1:] - 1] - log.n_states
        part = np.append(self.part, 1.0)[np.maximum(ends, -1)]
        part = np.repeat(part, np.diff(log.episode_starts))
        moves = (log.next_state >= 0) & (log.next_state < log.n_states)
        return np.where(moves, part / self.heard[np.where(moves, log.next_state, 0)], 1.0)


@dataclass(frozen=True, eq=False)
class Returns:
    """What was released of what states lead to.

    Attributes
    ----------
    above : array, shape (S,)
        What episodes come to that pass a state, beyond the mean: smoothed.
    times : array, shape (S,)
        The ratio of the visits of a state to the counted ones.
    telling : Telling
        The weights of later moves.
    """

    above: FloatArray
    times: FloatArray
    telling: Telling


def release_returns(
    stream: PersonStream,
    space: LogSpace,
    facts: LogFacts,
    differences: Callable[[Log], FloatArray],
    *,
    share: float,
    bound: float,
    visits: FloatArray,
    room: FloatArray,
    ends: FloatArray,
) -> Returns:
    """Release what episodes come to that pass each state.

    Parameters
    ----------
    stream, space, facts, share
        As for `privrl.offline.counts.release_counts`.
    differences : callable
        What came of each step of a part of the log, beyond what was expected.
    bound : float
        What a person's differences sum to.
    visits : array, shape (S,)
        The released visits of states.
    room, ends : array, shape (O,)
        By outcome: the weight of visits, and the difference that the outcome makes.
    """
    unit = share / bound

    def adds(part: Log, _: FloatArray) -> Added:
        lengths = np.diff(part.episode_starts)
        episode = np.repeat(np.arange(len(lengths)), lengths)
        comes_to = np.bincount(episode, differences(part), len(lengths))[episode]
        steps = np.bincount(part.person, minlength=part.n_persons)[part.person]
        return Added(part.person, part.state, comes_to / steps, unit, share)

    table = stream.update(adds, space.n_states) / unit
    noise = stream.noise / unit
    often, worth = np.array(facts.outcomes), np.array(space.outcome_rewards)
    variance = float(often @ (worth - facts.outcome_reward) ** 2)
    above, times = np.zeros(space.n_states), np.ones(space.n_states)
    for _ in range(RETURNS.iterations):
        # A person with more budget left counts more for the states of their trajectory.
        times = 1 / _by_worth(room, above, often, worth)
        times = times / np.average(times, weights=visits)
        passed = times * visits * facts.persons / visits.sum()
        means = table / passed
        means = means - np.average(means, weights=passed)
        of_means = variance / passed + (noise / passed) ** 2
        shown = expected(means, of_means, RETURNS.differ * np.sqrt(variance))
        # Half of the way, and no farther than outcomes are: else it may swing.
        beyond = worth - facts.outcome_reward
        above = np.clip((above + shown) / 2, beyond.min(), beyond.max())
    part = 1 - (1 - RETURNS.moves) * np.abs(ends) / max(float(np.abs(ends).max()), bound * 1e-9)
    part = part / part.max()
    heard = np.maximum(_by_worth(part, above, often, worth), RETURNS.heard)
    return Returns(above, times, Telling(part, heard))


def _by_worth(
    of_outcomes: FloatArray, above: FloatArray, often: FloatArray, worth: FloatArray
) -> FloatArray:
    """Return what is expected in each state of something that goes by outcome.

    A straight line through the rewards of outcomes: exact for two of them.
    """
    weight = often + 1e-3
    beyond = worth - np.average(worth, weights=weight)
    slope = (weight * beyond * of_outcomes).sum() / max((weight * beyond**2).sum(), 1e-300)
    line = np.average(of_outcomes, weights=weight) + slope * above
    return np.clip(line, of_outcomes.min(), of_outcomes.max())
