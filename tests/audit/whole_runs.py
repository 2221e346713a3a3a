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

from privrl.accounting.pld import PldAccountant
from privrl.accounting.targets import RenyiDP
from privrl.agents import TabularAgent
from privrl.agents.methods import SAMPLERS, Method, Task, make_agent
from privrl.audit import audit_scores, law_test, separation
from privrl.audit.black_box import AuditResult
from privrl.audit.laws import DirichletLaw, GaussianLaw, LawResult
from privrl.audit.separations import SeparationResult
from privrl.costs.base import together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import Relation, ReplaceEpisode, ReplaceStep
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.samplers.dirichlet import DirichletSampler
from privrl.samplers.factorisations import factorise
from privrl.samplers.noisy_counts import NoisyCounts

Array = np.ndarray
Update = Callable[..., Any]

STATES, ACTIONS, HORIZON = 2, 2, 4
ORDER = 2.0
EPSILON = 2.0  # so that two histories are √2 apart
DRAWS = 34  # more than the 32 whose noise is mixed at once
REWARD_SHARE = 1 / 3
STREAMS = [name for name in SAMPLERS if name.startswith("noisy") or name == "local-counts"]
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
    whole = kind.update  # type: ignore[attr-defined] # it has
    used = whole if broken is None else broken(whole)

    def update(self, counts, rng):
        posterior = used(self, counts, rng)
        log.append(posterior)
        return posterior

    kind.update = update  # type: ignore[attr-defined] # for a while
    try:
        yield log
    finally:
        kind.update = whole  # type: ignore[attr-defined] # for a while


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
    agent = make_agent(method, task, [RenyiDP(ORDER, epsilon)], rng, runs=runs)
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
                seen = follow(agent.behaviour[0], rng, terminates=terminates)
            tell(agent, seen)
            count(exact, seen)
    released = {
        table: np.stack([posterior.counts[0] for posterior in log[i::2]])
        for i, table in enumerate(("transitions", "rewards"))
    }
    return Runs(released, {table: np.stack(each) for table, each in kept.items()}, agent.accountant)


def tell(agent: TabularAgent, seen: Steps) -> None:
    """Let the agents of one budget see an episode each."""
    arrays = {name: each[:, None, None] for name, each in vars(seen).items()}
    agent.observe_steps(**arrays)


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
    """What ``RenyiDP(ORDER, epsilon)`` allows."""
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


def law_of_noise(sampler: str, draws: int, cells: int = 1) -> GaussianLaw:
    """Law of what `noise` returns: so many cells, of each so many draws."""
    name = sampler.partition(":")[2] or "square-root"
    if sampler == "local-counts":  # one user a batch; nobody has sent anything before the first
        name, draws = "independent", draws - 1
    factors = factorise(name, draws)
    norm = float(np.linalg.norm(factors.right, axis=0).max())
    covariance = factors.left @ factors.left.T
    return GaussianLaw(sigma=norm, centre=np.zeros((cells, draws)), covariance=covariance)


def all_noise(runs: Runs, unit: str, epsilon: float, draws: int) -> Array:
    """What `noise` returns of both tables, cells beside cells, in the last so many draws."""
    return np.concatenate(list(noise(runs, unit, epsilon).values()), axis=1)[..., -draws:]


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
    terminates = runs.exact["transitions"].shape[-1] > STATES
    law = law_of_noise(sampler, len(runs.released["rewards"]))
    seen = all_noise(runs, unit, epsilon, law.shape[1])
    shift = shifts(unit, epsilon, law, sampler, terminates=terminates)
    precision = np.linalg.inv(np.asarray(law.covariance)) / law.sigma**2
    return np.einsum("rcs,st,ct->r", seen - second * shift, precision, shift)


def shifts(unit: str, epsilon: float, law: GaussianLaw, sampler: str, *, terminates: bool) -> Array:
    """By how much the first history moves every cell and draw, shape (cells, draws)."""
    moved = np.concatenate(list(change(unit, epsilon, terminates=terminates).values()))
    first = 0 if sampler == "local-counts" else 1  # nothing has happened before the first draw
    return moved[:, None] * (np.arange(law.shape[1]) >= first)


def exact_separation(unit: str, epsilon: float, sampler: str, draws: int) -> float:
    """What linear algebra says of the two histories: at most the claim."""
    law = law_of_noise(sampler, draws)
    shift = shifts(unit, epsilon, law, sampler, terminates=False)
    precision = np.linalg.inv(np.asarray(law.covariance)) / law.sigma**2
    return math.sqrt(float(np.einsum("cs,st,ct->", shift, precision, shift)))


