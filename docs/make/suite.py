"""Make the tables of suites in docs/results/environments.md, and the picture of them.

Run with ``python docs/make/suite.py``; it takes hours. Rerun it to resume: like ``privrl suite``
it keeps finished jobs, in results/suite/suite.sqlite. Pass names of tables, ``suite`` or those of
presets, to make those alone; ``suite --redraw`` uses the numbers kept in docs/numbers.
"""

from functools import partial

import pages
import pandas as pd

from privrl.experiments.suites import run_suite
from privrl.experiments.suites.plots import shares_of_the_optimum
from privrl.experiments.suites.presets import preset
from privrl.experiments.suites.report import HALVES, budget_text, by_budget, conditions_text, report

_MORE = ("others", "rivals", "users")  # presets
_MOST_COLUMNS = 9  # beyond them, a table for each budget
_KEPT = [
    *("task", "half", "episodes", "agent", "sampler", "method", "relation", "renyi_order"),
    *("epsilon", "delta", "epsilon_delta", "run", "learning", "final"),
]
_DATABASE = pages.DOCS.parent / "results" / "suite" / "suite.sqlite"


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    blocks = {"suite": _suite, **{name: partial(_tables, name) for name in _MORE}}
    pages.main("results/environments.md", blocks)


def _suite() -> str:
    results = pages.numbers("suite", lambda: _results("steps")[_KEPT])
    pages.save(shares_of_the_optimum(results), pages.IMAGES / "suite.png")
    return tables(results)


def _tables(name: str) -> str:
    return tables(_results(name))


def _results(name: str) -> pd.DataFrame:
    return run_suite(preset(f"{name}-renyi-2"), database=_DATABASE).results


def tables(results: pd.DataFrame) -> str:
    """Return tables of ``learning/final`` for each half, and what their numbers are."""
    made = report(results)
    wide = len(made.columns) > _MOST_COLUMNS
    parts = []
    for half, rows in made.rows.items():
        parts.append(f"{half.capitalize()}: {HALVES[half]}.")
        for columns in by_budget(made.columns) if wide else [made.columns]:
            header = [f"{made.names[c.method]}, {budget_text(c.epsilon)}" for c in columns]
            cells = [[row, *(made.cell(row, column) for column in columns)] for row in rows]
            parts.append(pages.table(["task", *header], cells))
    parts.append(f"Learning/final. {conditions_text(results)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
