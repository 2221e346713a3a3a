"""Fits, plans, files and environments of continuous models."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from continuous_worlds import MIXED, SCHEMA, walks
from gymnasium.utils.env_checker import check_env
from interrupts import Interrupter
from tasks import TASKS, regulator

from privrl.accounting import ApproxDP, RdpAccountant, RenyiDP, ZeroConcentratedDP
from privrl.continuous import (
    Choice,
    ContinuousLog,
    ContinuousModel,
    ContinuousPolicy,
    ContinuousSchema,
    Number,
    ReleasedContinuousEnv,
    fit_continuous_model,
    plan_continuous,
    read_continuous_log,
)
from privrl.continuous.design import ENDS, Design
from privrl.continuous.ends import NEVER
from privrl.costs.relations import AddRemovePerson, ReplacePerson
from privrl.data.logs import LogSchema, read_log
from privrl.envs import Released, load_released, riverswim, save_released
from privrl.mechanisms import select_private
from privrl.mechanisms.selection import Trial
from privrl.offline import fit_model, fit_policy


@pytest.fixture(scope="module")
def model() -> ContinuousModel:
    return fit_continuous_model(walks(400, 0), epsilon=5, rng=0)


def test_dynamics_and_rewards_are_learned(model: ContinuousModel) -> None:
    state, action = np.array([[0.2, 0.95], [-0.3, 0.2]]), np.array([[1.0], [-1.0]])
    after = model.predict(state, action)
    change = (after.state - [[0.28, 0.0], [-0.37, 0.25]] + 0.5) % 1 - 0.5
    np.testing.assert_allclose(change, 0, atol=0.04)
    np.testing.assert_allclose(after.reward, [-0.2, -0.3], atol=0.15)
    assert model.persons == pytest.approx(400, rel=0.2)
    assert (after.deviation >= 0).all()


def test_categories_are_learned() -> None:
    model = fit_continuous_model(walks(400, 0, schema=MIXED), epsilon=5, rng=0)
    state = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    after = model.predict(state, np.zeros((3, 1)))
    np.testing.assert_array_equal(after.state[:, 1], [1, 2, 0])
    assert (after.chances[1][[0, 1, 2], [1, 2, 0]] > 0.8).all()
    check_env(ReleasedContinuousEnv(released=model), skip_render_check=True)
    assert plan_continuous(model, discount=0.9).act(state).shape == (3,)


@pytest.mark.slow
def test_the_order_of_features_is_chosen_privately() -> None:
    """A candidate that scores its released model, with the persons' relation, is paid for whole."""
    log, accountant = walks(300, 0), RdpAccountant(budget=ApproxDP(5, 1e-5))

    def of_order(order: int):
        def candidate(trial: Trial) -> tuple[ContinuousModel, float]:
            model = fit_continuous_model(
                log, target=trial.part(1 - 1e-6), order=order, rng=trial.rng,
                accountant=trial.accountant,
            )  # fmt: skip
            state = np.array([[0.2, 0.95], [-0.3, 0.2]])
            return model, -float(model.predict(state, np.ones((2, 1))).deviation.mean())

        return candidate

    candidates = {str(order): of_order(order) for order in (2, 3)}
    best = select_private(
        candidates, target=ApproxDP(5, 1e-5), relation=AddRemovePerson(), trials=4, rng=1,
        accountant=accountant,
    )  # fmt: skip
    assert isinstance(best.result, ContinuousModel)
    assert len(accountant.journal) == 1


@pytest.fixture(scope="module")
def cart_pole() -> ContinuousModel:
    log = TASKS["CartPole"]().log(1500, np.random.default_rng(1))
    return fit_continuous_model(log, epsilon=5, rng=0)


