# ruff: noqa: E501 -- lines of the page have 120 columns
"""Compare sparse counts with noise on every cell, and make a table of docs/results/frontier.md.

    python docs/make/large_tables.py              # the table, from docs/numbers/large-tables.csv
    python docs/make/large_tables.py --seeds 3    # measures first what the CSV lacks (an hour)

The tasks are Garnets: 4 actions with 4 possible next states each, which no agent knows, 2,000
episodes of 50 steps. Each cell of the CSV is measured in a process of its own and appended.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections import defaultdict
from itertools import product
from statistics import mean, stdev

import numpy as np
import pages

CSV = pages.DOCS / "numbers" / "large-tables.csv"
FIELDS = ("states", "epsilon", "sampler", "seed", "deployed", "learning", "seconds", "MB")
STATES, EPSILONS, EPISODES = (300, 1000), (10.0, 1.0), 2000
SAMPLERS = ("noisy-counts:buffered", "sparse-counts")


def measure_one(states: int, epsilon: float, sampler: str, seed: int) -> list[float]:
    """Return the deployed policy's and the mean episode's share of the gap, time and memory."""
    from privrl.accounting import ApproxDP  # noqa: PLC0415
    from privrl.agents.methods import Method, Task, make_agent  # noqa: PLC0415
    from privrl.costs import ReplaceStep  # noqa: PLC0415
    from privrl.envs.random_tables import garnet  # noqa: PLC0415
    from privrl.experiments.training import train  # noqa: PLC0415

    mdp = garnet(states, 4, 4, 50, 1)
    task = Task(
        n_states=states,
        n_actions=4,
        horizon=mdp.horizon,
        reward_range=(0.0, 1.0),
        relation=ReplaceStep(),
        episodes=EPISODES,
    )
    begin = time.process_time()
    method = Method(agent="sparse-psrl", sampler=sampler)
    agent = make_agent(method, task, [ApproxDP(epsilon, 1e-5)], np.random.default_rng(seed))
    earned = train(agent, mdp, EPISODES, np.random.default_rng(1000 + seed)).reward.sum() / EPISODES
    value = float(mdp.policy_value(agent.policy))
    seconds = time.process_time() - begin
    low, high = mdp.random_value(), mdp.optimal_value()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return [(value - low) / (high - low), (float(earned) - low) / (high - low), seconds, most]


def measure(seeds: int) -> None:
    """Measure what the CSV lacks."""
    if not CSV.exists():
        CSV.write_text(",".join(FIELDS) + "\n")
    for seed, states, epsilon, sampler in product(range(seeds), STATES, EPSILONS, SAMPLERS):
        key = [str(states), str(epsilon), sampler, str(seed)]
        if any(row[:4] == key for row in rows()):
            continue
        print(*key, flush=True)
        command = [sys.executable, __file__, "--cell", *key]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        with CSV.open("a") as file:
            file.write(",".join([*key, *(f"{each:.4g}" for each in found)]) + "\n")


def rows() -> list[list[str]]:
    """Return the rows of the CSV."""
    with CSV.open(newline="") as file:
        return list(csv.reader(file))[1:]


def table() -> str:
    """Return the table of the page."""
    cells: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
    for row in rows():
        cells[tuple(row[:3])].append([float(each) for each in row[4:]])
    lines = []
    for key in sorted(cells, key=lambda key: (int(key[0]), float(key[1]), key[2])):
        deployed, learning, seconds, most = zip(*cells[key], strict=True)
        lines.append(
            [
                *key,
                len(deployed),
                _spread(deployed),
                _spread(learning),
                f"{mean(seconds):.0f}",
                f"{max(most):.0f}",
            ]
        )
    header = "states | ε | sampler | seeds | deployed policy | while learning | processor time, s | memory, MB"
    return pages.table(header, lines)


def _spread(values: tuple[float, ...]) -> str:
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{error}"


def main() -> None:
    """Measure if asked to, and fill the table."""
    parser = argparse.ArgumentParser(description="Compare sparse counts with noise everywhere.")
    parser.add_argument("--seeds", type=int, default=0, help="measure so many seeds of each cell")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        states, epsilon, sampler, seed = options.cell
        print(json.dumps(measure_one(int(states), float(epsilon), sampler, int(seed))))
        return
    measure(options.seeds)
    pages.fill(pages.DOCS / "results" / "frontier.md", {"large tables": table})


if __name__ == "__main__":
    main()
