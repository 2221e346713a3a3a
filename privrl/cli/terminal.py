"""What commands share: the app, the two consoles, and how they speak."""

import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from privrl.numerics.printing import up

MARKUP: Final = "markdown"  # of help
app = typer.Typer(
    name="privrl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=MARKUP,
    help="Private reinforcement learning and Bayesian counting models, exactly accounted.",
)
OUT, ERR = Console(highlight=False), Console(stderr=True, highlight=False)


@contextmanager
def friendly() -> Iterator[None]:
    """Say what is wrong in a sentence, without a traceback; show warnings likewise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: ERR.print(
            "[yellow]warning:[/]", Text.from_ansi(str(message)), soft_wrap=True
        )
        try:
            yield
        except (ValueError, OSError, OverflowError, MemoryError) as error:
            # Python says nothing where its own memory ends.
            what = str(error) or "out of memory; ask for less at a time."
            ERR.print(f"[red]error:[/] {escape(what)}", soft_wrap=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as stop:
            ERR.print("[yellow]stopped[/]; every file is whole, as it was or as it was to be.")
            raise typer.Exit(130) from stop


@contextmanager
def bar(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar, which is told how much of the total is done."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def rows_read(what: str) -> Iterator[Any]:
    """Count rows on a terminal, and only there: how many there are is private."""
    columns = (SpinnerColumn(), TextColumn(what), _Rows())
    shown = ERR.file.isatty()
    with Progress(*columns, console=ERR, transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done: progress.update(task, completed=done)


class _Rows(ProgressColumn):
    """How many rows were read, and how fast."""

    def render(self, task: Task) -> Text:
        rate = "" if task.speed is None else f", {task.speed:,.0f} a second"
        return Text(f"{task.completed:,.0f} rows{rate}")


def print_files(paths: list[Path]) -> None:
    """Say which files were written."""
    for path in paths:
        OUT.print(f"wrote {escape(str(path))}", soft_wrap=True)


def print_cost(what: str, guarantee: dict[str, Any], *, without: str, also: str = "") -> None:
    """Say what a file cost, or, where there is no privacy, what it is without."""
    if guarantee["epsilon_delta"] is None:
        OUT.print(f"no privacy guarantee: {without}")
        return
    if guarantee["caveats"]:
        ERR.print(f"[yellow]no guarantee:[/] {'; '.join(guarantee['caveats'])}")
    renyi = ""
    if guarantee["order"] is not None:
        renyi = (
            f"Rényi divergence of order {guarantee['order']:g} at most "
            f"{up(guarantee['epsilon'])}, and "
        )
    epsilon, delta = up(guarantee["epsilon_delta"]), guarantee["delta"]
    pair = f"({epsilon}, {delta!r})" if delta else epsilon
    OUT.print(
        f"{what} cost: {renyi}{pair}-differential privacy; privacy unit: "
        f"{guarantee['relation']}{also}"
    )


def words(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Return the numbers of a comma-separated list; the name is the option's, for errors."""
    try:
        return tuple(float(word) for word in words(text))
    except ValueError as error:
        raise ValueError(f"{name} must be comma-separated numbers, got {text!r}.") from error


def repeated(name: str) -> str:
    """Return the option that is given once for each entry of a list: --env-arg for env_args."""
    return f"--{name.removesuffix('s').replace('_', '-')}"


def command_line(verb: str, options: dict[str, Any]) -> str:
    """Return the command line that repeats a run."""
    parts = ["privrl", verb]
    for name, value in options.items():
        if value is not None:
            if isinstance(value, list):
                parts += [f"{repeated(name)}={each}" for each in value]
                continue
            option = name.replace("_", "-")
            if isinstance(value, bool):
                parts.append(f"--{'' if value else 'no-'}{option}")
                continue
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts.append(f"--{option}={text}")
    return shlex.join(parts)