def test_ends_are_learned_as_bounds_of_the_column_that_causes_them(
    cart_pole: ContinuousModel,
) -> None:
    """Episodes end beyond 12 degrees; poles turn fast there, and nobody came to the borders."""
    assert cart_pole.ends is not None
    bounds = cart_pole.ends.bounds
    np.testing.assert_allclose(np.abs(bounds[2]), 12 * math.pi / 180, atol=0.01)
    assert (np.abs(np.delete(bounds, 2, axis=0)) == NEVER).all()
    state = np.array([[0, 0, 0.1, 0], [0, 0, 0.22, 0], [0, 0, -0.22, 0], [2.5, 3, 0, 0]])
    np.testing.assert_array_equal(cart_pole.end_chance(state), [0, 1, 1, 0])


@pytest.mark.slow
def test_a_column_that_jumps_at_an_end_bounds_nothing() -> None:
    """Episodes end where x is at least .75; in three of five ends the speed jumps as well."""
    rng, rows = np.random.default_rng(1), []
    for person in range(2000):
        x, speed, over = rng.uniform(-0.5, 0.5), rng.normal() * 0.05, False
        for _ in range(40):
            action = rng.integers(2)
            after = np.clip(speed + 0.12 * (action - 0.5) + rng.normal() * 0.01, -1, 1)
            moved = np.clip(x + after, -1, 1)
            over = bool(moved >= 0.75)
            if over and rng.random() < 0.6:
                after = 0.8 + 0.1 * rng.random()
            rows.append((person, x, speed, action, moved, after, over))
            x, speed = moved, after
            if over:
                break
    person, x, speed, action, moved, after, over = np.array(rows).T
    unit = Number(low=-1, high=1)
    log = ContinuousLog.of_arrays(
        ContinuousSchema(
            state={"x": unit, "speed": unit}, terminates=True,
            action={"push": Number(low=0, high=1, levels=2)},
        ),
        person=person.astype(int), state=np.column_stack([x, speed]), action=action,
        next_state=np.column_stack([moved, after]), terminated=over == 1,
    )  # fmt: skip
    ends = fit_continuous_model(log, epsilon=10, rng=1).ends
    assert ends is not None
    np.testing.assert_allclose(ends.bounds, [[-NEVER, 0.75], [-NEVER, NEVER]], atol=0.01)


def test_a_constant_reward_is_found_exactly(cart_pole: ContinuousModel) -> None:
    state = np.random.default_rng(0).uniform(-0.1, 0.1, (20, 4))
    after = cart_pole.predict(state, np.ones((20, 1)))
    np.testing.assert_allclose(after.reward, 1, atol=1e-3)


@pytest.mark.slow
def test_plans_fear_ends_where_nobody_was(cart_pole: ContinuousModel) -> None:
    state, action = np.array([[0.0, 0, 0, 0], [2.0, 0, 0, 0]]), np.ones((2, 1))
    np.testing.assert_array_equal(cart_pole.predict(state, action).doubt, [0, ENDS.hazard])
    task = TASKS["CartPole"]()
    policy = plan_continuous(cart_pole, discount=task.discount)
    assert task.mean_return(policy.act, np.random.default_rng(7), 20) > 100  # random: 23


@pytest.mark.parametrize(
    "core", [[[-1, 1]], [[1, -1], [0, 1]], [[-2, 1], [0, 1]], [[0, np.nan]] * 2]
)
def test_cores_are_checked(model: ContinuousModel, core: list[list[float]]) -> None:
    for released in (model, plan_continuous(model, discount=0.9)):
        with pytest.raises(ValueError, match="core must"):
            replace(released, core=np.array(core))


def test_more_persons_make_predictions_surer() -> None:
    few, many = (fit_continuous_model(walks(n, 0), epsilon=1, rng=0, order=3) for n in (100, 1000))
    state, action = np.zeros((1, 2)), np.zeros((1, 1))
    assert many.predict(state, action).deviation[0, 0] < few.predict(state, action).deviation[0, 0]


