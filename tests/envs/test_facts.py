"""Public facts of environments: against their own rules, played out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import (
    DelayObservation,
    FrameStackObservation,
    MaxAndSkipObservation,
    NormalizeObservation,
    NormalizeReward,
    TimeLimit,
    TransformReward,
)
from gymnasium.wrappers import vector as side_by_side

from privrl.agents import PSRL
from privrl.costs import ReplaceEpisode
from privrl.envs import Ranged, TabularEnv, TabularMDP, numbered, riverswim
from privrl.envs.facts import (
    WELL_KNOWN,
    limits_of,
    pays_on_arrival,
    proved_without_arrival,
    public_facts,
    tables_hold,
)
from privrl.envs.toy_text import episode_limit, read_support
from privrl.experiments import train


class Bare(gym.Env[int, int]):
    """An environment without an end, with given declarations."""

    observation_space, action_space = Discrete(3), Discrete(2, start=5)

    def __init__(self, **declared: Any) -> None:
        for name, value in declared.items():
            setattr(self, name, value)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, Any]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Any]:
        return 1, 0.5, False, False, {}


def played(env: gym.Env[Any, Any], most: int = 1000) -> int:
    """Return the number of steps after which an episode without an end is truncated."""
    env.reset(seed=0)
    for step in range(1, most + 1):
        _, _, terminated, truncated, _ = env.step(env.action_space.start)
        assert not terminated
        if truncated:
            return step
    raise AssertionError("it goes on")


LIMITS: dict[str, Callable[[], gym.Env[Any, Any]]] = {
    "its own": lambda: gym.make("privrl/RiverSwim-v0", horizon=17),
    "its own is less": lambda: gym.make("privrl/RiverSwim-v0", max_episode_steps=50),
    "its own is more": lambda: gym.make("privrl/RiverSwim-v0", max_episode_steps=7),
    "of tables": lambda: TabularEnv(riverswim(4, 9)),
    "a wrapper's": lambda: TimeLimit(Bare(), 12),
    "the inner one": lambda: TimeLimit(TimeLimit(Bare(), 5), 12),
    "the outer one": lambda: TimeLimit(TimeLimit(Bare(), 12), 5),
    "as it is made": lambda: gym.make("CliffWalking-v1", max_episode_steps=11),
    "other than registered": lambda: gym.make("MountainCar-v0", max_episode_steps=321),
    "one more": lambda: TimeLimit(numbered(gym.make("MountainCar-v0")), 20),
}


@pytest.mark.parametrize("make", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_where_episodes_are_cut_off(make: Callable[[], gym.Env[Any, Any]]) -> None:
    env = numbered(make())
    limit = episode_limit(env)
    assert limit == played(env)
    assert public_facts(env).horizon == limit
    assert public_facts(env, horizon=limit - 1).horizon == limit - 1
    with pytest.raises(ValueError, match=f"horizon must be at most {limit}, the steps after"):
        public_facts(env, horizon=limit + 1)


def test_without_a_limit_there_are_a_hundred_steps() -> None:
    assert episode_limit(Bare()) is None
    assert public_facts(Bare()).horizon == 100
    assert public_facts(Bare(), horizon=300).horizon == 300
    for odd in ("30", 0, -1, True, 2.5, None):
        assert episode_limit(Bare(horizon=odd)) is None
    assert episode_limit(Bare(horizon=np.int64(30))) == 30


def test_what_is_not_numbered_has_no_facts() -> None:
    with pytest.raises(ValueError, match=r"env must have Discrete spaces, got Box.*numbered"):
        public_facts(gym.make("CartPole-v1"))


def test_what_is_not_declared_is_taken_at_its_most_general() -> None:
    facts = public_facts(Bare())
    assert (facts.n_states, facts.n_actions) == (3, 2)
    assert facts.terminates
    assert facts.arrival_rewards
    assert facts.reward_range == (0.0, 1.0)


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ((-2, 3), (-2.0, 3.0)),
        ([0, 0.5], (0.0, 0.5)),
        ((-np.inf, np.inf), (0.0, 1.0)),  # what old Gym had by default
        ((1, 1), (0.0, 1.0)),
        ((0, 1, 2), (0.0, 1.0)),
        ("ab", (0.0, 1.0)),
        (7, (0.0, 1.0)),
        (np.array([-1.0, 4.0]), (-1.0, 4.0)),
    ],
)
def test_a_declared_range_is_read(declared: Any, wanted: tuple[float, float]) -> None:
    env = Bare(reward_range=declared)
    assert public_facts(env).reward_range == wanted
    assert public_facts(TransformReward(env, lambda reward: reward)).reward_range == (0.0, 1.0)
    assert public_facts(env, reward_range=(-9.0, 9.0)).reward_range == (-9.0, 9.0)


def test_a_wrapper_declares_what_it_pays() -> None:
    """It is asked, and its inner environment is not, through wrappers that keep rewards."""
    env = TransformReward(Bare(reward_range=(-1, 1)), lambda reward: 10 * reward)
    assert public_facts(env).reward_range == (0.0, 1.0)
    env.reward_range = (-10, 10)
    assert public_facts(TimeLimit(env, 5)).reward_range == (-10.0, 10.0)
    assert public_facts(TransformReward(env, abs)).reward_range == (0.0, 1.0)


def test_a_declaration_about_arrival_is_read() -> None:
    assert not public_facts(Bare(arrival_rewards=False)).arrival_rewards
    assert public_facts(Bare(arrival_rewards=0)).arrival_rewards  # no truth value
    wrapped = TransformReward(Bare(arrival_rewards=False), lambda reward: reward)
    assert public_facts(wrapped).arrival_rewards


def test_tables_come_before_declarations() -> None:
    env = TabularEnv(riverswim(4, 9))
    env.reward_range, env.arrival_rewards = (-5.0, 5.0), True
    facts = public_facts(env)
    assert facts.reward_range == (0.0, 1.0)
    assert not facts.arrival_rewards
    assert not facts.terminates


@pytest.mark.few(9)
@pytest.mark.parametrize("name", WELL_KNOWN)
def test_what_is_well_known_is_so(name: str) -> None:
    """Rewards of many episodes lie within the range, with each option, and reach its ends."""
    known = WELL_KNOWN[name]
    for option, (low, high) in {None: known.rewards, **known.options}.items():
        settings = {} if option is None else {option: True}
        if option == "natural":
            settings["sab"] = False  # whose rules, those of the book, have no such reward
        bare = gym.make(name, **settings)
        env = Ranged(bare) if name == "Pendulum-v1" else numbered(bare)
        assert limits_of(env)[1] == (low, high)
        rng, paid = np.random.default_rng(0), set()
        env.reset(seed=0)
        for _ in range(3000):
            _, reward, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            paid.add(float(reward))
            if terminated or truncated:
                env.reset()
        assert low <= min(paid) <= max(paid) <= high
        if "Blackjack" in name:
            assert {low, high} <= paid
            assert public_facts(env).horizon == known.limit
        elif name == "Pendulum-v1":
            assert min(paid) < 0.5 * low
        else:  # some pay one and the same at every step, and a range has a width
            assert {low, high} & paid


def test_a_wrapper_may_pay_otherwise_than_is_well_known() -> None:
    env = TransformReward(numbered(gym.make("Blackjack-v1")), lambda reward: 9 * reward)
    assert public_facts(env).reward_range == (0.0, 1.0)


class _Pictures(gym.Wrapper[Any, Any, Any, Any]):
    """Adds what decides on nothing."""

    def render(self) -> Any:
        return "a picture"


class _OwnStep(gym.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        return super().step(action)


class _OwnReset(gym.Wrapper[Any, Any, Any, Any]):
    def reset(self, **options: Any) -> Any:
        return super().reset(**options)


class _OwnSpace(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = Discrete(3, start=1)


class _OwnName(gym.Wrapper[Any, Any, Any, Any]):
    @property
    def spec(self) -> Any:
        return gym.spec("Pendulum-v1")


class _Patched(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.step = self.doubled  # type: ignore[method-assign] # as some do

    def doubled(self, action: Any) -> Any:
        seen, reward, *rest = self.env.step(action)
        return seen, 2 * float(reward), *rest


@pytest.mark.parametrize("wrap", [gym.Wrapper, _Pictures, lambda env: _Pictures(_Pictures(env))])
def test_a_wrapper_that_changes_no_step_hides_nothing(wrap: Any) -> None:
    assert public_facts(numbered(wrap(gym.make("MountainCar-v0")))).reward_range == (-1.0, 0.0)
    assert not public_facts(wrap(Bare(arrival_rewards=False))).arrival_rewards
    assert tables_hold(wrap(gym.make("FrozenLake-v1")))


@pytest.mark.parametrize("wrap", [_OwnStep, _OwnReset, _OwnSpace, _OwnName, _Patched])
def test_a_wrapper_that_may_change_steps_hides_all(wrap: Any) -> None:
    """By its class, by what it sets, or by what is put in place of a method of one object."""
    assert public_facts(numbered(wrap(gym.make("MountainCar-v0")), "12")).reward_range == (0.0, 1.0)
    assert public_facts(wrap(Bare(arrival_rewards=False))).arrival_rewards
    assert not tables_hold(wrap(gym.make("FrozenLake-v1")))


def _doubles(env: Any) -> Any:
    """Put another method in place of the step of one object."""
    step = env.step

    def doubled(action: Any) -> Any:
        seen, reward, *rest = step(action)
        return seen, 2 * reward, *rest

    env.step = doubled
    return env


@pytest.mark.parametrize("layer", [gym.Wrapper, lambda env: TimeLimit(env, 9), lambda env: env])
@pytest.mark.parametrize("around", [gym.Wrapper, numbered, lambda env: env])
def test_a_method_of_one_object_hides_all(layer: Any, around: Any) -> None:
    """Whether of a wrapper that is known or of the bare environment, and whatever is around it."""

    def made(name: str) -> Any:
        return around(_doubles(layer(gym.make(name).unwrapped)))

    assert not tables_hold(made("FrozenLake-v1"))
    assert public_facts(made("CliffWalking-v1")).arrival_rewards
    assert public_facts(around(_doubles(Bare(arrival_rewards=False)))).arrival_rewards
    assert not public_facts(around(layer(gym.make("CliffWalking-v1")))).arrival_rewards


class _Hides(type):
    """Shows the methods of another class, but does not use them."""

    def __getattribute__(cls, name: str) -> Any:
        return gym.Wrapper.step if name == "step" else super().__getattribute__(name)


def test_a_class_is_taken_for_what_it_does() -> None:
    class Hidden(gym.Wrapper[Any, Any, Any, Any], metaclass=_Hides):
        def step(self, action: Any) -> Any:
            seen, reward, *rest = self.env.step(action)
            return seen, 2 * float(reward), *rest

    assert not tables_hold(Hidden(gym.make("FrozenLake-v1")))


def test_a_method_of_one_vector_environment_hides_all() -> None:
    envs = gym.make_vec("CliffWalking-v1", 2, vectorization_mode="sync")
    assert proved_without_arrival(envs)
    assert not proved_without_arrival(_doubles(envs))


class _Slippery(CliffWalkingEnv):
    """Pays by where it arrives, which the tables that it inherits do not say."""

    def step(self, action: Any) -> Any:
        seen, reward, *rest = super().step(action)
        return seen, float(reward) + 100.0 * (int(seen) % 2), *rest


class _Told(Bare):
    """Inherits what is declared, and plays otherwise."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options=options)


