"""Logs of numbers from episodes: buffers, and data sets of Minari's."""

import copy
import pickle
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import pytest
from continuous_worlds import MIXED, SCHEMA
from made import Episode

from privrl.continuous import ContinuousLog, ContinuousSchema, Number, fit_continuous_model
from privrl.continuous.moments import GRAINS, by_row, sensitivity
from privrl.costs.relations import AddRemovePerson, ReplaceLoggedStep

FIELDS = ("state", "action", "next_state", "reward", "terminated", "offsets")


ENDED = Episode([[0, 0.9], [0.5, 0.95], [3, 1.05]], [[-1], [9]], [-0.5, 7], [False, True])
CUT = Episode(np.zeros((2, 2), np.float32), np.array([0.5]), [0.0], np.array([False]))


def lists(log: ContinuousLog) -> dict[str, Any]:
    found = {name: getattr(log, name) for name in FIELDS}
    return {name: None if each is None else each.tolist() for name, each in found.items()}


def test_two_episodes_by_hand() -> None:
    log = ContinuousLog.from_buffer([ENDED, CUT], SCHEMA)
    assert lists(log) == {
        "state": [[0, 0.9], [0.5, 0.95], [0, 0]],
        "action": [[-1], [1], [0.5]],  # clipped
        "next_state": [[0.5, 0.95], [1, pytest.approx(0.05)], [0, 0]],  # and wrapped
        "reward": [-0.5, 0, 0],
        "terminated": [False, True, False],
        "offsets": [0, 2, 3],
    }


def test_whose_episodes_are() -> None:
    episodes = [ENDED, CUT, ENDED, CUT, ENDED]
    log = ContinuousLog.from_buffer(episodes, SCHEMA, person=["a", "b", "a", None, ""])
    assert log.offsets.tolist() == [0, 4, 5]
    log = ContinuousLog.from_buffer(episodes, SCHEMA, person=lambda each: len(each.actions))
    assert log.offsets.tolist() == [0, 6, 8]
    with pytest.raises(ValueError, match="another number than episodes"):
        ContinuousLog.from_buffer(episodes, SCHEMA, person=["a"])
    with pytest.raises(ValueError, match="person must be a callable"):
        ContinuousLog.from_buffer(episodes, SCHEMA, person="abcde")


@pytest.mark.parametrize(
    ("person", "unit"), [(None, "episode"), (list("aabb"), "person: all episodes")]
)
def test_the_unit_goes_with_the_log(person: Any, unit: str) -> None:
    """An episode that was a person's own was stated to be all episodes of a person."""
    log = ContinuousLog.from_buffer([ENDED, CUT, ENDED, CUT], SCHEMA, person=person)
    model = fit_continuous_model(log, epsilon=1.0)
    assert model.statement is not None
    assert model.statement["unit"] == unit
    assert model.statement["relation"] == str(AddRemovePerson(log.unit))
    assert {part.unit for part in log.blocks(1)} == {log.unit}