@pytest.mark.parametrize("target", [RenyiDP(4, 1.0), ZeroConcentratedDP(0.5)], ids=repr)
def test_statements_name_the_budget(target: RenyiDP | ZeroConcentratedDP) -> None:
    model = fit_continuous_model(
        walks(50, 0), target=target, relation=ReplacePerson(), rng=0, order=2
    )
    statement = model.statement
    assert statement is not None
    assert statement["relation"] == "replace one person"
    assert statement["unit"] == "person: all episodes"
    if isinstance(target, RenyiDP):
        assert (statement["order"], statement["epsilon"]) == (4.0, 1.0)
    else:
        assert statement["delta"] == 1e-5
        assert 4 < statement["epsilon"] < 5.4


def test_statements_cannot_be_changed(model: ContinuousModel) -> None:
    policy = plan_continuous(model, discount=0.9)
    for released in (model, policy):
        assert released.statement is not None
        with pytest.raises(TypeError, match="read-only"):
            released.statement["epsilon"] = 1e-9
    assert policy.statement == model.statement
    assert policy.statement["epsilon"] == 5


def test_models_and_policies_come_back_from_files(model: ContinuousModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = ContinuousModel.load(tmp_path / "model")
    state, action = np.array([[0.2, 0.95]]), np.array([[1.0]])
    before, after = model.predict(state, action), again.predict(state, action)
    np.testing.assert_array_equal(before.state, after.state)
    np.testing.assert_array_equal(before.ends, after.ends)
    assert again.statement == model.statement
    policy = plan_continuous(model, discount=0.95)
    policy.save(tmp_path / "policy")
    states = np.random.default_rng(0).uniform([-1, 0], [1, 1], (50, 2))
    loaded = ContinuousPolicy.load(tmp_path / "policy")
    np.testing.assert_array_equal(policy.act(states), loaded.act(states))
    assert policy.act(states[0]) == policy.act(states)[0]
    with pytest.raises(ValueError, match="state must be numbers") as caught:  # NumPy's had the text
        policy.act(["secret", 0.5])
    assert caught.value.__context__ is None


def test_numbers_of_numpy_are_saved(tmp_path: Path) -> None:
    """What was paid for could not be saved: JSON knows none of NumPy's numbers."""
    push = Number(low=-1, high=1, levels=np.int64(3))  # type: ignore[arg-type]
    schema = replace(SCHEMA, action={"push": push})
    log = walks(20, 0, schema=schema)
    model = fit_continuous_model(log, epsilon=1.0, order=np.int64(2))  # type: ignore[arg-type]
    policy = plan_continuous(model, discount=np.float32(0.5))  # type: ignore[arg-type]
    for each in (model, policy):
        folder = tmp_path / type(each).__name__
        each.save(folder)
        assert type(each).load(folder).schema.action["push"] == push


def test_tables_of_another_page_are_not_written_over(
    model: ContinuousModel, tmp_path: Path
) -> None:
    """The model was paid for, and could not be read again."""
    policy, tabular = plan_continuous(model), Released(mdp=riverswim(), statement=model.statement)
    model.save(tmp_path / "model")
    policy.save(tmp_path / "policy")
    save_released(tmp_path / "released", tabular)
    for name, page, save in (
        ("model", "model.json", policy.save),
        ("released", "model.json", policy.save),
        ("policy", "policy.json", model.save),
        ("policy", "policy.json", lambda folder: save_released(folder, tabular)),
    ):
        with pytest.raises(ValueError, match=f"tables.npz there belongs to {page}, and would be"):
            save(tmp_path / name)
    model.save(tmp_path / "model")  # an earlier one of its own is replaced
    policy.save(tmp_path / "policy")
    assert ContinuousModel.load(tmp_path / "model").persons == model.persons
    assert ContinuousPolicy.load(tmp_path / "policy").kind == policy.kind
    assert load_released(tmp_path / "released").mdp.n_states == tabular.mdp.n_states
    (tmp_path / "policy" / "tables.npz").unlink()  # it is lost already
    model.save(tmp_path / "policy")


def test_changed_files_are_refused(model: ContinuousModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    page = (tmp_path / "model.json").read_text()
    raw = (tmp_path / "tables.npz").read_bytes()
    for old, new, message in (
        ("continuous model, 1", "continuous model, 9", "format"),
        ('"order": 6', '"order": 4', "mean must be"),
        ('"order"', '"orders"', "entries"),
        ('"epsilon": 5', '"epsilon": -5', "epsilon"),
        ('"persons": ', '"persons": NaN, "more": ', "Expecting|finite"),
        ('"persons": ', '"persons": -', "persons must be a number > 0"),
    ):
        assert old in page
        (tmp_path / "model.json").write_text(page.replace(old, new))
        with pytest.raises(ValueError, match=message):
            ContinuousModel.load(tmp_path)
    (tmp_path / "model.json").write_text(page)
    (tmp_path / "tables.npz").write_bytes(raw[:-1])
    with pytest.raises(ValueError, match="checksum"):
        ContinuousModel.load(tmp_path)
    changed = json.loads(page)
    changed["tables_sha256"] = hashlib.sha256(raw[:-1]).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="must hold arrays"):
        ContinuousModel.load(tmp_path)


@pytest.mark.parametrize("discount", [True, -1, 1.5, "x", None])
def test_a_policy_of_another_discount_is_refused(
    discount: Any, model: ContinuousModel, tmp_path: Path
) -> None:
    plan_continuous(model, discount=0.5).save(tmp_path)
    page = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps(page | {"discount": discount}))
    with pytest.raises(ValueError, match=r"^policy\.json: discount must be a number > 0"):
        ContinuousPolicy.load(tmp_path)


