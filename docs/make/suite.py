"""Make the tables and the picture of suites in docs/environments.md.

Run with ``python docs/make/suite.py``; it takes hours, and goes on where it stopped: finished jobs
are kept in results/suite/suite.sqlite, as ``privrl suite`` does. Names of tables, ``suite``,
``others`` or ``users``, as arguments make those alone.
"""

import pages
import pandas as pd

from privrl.experiments.suites import preset, run_suite
from privrl.experiments.suites.plots import shares_of_the_optimum
from privrl.experiments.suites.report import HALVES, budget_text, by_budget, conditions_text, report

_MOST_COLUMNS = 9  # beyond them, a table for each budget
_DATABASE = pages.DOCS.parent / "results" / "suite" / "suite.sqlite"


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    pages.main("environments.md", {"suite": _suite, "others": _others, "users": _users})


def _suite() -> str:
    results = _results("steps")
    shares_of_the_optimum(results).savefig(pages.IMAGES / "suite.png", dpi=150)
    return tables(results)


def _others() -> str:
    return tables(_results("others"))


def _users() -> str:
    return tables(_results("users"))


def _results(name: str) -> pd.DataFrame:
    return run_suite(preset(name), database=_DATABASE).results


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
