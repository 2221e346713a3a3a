"""Episodes of Gymnasium's environments as logs, from Minari's data sets and buffers."""

import copy
import pickle
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import Episode

from privrl.data.logs import from_minari
from privrl.data.logs.episodes import from_buffer
from privrl.data.logs.log import CUT

SIZES = {"n_states": 5, "n_actions": 2, "reward_bounds": (0, 1), "most_steps": 4}
FIELDS = ("state", "action", "next_state", "reward", "episode_starts", "person_starts")


def ends(count, *, last):
    return [False] * (count - 1) + [last]


ENDED = Episode([0, 1, 2], [0, 1], [0.5, 9.0], ends(2, last=True), ends(2, last=False))
STOPPED = Episode([3, 4, 4, 0], [1, 1, 0], [-2, 0, 1], ends(3, last=False), ends(3, last=True))


def lists(log):
    return {name: getattr(log, name).tolist() for name in FIELDS}


def test_two_episodes_by_hand():
    log = from_buffer([ENDED, STOPPED], **SIZES)
    assert (log.n_states, log.n_actions, log.outcomes) == (5, 2, ("terminated",))
    assert lists(log) == {
        "state": [0, 1, 3, 4, 4],
        "action": [0, 1, 1, 1, 0],
        "next_state": [1, 5, 4, 4, 0],  # the state after the last step is known
        "reward": [0.5, 1, 0, 0, 1],
        "episode_starts": [0, 2, 5],
        "person_starts": [0, 1, 2],
    }
    both = replace(ENDED, truncations=ends(2, last=True))
    assert lists(from_buffer([both], **SIZES)) == lists(from_buffer([ENDED], **SIZES))


def test_whose_a_step_is_cannot_change():
    """By the arrays that the log was made with, or in a pickle of it."""
    log = from_buffer([ENDED, STOPPED], **SIZES)
    starts = {name: getattr(log, name).copy() for name in ("episode_starts", "person_starts")}
    made = replace(log, **starts)
    for each in starts.values():
        each[:] = 0
    assert lists(made) == lists(log)
    for each in (log, copy.deepcopy(log), pickle.loads(pickle.dumps(log, 4))):
        assert not any(getattr(each, name).flags.writeable for name in FIELDS)


def test_steps_that_are_cut_away():
    log = from_buffer([ENDED, STOPPED], **SIZES | {"most_steps": 1})
    assert log.state.tolist() == [0, 3]
    assert log.next_state.tolist() == [1, 4]
    assert CUT not in log.next_state


def test_whose_episodes_are():
    episodes = [ENDED, STOPPED, ENDED, STOPPED, ENDED]
    whose = ["a", "b", "a", None, ""]
    log = from_buffer(episodes, **SIZES, most_episodes=2, person=whose)
    assert log.person_starts.tolist() == [0, 2, 3]
    assert lists(log) == lists(from_buffer([ENDED, ENDED, STOPPED], **SIZES, most_episodes=2,
                                           person=[1, 1, 2]))  # fmt: skip
    log = from_buffer(episodes, **SIZES, person=lambda episode: len(episode.actions))
    assert log.person_starts.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="another number than episodes"):
        from_buffer(episodes, **SIZES, person=whose[1:])
    with pytest.raises(ValueError, match="another number than episodes"):
        from_buffer(episodes, **SIZES, person=[*whose, "c"])
    with pytest.raises(ValueError, match="person must be a callable, or list"):
        from_buffer(episodes, **SIZES, person="abaab")


NONE = Episode([3], [], [], [], [])


@pytest.mark.parametrize(("kind", "exact"), [("e", 2**11), ("f", 2**24), ("d", 2**53)])
def test_persons_that_floats_do_not_tell_apart_are_left_out(kind, exact):
    """As `read_log` does: an array of floats made one person of two."""
    persons = np.array([exact - 1, exact, exact + 1, -exact], kind)
    assert persons[1] == persons[2]
    assert from_buffer([ENDED] * 4, **SIZES, person=persons).n_persons == 1
    assert from_buffer([ENDED] * 4, **SIZES, person=persons.astype(np.int64)).n_persons == 3
    with pytest.raises(ValueError, match="person must be a plain array"):
        from_buffer([ENDED] * 4, **SIZES, person=np.ma.masked_array(persons, persons > 0))


