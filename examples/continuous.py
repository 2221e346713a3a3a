"""Train a deep agent in a private model of continuous states, and judge it in the true task.

Made-up persons act at random in Pendulum or CartPole. Their log is released once, as a model with
epsilon = 1 for each whole person. A small deep Q-network (Mnih et al., 2015; double, as van Hasselt
et al., 2016) then trains in the released environment alone, through Gymnasium's interface, as any
other agent could. The same agent is trained in the true task, and both are judged there. Rewards
and ends of episodes are public functions. Needs NumPy and Gymnasium only.

    python examples/continuous.py Pendulum 3000
    python examples/continuous.py CartPole 30000

With seed 0, the first line printed returns of -1242 for random actions, -149 for the agent of the
true task and -162 for that of the release; the second one 22, 500 and 500. With the order of
features that the fit chooses by itself, the last is 140: agents exploit errors of that model where
random actions do not come. Linear features, order 2, were chosen after that was seen.
"""

import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from tasks import TASKS, Task

from privrl.continuous import ContinuousSchema, Number, fit_continuous_model

PERSONS, EPSILON = 30_000, 1.0
STEPS = {"Pendulum": 8_000, "CartPole": 20_000}
ORDER = {"Pendulum": None, "CartPole": 2}
UNITS, BATCH, RATE, SLOW, DISCOUNT = 64, 64, 1e-3, 0.01, 0.99
JUDGED, EPISODES = 1500, 5  # steps after which the agent is judged, and by how many episodes

Array = np.ndarray[Any, Any]
Act = Callable[[Array], Array]


class TrueTask(gym.Env):  # type: ignore[type-arg]
    """A task, played as the released model of it is."""

    def __init__(self, task: Task) -> None:
        self.task, self.action_space = task, gym.spaces.Discrete(task.schema.n_actions)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (task.schema.n_state,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict]:
        """Start an episode."""
        super().reset(seed=seed)
        self.state, self.steps = self.task.start(1, self.np_random), 0
        return self.task.schema.inside(self.state)[0], {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict]:
        """Take one action."""
        levels = self.task.schema.levels[[action]]
        after = self.task.step(self.state, levels, self.np_random)
        reward = float(self.task.reward(self.state, levels, after)[0])
        self.state, self.steps = after, self.steps + 1
        over, cut = bool(self.task.ends(after)[0]), self.steps >= self.task.horizon
        return self.task.schema.inside(after)[0], reward, over, cut, {}


def inputs(schema: ContinuousSchema, state: Array) -> Array:
    """Return states between -1 and 1; an angle as its cosine and sine."""
    found = []
    for values, column in zip(np.atleast_2d(state).T, schema.state.values(), strict=True):
        assert isinstance(column, Number)
        scaled = (values - column.low) / column.width
        angle = 2 * np.pi * scaled
        found += [np.cos(angle), np.sin(angle)] if column.periodic else [2 * scaled - 1]
    return np.stack(found, axis=1)


class Network:
    """Two hidden layers of rectified units, trained by Adam (Kingma and Ba, 2015)."""

    def __init__(self, n_inputs: int, n_outputs: int, rng: np.random.Generator) -> None:
        shapes = [(n_inputs, UNITS), (UNITS, UNITS), (UNITS, n_outputs)]
        parts = [rng.normal(0, np.sqrt(2 / n), (n, m)) for n, m in shapes]
        self.weights = np.concatenate([np.append(part, np.zeros(part.shape[1])) for part in parts])
        self.shapes = shapes
        self.mean, self.square = np.zeros((2, len(self.weights)))
        self.steps = 0

    def parts(self) -> list[Array]:
        """Return views of the matrices and offsets."""
        found, place = [], 0
        for n, m in self.shapes:
            found.append(self.weights[place : place + n * m].reshape(n, m))
            place += n * m
            found.append(self.weights[place : place + m])
            place += m
        return found

    def layers(self, x: Array) -> list[Array]:
        """Return the values of each layer, the inputs first."""
        a, b, c, d, e, f = self.parts()
        first = np.maximum(x @ a + b, 0)
        second = np.maximum(first @ c + d, 0)
        return [x, first, second, second @ e + f]

    def learn(self, x: Array, action: Array, wanted: Array) -> None:
        """Take one step down Huber's loss of the outputs of actions."""
        x, first, second, out = self.layers(x)
        error = np.zeros_like(out)
        rows = np.arange(len(x))
        error[rows, action] = np.clip(out[rows, action] - wanted, -1, 1) / len(x)
        parts = self.parts()
        into_second = (error @ parts[4].T) * (second > 0)
        into_first = (into_second @ parts[2].T) * (first > 0)
        pairs = ((x, into_first), (first, into_second), (second, error))
        slope = np.concatenate(
            [np.append(before.T @ after, after.sum(axis=0)) for before, after in pairs]
        )
        self.steps += 1
        self.mean += 0.1 * (slope - self.mean)
        self.square += 0.001 * (slope**2 - self.square)
        rate = RATE * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        self.weights -= rate * self.mean / (np.sqrt(self.square) + 1e-8)


