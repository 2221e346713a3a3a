"""Measure plans for LunarLander's state; the numbers of docs/results/continuous.md.

Run with ``python docs/make/lunar_lander.py`` and Box2D installed (``pip install
'gymnasium[box2d]'``). It prints the mean return of random actions and of plans for models with
learned rewards and ends, from 3,000 logged episodes of random actions, which are often repeated.
"""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np

from privrl.continuous import fit_continuous_model, plan_continuous
from privrl.continuous.log import ContinuousLog
from privrl.continuous.schema import Choice, ContinuousSchema, Number

PERSONS, LONGEST, REPEAT, EPISODES = 3000, 300, 0.8, 30
EPSILONS: Final = (None, 5.1, 1.0)
SEEDS: Final = (20, 21, 22)
_RANGES: Final = {"x": 2.5, "y": 2.5, "vx": 10, "vy": 10, "angle": 2 * np.pi, "spin": 10}
SCHEMA: Final = ContinuousSchema(
    state={name: Number(low=-far, high=far) for name, far in _RANGES.items()}
    | {name: Number(low=0, high=1) for name in ("left", "right")},
    action={"engine": Choice(values=("none", "left", "main", "right"))},
    reward=Number(low=-100, high=100),
    terminates=True,
)


def main() -> None:
    """Print the mean returns."""
    env = gym.make("LunarLander-v3").unwrapped
    rng = np.random.default_rng(0)
    print(f"random actions: {earned(env, lambda state: int(rng.integers(4))):.0f}")
    for epsilon in EPSILONS:
        found = []
        for seed in SEEDS:
            log = logged(env, np.random.default_rng(100 + seed))
            private = epsilon is not None
            model = fit_continuous_model(log, epsilon=epsilon, private=private, rng=seed)
            act = plan_continuous(model).act

            def chosen(state: Any, act: Any = act) -> int:
                return int(act(SCHEMA.inside(np.asarray(state, np.float64)[None]))[0])

            found.append(earned(env, chosen))
        print(f"epsilon {epsilon or 'none'}:", *(f"{value:.0f}" for value in found), flush=True)


def played(env: Any, choose: Callable[[Any], int], longest: int, seed: int) -> list[Any]:
    """Return the steps of an episode: state, action, next state, reward and whether it ended."""
    state, _ = env.reset(seed=seed)
    steps = []
    for _ in range(longest):
        action = choose(state)
        after, reward, over, _, _ = env.step(action)
        steps.append((state, action, after, reward, over))
        if over:
            break
        state = after
    return steps


def logged(env: Any, rng: np.random.Generator) -> ContinuousLog:
    """Return a log of random actions, one episode for each person."""
    rows: list[Any] = []
    for person in range(PERSONS):
        last = int(rng.integers(4))

        def choose(_: Any) -> int:
            nonlocal last
            last = last if rng.random() < REPEAT else int(rng.integers(4))
            return last

        steps = played(env, choose, LONGEST, int(rng.integers(2**31)))
        rows += [(person, *step) for step in steps]
    person, state, action, after, reward, over = map(np.array, zip(*rows, strict=True))
    return ContinuousLog.of_arrays(
        SCHEMA,
        person=person,
        state=state.astype(np.float64),
        action=SCHEMA.levels[action],
        next_state=after.astype(np.float64),
        reward=reward,
        terminated=over,
    )


def earned(env: Any, choose: Callable[[Any], int]) -> float:
    """Return the mean return of episodes of at most 1,000 steps."""
    seeds = np.random.default_rng(7).integers(2**31, size=EPISODES)
    episodes = [played(env, choose, 1000, int(seed)) for seed in seeds]
    return float(np.mean([sum(step[3] for step in episode) for episode in episodes]))


if __name__ == "__main__":
    main()
