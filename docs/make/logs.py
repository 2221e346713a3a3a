"""Make the tables and the picture of policies from logs in docs/logs.md.

Run with ``python docs/make/logs.py``; it takes about a quarter of an hour. Names of tables as
arguments make those alone. ICU-Sepsis is read from where the environment variable
``PRIVRL_ICU_SEPSIS`` says, a wheel of the package icu-sepsis, or from the package if it is
installed; without it its tables say that it was skipped. All rows are kept in results/logs.
"""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from statistics import mean

import pages
import pandas as pd

from privrl._files import save_all, table_writer
from privrl.experiments.logs import Condition, Study, World, clinics, icu_world, run_study, ward
from privrl.experiments.logs.plots import scores_by_persons
from privrl.experiments.logs.report import (
    Cell,
    budget_text,
    cells,
    conditions_text,
    score_text,
    summary,
    text_table,
)

_WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")
_KEPT = pages.DOCS.parent / "results" / "logs"
_SKIPPED = (
    "ICU-Sepsis was skipped when this page was made: `pip download --no-deps icu-sepsis` gets it, "
    "`PRIVRL_ICU_SEPSIS` says where the wheel is."
)
_TWO = Study(conditions=(Condition(), Condition("half-expert", known=False)))


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    pages.main("logs.md", {"clinics": _clinics, "icu": _icu, "others": _others})


def _clinics() -> str:
    worlds = list(clinics("judged"))
    results = _results("clinics", _TWO, worlds)
    return "\n\n".join([_described(worlds), _table(results, with_mean=True)])


def _icu() -> str:
    if not _there():
        return _SKIPPED
    world = icu_world(_WHEEL)
    results = _results("icu", Study(), [world])
    scores_by_persons(results, world.name).savefig(pages.IMAGES / "logs.png", dpi=150)
    return "\n\n".join([_described([world]), _table(results)])


def _others() -> str:
    worlds = [ward()]
    if _there():
        name = "ICU-Sepsis with costs"
        worlds.insert(0, icu_world(_WHEEL, name=name, step_reward=-0.01, discount=0.99))
    made = [_described(worlds), _table(_results("others", _TWO, worlds))]
    return "\n\n".join(made if _there() else [*made, _SKIPPED])


def _there() -> bool:
    return _WHEEL is not None or find_spec("icu_sepsis") is not None


def _results(name: str, study: Study, worlds: Iterable[World]) -> pd.DataFrame:
    results = run_study(study, worlds, on_progress=lambda job: print(" ", job, flush=True))
    print(text_table(results), flush=True)
    found = {f"{name}.csv": results, f"{name}_summary.csv": summary(results)}
    save_all(_KEPT, {file: table_writer(table) for file, table in found.items()})
    return results


def _described(worlds: Iterable[World]) -> str:
    """Return what worlds are like: sizes, and the values that scores lie between."""
    rows = (
        [
            world.name,
            world.n_states,
            f"{world.admissible.sum() / world.n_states:.1f} of {world.n_actions}",
            *(f"{world.value(world.behaviour(name)):.4g}" for name in ("uniform", "half-expert")),
            f"{world.optimum()[1]:.4g}",
        ]
        for world in worlds
    )
    header = "world | states | actions of a state | uniform | half expert | optimum"
    return pages.table(header, rows)


def _table(results: pd.DataFrame, *, with_mean: bool = False) -> str:
    """Return a table of ``mean (least)``, of several worlds with their mean, and its words."""
    epsilons = list(results["epsilon"].unique())
    found = cells(results)
    rows = [
        [world, f"{persons:,}", condition, *_scores(row, epsilons)]
        for (world, persons, condition), row in found.items()
    ]
    if with_mean:
        sizes = dict.fromkeys((persons, condition) for _, persons, condition in found)
        for persons, condition in sizes:
            alike = [row for key, row in found.items() if key[1:] == (persons, condition)]
            over = [mean(row[epsilons[0]].treated for row in alike)]
            over += [mean(row[epsilon].mean for row in alike) for epsilon in epsilons]
            rows.append(["**mean**", f"{persons:,}", condition, *map(score_text, over)])
    header = ["world", "persons", "treatment", "as treated", *map(budget_text, epsilons)]
    return "\n\n".join([pages.table(header, rows), conditions_text(results)])


def _scores(row: dict[float, Cell], epsilons: list[float]) -> list[str]:
    return [score_text(row[epsilons[0]].treated), *(str(row[epsilon]) for epsilon in epsilons)]


if __name__ == "__main__":
    main()
