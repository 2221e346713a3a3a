"""Schemas of logs: public facts, round trips, and errors."""

import copy
import json
import pickle
import textwrap
import tomllib

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privrl.data import Bins, Categories, Schema
from privrl.data.logs import LogSchema

FILE = textwrap.dedent(LogSchema.__doc__.split("As a file, which `load` reads::")[1])


@pytest.fixture
def ward(tmp_path):
    (tmp_path / "ward.toml").write_text(FILE)
    return LogSchema.load(tmp_path / "ward.toml")


def test_the_file_that_the_docstring_shows(ward):
    assert (ward.n_states, ward.n_actions) == (5 * 3, 5)
    assert ward.action.columns["dose"] == Categories((0, 1, 2, 3, 4))
    assert ward.columns == ("patient", "stay", "hour", "glucose", "ward", "dose", "score", "left")
    assert ward.space.reward_range == (-1, 2)  # that of the column, and what an outcome adds
    assert ward.outcomes == ("well", "dead")


@pytest.mark.parametrize("ending", [".toml", ".json"])
def test_a_file_holds_all(ward, ending, tmp_path):
    path = tmp_path / f"schema{ending}"
    ward.save(path)
    assert LogSchema.load(path) == ward
    assert hash(LogSchema.load(path)) == hash(ward)


NAMES = st.text(min_size=1, max_size=4)
FINITE = st.floats(-1e9, 1e9).filter(lambda each: each == 0 or abs(each) >= 1e-50)
COLUMNS = st.one_of(
    st.builds(
        lambda n, other: Categories(tuple(range(n)), other), st.integers(2, 9), st.booleans()
    ),
    st.lists(st.one_of(st.text(max_size=3), st.integers()), unique=True, min_size=2, max_size=4)
    .filter(lambda values: all(isinstance(v, str) or abs(v) < 2**63 for v in values))
    .map(lambda values: Categories(tuple(values))),
    st.builds(
        lambda n, missing: Bins.even(0, 1, n, missing=missing), st.integers(2, 5), st.booleans()
    ),
    st.just(Categories((0, True))),  # equal to 0, 1, and no count
)
CELLS = st.dictionaries(NAMES, COLUMNS, min_size=1, max_size=3).map(Schema)


@st.composite
def schemas(draw):
    given = {"person": draw(NAMES), "action": draw(CELLS), "most_steps": draw(st.integers(1, 99))}
    given["state"] = draw(st.one_of(st.none(), CELLS))
    if draw(st.booleans()):
        given |= {"episode": draw(NAMES), "most_episodes": draw(st.integers(1, 9))}
    if draw(st.booleans()):
        given |= {"order": draw(NAMES), "consecutive": draw(st.booleans())}
    if draw(st.booleans()):
        given |= {
            "reward": draw(NAMES),
            "reward_bounds": tuple(sorted(draw(st.tuples(FINITE, FINITE)))),
        }
    if draw(st.booleans()):
        outcomes = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
        rewards = st.lists(FINITE, min_size=len(outcomes), max_size=len(outcomes))
        given |= {"outcome": draw(NAMES), "outcomes": tuple(outcomes)}
        given |= {"outcome_rewards": tuple(draw(st.one_of(st.just([]), rewards)))}
    return LogSchema(**given)


@pytest.mark.slow
@given(schemas())
def test_round_trips(schema):
    text = json.dumps(schema.to_dict())
    for again in (
        LogSchema.from_dict(schema.to_dict()),
        LogSchema.from_dict(json.loads(text)),
        copy.deepcopy(schema),
        pickle.loads(pickle.dumps(schema)),
    ):
        assert again == schema
        assert again.to_dict() == schema.to_dict()


def test_a_count_of_thousands_is_quick_and_short():
    data = {"person": "p", "most_steps": 1, "action": {"a": {"count": 20_000}}}
    schema = LogSchema.from_dict(data)
    assert schema.n_actions == 20_000
    assert schema.to_dict()["action"] == {"a": {"count": 20_000, "other": False}}


