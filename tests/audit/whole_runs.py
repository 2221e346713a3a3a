"""Whole runs of agents, many side by side, on two histories as far apart as neighbours can be.

Nothing of the library that is under test says here what should come out: exact counts are kept
by hand, which cells are self-loops is written down, and the size of the noise is worked out from
the target.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from privrl.audit import GaussianLaw
from privrl.experiments.methods import Method, Task, make_agent
from privrl.factorisations import factorise
from privrl.noisy_counts import NoisyCounts
from privrl.relations import Relation, ReplaceEpisode, ReplaceStep
from privrl.targets import Rdp

Array = np.ndarray
Update = Callable[..., Any]

STATES, ACTIONS, HORIZON = 2, 2, 4
ORDER = 2.0
REWARD_SHARE = 1 / 3
MOVES_RIGHT = np.array([[0.2, 0.7], [0.4, 0.9]])  # chance of arriving in state 1
REWARD = np.array([[0.0, 0.75], [1.0, 0.5]])
ENDS = 0.1  # chance that a step ends its episode, where that can be

#: What is replaced, and the largest squared norms of a change of the damped transitions and of
#: the rewards: (±1, ±1, ±1, ±1) and (+1, −1); √8 and 4 of all steps in one cell.
UNITS: dict[str, tuple[Relation, float, float]] = {
    "step": (ReplaceStep(), 4.0, 2.0),
    "episode": (ReplaceEpisode(HORIZON), 16.0, 32.0),
}


@contextmanager
def recorded(kind: type, broken: Callable[[Update], Update] | None = None) -> Iterator[list[Any]]:
    """Keep what every sampler of a kind releases, while a mutant may take the place of its code."""
    log: list[Any] = []
    whole = kind.update  # type: ignore[attr-defined]
    used = whole if broken is None else broken(whole)

    def update(self, counts, rng):
        posterior = used(self, counts, rng)
        log.append(posterior)
        return posterior

    kind.update = update  # type: ignore[attr-defined]
    try:
        yield log
    finally:
        kind.update = whole  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Steps:
    """One episode of every run, arrays of shape (steps, runs)."""

    state: Array
    action: Array
    reward: Array
    next_state: Array
    observed: Array
    terminated: Array


def critical(unit: str, runs: int, *, second: bool) -> Steps:
    """The episode in which the two histories differ, as much as they can.

    A step: the agent stays in state 0 all the time, or its second step is in state 1, with
    another action and reward. An episode: all of it in state 0, or all of it in state 1.
    """
    state = np.zeros(HORIZON + 1, int)
    action, reward = np.zeros(HORIZON, int), np.zeros(HORIZON)
    if unit == "step":
        reward[1] = 1.0
        if second:
            state[1], action[1], reward[1] = 1, 1, 0.0
    elif second:
        state[:], action[:] = 1, 1
    else:
        reward[:] = 1.0
    each = [np.repeat(a[:, None], runs, 1) for a in (state[:-1], action, reward, state[1:])]
    return Steps(*each, np.ones((HORIZON, runs), bool), np.zeros((HORIZON, runs), bool))


def follow(policy: Array, rng: np.random.Generator, *, terminates: bool) -> Steps:
    """An episode in the environment; policy of shape (runs, steps, states)."""
    runs = len(policy)
    state, going = rng.integers(STATES, size=runs), np.ones(runs, bool)
    rows = []
    for step in range(HORIZON):
        action = policy[np.arange(runs), step, state]
        following = (rng.random(runs) < MOVES_RIGHT[state, action]).astype(int)
        over = terminates & (rng.random(runs) < ENDS)
        rows.append((state, action, REWARD[state, action], following, going, over))
        going, state = going & ~over, following
    return Steps(*map(np.stack, zip(*rows, strict=True)))


@dataclass(frozen=True)
class Runs:
    """What agents released and what it was made of: arrays (draws, runs, S, A, cells)."""

    released: dict[str, Array]
    exact: dict[str, Array]
    accountant: Any


def play(
    method: Method,
    unit: str,
    epsilon: float,
    rng: np.random.Generator,
    *,
    runs: int,
    draws: int,
    second: bool = False,
    terminates: bool = False,
    broken: Callable[[Update], Update] | None = None,
) -> Runs:
    """Let agents learn from one of the histories, a draw before every episode."""
    task = Task(
        n_states=STATES,
        n_actions=ACTIONS,
        horizon=HORIZON,
        reward_range=(0.0, 1.0),
        relation=UNITS[unit][0],
        episodes=draws,
        terminates=terminates,
    )
    agent = make_agent(method, task, [Rdp(ORDER, epsilon)], rng, runs=runs)
    kept: dict[str, list[Array]] = {"transitions": [], "rewards": []}
    exact: dict[str, Array] = {
        "transitions": np.zeros((runs, STATES, ACTIONS, STATES + terminates)),
        "rewards": np.zeros((runs, STATES, ACTIONS, 2)),
    }
    with recorded(NoisyCounts, broken) as log:
        for episode in range(draws):
            agent.begin_episode(episode)
            for table, each in kept.items():
                each.append(exact[table].copy())
            if episode == 0:
                seen = critical(unit, runs, second=second)
            else:
                seen = follow(agent.policy[0], rng, terminates=terminates)
            agent.observe_steps(
                *(
                    getattr(seen, name)[:, None, None]
                    for name in ("state", "action", "reward", "next_state")
                ),
                observed=seen.observed[:, None, None],
                terminated=seen.terminated[:, None, None],
            )
            count(exact, seen)
    released = {
        table: np.stack([posterior.counts[0] for posterior in log[i::2]])
        for i, table in enumerate(("transitions", "rewards"))
    }
    return Runs(released, {table: np.stack(each) for table, each in kept.items()}, agent.accountant)


def count(exact: dict[str, Array], seen: Steps) -> None:
    """Enter an episode's steps into the tables, by hand."""
    for step in range(HORIZON):
        run = np.flatnonzero(seen.observed[step])  # every run once, so that += counts it once
        row = run, seen.state[step, run], seen.action[step, run]
        following = np.where(seen.terminated[step, run], STATES, seen.next_state[step, run])
        exact["transitions"][(*row, following)] += 1
        paid = seen.reward[step, run]
        exact["rewards"][row] += np.stack([paid, 1 - paid], axis=-1)


