"""Which relation a run is trained under: the plain one only where tables prove that it will do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from made import agent_of

from privrl.agents import PSRL, NoisyRewards
from privrl.costs.relations import Relation, ReplaceStep
from privrl.envs import TabularMDP, riverswim
from privrl.envs.facts import pays_on_arrival, tables_hold
from privrl.envs.vector import RiverSwimVectorEnv
from privrl.envs.wrappers import FlattenDiscrete
from privrl.experiments import Method, TrainSpec, run_training, train
from privrl.samplers.noisy_counts import NoisyCounts

PLAIN, COVERING = "replace one step", "replace one step, rewards paid on arrival"
Rows = list[tuple[float, int, float, bool]]


class Told(gym.Env[int, int]):
    """Two states and two actions; every state and action has the outcomes that it is made with."""

    def __init__(self, outcomes: Rows) -> None:
        self.P = {s: dict.fromkeys(range(2), outcomes) for s in range(2)}
        self.initial_state_distrib = np.array([1.0, 0.0])
        self.observation_space, self.action_space = Discrete(2), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Any]:
        chance = [outcome[0] for outcome in self.P[0][0]]
        _, state, reward, over = self.P[0][0][self.np_random.choice(len(chance), p=chance)]
        return state, reward, over, False, {}


OUTCOMES: dict[str, tuple[Rows, bool]] = {
    "one pay": ([(0.3, 0, 0.5, False), (0.7, 1, 0.5, False)], False),
    "on arrival": ([(0.3, 0, 0.0, False), (0.7, 1, 1.0, False)], True),
    "random, one place": ([(0.3, 1, 0.0, False), (0.7, 1, 1.0, False)], False),
    "random, wherever it leads": ([(0.25, s, r, False) for s in (0, 1) for r in (0.0, 1.0)], True),
    "equal means, and it tells the state": (
        [(0.25, 0, 0.0, False), (0.25, 0, 1.0, False), (0.5, 1, 0.5, False)],
        True,
    ),
    "for the end": ([(0.5, 0, 0.0, False), (0.5, 0, 1.0, True)], True),
    "what cannot be": ([(1.0, 0, 0.5, False), (0.0, 1, 1.0, False)], False),
}


@contextmanager
def registered(make: Callable[[], gym.Env[Any, Any]], **options: Any) -> Iterator[str]:
    name = "Told-v0"
    gym.register(name, entry_point=make, max_episode_steps=5, **options)
    try:
        yield name
    finally:
        del gym.registry[name]


def relation_of(name: str, **options: Any) -> str:
    spec = TrainSpec(env=name, episodes=3, seed=1, reward_range=(0.0, 1.0), **options)
    return str(run_training(spec).guarantee["relation"])


@pytest.mark.few(8)
@pytest.mark.parametrize(("outcomes", "pays"), OUTCOMES.values(), ids=OUTCOMES)
def test_tables_say_whether_rewards_can_depend_on_the_next_state(
    outcomes: Rows, pays: bool
) -> None:
    assert pays_on_arrival(Told(outcomes)) is pays
    with registered(lambda: Told(outcomes)) as name:
        assert relation_of(name) == (COVERING if pays else PLAIN)
        assert relation_of(name, relation="replace-episode").startswith("replace one episode")


def doubled(reward: float) -> float:
    return min(2 * reward, 1.0)


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "pays otherwise": lambda env: gym.wrappers.TransformReward(env, doubled),
    "other states": lambda env: gym.wrappers.TransformObservation(
        env, lambda state: 1 - state, Discrete(2)
    ),
    "other actions": lambda env: gym.wrappers.TransformAction(
        env, lambda action: 1 - action, Discrete(2)
    ),
    "sticky": lambda env: gym.wrappers.StickyAction(env, 0.3),
}


class PaysOnArrival(gym.Wrapper[Any, Any, Any, Any]):
    """What tables cannot show: this pays for where one arrives."""

    def step(self, action: Any) -> Any:
        state, _, *rest = self.env.step(action)
        return state, float(state), *rest


class MyTimeLimit(gym.wrappers.TimeLimit):
    """Not the one that is known, whatever it may do."""


#: Methods, and what each needs to know of the environment.
NEEDS = {
    Method(support=True): "support",
    Method(rewards="known"): "expected_reward",
    Method(agent="oracle"): "best_policy",
}
WRAPPERS["on arrival"] = PaysOnArrival
WRAPPERS["like a known one"] = lambda env: MyTimeLimit(env, 5)


@pytest.mark.few(6)
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_tables_prove_nothing_of_what_a_wrapper_makes(wrap: Callable[[Any], Any]) -> None:
    outcomes = OUTCOMES["one pay"][0]
    assert not tables_hold(wrap(Told(outcomes)))
    with registered(lambda: wrap(Told(outcomes))) as name:
        assert relation_of(name) == COVERING
        for method, fact in NEEDS.items():
            with pytest.raises(ValueError, match=f"public fact '{fact}'"):
                relation_of(name, method=method)


@pytest.mark.parametrize(
    "wrap",
    [
        gym.wrappers.RecordEpisodeStatistics,
        lambda env: gym.wrappers.TimeLimit(gym.wrappers.OrderEnforcing(env), 4),
    ],
)
def test_wrappers_that_change_nothing_leave_the_proof(wrap: Callable[[Any], Any]) -> None:
    with registered(lambda: wrap(Told(OUTCOMES["one pay"][0]))) as name:
        assert relation_of(name) == PLAIN


class Unknown(gym.Env[int, int]):
    """Tables are kept to itself."""

    observation_space, action_space = Discrete(2), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Any]:
        return 1, 0.5, False, False, {}


def test_without_tables_the_covering_relation_is_taken() -> None:
    assert pays_on_arrival(Unknown()) is None
    with registered(Unknown) as name:
        assert relation_of(name) == COVERING


class Declared(Unknown):
    """Tables are kept to itself, and this is said."""

    arrival_rewards = False


def test_an_environment_may_declare_it() -> None:
    assert pays_on_arrival(Declared()) is False
    with registered(Declared) as name:
        assert relation_of(name) == PLAIN
    with registered(lambda: gym.wrappers.TransformReward(Declared(), doubled)) as name:
        assert relation_of(name) == COVERING


SIDE_BY_SIDE: dict[str, tuple[Callable[[], Any], bool]] = {
    "declared": (lambda: SyncVectorEnv([Declared] * 2), True),
    "one is not": (lambda: SyncVectorEnv([Declared, Unknown]), False),
    "one pays otherwise": (
        lambda: SyncVectorEnv(
            [Declared, lambda: gym.wrappers.TransformReward(Declared(), doubled)]
        ),
        False,
    ),
    "one in a process pays otherwise": (
        lambda: AsyncVectorEnv([lambda: gym.wrappers.TransformReward(Declared(), doubled)]),
        False,
    ),
    "declared, in a process": (lambda: AsyncVectorEnv([Declared]), True),
    "all pay otherwise": (
        lambda: gym.wrappers.vector.TransformReward(SyncVectorEnv([Declared]), doubled),
        False,
    ),
    "counted": (
        lambda: gym.wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([Declared])),
        True,
    ),
}
ALONE: dict[str, tuple[Callable[[], Any], bool]] = {
    "told by tables": (lambda: Told(OUTCOMES["one pay"][0]), True),
    "unknown": (Unknown, False),
    "alone, declared": (Declared, True),
    "numbered anew": (lambda: FlattenDiscrete(Declared()), True),
    **{
        name: (lambda wrap=wrap: wrap(Told(OUTCOMES["one pay"][0])), False)
        for name, wrap in WRAPPERS.items()
    },
}


@pytest.mark.few(18)
@pytest.mark.parametrize(
    ("make", "known"), (ALONE | SIDE_BY_SIDE).values(), ids=(*ALONE, *SIDE_BY_SIDE)
)
def test_training_refuses_what_nobody_says(make: Callable[[], Any], known: bool) -> None:
    """A relation that does not cover rewards on arrival needs to be told that there are none."""

    def agent(relation: Relation | None) -> PSRL:
        def counts(table: str) -> NoisyCounts:
            return NoisyCounts(sigma=1.0, updates=3, table=table, relation=relation)

        return agent_of(
            PSRL,
            2,
            2,
            5,
            sampler=counts("transitions"),
            rewards=NoisyRewards(counts("rewards")),
            rng=np.random.default_rng(0),
            terminates=True,
        )

    plain, env = agent(ReplaceStep()), make()
    if known:
        train(plain, env, 3, np.random.default_rng(0))
    else:
        with pytest.raises(ValueError, match=r"nothing shows that rewards of .* do not depend"):
            train(plain, env, 3, np.random.default_rng(0))
        assert plain.draws == 0
    train(agent(ReplaceStep(arrival_rewards=True)), env, 3, np.random.default_rng(0))
    env.close()


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("name", "relation"),
    [
        ("privrl/RiverSwim-v0", PLAIN),
        ("privrl/RiverSwimDPS-v0", COVERING),
        ("FrozenLake-v1", COVERING),
        ("CliffWalking-v1", PLAIN),
    ],
)
def test_relations_of_well_known_environments(name: str, relation: str) -> None:
    spec = TrainSpec(env=name, episodes=2, horizon=10, seed=1)
    assert str(run_training(spec).guarantee["relation"]) == relation


def test_environments_side_by_side_answer_together() -> None:
    """One that pays on arrival decides; one that does not tell leaves it open."""
    plain, paying = (lambda key=key: Told(OUTCOMES[key][0]) for key in ("one pay", "on arrival"))
    for makes, answer in (
        ([plain, plain], False),
        ([plain, paying], True),
        ([plain, Unknown], None),
        ([Unknown, paying], True),
    ):
        assert pays_on_arrival(SyncVectorEnv(makes)) is answer
    assert pays_on_arrival(RiverSwimVectorEnv(2)) is False
    assert pays_on_arrival(RiverSwimVectorEnv(2, variant="dps")) is True
    assert pays_on_arrival(riverswim()) is False
    dps = riverswim(variant="dps")
    assert pays_on_arrival(TabularMDP(dps.transition, dps.reward, dps.start, 3)) is True
