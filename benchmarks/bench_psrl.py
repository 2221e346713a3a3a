"""Batched PSRL on RiverSwim: a draw before every episode, in many runs at once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from peers import CLOCK

from privrl.accounting import RdpAccountant
from privrl.agents import PSRL, BetaRewards, KnownRewards, TabularSetup
from privrl.agents.training import learn_counts
from privrl.costs.base import together
from privrl.envs import plan, planning, riverswim
from privrl.envs.planning import best_actions, plan_support
from privrl.numerics import compiled
from privrl.numerics.exact_dirichlet import rounded_log_gammas
from privrl.samplers import Diffuse

RUNS = 200
_RUNS = (1, 10, 50, RUNS, 1000, 5000)
_STATES = (3, 4, 6, 8, 10, 12, 16, 24)
_STEPS = 2_000_000  # environment steps of a call, about


def _agent(mdp, runs, private, seed=0):
    rewards = KnownRewards(mdp.expected_reward)
    if private:
        rewards = BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"))
    return PSRL(
        TabularSetup(
            mdp.n_states,
            mdp.n_actions,
            mdp.horizon,
            sampler=Diffuse(weight=0.1),
            rewards=rewards,
            rng=np.random.default_rng(seed),
            batch_shape=(runs,),
        )
    )


@pytest.fixture(autouse=True)
def from_the_start(monkeypatch):
    """Compiled functions, where there is numba, do not wait until they pay."""
    monkeypatch.setattr(compiled, "_WORTH", 0.0)


@pytest.mark.parametrize("runs", _RUNS)
@pytest.mark.parametrize("private", [False, True], ids=["known", "private"])
def test_runs(measure, quick, private, runs):
    mdp = riverswim()
    episodes = _episodes(mdp, runs, quick)

    def learn() -> None:
        learn_counts(_agent(mdp, runs, private), mdp, episodes, np.random.default_rng(1))

    what = "private rewards" if private else "known rewards"
    measure(what, learn, at=runs, work=runs * episodes * mdp.horizon)


@pytest.mark.parametrize("runs", [1, RUNS])
def test_runs_without_numba(measure, monkeypatch, quick, runs):
    monkeypatch.setattr(compiled, "_WORTH", math.inf)
    mdp = riverswim()
    episodes = _episodes(mdp, runs, quick)

    def learn() -> None:
        learn_counts(_agent(mdp, runs, True), mdp, episodes, np.random.default_rng(1))

    work = runs * episodes * mdp.horizon
    measure("private rewards, without numba", learn, at=runs, work=work)


@pytest.mark.parametrize("runs", _RUNS)
def test_floor_of_known(measure, runs):
    _gammas(measure, "floor of known rewards", runs, [10.0] * 6)


@pytest.mark.parametrize("runs", _RUNS)
def test_draws_of_known(measure, runs):
    _gammas(measure, "draws of known rewards", runs, [10.0] * 6, exactly=True)


@pytest.mark.parametrize("runs", _RUNS)
def test_floor_of_private(measure, runs):
    _gammas(measure, "floor of private rewards", runs, [10.0] * 6, [1.0] * 2)


@pytest.mark.parametrize("runs", _RUNS)
def test_draws_of_private(measure, runs):
    _gammas(measure, "draws of private rewards", runs, [10.0] * 6, [1.0] * 2, exactly=True)


@pytest.mark.parametrize("n_states", [n for n in _STATES if n % 6 == 0])
def test_states(measure, quick, n_states):
    mdp = riverswim(n_states)
    episodes = _episodes(mdp, RUNS, quick) * 6 // n_states

    def learn() -> None:
        learn_counts(_agent(mdp, RUNS, True), mdp, episodes, np.random.default_rng(1))

    measure("states", learn, at=n_states, work=RUNS * episodes * mdp.horizon, rounds=4)


@pytest.mark.parametrize("n_states", _STATES)
@pytest.mark.parametrize("way", ["einsum", "matmul", "support"])
def test_planner(measure, monkeypatch, way, n_states):
    rng = np.random.default_rng(0)
    rewards = rng.random((RUNS, n_states, 2))
    support = riverswim(n_states).support
    rows = rng.random((RUNS, n_states, 2, support.width)) * support.valid
    rows /= rows.sum(axis=-1, keepdims=True)
    tables = support.expand(rows)
    # The way is chosen by the number of states; here each is taken for all of them.
    monkeypatch.setattr(planning, "_EINSUM_STATES", 1000 if way == "einsum" else 0)
    if way == "support":
        measure(way, lambda: plan_support(rows, support, rewards, 30), at=n_states, work=RUNS)
    else:
        measure(way, lambda: plan(tables, rewards, 30), at=n_states, work=RUNS)


@pytest.fixture(scope="module")
def learnt():
    """Return an agent after a hundred episodes, and what its next one needs and brings."""
    mdp, rng = riverswim(), np.random.default_rng(1)
    agent = _agent(mdp, RUNS, True)
    learn_counts(agent, mdp, 100, rng)
    counts = mdp.rollout_counts(agent.behaviour, 1, rng)
    return mdp, agent, counts, rng


@pytest.mark.parametrize(
    "part",
    [
        "drawing transitions",
        "drawing rewards",
        "planning",
        "simulating",
        "counting",
        "accounting",
        "one episode",
    ],
)
def test_part(measure, learnt, part):
    mdp, agent, counts, rng = learnt
    sampler = agent.sampler
    rewards = BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"))
    floats = counts.astype(np.float64)
    paid = rewards.encode_counts(floats, mdp.reward_table, np.arange(6), rng)
    tables = agent.sampler.update(100 * floats, rng).sample(rng)
    expected = np.broadcast_to(mdp.expected_reward, (RUNS, 6, 2))
    accountant = RdpAccountant()
    cost = together([sampler.cost, rewards.cost])
    parts = {
        "drawing transitions": lambda: sampler.update(floats, rng).sample(rng),
        "drawing rewards": lambda: rewards.update(paid, rng).sample(rng),
        "planning": lambda: best_actions(tables, expected, mdp.horizon),
        "simulating": lambda: mdp.rollout_counts(agent.behaviour, 1, rng),
        "counting": lambda: agent.observe_counts(counts, mdp.reward_table),
        "accounting": lambda: accountant.compose(cost),
        "one episode": lambda: learn_counts(agent, mdp, 1, rng),
    }
    measure(part, parts[part])


@pytest.mark.benchmark(timer=CLOCK)
def test_rlberry(measure_peer, quick):
    mdp = riverswim()
    episodes = 100 if quick else 300
    measure_peer(
        "rlberry",
        "psrl",
        "rlberry",
        work=episodes * mdp.horizon,
        transition=mdp.transition.tolist(),
        reward=mdp.expected_reward.tolist(),
        horizon=mdp.horizon,
        episodes=episodes,
    )


def _episodes(mdp, runs, quick):
    return max(5, min(300, _STEPS // (mdp.horizon * runs * (8 if quick else 1))))


def _gammas(measure, what, runs, *priors, exactly=False):
    """Time the gamma variates of Dirichlet draws from priors alone, for one episode.

    Those that are private are rounded exactly; NumPy's, which are not, are less work.
    """
    rng = np.random.default_rng(2)
    tables = [np.broadcast_to(prior, (runs, 6, 2, len(prior))).ravel() for prior in priors]

    def draw() -> None:
        for table in tables:
            if exactly:
                rounded_log_gammas(table, lambda i, table=table: Fraction(table[i]), rng)
            else:
                rng.standard_gamma(table)

    measure(what, draw, at=runs, work=runs * riverswim().horizon)