def test_fits_without_privacy_cannot_be_saved(tmp_path: Path) -> None:
    model = fit_continuous_model(walks(20, 0), private=False, order=2)
    assert model.statement is None
    with pytest.raises(ValueError, match="without privacy"):
        model.save(tmp_path)
    with pytest.raises(ValueError, match="without privacy"):
        plan_continuous(model).save(tmp_path)


def test_the_environment_is_one_of_gymnasium(model: ContinuousModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    env = gym.make("privrl.envs:privrl/ReleasedContinuous-v0", path=tmp_path, horizon=5)
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    seen = [env.step(0)[0] for _ in range(5)]
    env.reset(seed=1)
    np.testing.assert_array_equal(seen, [env.step(0)[0] for _ in range(5)])
    assert env.unwrapped.statement == model.statement


def test_public_functions_take_the_place_of_what_was_learned(model: ContinuousModel) -> None:
    state, action = np.array([[0.2, 0.95]]), np.array([[1.0]])
    after = model.predict(
        state, action, reward=lambda s, a, n: n[:, 0] * 2, ends=lambda n: n[:, 0] > 0
    )
    np.testing.assert_allclose(after.reward, 2 * after.state[:, 0])
    assert after.ends[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("private", [True, False])
def test_a_pendulum_is_swung_up(private: bool) -> None:
    """1,000 persons at epsilon 5: random play earns -1,240, and true dynamics -141."""
    task = TASKS["Pendulum"]()
    log = task.log(1000, np.random.default_rng(1))
    model = fit_continuous_model(log, epsilon=5.1 if private else None, private=private, rng=0)
    assert task.mean_return(plan_continuous(model).act, np.random.default_rng(7)) > -160


@pytest.mark.slow
def test_many_dimensions_are_planned_by_features() -> None:
    task = regulator(8)
    log = task.log(2000, np.random.default_rng(1))
    model = fit_continuous_model(log, epsilon=5.1, rng=0)
    policy = plan_continuous(model, discount=task.discount)
    assert policy.kind == "features"
    rng = np.random.default_rng(7)
    assert task.mean_return(policy.act, rng) > 0.7 * task.random_return(np.random.default_rng(7))


@pytest.mark.few(9)
@pytest.mark.parametrize("persons", [1, 2, 30])
@pytest.mark.parametrize("epsilon", [0.001, 0.5, 300.0])
def test_no_noise_stops_a_fit_that_was_paid_for(persons: int, epsilon: float) -> None:
    for seed in range(3):
        model = fit_continuous_model(walks(persons, seed), epsilon=epsilon, rng=seed)
        after = model.predict(np.zeros((1, 2)), np.zeros((1, 1)))
        assert np.isfinite(after.state).all()
        assert np.isfinite(ReleasedContinuousEnv(released=model).reset(seed=0)[0]).all()


@pytest.mark.parametrize("far", [5.0, 1e300])
def test_a_state_out_of_its_range_stops_no_fit_that_was_paid_for(far: float) -> None:
    """The error came after the charge, and showed the state."""
    rng = np.random.default_rng(0)
    state, action = rng.uniform(-1, 1, (2000, 2)), rng.uniform(-1, 1, (2000, 1))
    over = state[:, 0] > 0.9
    log = ContinuousLog(SCHEMA, state, action, state, np.zeros(2000), over, np.arange(2001))
    assert fit_continuous_model(log, epsilon=300, order=2, rng=0).ends is not None
    state = state.copy()
    state[7, 0] = far
    model = fit_continuous_model(
        replace(log, next_state=state), epsilon=300, order=2, rng=0, accountant=RdpAccountant()
    )
    assert model.ends is not None


def test_an_empty_log_is_fitted() -> None:
    none = ContinuousLog.of_arrays(
        SCHEMA,
        person=np.zeros(0),
        state=np.zeros((0, 2)),
        action=np.zeros((0, 1)),
        next_state=np.zeros((0, 2)),
        reward=np.zeros(0),
        terminated=np.zeros(0),
    )
    for private in (True, False):
        model = fit_continuous_model(none, epsilon=1 if private else None, rng=0, private=private)
        assert np.isfinite(model.mean).all()


# Reading ------------------------------------------------------------------------------------------

_TOML = """
person = "patient"
episode = "stay"
order = "hour"
terminated = "left"

[state.sugar]
range = [0, 10]

[state.ward]
categories = ["a", "b"]

[action.dose]
range = [0, 1]
levels = 2

[reward]
column = "score"
range = [-1, 1]
"""


def test_schemas_and_logs_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(_TOML)
    schema = ContinuousSchema.load(tmp_path / "schema.toml")
    assert ContinuousSchema.from_dict(schema.to_dict()) == schema
    rows = pd.DataFrame(
        {
            "patient": ["u", "u", "u", "v", "v", "u", None],
            "stay": [1, 1, 1, 1, 1, 2, 1],
            "hour": [0, 2, 1, 0, 1, 0, 5],
            "sugar": [1.0, 3.0, 2.0, 4.0, 50.0, 6.0, 1.0],
            "ward": ["a", "b", "b", "a", "z", "b", "a"],
            "dose": [0, 1, 1, 0, 1, 1, 1],
            "score": [0.5, 9.0, 0.25, 0, 0, 0, 0],
            "left": [0, 1, 0, 0, 0, 0, 0],
        }
    )
    rows.to_csv(tmp_path / "log.csv", index=False)
    for source in (rows, tmp_path / "log.csv"):
        log = read_continuous_log(source, schema)
        # The second stay of u has one row, which ends nothing; v's ward z is no category.
        np.testing.assert_array_equal(log.state, [[1, 0], [2, 1], [3, 1]])
        np.testing.assert_array_equal(log.next_state, [[2, 1], [3, 1], [3, 1]])
        np.testing.assert_array_equal(log.reward, [0.5, 0.25, 1.0])
        np.testing.assert_array_equal(log.terminated, [False, False, True])
        np.testing.assert_array_equal(log.offsets, [0, 3])


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ([False, True, True], [0, 1, 1]),
        ([0, 1, 1], [0, 1, 1]),
        ([0.0, 1.0, None], [0, 1]),
        (["false", "True", ""], [0, 1]),
        (["", "1", "0"], [0, 1]),
        (["0.0", "2.5", "no"], [0, 1]),
        ([None, True, 1], [0, 1, 1]),
        ([0.5, 1e300, 0.0], [1, 1]),
        ([0.5, True, 0], [1, 1]),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_flags_of_ends(tmp_path: Path, flags: list, wanted: list, as_text: bool) -> None:
    schema = ContinuousSchema(
        state={"x": Number(low=0, high=9)}, action={"dose": Number(low=0, high=1, levels=2)},
        terminates=True, terminated_column="left",
    )  # fmt: skip
    frame = pd.DataFrame({"person": 0, "x": [1, 2, 3], "dose": 0, "left": flags})
    if as_text:
        frame.to_csv(tmp_path / "log.csv", index=False)
    log = read_continuous_log(tmp_path / "log.csv" if as_text else frame, schema)
    assert log.terminated.tolist() == wanted


def test_the_order_of_episodes_does_not_depend_on_other_persons(tmp_path: Path) -> None:
    """Whose first episode was which followed from who else had an episode of that name."""
    (tmp_path / "schema.toml").write_text(_TOML)
    schema = ContinuousSchema.load(tmp_path / "schema.toml")
    columns = ["patient", "stay", "hour", "sugar", "ward", "dose", "score", "left"]
    rows = [["u", stay, h, 3.0 + h + 4 * stay, "a", 0, 0, 0] for stay in (1, 0) for h in (0, 1)]
    other = [["v", stay, h, 2.0, "a", 0, 0, 0] for stay in (0, 1) for h in (0, 1)]
    alone = read_continuous_log(pd.DataFrame(rows, columns=columns), schema)
    both = read_continuous_log(pd.DataFrame(other + rows, columns=columns), schema)
    np.testing.assert_array_equal(alone.state[:, 0], [3, 7])
    np.testing.assert_array_equal(both.state[both.offsets[1] :], alone.state)


def test_values_are_wrapped_and_clipped() -> None:
    log = ContinuousLog.of_arrays(
        SCHEMA,
        person=[1, 1],
        state=[[7.0, 1.25], [np.nan, 0]],
        action=[[-9.0], [0.0]],
        next_state=[[-7.0, -0.25], [0, 0]],
        reward=[5.0, 0.0],
        terminated=[True, False],
    )
    np.testing.assert_array_equal(log.state, [[1, 0.25]])
    np.testing.assert_array_equal(log.next_state, [[-1, 0.75]])
    np.testing.assert_array_equal(log.action, [[-1]])
    np.testing.assert_array_equal(log.reward, [0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[0, 10]", "[10, 0]", "lower first"),
        ("[0, 10]", "[0]", "range"),
        ("levels = 2", "", "levels"),
        ("levels = 2", "levels = 1", "levels"),
        ('["a", "b"]', '["a"]', "values"),
        ('order = "hour"', 'hours = "hour"', "got 'hours'; leave that out"),
        ('order = "hour"', 'order = ""', "name must be"),
        ("range = [0, 10]", "edges = [0, 10]", "as other columns have ranges; got 'edges'"),
        ('categories = ["a", "b"]', "count = 1", "count must be"),
        ('categories = ["a", "b"]', "count = 1000000000", "at most 10000"),
        ('column = "score"', "", "column and range"),
        ("range = [0, 10]", "wide = [0, 10]", "range"),
    ],
)
def test_wrong_schemas_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "schema.toml").write_text(_TOML.replace(old, new))
    with pytest.raises(ValueError, match=message):
        ContinuousSchema.load(tmp_path / "schema.toml")


def test_wrong_arguments_are_refused_before_anything_is_spent() -> None:
    log = walks(3, 0)
    for options in ({}, {"epsilon": 1, "target": RenyiDP(2, 1)}, {"epsilon": 1, "private": False}):
        with pytest.raises(ValueError, match="epsilon"):
            fit_continuous_model(log, **options)
    with pytest.raises(ValueError, match="order"):
        fit_continuous_model(log, epsilon=1, order=1)
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="order must be at most 64"):  # no file could be read
        fit_continuous_model(log, epsilon=1, order=65, accountant=accountant)
    assert accountant.epsilon(1e-5) == 0
    with pytest.raises(ValueError, match="UTF-8"):  # no file could hold it
        Choice(values=("\ud800", "b"))
    with pytest.raises(ValueError, match="shape"):
        ContinuousLog.of_arrays(
            SCHEMA,
            person=[1],
            state=[[1]],
            action=[1],
            next_state=[[1, 1]],
            reward=[0],
            terminated=[0],
        )
    with pytest.raises(ValueError, match="reward must be given"):
        ContinuousLog.of_arrays(SCHEMA, person=[1], state=[[1, 0]], action=[1], next_state=[[1, 1]])
    bare = ContinuousSchema(
        state={"x": Number(low=0, high=1)}, action={"a": Number(low=0, high=1, levels=2)}
    )
    data = ContinuousLog.of_arrays(bare, person=[1], state=[0], action=[0], next_state=[1])
    model = fit_continuous_model(data, epsilon=1, rng=0, order=2)
    with pytest.raises(ValueError, match="reward must be given"):
        plan_continuous(model)
    with pytest.raises(ValueError, match="reward must be given"):
        ReleasedContinuousEnv(released=model)
    with pytest.raises(ValueError, match="discount"):
        plan_continuous(model, reward=lambda s, a, n: n[:, 0], discount=0)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 5e-324), (0, 1e-200), (-8e307, 8e307), (1e300, 1.0000001e300)]
)
def test_ranges_whose_squares_are_no_floats_are_refused(low: float, high: float) -> None:
    """The budget was spent, and the model was refused for what was not finite."""
    with pytest.raises(ValueError, match="use another unit"):
        Number(low=low, high=high)


