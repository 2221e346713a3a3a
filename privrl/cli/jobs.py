"""What commands that do jobs share: where they are done, how far they are, and saved specs."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from inspect import Parameter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from privrl.cli.options import options_of, told_by, values_of
from privrl.cli.terminal import ERR, INTERRUPTED, words
from privrl.files.plain import parse_json

if TYPE_CHECKING:
    from privrl.experiments.sweeps.comparison import Comparison
    from privrl.experiments.sweeps.progress import SweepProgress

SEVERAL = ("agent", "sampler", "schedule")  # of which every combination is taken

_BAR = 12  # characters: so all of it fits into 80
_FIRST = 1.0  # seconds, before which a pace tells nothing

Backend = Annotated[str, "loky (processes of this machine), sequential, dask or ray."]
Workers = Annotated[int | None, "How many; by default one for each core that jobs keep busy."]
Address = Annotated[
    str | None, "Of a Dask scheduler or Ray cluster; by default one is started here."
]


def spec_option(name: str) -> Any:
    """Return the option of a saved spec in place of a preset."""
    return typer.Option(
        help=f"In place of a preset: a {name}.json that a {name} wrote, or such a spec alone."
    )


def folder_option(name: str, other: str) -> Any:
    """Return the option of the folder, see `folder`."""
    return typer.Option(
        help=f"Folder for the files. By default results/{name}, of other presets "
        f"results/{name}-{other} and so on."
    )


Compared = TypeVar("Compared", bound="Comparison")


def comparison_options(
    kind: type[Compared], usual: str, base: Compared, panel: str
) -> list[Parameter]:
    """Return the options of a comparison and of its methods, with a usual preset in the help."""
    from privrl.agents.methods import Method

    own, of_methods = told_by(usual, [base]), told_by(usual, base.methods)
    return [
        *options_of(kind, overrides=True, told=own, panel=panel),
        *options_of(Method, several=SEVERAL, overrides=True, told=of_methods, panel="Methods"),
    ]


def folder(command: str, out: Path | None, preset: str | None, usual: str) -> Path:
    """Return where files go: by default each preset has its own folder."""
    if out is not None:
        return out
    return Path("results") / (command if preset in (None, usual) else f"{command}-{preset}")


def overridden(
    kind: type[Compared],
    made: Callable[[str], Compared],
    preset: str | None,
    spec: Path | None,
    usual: str,
    options: Mapping[str, Any],
) -> tuple[dict[str, str], Compared]:
    """Return the chosen preset or saved spec as an option, and it with what the options override.

    The usual preset is chosen by default.
    """
    from privrl.agents.methods import Method
    from privrl.experiments.names import check_no_module
    from privrl.experiments.sweeps.presets import override

    if spec is not None and preset is not None:
        raise ValueError("give --preset or --spec, not both.")
    base = {"preset": preset or usual} if spec is None else {"spec": str(spec)}
    begun = made(base["preset"]) if spec is None else _saved_spec(kind, spec)
    if spec is not None and options.get("env") is None:
        check_no_module(getattr(begun, "env", ""), spec.name)
    texts = {f"{name}s": options[f"{name}s"] for name in SEVERAL}
    return base, override(
        begun,
        **{name: None if text is None else words(text) for name, text in texts.items()},
        method=values_of(Method, options),
        spec=values_of(kind, options),
    )


def _saved_spec(kind: type[Compared], path: Path) -> Compared:
    """Read the spec of a file such as sweep.json, or a file that is a spec alone."""
    from privrl.files import files as _files

    try:
        data = parse_json(_files.read_bytes(path).decode())
    except ValueError as error:  # no JSON, or no text
        raise ValueError(
            f"spec must be a JSON file, got {str(path)!r}: {str(error).rstrip('.')}."
        ) from error
    whole = isinstance(data, dict) and "spec" in data
    return kind.from_dict(data["spec"] if whole else data)


class _Pace:
    """How fast jobs go: from when the first episodes were seen, without the start of workers."""

    def __init__(self) -> None:
        self._from: tuple[float, float, int] | None = None  # seconds, share, episodes
        self._began = 0.0

    def begin(self, now: float) -> None:
        """Jobs are given to workers now, in seconds of any clock."""
        self._began = now

    def text(self, progress: "SweepProgress", now: float) -> str:
        """Return episodes a second and the time left, where they can be told yet."""
        if self._from is None:
            if progress.done > progress.already:  # workers do not tell before the end of a job
                self._from = self._began, 0.0, 0
            elif progress.episodes:
                self._from = now, progress.share, progress.episodes
        since, share, episodes = self._from or (now, 0.0, 0)
        took, more = now - since, progress.share - share
        if took < _FIRST or more <= 0:
            return ""
        left = timedelta(seconds=round(took * (1 - progress.share) / more))
        return f"{_short((progress.episodes - episodes) / took)} a second, {left} left"


def _short(number: float) -> str:
    """Return three digits of a number of episodes: 3 million are 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


class _Following(Progress):
    """A bar that looks, each time it is drawn, how far jobs are."""

    look: Callable[[], None] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.look is not None:
            self.look()
        return super().get_renderables()


@contextmanager
def doing(
    what: str, database: Path, backend: str, workers: int | None, address: str | None
) -> Iterator[dict[str, Any]]:
    """Have how jobs are done; show how far they are, and if they stop early, how to resume."""
    from joblib import cpu_count  # type: ignore[import-untyped] # has no types

    from privrl.experiments.workers import JobFailed, WorkersDied

    told: SweepProgress | None = None
    pace = _Pace()
    columns = TextColumn(what), BarColumn(bar_width=_BAR), TextColumn("{task.fields[far]}")
    with _Following(*columns, console=ERR, transient=True, refresh_per_second=4) as shown:
        task = shown.add_task("", total=1.0, far="preparing")

        def look() -> None:
            if told is None:
                return
            now = told.now()
            far = f"{_short(now.episodes)} of {_short(now.of_episodes)} episodes"
            many = min(workers or cpu_count(), now.jobs - now.already)
            if not now.episodes and backend == "loky" and many > 1:
                far = f"starting {many} workers"
            elif rate := pace.text(now, monotonic()):
                far += f", {rate}"
            shown.update(task, completed=now.share, far=far)

        def show(progress: "SweepProgress") -> None:
            nonlocal told
            if told is None:
                pace.begin(monotonic())
                if progress.already:
                    ERR.print(f"{progress.already} of {progress.jobs} jobs were there already")
            told = progress

        shown.look = look
        try:
            yield {
                "backend": backend, "workers": workers, "address": address, "database": database,
                "on_progress": show,
            }  # fmt: skip
        except (KeyboardInterrupt, JobFailed, WorkersDied) as stop:
            if told is not None:
                ERR.print(
                    f"[yellow]stopped:[/] {told.done} of {told.jobs} jobs are kept in "
                    f"{escape(str(database))}; the same command again computes the others.",
                    soft_wrap=True,
                )
            if isinstance(stop, KeyboardInterrupt):
                sys.exit(INTERRUPTED)
            raise