class _Mixed(_Slippery):
    arrival_rewards = False  # who redefines the step, or comes after, may say so


def test_tables_of_a_taxi_whose_passenger_is_fickle_are_not_believed() -> None:
    """It plays by others than it carries: a support of them stopped a run after its charge."""
    assert tables_hold(gym.make("Taxi-v4"))
    fickle = gym.make("Taxi-v4", fickle_passenger=True)
    assert not tables_hold(fickle)
    assert read_support(fickle, terminates=True) is None
    with pytest.raises(ValueError, match="fickle"):
        TabularMDP.from_gymnasium(fickle, 20)
    assert public_facts(fickle) == public_facts(gym.make("Taxi-v4"))


@pytest.mark.parametrize("wrap", [gym.Wrapper, numbered, lambda env: env])
def test_tables_of_a_class_whose_step_is_redefined_are_not_believed(wrap: Any) -> None:
    """It was trained without the rewards for arriving in the privacy guarantee."""
    assert tables_hold(gym.make("CliffWalking-v1"))
    assert not tables_hold(_Slippery())
    assert pays_on_arrival(_Slippery()) is None
    assert public_facts(wrap(_Slippery())).arrival_rewards
    assert public_facts(wrap(_Told(arrival_rewards=False))).arrival_rewards
    assert not public_facts(wrap(_Mixed())).arrival_rewards
    with pytest.raises(ValueError, match="_Slippery redefines step"):
        TabularMDP.from_gymnasium(_Slippery(), 9)
    agent = PSRL.private(gym.make("CliffWalking-v1"), epsilon=1, episodes=3)
    with pytest.raises(ValueError, match="nothing shows that rewards"):
        agent.learn(1, env=TimeLimit(_Slippery(), 100))