@pytest.mark.parametrize(
    ("low", "high"), [(1e30 - 1e15, 1e30), (-1e9, -1e9 + 1e-3), (1, 1 + 1e-12)]
)
def test_ranges_as_narrow_as_rounding_are_refused(low: float, high: float) -> None:
    """The model was charged, and points of its plan's grid coincided: no worth was a number."""
    with pytest.raises(ValueError, match="count from another zero"):
        Number(low=low, high=high)
    Number(low=1.7e9, high=1.7e9 + 60)  # a minute, in seconds since 1970


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1e-30), (-1e30, 1e30), (-1e-30, 1e30), (9e29, 9.00000001e29)]
)
def test_in_any_range_what_is_charged_is_released(low: float, high: float, tmp_path: Path) -> None:
    column = Number(low=low, high=high)
    wide = ContinuousSchema(
        state={"x": column, "angle": Number(low=low, high=high, periodic=True)},
        action={"a": Number(low=low, high=high, levels=2)},
        reward=column,
    )
    values = np.array([[low, high], [high, low], [np.nan, 0], [1.7e308, -1.7e308], [5e-324, low]])
    log = ContinuousLog.of_arrays(
        wide,
        person=[0, 0, 1, 1, 2],
        state=values,
        next_state=values[::-1],
        action=values[:, 0],
        reward=values[:, 1],
    )
    fit_continuous_model(log, epsilon=1, rng=0, order=2).save(tmp_path)
    env = ReleasedContinuousEnv(tmp_path)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.contains(env.step(np.int64(1))[0])


