"""Made-up histories that are drawn from released models: they are logs, and like the log."""

import io
import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_studies.simulate import simulate_log
from log_studies.worlds import clinic
from typer.testing import CliRunner
from wards import SCHEMA

from privrl.accounting import RdpAccountant
from privrl.cli import app
from privrl.data import Bins, Categories
from privrl.data.logs import Log, LogSchema, from_minari, read_log
from privrl.data.logs.log import CUT
from privrl.envs import Released, TabularMDP, load_released, riverswim, save_released
from privrl.offline import fit_model, sample_log
from privrl.offline.synthetic import check_sampling, lost_in, synthetic_log, table_of

RUNNER = CliRunner()
STATEMENT = {
    "unit": "person", "relation": "add or remove one person", "epsilon": 1.0, "delta": 0.0,
    "released": "sums", "caveats": [], "version": "1",
}  # fmt: skip


def same(log: Log, other: Log) -> bool:
    return all(
        np.array_equal(getattr(log, each.name), getattr(other, each.name)) for each in fields(Log)
    )


# A table that is read back -----------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=6)
texts = words.map(str.strip).filter(bool)
categories = st.one_of(
    st.builds(
        Categories,
        st.lists(texts, min_size=2, max_size=3, unique_by=str.lower).map(tuple),
        st.booleans(),
    ),
    st.builds(
        Categories, st.lists(st.integers(-9, 9), min_size=2, max_size=3, unique=True).map(tuple)
    ),
    st.just(Categories((True, False))),
)
bins = st.builds(
    Bins,
    st.lists(st.integers(-9, 9), min_size=3, max_size=4, unique=True).map(sorted).map(tuple),
    st.booleans(),
    st.booleans(),
)


@st.composite
def schemas(draw: st.DrawFn) -> LogSchema:
    def cells(names: str, least: int) -> dict[str, Any] | None:
        made = {
            name: draw(st.one_of(categories, bins))
            for name in names[: draw(st.integers(least, len(names)))]
        }
        return made or None

    has = draw(st.fixed_dictionaries(dict.fromkeys(("episode", "order", "reward"), st.booleans())))
    outcomes = tuple(draw(st.lists(texts.filter(str.isprintable), max_size=3, unique=True)))
    return LogSchema(
        person="who",
        episode="stay" if has["episode"] else None,
        order="when" if has["order"] else None,
        consecutive=has["order"] and draw(st.booleans()),
        state=cells("ab", 0),
        action=cells("cd", 1),
        most_steps=draw(st.integers(1, 4)),
        most_episodes=draw(st.integers(1, 3)) if has["episode"] else 1,
        reward="paid" if has["reward"] else None,
        reward_bounds=(-0.3, 1.7) if has["reward"] else None,
        outcome="end" if outcomes else None,
        outcomes=outcomes,
        outcome_rewards=tuple(float(k) for k in range(len(outcomes))),
    )


def any_model(schema: LogSchema, seed: int) -> Released:
    """A model as `fit_model` makes it: after the outcomes, "unknown" is one more."""
    rng, names = np.random.default_rng(seed), schema.outcomes or ("over",)
    n_before, size = schema.n_states, schema.n_states + len(names) + 1
    transition = np.zeros((size, schema.n_actions, size))
    transition[:n_before] = rng.dirichlet(np.ones(size), (n_before, schema.n_actions))
    for state in range(n_before, size):
        transition[state, :, state] = 1
    reward = np.zeros((size, schema.n_actions))
    reward[:n_before] = rng.uniform(-2, 3, (n_before, schema.n_actions))
    start = np.zeros(size)
    start[:n_before] = 1 / n_before
    return Released(
        mdp=TabularMDP(transition, reward, start, schema.most_steps),
        statement=STATEMENT | {"details": {"model": "counts", "episodes": 1.8}},
        outcomes=(*names, "unknown"),
        behaviour=rng.dirichlet(np.ones(schema.n_actions), size),
    )


@pytest.mark.slow
@settings(deadline=None)
@given(schemas(), st.integers(0, 99))
def test_a_table_is_read_back_as_it_was_drawn(schema: LogSchema, seed: int) -> None:
    model = any_model(schema, seed)
    log = synthetic_log(model, schema.space, 20, np.random.default_rng(seed))
    seen = log.next_state.copy()
    last = log.episode_starts[1:] - 1
    seen[last] = np.where(seen[last] < log.n_states, CUT, seen[last])  # a table has no more
    table = sample_log(model, schema, 20, np.random.default_rng(seed))
    assert list(table) == [name for name in schema.columns if name in table]
    assert set(table) == set(schema.columns)
    for source in (table, through_csv(table)):
        back = read_log(source, schema)
        np.testing.assert_allclose(back.reward, log.reward, atol=1e-12)
        for name in ("state", "action", "episode_starts", "person_starts"):
            np.testing.assert_array_equal(getattr(back, name), getattr(log, name), name)
        np.testing.assert_array_equal(back.next_state, seen)


