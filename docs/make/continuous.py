# ruff: noqa: E501 -- lines of the page have 120 columns
"""Make docs/results/continuous.md, its CSV and its picture: returns of continuous models.

    python docs/make/continuous.py                 # the page and the picture from the CSV
    python docs/make/continuous.py --seeds 20 21 22  # measures first what the CSV lacks
    python docs/make/continuous.py --seeds 23 24 --tasks Pendulum --persons 10000 --kinds bins
    python docs/make/continuous.py --seeds 20 --logged random sticky mediocre mixture --persons 10000
    python docs/make/continuous.py --check         # are returns monotone in epsilon?
    python docs/make/continuous.py --speed         # a million rows, beside ordinary least squares

Measurements are appended to the CSV one by one, so the command resumes where it stopped.
"""

import argparse
import csv
import dataclasses
import math
import resource
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise, product
from pathlib import Path
from statistics import mean, stdev

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from pages import fill

from privrl.continuous import ContinuousLog, Number, fit_continuous_model
from privrl.continuous.encoding import bins_of, targets
from privrl.continuous.features import Basis
from privrl.continuous.model import ContinuousModel
from privrl.continuous.planning import Predicted
from privrl.continuous.policy import plan_continuous
from privrl.data.logs.log import CUT, Log
from privrl.numerics.typing import FloatArray, IntArray
from privrl.offline import fit_policy

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from tasks import TASKS, Act, Task

DOCS = Path(__file__).parents[1]
CSV = DOCS / "results" / "continuous.csv"
FIELDS = ("task", "persons", "logged", "epsilon", "rewards", "seed", "value", "fit_seconds")
PRIVATE = ("5.1", "1.0", "0.1")
EPSILONS = ("none", *PRIVATE)
MAIN = ("Pendulum", "MountainCar", "CartPole", "Acrobot")
SIZES = {"Pendulum": (1000, 10000, 30000), "MountainCar": (10000, 30000), "CartPole": (10000, 30000),
         "Acrobot": (10000, 100000)}  # fmt: skip
#: Ways of logging; the first is each task's own. A mediocre controller plans without privacy from
#: 200 persons, and half of its actions are random.
LOGGED = ("usual", "random", "sticky", "mediocre", "mixture")
#: Mean returns of the prototype, 3 or 4 seeds, from its table; public rewards and ends.
PROTOTYPE = {
    ("Pendulum", 1000): ("-154", "-356", "-1254"),
    ("Pendulum", 10000): ("-139", "-140", "-442"),
    ("Pendulum", 30000): ("-143", "-136", "-175"),
    ("MountainCar", 10000): ("-107", "-102", "-171"),
    ("MountainCar", 30000): ("-104", "-100", "-151"),
    ("CartPole", 10000): ("320", "344", "90"),
    ("CartPole", 30000): ("439", "499", "170"),
    ("Acrobot", 10000): ("-86 (epsilon 10)", "-500", "-500"),
}
GOALS = {
    ("Pendulum", 1000): ("-150", "-250", ""),
    ("Pendulum", 10000): ("-142", "-143", "-300"),
    ("Pendulum", 30000): ("-141", "-142", "-165"),
    ("MountainCar", 10000): ("-101", "-102", "-125"),
    ("MountainCar", 30000): ("-100", "-101", "-115"),
    ("CartPole", 10000): ("490", "450", "150"),
    ("CartPole", 30000): ("500", "499", "250"),
    ("Acrobot", 100000): ("-95", "-120", ""),
}
KINDS = ("public", "learned", "bins")
_EPISODES = 200
_BINS = {1: 24, 2: 12, 3: 8, 4: 6}  # of each number, by their number


def _core(task: Task) -> FloatArray:
    """Return where data of a small log are."""
    log = task.log(300, np.random.default_rng(1))
    return fit_continuous_model(log, private=False, order=2).core


