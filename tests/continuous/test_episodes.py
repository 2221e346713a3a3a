"""Logs of numbers from episodes: buffers, and data sets of Minari's."""

import copy
import pickle
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from continuous_worlds import MIXED, SCHEMA
from made import Episode
from of_every_kind import KINDS

from privrl.continuous import (
    ContinuousLog,
    ContinuousSchema,
    Number,
    fit_continuous_model,
    read_continuous_log,
)
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
        replace(ENDED, observations=np.zeros((3, 3))),
        replace(ENDED, observations=np.array([["a", "b"]] * 3)),
        replace(ENDED, observations=np.zeros((3, 2), np.bool_)),
        replace(ENDED, observations=np.ma.masked_array(np.zeros((3, 2)))),
        replace(ENDED, observations=iter([[0, 1]] * 3)),
        replace(ENDED, actions=[1]),
        replace(ENDED, rewards=None),
        replace(ENDED, terminations=np.zeros(2, complex)),
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


def objects(entries: list[Any]) -> Any:
    return np.fromiter(entries, object, len(entries))


def rows_of_objects(entries: list[Any]) -> Any:
    if any(type(each) is not list or len(each) != 2 for each in entries):
        return objects(entries)
    return objects([each for row in entries for each in row]).reshape(-1, 2)


LISTS = {
    "lists": list,
    "tuples": tuple,
    "arrays of objects": rows_of_objects,
    "lists of arrays": lambda entries: [
        np.array(each) if isinstance(each, list) and {*map(type, each)} == {float} else each
        for each in entries
    ],
}
FLAGS = [False, True, False, True, False]


def walk() -> dict[str, list[Any]]:
    """The lists of an episode whose steps all differ."""
    each = [k / 10 for k in range(6)]
    return {
        "observations": [[x, x + 0.3] for x in each],
        "actions": [-x for x in each[:5]],
        "rewards": [-x / 2 for x in each[:5]],
        "terminations": list(FLAGS),
    }


def steps_of(log: ContinuousLog) -> list[Any]:
    assert log.reward is not None
    assert log.terminated is not None
    columns = (log.state, log.action, log.next_state, log.reward[:, None], log.terminated[:, None])
    return np.concatenate(columns, axis=1).tolist()


@pytest.mark.few(23)
@pytest.mark.parametrize("container", LISTS)
@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: type(entry).__name__)
def test_a_step_of_any_kind_changes_its_own_rows_alone(entry: Any, container: str) -> None:
    """NumPy infers one type of a list: a flag 1 left out all steps of a person, or made texts."""
    make = LISTS[container]

    def read(lists: dict[str, list[Any]]) -> tuple[list[Any], list[int]]:
        bad = Episode(**{name: make(each) for name, each in lists.items()})
        log = ContinuousLog.from_buffer([bad, ENDED], SCHEMA, person=[1, 2])
        return steps_of(log), log.offsets.tolist()

    before, _ = read(walk())
    assert len(before) == 7
    for name, k in (
        *(("observations", k) for k in (0, 2, 5)),
        *((name, k) for name in ("actions", "rewards", "terminations") for k in (2, 4)),
    ):
        first = max(k - (name == "observations"), 0)  # it is where the step before ends
        end = min(k + 1, 5)
        for whole in (True, False):
            lists = walk()
            if whole or name != "observations":
                lists[name][k] = entry
            else:
                lists[name][k][1] = entry
            after, offsets = read(lists)
            rest = len(before) - end
            assert after[:first] == before[:first]
            assert after[len(after) - rest :] == before[end:]
            assert len(after) - rest - first in range(end - first + 1)
            assert offsets[-2:] == [len(after) - 2, len(after)]


@pytest.mark.parametrize(
    "entry",
    [each for each in KINDS if not (hasattr(each, "__len__") or hasattr(each, "__array__"))]
    + [np.float32(0.1), np.int8(1), np.True_, "0.5", "true", b"1"],
    ids=lambda entry: type(entry).__name__,
)
def test_an_entry_is_read_as_in_a_data_frame(entry: Any) -> None:
    for name in walk():
        lists = walk()
        if name == "observations":
            lists[name][2][1] = entry
        else:
            lists[name][2] = entry
        table = {
            "person": [1] * 6,
            "x": [x for x, _ in lists["observations"]],
            "phase": [phase for _, phase in lists["observations"]],
            "push": [*lists["actions"], None],
            "reward": [*lists["rewards"], None],
            "terminated": [*lists["terminations"], None],
        }
        frame = pd.DataFrame({name: objects(each) for name, each in table.items()})
        read = read_continuous_log(frame, SCHEMA)
        assert isinstance(read, ContinuousLog)
        made = ContinuousLog.from_buffer([Episode(**lists)], SCHEMA)
        assert steps_of(made) == steps_of(read), name


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, object])
def test_flags_of_any_type_are_flags(dtype: Any) -> None:
    """What NumPy makes of a list with one number among flags is read as the list is."""
    for flags in (FLAGS, np.array(FLAGS, dtype)):
        log = ContinuousLog.from_buffer([Episode(**walk() | {"terminations": flags})], SCHEMA)
        assert lists(log)["terminated"] == FLAGS


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


@pytest.mark.parametrize("first", [1, True])
def test_a_categorical_of_all_is_read_entry_by_entry(first: Any) -> None:
    """pandas keeps the first of equal objects, so one person's True was in place of all 1s."""
    pushes = pd.Series([first, 0, 1, 1, 0, 1], dtype=object).astype("category")
    episodes = [
        Episode(np.zeros((4, 2)), part, np.zeros(3), ends)
        for part, ends in ((pushes[:3], [False] * 3), (pushes[3:], pd.Series([False] * 3)))
    ]
    log = ContinuousLog.from_buffer(episodes, SCHEMA)
    assert log.action.ravel().tolist() == [1, 0, 1, 1, 0, 1]
