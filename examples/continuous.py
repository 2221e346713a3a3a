"""Train an agent in a private model of continuous states, and judge it in the true task.

Made-up persons swing a pendulum at random. Their log is released once, as a model with epsilon = 1
for each whole person. A small fitted Q iteration then trains in the released environment alone,
through Gymnasium's interface, as any other agent could. Needs NumPy and Gymnasium only.

    python examples/continuous.py
"""

import gymnasium as gym
import numpy as np

from privrl.continuous import fit_continuous_model, plan_continuous
from privrl.continuous.tasks import TASKS

PERSONS, EPSILON = 2000, 1.0
STEPS, SWEEPS, DISCOUNT = 60_000, 300, 0.98


def features(state: np.ndarray) -> np.ndarray:
    """Return radial functions of the angle's cosine and sine, and of the speed."""
    angles = np.linspace(-np.pi, np.pi, 24, endpoint=False)
    speeds = np.linspace(-8, 8, 17)
    near = np.exp(15 * (np.cos(state[:, :1] - angles) - 1))
    fast = np.exp(-((state[:, 1:] - speeds) ** 2))
    found = (near[:, :, None] * fast[:, None, :]).reshape(len(state), -1)
    return found / found.sum(axis=1, keepdims=True)


def collect(env: gym.Env, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return states, actions, rewards and next states of random actions in an environment."""
    rows, state = [], env.reset(seed=0)[0]
    for _ in range(n):
        action = int(rng.integers(env.action_space.n))
        after, reward, over, cut, _ = env.step(action)
        rows.append((state, action, reward, after))
        state = env.reset()[0] if over or cut else after
    return tuple(np.array(each) for each in zip(*rows, strict=True))


def train(env: gym.Env, rng: np.random.Generator) -> np.ndarray:
    """Return weights of features for each action, by fitted Q iteration."""
    state, action, reward, after = collect(env, STEPS, rng)
    now, ahead = features(state), features(after)
    weights = np.zeros((now.shape[1], env.action_space.n))
    chosen = [action == a for a in range(env.action_space.n)]
    solve = [
        np.linalg.solve(now[c].T @ now[c] + 1e-3 * np.eye(now.shape[1]), now[c].T) for c in chosen
    ]
    for _ in range(SWEEPS):
        worth = reward + DISCOUNT * (ahead @ weights).max(axis=1)
        weights = np.stack([s @ worth[c] for s, c in zip(solve, chosen, strict=True)], axis=1)
    return weights


def main() -> None:
    """Release, train, judge."""
    task, rng = TASKS["Pendulum"](), np.random.default_rng(0)
    model = fit_continuous_model(task.log(PERSONS, rng), epsilon=EPSILON, rng=0)
    env = gym.make("privrl/ReleasedContinuous-v0", released=model)
    weights = train(env, rng)
    earned = task.mean_return(lambda s: (features(s) @ weights).argmax(axis=1), rng)
    planned = task.mean_return(plan_continuous(model).act, rng)
    print(f"random actions:          {task.random_return(rng):8.0f}")
    print(f"trained in the release:  {earned:8.0f}")
    print(f"planned in the release:  {planned:8.0f}")


if __name__ == "__main__":
    main()