def logged(task: Task, persons: int, how: str, rng: np.random.Generator) -> ContinuousLog:
    """Return a log of random actions, or of a controller that takes half of the actions."""
    if how in ("random", "sticky"):
        task = dataclasses.replace(task, repeat=0.0 if how == "random" else 0.8)
    if how not in ("mediocre", "mixture"):
        return task.log(persons, rng)
    few = fit_continuous_model(task.log(200, rng), private=False)
    act = plan_continuous(few, reward=task.reward, ends=task.ends, discount=task.discount).act
    if how == "mediocre":
        return task.log(persons, rng, act)
    first, second = task.log(persons // 2, rng), task.log(persons - persons // 2, rng, act)
    names = ("state", "action", "next_state", "reward", "terminated")
    arrays = {n: np.concatenate([getattr(first, n), getattr(second, n)]) for n in names}
    number = [np.repeat(np.arange(e.n_persons), np.diff(e.offsets)) for e in (first, second)]
    person = np.concatenate([number[0], number[1] + first.n_persons])
    return ContinuousLog.of_arrays(task.schema, person=person, **arrays)


def by_bins(task: Task, log: ContinuousLog, epsilon: float, seed: int) -> Act:
    """Return the policy of `fit_policy` on even bins of each number."""
    columns = task.schema.state.values()
    n = _BINS.get(sum(isinstance(c, Number) for c in columns), 3)
    sizes = [n if isinstance(c, Number) else len(c.values) for c in columns]

    def cells(state: FloatArray) -> IntArray:
        places = [
            bins_of(c, state[:, i], n) if isinstance(c, Number) else state[:, i].astype(int)
            for i, c in enumerate(columns)
        ]
        return np.ravel_multi_index(places, sizes)

    levels, size = task.schema.levels, int(np.prod(sizes))
    after, last = cells(log.next_state), log.offsets[1:] - 1
    after[last] = np.where(log.terminated[last], size, CUT)
    span = task.schema.reward
    data = Log(
        n_states=size, n_actions=len(levels), outcomes=("end",), outcome_rewards=(0.0,),
        step_rewards=(span.low, span.high), most_steps=task.logged, most_episodes=1,
        state=cells(log.state), next_state=after, reward=log.reward,
        action=np.abs(log.action[:, None] - levels).sum(axis=2).argmin(axis=1),
        episode_starts=log.offsets, person_starts=np.arange(len(log.offsets)),
    )  # fmt: skip
    found = fit_policy(
        data, epsilon=epsilon, discount=min(task.discount, 0.995), behaviour="uniform", rng=seed
    )
    table = found.action[0] if found.action.ndim == 2 else found.action
    rng = np.random.default_rng(seed)

    def act(state: FloatArray) -> IntArray:
        chosen = table[cells(state)]
        return np.where(chosen < 0, rng.integers(len(levels), size=len(chosen)), chosen)

    return act


def _true_model(task: Task) -> float:
    """Return the mean return of the same planner in the task's own dynamics."""

    class Exact(ContinuousModel):
        def __init__(self) -> None:
            core = _core(task)
            facts = {"schema": task.schema, "statement": None, "core": core, "ends": None}
            for name, value in facts.items():
                object.__setattr__(self, name, value)

        def sample_start(self, rng: np.random.Generator) -> FloatArray:
            return task.start(1, rng)[0]

        def predict(self, state, action, **_):  # type: ignore[no-untyped-def]
            rng, action = np.random.default_rng(0), np.ascontiguousarray(action)
            after = task.step(state, action, rng)
            reward = task.reward(state, action, after)
            return Predicted(
                task.schema.inside(after), {}, np.zeros_like(state), reward,
                task.ends(after).astype(float),
            )  # fmt: skip

    policy = plan_continuous(Exact(), discount=task.discount)
    return task.mean_return(policy.act, np.random.default_rng(7), _EPISODES)


def measure(path: Path, options: argparse.Namespace) -> None:
    """Append what is missing to the CSV, seed by seed."""
    known = {row[:6] for row in read(path)}

    def add(*row: object) -> None:
        new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(FIELDS)
            writer.writerow(row)
        print(*row, flush=True)

    for name in options.tasks:
        task = TASKS[name]()
        if (name, "0", "", "", "random", "0") not in known:
            earned = task.random_return(np.random.default_rng(7), _EPISODES)
            add(name, 0, "", "", "random", 0, f"{earned:.2f}", "")
            add(name, 0, "", "", "true dynamics", 0, f"{_true_model(task):.2f}", "")
    for seed, name, how in product(options.seeds, options.tasks, options.logged):
        task = TASKS[name]()
        for n in options.persons or SIZES.get(name, (3000,)):
            wanted = [
                (epsilon, kind)
                for epsilon, kind in product(options.epsilons, options.kinds)
                if (name, str(n), how, epsilon, kind, str(seed)) not in known
            ]
            log = logged(task, n, how, np.random.default_rng(100 + seed)) if wanted else None
            models: dict[str, tuple[ContinuousModel, float]] = {}
            for epsilon, kind in wanted:
                private = epsilon != "none"
                if kind == "bins":
                    if not private:
                        continue
                    act, took = by_bins(task, log, float(epsilon), seed), 0.0
                else:
                    if epsilon not in models:
                        start, size = time.process_time(), float(epsilon) if private else None
                        model = fit_continuous_model(log, epsilon=size, private=private, rng=seed)
                        models = {epsilon: (model, time.process_time() - start)}
                    model, took = models[epsilon]
                    given = {} if kind == "learned" else {"reward": task.reward, "ends": task.ends}
                    act = plan_continuous(model, discount=task.discount, **given).act
                value = task.mean_return(act, np.random.default_rng(7), _EPISODES)
                add(name, n, how, epsilon, kind, seed, f"{value:.2f}", f"{took:.1f}")


def check(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the cells whose return falls by more than two standard errors as epsilon grows."""
    cells, found = _cells(rows), []
    for key in {(*key[:3], key[4]) for key in cells if key[3] in PRIVATE}:
        for more, less in pairwise(EPSILONS):
            high, low = (cells.get((*key[:3], e, key[3]), []) for e in (more, less))
            if min(len(high), len(low)) < 2:
                continue
            error = math.sqrt(sum(stdev(v) ** 2 / len(v) for v in (high, low)))
            if mean(high) < mean(low) - 2 * error:
                task, persons, how, kind = key
                cell = f"{task}, {int(persons):,} persons, {how}, {kind}"
                found.append(f"{cell}: {mean(high):.2f} at {more}, {mean(low):.2f} at {less}")
    return sorted(found)


def read(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of the CSV."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def _cells(rows: list[tuple[str, ...]]) -> dict[tuple[str, ...], list[float]]:
    """Return returns by task, persons, way of logging, epsilon and rewards."""
    found = defaultdict(list)
    for row in rows:
        found[row[:5]].append(float(row[6]))
    return found


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    digits = 1 if abs(mean(values)) < 30 else 0
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    error = stdev(values) / math.sqrt(len(values))
    return f"{mean(values):.{digits}f} ± {error:.{max(digits, 1)}f}"


def _sizes(rows: list[tuple[str, ...]], name: str, how: str = "usual") -> list[int]:
    return sorted({int(row[1]) for row in rows if row[0] == name and row[2] == how})


def _cells_of(rows: list[tuple[str, ...]]) -> dict[tuple[str, str], list[str]]:
    """Return lines of a table, for each group of tasks and way of logging."""
    cells, found = _cells(rows), defaultdict(list)
    for name, how in product(TASKS, LOGGED):
        for n, kind in product(_sizes(rows, name, how), KINDS):
            values = [cells.get((name, str(n), how, e, kind), []) for e in EPSILONS]
            if any(values):
                task = f"{name}, {n:,}" + (f", {how}" if how != "usual" else "")
                shown = " | ".join(map(_shown, values))
                seeds = "/".join(str(len(v)) for v in values)
                group = "main" if name in MAIN else "others"
                found[group, how].append(f"| {task} | {kind} | {shown} | {seeds} |")
    return found


def goals(rows: list[tuple[str, ...]]) -> str:
    """Return a table of the goals and what was measured, and how many are met."""
    cells, lines, met = _cells(rows), [], {"public": [], "learned": []}
    for (name, n), wanted in GOALS.items():
        for e, goal in zip(PRIVATE, wanted, strict=True):
            parts = []
            for kind, known in met.items():
                values = cells.get((name, str(n), "usual", e, kind), [])
                if goal and values:
                    known.append(round(mean(values)) >= float(goal))
                    parts.append(_shown(values) + ("" if known[-1] else ", missed"))
                else:
                    parts.append("not measured")
            if goal:
                lines.append(f"| {name}, {n:,} | {float(e):g} | {goal} | {' | '.join(parts)} |")
    counts = " and ".join(
        f"{sum(known)} of {len(known)} with {kind}" for kind, known in met.items()
    )
    head = "| Task, persons | Epsilon | Goal | Public | Learned |\n|---|---|---|---|---|"
    return (
        f"Means reach {counts} rewards and ends (rounded to whole numbers).\n\n{head}\n"
        + "\n".join(lines)
    )


def page(rows: list[tuple[str, ...]]) -> str:
    """Return the page of results."""
    cells, lines, ends = _cells(rows), _cells_of(rows), []
    for name in TASKS:
        random, true = (
            cells.get((name, "0", "", "", kind), []) for kind in ("random", "true dynamics")
        )
        if random:
            ends.append(f"| {name} | {_shown(random)} | {_shown(true)} |")
    compared = [
        f"| {name}, {n:,} | {' | '.join(found)} |" for (name, n), found in PROTOTYPE.items()
    ]
    falls = check(rows)
    monotone = "No return falls by more than that." if not falls else f"Falls: {'; '.join(falls)}."
    header = (
        "| Task, persons | Rewards and ends | No privacy | 5.1 | 1 | 0.1 | Seeds |\n"
        + "|---" * 7
        + "|"
    )
    ways = [line for (_, how), each in lines.items() if how != "usual" for line in each]
    logged = ""
    if ways:
        logged = f"""
## Other ways of logging

"random" draws each action anew; "sticky" repeats the last one with probability 0.8; a "mediocre" controller, planned without
privacy from 200 persons, takes half of the actions; a "mixture" has half of the persons of each.

{header}
{chr(10).join(ways)}
"""
    return f"""# Results for continuous states

Made by `python docs/make/continuous.py` from [continuous.csv](continuous.csv). Each log has one trajectory per person,
of random actions, often repeated. Privacy: add or remove one person with the whole trajectory, delta = 1e-5.
Entries are mean returns in the true task over {_EPISODES} episodes, ± one standard error over seeds (logs and noise).
"Public" rewards and ends are given as functions; "learned" ones come out of the same budget. The last column counts the seeds of each entry: the goals ask for ten. Seeds count from 20, and nothing was tuned or
looked at with them. Constants were tuned on Pendulum, MountainCar and CartPole with seeds from 0; ends and grids were designed
on those and glucose with seeds from 1000. So these four tasks judge whether that carries over to other logs. All entries
are of one version of the fit and the planner. An empty cell was not measured.

Where all steps cost the same (MountainCar and Acrobot), plans are not cautious, and seek states where nobody was if the model sees no
way to an end. With development seeds of MountainCar, mean returns before and after are, with 10,000 persons at epsilon 0.1
(12 seeds), -140 and -112 with public and -172 and -122 with learned rewards and ends; at epsilon 1 (8 seeds), -102 and -101, and
-116 and -114; with 30,000 at 0.1 (7 seeds), -113 and -111, and -147 and -129. On the seeds from 20, the means of 10,000 at 0.1
were -142 and -162 before. At epsilon 0.1 about 140 episodes terminate, fewer than the noise of a count (178), so ends are hardly found.

Not repeated with this version: with seed 0 and 10,000 persons, Acrobot earned -93 at 5.1 and -500 at 1 with public rewards; and
`fit_policy` on even bins (`--kinds bins`) earned at 5.1 / 1 -1796 / -1345 in Pendulum, -200 / -200 in MountainCar and 143 / 132
in CartPole. Acrobot with 100,000 persons has one seed, and public rewards alone.

![Return against epsilon](../images/continuous.png)

## The four tasks of Gymnasium

{header}
{chr(10).join(lines["main", "usual"])}

## Other tasks

The regulator's drift with 8 dimensions was changed from 1.01 to 0.96 after its first results were seen. The tumour was added
after the code was fixed, and fails: a tumour that is gone stays gone, and the smooth model lets it return.

LunarLander fails as well (`python docs/make/lunar_lander.py`, with Box2D): with 3,000 persons and learned rewards and ends, plans
earn -552, -404 and -140 without privacy, -225, -141 and -143 at 5.1 and -678, -566 and -575 at 1 (seeds 20 to 22), and random
actions -198. Why was not examined.

{header}
{chr(10).join(lines["others", "usual"])}
{logged}
## Goals and monotonicity

{goals(rows)}

The goals for Pendulum come from other episodes: in these, the planner earns -143 even in the true dynamics.

`--check` lists cells whose return falls by more than two standard errors as epsilon grows, where both have two seeds.
{monotone}

## Reference points

The planner's row runs the same planner in the true dynamics.

| Task | Random actions | Planner in the true dynamics |
|---|---|---|
{chr(10).join(ends)}

The prototype that this replaces (public rewards and ends, 3 or 4 seeds):

| Task, persons | 5.1 | 1 | 0.1 |
|---|---|---|---|
{chr(10).join(compared)}

PriMORL (arXiv 2402.05525) needs epsilon = 5.1 for Pendulum, 8.2 for CartPole Balance and 17 for Swingup, with 30,000
trajectories of other tasks and rewards.
"""


def short(rows: list[tuple[str, ...]]) -> str:
    """Return the table of docs/continuous.md."""
    cells, lines = _cells(rows), []
    for name in TASKS:
        for n in _sizes(rows, name):
            ends = [
                cells.get((name, "0", "", "", kind), []) for kind in ("random", "true dynamics")
            ]
            both = []
            for e in PRIVATE:
                values = [
                    cells.get((name, str(n), "usual", e, k), []) for k in ("public", "learned")
                ]
                shown = [f"{mean(v):.0f}" if v else "" for v in values]
                both.append(" / ".join(dict.fromkeys(shown)))
            true = [f"{mean(v):.0f}" if v else "" for v in ends]
            lines.append(f"| {name}, {n:,} | {true[0]} | {' | '.join(both)} | {true[1]} |")
    head = "| Task, persons | Random | 5.1 | 1 | 0.1 | Planner in the true dynamics |"
    return f"{head}\n|---|---|---|---|---|---|\n" + "\n".join(lines)


def draw(rows: list[tuple[str, ...]], path: Path) -> None:
    """Draw returns against epsilon for the tasks of Gymnasium that were measured."""
    mpl.use("Agg")
    cells = _cells(rows)
    names = [name for name in MAIN if _sizes(rows, name)]
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.3 * len(names), 3.6), layout="constrained", squeeze=False
    )
    colours = ["#0072B2", "#D55E00", "#009E73"]  # Okabe and Ito's
    looks = {"public": ("-", "o"), "learned": ("--", "s")}
    for axis, name in zip(axes[0], names, strict=True):
        for (colour, n), kind in product(zip(colours, _sizes(rows, name), strict=False), looks):
            points = [(float(e), cells.get((name, str(n), "usual", e, kind), [])) for e in PRIVATE]
            points = [(e, v) for e, v in points if v]
            if not points:
                continue
            errors = [stdev(v) / math.sqrt(len(v)) if len(v) > 1 else 0 for _, v in points]
            axis.errorbar(
                [e for e, _ in points], [mean(v) for _, v in points], errors, color=colour,
                linestyle=looks[kind][0], marker=looks[kind][1], capsize=3,
                label=f"{n:,} persons, {kind}",
            )  # fmt: skip
        for kind, style in (("true dynamics", "-."), ("random", ":")):
            value = cells.get((name, "0", "", "", kind), [])
            if value:
                axis.axhline(value[0], color="black", linestyle=style, linewidth=1, label=kind)
        axis.set_xscale("log")
        axis.set_xticks([float(e) for e in PRIVATE], [f"{float(e):g}" for e in PRIVATE])
        axis.minorticks_off()
        axis.set_title(name)
        axis.set_xlabel("epsilon (add or remove one person,\ndelta = 1e-5)")
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("mean return in the true task")
    figure.savefig(path, dpi=110)


def speed_of(what: str) -> None:
    """Print processor seconds and peak memory, in MB, of a million rows: a fit and a plan, or NumPy."""
    log = TASKS["Integrator with friction"]().log(10_000, np.random.default_rng(0))
    seconds = [time.process_time()]
    if what == "privrl":
        model = fit_continuous_model(log, epsilon=1, rng=0)
        seconds.append(time.process_time())
        plan_continuous(model, discount=0.98)
    else:
        features = Basis(log.schema, 6, 6)(log.state, log.action)
        np.linalg.lstsq(features, targets(log), rcond=None)
    seconds.append(time.process_time())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(*np.diff(seconds), peak / (1024 if sys.platform == "linux" else 1024**2))


def speed() -> str:
    """Return a sentence on the speed, measured in processes of their own."""
    found = {}
    for what in ("privrl", "numpy"):
        command = [sys.executable, __file__, "--speed", what]
        run = subprocess.run(command, capture_output=True, check=True, text=True)
        found[what] = [float(word) for word in run.stdout.split()]
    (fit, plan, peak), (ols, ols_peak) = found["privrl"], found["numpy"]
    return (
        f"A million rows of two state columns take {fit:.1f} s of one core to fit and {plan:.1f} s to plan in, with {peak:,.0f} MB in\n"
        f"all (`docs/make/continuous.py --speed`). Ordinary least squares by NumPy, with the same features, takes {ols:.1f} s and\n"
        f"{ols_peak:,.0f} MB."
    )


def main() -> None:
    """Measure what is missing, then write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--persons", nargs="*", type=int, default=[])
    parser.add_argument("--logged", nargs="*", default=["usual"], choices=LOGGED)
    parser.add_argument("--epsilons", nargs="*", default=list(EPSILONS))
    parser.add_argument("--kinds", nargs="*", default=["public", "learned"], choices=KINDS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--csv", type=Path, default=CSV)
    parser.add_argument("--speed", nargs="?", const="both", choices=("privrl", "numpy", "both"))
    options = parser.parse_args()
    if options.speed == "both":
        fill(DOCS / "continuous.md", {"speed": speed})
        return
    if options.speed:
        speed_of(options.speed)
        return
    if options.seeds:
        measure(options.csv, options)
    rows = read(options.csv)
    if options.check:
        raise SystemExit("\n".join(check(rows)) or 0)
    if options.csv == CSV:
        (DOCS / "results" / "continuous.md").write_text(page(rows), encoding="utf-8")
        draw(rows, DOCS / "images" / "continuous.png")
        fill(DOCS / "continuous.md", {"table": lambda: short(rows)})


if __name__ == "__main__":
    main()
