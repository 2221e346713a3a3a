"""Make the table of bins that share what they know, in docs/results/environments.md.

    python docs/make/fine_bins.py                      # the table from the CSV
    python docs/make/fine_bins.py --seeds 31 32 33     # measures first what it lacks (an hour)

Measurements are appended to docs/numbers/fine_bins.csv one by one, so the command resumes where it
stopped. Development used seeds below 31.
"""

import argparse
import csv
from dataclasses import replace
from statistics import mean

import gymnasium as gym
import numpy as np
import pages

from privrl.accounting.targets import RenyiDP
from privrl.agents.methods import Method, Task, make_agent
from privrl.costs import ReplaceStep
from privrl.envs import numbered, public_facts
from privrl.experiments import train

CSV = pages.DOCS / "numbers" / "fine_bins.csv"
FIELDS = ("task", "bins", "episodes", "epsilon", "shared", "seed", "all", "last", "policy")
FINE = "-1.6:1.6:4,-2:2:4,-0.21:0.21:10,-2.5:2.5:8"
CASES = (
    ("CartPole-v1", FINE, 4000, 1.0),
    ("CartPole-v1", "public", 4000, 1.0),
    ("CartPole-v1", "public", 500, 1.0),
    ("Acrobot-v1", "public", 500, 1.0),
    ("MountainCar-v0", "public", 5000, 1.0),
    ("MountainCar-v0", "20", 5000, 1.0),
    ("MountainCar-v0", "20", 20000, 1.0),
    ("CartPole-v1", FINE, 4000, 0.1),
)
_PLAYED = 100


def measure_one(
    name: str, bins: str, episodes: int, epsilon: float, *, shared: bool, seed: int
) -> list[str]:
    """Return mean returns: of all episodes, of the last tenth, and of the policy in new ones."""
    env, (own, world) = numbered(gym.make(name), bins), np.random.default_rng(seed).spawn(2)
    facts = public_facts(env)
    relation = ReplaceStep(arrival_rewards=facts.arrival_rewards)
    task = Task.of(facts, relation=relation, episodes=episodes)
    if not shared:
        task = replace(task, bins=())
    agent = make_agent(Method(agent="sparse-psrl"), task, [RenyiDP(2.0, epsilon)], own)
    earned = train(agent, env, episodes, world)["reward"]
    policy = agent.policy
    played = []
    for number in range(_PLAYED):
        state, _ = env.reset(seed=1000 + number)
        step, total, over = 0, 0.0, False
        while not over:
            state, reward, ended, cut, _ = env.step(int(policy[step, state]))
            step, total, over = step + 1, total + float(reward), ended or cut
        played.append(total)
    means = earned.mean(), earned.tail(episodes // 10).mean(), mean(played)
    return [f"{value:.1f}" for value in means]


def read() -> list[list[str]]:
    """Return the rows of the CSV."""
    if not CSV.exists():
        return []
    with CSV.open(newline="") as file:
        return list(csv.reader(file))[1:]


def measure(seeds: list[int]) -> None:
    """Measure what the CSV lacks."""
    if not CSV.exists():
        CSV.write_text(",".join(FIELDS) + "\n")
    done = {tuple(row[:6]) for row in read()}
    for seed in seeds:
        for name, bins, episodes, epsilon in CASES:
            for shared in (True, False):
                key = name, bins, str(episodes), str(epsilon), str(shared), str(seed)
                if key in done:
                    continue
                values = measure_one(name, bins, episodes, epsilon, shared=shared, seed=seed)
                print(*key, *values, flush=True)
                with CSV.open("a", newline="") as file:
                    csv.writer(file).writerow([*key, *values])


def table() -> str:
    """Return the table of the page."""
    rows, lines = read(), []
    for name, bins, episodes, epsilon in CASES:
        env = numbered(gym.make(name), bins)
        cells, seeds = [], []
        for shared in (False, True):
            key = [name, bins, str(episodes), str(epsilon), str(shared)]
            found = [[float(value) for value in row[6:]] for row in rows if row[:5] == key]
            cells.append("/".join(f"{mean(each):.0f}" for each in zip(*found, strict=True)))
            seeds.append(str(len(found)))
        if any(cells):
            sizes = f"{public_facts(env).n_states:,}"
            lines.append([name, sizes, f"{episodes:,}", f"{epsilon:g}", *cells, ", ".join(seeds)])
    return pages.table(["task", "bins", "episodes", "ε", "alone", "shared", "runs"], lines)


def main() -> None:
    """Measure what is missing, then fill the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[])
    options = parser.parse_args()
    measure(options.seeds)
    pages.fill(pages.DOCS / "results" / "environments.md", {"fine bins": table})


if __name__ == "__main__":
    main()
