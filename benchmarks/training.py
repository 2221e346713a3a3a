"""How fast batched training is: environment steps per second on one core.

Run with ``python benchmarks/training.py``. Each row trains 200 independent runs of PSRL on
RiverSwim (6 states, 30 steps) and draws before every episode. The last rows time the parts of
one episode by themselves; the gamma draws are the floor, since every run needs its own.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable

import numpy as np

from privrl.agents import PSRL, BetaRewards, KnownRewards, RewardModel
from privrl.envs import plan, riverswim
from privrl.experiments.training import learn_counts
from privrl.samplers import Diffuse

RUNS, EPISODES, REPEATS = 200, 300, 7


def main() -> None:
    mdp = riverswim()
    models: dict[str, RewardModel] = {
        "known rewards": KnownRewards(mdp.expected_reward),
        "Beta rewards, private": BetaRewards(Diffuse(scale=0.1, alpha=1.0, table="rewards")),
    }
    print(f"{RUNS} runs, a draw before each of {EPISODES} episodes, best of {REPEATS}")
    for name, rewards in models.items():

        def run(rewards: RewardModel = rewards) -> None:
            agent = PSRL(
                mdp.n_states,
                mdp.n_actions,
                mdp.horizon,
                sampler=Diffuse(scale=0.1),
                rewards=rewards,
                rng=np.random.default_rng(0),
                batch_shape=(RUNS,),
            )
            learn_counts(agent, mdp, EPISODES, np.random.default_rng(1))

        seconds = _best(run)
        print(f"{name:24s} {RUNS * EPISODES * mdp.horizon / seconds / 1e6:6.2f} M steps/s")

    rng = np.random.default_rng(2)
    shapes = np.full((RUNS, mdp.n_states, mdp.n_actions, mdp.n_states), 10.0)
    tables = rng.dirichlet(np.ones(mdp.n_states), shapes.shape[:-1])
    policy = np.ones((RUNS, mdp.horizon, mdp.n_states), np.intp)
    parts: dict[str, Callable[[], object]] = {
        "gamma draws (the floor)": lambda: rng.standard_gamma(shapes),
        "planning": lambda: plan(tables, mdp.expected_reward, mdp.horizon),
        "simulating": lambda: mdp.rollout_counts(policy, 1, rng),
    }
    for name, part in parts.items():
        seconds = _best(lambda part=part: [part() for _ in range(50)]) / 50  # type: ignore[misc]
        print(f"{name:24s} {seconds * 1e3:6.3f} ms an episode")


def _best(run: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