def test_an_episode_without_steps_is_passed_over():
    for none in (NONE, replace(NONE, observations=None, actions=None)):
        assert lists(from_buffer([none, ENDED, none], **SIZES)) == lists(
            from_buffer([ENDED], **SIZES)
        )
    assert from_buffer([], **SIZES).n_persons == 0


FAULTS = [
    *({"observations": each} for each in ([0, 5, 1], [0, -1, 1], [0, 1], [0, 0.5, 1], [0, "1", 1])),
    *({"observations": each} for each in (None, [[0], [1], [2]], [0, 2**70, 1], 3, [True] * 3)),
    *(
        {"actions": each}
        for each in ([0, 2], [0], [0, 1, 1], [0, None], np.array([0.0, 1]), object())
    ),
    *(
        {"rewards": each}
        for each in ([0, np.nan], [0], ["1", 0], [1j, 0], [None, 1], [[1], [1, 2]])
    ),
    *({"terminations": each} for each in ([True, True], [True, False], [0, 1], [False], None)),
    *({"truncations": each} for each in ([True, False], ["", ""], [[False], [False]])),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[str(k) for k in range(len(FAULTS))])
def test_whoever_has_an_episode_that_does_not_fit_is_left_out(fault):
    expected = lists(from_buffer([STOPPED], **SIZES))
    bad = replace(ENDED, **fault)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lists(from_buffer([bad, STOPPED], **SIZES)) == expected
        assert lists(from_buffer([STOPPED, bad], **SIZES)) == expected
        three = from_buffer([ENDED, STOPPED, bad], **SIZES, person=["a", "b", "a"])
    assert lists(three) == expected
    assert lists(from_buffer([SimpleNamespace(), STOPPED], **SIZES)) == expected


@given(st.lists(st.sampled_from([ENDED, STOPPED, NONE]), max_size=5), st.integers(0, 5), st.data())
def test_no_episode_changes_another(episodes, place, data):
    bad = replace(ENDED, **data.draw(st.sampled_from(FAULTS)))
    other = [*episodes[:place], bad, *episodes[place:]]
    assert lists(from_buffer(other, **SIZES)) == lists(from_buffer(episodes, **SIZES))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_states": 0}, "n_states must be a whole number >= 1"),
        ({"n_actions": 1.5}, "n_actions must be a whole number"),
        ({"most_steps": 0}, "most_steps must be a whole number >= 1"),
        ({"most_episodes": 0}, "most_episodes must be a whole number >= 1"),
        ({"reward_bounds": (1, 0)}, "low first"),
        ({"reward_bounds": 1}, r"reward_bounds must be \(low, high\)"),
        ({"reward_bounds": ("0", 1)}, "reward_bounds must be a number"),
    ],
)
def test_arguments_that_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        from_buffer([ENDED], **SIZES | change)


# Minari -------------------------------------------------------------------------------------------

BOUNDS = {"reward_bounds": (0, 1), "most_steps": 50}


@pytest.fixture
def minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return import_module("minari")


def episodes_of(env, count):
    """Episodes as a DataCollector keeps them, which needs JAX."""
    rng = np.random.default_rng(3)
    for seed in range(count):
        observations, actions, rewards, stops = [env.reset(seed=seed)[0]], [], [], [(False, False)]
        while not any(stops[-1]):
            actions.append(int(rng.integers(env.action_space.n)))
            state, reward, *stop, _ = env.step(actions[-1])
            observations.append(state)
            rewards.append(reward)
            stops.append(tuple(stop))
        yield {
            "observations": observations,
            "actions": actions,
            "rewards": rewards,
            "terminations": [each[0] for each in stops[1:]],
            "truncations": [each[1] for each in stops[1:]],
        }


