"""A model of the ends of episodes, by state and action, and of transitions, by state alone.

For worlds with many more transitions than a log can show. The end of an episode is one cell of a
person, however long it was. Outcomes exclude each other, so each has a separate table at the full
price of a cell. A person with a frequent outcome, which needs less, pays with the rest for the
transitions.
"""

from dataclasses import dataclass

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import CUT, LogSpace
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.offline.design import ENDINGS
from privrl.offline.facts import LogFacts
from privrl.offline.persons import Added, PersonStream
from privrl.offline.shrinkage import Spread, action_effects, expected


@dataclass(frozen=True, eq=False)
class Endings:
    """What was released, smoothed.

    Attributes
    ----------
    ends : array, shape (S, A, O)
        The chance that a step ends an episode with each outcome.
    following : array, shape (S, S)
        The next state of an episode that does not end, from each state.
    start : array, shape (S,)
        Where episodes begin.
    reward : array, shape (S, A)
        Mean reward of a step, that of its outcome apart.
    deviation : array, shape (S, A)
        What noise and chance leave in the expected reward of a step.
    """

    ends: FloatArray
    following: FloatArray
    start: FloatArray
    reward: FloatArray
    deviation: FloatArray


def release_endings(
    stream: PersonStream,
    log: LogSpace,
    facts: LogFacts,
    *,
    share: float,
    allowed: BoolArray,
    chances: FloatArray | None,
) -> Endings:
    """Release the ends and the transitions of episodes.

    Parameters
    ----------
    stream, log, facts, share
        As for `privrl.offline.counts.release_counts`.
    allowed : array of bool, shape (S, A)
        Which actions are admissible.
    chances : array, shape (S, A), optional
        Chances of actions that were followed; by default they are taken to be alike.
    """
    n_states, n_actions, n_outcomes = log.n_states, log.n_actions, len(log.outcomes)
    shape, sums = (n_states, n_actions, n_outcomes), stream.sums
    chances = allowed / allowed.sum(axis=1, keepdims=True) if chances is None else chances
    rare = int(np.argmin(facts.outcomes))
    paid = np.array([share if k == rare else share * ENDINGS.frequent for k in range(n_outcomes)])
    # How it ended: outcomes exclude each other, so one release has a table for each of them. In
    # that of the rarest one the others count a little, negatively: more tells actions apart than
    # what was rare, and there it is heard with the least noise.
    units = np.array([stream.unit(each, log.most_episodes ** (1 if sums else 2)) for each in paid])

    def how(part: Log, _: FloatArray) -> Added:
        last = np.flatnonzero(part.next_state >= n_states)
        outcome, person = part.next_state[last] - n_states, part.person[last]
        cell = (part.state[last] * n_actions + part.action[last]) * n_outcomes
        others = outcome != rare
        against = np.full(int(others.sum()), -ENDINGS.against * units[rare])
        return Added(
            np.concatenate([person, person[others]]),
            np.concatenate([cell + outcome, cell[others] + rare]),
            np.concatenate([units[outcome], against]),
        )

    ended = stream.update(how, n_states * n_actions * n_outcomes).reshape(shape)
    ended, noise = ended / units, stream.noise / units
    # How it went on: from what is left, each step of a person alike.
    reward = _step_rewards(stream, log, facts)

    def onwards(part: Log, left: FloatArray) -> Added:
        length = np.bincount(part.person, minlength=part.n_persons) + np.diff(part.person_starts)
        first = part.episode_starts[:-1]
        inner = (part.next_state != CUT) & (part.next_state < n_states)
        person = np.concatenate([part.person[first], part.person[inner]])
        begun = n_states * n_states + part.state[first]
        gone = part.state[inner] * n_states + part.next_state[inner]
        each = (left if sums else np.sqrt(left)) / length
        return Added(person, np.concatenate([begun, gone]), each[person])

    moved = stream.update(onwards, (n_states + 1) * n_states)
    moved = moved.reshape(n_states + 1, n_states)
    moved = np.where(moved > ENDINGS.doubt * stream.noise, moved, 0.0)
    heard = np.where(np.arange(n_outcomes) == rare, 0.0, 1 - ENDINGS.frequent - ENDINGS.against)
    chance_heard, counted = np.ones(n_states), ended.copy()
    counted[..., rare] += ENDINGS.against * np.delete(ended, rare, axis=-1).sum(axis=-1)
    by_frequency = [*(k for k in range(n_outcomes) if k != rare), rare]
    for _ in range(ENDINGS.iterations):
        flows = moved / chance_heard
        into = np.maximum(flows.sum(axis=0), 1e-9)
        rows = flows + into / into.sum() * max(stream.noise, 1e-9)
        rows /= rows.sum(axis=1, keepdims=True)
        # How often each action was taken: steps that ended, and the others.
        over = np.maximum(np.where(allowed[..., None], counted, 0.0).sum(axis=(1, 2)), 0.0)
        going = np.maximum(flows[:-1].sum(axis=1), 0.05 * flows[:-1].sum() / n_states)
        n_going = facts.persons * facts.episodes * max(facts.steps - sum(facts.outcomes), 0.0)
        visits_of_state = over + going / max(going.sum(), 1e-9) * n_going + 1.0
        visits = np.where(allowed, visits_of_state[:, None] * chances, 1.0)
        ends, counted = np.zeros(shape), ended.copy()
        for k in by_frequency:
            if k == rare:
                counted[..., k] += ENDINGS.against * visits * ends.sum(axis=-1)
            ends[..., k] = _hazard(counted[..., k], visits, visits_of_state, allowed, noise[k])
        ends *= np.minimum(1.0, 0.98 / np.maximum(ends.sum(axis=-1, keepdims=True), 1e-9))
        chance_heard = _heard(ends, rows[:-1], chances, heard)
    worth = np.array(log.outcome_rewards)
    by_chance = ends @ worth**2 - (ends @ worth) ** 2
    deviation = np.sqrt((worth**2 * noise**2).sum() / visits**2 + np.maximum(by_chance, 0) / visits)
    return Endings(
        ends=ends,
        following=rows[:-1],
        start=rows[-1],
        reward=reward,
        deviation=np.where(allowed, deviation, 0.0),
    )


