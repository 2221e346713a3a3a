"""Released models: the law of their tables, their promise beside them, and files from anybody."""

import copy
import dataclasses
import hashlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import unicodedata
import warnings
import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from made import agent_of
from oracle_tabular import play

import privrl
from privrl.agents import QLearning
from privrl.envs import (
    Released,
    ReleasedEnv,
    TabularEnv,
    TabularMDP,
    load_released,
    plan,
    riverswim,
    save_released,
)
from privrl.envs import released as released_module
from privrl.envs import released_files as files_module
from privrl.envs.released import privacy_statement
from privrl.experiments import train

ENV_ID = "privrl.envs:privrl/Released-v0"
FIELDS = {
    "unit": "a person: all episodes",
    "relation": "replace one person",
    "epsilon": 1.0,
    "delta": 1e-6,
    "released": "counts of steps, with noise",
}
OUTCOMES = ("well", "gone")
STATES = ("low", "middle", "high", "strange")
ACTIONS = ("wait", "little", "much")


def tables(rng, arrivals=True, *, n_states=6, n_actions=3, n_outcomes=2, horizon=12):
    """Rows with zeros, two of them alike; the outcomes are the last states."""
    n_before = n_states - n_outcomes
    transition = rng.dirichlet(np.full(n_states, 0.6), (n_states, n_actions))
    transition[rng.random(transition.shape) < 0.3] = 0
    transition[..., -1] += 1e-3
    transition /= transition.sum(axis=-1, keepdims=True)
    transition[0, 0] = transition[0, -1]
    transition[n_before:] = np.eye(n_states)[n_before:, None]
    reward = rng.normal(size=(n_states, n_actions))
    if arrivals:
        reward = np.zeros(transition.shape)
        reward[..., n_before:] = rng.normal(size=n_outcomes)
    reward[n_before:] = 0
    start = rng.dirichlet(np.ones(n_states))
    return TabularMDP(transition, reward, start, horizon)


def model(seed=0, **changes):
    rng = np.random.default_rng(seed)
    admissible = rng.random((6, 3)) < 0.6
    admissible[:, 0] = True
    parts = {
        "mdp": tables(rng),
        "statement": privacy_statement(**FIELDS, caveats=["labels are public"]),
        "outcomes": OUTCOMES,
        "state_names": STATES,
        "action_names": ACTIONS,
        "admissible": admissible,
        "deviations": rng.random((6, 3)),
    }
    return Released(**(parts | changes))


def bare(seed=0, arrivals=False):
    rng = np.random.default_rng(seed)
    return Released(mdp=tables(rng, arrivals), statement=privacy_statement(**FIELDS))


def assert_same(one, other):
    for name in ("transition", "reward", "start"):
        np.testing.assert_array_equal(getattr(one.mdp, name), getattr(other.mdp, name))
    assert one.mdp.reward.shape == other.mdp.reward.shape
    assert one.mdp.horizon == other.mdp.horizon
    for name in ("statement", "outcomes", "state_names", "action_names"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("admissible", "deviations"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# A promise.


def test_a_statement_says_all_of_it():
    assert privacy_statement(**FIELDS) == FIELDS | {
        "caveats": [],
        "version": privrl.__version__,
    }
    renyi = privacy_statement(
        **(FIELDS | {"delta": None}), order=2, details={"sigma": np.float64(3), "most": [1, None]}
    )
    assert renyi["order"] == 2
    assert "delta" not in renyi
    assert renyi["details"] == {"sigma": 3.0, "most": [1, None]}
    assert json.loads(json.dumps(renyi)) == renyi
    assert privacy_statement(**(FIELDS | {"delta": 0}))["delta"] == 0


def nested(depth):
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "'epsilon' must be a number > 0 and finite, got 0.0"),
        ({"epsilon": -1}, "'epsilon' must be a number > 0 and finite, got -1"),
        ({"epsilon": math.nan}, "must hold finite numbers, got nan"),
        ({"epsilon": math.inf}, "must hold finite numbers, got inf"),
        ({"epsilon": 10**400}, "must hold finite numbers"),
        ({"epsilon": True}, "'epsilon' must be a number > 0 and finite, got True"),
        ({"epsilon": "1"}, "'epsilon' must be a number > 0 and finite, got '1'"),
        ({"delta": 1.0}, "'delta' must be a number >= 0 and < 1, got 1.0"),
        ({"delta": -1e-9}, "'delta' must be a number >= 0 and < 1"),
        ({"delta": None}, "one of 'delta' and 'order', got neither; delta is 0 for pure"),
        ({"order": 2.0}, "one of 'delta' and 'order', got both"),
        ({"delta": None, "order": 1.0}, "'order' must be a number > 1 and finite, got 1.0"),
        ({"unit": ""}, "'unit' must be a text that is not empty, got ''"),
        ({"relation": 3}, "'relation' must be a text that is not empty, got 3"),
        ({"released": " "}, "'released' must be a text that is not empty"),
        ({"released": "\ud800"}, "must hold texts of whole characters"),
        ({"caveats": "none"}, "'caveats' must be a list of texts, got 'none'"),
        ({"caveats": [1]}, r"'caveats' must be a list of texts, got an object of type list"),
        ({"details": []}, r"'details' must be a table of entries, got \[\]"),
        ({"details": {"a": object()}}, "must hold texts, numbers, lists and tables .* got object"),
        ({"details": {1: "a"}}, "must have texts as names of entries, got 1"),
        ({"details": {"a": nested(4)}}, "must not be nested so deeply; at most 4 times"),
    ],
)
def test_what_is_no_promise_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        privacy_statement(**(FIELDS | changes))