def audit_agent(
    method: Method,
    unit: str,
    *,
    runs: int,
    terminates: bool = False,
    epsilon: float = EPSILON,
    broken: Callable[[Update], Update] | None = None,
    draws: int = DRAWS,
) -> tuple[LawResult, SeparationResult]:
    """Test the law of all noise, and the separation of the histories, against the claim `EPSILON`.

    ``epsilon`` is what the agents are in truth made for, and ``broken`` what takes the place of
    their samplers' code.
    """
    both = [
        play(
            method,
            unit,
            epsilon,
            np.random.default_rng([7, second]),
            runs=runs,
            draws=draws,
            second=second,
            terminates=terminates,
            broken=broken,
        )
        for second in (False, True)
    ]
    first, second = (
        scores(each, unit, EPSILON, method.sampler, second=late)
        for each, late in zip(both, (False, True), strict=True)
    )
    one = law_of_noise(method.sampler, draws)
    left = np.concatenate([all_noise(each, unit, EPSILON, one.shape[1]) for each in both])
    law = law_of_noise(method.sampler, draws, left.shape[1])
    return law_test(left, law), separation(first, second, claimed=claimed_separation(EPSILON))


# Dirichlet draws -------------------------------------------------------------------------------

MODEST = 1.0  # epsilon at order 2, below which Diffuse would take a weight above 1
MANY = 10**6  # other records, so that a row's sum tells nothing; all of them end in a third state
PAYS = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # what those paid: where no critical step did


def play_dirichlet(
    method: Method,
    epsilon: float,
    rng: np.random.Generator,
    *,
    runs: int,
    draws: int,
    second: bool = False,
) -> tuple[list[Array], Any]:
    """Let agents draw from one of two histories that differ in one step, in the first episode.

    Nothing happens after it. Returns the rows that were drawn, transitions and rewards in turn,
    and the accountant.
    """
    task = Task(
        n_states=STATES + 1,
        n_actions=ACTIONS,
        horizon=HORIZON,
        reward_range=(0.0, 1.0),
        relation=UNITS["step"][0],
        episodes=draws,
    )
    agent = make_agent(method, task, [RenyiDP(ORDER, epsilon)], rng, runs=runs)
    seen = critical("step", runs, second=second)
    others = np.zeros((1, runs, STATES + 1, ACTIONS, STATES + 1), np.int64)
    others[..., STATES] = MANY
    with recorded(DirichletSampler) as log:
        for episode in range(draws):
            agent.begin_episode(episode)
            if episode == 0:
                agent.observe_counts(others, PAYS[..., None])
                tell(agent, seen)
    return [posterior.probabilities[0] for posterior in log], agent.accountant


def audit_dirichlet_agent(
    method: Method, *, runs: int, draws: int = 4, less: float = 0.0, prior: float = 5.0
) -> tuple[list[LawResult], AuditResult]:
    """Test the law of the first draw after the data, and audit all of them together.

    The claim is what `MODEST` at order 2 pays for: weight and prior are worked out from it, and
    the epsilon at delta 0.01 of all draws from these, by their loss distributions. In truth noise
    is smaller by the part ``less``, about.
    """
    both = [
        play_dirichlet(
            method,
            MODEST / (1 - less) ** 2,
            np.random.default_rng([8, second]),
            runs=runs,
            draws=draws,
            second=second,
        )[0]
        for second in (False, True)
    ]
    relation, touched = UNITS["step"][0], draws if method.window is None else method.window
    costs = []
    for table, share in (("transitions", 1 - REWARD_SHARE), ("rewards", REWARD_SHARE)):
        target, common = RenyiDP(ORDER, share * MODEST), {"relation": relation, "table": table}
        weight, alpha = 1.0, prior
        if method.sampler == "diffuse":
            weight = DirichletMechanism.calibrated(
                target, alpha=prior, count=touched, **common
            ).weight
        else:
            alpha = DirichletMechanism.calibrated(target, weight=1.0, count=touched, **common).alpha
        costs.append(DirichletCost(weight=weight, alpha=alpha, **common))
    laws = [
        [
            DirichletLaw(weight=cost.weight, counts=counts, alpha=cost.alpha)
            for counts, cost in zip(
                dirichlet_counts(draws, method.window, second=second), costs * draws, strict=True
            )
        ]
        for second in (False, True)
    ]
    accountant = PldAccountant()
    accountant.compose(together(costs), touched)
    ratios = [
        sum(
            one.log_likelihood(rows) - other.log_likelihood(rows)
            for one, other, rows in zip(*laws, released, strict=True)
        )
        for released in both
    ]
    audit = audit_scores(*ratios, claimed=float(accountant.epsilon(0.01)), confidence=1 - 1e-6)
    return [law_test(both[0][i], laws[0][i]) for i in (2, 3)], audit


def dirichlet_counts(draws: int, window: int | None, *, second: bool) -> list[Array]:
    """The counts behind each draw of transitions and rewards in turn."""
    nothing = {
        "transitions": np.zeros((1, STATES + 1, ACTIONS, STATES + 1)),
        "rewards": np.zeros((1, STATES + 1, ACTIONS, 2)),
    }
    exact = {name: each.copy() for name, each in nothing.items()}
    exact["transitions"][..., STATES] = MANY
    exact["rewards"][:] = MANY * np.stack([PAYS, 1 - PAYS], axis=-1)
    count(exact, critical("step", 1, second=second))
    reach = draws if window is None else window
    return [
        each[0] for t in range(draws) for each in (exact if 1 <= t <= reach else nothing).values()
    ]
