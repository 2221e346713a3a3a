"""privrl sweep."""

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
from privrl.cli.terminal import ERR, OUT, command_line, print_files
from privrl.numerics.printing import up

if TYPE_CHECKING:
    from privrl.experiments.sweeps import SweepSpec
    from privrl.experiments.sweeps.sweep import SweepResult

_MOST_COLUMNS = 5  # budgets side by side on 80 characters
_PRESET = "quick"  # where none is named
_DATABASE = "sweep.sqlite"
_FILES = (
    "results.csv",
    "curves.csv",
    "results.parquet",
    "curves.parquet",
    "reward_vs_epsilon.png",
    "regret_vs_epsilon.png",
    "learning_curves.png",
    "sweep.json",
)


def _options() -> list[Parameter]:
    from privrl.experiments.sweeps import SweepSpec, preset

    return jobs.comparison_options(SweepSpec, _PRESET, preset(_PRESET), "Sweep")


@takes_options(_options)
def sweep(
    answer: dict[str, Any],
    *,
    preset: str | None = None,
    spec: Annotated[Path | None, jobs.spec_option("sweep")] = None,
    backend: Backend = "loky",
    workers: Workers = None,
    address: Address = None,
    parquet: Annotated[bool, typer.Option("--parquet")] = False,
    out: Annotated[Path | None, jobs.folder_option("sweep", "frontier")] = None,
    force: Force = False,
    report: WithReport = False,
    **options: Any,
) -> None:
    """Sweep reward against privacy budget, for several methods at once.

    Prints a table and writes results.csv, curves.csv, reward_vs_epsilon.png,
    regret_vs_epsilon.png, learning_curves.png and sweep.json. What is finished is kept in
    sweep.sqlite at once: the same command again, or with --force one with more methods or
    budgets, computes only what is missing. So does one with more runs, but for a last block that
    was not full.

    Parameters
    ----------
    preset
        quick (the default) or frontier (every method), in (epsilon, delta); quick-renyi-2,
        frontier-renyi-2 and paper-renyi-2 (Ponnoprat's setting, not a guarantee), in Renyi
        divergence of order 2. Other options override parts of it.
    parquet
        Also write Parquet tables.
    """
    from privrl.experiments import sweeps
    from privrl.files import files as _files
    from privrl.numerics.randomness import SEEDED

    base, todo = jobs.overridden(sweeps.SweepSpec, sweeps.preset, preset, spec, _PRESET, options)
    out = jobs.folder("sweep", out, preset, _PRESET)
    outputs.check_same(out, _FILES, of="sweep.json", spec=todo.to_dict(), force=force)
    if parquet:
        _files.check_parquet()
    if options["horizon"] is None:
        _say_horizon(todo)
    database = out / _DATABASE
    with jobs.doing("sweeping", database, backend, workers, address) as how:
        result = sweeps.run_sweep(todo, **how)
    saved = {
        "command": command_line("sweep", base | options),
        "spec": todo.to_dict(),
        "optimal_value": result.optimal_value,
        "random_value": result.random_value,
        "randomness": SEEDED,
    }
    files = _tables(result, parquet=parquet) | _pictures(result, todo)
    written = _files.save_all(out, files, ("sweep.json", saved))
    _print_sweep(result.results, result.optimal_value, todo)
    print_files([*written, database])
    answer |= {
        "optimal_value": result.optimal_value,
        "random_value": result.random_value,
        "relation": todo.relation,
        "renyi_order": todo.renyi_order,
        "delta": todo.delta,
        "means": _means(result.results),
        "files": named([*written, database]),
    }
    if report:
        answer.update(write_report(out))


def _say_horizon(spec: "SweepSpec") -> None:
    """Say so if episodes are of other lengths than the environment's own."""
    from privrl.envs.toy_text import episode_limit
    from privrl.experiments.names import make_env

    env = make_env(spec.env)
    try:
        own = episode_limit(env)
    finally:
        env.close()
    if own is not None and own != spec.horizon:
        ERR.print(
            f"[yellow]note:[/] the sweep plays {spec.horizon} steps of an episode, and {spec.env} "
            f"has {own}; --horizon {own} plays all."
        )


def _tables(result: "SweepResult", *, parquet: bool) -> dict[str, Any]:
    """Return what writes the tables, by the names of the files."""
    from privrl.files import files as _files

    tables = {"results": result.results, "curves": result.curves}
    files = {f"{name}.csv": _files.table_writer(table) for name, table in tables.items()}
    if parquet:
        files |= {f"{name}.parquet": _files.parquet_writer(tables[name]) for name in tables}
    return files


def _pictures(result: "SweepResult", spec: "SweepSpec") -> dict[str, Any]:
    """Return what writes the pictures, by the names of the files."""
    from privrl.experiments.sweeps import plots
    from privrl.files import files as _files

    drawn = {
        "reward_vs_epsilon.png": plots.reward_against_epsilon,
        "regret_vs_epsilon.png": plots.regret_against_epsilon,
        "learning_curves.png": plots.learning_curves,
    }
    return {name: _files.figure_writer(draw(result, spec)) for name, draw in drawn.items()}


def _means(results: Any) -> list[dict[str, Any]]:
    """Return what each method earned at each budget, in the mean of an episode."""
    rewards = results.assign(reward=results["total_reward"] / results["episodes"])
    groups = rewards.groupby(["method", "epsilon"], sort=False)
    means = groups[["reward", "draws", "epsilon_delta"]].agg(
        {"reward": "mean", "draws": "first", "epsilon_delta": "max"}
    )
    return [
        {
            "method": method,
            "epsilon": amount(epsilon),
            "epsilon_delta": amount(row["epsilon_delta"]),
            "draws": int(row["draws"]),
            "reward": float(row["reward"]),
        }
        for (method, epsilon), row in means.iterrows()
    ]


def _print_sweep(results: Any, optimum: float, spec: "SweepSpec") -> None:
    """Print the reward kept: a column for each budget, or a row if they are many."""
    from privrl.experiments.specs import budget_name, unit_name

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
        if spec.renyi_order is not None:
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
        f"Budgets cover the whole run: ε in nats, {budget_name(spec.delta, spec.renyi_order)}, "
        f"{unit_name(spec.relation)}; ∞ is no privacy. Means of {runs} run{'s' * (runs > 1)} of "
        f"{first.episodes} episodes of {first.horizon} steps{band}."
    )
    if first.relation == "paper-step":
        OUT.print("[yellow]Not a guarantee:[/] the paper's sensitivity is too small.")
    beyond = results["spent"] > results["epsilon"] * (1 + 1e-9)
    if beyond.any():
        more = (results["spent"] - results["epsilon"])[beyond].max()
        OUT.print(f"Rewards had a budget beside that: up to {up(more)} more was spent.")
