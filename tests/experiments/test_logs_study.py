"""Studies: every cell is done, reproducibly, and tables and the picture show what is there."""

import io
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from log_studies.plots import scores_by_persons
from log_studies.report import (
    UNIT,
    cells,
    conditions_text,
    score_text,
    summary,
    text_table,
)
from log_studies.study import Condition, Study, run_study
from log_studies.worlds import clinic, ward
from matplotlib.text import Text

from privrl.experiments.workers import JobFailed

CLINIC, WARD = clinic(1, name="a clinic", n_states=12), ward(n_states=12)
CONDITIONS = (
    Condition(),
    Condition("half-expert"),
    Condition("half-expert", known=False),
    Condition(known=False, admissible=False),
)
STUDY = Study(
    sizes=((200, 2), (2_000, 1)), conditions=CONDITIONS, epsilons=(None, 1.0), draws=2, seed=3
)


@pytest.fixture(scope="module")
def results() -> pd.DataFrame:
    return run_study(STUDY, [WARD, CLINIC])


def test_every_cell_is_done_in_its_order(results: pd.DataFrame) -> None:
    found = results[["world", "persons", "condition", "epsilon", "log", "draw"]]
    assert list(found.itertuples(index=False, name=None)) == [
        (world, persons, str(condition), epsilon, log, draw)
        for world, (persons, logs), condition, epsilon in product(
            ("ward", "a clinic"), STUDY.sizes, CONDITIONS, (np.inf, 1.0)
        )
        for log in range(logs)
        for draw in range(1 if epsilon == np.inf else 2)
    ]
    assert (results["score"] <= 1 + 1e-9).all()
    many = results[(results["persons"] == 2_000) & (results["epsilon"] == np.inf)]
    assert (many["score"] > np.maximum(0.5, many["treated"])).all()
    assert set(results["kind"]) <= {"behaviour", "popular", "vote", "rounds", "counts"}
    assert (results.loc[results["behaviour"] == "uniform", "treated"] == 0).all()
    half = results[(results["behaviour"] == "half-expert") & (results["world"] == "ward")]
    np.testing.assert_allclose(half["treated"], WARD.score(WARD.behaviour("half-expert")))


def test_seeds_are_all_there_is(results: pd.DataFrame) -> None:
    """Whatever else is in a study, and wherever it is run, a cell is the same."""
    columns = [name for name in results if name != "seconds"]
    told: list[str] = []
    part = replace(STUDY, sizes=((200, 1),), conditions=CONDITIONS[2:])
    again = run_study(part, [CLINIC], backend="loky", workers=1, on_progress=told.append)
    keys = ["world", "persons", "condition", "epsilon", "log", "draw"]
    both = again[columns].merge(results[columns], on=keys)
    assert len(both) == len(again) == 6
    np.testing.assert_array_equal(both["score_x"], both["score_y"])
    assert told == [f"a clinic, 200 persons, {each}, log 0" for each in ("half-expert", "uniform")]
    other = run_study(replace(part, seed=4), [CLINIC])
    assert (other["score"].to_numpy() != again["score"].to_numpy()).any()
    private = again[again["epsilon"] == 1]
    assert private.groupby("condition")["score"].nunique().max() == 2  # draws differ


def test_summaries_are_means_over_logs() -> None:
    rows = [
        {"world": "w", "persons": 10, "condition": "c", "epsilon": 1.0, "log": log, "draw": draw,
         "treated": 0.25, "score": score, "seconds": 1.0}
        for (log, draw), score in zip(product((0, 1), repeat=2), (0.1, 0.3, 0.5, 0.7), strict=True)
    ]  # fmt: skip
    found = summary(pd.DataFrame(rows))
    assert len(found) == 1
    row = found.iloc[0]
    assert (row["mean"], row["least"], row["policies"]) == (pytest.approx(0.4), 0.1, 4)
    assert row["error"] == pytest.approx(0.2)  # of two logs, 0.2 and 0.6
    (cell,) = cells(pd.DataFrame(rows))["w", 10, "c"].values()
    assert str(cell) == ".40 (.10)"
    assert cell.treated == 0.25