def through_csv(table: pd.DataFrame) -> Path:
    path = Path("synthetic.csv")
    table.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True, scope="module")
def _elsewhere(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("synthetic"))
        yield


# What it preserves -------------------------------------------------------------------------------


def shares(log: Log) -> Any:
    """How often each state and action was, as chances."""
    cells = np.bincount(log.state * log.n_actions + log.action, minlength=log.n_states * 2)
    return cells.reshape(log.n_states, 2) / log.n_steps


def test_actions_are_as_frequent_as_in_the_log_although_persons_come_back() -> None:
    """In 24 logs the largest error of a chance was .06; shares of persons are off by .2."""
    mdp = riverswim(6, horizon=20)
    behaviour = np.tile([0.1, 0.9], (6, 1))
    behaviour[2] = 0.6, 0.4
    rng = np.random.default_rng(1)
    log = simulate_log(mdp, behaviour, 4000, rng)
    model = fit_model(log, epsilon=10.0, rng=rng)
    assert model.behaviour is not None
    assert np.abs(model.behaviour[:6] - behaviour)[:3].max() < 0.08
    made = synthetic_log(model, log, 4000, rng)
    assert np.abs(shares(made) - shares(log)).max() < 0.06
    assert abs(made.reward.sum() - log.reward.sum()) < 0.3 * log.reward.sum() + 400
    assert same(made, synthetic_log(model, log, 4000, rng)) is False


def test_endings_and_lengths_are_those_of_the_log() -> None:
    """With public chances of actions, outcomes and lengths of 20,000 are within .03 and 12 %."""
    world = clinic(11, n_states=60, n_actions=4)
    chances = world.behaviour("half-expert")
    rng = np.random.default_rng(2)
    log = simulate_log(world, chances, 20_000, rng)
    model = fit_model(log, epsilon=2.0, behaviour=chances, admissible=world.admissible, rng=rng)
    assert model.statement["details"]["model"] == "endings"
    made = synthetic_log(model, log, 20_000, rng)

    def facts(of: Log) -> tuple[float, float]:
        return (of.next_state == of.n_states + 1).sum() / of.n_persons, of.n_steps / of.n_persons

    (survived, steps), (told, length) = facts(log), facts(made)
    assert abs(survived - told) < 0.03
    assert abs(steps - length) < 0.12 * steps
    assert world.admissible[made.state, made.action].all()


def test_unknown_propensities_are_estimated_from_a_part_of_the_budget() -> None:
    """Of 20,000 persons at epsilon 10: actions are nearly as frequent as in the log (.12 of .6)."""
    world = clinic(11, n_states=60, n_actions=4)
    rng = np.random.default_rng(3)
    log = simulate_log(world, world.behaviour("half-expert"), 20_000, rng)
    model = fit_model(log, epsilon=10.0, admissible=world.admissible, rng=rng)
    assert model.behaviour is not None
    assert model.statement["details"]["model"] == "endings"
    made = synthetic_log(model, log, 20_000, rng)
    assert world.admissible[made.state, made.action].all()
    cells = [np.bincount(each.state * 4 + each.action, minlength=240) for each in (log, made)]
    first, second = (each / each.sum() for each in cells)
    assert np.abs(first - second).sum() / 2 < 0.15


def test_uniform_behaviour_is_taken_as_it_is() -> None:
    """Nothing is spent to estimate it, whether or not actions are known."""
    world = clinic(11, n_states=60, n_actions=4)
    log = simulate_log(world, world.behaviour("uniform"), 500, 3)
    for known, chances in ((None, 0.25), (world.admissible, world.behaviour("uniform"))):
        model = fit_model(log, epsilon=1.0, admissible=known, behaviour="uniform", rng=3)
        assert model.behaviour is not None
        np.testing.assert_allclose(model.behaviour[:60], np.broadcast_to(chances, (60, 4)))


def test_without_a_behaviour_actions_are_uniform_and_the_note_says_so() -> None:
    model = replace(any_model(SCHEMA, 1), behaviour=None)
    assert "actions are uniform" in lost_in(model)
    made = synthetic_log(model, SCHEMA.space, 3000, np.random.default_rng(3))
    assert np.abs(np.bincount(made.action) / made.n_steps - 1 / 3).max() < 0.03