def test_tables_are_not_believed_of_environments_side_by_side() -> None:
    class Doubled(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            seen, reward, *rest = super().step(actions)
            return seen, reward * seen, *rest

    make = partial(gym.make, "CliffWalking-v1")
    assert proved_without_arrival(SyncVectorEnv([make]))
    assert not proved_without_arrival(Doubled([make]))
    assert not proved_without_arrival(SyncVectorEnv([_Slippery]))


@pytest.mark.slow
def test_a_wrapper_by_which_steps_change_others_is_refused() -> None:
    """Rewards were divided by the deviation of all before them, of whichever person."""

    def lake() -> gym.Env[Any, Any]:
        return gym.make("FrozenLake-v1")

    def paid(env: Any) -> Any:
        return TransformReward(NormalizeReward(env), lambda r: float(np.clip(r, -1, 1)))

    told = "(Normalize|MaxAndSkip).* because what that returns depends on all steps before"
    with pytest.raises(ValueError, match=told):
        PSRL.private(paid(lake()), epsilon=1.0, episodes=10)
    with pytest.raises(ValueError, match=told):
        PSRL.private(NormalizeObservation(gym.make("Pendulum-v1")), epsilon=1.0, episodes=10)
    agent = PSRL.private(lake(), epsilon=1.0, episodes=10)
    envs = SyncVectorEnv([lake])
    apart = AsyncVectorEnv([lambda: paid(lake())])
    for env in (
        paid(lake()),
        SyncVectorEnv([lambda: paid(lake())]),
        side_by_side.NormalizeReward(envs),
        apart,
    ):
        with pytest.raises(ValueError, match=told):
            train(agent, env, 10, 0)
        with pytest.raises(ValueError, match=told):
            agent.learn(10, env=env)
    apart.close()
    assert agent.accountant.relation is None

    of_numbers = PSRL.private(gym.make("Pendulum-v1"), epsilon=1.0, episodes=10)
    for env in (
        NormalizeReward(gym.make("Pendulum-v1")),
        NormalizeObservation(gym.make("Pendulum-v1")),
        MaxAndSkipObservation(gym.make("Pendulum-v1")),
    ):
        with pytest.raises(ValueError, match=told):
            of_numbers.learn(10, env=env)
        with pytest.raises(ValueError, match=told):
            train(of_numbers, env, 10, 0)
    assert of_numbers.accountant.relation is None


@pytest.mark.slow
def test_a_wrapper_by_which_one_step_shows_in_several_is_for_whole_episodes() -> None:
    """Of three frames, one changed observation changes three states: 12 squared, and 4 is paid."""

    def frames() -> gym.Env[Any, Any]:
        return numbered(FrameStackObservation(gym.make("FrozenLake-v1"), 2, padding_type="reset"))

    def late() -> gym.Env[Any, Any]:
        return DelayObservation(gym.make("FrozenLake-v1"), 2)

    told = "(FrameStack|Delay)Observation where the privacy unit is a step"
    for make in (frames, late):
        agent = PSRL.private(make(), epsilon=1.0, episodes=10)
        for env in (make(), SyncVectorEnv([make])):
            with pytest.raises(ValueError, match=told):
                train(agent, env, 10, 0)
        with pytest.raises(ValueError, match=told):
            agent.learn(10)
        assert agent.accountant.relation is None
        whole = PSRL.private(make(), epsilon=1.0, episodes=10, relation=ReplaceEpisode(100))
        whole.learn(10, rng=0)

    env = DelayObservation(gym.make("Pendulum-v1"), 2)
    of_numbers = PSRL.private(env, epsilon=1.0, episodes=10)
    with pytest.raises(ValueError, match=told):
        of_numbers.learn(10)
    assert of_numbers.accountant.relation is None