def test_a_model_whose_columns_are_all_categories_is_read_again(tmp_path: Path) -> None:
    """It was charged and saved, and could not be read: no column has bins for ends."""
    schema = ContinuousSchema(
        state={"ward": Choice(values=("a", "b"))},
        action={"care": Choice(values=("wait", "treat"))},
        terminates=True,
    )
    log = ContinuousLog.of_arrays(
        schema, person=[0, 1], state=[0, 1], action=[0, 1], next_state=[1, 0], terminated=[0, 1]
    )
    fit_continuous_model(log, epsilon=1, rng=0, order=2).save(tmp_path)
    read = ContinuousModel.load(tmp_path)
    np.testing.assert_array_equal(read.end_chance(np.zeros((3, 1))), 0)


@pytest.mark.slow
@pytest.mark.parametrize("start", [pytest.param(1, marks=pytest.mark.slow), 2, 3])
def test_an_interrupt_after_the_charge_says_that_it_is_spent(start: int) -> None:
    """At every line, a third of them at a time."""
    log, design = walks(3, 0), Design(rounds=(0.9,))

    def interrupt(at: int | None) -> tuple[Interrupter, BaseException | None, RdpAccountant]:
        stop, spent = Interrupter(at, each=False), RdpAccountant()
        found = stop(  # with a seed: which lines run depends on the noise
            lambda: fit_continuous_model(
                log, epsilon=1, order=2, design=design, accountant=spent, rng=0
            )
        )
        return stop, found, spent

    interrupt(None)  # which makes what is made once
    lines, charged = interrupt(None)[0].seen, 0
    for at in range(start, lines + 1, 3):
        _, error, spent = interrupt(at)
        charged += len(spent.journal)
        assert not len(spent.journal) or "charged" in "".join(getattr(error, "__notes__", ()))
    assert 0 < charged < lines


