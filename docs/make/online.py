# ruff: noqa: E501 -- lines of the page have 120 columns
"""Make docs/results/online.md and its CSV: agents that learn while they act, with and without bins.

    python docs/make/online.py                                 # the page from the CSV
    python docs/make/online.py --seeds 20 21 22                # measures first what it lacks (hours)
    python docs/make/online.py --seeds 20 --tasks Pendulum-v1 --episodes 500

Measurements are appended to the CSV one by one, so the command resumes where it stopped.
"""

import argparse
import csv
import math
from collections import defaultdict
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from pages import fill

from privrl.experiments.names import make_env
from privrl.experiments.training import TrainSpec, run_training
from privrl.experiments.training.playing import play_policy

DOCS = Path(__file__).parents[1]
CSV = DOCS / "results" / "online.csv"
FIELDS = ("task", "episodes", "epsilon", "relation", "states", "seed", "all", "last", "policy")
TASKS = ("MountainCar-v0", "CartPole-v1", "Acrobot-v1", "Pendulum-v1")
EPSILONS = (1.0, 10.0)
_PLAYED = 100


def measure_one(spec: TrainSpec) -> list[str]:
    """Return mean returns: of all episodes, of the last tenth, and of the policy in new ones."""
    result = run_training(spec)
    env = make_env(spec.env, bins=spec.bins, continuous=True)
    played = play_policy(result.policy, env, _PLAYED, np.random.default_rng(spec.seed)).mean()
    earned = result.record["reward"]
    means = (earned.mean(), earned.tail(spec.episodes // 10).mean(), played)
    return [f"{value:.2f}" for value in means]


def read(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of the CSV."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [tuple(row) for row in list(csv.reader(file))[1:]]


def measure(path: Path, options: argparse.Namespace) -> None:
    """Measure what the CSV lacks."""
    if not path.exists():
        path.write_text(",".join(FIELDS) + "\n")
    done = {row[:6] for row in read(path)}
    choices = product(options.seeds, options.tasks, options.epsilons, options.states)
    for seed, task, epsilon, states in choices:
        key = (task, str(options.episodes), str(epsilon), options.relation, states, str(seed))
        if key in done or (task == "Pendulum-v1" and states == "bins"):
            continue
        spec = TrainSpec(
            env=task,
            episodes=options.episodes,
            epsilon=epsilon,
            relation=options.relation,
            bins="public" if states == "bins" else None,
            seed=seed,
        )
        values = measure_one(spec)
        print(*key, *values, flush=True)
        with path.open("a", newline="") as file:
            csv.writer(file).writerow([*key, *values])


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    error = f" ± {stdev(values) / math.sqrt(len(values)):.0f}" if len(values) > 1 else ""
    return f"{mean(values):.0f}{error}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return the table of the page."""
    cells: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
    for row in rows:
        cells[row[:5]].append([float(value) for value in row[6:]])
    lines = []
    for task, episodes, epsilon, relation in dict.fromkeys(row[:4] for row in rows):
        parts = [f"{task}, {int(episodes):,}", f"{float(epsilon):g}", relation.replace("-", " ")]
        for states in ("bins", "numbers"):
            found = cells.get((task, episodes, epsilon, relation, states), [])
            parts += [_shown(list(each)) for each in zip(*found, strict=True)] or ["", "", ""]
        seeds = [
            len(cells.get((task, episodes, epsilon, relation, s), [])) for s in ("bins", "numbers")
        ]
        lines.append(f"| {' | '.join([*parts, f'{seeds[0]}, {seeds[1]}'])} |")
    head = "| Task, episodes | Epsilon | Unit | Bins: all | last tenth | policy | Numbers: all | last tenth | policy | Seeds |"
    return f"{head}\n|{'---|' * 10}\n" + "\n".join(lines)


def main() -> None:
    """Measure what is missing, then fill the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[])
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--states", nargs="*", default=("numbers", "bins"))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--relation", default="replace-step")
    parser.add_argument("--csv", type=Path, default=CSV)
    options = parser.parse_args()
    measure(options.csv, options)
    if options.csv == CSV:
        fill(DOCS / "results" / "online.md", {"table": lambda: table(read(CSV))})


if __name__ == "__main__":
    main()
