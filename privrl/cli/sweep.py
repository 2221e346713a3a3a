"""privrl sweep."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from inspect import Parameter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from privrl.cli.options import options_of, takes_options, values_of
from privrl.cli.terminal import ERR, OUT, command_line, friendly, print_files, words
from privrl.numerics.printing import up

if TYPE_CHECKING:
    from privrl.experiments.sweeps import SweepProgress, SweepResult, SweepSpec

_SEVERAL = ("agent", "sampler", "schedule")  # of which a sweep takes every combination
_MOST_COLUMNS = 5  # budgets side by side on 80 characters
_DATABASE = "sweep.sqlite"


def _options() -> list[Parameter]:
    from privrl.experiments.methods import Method
    from privrl.experiments.sweeps import SweepSpec

    return [
        *options_of(SweepSpec, overrides=True, panel="Sweep"),
        *options_of(Method, several=_SEVERAL, overrides=True, panel="Methods"),
    ]


@takes_options(_options)
def sweep(
    *,
    preset: Annotated[
        str | None,
        typer.Option(
            help="quick (the default); paper (Ponnoprat's setting, not a guarantee); frontier "
            "(every method). Other options override parts of it."
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            help="In place of a preset: a sweep.json that a sweep wrote, or such a spec alone."
        ),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(help="loky (processes of this machine), sequential, dask or ray."),
    ] = "loky",
    workers: Annotated[
        int | None, typer.Option(help="How many; by default one for each core.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Of a Dask scheduler or Ray cluster; by default one is started here."),
    ] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write Parquet tables too.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/sweep"),
    **options: Any,
) -> None:
    """Sweep reward against privacy budget, for several methods at once.

    Prints a table and writes results.csv, curves.csv, reward_vs_epsilon.png,
    regret_vs_epsilon.png, learning_curves.png and sweep.json. What is finished is kept in
    sweep.sqlite at once: the same command again, or one with more methods or budgets, computes
    only what is missing. So does one with more runs, but for a last block that was not full.
    """
    with friendly():
        from privrl import _files
        from privrl.experiments.sweeps import run_sweep

        if spec is not None and preset is not None:
            raise ValueError("give --preset or --spec, not both.")
        base = {"preset": preset or "quick"} if spec is None else {"spec": str(spec)}
        todo = _overridden(base, options)
        _files.check_folder(out)
        if parquet:
            _files.check_parquet()
        with _sweep_bar(out / _DATABASE) as on_progress:
            result = run_sweep(
                todo,
                backend=backend,
                workers=workers,
                address=address,
                database=out / _DATABASE,
                on_progress=on_progress,
            )
        saved = {
            "command": command_line("sweep", base | options),
            "spec": todo.to_dict(),
            "optimal_value": result.optimal_value,
        }
        files = _tables(result, parquet=parquet) | _pictures(result, todo)
        written = _files.save_all(out, files | {"sweep.json": _files.json_writer(saved)})
        _print_sweep(result.results, result.optimal_value)
        print_files([*written, out / _DATABASE])


def _overridden(base: dict[str, str], options: dict[str, Any]) -> "SweepSpec":
    """Return the preset, or the saved spec, with what the options override."""
    from privrl.experiments.methods import Method
    from privrl.experiments.sweeps import SweepSpec
    from privrl.experiments.sweeps.presets import override, preset

    texts = {f"{name}s": options[f"{name}s"] for name in _SEVERAL}
    return override(
        preset(base["preset"]) if "preset" in base else _saved_spec(Path(base["spec"])),
        **{name: None if text is None else words(text) for name, text in texts.items()},
        method=values_of(Method, options),
        spec=values_of(SweepSpec, options),
    )


def _saved_spec(path: Path) -> "SweepSpec":
    """Read the spec of a sweep.json, or a file that is a spec alone."""
    from privrl.experiments.sweeps import SweepSpec

    try:
        data = json.loads(path.read_text())
    except ValueError as error:  # no JSON, or no text
        raise ValueError(f"spec must be a JSON file, got {str(path)!r}: {error}.") from error
    whole = isinstance(data, dict) and "spec" in data
    return SweepSpec.from_dict(data["spec"] if whole else data)


def _tables(result: "SweepResult", *, parquet: bool) -> dict[str, Any]:
    """Return what writes the tables, by the names of the files."""
    from privrl import _files

    tables = {"results": result.results, "curves": result.curves}
    files = {f"{name}.csv": _files.table_writer(table) for name, table in tables.items()}
    if parquet:
        files |= {f"{name}.parquet": _files.parquet_writer(tables[name]) for name in tables}
    return files


def _pictures(result: "SweepResult", spec: "SweepSpec") -> dict[str, Any]:
    """Return what writes the pictures, by the names of the files."""
    from privrl import _files
    from privrl.experiments.sweeps import plots

    drawn = {
        "reward_vs_epsilon.png": plots.reward_against_epsilon,
        "regret_vs_epsilon.png": plots.regret_against_epsilon,
        "learning_curves.png": plots.learning_curves,
    }
    return {name: _files.figure_writer(draw(result, spec)) for name, draw in drawn.items()}


def _print_sweep(results: Any, optimum: float) -> None:
    """Print the reward kept: a column for each budget, or a row where there are many."""
    first, share = results.iloc[0], optimum > 0
    reward = results["optimal_share"] if share else results["total_reward"] / first.episodes
    groups = results.assign(kept=reward).groupby(["method", "epsilon"], sort=False)
    means = groups["kept"].mean()
    draws = results.groupby("method")["draws"].first()
    spent = results.groupby("epsilon")["epsilon_delta"].max()
    delta = f"ε at δ = {float(first.delta)!r}"

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", overflow="fold")
    wide = len(spent) <= _MOST_COLUMNS + 1
    for name in ("draws", *(map(up, spent.index) if wide else ("ε", delta, "reward"))):
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        for method, rows in means.groupby(level=0, sort=False):
            kept = rows.droplevel(0)
            row = (f"{kept[e]:.3f}" if e in kept else "" for e in spent.index)
            table.add_row(method, f"{draws[method]}", *row)
        table.add_section()
        table.add_row(f"{delta}, the most", "", *map(up, spent))
    else:
        for (method, epsilon), mean in means.items():
            budget = (up(epsilon), up(spent[epsilon]))
            table.add_row(method, f"{draws[method]}", *budget, f"{mean:.3f}")
    what = "Share of the optimal reward" if share else "Reward of an episode"
    OUT.print(f"{what} at each privacy budget ε")
    OUT.print(table)

    runs = results["run"].nunique()
    error = groups["kept"].sem().max()
    band = f"; 95 % confidence half-widths are at most {1.96 * error:.2g}" if runs > 1 else ""
    OUT.print(
        f"Budgets cover the whole run: Rényi divergence of order {first.order:.12g}, in nats; ∞ is "
        f"no privacy. Privacy unit: {first.relation}. Means of {runs} run{'s' * (runs > 1)} of "
        f"{first.episodes} episodes of {first.horizon} steps{band}."
    )
    if first.relation == "paper-step":
        OUT.print("[yellow]Not a guarantee:[/] the paper's sensitivity is too small.")
    beyond = results["spent"] > results["epsilon"] * (1 + 1e-9)
    if beyond.any():
        more = (results["spent"] - results["epsilon"])[beyond].max()
        OUT.print(f"Rewards had a budget beside that: up to {up(more)} more was spent.")


class _TimeLeft(ProgressColumn):
    """When a sweep ends if it goes on as it did; Rich's own column looks at its last steps only."""

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds."""
        ends = task.fields["ends"]
        left = "-:--:--" if ends is None else timedelta(seconds=max(0, int(ends - monotonic())))
        return Text(f"{left} left", style="progress.remaining")


@contextmanager
def _sweep_bar(database: Path) -> Iterator[Callable[["SweepProgress"], None]]:
    """Show how far a sweep is; where it stops early, say that it can go on."""
    from privrl.experiments.workers import JobFailed, WorkersDied

    columns = (
        TextColumn("sweeping"), BarColumn(), TextColumn("{task.fields[jobs]}"),
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