def play(env: gym.Env, act: Act, episodes: int) -> float:
    """Return the mean return of some episodes."""
    total = 0.0
    for _ in range(episodes):
        state, over = env.reset()[0], False
        while not over:
            state, reward, terminated, cut, _ = env.step(int(act(state)[0]))
            total, over = total + float(reward), terminated or cut
    return total / episodes


def train(env: gym.Env, schema: ContinuousSchema, steps: int, rng: np.random.Generator) -> Act:
    """Return the best policy that a deep Q-network finds in an environment, as it says itself."""
    n, actions = inputs(schema, env.reset(seed=0)[0]).shape[1], schema.n_actions
    network, slow = (Network(n, actions, np.random.default_rng(1)) for _ in range(2))
    seen, after, rewards = np.empty((steps, n)), np.empty((steps, n)), np.empty(steps)
    taken, goes_on = np.empty(steps, np.intp), np.empty(steps)
    assert schema.reward is not None
    unit = max(abs(schema.reward.low), abs(schema.reward.high))

    def acting(weights: Array) -> Act:
        judged = Network(n, actions, rng)
        judged.weights = weights.copy()
        return lambda state: judged.layers(inputs(schema, state))[-1].argmax(axis=1)

    best, most = acting(network.weights), -np.inf
    state = inputs(schema, env.reset()[0])
    for step in range(steps):
        curious = max(0.05, 1 - step / (0.3 * steps))
        action = int(network.layers(state)[-1].argmax())
        if rng.random() < curious:
            action = int(rng.integers(actions))
        raw, reward, over, cut, _ = env.step(action)
        following = inputs(schema, raw)
        seen[step], after[step], taken[step] = state[0], following[0], action
        rewards[step], goes_on[step] = float(reward) / unit, not over
        state = inputs(schema, env.reset()[0]) if over or cut else following
        if step >= 500:
            rows = rng.integers(step + 1, size=BATCH)
            likely = network.layers(after[rows])[-1].argmax(axis=1)
            ahead = slow.layers(after[rows])[-1][np.arange(BATCH), likely]
            network.learn(seen[rows], taken[rows], rewards[rows] + DISCOUNT * goes_on[rows] * ahead)
            slow.weights += SLOW * (network.weights - slow.weights)
        if (step + 1) % JUDGED == 0 and step > steps / 3:
            now = acting(slow.weights)
            worth = play(env, now, EPISODES)
            if worth > most:
                best, most = now, worth
            state = inputs(schema, env.reset()[0])
    return best


def main(name: str, persons: int = PERSONS, seed: int = 0) -> dict[str, float]:
    """Release, train, judge."""
    task, rng = TASKS[name](), np.random.default_rng(seed)
    model = fit_continuous_model(
        task.log(persons, rng), epsilon=EPSILON, order=ORDER[name], rng=seed
    )
    released = gym.make(
        "privrl/ReleasedContinuous-v0",
        released=model,
        reward=task.reward,
        ends=task.ends,
        horizon=task.horizon,
        start=lambda rng: task.start(1, rng)[0],
    )
    found = {"random actions": task.random_return(rng, 1000)}
    for where, env in (("the true task", TrueTask(task)), ("the release", released)):
        act = train(env, task.schema, STEPS[name], np.random.default_rng(seed))
        found[f"trained in {where}"] = task.mean_return(act, rng, 1000)
    low, true, private = found.values()
    found["part of the gap"] = (private - low) / (true - low)
    for said, value in found.items():
        print(f"{said:25}{value:9.2f}", flush=True)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["Pendulum"], *map(int, sys.argv[2:3]))
