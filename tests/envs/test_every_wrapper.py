"""Every wrapper of the installed Gymnasium: what it may change of what is counted, and a replay.

A wrapper is read before it is entered here. A class that is in no table fails the first test.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector
from made import agent_of

from privrl.accounting.rdp import RdpAccountant
from privrl.agents import PSRL, HatRewards
from privrl.agents.setup import self_loops
from privrl.audit import replay
from privrl.costs import ReplaceEpisode, ReplaceStep
from privrl.costs.relations import DAMPED, DAMPED_REWARDS
from privrl.envs import facts, numbered
from privrl.envs.wrappers import Discretised
from privrl.samplers.noisy_counts import NoisyCounts

S, H = 3, 4
Env = gym.Env[Any, Any]
Steps = list[tuple[int, int, int]]  # state, and 0 or 1 for the action there and for arriving there


class Scripted(Env):
    """Shows the states and pays the rewards of a history, whatever is done.

    What a step pays turns with its own amount, and with that of the state that it arrives in.
    """

    observation_space, action_space, render_mode = Discrete(S), Discrete(2), "rgb_array"
    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 # as Gymnasium has it
    horizon, _frameskip = H, 1

    def __init__(self, history: list[Steps], skipped: int = 0) -> None:
        self._history, self._episode, self._at = history, skipped - 1, 0
        self._last = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._episode, self._at, self._last = self._episode + 1, 0, 0
        return self._state, {}

    def step(self, action: Any) -> Any:
        steps = self._history[self._episode % len(self._history)]
        paid, self._last = steps[self._at][1], int(action)
        self._at += 1
        over = self._at == len(steps) - 1
        return self._state, float(paid != steps[self._at][2]), False, over, {}

    @property
    def _state(self) -> int:
        return self._history[self._episode % len(self._history)][self._at][0]

    def render(self) -> Any:
        """A picture of the state and the last action, as toy_text's are."""
        return np.full((1, 1, 3), [85 * self._state, self._last, 0], np.uint8)

    @property
    def ale(self) -> Any:
        """A screen, as Atari's."""
        return SimpleNamespace(
            lives=lambda: 1, getScreenGrayscale=lambda buffer: buffer.fill(85 * self._state)
        )


HISTORY: list[Steps] = [
    [(0, 1, 1), (1, 1, 0), (2, 0, 1), (0, 1, 0), (2, 0, 1)],
    [(2, 1, 0), (2, 0, 0), (0, 1, 1), (0, 1, 1), (1, 0, 0)],
    [(1, 0, 1), (0, 1, 1), (2, 1, 0), (1, 0, 1)],
    [(0, 1, 0), (0, 0, 1), (0, 1, 0), (1, 1, 1), (1, 0, 0)],
]


def with_step(episode: int, at: int) -> list[Steps]:
    """Return the history in which another state, reward and arrival take the place of one."""
    steps = list(HISTORY[episode])
    state, paid, arrived = steps[at]
    steps[at] = ((state + 1) % S, 1 - paid, 1 - arrived)
    return [steps if i == episode else each for i, each in enumerate(HISTORY)]


def with_episode(episode: int, length: int) -> list[Steps]:
    """Return the history in which one episode is another one."""
    steps = [(2 - state, 1 - paid, arrived) for state, paid, arrived in HISTORY[episode]]
    return [steps[: length + 1] if i == episode else each for i, each in enumerate(HISTORY)]


STEPS = [with_step(episode, at) for episode, at in ((0, 2), (1, 4))]
EPISODES = [with_episode(0, H), with_episode(1, 1)]


# What wrappers need around them ----------------------------------------------------------------


def shown(env: Env, func: Callable[[Any], Any], space: Any) -> Env:
    return wrappers.TransformObservation(env, func, space)


def as_box(env: Env) -> Env:
    return shown(env, lambda s: np.array([s], np.float32), Box(0, S - 1, (1,)))


def as_picture(env: Env) -> Env:
    return shown(
        env, lambda s: np.full((1, 1, 3), 85 * s, np.uint8), Box(0, 255, (1, 1, 3), np.uint8)
    )


def as_dict(env: Env) -> Env:
    return shown(env, lambda s: {"s": s, "zero": 0}, Dict(s=Discrete(S), zero=Discrete(2)))


