"""The command that makes the papers' figures and tables."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from privrl.cli import outputs
from privrl.cli.answers import AsJson, answering
from privrl.cli.outputs import Force
from privrl.cli.terminal import ERR, OUT, app, friendly


@app.command()
def reproduce(
    ids: Annotated[list[str], typer.Argument()],
    quick: bool = False,
    workers: int | None = None,
    out: Path = Path("results/figures"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce figures and tables of the papers, and privrl's own figures.

    Writes for each figure its table (CSV), its picture (PNG, SVG) and a caption with the paper's
    result, privrl's result and the paper's errors. Figures are computed again only if the code has
    changed.

    Example: privrl reproduce dps-fig1 --quick

    Parameters
    ----------
    ids
        Ids of figures, list or all; see privrl reproduce list.
    quick
        Smaller sizes, for seconds per figure.
    workers
        Figures computed in parallel; by default one per core.
    out
        Folder for the files.
    """
    with friendly(), answering(as_json) as answer:
        from rich.markdown import Markdown  # slow to load

        from privrl.experiments.figures import FIGURES
        from privrl.experiments.figures.reproduce import reproduce as make

        if ids == ["list"]:
            table = Table(box=SIMPLE_HEAD, pad_edge=False)
            for column in ("id", "what", "from"):
                table.add_column(column, no_wrap=column == "id")
            for figure in FIGURES.values():
                table.add_row(figure.id, figure.title, figure.source)
            OUT.print(table)
            answer["figures"] = [
                {"id": each.id, "title": each.title, "source": each.source}
                for each in FIGURES.values()
            ]
            return
        wanted = [name for name in FIGURES if name in ids or "all" in ids]
        endings = ("csv", "png", "svg", "md")
        names = [f"{name}.{ending}" for name in wanted for ending in endings]
        outputs.check_new(out, names, force=force)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=ERR, transient=True) as bar:
            task = bar.add_task("reproducing", total=None)

            def show(name: str, done: int, total: int) -> None:
                bar.update(task, completed=done, total=total, description=name or "reproducing")

            made, failed = make(ids, out, quick=quick, workers=workers, on_progress=show)
        for each in made:
            OUT.print(f"\n[bold]{each.id}[/]  {each.title} ({each.source})")
            OUT.print(Markdown(each.caption))
        OUT.print(f"\nwrote {len(made)} figures into {out}", soft_wrap=True)
        for name, why in failed.items():
            ERR.print(f"[red]not made:[/] {name}: {why}", soft_wrap=True)
        answer |= {"made": [each.id for each in made], "failed": failed, "out": str(out)}
    if failed:
        raise typer.Exit(1)
