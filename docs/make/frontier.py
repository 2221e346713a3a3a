"""Make the tables of docs/results/frontier.md, and the pictures of docs/frontier.md.

Run with ``python docs/make/frontier.py``; it takes a few minutes. Pass names of tables, such as
``users``, to make those alone. With ``--redraw``, ``frontier`` and ``policy release`` use the
numbers kept in docs/numbers.
"""

from collections.abc import Callable, Sequence
from itertools import product

import gymnasium as gym
import numpy as np
import pages
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privrl.accounting import ApproxDP
from privrl.agents.policy_release import PolicyMechanism, policy_value
from privrl.envs import TabularMDP, riverswim
from privrl.experiments import Method, SweepSpec, run_sweep
from privrl.experiments.palette import GREY, shades
from privrl.experiments.sweeps import plots, preset
from privrl.experiments.sweeps.sweep import SweepResult

RUNS = 100
EPSILONS = (0.01, 0.1, 1.0)
_KEPT = [
    *("method", "agent", "sampler", "epsilon", "spent", "epsilon_delta", "run", "total_reward"),
    "optimal_share",
]
DELTA = 1e-5


def main() -> None:
    """Write the pictures, and the tables between the markers of the page."""
    pages.main(
        "results/frontier.md",
        {
            "frontier": _frontier,
            "choices": _choices,
            "rewards beside": _rewards_beside,
            "users": _users,
            "public facts": _public_facts,
            "environments": _environments,
            "policy release": _policy_release,
        },
    )


def _frontier() -> str:
    """Draw and tabulate the sweep of the gallery's ours-frontier."""
    spec, mdp = preset("frontier-renyi-2"), riverswim()
    results = pages.numbers("frontier", lambda: run_sweep(spec).results[_KEPT])
    result = SweepResult(results, pd.DataFrame(), mdp.optimal_value(), mdp.random_value())
    pages.save(plots.reward_against_epsilon(result, spec), pages.IMAGES / "frontier.png")
    spent = results.groupby("epsilon")["epsilon_delta"].max()
    names = [f"ε = {e:g} ({_up(spent[e])})" for e in spec.epsilons]
    return _table(results, names, spec.epsilons)


def _choices() -> str:
    methods = (
        Method(label="threshold 1.5, a third for rewards"),
        Method(threshold=1.0, label="threshold 1"),
        Method(threshold=0.0, label="no threshold"),
        Method(reward_share=0.2, label="a fifth for rewards"),
        Method(reward_share=0.4, label="two fifths for rewards"),
        Method(resamples="every-episode", label="sampled afresh before every episode"),
    )
    rng = np.random.default_rng(0)
    dense = TabularMDP(
        rng.dirichlet(np.full(10, 0.3), size=(10, 3)), rng.random((10, 3)), np.full(10, 0.1), 30
    )
    tables = []
    for name, mdp in (("RiverSwim", riverswim()), ("dense", dense)):
        results = run_sweep(
            SweepSpec(methods=methods, epsilons=EPSILONS, renyi_order=2.0, runs=RUNS), mdp
        ).results
        names = [f"ε = {e:g}" for e in EPSILONS]
        tables.append(_table(results, names, EPSILONS, name))
    return "\n\n".join(tables)


def _rewards_beside() -> str:
    methods = (
        Method(label="everything in ε"),
        Method(reward_epsilon=0.5, label="ε for transitions, 0.5 more for rewards"),
    )
    result = run_sweep(SweepSpec(methods=methods, epsilons=EPSILONS, renyi_order=2.0, runs=RUNS))
    return _table(result.results, [f"ε = {e:g}" for e in EPSILONS], EPSILONS)


def _users() -> str:
    rows = ["| users | ε = 0.1 | ε = 1 |", "|---|---|---|"]
    for users in (10_000, 100_000, 1_000_000):
        spec = SweepSpec(
            epsilons=(0.1, 1.0),
            renyi_order=2.0,
            episodes=users,
            relation="replace-episode",
            runs=RUNS,
        )
        cells = run_sweep(spec).results.groupby("epsilon")["optimal_share"]
        rows.append(f"| {users:,} | " + " | ".join(map(_share, cells.mean(), cells.sem())) + " |")
    return "\n".join(rows)


def _public_facts() -> str:
    methods = (
        Method(label="nothing"),
        Method(support=True, label="which next states are possible"),
        Method(rewards="known", label="rewards"),
        Method(support=True, rewards="known", label="both"),
    )
    result = run_sweep(SweepSpec(methods=methods, epsilons=EPSILONS, renyi_order=2.0, runs=RUNS))
    return _table(result.results, [f"ε = {e:g}" for e in EPSILONS], EPSILONS, "public")


def _environments() -> str:
    tasks = [
        ("FrozenLake-v1", 100, 3000),
        ("FrozenLake8x8-v1", 200, 3000),
        ("CliffWalking-v1", 100, 3000),
        ("Taxi-v4", 200, 3000),
        ("Taxi-v4", 200, 300_000),
    ]
    epsilons = (0.1, 1.0, 10.0)
    rows = [
        "| environment | steps | episodes | optimum | random policy | "
        + " | ".join(f"ε = {e:g}" for e in epsilons)
        + " | no privacy |",
        "|---" * 9 + "|",
    ]
    for name, horizon, episodes in tasks:
        mdp = TabularMDP.from_gymnasium(gym.make(name), horizon)
        methods = (
            Method(support=True),
            Method(support=True, sampler="non-private"),
        )
        spec = SweepSpec(
            env=name,
            methods=methods,
            epsilons=epsilons,
            renyi_order=2.0,
            horizon=horizon,
            episodes=episodes,
            runs=10 if episodes < 10_000 else 2,
        )
        results = run_sweep(spec, mdp).results
        means = results.groupby(["method", "epsilon"], sort=False)["total_reward"].mean()
        uniform = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
        cells = [f"{float(policy_value(mdp, uniform)):.4g}"]
        cells += [f"{mean / spec.episodes:.4g}" for mean in means]
        rows.append(
            f"| {name} | {horizon} | {episodes:,} | {mdp.optimal_value():.4g} | "
            + " | ".join(cells)
            + " |"
        )
    return "\n".join(rows)