def as_numbers(env: Env, edges: tuple[float, ...] = (42.5, 127.5)) -> Env:
    """Cut the first of the numbers that a wrapper shows into three bins."""
    first = shown(env, lambda x: np.float64([np.ravel(x)[0]]), Box(-300, 300, (1,), np.float64))
    return Discretised(first, [edges])


class PaysTheAction(gym.Wrapper[Any, Any, Any, Any]):
    """Pays 1 more, or 1 less, for the second action."""

    def step(self, action: Any) -> Any:
        state, paid, *rest = self.env.step(action)
        return state, float(bool(paid) != bool(action)), *rest


def by_torque(env: Env) -> Env:
    """Take real numbers for actions."""
    return wrappers.TransformAction(env, lambda a: int(a[0] > 0), Box(-1, 1, (1,)))


def by_choice(env: Env) -> Env:
    """Take two numbers for real ones again."""
    return wrappers.TransformAction(env, lambda n: np.array([2.0 * n - 1]), Discrete(2))


# The tables -----------------------------------------------------------------------------------

FINE = tuple(np.linspace(-2, 2, 20))
STEP, EPISODE, NEVER = "where a step is the unit", "where an episode is the unit", "never"


@dataclass(frozen=True)
class Entry:
    """What a wrapper is allowed for, why, and one on an environment that shows 0, 1 or 2."""

    allowed: str
    why: str
    make: Callable[[Any], Any] | None = None  # None: needs a package that tests do not
    keeps_facts: bool = False


def only(what: str, make: Any = None, **more: Any) -> Entry:
    """Of a wrapper that maps each observation, action or reward by itself."""
    return Entry(STEP, f"maps each {what} by itself", make, **more)