@pytest.mark.needs("minari", "pyarrow")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_data_set_of_frozen_lake(minari, tmp_path):
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=6)
    made = list(episodes_of(env, 30))
    buffers = [
        minari.data_collector.EpisodeBuffer(id=i, infos={}, **each) for i, each in enumerate(made)
    ]
    dataset = minari.create_dataset_from_buffers(
        "lake/random-v0", buffers, env=env, data_format="arrow"
    )
    log = from_minari(dataset, **BOUNDS)
    assert (log.n_states, log.n_actions, log.n_persons) == (16, 4, 30)
    folder = tmp_path / "lake" / "random-v0"
    for source in ("lake/random-v0", folder, str(folder), folder / "data"):
        assert lists(from_minari(source, **BOUNDS)) == lists(log)
    raw = from_buffer(buffers, n_states=16, n_actions=4, **BOUNDS)
    assert lists(raw) == lists(log)
    assert log.state.tolist() == [s for each in made for s in each["observations"][:-1]]
    assert log.action.tolist() == [a for each in made for a in each["actions"]]
    last = [16 if e["terminations"][-1] else e["observations"][-1] for e in made]
    assert log.next_state[log.episode_starts[1:] - 1].tolist() == last
    assert 16 in last
    assert min(last) < 16  # one was truncated
    two = from_minari(dataset, **BOUNDS, most_episodes=9, person=lambda episode: episode.id % 2)
    assert two.person_starts.tolist() == [0, 9, 18]
    with pytest.raises(FileNotFoundError):
        from_minari("lake/none-v0", **BOUNDS)


@pytest.mark.needs("minari", "pyarrow")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_data_collector_collects(minari):
    pytest.importorskip("jax", reason="no jax: pip install 'minari[create]'")
    env = minari.DataCollector(gymnasium.make("FrozenLake-v1"), data_format="arrow")
    steps = 0
    for seed in range(3):
        env.reset(seed=seed)
        stops = (False, False)
        while not any(stops):
            _, _, *stops, _ = env.step(env.action_space.sample())
            steps += 1
    dataset = env.create_dataset(dataset_id="lake/collected-v0")
    log = from_minari(dataset, reward_bounds=(0, 1), most_steps=100)
    assert (log.n_persons, log.n_steps) == (3, steps)
    assert (log.next_state[log.episode_starts[1:] - 1] <= 16).all()


def test_spaces_that_begin_elsewhere():
    spaces = gymnasium.spaces
    shifted = Episode(
        np.array([0, 1, 2], np.uint8) + 7, np.array([0, 1]) - 3, *list(vars(ENDED).values())[2:]
    )
    dataset = SimpleNamespace(
        observation_space=spaces.Discrete(5, start=7),
        action_space=spaces.Discrete(2, start=-3),
        iterate_episodes=lambda: iter([shifted]),
    )
    log = from_minari(dataset, reward_bounds=(0, 1), most_steps=4)
    assert lists(log) == lists(from_buffer([ENDED], **SIZES))
    dataset.observation_space = spaces.Box(0, 1)
    with pytest.raises(ValueError, match="must have a Discrete observation_space, got Box"):
        from_minari(dataset, reward_bounds=(0, 1), most_steps=4)


def test_minari_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    for source in ("lake/random-v0", Path("somewhere")):
        with pytest.raises(ImportError, match=r"pip install 'privrl\[minari\]'"):
            from_minari(source, **BOUNDS)


def test_rewards_that_are_no_numbers_warn_of_nothing():
    """A NaN that signals raises a flag where it is made longer."""
    signals = np.array([0x7F800001, 0], np.uint32).view(np.float32)
    episode = Episode([0, 1, 1], [0, 1], signals, [False, False])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        log = from_buffer([episode], n_states=2, n_actions=2, reward_bounds=(0, 1), most_steps=3)
    assert not told
    assert log.n_persons == 0