def _policy_release() -> str:
    values = pages.numbers("policy_release", _released_values)
    tasks = list(values["task"].unique())
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        _draw_released(axes, values[values["task"] == name])
        axes.set_title(name, fontsize="medium")
    figure.axes[0].set_ylabel("value of the released policy\n(reward of an episode)")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
        frameon=False, fontsize="small",
    )  # fmt: skip
    figure.suptitle(
        "Releasing a policy; privacy unit: one state's row, moved by b in 1-norm",
        x=0.01, ha="left", fontsize="medium",
    )  # fmt: skip
    pages.save(figure, pages.IMAGES / "policy_release.png")
    shown = values[values["shown"]]
    rows = [
        [*key, *("none meets it" if np.isnan(v) else f"{v:.3g}" for v in line["value"])]
        for key, line in shown.groupby(["task", "distance", "taken"], sort=False)
    ]
    header = "environment | distance | taken | " + " | ".join(f"ε = {e:g}" for e in _SHOWN)
    return pages.table(header, [[k, f"{d:g}", *rest] for k, d, *rest in rows])


_SHOWN = (1.0, 3.0, 10.0)  # in the table


def _released_values() -> pd.DataFrame:
    tasks = {
        "RiverSwim": riverswim(),
        "FrozenLake": TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"), 100),
        "CliffWalking": TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"), 100),
    }
    rows = []
    for (name, mdp), distance in product(tasks.items(), (0.2, 2.0)):
        policy = np.eye(mdp.n_actions)[mdp.plan()[0][0]]
        best = float(policy_value(mdp, policy))
        for words, take in (("likeliest action", _likeliest), ("as drawn", np.asarray)):
            for shown, epsilons in ((False, np.geomspace(0.1, 30, 14)), (True, _SHOWN)):
                for e in epsilons:
                    value = _value(mdp, policy, float(e), distance, take)
                    rows.append((name, distance, words, shown, e, value, best, mdp.random_value()))
    names = ["task", "distance", "taken", "shown", "epsilon", "value", "best", "random"]
    return pd.DataFrame(rows, columns=names)


def _draw_released(axes: Axes, values: pd.DataFrame) -> None:
    lines = values[~values["shown"]].groupby(["distance", "taken"], sort=False)
    distances = sorted(values["distance"].unique())
    for (distance, taken), line in lines:
        dash = "-" if taken == "likeliest action" else "--"
        ink = shades(len(distances))[distances.index(distance)]
        label = f"b = {distance:g}, {taken}"
        axes.plot(line["epsilon"], line["value"], dash, color=ink, label=label)
    axes.axhline(values["best"].iloc[0], color=GREY, lw=1, label="the policy itself")
    axes.axhline(values["random"].iloc[0], color=GREY, lw=1, ls=":", label="uniform")
    axes.set_xscale("log")
    axes.set_xlabel(f"ε in nats, δ = {DELTA:g}")
    axes.grid(alpha=0.25)
    if values["best"].iloc[0] < 0:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(-4000, -9)


def _likeliest(
    policy: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the policy that takes each row's likeliest action: free post-processing.

    A deterministic policy was mixed and blurred only to be released; this undoes most of it.
    """
    return np.eye(policy.shape[-1])[policy.argmax(axis=-1)]


def _value(
    mdp: TabularMDP,
    policy: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    epsilon: float,
    distance: float,
    take: Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
) -> float:
    """Return the mean value at the best of a few mixings; NaN where none meets the target."""
    rng, best = np.random.default_rng(0), -np.inf
    for mixing in (0.03, 0.06, 0.12, 0.25, 0.45, 0.65, 0.8, 0.9, 0.95, 0.98):
        try:
            mechanism = PolicyMechanism.calibrated(
                ApproxDP(epsilon, DELTA), n_actions=mdp.n_actions, mixing=mixing, distance=distance
            )
        except ValueError:
            continue  # no weight meets the target with so little mixing
        drawn = mechanism.release(np.broadcast_to(policy, (200, *policy.shape)), rng)
        best = max(best, float(policy_value(mdp, take(drawn)).mean()))
    return best if np.isfinite(best) else np.nan


def _table(
    results: pd.DataFrame, names: Sequence[str], epsilons: Sequence[float], first: str = "method"
) -> str:
    rows = [f"| {first} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for label, cells in results.groupby("method", sort=False):
        shares = cells.groupby("epsilon")["optimal_share"].agg(["mean", "sem"])
        if np.isinf(shares.index).all():
            mean, sem = shares.iloc[0]
            row = [_share(mean, sem)] + [""] * (len(epsilons) - 1)
        else:
            row = [_share(*shares.loc[e]) for e in epsilons]
        rows.append(f"| {label} | " + " | ".join(row) + " |")
    return "\n".join(rows)


def _share(mean: float, sem: float) -> str:
    return f"{mean:.3f} ± {1.96 * sem:.3f}"


def _up(epsilon: float) -> str:
    return f"{np.ceil(epsilon * 100) / 100:.2f}"


if __name__ == "__main__":
    main()