def test_an_order_of_too_many_features_is_refused_before_the_charge() -> None:
    """They were counted one by one, for minutes."""
    spent = RdpAccountant()
    for order in (10**5, 10**18):
        with pytest.raises(ValueError, match="order must be at most 64"):
            fit_continuous_model(walks(3, 0), epsilon=1, order=order, accountant=spent)
    wide = ContinuousSchema(
        state={f"x{i}": Number(low=0, high=1) for i in range(12)},
        action={"a": Number(low=0, high=1, levels=2)},
    )
    nothing = np.zeros((1, 12))
    log = ContinuousLog.of_arrays(wide, person=[1], state=nothing, action=[0], next_state=nothing)
    with pytest.raises(ValueError, match="order be lower: of order"):
        fit_continuous_model(log, epsilon=1, order=64, accountant=spent)
    with pytest.raises(ValueError, match="take too long to fit"):  # it took more than 5 minutes
        fit_continuous_model(log, epsilon=1, order=12, accountant=spent)
    assert not spent.journal


def test_what_is_for_cells_names_what_is_for_numbers(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(
        "most_steps = 3\n" + _TOML.replace('terminated = "left"\n', "")
    )
    with pytest.raises(ValueError, match="got a range; ContinuousSchema reads"):
        LogSchema.load(tmp_path / "schema.toml")
    with pytest.raises(ValueError, match="read_continuous_log takes a ContinuousSchema"):
        read_log(pd.DataFrame(), SCHEMA)  # type: ignore[arg-type] # of another kind
    for fit in (fit_model, fit_policy):
        with pytest.raises(ValueError, match="fit_continuous_model takes a ContinuousLog"):
            fit(walks(2, 0), epsilon=1)  # type: ignore[operator] # of another kind


def test_plans_seek_unseen_states_if_every_step_costs_the_same_and_no_end_is_known() -> None:
    schema = ContinuousSchema(
        state={"x": Number(low=0, high=1)},
        action={"push": Number(low=-1, high=1, levels=2)},
        reward=Number(low=-1, high=0),
        terminates=True,
    )
    rng = np.random.default_rng(0)
    n = 2000
    state, push = rng.uniform(0, 0.4, (n, 1)), rng.choice([-1.0, 1.0], (n, 1))
    log = ContinuousLog.of_arrays(
        schema,
        person=np.arange(n) // 20,
        state=state,
        action=push,
        next_state=state + 0.05 * push,
        reward=np.full(n, -1.0),
        terminated=np.zeros(n, np.bool_),
    )
    model = fit_continuous_model(log, private=False)
    assert model.ends is None
    inside = np.linspace(0.1, 0.4, 7)[:, None]
    assert (plan_continuous(model, discount=0.99).act(inside) == 1).all()
    known = plan_continuous(model, discount=0.99, ends=lambda s: s[:, 0] <= 0.02)
    assert (known.act(inside[:3]) == 0).all()
    varied = plan_continuous(model, discount=0.99, reward=lambda s, a, n: -np.abs(n[:, 0]))
    assert (varied.act(inside) == 0).all()  # to terminate is not the aim
