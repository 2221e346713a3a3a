"""Simulated tasks with continuous states: made-up logs, and returns of policies, many at a time.

Pendulum, MountainCar, CartPole and Acrobot follow Gymnasium's equations; the others are for
judging: no constant of the fit was tuned on them. (But ends and grids were designed with glucose in
sight, and the drift of the regulator with 8 dimensions was changed after its results were seen.)
Rewards and ends are given as functions of the state, so that the same code measures learning them
and knowing them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privrl.continuous.log import ContinuousLog
from privrl.continuous.schema import Choice, ContinuousSchema, Number
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

Dynamics = Callable[[FloatArray, FloatArray, np.random.Generator], FloatArray]
Reward = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
Ends = Callable[[FloatArray], BoolArray]
Act = Callable[[FloatArray], IntArray]


@dataclass(frozen=True, eq=False)
class Task:
    """A simulated task.

    Attributes
    ----------
    schema : ContinuousSchema
        Public ranges.
    start : callable
        From a number of episodes and a generator to states.
    step : callable
        From states, values of actions and a generator to next states.
    reward : callable
        From states, values of actions and next states to rewards.
    ends : callable
        Whether an episode terminates on arriving in a state.
    horizon, logged : int
        Steps of an episode when a policy is judged, and in a log.
    discount : float
        For planning.
    repeat : float
        Probability that the behaviour policy repeats its last action.
    """

    schema: ContinuousSchema
    start: Callable[[int, np.random.Generator], FloatArray]
    step: Dynamics
    reward: Reward
    ends: Ends
    horizon: int
    logged: int
    discount: float
    repeat: float = 0.8

    def log(self, persons: int, rng: np.random.Generator, act: Act | None = None) -> ContinuousLog:
        """Return a log of random actions, one episode for each person.

        Each action is repeated with probability ``repeat``. If ``act`` is given, half of the
        actions are its choices.
        """
        n, levels = self.schema.n_actions, self.schema.levels
        state, alive = self.start(persons, rng), np.arange(persons)
        chosen = rng.integers(n, size=persons)
        rows: list[tuple[NDArray[Any], ...]] = []
        for _ in range(self.logged):
            fresh = rng.random(len(alive)) >= self.repeat
            chosen = np.where(fresh, rng.integers(n, size=len(alive)), chosen)
            taken = chosen
            if act is not None:
                taken = np.where(rng.random(len(alive)) < 0.5, act(state), chosen)
            action = levels[taken]
            after = self.step(state, action, rng)
            over = self.ends(after)
            reward = self.reward(state, action, after)
            rows.append((alive, state, action, after, reward, over))
            state, alive, chosen = after[~over], alive[~over], chosen[~over]
            if not len(alive):
                break
        names = ("person", "state", "action", "next_state", "reward", "terminated")
        columns = map(np.concatenate, zip(*rows, strict=True))
        return ContinuousLog.of_arrays(self.schema, **dict(zip(names, columns, strict=True)))

    def mean_return(self, act: Act, rng: np.random.Generator, episodes: int = 100) -> float:
        """Return the mean undiscounted return of a policy from states to numbers of actions."""
        state, total = self.start(episodes, rng), 0.0
        for _ in range(self.horizon):
            action = self.schema.levels[act(self.schema.inside(state))]
            after = self.step(state, action, rng)
            total += float(self.reward(state, action, after).sum())
            state = after[~self.ends(after)]
            if not len(state):
                break
        return total / episodes

    def random_return(self, rng: np.random.Generator, episodes: int = 200) -> float:
        """Return the mean return of independent random actions."""
        n = self.schema.n_actions
        return self.mean_return(lambda s: rng.integers(n, size=len(s)), rng, episodes)


def wrap(angle: FloatArray) -> FloatArray:
    """Return angles between -pi and pi."""
    wrapped: FloatArray = (angle + math.pi) % (2 * math.pi) - math.pi
    return wrapped


def _never(state: FloatArray) -> BoolArray:
    return np.zeros(len(state), np.bool_)


def _each_step(of_step: float) -> Reward:
    return lambda state, action, after: np.full(len(state), of_step)


_ANGLE: Final = Number(low=-math.pi, high=math.pi, periodic=True)
_STEPS: Final = Number(low=-1, high=0)


def pendulum() -> Task:
    """Return Gymnasium's Pendulum-v1 in its angle and speed, with 5 levels of torque."""

    def step(state: FloatArray, action: FloatArray, _: np.random.Generator) -> FloatArray:
        angle, speed = state.T
        speed = np.clip(speed + (15 * np.sin(angle) + 3 * action[:, 0]) * 0.05, -8, 8)
        return np.stack([wrap(angle + speed * 0.05), speed], axis=1)

    def reward(state: FloatArray, action: FloatArray, _: FloatArray) -> FloatArray:
        costs: FloatArray = wrap(state[:, 0]) ** 2 + 0.1 * state[:, 1] ** 2
        return -costs - 0.001 * action[:, 0] ** 2

    schema = ContinuousSchema(
        state={"angle": _ANGLE, "speed": Number(low=-8, high=8)},
        action={"torque": Number(low=-2, high=2, levels=5)},
        reward=Number(low=-16.3, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return np.stack([rng.uniform(-math.pi, math.pi, n), rng.uniform(-1, 1, n)], axis=1)

    return Task(schema, start, step, reward, _never, 200, 200, 0.99)


def mountain_car() -> Task:
    """Return Gymnasium's MountainCar-v0."""

    def step(state: FloatArray, action: FloatArray, _: np.random.Generator) -> FloatArray:
        place, speed = state.T
        speed = np.clip(speed + 0.001 * action[:, 0] - 0.0025 * np.cos(3 * place), -0.07, 0.07)
        place = np.clip(place + speed, -1.2, 0.6)
        return np.stack([place, np.where((place <= -1.2) & (speed < 0), 0, speed)], axis=1)

    schema = ContinuousSchema(
        state={"place": Number(low=-1.2, high=0.6), "speed": Number(low=-0.07, high=0.07)},
        action={"push": Number(low=-1, high=1, levels=3)},
        reward=_STEPS,
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return np.stack([rng.uniform(-0.6, -0.4, n), np.zeros(n)], axis=1)

    return Task(schema, start, step, _each_step(-1.0), lambda s: s[:, 0] >= 0.5, 200, 200, 1.0)


def cart_pole() -> Task:
    """Return Gymnasium's CartPole-v1; speeds are taken to be within 3."""

    def step(state: FloatArray, action: FloatArray, _rng: np.random.Generator) -> FloatArray:
        _, speed, angle, turn = state.T
        force, cos, sin = 20 * action[:, 0] - 10, np.cos(angle), np.sin(angle)
        shared = (force + 0.05 * turn**2 * sin) / 1.1
        bend = (9.8 * sin - cos * shared) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        push = shared - 0.05 * bend * cos / 1.1
        change = np.stack([speed, push, turn, bend], axis=1)
        return state + 0.02 * change

    def ends(state: FloatArray) -> BoolArray:
        over: BoolArray = (abs(state[:, 0]) > 2.4) | (abs(state[:, 2]) > 12 * math.pi / 180)
        return over

    schema = ContinuousSchema(
        state={
            "place": Number(low=-2.5, high=2.5),
            "speed": Number(low=-3, high=3),
            "angle": Number(low=-0.22, high=0.22),
            "turn": Number(low=-3, high=3),
        },
        action={"push": Choice(values=("left", "right"))},
        reward=Number(low=0, high=1),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-0.05, 0.05, (n, 4))

    return Task(schema, start, step, _each_step(1.0), ends, 500, 40, 0.995, 0.0)


def acrobot() -> Task:
    """Return Gymnasium's Acrobot-v1 in its two angles and their speeds."""
    most = np.array([4 * math.pi, 9 * math.pi])

    def slope(state: FloatArray, torque: FloatArray) -> FloatArray:
        first, second, v1, v2 = state.T
        d1 = 1.25 + np.cos(second) + 2.25
        d2 = 1.25 + 0.5 * np.cos(second)
        g2 = 4.9 * np.sin(first + second)
        g1 = -0.5 * v2 * (v2 + 2 * v1) * np.sin(second) + 14.7 * np.sin(first) + g2
        a2 = (torque + d2 / d1 * g1 - 0.5 * v1**2 * np.sin(second) - g2) / (1.25 - d2**2 / d1)
        return np.stack([v1, v2, -(d2 * a2 + g1) / d1, a2], axis=1)

    def step(state: FloatArray, action: FloatArray, _: np.random.Generator) -> FloatArray:
        torque, dt = action[:, 0], 0.2
        k1 = slope(state, torque)
        k2 = slope(state + dt / 2 * k1, torque)
        k3 = slope(state + dt / 2 * k2, torque)
        after = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(state + dt * k3, torque))
        return np.concatenate([wrap(after[:, :2]), np.clip(after[:, 2:], -most, most)], axis=1)

    def ends(state: FloatArray) -> BoolArray:
        over: BoolArray = -np.cos(state[:, 0]) - np.cos(state[:, 1] + state[:, 0]) > 1
        return over

    def reward(state: FloatArray, action: FloatArray, after: FloatArray) -> FloatArray:
        return np.where(ends(after), 0.0, -1.0)

    schema = ContinuousSchema(
        state={
            "first": _ANGLE,
            "second": _ANGLE,
            "first_speed": Number(low=-most[0], high=most[0]),
            "second_speed": Number(low=-most[1], high=most[1]),
        },
        action={"torque": Number(low=-1, high=1, levels=3)},
        reward=_STEPS,
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-0.1, 0.1, (n, 4))

    return Task(schema, start, step, reward, ends, 500, 200, 0.99)


def regulator(n_state: int) -> Task:
    """Return a linear-quadratic regulator: a chain of coupled integrators."""
    drift = np.eye(n_state) * (1.01 if n_state < 8 else 0.96) + np.diag(
        np.full(n_state - 1, 0.1), 1
    )
    push = np.zeros(n_state)
    push[-1], push[0] = 0.2, 0.05

    def step(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.normal(0, 0.01, state.shape)
        return np.clip(state @ drift.T + action * push + noise, -2, 2)

    def reward(state: FloatArray, action: FloatArray, _: FloatArray) -> FloatArray:
        return -np.sum(state**2, axis=1) - 0.1 * action[:, 0] ** 2

    schema = ContinuousSchema(
        state={f"x{i}": Number(low=-2, high=2) for i in range(n_state)},
        action={"u": Number(low=-1, high=1, levels=5)},
        reward=Number(low=-4.0 * n_state - 0.1, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-0.5, 0.5, (n, n_state))

    return Task(schema, start, step, reward, _never, 50, 50, 0.97)


def integrator() -> Task:
    """Return a double integrator with dry and viscous friction, to be brought to rest at 0."""

    def step(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        place, speed = state.T
        friction = 0.5 * speed + 0.3 * np.tanh(10 * speed)
        speed = np.clip(speed + 0.1 * (2 * action[:, 0] - friction), -2, 2)
        after = np.stack([np.clip(place + 0.1 * speed, -3, 3), speed], axis=1)
        return after + rng.normal(0, 0.005, after.shape)

    def reward(state: FloatArray, action: FloatArray, _: FloatArray) -> FloatArray:
        return -(state[:, 0] ** 2) - 0.1 * state[:, 1] ** 2 - 0.01 * action[:, 0] ** 2

    schema = ContinuousSchema(
        state={"place": Number(low=-3, high=3), "speed": Number(low=-2, high=2)},
        action={"force": Number(low=-1, high=1, levels=5)},
        reward=Number(low=-9.5, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return np.stack([rng.uniform(-2, 2, n), np.zeros(n)], axis=1)

    return Task(schema, start, step, reward, _never, 100, 100, 0.98)


def glucose() -> Task:
    """Return insulin dosing in the minimal model of Bergman et al. (1981), in steps of 15 minutes.

    Glucose G (mg/dl), remote insulin X (per minute) and plasma insulin I (mU/l) follow
    ``G' = -p1 (G - 80) - X G + D``, ``X' = -p2 X + p3 I`` and ``I' = -n I + u / V``, with
    p1 = .0028, p2 = .025, p3 = 1.3e-5, n = .093, V = 12 l; I is above its basal value. Meals D
    come at random. The reward is minus the squared logarithm of G / 110.
    """

    def step(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        sugar, remote, insulin = state.T
        remote, rate = remote / 1000, 100 * action[:, 0]
        meal = np.where(rng.random(len(state)) < 0.05, rng.uniform(2, 6, len(state)), 0.3)
        for _ in range(15):
            sugar = sugar + (-0.0028 * (sugar - 80) - remote * sugar + meal)
            remote = remote + (-0.025 * remote + 1.3e-5 * insulin)
            insulin = insulin + (-0.093 * insulin + rate / 12)
        return np.stack(
            [
                np.clip(sugar, 30, 400),
                np.clip(1000 * remote, 0, 40),
                np.clip(insulin, 0, 90),
            ],
            axis=1,
        )

    def reward(state: FloatArray, action: FloatArray, after: FloatArray) -> FloatArray:
        distance: FloatArray = np.log(after[:, 0] / 110) ** 2
        return -distance

    schema = ContinuousSchema(
        state={
            "glucose": Number(low=30, high=400),
            "remote": Number(low=0, high=40),
            "insulin": Number(low=0, high=90),
        },
        action={"dose": Number(low=0, high=1, levels=5)},
        reward=Number(low=-1.7, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        zero = np.zeros(n)
        return np.stack([rng.uniform(90, 250, n), zero, zero], axis=1)

    return Task(schema, start, step, reward, _never, 96, 96, 0.98, 0.7)


def tumour() -> Task:
    """Return chemotherapy in the model of Zhao, Kosorok and Zeng (2009), in steps of a month.

    Toxicity W and the size M of the tumour change by ``0.1 M + 1.2 (D - 0.5)`` and
    ``0.15 W - 1.2 (D - 0.5)`` for a dose D, M only while there is a tumour. (The paper has the
    larger of the first and the current size and toxicity.) The reward is minus the chance to die
    within the month, at the paper's rate ``exp(W + M - 4)``.
    """

    def step(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        toxicity, size = state.T
        much, noise = 1.2 * (action[:, 0] - 0.5), rng.normal(0, 0.05, (2, len(state)))
        toxicity = np.clip(toxicity + 0.1 * size + much + noise[0], 0, 6)
        after = np.clip(size + 0.15 * state[:, 0] - much + noise[1], 0, 6)
        return np.stack([toxicity, np.where(size > 0, after, 0)], axis=1)

    def reward(state: FloatArray, action: FloatArray, after: FloatArray) -> FloatArray:
        chance: FloatArray = np.expm1(-np.exp(after.sum(axis=1) - 4))
        return chance

    schema = ContinuousSchema(
        state={"toxicity": Number(low=0, high=6), "size": Number(low=0, high=6)},
        action={"dose": Number(low=0, high=1, levels=5)},
        reward=Number(low=-1, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(0, 2, (n, 2))

    return Task(schema, start, step, reward, _never, 24, 24, 0.98, 0.5)


def clinic() -> Task:
    """Return a clinic with a severity, a toxicity and a ward; the drug works in one ward only.

    Three actions: wait, treat, and move to the other ward. Treating lowers the severity twice as
    fast in the second ward, and raises the toxicity. An episode ends with a severity of 1.
    """

    def step(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        severity, toxicity, ward = state.T
        treat, move = action[:, 0] == 1, action[:, 0] == 2
        noise = rng.normal(0, 0.02, (2, len(state)))
        severity = severity * 1.06 + 0.01 - treat * (0.06 + 0.08 * ward) + 0.05 * toxicity**2
        toxicity = 0.8 * toxicity + 0.15 * treat
        ward = np.where(move & (rng.random(len(state)) < 0.9), 1 - ward, ward)
        return np.stack(
            [np.clip(severity + noise[0], 0, 1), np.clip(toxicity + noise[1], 0, 1), ward], axis=1
        )

    def reward(state: FloatArray, action: FloatArray, after: FloatArray) -> FloatArray:
        worse: FloatArray = state[:, 0] + 0.3 * state[:, 1] + 20.0 * ends(after)
        return -worse

    def ends(state: FloatArray) -> BoolArray:
        over: BoolArray = state[:, 0] >= 0.999
        return over

    schema = ContinuousSchema(
        state={
            "severity": Number(low=0, high=1),
            "toxicity": Number(low=0, high=1),
            "ward": Choice(values=("general", "special")),
        },
        action={"care": Choice(values=("wait", "treat", "move"))},
        reward=Number(low=-22, high=0),
        terminates=True,
    )

    def start(n: int, rng: np.random.Generator) -> FloatArray:
        ward = rng.integers(2, size=n)
        return np.stack([rng.uniform(0.2, 0.7, n), np.zeros(n), ward.astype(float)], axis=1)

    return Task(schema, start, step, reward, ends, 50, 50, 0.98, 0.5)


TASKS: Final[dict[str, Callable[[], Task]]] = {
    "Pendulum": pendulum,
    "MountainCar": mountain_car,
    "CartPole": cart_pole,
    "Acrobot": acrobot,
    "Regulator, 4 dimensions": lambda: regulator(4),
    "Regulator, 8 dimensions": lambda: regulator(8),
    "Integrator with friction": integrator,
    "Glucose": glucose,
    "Tumour": tumour,
    "Clinic": clinic,
}