def test_statements_are_whole():
    whole = privacy_statement(**FIELDS)
    for name in ("unit", "relation", "epsilon", "released", "caveats", "version"):
        with pytest.raises(ValueError, match=f"statement must say '{name}', got .*save_tables"):
            model(statement={key: value for key, value in whole.items() if key != name})
    with pytest.raises(ValueError, match=r"no other entries, got 'author'; anything .*details"):
        model(statement=whole | {"author": "x"})
    with pytest.raises(ValueError, match="statement must be a table of entries, got NoneType"):
        model(statement=None)


def test_nobody_else_changes_a_statement():
    given = privacy_statement(**FIELDS)
    released = model(statement=given)
    given["caveats"].append("of no force")
    assert released.statement["caveats"] == []
    env = ReleasedEnv(released=released)
    env.statement["caveats"].append("of no force")
    env.statement["epsilon"] = 0.1
    assert env.statement == released.statement == privacy_statement(**FIELDS)


# A model.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mdp": "tables"}, "mdp must be a TabularMDP, got str"),
        ({"outcomes": ("a",) * 2}, "outcomes must be different, got 'a' twice"),
        ({"outcomes": tuple("abcdef")}, "outcomes must be fewer than the 6 states, got 6"),
        ({"outcomes": ("a", "b", "c")}, "never left and pay nothing, got 'a', state 3"),
        ({"outcomes": "ab"}, "outcomes must be a list of texts, got 'ab'"),
        ({"outcomes": 3}, "outcomes must be a list of texts, got 3"),
        ({"outcomes": ("well", "")}, "outcomes must be texts that a line can show, got ''"),
        ({"state_names": STATES[:3]}, "state_names must be 4 texts to fit the tables, got 3"),
        ({"state_names": (*STATES[:3], "well")}, "must differ from outcomes, got 'well' in both"),
        ({"state_names": (*STATES[:3], "a\x1b[2J")}, "texts that a line can show"),
        ({"state_names": (*STATES[:3], "\ud800")}, "texts that a line can show"),
        ({"state_names": (*STATES[:3], 4)}, "texts that a line can show, got 4"),
        ({"action_names": ("a", "b")}, "action_names must be 3 texts to fit the tables, got 2"),
        ({"admissible": np.ones((6, 3))}, r"booleans of shape \(6, 3\), got float64 of shape"),
        ({"admissible": np.ones((4, 3), bool)}, r"booleans of shape \(6, 3\), got bool of shape"),
        ({"admissible": [[True], []]}, "admissible must be booleans"),
        ({"admissible": np.zeros((6, 3), bool)}, "an action at least in each state, got none in"),
        ({"deviations": np.full((6, 3), -1.0)}, "deviations must be >= 0 and finite, got -1.0"),
        ({"deviations": np.full((6, 3), np.nan)}, "deviations must be >= 0 and finite, got nan"),
        ({"deviations": np.full((6, 3), np.inf)}, "deviations must be >= 0 and finite, got inf"),
        ({"deviations": np.full((6, 3), "1")}, r"numbers of shape \(6, 3\), got <U1 of shape"),
        ({"deviations": np.zeros(6)}, r"deviations must be numbers of shape \(6, 3\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        model(**changes)


def test_tables_that_files_cannot_hold_are_refused(monkeypatch):
    monkeypatch.setattr(released_module, "MOST_CELLS", 107)
    with pytest.raises(ValueError, match="at most 107 transitions S x A x S, got 6 states and 3"):
        model()


def test_labels():
    released = model()
    assert [released.state_label(s) for s in range(6)] == [*STATES, *OUTCOMES]
    assert [released.action_label(a) for a in range(3)] == list(ACTIONS)
    assert bare().state_label(5) == "5"
    assert bare().action_label(2) == "2"


def test_arrays_are_copies_that_stay_as_they_are():
    admissible, deviations = np.ones((6, 3), bool), np.ones((6, 3), np.float32)
    released = model(admissible=admissible, deviations=deviations)
    admissible[:], deviations[:] = False, -1
    for each in (released, pickle.loads(pickle.dumps(released)), copy.deepcopy(released)):
        assert_same(each, released)
        assert each.admissible.all()
        assert (each.deviations == 1).all()
        assert each.deviations.dtype == np.float64
        for array in (each.admissible, each.deviations, each.mdp.transition):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


# Files.


@pytest.mark.parametrize("released", [model(), bare(), bare(arrivals=True)])
def test_what_is_saved_comes_back(released, tmp_path):
    """Bit for bit, replacing an old model, and the same bytes each time."""
    folder = tmp_path / "deeper" / "model"
    save_released(folder, model(seed=7))
    save_released(str(folder), released)
    loaded = load_released(str(folder))
    assert_same(loaded, released)
    assert type(loaded.mdp.horizon) is int
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "tables.npz"]
    save_released(tmp_path / "again", loaded)
    for name in ("model.json", "tables.npz"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    n_states=st.integers(1, 7),
    n_actions=st.integers(1, 5),
    n_outcomes=st.integers(0, 3),
    arrivals=st.booleans(),
    labelled=st.booleans(),
    guarded=st.booleans(),
    epsilon=st.floats(min_value=1e-300, max_value=1e300),
    texts=st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=3),
)
def test_anything_comes_back(  # noqa: PLR0917
    seed, n_states, n_actions, n_outcomes, arrivals, labelled, guarded, epsilon, texts
):
    rng = np.random.default_rng(seed)
    n_outcomes = min(n_outcomes, n_states - 1)
    sizes = n_states, n_actions
    counts = {"n_states": n_states, "n_actions": n_actions, "n_outcomes": n_outcomes}
    released = Released(
        mdp=tables(rng, arrivals, **counts, horizon=int(rng.integers(1, 99))),
        statement=privacy_statement(
            **(FIELDS | {"epsilon": epsilon}), caveats=texts, details={"texts": texts}
        ),
        outcomes=[f"end {k}" for k in range(n_outcomes)],
        state_names=[f"état {s}" for s in range(n_states - n_outcomes)] if labelled else None,
        action_names=[f"行 {a}" for a in range(n_actions)] if labelled else None,
        admissible=np.ones(sizes, bool) if guarded else None,
        deviations=rng.random(sizes) * 10.0 ** rng.integers(-300, 300) if guarded else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        save_released(folder, released)
        assert_same(load_released(folder), released)


def test_a_zero_loses_its_sign(tmp_path):
    mdp = TabularMDP([[[1.0, -0.0]], [[-0.0, 1.0]]], np.full((2, 1, 2), -0.0), [1.0, 0.0], 2)
    save_released(tmp_path, Released(mdp=mdp, statement=privacy_statement(**FIELDS)))
    loaded = load_released(tmp_path).mdp
    np.testing.assert_array_equal(loaded.transition, mdp.transition)
    assert not np.signbit(loaded.transition).any()
    assert not np.signbit(loaded.reward).any()


@pytest.mark.slow
def test_a_large_model_is_a_small_file(tmp_path):
    """Actions that lead alike cost nothing: 300 states and 25 actions, 18 MB as floats."""
    rng = np.random.default_rng(0)
    transition = np.repeat(rng.dirichlet(np.ones(300), (300, 1)), 25, axis=1)
    reward = np.broadcast_to(rng.random(300), transition.shape)
    mdp = TabularMDP(transition, reward, np.full(300, 1 / 300), 9)
    released = Released(mdp=mdp, statement=privacy_statement(**FIELDS))
    save_released(tmp_path, released)
    assert (tmp_path / "tables.npz").stat().st_size < 1e6
    assert_same(load_released(tmp_path), released)


def test_what_is_written_is_plain(tmp_path):
    save_released(tmp_path, model())
    page = json.loads((tmp_path / "model.json").read_text())
    assert page["statement"] == model().statement
    assert page["outcomes"] == list(OUTCOMES)
    assert (page["n_states"], page["n_actions"], page["horizon"]) == (6, 3, 12)
    with np.load(tmp_path / "tables.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["admissible"], model().admissible)
        assert file["transition_value"].size == np.count_nonzero(
            np.unique(model().mdp.transition.reshape(-1, 6), axis=0)
        )


def test_a_table_whose_entry_has_another_ending_is_refused(tmp_path):
    """NumPy lists it under the same name."""
    save_released(tmp_path, model())
    with zipfile.ZipFile(tmp_path / "tables.npz") as file:
        entries = {name.replace("start.npy", "start"): file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(tmp_path / "tables.npz", "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    page = json.loads((tmp_path / "model.json").read_text())
    page["tables_sha256"] = hashlib.sha256((tmp_path / "tables.npz").read_bytes()).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(page))
    with pytest.raises(ValueError, match=r"tables\.npz: must hold the array 'start'"):
        load_released(tmp_path)


def test_two_halves_of_different_models_are_refused(tmp_path):
    """As after a crash between the two, whichever came first."""
    one, other = tmp_path / "one", tmp_path / "other"
    save_released(one, model())
    save_released(other, model(seed=1))
    whole = (one / "tables.npz").read_bytes()
    (one / "tables.npz").write_bytes((other / "tables.npz").read_bytes())
    with pytest.raises(ValueError, match=r"^tables.npz: must be the file that model.json is about"):
        load_released(one)
    (one / "tables.npz").write_bytes(whole)
    load_released(one)
    (one / "model.json").write_bytes((other / "model.json").read_bytes())
    with pytest.raises(ValueError, match="fetch or write both anew"):
        load_released(one)


def test_a_crash_between_two_files_is_noticed(tmp_path, monkeypatch):
    save_released(tmp_path, model())
    rename = Path.replace

    def crashes(path, target):
        if path.name == "model.json":
            raise OSError("power failed")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", crashes)
    with pytest.raises(OSError, match="power failed"):
        save_released(tmp_path, model(seed=1))
    with pytest.raises(ValueError, match=r"must be the file that model\.json is about"):
        load_released(tmp_path)
    with pytest.raises(OSError, match="power failed"):
        save_released(tmp_path / "new", model(seed=1))
    with pytest.raises(ValueError, match=r"without model\.json; save_released"):
        load_released(tmp_path / "new")


def test_what_cannot_be_made_leaves_the_old_model(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError("disk full")

    save_released(tmp_path, model())
    monkeypatch.setattr(files_module, "text_writer", lambda _: fails)
    with pytest.raises(OSError, match="disk full"):
        save_released(tmp_path, model(seed=1))
    assert_same(load_released(tmp_path), model())
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_such_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"got '.*none', which does not exist; save_rel"):
        load_released(tmp_path / "none")
    with pytest.raises(ValueError, match=r"^path must be a folder .* without model.json and table"):
        load_released(tmp_path)
    save_released(tmp_path, model())
    with pytest.raises(ValueError, match=r"^path must be a folder with model\.json and tables"):
        load_released(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"path must be a folder, got .* which is a file"):
        save_released(tmp_path / "model.json", model())
    with pytest.raises(ValueError, match="released must be a Released, got TabularMDP"):
        save_released(tmp_path, riverswim())
    (tmp_path / "tables.npz").unlink()
    with pytest.raises(ValueError, match=r"without tables\.npz; save_released"):
        load_released(tmp_path)


def with_page(folder, change):
    """Save a model with another page, a text."""
    save_released(folder, model())
    page = folder / "model.json"
    page.write_text(change(page.read_text()), errors="surrogatepass")


def edited(change):
    def edit(text):
        page = json.loads(text)
        change(page)
        return json.dumps(page)

    return edit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "Expecting value"),
        (lambda text: text[: len(text) // 2], ""),
        (lambda text: "[]", "format must be 'privrl released model, 1', got 'list'"),
        (lambda text: "[" * 100_000, "must not be nested so deeply"),
        (lambda text: '{"a":' * 100_000, "must not be nested so deeply"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": NaN'), "numbers must be finite"),
        (lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1e999'), "must be finite"),
        (lambda text: text.replace("{", '{"format": "x",', 1), "unique, got 'format' twice"),
        (
            lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 0.1'),
            "keys must be unique, got 'epsilon' twice",
        ),
        (edited(lambda page: page.update(format="privrl released model, 2")), "format must be"),
        (edited(lambda page: page.update(format=["x"])), "format must be"),
        (edited(lambda page: page.pop("outcomes")), "entries must be 'format', 'statement'"),
        (edited(lambda page: page.update(more=1)), "entries must be 'format', 'statement'"),
        (edited(lambda page: page.update(n_states=0)), "n_states must be a whole number >= 1"),
        (edited(lambda page: page.update(n_states=6.0)), "n_states must be a whole number >= 1"),
        (edited(lambda page: page.update(horizon=True)), "horizon must be a whole number >= 1"),
        (edited(lambda page: page.update(horizon=None)), ""),
        (edited(lambda page: page.update(n_states=10**9)), "must have at most 268,435,456 trans"),
        (edited(lambda page: page.update(tables_sha256=None)), "must be the file that model.json"),
        (edited(lambda page: page.update(n_states=7)), r"start must be an array of shape \(7,\)"),
        (
            edited(lambda page: page.update(n_actions=2)),
            r"transition_row must be .* \(6, 2\)",
        ),
        (edited(lambda page: page.update(statement=[])), "statement must be a table of entries"),
        (edited(lambda page: page["statement"].pop("epsilon")), "statement must say 'epsilon'"),
        (edited(lambda page: page["statement"].update(epsilon=None)), "'epsilon' must be a number"),
        (edited(lambda page: page["statement"].update(unit="\ud800")), "whole characters"),
        (edited(lambda page: page["statement"].update(details=nested(99))), "nested so deeply"),
        (edited(lambda page: page.update(outcomes=None)), "outcomes must be a list of texts"),
        (edited(lambda page: page.update(outcomes=["a", "b", "c"])), "never left"),
        (edited(lambda page: page.update(state_names={"a": 1})), "state_names must be"),
        (edited(lambda page: page.update(action_names=[1, 2, 3])), "action_names must be texts"),
    ],
)
def test_pages_from_anybody(change, message, tmp_path):
    with_page(tmp_path, change)
    with pytest.raises(ValueError, match=rf"^(model\.json|tables\.npz).*: .*{message}"):
        load_released(tmp_path)


def test_a_page_that_is_no_text_is_refused(tmp_path):
    save_released(tmp_path, model())
    (tmp_path / "model.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match=r"^model\.json: "):
        load_released(tmp_path)


def put(folder, content):
    """Replace the tables, and have the page agree."""
    (folder / "tables.npz").write_bytes(content)
    page = json.loads((folder / "model.json").read_text())
    page["tables_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "model.json").write_text(json.dumps(page))


def npz(arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def with_arrays(folder, change):
    save_released(folder, model())
    with np.load(folder / "tables.npz") as file:
        arrays = dict(file)
    put(folder, npz(arrays))
    assert_same(load_released(folder), model())
    change(arrays)
    put(folder, npz(arrays))


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


BOMB = np.array([Bomb()], dtype=object)


def scaled(name, place, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name].flat[place] = value

    return change


def swapped_places(arrays):
    arrays["transition_place"] = np.zeros_like(arrays["transition_place"])


def zero_among_values(arrays):
    scaled("reward_value", 0, 0.0)(arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("start"), "must hold the array 'start', got 'admissible'"),
        (lambda arrays: arrays.pop("transition_count"), "must hold the array 'transition_count'"),
        (lambda arrays: arrays.pop("reward_row"), "must hold the array 'reward'"),
        (lambda arrays: arrays.update(more=np.zeros(3)), "must hold no other arrays, got 'more'"),
        (
            lambda arrays: arrays.update(start=BOMB),
            r"start must be .*\(6,\) and type <f8,",
        ),
        (lambda arrays: arrays.update(more=BOMB), "must hold no other arrays"),
        (
            lambda arrays: arrays.update(transition_row=BOMB),
            "transition_row must be an array of shape",
        ),
        (lambda arrays: arrays.update(start=np.zeros(6, np.float32)), r"got \(6,\) and <f4"),
        (lambda arrays: arrays.update(start=np.zeros(6, ">f8")), "start must be an array of shape"),
        (
            lambda arrays: arrays.update(start=np.zeros(6, "f8,f8")),
            "start must be an array of shape",
        ),
        (
            lambda arrays: arrays.update(deviations=np.asfortranarray(arrays["deviations"])),
            "deviations must be an array of shape",
        ),
        (
            lambda arrays: arrays.update(admissible=np.zeros((6, 3), bool)),
            "admissible must leave an action at least in each state",
        ),
        (
            lambda arrays: arrays.update(admissible=np.ones((5, 3), bool)),
            "admissible must be an arr",
        ),
        (scaled("start", 0, np.nan), "start must hold finite numbers, got nan"),
        (scaled("start", 0, 3.0), "start must hold probabilities"),
        (scaled("transition_value", 0, np.nan), "transition_value must hold finite numbers"),
        (scaled("transition_value", 0, np.inf), "transition_value must hold finite numbers"),
        (scaled("transition_value", 0, -0.5), "transition must hold probabilities in 0..1, got -0"),
        (scaled("transition_value", 0, 1e-3), "transition must hold probabilities that sum to 1"),
        (scaled("reward_value", 0, np.nan), "reward_value must hold finite numbers, got nan"),
        (scaled("deviations", 0, np.nan), "deviations must be >= 0 and finite, got nan"),
        (scaled("deviations", 0, -1.0), "deviations must be >= 0 and finite, got -1"),
        (scaled("transition_row", 0, 200), "transition_row must be below 18, got 200"),
        (scaled("transition_count", 0, 200), "transition_count must be below 7, got 200"),
        (scaled("transition_count", 0, 0), "transition_place must be an array of shape"),
        (scaled("transition_place", 0, 6), "transition_place must be below 6, got 6"),
        (swapped_places, "transition must have each place once, with what is not 0"),
        (zero_among_values, "reward must have each place once, with what is not 0"),
    ],
)
def test_tables_from_anybody(change, message, tmp_path):
    with_arrays(tmp_path, change)
    with pytest.raises(ValueError, match=rf"^(model\.json and )?tables\.npz: .*{message}"):
        load_released(tmp_path)


def archive(entries, **options):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(file, "w", **options) as written:
            for name, content in entries:
                written.writestr(name, content)
    return file.getvalue()


def npy(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def test_archives_from_anybody(tmp_path):
    save_released(tmp_path, model())
    whole = (tmp_path / "tables.npz").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        entries = [(name, file.read(name)) for name in file.namelist()]
    assert entries[0][0] == "start.npy"
    put(tmp_path, archive(entries))
    assert_same(load_released(tmp_path), model())
    start = model().mdp.start

    def said(before, after):
        """The archive, where the first header says something else."""
        content = npy(start)
        assert before.encode() in content
        changed = content.replace(before.encode(), after.encode())
        return archive([("start.npy", changed), *entries[1:]])

    entry = whole.index(b"PK\x01\x02")
    beyond = (len(whole) - 5).to_bytes(4, "little")  # where the first array is said to begin
    misplaced = whole[: entry + 42] + beyond + whole[entry + 46 :]
    for content, message in (
        (b"", "must be a whole .npz file"),
        (b"text", "must be a whole .npz file"),
        (entries[0][1], "must be a whole .npz file"),
        (whole[: len(whole) // 2], "must be a whole .npz file"),
        (archive([*entries, entries[0]]), "arrays must be there once"),
        (archive(entries, compression=zipfile.ZIP_BZIP2), "compressed as NumPy does it"),
        (archive([("start.npy", npy(start, (2, 0))), *entries[1:]]), "in version 1.0 of NumPy's"),
        (archive([("start.npy", npy(start)[:-3]), *entries[1:]]), "start must be whole, got 45"),
        (archive([("start.npy", npy(start) + b"x"), *entries[1:]]), "start must be whole, got 49"),
        (misplaced, "must be a whole .npz file"),
        (archive([("start.npy", b""), *entries[1:]]), "got another header"),
        (archive([("start.npy", npy(start)[1:]), *entries[1:]]), "got another header"),
        (said("(6,)", "(6L,"), "got another header"),
        (said("(6,)", "(7,)"), r"got \(7,\) and <f8"),
        (said("(6,)", "((6,"), "got another header"),
        (said("'<f8'", "'|O8'"), r"got \(6,\) and |O8"),
    ):
        put(tmp_path, content)
        with pytest.raises(ValueError, match=rf"^tables\.npz: .*{message}"):
            load_released(tmp_path)


def spoilt(data, content):
    """Some bytes that are others, and perhaps fewer."""
    content = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    return bytes(content)[: data.draw(st.integers(len(content) - 2, len(content)))]


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.data())
def test_bytes_from_anybody(data):
    """For each change, in a file or an array in it: words say so, or the model is one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_released(folder, model())
        content = (folder / "tables.npz").read_bytes()
        where = data.draw(st.sampled_from(["page", "archive", "array"]))
        if where == "page":
            page = folder / "model.json"
            page.write_bytes(spoilt(data, page.read_bytes()))
        elif where == "archive":
            put(folder, spoilt(data, content))
        else:
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                arrays = {name: file.read(name) for name in file.namelist()}
            name = data.draw(st.sampled_from(sorted(arrays)))
            put(folder, archive((arrays | {name: spoilt(data, arrays[name])}).items()))
        try:
            loaded = load_released(folder)
        except ValueError as error:
            assert str(error).startswith(("model.json", "tables.npz"))  # noqa: PT017
        else:
            assert loaded.statement["epsilon"] > 0
            assert (loaded.mdp.n_states, loaded.mdp.n_actions) == (6, 3)


# Played.


def played(env, seed):
    """Act at random and return what was seen, masks as lists."""
    seen = play(env, seed)
    return [(*each[:-1], {k: v.tolist() for k, v in each[-1].items()}) for each in seen]


@pytest.mark.few(2)
@pytest.mark.parametrize("released", [model(), bare()])
def test_gymnasium_is_content(released, tmp_path):
    save_released(tmp_path, released)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(ENV_ID, released=released).unwrapped)
        check_env(gym.make(ENV_ID, path=str(tmp_path)).unwrapped)


def test_a_model_from_its_folder(tmp_path):
    save_released(tmp_path, model())
    env = gym.make(ENV_ID, path=str(tmp_path))
    assert env.unwrapped.statement == model().statement
    assert played(env.unwrapped, 3) == played(ReleasedEnv(released=model()), 3)
    assert played(ReleasedEnv(tmp_path), 3) != played(ReleasedEnv(tmp_path), 4)
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert played(gym.make(spec).unwrapped, 3) == played(env.unwrapped, 3)
    many = gym.make_vec(ENV_ID, num_envs=2, vectorization_mode="sync", path=str(tmp_path))
    states, info = many.reset(seed=0)
    assert states.shape == (2,)
    assert info["action_mask"].shape == (2, 3)
    many.close()


def test_it_plays_its_tables():
    """The same law and the same draws as the tables by themselves, and `P` as theirs."""
    env, plain = ReleasedEnv(released=model()), TabularEnv(model().mdp)
    seen = [each[:-1] for each in played(env, 5)]
    assert seen == [each[:-1] for each in played(plain, 5)]
    assert env.P == plain.P
    assert any(each[2] for each in seen if len(each) == 4)
    read = TabularMDP.from_gymnasium(env)
    np.testing.assert_array_equal(read.transition, model().mdp.transition)
    np.testing.assert_array_equal(env.initial_state_distrib, model().mdp.start)


def test_masks_are_those_of_the_new_state():
    released = model()
    env = ReleasedEnv(released=released)
    state, info = env.reset(seed=0)
    masks = [info["action_mask"]]
    for step in range(100):
        np.testing.assert_array_equal(info["action_mask"], released.admissible[state])
        assert info["action_mask"].dtype == np.int8
        assert released.admissible[state, env.action_space.sample(info["action_mask"])]
        info["action_mask"][:] = 0  # nobody else's
        state, _, over, _, info = env.step(step % 3)  # also those that are not admissible
        masks.append(info["action_mask"])
        if over:
            state, info = env.reset()
    assert all(not np.shares_memory(one, other) for one in masks[:5] for other in masks[5:9])
    assert ReleasedEnv(released=bare()).reset(seed=0)[1] == {}


def test_a_copy_goes_on_alike():
    env = ReleasedEnv(released=model(), render_mode="ansi")
    play(env, 2, steps=3)
    twins = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    ahead = [played(each, 9) for each in (env, *twins)]
    assert ahead[0] == ahead[1] == ahead[2]
    assert len({each.render() for each in (env, *twins)}) == 1


def test_what_is_no_released_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="path or released must be given, got neither"):
        gym.make(ENV_ID)
    with pytest.raises(ValueError, match="path or released must be given, got both"):
        ReleasedEnv("model", released=model())
    with pytest.raises(ValueError, match="released must be a Released, got TabularMDP"):
        ReleasedEnv(released=riverswim())
    with pytest.raises(ValueError, match="render_mode must be None, 'ansi' or 'rgb_array', got 'h"):
        ReleasedEnv(released=model(), render_mode="human")
    with pytest.raises(FileNotFoundError):
        gym.make(ENV_ID, path=str(tmp_path / "none"))
    env = ReleasedEnv(released=model())
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.render()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must be a whole number in 0\.\.2, got 3"):
        env.step(3)


@pytest.mark.slow
def test_others_learn_on_it():
    """Q-learning on steps alone earns the plan's value on these tables within 5 %.

    Values are exact; only learning is random, and its seeds are fixed.
    """
    swim = riverswim(4, 20)
    released = Released(mdp=swim, statement=privacy_statement(**FIELDS))
    env = gym.make(ENV_ID, released=released)
    agent = agent_of(QLearning, 4, 2, 20, episodes=4000, rng=np.random.default_rng(0))
    train(agent, env, 4000, np.random.default_rng(1))
    best = released.mdp.optimal_value()
    assert released.mdp.policy_value(agent.policy) > 0.95 * best
    lazy = released.mdp.policy_value(np.zeros((20, 4), int))
    assert lazy < 0.5 * best  # the task is one


@pytest.mark.slow
def test_masked_agents_stay_within_what_is_admissible():
    """Ten lines of Q-learning that ask the mask: they find the best of these."""
    released = model(seed=4)
    mdp, rng = released.mdp, np.random.default_rng(0)
    env = gym.make(ENV_ID, released=released)
    values, visits = np.zeros((6, 3)), np.zeros((6, 3))
    for episode in range(6000):
        state, info = env.reset(seed=0 if episode == 0 else None)
        over = cut = False
        while not (over or cut):
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            following, paid, over, cut, info = env.step(action)
            allowed = info["action_mask"] == 1
            ahead = 0.0 if over else values[following, allowed].max()
            visits[state, action] += 1
            rate = 1 / visits[state, action] ** 0.7
            values[state, action] += rate * (paid + ahead - values[state, action])
            state = following
    policy = np.tile(np.where(released.admissible, values, -np.inf).argmax(axis=1), (12, 1))
    assert np.take_along_axis(released.admissible, policy.T, axis=1).all()
    barred = np.where(released.admissible, mdp.expected_reward, -1e9)
    best = mdp.policy_value(plan(mdp.transition, barred, 12)[0])
    assert mdp.policy_value(policy) > best - 0.05 * abs(best)


# Shown.


def at(released, state, mode="ansi"):
    """An environment in a state."""
    env = ReleasedEnv(released=released, render_mode=mode)
    env.reset(seed=0)
    env._state = state
    return env


def test_text_shows_where_actions_lead():
    transition = np.zeros((4, 2, 4))
    transition[0, 0] = [0.9, 0.1, 0, 0]
    transition[0, 1] = [0.002, 0.25, 0.248, 0.5]
    transition[1:] = np.eye(4)[1:, None]
    reward = np.zeros((4, 2))
    reward[:2] = [0.5, -1.25]
    released = Released(
        mdp=TabularMDP(transition, reward, [1.0, 0, 0, 0], 5),
        statement=privacy_statement(**FIELDS),
        outcomes=("well", "gone"),
        state_names=("ill", "worse"),
        action_names=("wait", "treat at once with all there is"),
        admissible=np.array([[True, False]] * 4),
        deviations=np.full((4, 2), 0.125),
    )
    env = at(released, 0)
    assert env.render() == (
        "state 0: ill (step 0 of 5)\n"
        "the episode begins\n"
        "epsilon 1, delta 1e-06; protects a person: all episodes\n"
        "\n"
        "  action                 reward       sd  leads to\n"
        "  0 wait                    0.5    0.125  .90 ill, .10 worse\n"
        "x 1 treat at once w…      -1.25    0.125  .50 gone, .25 worse, .25 well, +1\n"
        "x: not to be recommended\n"
    )
    env._state = 1
    env.step(0)
    assert env.render().splitlines()[1] == "from worse by wait, paid 0.5"
    env._state = 3
    assert env.render().splitlines()[0] == "state 3: gone (step 1 of 5), the episode is over"
    env.reset()
    assert env.render().splitlines()[1] == "the episode begins"


def test_promises_are_rounded_up():
    order = privacy_statement(**(FIELDS | {"delta": None, "epsilon": 0.123412}), order=2)
    assert "epsilon 0.1235, of Rényi order 2; pro" in at(model(statement=order), 0).render()
    order = privacy_statement(**(FIELDS | {"delta": None}), order=1.00000049)  # which is not 1
    assert "of Rényi order 1.00000049; pro" in at(model(statement=order), 0).render()


def wide():
    """Labels that are long or of other alphabets, 45 actions, 40 states."""
    rng = np.random.default_rng(3)
    transition = rng.dirichlet(np.full(40, 0.3), (40, 45))
    transition[-1] = np.eye(40)[-1]
    reward = rng.normal(size=(40, 45)) * 1e6
    reward[-1] = 0
    return Released(
        mdp=TabularMDP(transition, reward, np.full(40, 1 / 40), 100_000),
        statement=privacy_statement(**(FIELDS | {"unit": "a person " * 30})),
        outcomes=("gone " * 30,),
        state_names=[f"{s} $\\frac 状態状態状態状態" + "long" * 20 for s in range(39)],
        action_names=[f"{a} 行動行動行動行動 $_" + "long" * 20 for a in range(45)],
        deviations=rng.random((40, 45)) * 1e6,
    )


def columns(text):
    """How much of a terminal's line a text takes."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


@pytest.mark.few(9)
@pytest.mark.parametrize("released", [model(), bare(), wide()])
def test_text_has_80_columns(released):
    for state in range(released.mdp.n_states):
        lines = at(released, state).render().splitlines()
        assert max(map(columns, lines)) <= 80
        assert len(lines) <= 37
        assert all(line.isprintable() for line in lines)


def test_letters_that_take_two_columns_keep_the_table_straight():
    rows = [line for line in at(wide(), 0).render().splitlines() if "行" in line]
    assert len(rows) == 30
    assert len({columns(row[: row.index("  .")]) for row in rows}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("released", [model(), bare(), wide()])
def test_pictures_show_each_state_at_one_size(released):
    shapes, seen = set(), set()
    for state in (0, 1, released.mdp.n_states - 1):
        picture = at(released, state, "rgb_array").render()
        assert picture.dtype == np.uint8
        assert picture.flags.owndata
        assert picture.flags.writeable
        shapes.add(picture.shape)
        seen.add(picture.tobytes())
    assert len(seen) == 3
    ((height, width, channels),) = shapes
    assert channels == 3
    assert 200 < height <= 1200
    assert 600 < width <= 1000


def test_darker_squares_are_likelier():
    """Blue, with the greatest chance the darkest; ink is on every row."""
    certain = TabularMDP(np.ones((1, 1, 1)), np.ones((1, 1)), [1.0], 3)
    statement = privacy_statement(**FIELDS)
    half = TabularMDP(np.full((2, 1, 2), 0.5), np.ones((2, 1)), [1.0, 0.0], 3)
    least = []
    for mdp in (half, certain):
        picture = at(Released(mdp=mdp, statement=statement), 0, "rgb_array").render()
        red, green, blue = np.moveaxis(picture.astype(int)[:, 170:650], -1, 0)
        least.append(red[(blue > green + 15) & (green > red + 15)].min())
    assert least[1] < least[0] - 50


@pytest.mark.slow
def test_actions_not_to_be_recommended_are_marked():
    released = model(admissible=np.array([[True, True, False]] * 6))
    open_ = dataclasses.replace(released, admissible=None)
    one, other = (at(each, 0, "rgb_array").render().astype(int) for each in (released, open_))

    def orange(picture):
        return ((picture[..., 0] > 180) & (picture[..., 2] < 60)).sum()

    assert orange(one) > 20
    assert orange(other) == 0


def test_no_render_mode_warns_and_shows_nothing():
    env = ReleasedEnv(released=model())
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


@pytest.mark.slow
def test_matplotlib_loads_for_pictures_alone(tmp_path):
    save_released(tmp_path, model())
    code = (
        "import sys, gymnasium\n"
        f"env = gymnasium.make({ENV_ID!r}, path={str(tmp_path)!r}, render_mode='ansi')\n"
        "env.reset(seed=0); env.render()\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    root = str(Path(privrl.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": root})
