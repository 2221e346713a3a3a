"""Logs of persons who are simulated, all at once."""

from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from log_studies.worlds import World
from privrl.data.logs import Log
from privrl.envs import TabularMDP
from privrl.numerics.checks import as_floats, check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

_Number = TypeVar("_Number", np.intp, np.float64)


def simulate_log(
    world: World | TabularMDP,
    behaviour: FloatArray,
    persons: int,
    rng: Rng = None,
    *,
    episodes: int = 1,
) -> Log:
    """Return a log of persons who were treated by a behaviour.

    Parameters
    ----------
    world : World or TabularMDP
        Where they are. States that end an episode of a `TabularMDP` are its outcomes, and states
        keep their numbers; its horizon cuts episodes off, as ``most_steps`` does of a `World`:
        where the last step led to is known.
    behaviour : array, shape (S, A)
        The chances of actions.
    persons : int
        How many, >= 1.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    episodes : int
        Of each person, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or episodes would end before their first step.
    """
    rng = as_rng(rng)
    n_episodes = check_count("persons", persons) * check_count("episodes", episodes)
    check_is("world", world, World, TabularMDP)
    law = _Law.of_world(world) if isinstance(world, World) else _Law.of_mdp(world)
    behaviour = as_floats("behaviour", behaviour)
    shape = law.n_states, law.n_actions
    if behaviour.shape != shape or not (
        (behaviour >= 0).all() and (np.abs(behaviour.sum(axis=1) - 1) < 1e-9).all()
    ):
        raise ValueError(
            f"behaviour must be chances of shape {shape} that sum to 1 in each state, got an array "
            f"of shape {behaviour.shape}."
        )
    if isinstance(world, World) and behaviour[~world.admissible].any():
        raise ValueError("behaviour's actions must be admissible; World.behaviour has such.")
    choose = _Rows.of(behaviour)
    state = _Rows.of(law.start[None]).draw(np.zeros(n_episodes, np.intp), rng)[1]
    under_way = np.arange(n_episodes)
    steps: list[tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]] = []
    while len(under_way) and len(steps) < law.most_steps:
        action = choose.draw(state, rng)[1]
        place, next_state = law.moves.draw(state * law.n_actions + action, rng)
        steps.append((under_way, state, action, next_state, law.reward[place]))
        goes_on = next_state < law.n_states
        under_way, state = under_way[goes_on], next_state[goes_on]

    length = np.bincount(np.concatenate([who for who, *_ in steps]), minlength=n_episodes)
    starts = np.append(0, np.cumsum(length))
    place = np.concatenate([starts[who] + number for number, (who, *_) in enumerate(steps)])
    return Log(
        n_states=law.n_states,
        n_actions=law.n_actions,
        outcomes=law.outcomes,
        outcome_rewards=law.outcome_rewards,
        step_rewards=law.step_rewards,
        most_steps=law.most_steps,
        most_episodes=episodes,
        state=_in_place(place, [each[1] for each in steps]),
        action=_in_place(place, [each[2] for each in steps]),
        next_state=_in_place(place, [each[3] for each in steps]),
        reward=_in_place(place, [each[4] for each in steps]),
        episode_starts=starts,
        person_starts=np.arange(persons + 1) * episodes,
    )


def _in_place(place: IntArray, parts: list[NDArray[_Number]]) -> NDArray[_Number]:
    column = np.empty(len(place), parts[0].dtype)
    column[place] = np.concatenate(parts)
    return column


@dataclass(frozen=True, eq=False)
class _Rows:
    """Distributions to draw from: of each, the options that are possible, and cumulated chances."""

    option: IntArray  # of each cell
    upto: FloatArray  # of each cell: the number of its row, and the chances of its row so far
    last: IntArray  # of each row, the last cell

    @classmethod
    def of(cls, chances: FloatArray) -> Self:
        row, option = np.nonzero(chances)
        sums = np.cumsum(chances, axis=1)
        sums /= np.where(sums[:, -1:] > 0, sums[:, -1:], 1.0)
        last = np.cumsum(np.bincount(row, minlength=len(chances))) - 1
        return cls(option, row + sums[row, option], last)

    def draw(self, row: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return a cell of each of these rows, and its option."""
        found = np.searchsorted(self.upto, row + rng.random(len(row)), side="right")
        cell = np.minimum(found, self.last[row])  # rounding may lead beyond
        return cell, self.option[cell]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Law:
    """The law of the next state after each action, outcomes after the states."""

    n_states: int
    n_actions: int
    start: FloatArray
    moves: _Rows  # of each state and action
    reward: FloatArray  # of each cell of the moves
    outcomes: tuple[str, ...]
    outcome_rewards: tuple[float, ...]
    step_rewards: tuple[float, float]
    most_steps: int

    @classmethod
    def of_world(cls, world: World) -> Self:
        transition = np.where(world.admissible[:, :, None], world.transition, 0.0)
        possible = transition > 0
        outcomes = np.append(np.zeros(world.n_states), world.outcome_rewards)
        steps = np.broadcast_to(world.step_reward, world.admissible.shape)
        reward = np.broadcast_to(outcomes, possible.shape)[possible]
        reward = reward + np.repeat(steps.ravel(), possible.sum(axis=2).ravel())
        return cls(
            n_states=world.n_states,
            n_actions=world.n_actions,
            start=world.start,
            moves=_Rows.of(transition.reshape(-1, transition.shape[2])),
            reward=reward,
            outcomes=world.outcomes,
            outcome_rewards=world.outcome_rewards,
            step_rewards=world.step_rewards,
            most_steps=world.most_steps,
        )

    @classmethod
    def of_mdp(cls, mdp: TabularMDP) -> Self:
        ends = np.flatnonzero(mdp.ends)
        if mdp.start[ends].any():
            raise ValueError("episodes must not start where they end: a log has steps of each.")
        transition = np.where(mdp.ends[:, None, None], 0.0, mdp.transition)
        paid = np.broadcast_to(mdp.reward_table, transition.shape)
        # What an outcome always earns is its own; what differs is the steps'.
        arrivals = ((paid[:, :, end], transition[:, :, end] > 0) for end in ends)
        earned = [reward[there] for reward, there in arrivals]
        of_outcomes = [float(r[0]) if len(r) and np.ptp(r) == 0 else 0.0 for r in earned]
        of_arrival = np.zeros(mdp.n_states)
        of_arrival[ends] = of_outcomes
        of_steps = (paid - of_arrival)[transition > 0]
        reward = paid[transition > 0]
        moves = _Rows.of(transition.reshape(-1, mdp.n_states))
        place = np.arange(mdp.n_states)
        place[ends] = mdp.n_states + np.arange(len(ends))
        return cls(
            n_states=mdp.n_states,
            n_actions=mdp.n_actions,
            start=mdp.start,
            moves=_Rows(place[moves.option], moves.upto, moves.last),
            reward=reward,
            outcomes=tuple(f"state {end}" for end in ends),
            outcome_rewards=tuple(of_outcomes),
            step_rewards=(float(of_steps.min(initial=0)), float(of_steps.max(initial=0))),
            most_steps=mdp.horizon,
        )