def _heard(
    ends: FloatArray, following: FloatArray, chances: FloatArray, heard: FloatArray
) -> FloatArray:
    """Return how much is heard of those who are in a state, by how they are likely to end.

    A transition is counted only if the person has budget left after the outcome. Dividing by the
    chance of that removes the bias.
    """
    mean = np.einsum("sa,sao->so", chances, ends)
    going = 1 - mean.sum(axis=1)
    stays = np.eye(len(going)) - going[:, None] * following
    told = np.linalg.solve(stays, mean @ heard)
    return np.clip(told / max(float(heard.max()), 1e-9), 0.1, 1.0)


def _step_rewards(stream: PersonStream, log: LogSpace, facts: LogFacts) -> FloatArray:
    """Release mean rewards on the way, if they differ, for a part of what persons have left."""
    low, high = log.step_rewards
    shape = log.n_states, log.n_actions
    mean = min(max(facts.step_reward / facts.steps, low), high)
    if low == high:
        return np.full(shape, low)
    n_cells, sums = log.n_states * log.n_actions, stream.sums

    def earned(part: Log, left: FloatArray) -> Added:
        # Sums of what was above the least, and how often: half of the part for each.
        pairs = part.state * part.n_actions + part.action
        room = left * ENDINGS.rewards / 2
        length = np.bincount(part.person, minlength=part.n_persons)
        each = ((room if sums else np.sqrt(room)) / length)[part.person]
        above = (part.step_reward - low) / (high - low)
        return Added(
            np.tile(part.person, 2),
            np.concatenate([pairs, n_cells + pairs]),
            np.concatenate([each * above, each]),
        )

    table = stream.update(earned, 2 * n_cells)
    total, often = table.reshape(2, *shape)
    doubt = 2 * stream.noise + 1e-9
    above = (total + doubt * (mean - low) / (high - low)) / (np.maximum(often, 0.0) + doubt)
    return low + (high - low) * np.clip(above, 0.0, 1.0)


def _hazard(
    ended: FloatArray, visits: FloatArray, of_state: FloatArray, allowed: BoolArray, noise: float
) -> FloatArray:
    """Return the chance of one outcome, shrunk to that of all actions of its state."""
    total = np.where(allowed, ended, 0.0).sum(axis=1)
    overall = float(np.clip(total.sum() / of_state.sum(), 1e-6, 1.0))
    spread = overall * (1 - overall)
    number = allowed.sum(axis=1)
    variance = (spread * of_state + number * noise**2) / of_state**2
    # States differ by about as much as chances of that size do.
    of_states = overall + expected(total / of_state - overall, variance, 0.7 * overall)
    deviation = np.where(allowed, ended / visits - (total / of_state)[:, None], 0.0)
    of_cell = (spread * visits + noise**2) / visits**2
    prior = Spread(
        cell=ENDINGS.effect * spread**0.5, action=ENDINGS.effect / 3 * spread**0.5, state=0.0
    )
    effects = action_effects(deviation, of_cell, allowed, prior)
    shown = of_states[:, None] + effects + expected(deviation - effects, of_cell, prior.cell)
    return np.clip(np.where(allowed, shown, of_states[:, None]), 0.0, 0.9)
