"""Every kind of agent, replayed on neighbouring histories: it asks the same, of what it paid for.

Histories are drawn at random and fed in each of the ways in which an agent can be told of them; a
neighbour replaces what the relation says. Rewards that a Bernoulli trick turns into counts are at
the ends of their range, where the coins decide nothing: neighbours that differ in length would toss
them for other steps.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made import agent_of

from privrl import agents
from privrl.accounting.rdp import RdpAccountant
from privrl.agents.schedules import Once
from privrl.agents.setup import self_loops
from privrl.audit import audit_replay
from privrl.costs.relations import DAMPED, ReplaceEpisode, ReplaceStep, ReplaceTransition
from privrl.envs.support import Support
from privrl.envs.wrappers import Discretised, FlattenDiscrete
from privrl.experiments.training.run import train
from privrl.samplers.dirichlet import Concentrated, Diffuse
from privrl.samplers.factorisations import LocalNoise
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts, halvings

S, A, H = 3, 2, 4
SUPPORTS = {
    terminates: Support.from_mask(np.ones((S, A, S + terminates), np.bool_))
    for terminates in (False, True)
}
Episode = list[agents.Transition]


@dataclass(frozen=True)
class Setup:
    """An agent, and how it is told of what happened."""

    agent: str
    sampler: str
    rewards: str
    schedule: str
    resamples: bool
    terminates: bool
    support: bool
    relation: str
    told: str
    wrapper: str = "none"

    @property
    def is_noisy(self) -> bool:
        return self.sampler.split()[0] in ("noisy", "damped", "local", "non-private", "sparse")


SETUPS = st.builds(
    Setup,
    agent=st.sampled_from(
        ["psrl", "sparse-psrl", "ucbvi", "dp-ucbvi", "rlsvi", "explore-then-plan"]
    ),
    sampler=st.sampled_from(
        ["diffuse", "diffuse 1", "diffuse 2", "concentrated", "non-private",
         "noisy square-root", "noisy optimal", "noisy tree", "noisy independent",
         "noisy buffered", "damped square-root", "damped buffered", "local", "sparse"]
    ),
    rewards=st.sampled_from(["known", "beta", "beta noisy", "noisy", "hat", "hat damped"]),
    schedule=st.sampled_from(["every", "geometric"]),
    resamples=st.booleans(),
    terminates=st.booleans(),
    support=st.booleans(),
    relation=st.sampled_from(
        ["step", "step arrival", "transition", "transition arrival", "episode"]
    ),
    told=st.sampled_from(["step by step", "side by side", "as counts", "by an environment"]),
    wrapper=st.sampled_from(["none", "flatten", "bins"]),
)  # fmt: skip


def relation_of(setup: Setup) -> Any:
    kind, *arrival = setup.relation.split()
    if kind == "episode":
        return ReplaceEpisode(H)
    return {"step": ReplaceStep, "transition": ReplaceTransition}[kind](
        arrival_rewards=bool(arrival)
    )


def sampler_of(setup: Setup, updates: int) -> Any:
    kind, *more = setup.sampler.split()
    relation = relation_of(setup)
    support = SUPPORTS[setup.terminates] if setup.support else None
    made = {
        "diffuse": lambda: Diffuse(
            weight=0.1, window=int(more[0]) if more else None, relation=relation
        ),
        "concentrated": lambda: Concentrated(alpha=5.0, relation=relation),
        "non-private": lambda: NonPrivate(relation=relation),
        "local": lambda: NoisyCounts(
            sigma=2.0, updates=updates, factorisation=LocalNoise([9] * updates), relation=relation
        ),
        "noisy": lambda: NoisyCounts(
            sigma=2.0, updates=updates, factorisation=more[0], relation=relation
        ),
        "sparse": lambda: SparseCounts(
            sigma=2.0, releases=halvings([1] * updates), relation=relation, table=DAMPED
        ),
        "damped": lambda: NoisyCounts(
            sigma=2.0, updates=updates, factorisation=more[0], relation=relation,
            loops=self_loops(S, A, terminates=setup.terminates, support=support),
        ),
    }  # fmt: skip
    return made[kind]()


def rewards_of(setup: Setup, updates: int) -> Any:
    if setup.rewards == "known":
        return agents.KnownRewards(np.arange(S * A).reshape(S, A) / 10)
    options = {"relation": relation_of(setup), "table": "rewards"}
    if setup.rewards.startswith("hat"):
        loops = np.arange(6) >= 3 if setup.rewards == "hat damped" else None
        noisy = NoisyCounts(sigma=2.0, updates=updates, loops=loops, **options)
        return agents.HatRewards(noisy, points=3)
    if setup.rewards == "beta":
        return agents.BetaRewards(Diffuse(weight=0.1, **options))
    kind = agents.NoisyRewards if setup.rewards == "noisy" else agents.BetaRewards
    return kind(NoisyCounts(sigma=2.0, updates=updates, **options))


def replayed(setup: Setup, episodes: int) -> Any:
    schedule = agents.EveryEpisode() if setup.schedule == "every" else agents.Geometric(1.5)
    updates = len(schedule.starts(episodes + 1))  # one after the last
    options = {
        "sampler": sampler_of(setup, updates),
        "rewards": rewards_of(setup, updates),
        "rng": np.random.default_rng(1),
        "schedule": schedule,
        "accountant": RdpAccountant(),
        "terminates": setup.terminates,
        "support": SUPPORTS[setup.terminates] if setup.support else None,
    }
    if setup.agent == "ucbvi":
        return agent_of(agents.UCBVI, S, A, H, **options)
    if setup.agent == "dp-ucbvi":
        return agent_of(agents.DPUCBVI, S, A, H, **options)
    if setup.agent == "rlsvi":
        return agent_of(agents.RLSVI, S, A, H, **options)
    if setup.agent == "sparse-psrl":
        bins = (S,) if setup.wrapper == "bins" and not setup.support else ()
        return agent_of(agents.SparsePSRL, S, A, H, episodes=episodes, bins=bins, **options)
    if setup.agent == "explore-then-plan":
        # An environment ends with the last episode's steps; else one more begins after it.
        once = Once(min(1, episodes - (setup.told == "by an environment")))
        return agent_of(agents.ExploreThenPlan, S, A, H, **options | {"schedule": once})
    return agent_of(
        agents.PSRL,
        S,
        A,
        H,
        resamples=agents.EveryEpisode() if setup.resamples else None,
        **options,
    )


def run(setup: Setup, history: list[Episode]) -> Any:
    """Train an agent on a history, and return all that it shows."""
    agent, shown = replayed(setup, len(history)), []

    def begin(episode: int) -> None:
        agent.begin_episode(episode)
        shown.append((agent.behaviour.copy(), agent.draws))

    if setup.told == "by an environment":
        arrival = relation_of(setup).covers_arrival
        env: Any = Replayed(history, setup.wrapper, arrival_rewards=arrival)
        if setup.wrapper == "flatten":
            env = FlattenDiscrete(env)
        elif setup.wrapper == "bins":
            env = Discretised(env, [[0.5, 1.5]])
        train(
            agent, env, len(history), np.random.default_rng(2),
            callback=lambda _: shown.append(agent.behaviour.copy()),
        )  # fmt: skip
        return shown, agent.behaviour, agent.draws, agent.accountant.rdp
    starts = [*agent.starts(len(history)), len(history)]
    for start, end in pairwise(starts):
        begin(start)
        some = history[start:end]
        if setup.told == "side by side":
            agent.observe_steps(**side_by_side(some))
        elif setup.told == "as counts":
            agent.observe_counts(*as_counts(setup, some))
        else:
            for episode, steps in enumerate(some, start):
                if episode > start:
                    begin(episode)
                for step in steps:
                    agent.observe(step)
    begin(starts[-1])  # maybe a last draw, of all that there was
    return shown, agent.accountant.rdp


def side_by_side(episodes: list[Episode]) -> dict[str, Any]:
    arrays = {
        name: np.zeros((H, len(episodes)), kind)
        for name, kind in (("state", int), ("action", int), ("reward", float),
                           ("next_state", int), ("terminated", bool), ("observed", bool))
    }  # fmt: skip
    for e, steps in enumerate(episodes):
        for t, step in enumerate(steps):
            for name, value in step._asdict().items():
                arrays[name][t, e] = value
            arrays["observed"][t, e] = True
    return arrays


PAID = np.linspace(0, 1, S)  # by the next state, where that decides


def as_counts(setup: Setup, episodes: list[Episode]) -> Any:
    """Counts and the rewards of their cells; rewards that are told one by one are lost."""
    counts = np.zeros((S, A, S + setup.terminates), np.int64)
    for step in (step for steps in episodes for step in steps):
        over = step.terminated and setup.terminates
        counts[step.state, step.action, S if over else step.next_state] += 1
    arrival = setup.relation.endswith("arrival") or setup.relation == "episode"
    if arrival and not setup.rewards.startswith("beta"):
        reward = np.zeros((S, A, S + setup.terminates))
        reward[..., :S] = PAID
    elif arrival:
        reward = np.zeros((S, A, S + setup.terminates))
        reward[..., 1:] = 1.0
    else:
        reward = np.arange(S * A).reshape(S, A, 1) % 2 * 1.0
    return counts, reward


class Replayed(gym.Env[Any, Any]):
    """Shows the states and pays the rewards of a history, whatever is done."""

    def __init__(self, history: list[Episode], wrapper: str, *, arrival_rewards: bool) -> None:
        self.arrival_rewards = arrival_rewards
        self.observation_space = {
            "none": Discrete(S), "flatten": MultiDiscrete([1, S]), "bins": Box(0, S, (1,))
        }[wrapper]  # fmt: skip
        self.action_space = Discrete(A)
        self._history, self._episode, self._step = history, -1, 0
        self._show = {
            "none": np.int64,
            "flatten": lambda state: np.array([0, state]),
            "bins": lambda state: np.array([state], np.float32),
        }[wrapper]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        return self._show(self._history[self._episode][0].state), {}

    def step(self, action: Any) -> Any:
        steps = self._history[self._episode]
        now = steps[self._step]
        self._step += 1
        over = self._step == len(steps) and not now.terminated
        return self._show(now.next_state), now.reward, now.terminated, over, {}


# Histories, and their neighbours --------------------------------------------------------------


@st.composite
def episodes(draw: Any, setup: Setup) -> Episode:
    length = draw(st.integers(1, H))
    # Few states, and often the same: where counts pile up a change is largest.
    few, most = st.sampled_from([0] * 5 + [1, 2]), st.sampled_from([0] * 4 + [1])
    states = draw(st.lists(few, min_size=length + 1, max_size=length + 1))
    actions = draw(st.lists(most, min_size=length, max_size=length))
    rewards = draw(st.lists(amounts(setup), min_size=length, max_size=length))
    ends = setup.terminates and draw(st.booleans())
    return [
        agents.Transition(
            states[t], actions[t], rewards[t], states[t + 1], ends and t == length - 1
        )
        for t in range(length)
    ]  # fmt: skip


def amounts(setup: Setup) -> Any:
    fine = setup.rewards == "noisy" or setup.rewards.startswith("hat")
    return st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)) if fine else (
        st.sampled_from([0.0, 1.0])
    )  # fmt: skip


@st.composite
def neighbours(draw: Any, setup: Setup) -> tuple[list[Episode], list[Episode]]:
    history = draw(st.lists(episodes(setup), min_size=1, max_size=5))
    e = draw(st.integers(0, len(history) - 1))
    steps, other = history[e], [list(each) for each in history]
    kind, *arrival = setup.relation.split()
    if kind == "episode":
        other[e] = draw(episodes(setup))
        return history, other
    t = draw(st.integers(0, len(steps) - 1))
    state = draw(st.integers(0, S - 1))
    paid = draw(amounts(setup))
    if kind == "transition":
        other[e][t] = steps[t]._replace(next_state=state, **({"reward": paid} if arrival else {}))
        return history, other
    other[e][t] = steps[t]._replace(
        state=state, action=draw(st.integers(0, A - 1)), reward=draw(amounts(setup))
    )
    if t:
        other[e][t - 1] = steps[t - 1]._replace(
            next_state=state, **({"reward": paid} if arrival and state != steps[t].state else {})
        )
    return history, other


def is_sensible(setup: Setup) -> bool:
    """Whether there is such an agent, and such data for it."""
    hats = setup.rewards.startswith("hat")
    if setup.agent == "sparse-psrl" and not (hats and setup.is_noisy):
        return False
    if "psrl" not in setup.agent and (not setup.is_noisy or hats or setup.rewards == "beta"):
        return False
    # Told by an environment, an agent sees one chain of states: no next state of its own.
    if setup.told == "by an environment" and setup.relation.startswith("transition"):
        return False
    # As many coins as steps are tossed between two draws, and shift what is sampled there.
    tosses = setup.rewards.startswith("beta") and setup.told == "side by side"
    if tosses and setup.resamples and setup.relation == "episode":
        return False
    if setup.sampler == "sparse" and (setup.agent not in ("psrl", "sparse-psrl") or setup.support):
        return False
    # A chain is what damping rests on, and a replaced next state breaks it.
    damped = setup.sampler.startswith(("damped", "sparse")) or setup.rewards == "hat damped"
    return not (damped and setup.relation.startswith("transition"))


def _replayed(setup: Setup, data: Any) -> None:
    assume(is_sensible(setup))
    history, other = data.draw(neighbours(setup))
    result = audit_replay(lambda told: run(setup, told), history, other)
    assert not result.violated, result.findings
    assert result.error is None
    assert result.releases >= 1


@pytest.mark.slow
@settings(
    max_examples=80, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(setup=SETUPS, data=st.data())
def test_agents(setup: Setup, data: Any) -> None:
    _replayed(setup, data)


HATS = Setup(
    agent="sparse-psrl", sampler="damped buffered", rewards="hat damped", schedule="geometric",
    resamples=False, terminates=False, support=False, relation="step arrival", told="step by step",
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rewards=st.sampled_from(["hat", "hat damped"]),
    relation=st.sampled_from(["step", "step arrival", "episode"]),
    told=st.sampled_from(["step by step", "side by side", "as counts"]),
    terminates=st.booleans(),
    support=st.booleans(),
    wrapper=st.sampled_from(["none", "bins"]),
    data=st.data(),
)
def test_rewards_with_self_loops_apart(data: Any, **options: Any) -> None:
    """Also where the relation does not say that rewards are paid on arrival."""
    _replayed(replace(HATS, **options), data)


@pytest.mark.parametrize("rewards", ["hat", "hat damped"])
@pytest.mark.parametrize("relation", ["step arrival", "episode"])
def test_rewards_on_arrival_change_most_in_a_self_loop(rewards: str, relation: str) -> None:
    """All that changes at most, for less where it is damped."""
    setup = replace(HATS, agent="psrl", rewards=rewards, relation=relation)
    if relation == "episode":
        histories = [[(s, 0.0, s)] * H for s in range(2)]
    else:
        histories = [[(0, 0.0, 0), (0, 0.0, 0)], [(0, 1.0, 1), (1, 1.0, 0)]]
    history, other = (
        [[agents.Transition(s, 0, reward, t) for s, reward, t in steps]] for steps in histories
    )
    result = audit_replay(lambda told: run(setup, told), history, other)
    assert not result.violated, result.findings
    assert result.error is None


NOISE = ["noisy square-root", "damped square-root", "local"]


@pytest.mark.few(40)
@pytest.mark.parametrize(
    "how",
    [
        *(("psrl", each, paid) for paid in ("noisy", "hat") for each in ("diffuse", *NOISE)),
        *(("sparse-psrl", each, "hat") for each in (*NOISE, "noisy buffered", "sparse")),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("relation", "states", "others"),
    [("step", [0, 0, 0], [0, 1, 0]), ("step", [0, 1, 0], [0, 0, 0]), ("episode", [0] * 5, [1] * 5)],
)  # fmt: skip
def test_the_largest_changes_are_paid_for(how, relation, states, others) -> None:
    setup = Setup(
        *how, schedule="every", resamples=False, terminates=False, support=False,
        relation=relation, told="step by step",
    )  # fmt: skip
    history, other = (
        [[agents.Transition(s, 0, 1.0, t) for s, t in pairwise(each)]] for each in (states, others)
    )
    result = audit_replay(lambda told: run(setup, told), history, other)
    assert not result.violated, result.findings
    assert result.error is None
    assert result.releases == 4  # of transitions and rewards, before and after the episode


# An adversary for an environment ----------------------------------------------------------------


def against(policy: Any, episode: int, first: int) -> Episode:
    """Return an episode that an adversary makes of what the agent showed it."""
    steps, state = [], first
    for t in range(H):
        action = max(int(policy[t, state]), 0)
        onwards = (state + episode + int(policy.sum())) % S
        steps.append(agents.Transition(state, action, float(action != t % A), onwards))
        state = onwards
    return steps


@pytest.mark.few(6)
@pytest.mark.parametrize("agent", ["psrl", "sparse-psrl", "ucbvi"])
@pytest.mark.parametrize("fair", [True, False])
def test_an_environment_that_plays_against_the_agent(agent: str, fair: bool) -> None:
    """It may answer by all that was released; what one that knows the data adds is not covered."""
    setup = Setup(
        agent=agent, sampler="noisy square-root", schedule="every", relation="episode",
        rewards="hat" if agent == "sparse-psrl" else "noisy", told="step by step",
        resamples=False, terminates=False, support=False,
    )  # fmt: skip

    def played(private: Episode) -> Any:
        made, shown = replayed(setup, 5), []
        for episode in range(5):
            made.begin_episode(episode)
            shown.append(made.behaviour.copy())
            first = 0 if fair else private[0].state
            steps = private if episode == 1 else against(made.behaviour, episode, first)
            for step in steps:
                made.observe(step)
        return shown, made.accountant.rdp

    one = [agents.Transition(0, 0, 1.0, 0)] * H
    other = [agents.Transition(1, 1, 0.0, 1)] * H
    assert audit_replay(played, one, other).violated != fair
