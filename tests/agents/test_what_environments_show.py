"""What an environment shows or pays is checked before an error of others could show it."""

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit
from made import agent_of

from privrl.agents import PSRL, KnownRewards, NoisyRewards, QLearning, Transition
from privrl.envs import TabularMDP, public_facts
from privrl.envs.wrappers import InRange
from privrl.samplers import NonPrivate

SECRET = 4711
ACCEPTED = "env must show states of its observation space Discrete\\(3\\) and pay numbers"
#: An observation, or a reward, that is none.
STATES = [SECRET, -SECRET, -1, 3, np.int64(SECRET), float("nan"), 2.0**70, str(SECRET), [SECRET, 1]]
REWARDS = [f"{SECRET} EUR", [SECRET, 1.0], {"of": SECRET}]


class Bad(gym.Env):
    """Shows or pays something odd at a step; at step 0 when it is reset."""

    observation_space, action_space = Discrete(3), Discrete(2)
    arrival_rewards = False

    def __init__(self, at: int, state: Any, reward: Any) -> None:
        self.at, self.state, self.reward = at, state, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return (self.state if self.at == 0 else 1), {}

    def step(self, action):
        self.step_number += 1
        odd = self.step_number == self.at
        return (self.state if odd else 1), (self.reward if odd else 0.5), False, False, {}


class BadVector(VectorEnv):
    """Two side by side, of which the second shows or pays something odd at a step."""

    num_envs, single_observation_space, single_action_space = 2, Discrete(3), Discrete(2)
    observation_space, action_space = (batch_space(Discrete(n), 2) for n in (3, 2))
    arrival_rewards = False

    def __init__(self, at: int, state: Any, reward: Any, mode: AutoresetMode) -> None:
        self.at, self.state, self.reward = at, state, reward
        self.metadata = {"autoreset_mode": mode}

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.of(1, self.state if self.at == 0 else 1), {}

    def step(self, action):
        self.step_number += 1
        odd, over = self.step_number == self.at, np.zeros(2, np.bool_)
        return (
            self.of(1, self.state if odd else 1), self.of(0.5, self.reward if odd else 0.5),
            over, over.copy(), {},
        )  # fmt: skip

    @staticmethod
    def of(*values):
        try:
            return np.array(values)
        except ValueError:
            return np.array(values, object)


class LastObservations(BadVector):
    """Ends every episode at once, and shows something odd as what it ended with."""

    def step(self, action):
        seen, paid, _, over, _ = super().step(action)
        infos = {"final_obs": np.array([1, self.state], object)}
        return seen, paid, over, np.ones(2, np.bool_), infos


def agent(n: int = 3) -> PSRL:
    return agent_of(
        PSRL, n, 2, 4, sampler=NonPrivate(), rewards=KnownRewards(np.zeros((n, 2))), rng=1
    )


def check(error: BaseException) -> None:
    assert str(SECRET) not in "".join(traceback.format_exception_only(error))
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("state", STATES, ids=repr)
def test_no_error_shows_a_state(state: Any, at: int) -> None:
    for env in (Bad(at, state, 0.5), BadVector(at, state, 0.5, AutoresetMode.NEXT_STEP)):
        for learner in (agent(), agent_of(QLearning, 3, 2, 4, episodes=9, rng=1)):
            if isinstance(learner, QLearning) and isinstance(env, VectorEnv):
                continue  # it is told of single steps alone
            with pytest.raises(ValueError, match=ACCEPTED) as caught:
                learner.learn(2, env=env)
            check(caught.value)
            assert str(SECRET) not in str(caught.value.__context__)
            if isinstance(env, VectorEnv):
                assert not learner._new.counts.any()


@dataclass(eq=False)
class Ward(Bad):
    """Its text, as any data class writes it, holds the state that it is in."""

    at: int
    state: Any
    reward: Any
    history: list[int] = field(default_factory=lambda: [SECRET] * 2)


@dataclass(eq=False)
class Wards(BadVector):
    at: int
    state: Any
    reward: Any
    mode: AutoresetMode = AutoresetMode.NEXT_STEP
    history: list[int] = field(default_factory=lambda: [SECRET] * 2)

    def __post_init__(self) -> None:
        super().__init__(self.at, self.state, self.reward, self.mode)