LEAST = {"person": "p", "action": {"a": {"count": 2}}, "most_steps": 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"person": ""}, "name must be a text"),
        ({"person": None}, "name must be a text"),
        ({"episode": 3}, "name must be a text"),
        ({"stay": "x"}, "must have 'action', 'most_steps', 'person', and perhaps"),
        ({"most_steps": 0}, "most_steps must be a whole number >= 1, got 0"),
        ({"most_steps": 2.5}, "most_steps must be a whole number"),
        ({"most_steps": True}, "most_steps must be a whole number"),
        ({"most_episodes": 2}, "most_episodes must be 1 without a column of episodes"),
        ({"consecutive": True}, "consecutive must be of a column"),
        ({"order": "t", "consecutive": 1}, "consecutive must be True or False"),
        ({"state": []}, "state must map names"),
        ({"state": {}}, "state: columns must map"),
        ({"action": {"a": {"count": 2, "missing": True}}}, "column 'a' must have 'count'"),
        ({"action": {"a": {"count": 0}}}, "count of 'a' must be a whole number >= 1"),
        ({"action": {"a": {"count": 10**12}}}, "count of 'a' must be at most"),
        ({"action": {"a": {"values": [1]}}}, "column 'a' must have 'categories'"),
        ({"state": {k: {"count": 2000} for k in "abc"}}, "state must have at most"),
        ({"reward": "r"}, "reward must have 'column', 'high', 'low', got 'r'"),
        ({"reward": {"column": "r", "low": 0}}, "reward must have"),
        ({"reward": {"column": "r", "low": 1, "high": 0}}, "low first"),
        (
            {"reward": {"column": "r", "low": 0, "high": float("nan")}},
            "reward_bounds must be a num",
        ),
        ({"reward": {"column": "r", "low": False, "high": 1}}, "reward_bounds must be a number"),
        ({"reward": {"column": None, "low": 0, "high": 1}}, "must be given together"),
        (
            {"outcome": {"column": "o"}},
            "outcome must have 'column', 'values', and perhaps 'rewards'",
        ),
        ({"outcome": {"column": "o", "values": []}}, "must be given together"),
        ({"outcome": {"column": "o", "values": ["x", "x"]}}, "outcomes must be different"),
        ({"outcome": {"column": "o", "values": ["x", ""]}}, "outcomes must be texts that are not"),
        ({"outcome": {"column": "o", "values": [1]}}, "outcomes must be texts"),
        ({"outcome": {"column": "o", "values": "xy"}}, "values must be a list"),
        ({"outcome": {"column": "o", "values": ["x"], "rewards": [1, 2]}}, "as many as outcomes"),
        (
            {"outcome": {"column": "o", "values": ["x"], "rewards": ["1"]}},
            "outcome_rewards must be",
        ),
    ],
)
def test_what_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        LogSchema.from_dict({**LEAST, **change})


def test_what_is_refused_of_arguments():
    with pytest.raises(ValueError, match="reward_bounds must be given together"):
        LogSchema(person="p", action={"a": Categories((0, 1))}, most_steps=1, reward_bounds=(0, 1))
    with pytest.raises(ValueError, match="action: columns must map"):
        LogSchema(person="p", action=None, most_steps=1)
    with pytest.raises(ValueError, match="must have 'action'"):
        LogSchema.from_dict([])


def test_a_file_is_named_where_it_is_wrong(tmp_path):
    (tmp_path / "log.toml").write_text("person = 'p'\n")
    with pytest.raises(ValueError, match=r"log\.toml: a log's schema must have"):
        LogSchema.load(tmp_path / "log.toml")
    with pytest.raises(ValueError, match=r"must end in \.toml or \.json"):
        LogSchema.load(tmp_path / "log.yaml")


def test_a_saved_file_is_toml(ward, tmp_path):
    ward.save(tmp_path / "s.toml")
    data = tomllib.loads((tmp_path / "s.toml").read_text())
    assert data["outcome"] == {"column": "left", "values": ["well", "dead"], "rewards": [1.0, -1.0]}
    assert "reward" not in LogSchema.from_dict(LEAST).to_dict()


def test_a_column_given_for_a_name_is_not_shown() -> None:
    with pytest.raises(ValueError, match="name must be a text") as caught:
        LogSchema(person="p", action={"a": Categories((0, 1))}, most_steps=3,
                  outcome=pd.Series([8236.5]), outcomes=("well",))  # fmt: skip
    assert "8236" not in str(caught.value)
