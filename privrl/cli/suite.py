"""privrl suite."""

from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from privrl.cli import jobs, outputs
from privrl.cli.answers import amount, named
from privrl.cli.jobs import Address, Backend, Workers
from privrl.cli.options import takes_options
from privrl.cli.outputs import Force
from privrl.cli.report import WithReport, write_report
from privrl.cli.terminal import OUT, command_line, numbers, print_files, words

if TYPE_CHECKING:
    import pandas as pd

    from privrl.experiments.suites.report import Column, Report

_PRESET = "steps"  # where none is named
_DATABASE = "suite.sqlite"
_FILES = ("suite.csv", "suite.png", "suite.json")
_PANEL = "Suite"


def _options() -> list[Parameter]:
    from privrl.experiments.suites import SuiteSpec
    from privrl.experiments.suites.presets import preset

    return jobs.comparison_options(SuiteSpec, _PRESET, preset(_PRESET), _PANEL)


@takes_options(_options)
def suite(
    answer: dict[str, Any],
    *,
    tasks: Annotated[list[str] | None, typer.Option(rich_help_panel=_PANEL)] = None,
    epsilons: Annotated[list[str] | None, typer.Option(rich_help_panel=_PANEL)] = None,
    preset: str | None = None,
    spec: Annotated[Path | None, jobs.spec_option("suite")] = None,
    backend: Backend = "loky",
    workers: Workers = None,
    address: Address = None,
    out: Annotated[Path | None, jobs.folder_option("suite", "others")] = None,
    force: Force = False,
    report: WithReport = False,
    **options: Any,
) -> None:
    """Compare agents on many tasks: how far each comes from chance, 0, to the optimum, 1.

    Prints a table of learning/final, the mean of all episodes and the value of the policy that
    would be deployed in the end, and writes suite.csv, suite.png and suite.json. What is finished
    is kept in suite.sqlite at once: the same command again, or with --force one with more tasks,
    agents or budgets, computes only what is missing. Delete that file after a change of the code
    itself.

    Parameters
    ----------
    tasks
        Comma-separated: all, set, judged, names of tasks, other sizes and seeds such as
        DeepSea15 or Garnet30x3-11, and .npz files of tables.
    epsilons
        Comma-separated privacy budgets of a whole run, in nats; none is no privacy.
    preset
        steps (the default: one step is private; all tasks), others (other sizes and seeds),
        rivals (other agents) or users (all that a user does is private; 1e5 and 1e6 users),
        in (epsilon, delta); steps-renyi-2 and so on, in Renyi divergence of order 2. Other
        options override parts of it.
    """
    from privrl.experiments import suites
    from privrl.experiments.suites import presets
    from privrl.experiments.suites.plots import shares_of_the_optimum
    from privrl.files import files as _files
    from privrl.numerics.randomness import SEEDED

    base, todo = jobs.overridden(suites.SuiteSpec, presets.preset, preset, spec, _PRESET, options)
    if tasks is not None:
        todo = replace(todo, tasks=words(tasks))
    if epsilons is not None:
        todo = replace(todo, epsilons=_budgets(epsilons))
    out = jobs.folder("suite", out, preset, _PRESET)
    outputs.check_same(out, _FILES, of="suite.json", spec=todo.to_dict(), force=force)
    database = out / _DATABASE
    with jobs.doing("comparing", database, backend, workers, address) as how:
        results = suites.run_suite(todo, **how).results
    own = {"tasks": tasks, "epsilons": epsilons}
    saved = {
        "command": command_line("suite", base | own | options),
        "spec": todo.to_dict(),
        "randomness": SEEDED,
    }
    written = _files.save_all(
        out,
        {
            "suite.csv": _files.table_writer(results),
            "suite.png": _files.figure_writer(shares_of_the_optimum(results)),
        },
        ("suite.json", saved),
    )
    _print_suite(results)
    print_files([*written, database])
    answer |= {"means": _means(results), "files": named([*written, database])}
    if report:
        answer.update(write_report(out))


def _budgets(texts: list[str]) -> tuple[float | None, ...]:
    """Return the numbers of comma-separated lists, and None for "none"."""
    return tuple(None if w == "none" else numbers("epsilons", w)[0] for w in words(texts))


def _print_suite(results: "pd.DataFrame") -> None:
    """Print the means over runs: a row for each task, as many columns as fit."""
    from privrl.experiments.suites.report import FINAL, HALVES, LEARNING, conditions_text, report

    made = report(results)
    OUT.print("Share of the way from chance, 0, to the optimum, 1: learning/final")
    for columns in _tables(made):
        OUT.print(_table(made, columns))
    OUT.print(f"learning: {LEARNING}; final: {FINAL}, exact.")
    for half in made.rows:
        OUT.print(f"{half}: {HALVES[half]}.")
    OUT.print(conditions_text(results))
    if (results["relation"] == "paper-step").any():
        OUT.print("[yellow]Not a guarantee:[/] the paper's sensitivity is too small.")


def _means(results: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the means over runs as plain data."""
    from privrl.experiments.suites.report import report

    return [
        {
            "task": row,
            "method": column.method,
            "epsilon": amount(column.epsilon),
            "learning": float(learning),
            "final": float(final),
        }
        for (row, column), (learning, final) in report(results).shares.items()
    ]


def _tables(made: "Report") -> list[list["Column"]]:
    """Return the columns of each table: of all budgets, or of one if they are many."""
    from privrl.experiments.suites.report import by_budget

    if _width(made, made.columns) <= OUT.width:
        return [made.columns]
    tables: list[list[Column]] = []
    for columns in by_budget(made.columns):
        tables.append([])
        for column in columns:
            if tables[-1] and _width(made, [*tables[-1], column]) > OUT.width:
                tables.append([])
            tables[-1].append(column)
    return tables


def _width(made: "Report", columns: list["Column"]) -> int:
    rows = [row for rows in made.rows.values() for row in rows]
    cells = [
        max(
            len(line) for line in (*_heading(made, c).split("\n"), *(made.cell(r, c) for r in rows))
        )
        for c in columns
    ]
    return sum(cells) + 2 * len(cells) + max(map(len, rows))


def _heading(made: "Report", column: "Column") -> str:
    from privrl.experiments.suites.report import budget_text

    return f"{made.names[column.method]}\n{budget_text(column.epsilon)}"


def _table(made: "Report", columns: list["Column"]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold")
    for column in columns:
        table.add_column(_heading(made, column), justify="right", overflow="fold")
    for half, rows in made.rows.items():
        table.add_row(f"[bold]{half}[/]")
        for row in rows:
            table.add_row(row, *(made.cell(row, column) for column in columns))
        table.add_section()
    return table