def test_no_error_shows_the_text_of_an_environment() -> None:
    tries: list[Callable[[], object]] = [
        lambda: agent().learn(2, env=Ward(3, SECRET, 0.5)),
        lambda: agent().learn(2, env=Wards(3, SECRET, 0.5)),
        lambda: agent().learn(2, env=InRange(Ward(2, 1, 7.0), 0, 1)),
        lambda: agent(5).learn(2, env=Ward(9, 1, 0.5)),
        lambda: TabularMDP.from_gymnasium(Ward(9, 1, 0.5)),
        lambda: public_facts(TimeLimit(Ward(9, 1, 0.5), 4), horizon=5),
    ]
    for fails in tries:
        with pytest.raises(ValueError, match="Ward") as caught:
            fails()
        check(caught.value)


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("reward", REWARDS, ids=repr)
def test_no_error_shows_a_reward(reward: Any, at: int) -> None:
    for env in (Bad(at, 1, reward), BadVector(at, 1, reward, AutoresetMode.DISABLED)):
        with pytest.raises(ValueError, match=ACCEPTED) as caught:
            agent().learn(2, env=env)
        check(caught.value)
        assert str(SECRET) not in str(caught.value.__context__)


@pytest.mark.parametrize("reward", [*REWARDS, None, SECRET * 1j, 10**400], ids=repr)
def test_no_error_shows_a_reward_of_a_checked_range(reward: Any) -> None:
    """As ``privrl train`` checks it: Python's error quoted a text."""
    with pytest.raises(ValueError, match="env must pay numbers, and a reward of") as caught:
        agent().learn(2, env=InRange(Bad(2, 1, reward), 0, 1))
    check(caught.value)
    assert str(SECRET) not in str(caught.value.__context__)


HIDDEN = [np.ma.masked_array(0.5, True), np.ma.masked]


@pytest.mark.parametrize("hidden", HIDDEN, ids=["array", "constant"])
def test_no_warning_tells_of_what_is_hidden(hidden: Any) -> None:
    """It warned of a reward, and took what was hidden for a state or for an episode's end."""
    with warnings.catch_warnings(record=True) as seen:  # as errors they would be refusals
        warnings.simplefilter("always")
        for env in (Bad(2, 1, hidden), Bad(2, np.ma.masked_array(1, True), 0.5)):
            with pytest.raises(ValueError, match=ACCEPTED):
                agent().learn(2, env=env)
        with pytest.raises(ValueError, match="env must pay numbers"):
            agent().learn(2, env=InRange(Bad(2, 1, hidden), 0, 1))
        with pytest.raises(ValueError, match=r"env must (pay|show)"):
            learner_of_numbers(2, np.zeros(2), hidden).learn()
    assert not seen


def test_no_warning_tells_of_longer_floats_side_by_side() -> None:
    """Warnings are errors here."""
    env = BadVector(2, 1, np.longdouble("1e4000"), AutoresetMode.DISABLED)
    assert agent().learn(2, env=env).draws == 2


class OddFlags(BadVector):
    """Says in an odd way that episodes have ended."""

    def __init__(self, flags: Any, at: int) -> None:
        super().__init__(9, 1, 0.5, AutoresetMode.DISABLED)
        self.flags, self.place = flags, at

    def step(self, action):
        told = list(super().step(action))
        told[self.place] = self.flags
        return tuple(told)


@pytest.mark.parametrize("at", [2, 3], ids=["terminated", "truncated"])
@pytest.mark.parametrize(
    "flags",
    [
        np.ma.masked_array([True] * 2, True),
        [f"{SECRET}", ""],
        None,
        np.array([SECRET, 0]),
        [True],
    ],
    ids=["hidden", "texts", "none", "numbers", "few"],
)
def test_ends_are_told_of_each_environment(flags: Any, at: int) -> None:
    learner = agent_of(
        PSRL, 3, 2, 4, sampler=NonPrivate(), rewards=KnownRewards(np.zeros((3, 2))), rng=1,
        terminates=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"env must tell of each|must be a plain array") as caught:
        learner.learn(2, env=OddFlags(flags, at))
    check(caught.value)
    assert learner._new.is_empty