def test_numbers_of_episodes_have_the_released_mean() -> None:
    log = simulate_log(riverswim(6, horizon=4), np.full((6, 2), 0.5), 3000, 1, episodes=3)
    model = fit_model(log, epsilon=10.0, rng=1)
    assert model.statement["details"]["episodes"] == pytest.approx(3, abs=0.05)
    made = synthetic_log(model, log, 500, np.random.default_rng(1))
    assert np.diff(made.person_starts).mean() == pytest.approx(3, abs=0.1)


def test_it_costs_nothing_and_comes_from_the_files_alone(tmp_path: Path) -> None:
    accountant = RdpAccountant()
    log = simulate_log(riverswim(6, horizon=4), np.full((6, 2), 0.5), 3000, 1)
    model = fit_model(log, epsilon=10.0, rng=1, accountant=accountant)
    spent = accountant.epsilon(1e-5)
    save_released(tmp_path, model)
    read = load_released(tmp_path)
    first, second = (
        synthetic_log(each, log, 50, np.random.default_rng(1)) for each in (model, read)
    )
    assert same(first, second)
    assert accountant.epsilon(1e-5) == spent


# Wrong input -------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_is_refused() -> None:
    model = any_model(SCHEMA, 1)
    other = replace(SCHEMA, outcomes=("well", "ill"))
    with pytest.raises(ValueError, match=r"model must be of a log .* 'well', 'ill'; got one of 6"):
        sample_log(model, other, 5)
    with pytest.raises(ValueError, match="persons must be"):
        sample_log(model, SCHEMA, 0)
    with pytest.raises(ValueError, match="persons must be at most 1000000, got 1000001"):
        check_sampling(SCHEMA, "persons", 1_000_001)
    with pytest.raises(ValueError, match="model must be a Released"):
        sample_log(SCHEMA, SCHEMA, 5)  # type: ignore[arg-type]
    twice = LogSchema(person="p", order="t", state={"t": Bins((0, 1, 2))},
                      action=SCHEMA.action, most_steps=2)  # fmt: skip
    with pytest.raises(ValueError, match="one role each, and 't' has several"):
        check_sampling(twice, "persons", 5)


@pytest.mark.needs("pyarrow")
def test_parquet_of_mixed_categories_is_refused_before_anything_is_spent() -> None:
    mixed = replace(SCHEMA, action={"dose": Categories((0, "high"))})
    check_sampling(mixed, "persons", 5)
    with pytest.raises(ValueError, match="categories of several types, as 'dose' has; write csv"):
        check_sampling(mixed, "persons", 5, "parquet")


def test_a_model_of_the_users_own_is_followed_as_it_is() -> None:
    """Its last state is no outcome: an action that leads there for sure is taken all the same."""
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = transition[:, 1, 1] = 1
    mdp = TabularMDP(transition, np.zeros((2, 2)), np.array([1.0, 0]), 3)
    model = Released(mdp=mdp, statement=STATEMENT)
    schema = LogSchema(person="p", state={"s": Bins((0, 1, 2))},
                       action={"a": Categories((0, 1))}, most_steps=3)  # fmt: skip
    made = synthetic_log(model, schema.space, 500, np.random.default_rng(1))
    assert abs((made.action == 1).mean() - 0.5) < 0.1
    assert (made.next_state == made.action).all()


@pytest.mark.parametrize(("n_states", "n_actions"), [(1, 1), (1, 3), (4, 1)])
@pytest.mark.parametrize("epsilon", [0.01, 1000.0])
def test_the_smallest_worlds_have_models(n_states: int, n_actions: int, epsilon: float) -> None:
    """One action, or one that is always taken: nothing fails after the charge."""
    rng, n = np.random.default_rng(1), 400
    ends = rng.integers(2, size=n)
    log = Log(
        n_states=n_states, n_actions=n_actions, outcomes=("well", "ill"),
        outcome_rewards=(1.0, 0.0), step_rewards=(0.0, 0.0), most_steps=1, most_episodes=1,
        state=rng.integers(n_states, size=n), action=np.zeros(n, np.intp),
        next_state=n_states + ends, reward=1.0 - ends,
        episode_starts=np.arange(n + 1), person_starts=np.arange(n + 1),
    )  # fmt: skip
    model = fit_model(log, epsilon=epsilon, rng=rng)
    assert model.behaviour is not None
    assert synthetic_log(model, log, 9, rng).n_persons == 9


def test_a_behaviour_is_chances() -> None:
    model = any_model(SCHEMA, 1)
    for wrong in (np.ones((9, 3)), np.ones((2, 2)), np.full((9, 3), np.nan), "even"):
        with pytest.raises(ValueError, match="behaviour must be"):
            Released(
                mdp=model.mdp, statement=model.statement, outcomes=model.outcomes, behaviour=wrong
            )


