"""Tables and the picture of a suite: they show the means that are there, and all of them."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from privrl.experiments.palette import BLUE, GREEN
from privrl.experiments.suites.plots import shares_of_the_optimum
from privrl.experiments.suites.report import (
    Column,
    budget_text,
    by_budget,
    report,
    share_text,
    spent_text,
)

TASKS = {"Queue": "judged", "Lake": "set", "Sea": "set"}
MEANS = {"Queue": (-0.5, 0.25), "Lake": (0.4, 0.9), "Sea": (0.8, 1.1)}
NONE = np.inf


def results(*, agents=("psrl", "ucbvi"), episodes=(300,), epsilons=(NONE, 1.0)) -> pd.DataFrame:
    """Two runs, of which each mean is one of `MEANS`; ucbvi's are a tenth less."""
    rows = []
    for task, long, agent, epsilon in product(TASKS, episodes, agents, epsilons):
        learning, final = np.subtract(MEANS[task], 0.1 * (agent == "ucbvi"))
        rows += [
            {
                "task": task, "half": TASKS[task], "episodes": long, "agent": agent,
                "sampler": "noisy-counts", "method": f"{agent}, geometric:1.05",
                "relation": "replace-step", "renyi_order": 2.0,
                "epsilon": epsilon, "delta": 1e-5, "run": run,
                "epsilon_delta": 5.08123 - run if epsilon < NONE else NONE,
                "learning": learning + off, "final": final + off,
            }
            for run, off in ((0, 0.05), (1, -0.05))
        ]  # fmt: skip
    return pd.DataFrame(rows)


PSRL, UCBVI = "psrl, geometric:1.05", "ucbvi, geometric:1.05"


def test_rows_are_tasks_by_half_and_cells_are_means_over_runs() -> None:
    made = report(results())
    assert made.rows == {"set": ["Lake", "Sea", "mean, set"], "judged": ["Queue"]}
    assert made.columns == [
        Column(PSRL, NONE),
        Column(PSRL, 1.0),
        Column(UCBVI, NONE),
        Column(UCBVI, 1.0),
    ]
    assert made.names == {PSRL: "psrl", UCBVI: "ucbvi"}
    assert made.shares["Sea", Column(UCBVI, 1.0)] == pytest.approx((0.7, 1.0))
    assert made.cell("Queue", Column(PSRL, NONE)) == "-.50/.25"
    assert made.cell("mean, set", Column(PSRL, NONE)) == ".60/1.00"


def test_columns_come_by_budget_the_largest_first() -> None:
    columns = [Column(method, epsilon) for method in "ab" for epsilon in (0.1, NONE, 1.0)]
    assert by_budget(columns) == [[Column("a", e), Column("b", e)] for e in (NONE, 1.0, 0.1)]


def test_what_is_missing_is_empty_and_has_no_mean() -> None:
    found = results()
    found = found[(found["task"] != "Lake") | (found["method"] != UCBVI)]
    made = report(found)
    assert made.cell("Lake", Column(UCBVI, 1.0)) == ""
    assert made.cell("mean, set", Column(UCBVI, 1.0)) == ""
    assert made.cell("mean, set", Column(PSRL, 1.0))


def test_episodes_are_named_where_there_are_several_and_methods_by_label_where_agents_are_not() -> (
    None
):
    rows = report(results(episodes=(300, 100_000, 2_000_000))).rows["judged"]
    assert rows == ["Queue, 300", "Queue, 100k", "Queue, 2M"]  # of which a mean says little
    same = results().assign(agent="psrl")
    assert report(same).names == {PSRL: PSRL, UCBVI: UCBVI}


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.934, ".93"), (1.0, "1.00"), (0.996, "1.00"), (0.994, ".99"), (0.0, ".00"),
        (-0.001, ".00"), (-0.58, "-.58"), (-1.05, "-1.05"), (-10.05, "-10"), (-9.996, "-10"),
        (10.05, "10"), (-0.996, "-1.00"),
    ],
)  # fmt: skip
def test_shares_have_two_digits(share: float, text: str) -> None:
    assert share_text(share) == text


def test_budgets_are_never_rounded_down() -> None:
    assert (budget_text(NONE), budget_text(0.10001)) == ("no privacy", "ε = 0.1001")
    assert spent_text(results(), 1.0) == "(5.082, 1e-05)"


def _markers(axes, colour: str) -> list[tuple[str, bool, float]]:
    """Return the markers of a method, from top to bottom: shape, whether filled, and where."""
    lines = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata())]
    ours = [line for line in lines if to_hex(line.get_color()).upper() == colour]
    ours.sort(key=lambda line: line.get_ydata()[0])
    return [
        (line.get_marker(), line.get_markerfacecolor() != "white", float(line.get_xdata()[0]))
        for line in ours
    ]


def test_the_picture_shows_every_share() -> None:
    figure = shares_of_the_optimum(results())
    free, private = figure.axes
    assert free.get_title().startswith("no privacy")
    assert private.get_title() == "ε = 1\nas (ε, δ): (5.082, 1e-05)"
    names = [label.get_text() for label in free.get_yticklabels()]
    assert names == ["Lake", "Sea", "mean, set", "Queue"]
    for axes in (free, private):
        *top, learning, final = _markers(axes, BLUE)
        assert top == [
            ("o", True, pytest.approx(0.4)), ("o", False, pytest.approx(0.9)),
            ("o", True, pytest.approx(0.8)), ("o", False, 1.0),  # not beyond the optimum
            ("o", True, pytest.approx(0.6)), ("o", False, 1.0),
        ]  # fmt: skip
        assert (learning[:2], final) == (("<", True), ("o", False, pytest.approx(0.25)))
        assert learning[2] < 0  # marked as worse than chance, just left of it
        assert len(_markers(axes, GREEN)) == 8
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert legends[:2] == ["psrl", "ucbvi"]
    assert legends[-1] == "worse than chance"
    said = " ".join(text.get_text() for text in figure.texts)
    assert "privacy unit: one step replaced" in said
    assert "set: an agent's settings may" in said
    assert "judged: no setting" in said


@pytest.mark.slow
@pytest.mark.parametrize("agents", [1, 8])
@pytest.mark.parametrize("name", ["agent", "an agent with a long name, on a schedule"])
def test_the_picture_has_room_for_few_and_many(agents: int, name: str) -> None:
    names = [f"{name} {i}" for i in range(agents)]
    figure = shares_of_the_optimum(results(agents=names, epsilons=(1.0,)))
    figure.draw_without_rendering()
    heights = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in pairwise(heights))
    assert min(extent.x0 for extent in heights) >= 0
    for words in (*figure.legends, *figure.texts):
        assert 0 <= words.get_window_extent().x0 < words.get_window_extent().x1 <= figure.bbox.x1
    legend, panel = figure.legends[0].get_window_extent(), figure.axes[0].get_tightbbox()
    assert panel.y1 < legend.y0 < legend.y1 < figure.texts[-1].get_window_extent().y0
    looks = {(line.get_color(), line.get_marker()) for line in figure.legends[0].get_lines()}
    assert len(looks) == agents


def test_the_papers_unit_is_no_guarantee() -> None:
    figure = shares_of_the_optimum(results().assign(relation="paper-step"))
    assert any("NOT A GUARANTEE" in text.get_text() for text in figure.texts)