def test_the_table_is_for_80_columns_and_has_every_cell(results: pd.DataFrame) -> None:
    text = text_table(results)
    assert max(map(len, text.splitlines())) <= 80
    for (world, persons, condition), row in cells(results).items():
        part = text[text.index(f"{world}: {condition}; as treated: ") :].split("\n\n")[0]
        (line,) = (each for each in part.splitlines() if each.startswith(f"{persons:>10,}"))
        for cell in row.values():
            assert f"{cell} ±" in line
    assert UNIT in text
    four = run_study(
        Study(sizes=((50, 2),), conditions=(Condition("half-expert", known=False),)), [WARD]
    )
    assert max(map(len, text_table(four).splitlines())) <= 80


def test_words_say_what_numbers_are(results: pd.DataFrame) -> None:
    text = conditions_text(results)
    assert "2 of 200 persons, 1 of 2,000 persons; 2 draws of each" in text
    assert UNIT in text
    assert list(map(str, CONDITIONS)) == [
        "uniform, all known",
        "half-expert, all known",
        "half-expert, chances unknown",
        "uniform, chances and actions unknown",
    ]
    scores = (0.5, 1.0, 0.996, -0.001, -0.05, -1.5, np.nan)
    assert [score_text(score) for score in scores] == [
        ".50", "1.00", "1.00", ".00", "-.05", "-1.50", "?",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_picture_has_a_panel_for_each_condition(results: pd.DataFrame) -> None:
    picture = scores_by_persons(results, "a clinic and a ward")
    picture.savefig(file := io.BytesIO(), format="png", dpi=40)
    assert file.getvalue().startswith(b"\x89PNG")
    assert len(picture.axes) == 4
    words = " ".join(text.get_text() for text in picture.findobj(Text))
    for word in (f"privacy unit: {UNIT}", "a clinic and a ward", "score", "persons", "as treated",
                 "no privacy", "ε = 1"):  # fmt: skip
        assert word in words
    for axes, condition in zip(picture.axes, CONDITIONS, strict=True):
        mean = results[(results["condition"] == str(condition)) & (results["epsilon"] == 1)]
        shown = axes.get_lines()[1].get_ydata()
        by_world = mean.groupby(["persons", "world"])["score"].mean().groupby("persons").mean()
        np.testing.assert_allclose(shown, by_world)
        low = axes.get_ylim()[0]
        assert low < mean["score"].min()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": ()}, "sizes must hold one at least"),
        ({"sizes": ((0, 1),)}, "persons of sizes must be a whole number >= 1"),
        ({"sizes": ((10, 0),)}, "logs of sizes must be a whole number >= 1"),
        ({"conditions": ()}, "conditions must hold one at least"),
        ({"epsilons": ()}, "epsilons must hold one at least"),
        ({"epsilons": (0.0,)}, "epsilons must be a number > 0"),
        ({"draws": 0}, "draws must be a whole number >= 1"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
    ],
)
def test_what_is_no_study_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(STUDY, **changes)


def test_what_else_is_refused() -> None:
    with pytest.raises(ValueError, match="behaviour must be one of uniform, half-expert"):
        Condition("expert")  # type: ignore[arg-type] # no such one
    with pytest.raises(ValueError, match="must have different names, got two of 'ward'"):
        run_study(STUDY, [WARD, replace(WARD, discount=0.9)])
    with pytest.raises(ValueError, match="backend must be one of"):
        run_study(STUDY, [WARD], backend="none")
    tiny = replace(STUDY, sizes=((5, 1),), epsilons=(2.0**21,))
    with pytest.raises(JobFailed, match="ward, 5 persons, uniform, log 0: ValueError: epsilon"):
        run_study(tiny, [WARD])