@pytest.mark.parametrize("last", [None, {"a": SECRET}, 1], ids=repr)
def test_last_observations_are_of_each_environment(last: Any) -> None:
    class Odd(LastObservations):
        def step(self, action):
            *told, _ = super().step(action)
            return *told, {"final_obs": last}

    with pytest.raises(ValueError, match=ACCEPTED) as caught:
        agent().learn(2, env=Odd(9, 1, 0.5, AutoresetMode.SAME_STEP))
    check(caught.value)


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_no_error_shows_what_an_episode_ended_with(state: Any) -> None:
    env = LastObservations(9, state, 0.5, AutoresetMode.SAME_STEP)
    with pytest.raises(ValueError, match=ACCEPTED) as caught:
        agent().learn(2, env=env)
    check(caught.value)


@pytest.mark.parametrize("make", [agent, lambda: agent_of(QLearning, 3, 2, 4, episodes=9)])
def test_no_error_of_an_agent_shows_a_state(make: Any) -> None:
    learner = make()
    learner.begin_episode(0)
    for state in (SECRET, -SECRET, -1):
        calls = [
            lambda state=state: learner.act(state, 0),
            lambda state=state: learner.observe(Transition(state, 0, 0.5, 1)),
            lambda state=state: learner.observe(Transition(0, state, 0.5, 1)),
            lambda state=state: learner.observe(Transition(0, 0, 0.5, state)),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"must be (in|whole numbers in) 0\.\.") as caught:
                call()
            check(caught.value)


class BadNumbers(Bad):
    """Shows real numbers, but for one."""

    observation_space, reward_range = Box(-1, 1, (2,)), (0.0, 1.0)

    def reset(self, **options):
        state, info = super().reset(**options)
        return (state if self.at == 0 else np.zeros(2)), info

    def step(self, action):
        state, *rest = super().step(action)
        return (state if self.step_number == self.at else np.zeros(2)), *rest


NUMBERS = [
    SECRET, f"{SECRET}", [f"{SECRET} EUR", 1], [SECRET], [1, 2, SECRET], None, {"x": SECRET},
    [SECRET * 1j, 0], [SECRET, np.nan], np.ma.masked_array([SECRET, 1], [True, False]),
]  # fmt: skip


def learner_of_numbers(at: int, state: Any, reward: Any) -> Any:
    env = gym.wrappers.TimeLimit(BadNumbers(at, state, reward), 4)
    return PSRL.private(env, epsilon=1, episodes=3, rng=0)


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("state", NUMBERS, ids=repr)
def test_no_error_shows_a_state_of_numbers(state: Any, at: int) -> None:
    with pytest.raises(ValueError, match="env must show observations of its space") as caught:
        learner_of_numbers(at, state, 0.5).learn()
    check(caught.value)


@pytest.mark.parametrize("reward", [*REWARDS, SECRET, None, SECRET * 1j], ids=repr)
def test_no_error_shows_a_reward_beside_numbers(reward: Any) -> None:
    with pytest.raises(ValueError, match=r"env must pay numbers|outside 0,1") as caught:
        learner_of_numbers(2, np.zeros(2), reward).learn()
    check(caught.value)


@pytest.mark.parametrize(
    "paid",
    [
        np.array("4711.25"),
        np.array("4711.25", object),
        np.array(10**4711),
        np.array(4711.25 + 1j),
        np.array("4711-02-05", "M8[s]"),
    ],
    ids=["text", "object", "huge", "complex", "date"],
)
def test_no_error_shows_a_reward_of_counts(paid: Any) -> None:
    """NumPy's errors quoted it, and a complex one was counted without its imaginary part."""
    learner = agent_of(
        PSRL, 3, 2, 4, sampler=NonPrivate(), rewards=NoisyRewards(NonPrivate()), rng=0
    )
    learner.begin_episode(0)
    with pytest.raises(ValueError, match="reward must be an array of numbers") as found:
        learner.observe_counts(np.ones((3, 2, 3), np.int64), np.full((3, 2, 1), paid))
    check(found.value)
    assert learner._new.is_empty


def test_no_error_shows_how_long_a_text_is() -> None:
    learner, ones = agent(), np.ones((1, 1), np.int64)
    with pytest.raises(ValueError, match="reward numbers") as found:
        learner.observe_steps(
            ones, ones, np.full((1, 1), "0.4711"), ones, observed=ones > 0, terminated=ones < 0
        )
    assert "U6" not in str(found.value)
