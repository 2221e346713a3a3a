"""Reports of models and policies whose states are numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.continuous import (
    Choice,
    ContinuousLog,
    ContinuousPolicy,
    ContinuousSchema,
    Number,
    fit_continuous_model,
    plan_continuous,
)
from privrl.experiments.reports import numeric
from privrl.experiments.reports.parts import Chart, Table

RUNNER = CliRunner()
X, PHASE = Number(low=-1, high=1), Number(low=0, high=24, periodic=True)
WARD, DOSE = Choice(values=("left <b>", "right")), Number(low=0, high=2, levels=3)
CARE = Choice(values=("wait", "treat"))
SCHEMAS = {
    "one column": ({"x": X}, {"dose": DOSE}),
    "two columns": ({"x": X, "phase": PHASE}, {"care": CARE}),
    "mixed": ({"ward": WARD, "x": X}, {"dose": DOSE, "care": CARE}),
    "three of them": ({"x": X, "ward": WARD, "phase": PHASE}, {"dose": DOSE}),
    "categories": ({"ward": WARD}, {"dose": DOSE}),
    "six columns": ({f"x{i}": X for i in range(6)}, {"care": CARE}),
}


def model_of(name: str):
    state, action = SCHEMAS[name]
    schema = ContinuousSchema(state=state, action=action, reward=Number(low=-1, high=0))
    rng, n = np.random.default_rng(0), 600
    columns = [
        rng.uniform(c.low, c.high, n) if isinstance(c, Number) else rng.integers(2, size=n) * 1.0
        for c in state.values()
    ]
    states = np.stack(columns, axis=1)
    log = ContinuousLog.of_arrays(
        schema,
        person=np.arange(n) // 6,
        state=states,
        action=schema.levels[rng.integers(schema.n_actions, size=n)],
        next_state=states * 0.9,
        reward=-np.abs(states[:, 0]) / 24,
    )
    return fit_continuous_model(log, epsilon=3, rng=0, order=2)


def run(*arguments: object):
    return RUNNER.invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


@pytest.mark.slow
@pytest.mark.needs("bokeh")
@pytest.mark.parametrize("name", SCHEMAS)
def test_folders_have_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    state, action = SCHEMAS[name]
    rows = {"person": np.arange(600) // 6, "score": -rng.random(600)}
    for columns in (state, action):
        for column, each in columns.items():
            rows[column] = (
                rng.uniform(each.low, each.high, 600) if isinstance(each, Number)
                else np.array(each.values)[rng.integers(2, size=600)]
            )  # fmt: skip
    schema = ContinuousSchema(
        state=state, action=action, reward=Number(low=-1, high=0), reward_column="score"
    )
    schema.save("schema.toml")
    pd.DataFrame(rows).to_csv("log.csv", index=False)
    for command, folder in (("fit-model", "m"), ("fit-policy", "p")):
        made = run(command, "log.csv", "--schema", "schema.toml", "--report", "--out", folder)
        assert made.exit_code == 0, made.output
        text = Path(folder, "report-public.html").read_text()
        for said in ("Privacy guarantee", "Columns and what they may hold", "Reproduce"):
            assert said in text
        assert "left <b>" not in text


def maps_of(name: str) -> tuple[ContinuousPolicy, list[Chart], list[Table]]:
    policy = plan_continuous(model_of(name), discount=0.9)
    parts = list(numeric._maps(policy))
    charts = [each for each in parts if isinstance(each, Chart)]
    return policy, charts, [each for each in parts if isinstance(each, Table)]


def test_a_map_has_the_action_of_each_cell() -> None:
    policy, (chart,), (table,) = maps_of("two columns")
    assert (chart.x, chart.y, len(chart.labels)) == ("x", "phase", 16)
    names = policy.schema.action_names
    assert names == ("care wait", "care treat")
    for phase, start, end, action in table.rows:
        for x in np.linspace(start, end, 4)[1:-1]:
            nearest = -1 + (np.floor((x + 1) * 24) + 0.5) / 24  # the middle of its cell
            assert names[policy.act(np.array([nearest, float(phase)]))] == action
    covered = sum(end - start for _, start, end, _ in table.rows)
    assert covered == pytest.approx(16 * 2)


def test_a_category_has_a_map_each() -> None:
    _, charts, _ = maps_of("three of them")
    assert [chart.caption for chart in charts] == [
        f"The action of the policy by x and phase where ward is {ward}." for ward in WARD.values
    ]
    _, (chart,), _ = maps_of("mixed")
    assert (chart.x, chart.y, chart.labels) == ("x", "ward", ("right", "left <b>"))


@pytest.mark.slow
def test_columns_that_are_not_drawn_are_named() -> None:
    _, (chart,), _ = maps_of("six columns")
    assert "Fixed: x2 = 0, x3 = 0, x4 = 0, x5 = 0." in chart.caption
    _, (chart,), _ = maps_of("one column")
    assert chart.labels == ("any",)
    assert not maps_of("categories")[1]


def test_lines_are_the_expected_change() -> None:
    model = model_of("three of them")
    x, phase = (each for each in numeric._changes(model) if isinstance(each, Chart))
    assert [len(chart.series) for chart in (x, phase)] == [3, 3]
    states = np.column_stack([x.series[1].x, np.zeros(61), np.full(61, 12.0)])
    after = model.predict(states, np.full((61, 1), model.schema.levels[1])).state
    inside = np.abs(after[:, 0]) < 1
    np.testing.assert_allclose((after - states)[inside, 0], np.array(x.series[1].y)[inside])