KINDS = "converts the type of arrays, and no value"
DRAWS = "draws pictures, and changes no step"
SINGLE: dict[str, Entry] = {
    "AtariPreprocessing": Entry(
        EPISODE,
        "an episode that ends within skipped frames shows the screen of the step before",
        lambda e: as_numbers(wrappers.AtariPreprocessing(
            as_picture(wrappers.TransformReward(e, lambda r: r / 2)), 0, 2, 1
        )),
    ),
    "DelayObservation": Entry(
        EPISODE,
        "a state is shown with the rewards of later steps",
        lambda e: wrappers.DelayObservation(e, 1),
    ),
    "DtypeObservation": only("observation", lambda e: wrappers.DtypeObservation(e, np.int16)),
    "DiscretizeObservation": only(
        "observation", lambda e: wrappers.DiscretizeObservation(as_box(e), S)
    ),
    "FilterObservation": only(
        "observation", lambda e: wrappers.FilterObservation(as_dict(e), ["s"])
    ),
    "FlattenObservation": only("observation", wrappers.FlattenObservation),
    "FrameStackObservation": Entry(
        EPISODE,
        "a state is in several stacks; a reset fills all of one",
        lambda e: wrappers.FrameStackObservation(e, 2),
    ),
    "GrayscaleObservation": only(
        "picture", lambda e: as_numbers(wrappers.GrayscaleObservation(as_picture(e)))
    ),
    "TransformObservation": only(
        "observation, if its function does", lambda e: shown(e, lambda s: 2 - s, None)
    ),
    "MaxAndSkipObservation": Entry(
        NEVER,
        "an episode that ends within skipped frames shows those of an earlier episode",
        lambda e: wrappers.ClipReward(wrappers.MaxAndSkipObservation(e, H), 0.0, 1.0),
    ),
    "NormalizeObservation": Entry(
        NEVER,
        "divides by the deviation of all observations before",
        lambda e: as_numbers(wrappers.NormalizeObservation(as_box(e)), FINE),
    ),
    "AddRenderObservation": Entry(
        EPISODE,
        "a picture may show more than the state: toy_text's show the last action",
        lambda e: shown(
            wrappers.AddRenderObservation(e),
            lambda p: int(p[0, 0, 0] // 85 * 2 + p[0, 0, 1]),
            Discrete(2 * S),
        ),
    ),
    "ResizeObservation": only(
        "picture", lambda e: as_numbers(wrappers.ResizeObservation(as_picture(e), (1, 1)))
    ),
    "ReshapeObservation": only(
        "observation", lambda e: as_numbers(wrappers.ReshapeObservation(as_picture(e), (3,)))
    ),
    "RescaleObservation": only(
        "observation",
        lambda e: as_numbers(wrappers.RescaleObservation(as_box(e), -1, 1), (-0.5, 0.5)),
    ),
    "TimeAwareObservation": Entry(
        STEP,
        "adds the time, which no step changes, and starts anew in each episode",
        lambda e: wrappers.TimeAwareObservation(wrappers.TimeLimit(e, H), flatten=False),
    ),
    "ClipAction": only("action", lambda e: by_choice(wrappers.ClipAction(by_torque(e)))),
    "DiscretizeAction": only("action", lambda e: wrappers.DiscretizeAction(by_torque(e), 2)),
    "TransformAction": only("action, if its function does", lambda e: by_choice(by_torque(e))),
    "RescaleAction": only(
        "action", lambda e: by_choice(wrappers.RescaleAction(by_torque(e), -1, 1))
    ),
    "StickyAction": Entry(
        EPISODE,
        "the action that is done follows from an earlier state, and decides what is paid",
        # Nearly always, so that an episode of another length does not shift when it is.
        lambda e: wrappers.StickyAction(PaysTheAction(e), 1 - 1e-9),
    ),
    "RepeatAction": Entry(
        STEP,
        "a step within belongs to one counted step, whose reward may depend on what it passed",
        lambda e: wrappers.RepeatAction(wrappers.TransformReward(e, lambda r: r / 2), 2),
    ),
    "ClipReward": only("reward", lambda e: wrappers.ClipReward(e, 0.0, 0.25)),
    "TransformReward": only(
        "reward, if its function does", lambda e: wrappers.TransformReward(e, lambda r: 1 - r)
    ),
    "NormalizeReward": Entry(
        NEVER, "divides by the deviation of all returns before",
        lambda e: wrappers.TransformReward(wrappers.NormalizeReward(e), lambda r: min(r / 9, 1)),
    ),
    "TimeLimit": Entry(
        STEP, "ends episodes by the time alone", lambda e: wrappers.TimeLimit(e, 3), True
    ),
    "Autoreset": Entry(
        STEP, "an agent stops where an episode ends, and resets before it goes on",
        wrappers.Autoreset,
    ),
    "PassiveEnvChecker": Entry(STEP, "changes no step", wrappers.PassiveEnvChecker, True),
    "OrderEnforcing": Entry(STEP, "changes no step", wrappers.OrderEnforcing, True),
    "RecordEpisodeStatistics": Entry(
        STEP, "adds to infos, of which none is counted", wrappers.RecordEpisodeStatistics, True
    ),
    "AddWhiteNoise": Entry(STEP, DRAWS, lambda e: wrappers.AddWhiteNoise(e, 0.5), True),
    "ObstructView": Entry(STEP, DRAWS, lambda e: wrappers.ObstructView(e, 0.5, 1), True),
    "RenderCollection": Entry(STEP, DRAWS, wrappers.RenderCollection, True),
    "RecordVideo": Entry(
        STEP, DRAWS, lambda e: wrappers.RecordVideo(
            e, ".", lambda _: True, gc_trigger=None
        ), True
    ),
    "HumanRendering": Entry(STEP, DRAWS, wrappers.HumanRendering, True),
    "ArrayConversion": Entry(STEP, KINDS),
    "JaxToNumpy": Entry(STEP, KINDS),
    "JaxToTorch": Entry(STEP, KINDS),
    "NumpyToTorch": Entry(STEP, KINDS),
}  # fmt: skip


Pair = Callable[[Any], Any]


def vector_choice(envs: Any) -> Any:
    """Take numbers for real actions again."""
    return vector.TransformAction(
        envs, lambda n: 2.0 * n[:, None] - 1, single_action_space=Discrete(2)
    )


def vector_numbers(envs: Any, edges: tuple[float, ...] = (42.5, 127.5)) -> Any:
    """Cut the first of the numbers that a wrapper shows into three bins."""
    return vector.TransformObservation(
        envs,
        lambda x: np.digitize(x.reshape(len(x), -1)[:, 0], edges),
        single_observation_space=Discrete(len(edges) + 1),
    )


VECTOR: dict[str, tuple[Entry, Pair]] = {
    "VectorizeTransformObservation": (
        only("observation, if its function does", lambda envs: vector.VectorizeTransformObservation(
            envs, wrappers.TransformObservation, func=lambda s: 2 - s, observation_space=None
        )),
        lambda e: e,
    ),
    "VectorizeTransformAction": (
        only("action, if its function does", lambda envs: vector.VectorizeTransformAction(
            envs, wrappers.TransformAction, func=lambda a: 1 - a, action_space=None
        )),
        lambda e: e,
    ),
    "VectorizeTransformReward": (
        only("reward, if its function does", lambda envs: vector.VectorizeTransformReward(
            envs, wrappers.TransformReward, func=lambda r: 1 - r
        )),
        lambda e: e,
    ),
    "DictInfoToList": (only("info", vector.DictInfoToList), lambda e: e),
    "TransformObservation": (
        only("row of observations, if its function does", lambda envs: vector.TransformObservation(
            envs, lambda s: 2 - s
        )),
        lambda e: e,
    ),
    "FilterObservation": (
        only("observation", lambda envs: vector.TransformObservation(
            vector.FilterObservation(envs, ["s"]), lambda seen: seen["s"],
            single_observation_space=Discrete(S),
        )),
        as_dict,
    ),
    "FlattenObservation": (
        only("observation", lambda envs: vector_numbers(vector.FlattenObservation(envs), (0.5, 2))),
        lambda e: e,
    ),
    "GrayscaleObservation": (
        only("picture", lambda envs: vector_numbers(vector.GrayscaleObservation(envs))), as_picture,
    ),
    "ResizeObservation": (
        only("picture", lambda envs: vector_numbers(vector.ResizeObservation(envs, (1, 1)))),
        as_picture,
    ),
    "ReshapeObservation": (
        only("observation", lambda envs: vector_numbers(vector.ReshapeObservation(envs, (3,)))),
        as_picture,
    ),
    "RescaleObservation": (
        only("observation", lambda envs: vector_numbers(
            vector.RescaleObservation(envs, -1, 1), (-0.5, 0.5)
        )),
        as_box,
    ),
    "DtypeObservation": (
        only("observation", lambda envs: vector_numbers(
            vector.DtypeObservation(envs, np.float64), (0.5, 1.5)
        )),
        as_box,
    ),
    "NormalizeObservation": (
        Entry(NEVER, "divides by the deviation of all observations before", lambda envs:
            vector_numbers(vector.NormalizeObservation(envs), FINE)),
        as_box,
    ),
    "TransformAction": (only("row of actions, if its function does", vector_choice), by_torque),
    "ClipAction": (
        only("action", lambda envs: vector_choice(vector.ClipAction(envs))), by_torque
    ),
    "RescaleAction": (
        only("action", lambda envs: vector_choice(vector.RescaleAction(envs, -1.0, 1.0))), by_torque
    ),
    "TransformReward": (
        only("row of rewards, if its function does", lambda envs: vector.TransformReward(
            envs, lambda r: 1 - r
        )),
        lambda e: e,
    ),
    "ClipReward": (
        only("reward", lambda envs: vector.ClipReward(envs, 0.0, 0.25)), lambda e: e
    ),
    "NormalizeReward": (
        Entry(NEVER, "divides by the deviation of all returns before", lambda envs:
            vector.TransformReward(vector.NormalizeReward(envs), lambda r: np.clip(r / 9, 0, 1))),
        lambda e: e,
    ),
    "RecordEpisodeStatistics": (
        Entry(STEP, "adds to infos, of which none is counted", vector.RecordEpisodeStatistics),
        lambda e: e,
    ),
    "RecordVideo": (
        Entry(STEP, DRAWS, lambda envs: vector.RecordVideo(
            envs, ".", episode_trigger=lambda _: True, gc_trigger=None
        )),
        lambda e: e,
    ),
    "HumanRendering": (Entry(STEP, DRAWS, vector.HumanRendering), lambda e: e),
    "ArrayConversion": (Entry(STEP, KINDS), lambda e: e),
    "JaxToNumpy": (Entry(STEP, KINDS), lambda e: e),
    "JaxToTorch": (Entry(STEP, KINDS), lambda e: e),
    "NumpyToTorch": (Entry(STEP, KINDS), lambda e: e),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What draws and writes is not needed here, and what resizes does so by its own."""
    for name in ("moviepy", "moviepy.video.io.ImageSequenceClip", "pygame"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    cv2 = SimpleNamespace(
        resize=lambda seen, shape, interpolation=3: np.resize(seen, (*shape, *seen.shape[2:])),
        INTER_AREA=3,
    )
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Every:
    """Draw before every n-th episode."""

    n: int

    def is_due(self, episode: int) -> bool:
        return episode % self.n == 0

    def starts(self, episodes: int) -> range:
        return range(0, episodes, self.n)


def private_agent(n_states: int, unit: Any, schedule: Any) -> PSRL:
    """Return an agent with noise as `PSRL.private` gives it, without the search for its amount."""
    options = {"updates": 5, "relation": unit, "sigma": 2.0}
    loops = self_loops(n_states, 2, terminates=True)
    paid = NoisyCounts(table=DAMPED_REWARDS, loops=np.arange(4) > 1, **options)
    agent: PSRL = agent_of(
        PSRL, n_states, 2, H, terminates=True, rng=0, schedule=schedule,
        sampler=NoisyCounts(table=DAMPED, loops=loops, **options),
        rewards=HatRewards(paid, points=2), accountant=RdpAccountant(),
    )  # fmt: skip
    return agent


def n_states(env: Any) -> int:
    return int(getattr(env, "single_observation_space", env.observation_space).n)


def played(env: Any, unit: Any, episodes: int) -> Any:
    """Return all that anyone sees of a private agent that learned in an environment."""
    agent = private_agent(n_states(env), unit, Every(getattr(env, "num_envs", 1)))
    agent.learn(episodes, env=env, rng=1)
    return agent.behaviour, agent.draws, agent.accountant.rdp


def findings(play: Callable[[list[Steps]], Any], other: list[Steps]) -> list[str]:
    """Return what one unit changes beyond what it may: there is a draw before each episode."""
    first = replay._record(play, HISTORY)
    second = replay._replay(play, other, first)
    assert first.error is None
    assert len(first.calls) > 2
    changed = [
        [not np.array_equal(a, b) for a, b in zip(*map(replay.tables_of, pair), strict=True)]
        for pair in (
            (one.data, two.data) for one, two in zip(first.calls, second.calls, strict=True)
        )
    ]
    beyond = ["several episodes changed"] * (sum(map(any, changed)) > 2)
    return [*replay._differences(first, second), *replay._uncovered(first, second), *beyond]


def alone(make: Any, unit: Any) -> Callable[[list[Steps]], Any]:
    def play(history: list[Steps]) -> Any:
        env = numbered(make(Scripted(history)))
        return played(env, unit, len(history))

    return play


def test_every_class_of_gymnasium_was_looked_at() -> None:
    assert set(SINGLE) >= set(wrappers.__all__) - {"vector"}
    assert set(VECTOR) >= set(vector.__all__)
    assert set(gym.vector.__all__) <= {
        "VectorEnv", "VectorWrapper", "VectorObservationWrapper", "VectorActionWrapper",
        "VectorRewardWrapper", "SyncVectorEnv", "AsyncVectorEnv", "utils", "AutoresetMode",
    }  # fmt: skip
    assert {mode.name for mode in AutoresetMode} == {"NEXT_STEP", "SAME_STEP", "DISABLED"}
    said = {**SINGLE, **{name: entry for name, (entry, _) in VECTOR.items()}}
    for allowed, names in {
        STEP: {*facts._BY_ITSELF},
        EPISODE: {*facts._BY_THE_EPISODE},
        NEVER: {*facts._BY_ALL_BEFORE} - {"ActionBonus", "PositionBonus"},
    }.items():
        assert {name for name, entry in said.items() if entry.allowed == allowed} == names


MADE = {name: entry for name, entry in SINGLE.items() if entry.make}
UNITS = {STEP: ReplaceStep(arrival_rewards=True), EPISODE: ReplaceEpisode(H)}


@pytest.mark.parametrize("name", [name for name in MADE if MADE[name].allowed == STEP])
def test_one_step_changes_no_more_than_is_paid_for(name: str) -> None:
    play = alone(MADE[name].make, UNITS[STEP])
    assert not [found for other in STEPS for found in findings(play, other)]


@pytest.mark.parametrize("name", [name for name in MADE if MADE[name].allowed != NEVER])
def test_one_episode_changes_no_other(name: str) -> None:
    play = alone(MADE[name].make, UNITS[EPISODE])
    assert not [found for other in EPISODES for found in findings(play, other)]


@pytest.mark.parametrize("name", MADE)
def test_facts_are_kept_where_no_step_is_changed(name: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # of videos that are there
        layer = MADE[name].make(Scripted(HISTORY))
    while type(layer).__name__ != name:
        layer = layer.env
    assert facts._changes_nothing(layer) == MADE[name].keeps_facts


REFUSED = {name: entry for name, entry in MADE.items() if entry.allowed != STEP}


def test_what_is_refused_is_so_before_any_charge() -> None:
    """Also inside of another wrapper, and side by side."""
    refused = {name: numbered(REFUSED[name].make(Scripted(HISTORY))) for name in REFUSED}
    for name in REFUSED:
        refused[f"{name} each"] = SyncVectorEnv([lambda name=name: refused[name]])
    for name, entry in SIDE_BY_SIDE.items():
        if entry.allowed != STEP:
            envs = SyncVectorEnv([lambda name=name: VECTOR[name][1](Scripted(HISTORY))])
            refused[f"{name} of all"] = entry.make(envs)
    assert len(refused) == 18
    for name, env in refused.items():
        agent = private_agent(n_states(env), UNITS[STEP], Every(1))
        told = (
            f"env must not contain {name.split()[0]}.*; leave it out(, or make|\\. Public ranges)"
        )
        with pytest.raises(ValueError, match=told):
            agent.learn(4, env=env)
        assert agent.accountant.relation is None
        assert agent.draws == 0


def test_what_nobody_looked_at_is_refused_and_what_users_write_is_not() -> None:
    class Own(gym.RewardWrapper):
        def reward(self, reward: Any) -> Any:
            return reward

    class OwnStack(wrappers.FrameStackObservation):
        pass

    agent = private_agent(S, UNITS[STEP], Every(1))
    agent.learn(1, env=Own(Scripted(HISTORY)))
    new = type("SmoothReward", (Own,), {"__module__": "gymnasium.wrappers.smooth_reward"})
    for refused, unit in ((new, UNITS[EPISODE]), (type("OwnSmooth", (new,), {}), UNITS[EPISODE])):
        agent = private_agent(S, unit, Every(1))
        with pytest.raises(
            ValueError, match=r"SmoothReward, a wrapper of a newer .*; leave it out"
        ):
            agent.learn(1, env=refused(Scripted(HISTORY)))
        assert agent.accountant.relation is None
    with pytest.raises(ValueError, match="env must not contain FrameStackObservation where"):
        private_agent(9, UNITS[STEP], Every(1)).learn(1, env=OwnStack(Scripted(HISTORY), 2))


# AtariPreprocessing is refused to be safe: only the last screen of an episode shows an earlier one.
SEEN = [name for name in MADE if MADE[name].allowed != STEP and name != "AtariPreprocessing"]


@pytest.mark.parametrize("name", SEEN)
def test_what_is_refused_would_change_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness sees it, so it would see it of a class that is allowed."""
    monkeypatch.setattr(facts, "_check_alone", lambda kind, by_episode: None)
    never = MADE[name].allowed == NEVER
    play = alone(MADE[name].make, UNITS[EPISODE if never else STEP])
    steps = (with_step(episode, at) for episode in range(3) for at in range(3))
    assert any(findings(play, other) for other in (EPISODES if never else steps))


def side_by_side(name: str, unit: Any, **options: Any) -> Callable[[list[Steps]], Any]:
    entry, inside = VECTOR.get(name, (only("state", lambda envs: envs), lambda e: e))

    def play(history: list[Steps]) -> Any:
        # What the first reset begins, which has a seed, is not counted; the last is not drawn.
        parts = [[HISTORY[i], *history[i::2], HISTORY[i]] for i in range(2)]
        envs = SyncVectorEnv(
            [lambda part=part: inside(Scripted(part)) for part in parts], **options
        )
        return played(entry.make(envs), unit, len(history) + 1)

    return play


SIDE_BY_SIDE = {name: entry for name, (entry, _) in VECTOR.items() if entry.make}


@pytest.mark.parametrize("name", [n for n in SIDE_BY_SIDE if SIDE_BY_SIDE[n].allowed == STEP])
def test_side_by_side_a_step_changes_no_more_than_is_paid_for(name: str) -> None:
    play = side_by_side(name, UNITS[STEP])
    assert not [found for other in STEPS for found in findings(play, other)]
    play = side_by_side(name, UNITS[EPISODE])
    assert not findings(play, EPISODES[0])


@pytest.mark.parametrize("name", [n for n in SIDE_BY_SIDE if SIDE_BY_SIDE[n].allowed == NEVER])
def test_side_by_side_what_is_refused_would_change_more(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "_check_alone", lambda kind, by_episode: None)
    assert findings(side_by_side(name, UNITS[EPISODE]), EPISODES[0])


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("how", [{}, {"observation_mode": "different"}, {"copy": False}], ids=repr)
def test_in_each_mode(mode: AutoresetMode, how: dict[str, Any]) -> None:
    """Of what there is in all modes, also with wrappers around."""
    names = [
        "no",
        *(["DictInfoToList", "RecordEpisodeStatistics", "ClipReward"] if not how else []),
    ]
    for name in names:
        play = side_by_side(name, UNITS[STEP], autoreset_mode=mode, **how)
        assert not [found for other in STEPS for found in findings(play, other)]


def test_records_taken_at_resets_depend_on_others() -> None:
    """Whoever plays on waits: the others begin as many episodes, of which none counts."""
    play = side_by_side("no", UNITS[EPISODE])
    assert findings(play, with_episode(1, 1)) == ["several episodes changed"]
    assert not findings(play, with_episode(1, H))


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_in_other_processes_no_reset_is_counted(mode: str) -> None:
    """Without shared memory theirs forget a reset, and begin the next episode with another."""
    made = [lambda: Scripted(HISTORY)]
    for shares in (True, False):
        envs = AsyncVectorEnv(made, shared_memory=shares, autoreset_mode=mode)
        agent, same = (private_agent(S, UNITS[STEP], Every(9)) for _ in range(2))
        try:
            if mode == "NextStep" and not shares:
                with pytest.raises(ValueError, match=r"env must share memory .*shared_memory=True"):
                    agent.learn(3, env=envs)
                assert agent.accountant.relation is None
                continue
            agent.learn(3, env=envs, rng=1)
        finally:
            envs.close()
        same.learn(3, env=SyncVectorEnv(made, autoreset_mode=mode), rng=1)
        np.testing.assert_array_equal(agent._new.counts, same._new.counts)
        np.testing.assert_array_equal(agent._new.rewards, same._new.rewards)


def of_numbers(make: Any, unit: Any) -> Callable[[list[Steps]], Any]:
    """Let the agent for numbers see what a wrapper shows."""

    def play(history: list[Steps]) -> Any:
        env = numbered(make(Scripted(history)))
        last = int(env.observation_space.n) - 1
        env = shown(env, lambda s: np.float64([s / last]), Box(0, 1, (1,), np.float64))
        agent: Any = PSRL.private(env, epsilon=1, episodes=len(history), relation=unit, rng=0)
        agent.learn(rng=1)
        return agent.draws, agent.policy, agent.accountant.rdp

    return play


@pytest.mark.few(20)
@pytest.mark.parametrize("name", [name for name in MADE if MADE[name].allowed != NEVER])
def test_the_agent_for_numbers_pays_for_what_changes(name: str) -> None:
    if MADE[name].allowed == STEP:
        play = of_numbers(MADE[name].make, UNITS[STEP])
        assert not [found for other in STEPS for found in findings(play, other)]
    play = of_numbers(MADE[name].make, UNITS[EPISODE])
    assert not [found for other in EPISODES for found in findings(play, other)]
