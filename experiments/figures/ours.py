"""Private reinforcement learning as no paper shows it: which method, how often, how many users."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.agents.methods import Method
from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.palette import look, shades
from privrl.experiments.sweeps import SweepSpec, plots, preset, run_sweep
from privrl.experiments.sweeps.presets import PUBLISHED
from privrl.experiments.sweeps.sweep import SweepResult
from privrl.numerics.printing import up_to_places as up

_DEFAULT = Method().label


def _run(spec: SweepSpec) -> pd.DataFrame:
    """Return one row for each run."""
    result = run_sweep(spec, backend="sequential")
    return result.results.assign(optimum=result.optimal_value, random=result.random_value)


def _shares(table: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Return mean shares of the optimum, and half-widths of their 95 % intervals."""
    groups = table.groupby(list(by), sort=False)["optimal_share"]
    return pd.DataFrame({"mean": groups.mean(), "half": 1.96 * groups.sem()}).reset_index()


# The frontier -------------------------------------------------------------------------------


def _frontier_spec(quick: bool) -> SweepSpec:
    """Return the very sweep of docs/frontier.md, or a small one."""
    size = {"runs": 4, "episodes": 600, "epsilons": (0.01, 1.0)}
    return preset("frontier-renyi-2", spec=size if quick else {})


def _compute_frontier(quick: bool) -> pd.DataFrame:
    return _run(_frontier_spec(quick))


def _draw_frontier(table: pd.DataFrame) -> Picture:
    size = {
        "runs": int(table.run.max()) + 1,
        "episodes": int(table.episodes.iloc[0]),
        "epsilons": tuple(sorted(e for e in table.epsilon.unique() if math.isfinite(e))),
    }
    spec = preset("frontier-renyi-2", spec=size)
    optimum, random = float(table.optimum.iloc[0]), float(table.random.iloc[0])
    result = SweepResult(table, pd.DataFrame(), optimum, random)
    return plots.reward_against_epsilon(result, spec)


def _caption_frontier(table: pd.DataFrame) -> str:
    shares = _shares(table, "method", "epsilon").set_index(["method", "epsilon"])["mean"]
    epsilons = sorted(e for e in table.epsilon.unique() if math.isfinite(e))

    def kept(method: str) -> str:
        return ", ".join(f"{shares[method, e]:.0%}" for e in epsilons)

    spent = table[np.isfinite(table.epsilon)].groupby("epsilon")["epsilon_delta"].max()
    costs = ", ".join(f"{up(spent[e])} for {e:g}" for e in epsilons)
    window = "diffuse, geometric:1.2, window 16"
    prior = "concentrated, geometric:1.2, window 16"
    free = "PSRL without privacy, geometric:1.05"
    return told(
        "ours-frontier",
        episodes=int(table.episodes.iloc[0]),
        steps=int(table.horizon.iloc[0]),
        epsilons=", ".join(f"{e:g}" for e in epsilons),
        default=kept(_DEFAULT),
        free=shares[free, math.inf],
        window=kept(window),
        prior=kept(prior),
        every=kept("diffuse, every-episode"),
        local=kept("local-counts, geometric:1.1"),
        random=shares["random policy", math.inf],
        delta=table.delta.iloc[0],
        costs=costs,
        runs=int(table.run.max()) + 1,
    )


OURS_FRONTIER = Figure("ours-frontier", _compute_frontier, _draw_frontier, _caption_frontier)


# Schedules ----------------------------------------------------------------------------------

_RATIOS = (1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
_NOISY, _DIFFUSE, _FREE = "noisy counts", "diffuse", "without privacy"
_SCHEDULED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (_NOISY, "noisy-counts", {}),
    (_DIFFUSE, "diffuse", {"alpha": PUBLISHED["alpha"], "reward_share": 0.3}),
    (_FREE, "non-private", {}),
)


def _compute_schedule(quick: bool) -> pd.DataFrame:
    ratios = (1.02, 1.2, 4.0) if quick else _RATIOS
    schedules = [f"geometric:{ratio:g}" for ratio in ratios]
    methods = [
        Method(sampler=sampler, schedule=schedule, label=f"{name}; {schedule}", **prior)
        for schedule in [*schedules, "every-episode"]
        for name, sampler, prior in _SCHEDULED
        if schedule != "every-episode" or sampler != "noisy-counts"
    ]
    runs, episodes = (5, 1000) if quick else (40, 3000)
    spec = SweepSpec(
        methods=tuple(methods), epsilons=(0.1, 1.0), renyi_order=2.0, runs=runs, episodes=episodes
    )
    table = _run(spec)
    return table.assign(method=table.method.str.split(";").str[0])


def _draw_schedule(table: pd.DataFrame) -> Picture:
    picture, axes = panels(2, sharey=True)
    looks = {_FREE: "no privacy", _NOISY: "gaussian", _DIFFUSE: "diffuse"}
    for each, epsilon in zip(axes, (0.1, 1.0), strict=True):
        some = _shares(table[table.epsilon.isin([epsilon, np.inf])], "method", "draws")
        for name, method in looks.items():
            curve = some[some.method == name].sort_values("draws")
            each.errorbar(curve.draws, curve["mean"], curve.half, ms=4, label=name, **look(method))
        each.set(xscale="log", ylim=(0, 1.08))
        each.set_title(f"ε = {epsilon:g} nats, Rényi order 2, whole run", fontsize="medium")
        each.set_xlabel("draws in the run; the last, before every episode")
    axes[0].set_ylabel("reward, share of the optimum")
    axes[0].legend(fontsize="small", loc="center right")
    note(
        picture,
        f"{int(table.episodes.iloc[0])} episodes of RiverSwim; 95 % confidence; "
        "privacy unit: replace one step",
    )
    return picture


