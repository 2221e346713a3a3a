"""What commands that do jobs share: where they are done, how far they are, and saved specs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from privrl._plain import parse_json
from privrl.cli.options import values_of
from privrl.cli.terminal import ERR, words

if TYPE_CHECKING:
    from privrl.experiments.sweeps import SweepProgress
    from privrl.experiments.sweeps.comparison import Comparison

SEVERAL = ("agent", "sampler", "schedule")  # of which every combination is taken

Backend = Annotated[
    str, typer.Option(help="loky (processes of this machine), sequential, dask or ray.")
]
Workers = Annotated[int | None, typer.Option(help="How many; by default one for each core.")]
Address = Annotated[
    str | None,
    typer.Option(help="Of a Dask scheduler or Ray cluster; by default one is started here."),
]

Compared = TypeVar("Compared", bound="Comparison")


def overridden(
    kind: type[Compared],
    preset: Callable[[str], Compared],
    base: Mapping[str, str],
    options: Mapping[str, Any],
) -> Compared:
    """Return the preset, or the saved spec, that ``base`` names, with what the options override."""
    from privrl.experiments.methods import Method
    from privrl.experiments.sweeps.presets import override

    texts = {f"{name}s": options[f"{name}s"] for name in SEVERAL}
    return override(
        preset(base["preset"]) if "preset" in base else _saved_spec(kind, Path(base["spec"])),
        **{name: None if text is None else words(text) for name, text in texts.items()},
        method=values_of(Method, options),
        spec=values_of(kind, options),
    )


def _saved_spec(kind: type[Compared], path: Path) -> Compared:
    """Read the spec of a file such as sweep.json, or a file that is a spec alone."""
    from privrl import _files

    try:
        data = parse_json(_files.read_bytes(path).decode())
    except ValueError as error:  # no JSON, or no text
        raise ValueError(
            f"spec must be a JSON file, got {str(path)!r}: {str(error).rstrip('.')}."
        ) from error
    whole = isinstance(data, dict) and "spec" in data
    return kind.from_dict(data["spec"] if whole else data)


class _TimeLeft(ProgressColumn):
    """When jobs end if they go on as they did; Rich's own column looks at its last steps only."""

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds."""
        ends = task.fields["ends"]
        left = "-:--:--" if ends is None else timedelta(seconds=max(0, int(ends - monotonic())))
        return Text(f"{left} left", style="progress.remaining")


@contextmanager
def jobs_bar(doing: str, database: Path) -> Iterator[Callable[["SweepProgress"], None]]:
    """Show how far jobs are; where they stop early, say that they can go on."""
    from privrl.experiments.workers import JobFailed, WorkersDied

    columns = (
        TextColumn(doing), BarColumn(), TextColumn("{task.fields[jobs]}"),
        TimeElapsedColumn(), _TimeLeft(),
    )  # fmt: skip
    now: SweepProgress | None = None
    began = monotonic()
    with Progress(*columns, console=ERR, transient=True) as progress_bar:
        task = progress_bar.add_task("", total=1.0, jobs="", ends=None)

        def show(progress: "SweepProgress") -> None:
            nonlocal now, began
            if now is None:
                began = monotonic()
                if progress.already:
                    ERR.print(f"{progress.already} of {progress.jobs} jobs were there already")
            now = progress
            share = progress.share
            progress_bar.update(
                task,
                completed=share,
                jobs=f"{progress.done} of {progress.jobs} jobs",
                ends=monotonic() + (monotonic() - began) * (1 / share - 1) if share else None,
            )

        try:
            yield show
        except (KeyboardInterrupt, JobFailed, WorkersDied) as stop:
            if now is not None:
                ERR.print(
                    f"[yellow]stopped:[/] {now.done} of {now.jobs} jobs are kept in "
                    f"{escape(str(database))}; the same command again computes the others.",
                    soft_wrap=True,
                )
            if isinstance(stop, KeyboardInterrupt):
                raise typer.Exit(130) from stop
            raise