# The command -------------------------------------------------------------------------------------


def stays(n_persons: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    dose, glucose = rng.integers(0, 3, n_persons), rng.uniform(0, 12, n_persons)
    well = rng.random(n_persons) < np.where(dose == np.digitize(glucose, (4, 8)), 0.9, 0.5)
    ward = rng.choice(["medical", "surgical"], n_persons)
    return pd.DataFrame(
        {"patient": np.arange(n_persons), "hour": 0, "glucose": glucose, "ward": ward,
         "dose": dose, "left": np.where(well, "well", "dead")}
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("visits.toml")
    stays(2000).to_csv("visits.csv", index=False)
    return tmp_path


def run(*more: object) -> Any:
    texts = ["fit-model", "visits.csv", "--schema", "visits.toml", *map(str, more)]
    return RUNNER.invoke(app, texts, env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.mark.slow
def test_the_command_writes_a_table_that_may_be_shared(folder: Path) -> None:
    result = run("--out", "model", "--synthetic", 300)
    assert result.exit_code == 0, result.output
    log = read_log("model/synthetic.csv", SCHEMA)
    assert log.n_persons == 300
    note = json.loads(Path("model/release.json").read_text())["notes"]["synthetic.csv"]
    assert note.startswith("does not preserve effects of actions on the next state")
    assert note in " ".join(result.output.split())
    told = run("--out", "json", "--synthetic", 3, "--json")
    assert json.loads(told.stdout)["notes"]["synthetic.csv"] == note
    shared = RUNNER.invoke(app, ["share", "model", "--to", "public"])
    assert shared.exit_code == 0, shared.output
    assert Path("public/synthetic.csv").read_bytes() == Path("model/synthetic.csv").read_bytes()
    assert json.loads(Path("public/release.json").read_text())["notes"]["synthetic.csv"] == note
    seeded = run("--out", "seeded", "--synthetic", 3, "--reproducible", "--seed", 1)
    assert seeded.exit_code == 0
    assert RUNNER.invoke(app, ["share", "seeded", "--to", "no"]).exit_code == 2


@pytest.mark.needs("minari", "pyarrow")
def test_the_command_writes_a_data_set_of_minari(folder: Path) -> None:
    result = run("--out", "model", "--synthetic", 40, "--synthetic-format", "minari")
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(io.BytesIO(Path("model/synthetic.zip").read_bytes())) as archive:
        archive.extractall("unpacked")
    log = from_minari(Path("unpacked/synthetic"), reward_bounds=(0, 1), most_steps=5)
    assert log.n_persons == 40
    assert (log.n_states, log.n_actions) == (load_released("model").mdp.n_states, 3)
    assert set(log.reward[log.next_state == log.n_states]) <= {0.0, 1.0}


@pytest.mark.needs("pyarrow")
def test_the_command_writes_parquet(folder: Path) -> None:
    result = run("--out", "model", "--synthetic", 40, "--synthetic-format", "parquet")
    assert result.exit_code == 0, result.output
    assert read_log("model/synthetic.parquet", SCHEMA).n_persons == 40


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--synthetic", 0), "synthetic must be"),
        (("--synthetic", 10**9), "synthetic must be at most 1000000"),
        (("--synthetic", 5, "--synthetic-format", "xlsx"), "synthetic_format must be"),
        (("--synthetic-format", "minari"), "synthetic must be given with --synthetic-format"),
    ],
)
def test_what_cannot_be_written_costs_nothing(
    more: tuple[object, ...], complaint: str, folder: Path
) -> None:
    result = run("--out", "model", *more)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())
    assert not Path("model").exists()
    assert "does not exist" in RUNNER.invoke(app, ["ledger", "show"]).output


def test_rows_of_a_log_are_written_as_they_are() -> None:
    """The table of a real log, read back, is that log: rewards and ends included."""
    frame = stays(50)
    log = read_log(frame, SCHEMA)
    assert same(read_log(table_of(log, SCHEMA), SCHEMA), log)


@pytest.mark.few(9)
@pytest.mark.parametrize("error", [OSError("no space"), MemoryError(), KeyboardInterrupt()])
def test_a_model_that_was_paid_for_is_saved_if_persons_cannot_be(
    error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was saved after the charge, as where Minari has no folder for its files."""

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("privrl.offline.synthetic.synthetic_log", failing)
    result = run("--out", "model", "--synthetic", 40)
    assert result.exit_code != 0
    assert isinstance(error, KeyboardInterrupt) or "model was saved" in result.output
    assert {each.name for each in Path("model").iterdir()} >= {"release.json", "model.json"}
    assert not Path("model/synthetic.csv").exists()
    assert load_released("model").statement["relation"] == "add or remove one person (patient)"