WRONG = {
    "a row of two persons": {"offsets": [0, 2, 1, 3]},
    "rows of nobody": {"offsets": [0, 1]},
    "rows before all persons": {"offsets": [1, 3]},
    "a row too few": {"action": [[0], [1]]},
    "a column too many": {"next_state": [[0, 0, 0]] * 3},
    "no number": {"state": [[np.nan, 0]] * 3},
    "rewards in a column": {"reward": [[0], [0], [0]]},
    "unsigned offsets that fall": {"offsets": np.array([0, 2, 1, 3], np.uint16)},
    "offsets of floats": {"offsets": [0.0, 2.0, 3.0]},
    "no offsets": {"offsets": np.empty(0, np.intp)},
    "ends as numbers": {"terminated": [0.0, 1.0, 0.0]},
    "complex numbers": {"state": np.zeros((3, 2), complex)},
    "truth values": {"next_state": np.zeros((3, 2), bool)},
    "no rewards": {"reward": None},
    "no ends": {"terminated": None},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_arrays_that_do_not_fit_together_are_refused(wrong: str) -> None:
    """A row between two offsets twice would be that of two persons."""
    log = ContinuousLog.from_buffer([ENDED, CUT], SCHEMA)
    arrays = {k: None if each is None else np.array(each) for k, each in WRONG[wrong].items()}
    with pytest.raises(ValueError, match=r"must be (of|an array of)|offsets must not fall"):
        replace(log, **arrays)
    with pytest.raises(ValueError, match="reward must be a plain array"):
        replace(log, reward=np.ma.masked_array(log.reward, [True, False, False]))
    with pytest.raises(ValueError, match="arrays must be of"):  # it failed after the charge
        replace(log, schema=replace(SCHEMA, reward=None))


def test_arrays_of_a_log_are_read_only() -> None:
    log = ContinuousLog.from_buffer([ENDED, CUT], SCHEMA)
    for each in (log, copy.deepcopy(log), pickle.loads(pickle.dumps(log, 4))):
        assert not any(getattr(each, name).flags.writeable for name in FIELDS)


def test_whose_a_row_is_cannot_change() -> None:
    """By the array that the log was made with, rows of one person were those of several."""
    log = ContinuousLog.from_buffer([ENDED, CUT], SCHEMA)
    offsets = log.offsets.copy()
    made = replace(log, offsets=offsets)
    offsets[:] = 0
    np.testing.assert_array_equal(made.offsets, log.offsets)


class Raises:
    @property
    def observations(self) -> Any:
        raise RuntimeError("4321.5")


@pytest.mark.parametrize(
    "bad",
    [
        Raises(),
        None,
        replace(ENDED, observations=[[0, 1], [0, 1]]),
        replace(ENDED, observations=[[0, 1, 2]] * 3),
        replace(ENDED, observations=[["a", "b"]] * 3),
        replace(ENDED, actions=[1]),
        replace(ENDED, rewards=None),
        replace(ENDED, terminations=[0.0, 1.0]),
    ],
    ids=lambda episode: type(episode).__name__,
)
def test_a_person_with_an_episode_that_does_not_fit_is_left_out(bad: Any) -> None:
    log = ContinuousLog.from_buffer([ENDED, bad, CUT, ENDED], SCHEMA, person=[1, 2, 2, 3])
    assert lists(log) == lists(ContinuousLog.from_buffer([ENDED, ENDED], SCHEMA))


def test_a_step_that_terminated_or_not_changes_its_own_row_alone() -> None:
    """A step is replaced together with its flag: the steps around it are to stay."""
    rng, n = np.random.default_rng(0), 40
    episode = Episode(
        rng.uniform([-1, 0], [1, 1], (n + 1, 2)), rng.integers(-1, 2, n), -rng.random(n)
    )
    flags = np.zeros(n, np.bool_)
    before = ContinuousLog.from_buffer([replace(episode, terminations=flags)], SCHEMA)
    relation = ReplaceLoggedStep()
    for step in (0, 17, n - 1):
        flag = flags.copy()
        flag[step] = True
        after = ContinuousLog.from_buffer([replace(episode, terminations=flag)], SCHEMA)
        assert lists(after) | {"terminated": flags.tolist()} == lists(before)
        assert after.terminated is not None
        assert np.flatnonzero(after.terminated).tolist() == [step]
        norms = []
        for log in (before, after):
            rows = np.concatenate([log.state, ~log.terminated[:, None]], axis=1)
            norms.append(by_row(rows, 1.0) / GRAINS)
        assert np.linalg.norm(norms[1] - norms[0]) <= sensitivity(relation)


def test_nobody() -> None:
    for episodes in ([], [None], [replace(CUT, observations=[[0, 0]], actions=[], rewards=[])]):
        log = ContinuousLog.from_buffer(episodes, SCHEMA)
        assert log.n_persons == 0
        assert log.state.shape == (0, 2)
        assert fit_continuous_model(log, epsilon=1, rng=0, order=2).persons >= 1


def test_mixed_columns() -> None:
    episode = Episode([[0.0, 2], [0.1, 0], [0.2, 1]], [0, 1], [0, -1])
    log = ContinuousLog.from_buffer([episode], MIXED)
    assert lists(log) | {"offsets": None} == {
        "state": [[0, 2], [0.1, 0]], "action": [[0], [1]], "next_state": [[0.1, 0], [0.2, 1]],
        "reward": [0, -1], "terminated": None, "offsets": None,
    }  # fmt: skip


class DataSet:
    """As Minari's, with spaces that start elsewhere."""

    def __init__(self, observation_space: Any, action_space: Any, episodes: list[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._episodes = episodes

    def iterate_episodes(self) -> Any:
        return iter(self._episodes)


def test_categories_that_start_elsewhere() -> None:
    box, two = gymnasium.spaces.Box(-np.inf, np.inf, (2,)), gymnasium.spaces.Discrete(2, start=5)
    episode = Episode([[0.0, 2], [0.1, 0]], [6], [0])
    log = ContinuousLog.from_minari(DataSet(box, two, [episode]), MIXED)
    assert log.action.tolist() == [[1]]
    steps = ContinuousSchema(
        state={"x": Number(low=0, high=9)}, action={"dose": Number(low=5, high=6, levels=2)}
    )
    log = ContinuousLog.from_minari(DataSet(two, two, [Episode([5, 6], [6], [])]), steps)
    assert (log.state.tolist(), log.action.tolist()) == ([[5]], [[6]])  # numbers are what they are


@pytest.mark.parametrize("space", [None, "Box", gymnasium.spaces.Box(0, 1, (3,))])
def test_spaces_of_other_columns_are_refused(space: Any) -> None:
    box, two = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)
    with pytest.raises(ValueError, match="observations of the schema's 2 columns 'x', 'phase'"):
        ContinuousLog.from_minari(DataSet(space, two, []), SCHEMA)
    with pytest.raises(ValueError, match="actions of the schema's 1 columns 'push'"):
        ContinuousLog.from_minari(DataSet(box, space, []), SCHEMA)


@pytest.mark.needs("minari", "pyarrow")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_data_set_of_mountain_car(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = import_module("minari")
    env, rng, buffers = gymnasium.make("MountainCarContinuous-v0"), np.random.default_rng(0), []
    for number in range(3):
        seen, actions, rewards = [env.reset(seed=number)[0]], [], []
        for _ in range(5):
            actions.append(rng.uniform(-1, 1, 1).astype(np.float32))
            after, reward, *_ = env.step(actions[-1])
            seen.append(after)
            rewards.append(reward)
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number, infos={}, observations=seen, actions=actions, rewards=rewards,
                terminations=[False] * 5, truncations=[False] * 4 + [True],
            )
        )  # fmt: skip
    dataset = minari.create_dataset_from_buffers(
        "car/random-v0", buffers, env=env, data_format="arrow"
    )
    schema = ContinuousSchema(
        state={"position": Number(low=-1.2, high=0.6), "speed": Number(low=-0.07, high=0.07)},
        action={"push": Number(low=-1, high=1, levels=3)},
        reward=Number(low=-0.1, high=100),
        terminates=True,
    )
    log = ContinuousLog.from_minari(dataset, schema)
    assert lists(ContinuousLog.from_minari("car/random-v0", schema)) == lists(log)
    assert log.offsets.tolist() == [0, 5, 10, 15]
    np.testing.assert_array_equal(
        log.next_state, np.concatenate([each.observations[1:] for each in buffers])
    )
    np.testing.assert_array_equal(log.action, np.concatenate([each.actions for each in buffers]))
    two = ContinuousLog.from_minari(dataset, schema, person=lambda episode: episode.id % 2)
    assert two.offsets.tolist() == [0, 10, 15]