def _caption_schedule(table: pd.DataFrame) -> str:
    shares = _shares(table, "method", "epsilon", "draws")

    def by(order: str, name: str, epsilon: float) -> pd.DataFrame:
        some = shares[(shares.method == name) & (shares.epsilon == epsilon)]
        return some.sort_values(order)

    words = []
    for epsilon in (0.1, 1.0):
        diffuse, noisy = (by("mean", name, epsilon).iloc[-1] for name in (_DIFFUSE, _NOISY))
        every, fine = (by("draws", name, epsilon).iloc[-1] for name in (_DIFFUSE, _NOISY))
        found = {"every": every, "diffuse": diffuse, "noisy": noisy, "fine": fine}
        words.append(told("ours-schedule, at each budget", epsilon=epsilon, **found))
    free, runs = by("draws", _FREE, math.inf).iloc[0], int(table.run.max()) + 1
    return told("ours-schedule", words="; ".join(words), free=free, runs=runs)


OURS_SCHEDULE = Figure("ours-schedule", _compute_schedule, _draw_schedule, _caption_schedule)


# Users --------------------------------------------------------------------------------------


_NOTHING, _SUPPORT = "nothing public", "public: possible next states"


def _compute_users(quick: bool) -> pd.DataFrame:
    users = (1_000, 100_000, 10_000_000) if quick else [10**n for n in range(3, 10)]
    spec = SweepSpec(
        methods=(
            Method(label=_NOTHING),
            Method(support=True, label=_SUPPORT),
            Method(sampler="non-private", label=_FREE),
        ),
        epsilons=(0.1, 1.0),
        renyi_order=2.0,
        relation="replace-episode",
        runs=5 if quick else 40,
    )
    return pd.concat([_run(replace(spec, episodes=n)) for n in users], ignore_index=True)


def _draw_users(table: pd.DataFrame) -> Picture:
    picture, (left, right) = panels(2)
    shares = _shares(table, "method", "epsilon", "episodes")
    light, dark = shades(2)
    noisy, free = look("gaussian"), look("no privacy")
    looks = {
        (_NOTHING, 0.1): noisy | {"color": light},
        (_NOTHING, 1.0): noisy | {"color": dark},
        (_SUPPORT, 0.1): noisy | {"color": light, "linestyle": "--", "mfc": "white"},
        (_SUPPORT, 1.0): noisy | {"color": dark, "linestyle": "--", "mfc": "white"},
        (_FREE, math.inf): free,
    }
    for (method, epsilon), drawn in looks.items():
        curve = shares[(shares.method == method) & (shares.epsilon == epsilon)]
        label = method if math.isinf(epsilon) else f"ε = {epsilon:g}, {method}"
        x, y, half = (curve[name].to_numpy() for name in ("episodes", "mean", "half"))
        shown: dict[str, Any] = {"ms": 4.5, "capsize": 2, "elinewidth": 0.9} | drawn
        left.errorbar(x, y, half, label=label, **shown)
        right.errorbar(x, 1 - y, half, **shown)
    left.set(xscale="log", ylim=(0, 1.05), ylabel="reward, share of the optimum")
    right.set(xscale="log", yscale="log", ylim=(1e-6, 1.5))
    right.set_ylabel("share lost (arrowheads: 0 or below)")
    for each in (left, right):
        each.set_xlabel("users, each one episode of 30 steps")
    legend(picture, left, "outside lower center", ncols=3, fontsize="small")
    picture.suptitle(
        "RiverSwim; ε for the whole run, Rényi order 2, nats; bars: 95 % confidence\n"
        "privacy unit: one user (replace an episode)",
        fontsize="medium",
    )
    return picture


def _caption_users(table: pd.DataFrame) -> str:
    shares = _shares(table, "method", "epsilon", "episodes")
    mean = shares.set_index(["method", "epsilon", "episodes"])["mean"]
    users = sorted(table.episodes.unique())
    some = "; ".join(
        f"{n:,} users: {mean[_NOTHING, 0.1, n]:.1%} at ε = 0.1, {mean[_NOTHING, 1.0, n]:.1%} at 1, "
        f"{mean[_FREE, math.inf, n]:.1%} without privacy"
        for n in users
        if n <= 1_000_000
    )
    most = users[-1]
    last = table[(table.episodes == most) & (table.epsilon == 1.0)].groupby("method")
    least = last["optimal_share"].min()
    spent = table[np.isfinite(table.epsilon)].groupby("epsilon")["epsilon_delta"].max()
    return told(
        "ours-users",
        some=some,
        delta=table.delta.iloc[0],
        low=up(spent[0.1]),
        high=up(spent[1.0]),
        most=most,
        mean=mean[_NOTHING, 1.0, most],
        worst=least[_NOTHING],
        worst_known=least[_SUPPORT],
        runs=int(table.run.max()) + 1,
    )


OURS_USERS = Figure("ours-users", _compute_users, _draw_users, _caption_users)