def claimed_separation(epsilon: float) -> float:
    """What ``Rdp(ORDER, epsilon)`` allows."""
    return math.sqrt(2 * epsilon / ORDER)


def noise(runs: Runs, unit: str, epsilon: float) -> dict[str, Array]:
    """What is left of the releases without the counts, over the deviation paid for.

    Shape (runs, cells, draws) for each table. Self-loops have √2 times the noise.
    """
    left = {}
    for table, square, share in zip(
        runs.released, UNITS[unit][1:], (1 - REWARD_SHARE, REWARD_SHARE), strict=True
    ):
        sigma = math.sqrt(square) / claimed_separation(share * epsilon)
        each = damped((runs.released[table] - runs.exact[table]) / sigma, table)
        left[table] = each.reshape(*each.shape[:2], -1).transpose(1, 2, 0)
    return left


def damped(tables: Array, table: str) -> Array:
    """Divide the cells in which a state follows itself by √2."""
    if table == "transitions":
        loops = np.arange(STATES)
        tables = tables.copy()
        tables[:, :, loops, :, loops] /= math.sqrt(2)
    return tables


def law_of_noise(sampler: str, draws: int, rows: int = 1) -> GaussianLaw:
    """Law of what `noise` returns: ``rows`` cells beside each other, of so many draws."""
    name = sampler.partition(":")[2] or "square-root"
    if sampler == "local-counts":  # one user a batch; nobody has sent anything before the first
        name, draws = "independent", draws - 1
    factors = factorise(name, draws)
    norm = float(np.linalg.norm(factors.right, axis=0).max())
    one = factors.left @ factors.left.T
    return GaussianLaw(sigma=norm, centre=np.zeros((rows, draws)), covariance=one)


def change(unit: str, epsilon: float, *, terminates: bool) -> dict[str, Array]:
    """By how much the first history's tables exceed the second's, as `noise` has it."""
    tables = []
    for second in (False, True):
        exact = {
            "transitions": np.zeros((1, STATES, ACTIONS, STATES + terminates)),
            "rewards": np.zeros((1, STATES, ACTIONS, 2)),
        }
        count(exact, critical(unit, 1, second=second))
        tables.append({name: each[None] for name, each in exact.items()})
    both = noise(Runs(tables[0], tables[1], None), unit, epsilon)
    return {name: each[0, :, 0] for name, each in both.items()}


def scores(runs: Runs, unit: str, epsilon: float, sampler: str, *, second: bool) -> Array:
    """Log-likelihood ratio of everything released, of the first history to the second.

    The agent chooses what it does next by what was released, in the same way on both histories,
    so what it would have counted on the first is what it counted on the second and the change.
    """
    law = law_of_noise(sampler, len(runs.released["rewards"]))
    draws = law.shape[1]
    terminates = runs.exact["transitions"].shape[-1] > STATES
    moved = change(unit, epsilon, terminates=terminates)
    total = np.zeros(runs.exact["rewards"].shape[1])
    later = np.ones(draws)
    later[: draws - len(runs.released["rewards"]) + 1] = 0.0  # from the second draw on
    precision = np.linalg.inv(np.asarray(law.covariance)) / law.sigma**2
    for table, left in noise(runs, unit, epsilon).items():
        shift = moved[table][:, None] * later
        seen = left[..., -draws:] - second * shift
        total += np.einsum("rcs,st,ct->r", seen, precision, shift)
    return total
