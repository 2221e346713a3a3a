"""Worlds whose episodes end with an outcome, as care does, and what a policy is worth there."""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from os import PathLike
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from privrl.envs.icu_sepsis import icu_sepsis, icu_sepsis_choices
from privrl.files.files import package_text
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

Behaviour = Literal["uniform", "half-expert"]

#: How actions come to be in a log, by the names that tables use.
BEHAVIOURS: Final = ("uniform", "half-expert")


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """A Markov decision process that ends with outcomes, with known tables.

    Parameters
    ----------
    name : str
        What tables call it.
    transition : array, shape (S, A, S + outcomes)
        Probabilities of the next state, and after these of the outcomes.
    start : array, shape (S,)
        Probabilities of the first state.
    admissible : array of bool, shape (S, A)
        The admissible actions of each state, at least one.
    expert : array, shape (S, A)
        Chances of the actions of somebody who knows what they do.
    outcomes : tuple of str
        How episodes end.
    outcome_rewards : tuple of float
        What each outcome earns.
    step_reward : float or array, shape (S, A)
        What a step earns, that of its outcome apart.
    discount : float
        In (0, 1]: what a reward counts one step later.
    most_steps : int
        After which a log is cut off; values are not.

    Raises
    ------
    ValueError
        If shapes do not fit together, or probabilities are none.
    """

    name: str
    transition: FloatArray
    start: FloatArray
    admissible: BoolArray
    expert: FloatArray
    outcomes: tuple[str, ...]
    outcome_rewards: tuple[float, ...]
    step_reward: float | FloatArray = 0.0
    discount: float = 1.0
    most_steps: int = 50

    def __post_init__(self) -> None:
        shape = self.admissible.shape
        wanted = (*shape, shape[0] + len(self.outcomes))
        if self.transition.shape != wanted:
            raise ValueError(
                f"transition must have shape {wanted}, for states and outcomes as admissible and "
                f"outcomes have them, got {self.transition.shape}."
            )
        if len(self.outcome_rewards) != len(self.outcomes):
            raise ValueError(
                f"outcome_rewards must be one for each of the {len(self.outcomes)} outcomes, got "
                f"{shown(self.outcome_rewards)}."
            )
        if self.admissible.dtype != np.bool_ or not self.admissible.any(axis=1).all():
            raise ValueError("admissible must be booleans, with an action at least in each state.")
        if np.shape(self.step_reward) not in ((), shape):
            raise ValueError(
                f"step_reward must be a number or have shape {shape}, got "
                f"{np.shape(self.step_reward)}."
            )
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount must be > 0 and <= 1, got {shown(self.discount)}.")
        check_count("most_steps", self.most_steps)
        _check_chances("transition", self.transition[self.admissible], wanted[2:])
        _check_chances("start", self.start, shape[:1])
        self._check_policy("expert", self.expert)

    @property
    def n_states(self) -> int:
        """Number of states S, outcomes not among them."""
        return self.admissible.shape[0]

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self.admissible.shape[1]

    @property
    def step_rewards(self) -> tuple[float, float]:
        """Least and greatest reward of a step, that of its outcome apart."""
        possible = np.broadcast_to(self.step_reward, self.admissible.shape)[self.admissible]
        return float(possible.min()), float(possible.max())

    def behaviour(self, name: Behaviour) -> FloatArray:
        """Return the chances of actions, shape (S, A), under one of `BEHAVIOURS`.

        "uniform" is over admissible actions; "half-expert" is that half of the time, and the
        expert otherwise.
        """
        uniform: FloatArray = self.admissible / self.admissible.sum(axis=1, keepdims=True)
        if name == "uniform":
            return uniform
        if name == "half-expert":
            return 0.5 * uniform + 0.5 * self.expert
        raise ValueError(f"behaviour must be one of {', '.join(BEHAVIOURS)}, got {shown(name)}.")

    def chances(self, action: IntArray, otherwise: FloatArray | None = None) -> FloatArray:
        """Return a policy as chances, shape (..., S, A).

        Parameters
        ----------
        action : array of int, shape (..., S)
            What to do in each state; -1 for ``otherwise``. An action that is not admissible there
            stands for any that is, drawn uniformly, as in ICU-Sepsis.
        otherwise : array, shape (S, A), optional
            Chances of actions; by default uniform.
        """
        uniform = self.behaviour("uniform")
        decided = (action[..., None] == np.arange(self.n_actions)) & self.admissible
        undecided = np.where(action[..., None] < 0, uniform if otherwise is None else otherwise, 0)
        chances = np.where(decided, 1.0, undecided)
        return np.where(chances.any(axis=-1, keepdims=True), chances, uniform)

    def value(self, policy: ArrayLike) -> float:
        """Return the exact expected sum of discounted rewards from the start.

        Parameters
        ----------
        policy : array of int, shape (S,) or (H, S), or of float, shape (S, A) or (H, S, A)
            Actions as for `chances`, or chances, of admissible actions alone; in each state, or at
            each of H steps. The first of these is also the policy after all of them.

        Raises
        ------
        ValueError
            If the shape is wrong, or an action is not admissible.
        numpy.linalg.LinAlgError
            If nothing is discounted and episodes never end.
        """
        policy = plain_array("policy", policy)
        chances = self.chances(policy) if policy.dtype.kind in "iu" else policy
        self._check_policy("policy", chances)
        by_step = chances.reshape(-1, *self.admissible.shape)
        values = self._values(by_step[0])
        if len(by_step) > 1:
            for each in by_step[::-1]:
                ahead = self.transition[:, :, : self.n_states] @ values
                values = (each * (self._rewards + self.discount * ahead)).sum(axis=1)
        return float(self.start @ values)

    def optimum(self) -> tuple[IntArray, float]:
        """Return a policy, shape (S,), than which none is better, and its value."""
        return self._optimum

    def score(self, policy: ArrayLike) -> float:
        """Return how far a policy comes from uniform actions, 0, to the optimum, 1."""
        low, high = self._uniform_value, self._optimum[1]
        return (self.value(policy) - low) / (high - low)

    @cached_property
    def _uniform_value(self) -> float:
        return self.value(self.behaviour("uniform"))

    @cached_property
    def _optimum(self) -> tuple[IntArray, float]:
        """Policy iteration: each round is exact, and the last changes nothing."""
        policy = np.where(self.admissible, self._rewards, -np.inf).argmax(axis=1)
        everywhere = np.arange(self.n_states)
        while True:
            values = self._values(self.chances(policy))
            ahead = self.transition[:, :, : self.n_states] @ values
            worth = np.where(self.admissible, self._rewards + self.discount * ahead, -np.inf)
            gain = worth.max(axis=1) - worth[everywhere, policy]
            better = gain > 1e-10 * max(1.0, np.abs(values).max())
            if not better.any():
                return policy, float(self.start @ values)
            policy = np.where(better, worth.argmax(axis=1), policy)

    @cached_property
    def _rewards(self) -> FloatArray:
        """Expected reward of each action, its outcome among it."""
        of_outcomes = self.transition[:, :, self.n_states :] @ np.array(self.outcome_rewards)
        return self.step_reward + of_outcomes

    def _values(self, chances: FloatArray) -> FloatArray:
        moves = np.einsum("sa,sap->sp", chances, self.transition[:, :, : self.n_states])
        earned = (chances * self._rewards).sum(axis=1)
        return np.linalg.solve(np.eye(self.n_states) - self.discount * moves, earned)

    def _check_policy(self, name: str, policy: FloatArray) -> None:
        _check_chances(name, policy, self.admissible.shape)
        if (policy[..., ~self.admissible] != 0).any():
            raise ValueError(f"{name} must take admissible actions only.")


def _check_chances(name: str, chances: FloatArray, shape: tuple[int, ...]) -> None:
    fine = chances.shape[-len(shape) :] == shape and chances.size > 0 and (chances >= 0).all()
    if not (fine and (np.abs(chances.sum(axis=-1) - 1) < 1e-9).all()):
        raise ValueError(
            f"{name} must be probabilities of shape {shape} that sum to 1 within 1e-9 in each row, "
            f"got an array of shape {chances.shape}."
        )


# Worlds that are drawn ---------------------------------------------------------------------------


def clinic(
    seed: int,
    *,
    name: str | None = None,
    n_states: int = 300,
    n_actions: int = 12,
    mean_admissible: float = 3.0,
    n_next: int = 40,
    death: float = -4.2,
    survival: float = -2.6,
    effects: tuple[float, float, float] = (0.8, 0.3, 0.1),
    severity: tuple[float, float] = (2.5, 2.0),
) -> World:
    """Return an intensive care unit that is drawn at random: a patient dies or survives.

    Parameters
    ----------
    seed : int
        Of all that is drawn.
    name : str, optional
        What tables call it.
    n_states, n_actions : int
        Their numbers.
    mean_admissible : float
        How many actions a state has, in the mean: one, and a Poisson number more.
    n_next : int
        How many states follow each, at the most.
    death, survival : float
        Log-odds of each in a step, for a patient of medium severity.
    effects : (float, float, float)
        Deviations of what an action does to the log-odds of death, to those of survival, and to
        the severity of who stays.
    severity : (float, float)
        How much more log-odds of death and less of survival the worst state has than the medium
        one: twice that than the best.

    Returns
    -------
    World
        Each state has a severity in [0, 1], and leads to others of about that. The expert knows
        half of what actions do to death and survival.
    """
    check_count("n_states", n_states)
    check_count("n_actions", n_actions)
    check_count("n_next", n_next)
    rng = np.random.default_rng(check_count("seed", seed, least=0))
    grade = rng.random(n_states)
    popular = 1 / np.arange(1, n_actions + 1)
    popular = rng.permutation(popular / popular.sum())
    admissible = np.zeros((n_states, n_actions), np.bool_)
    for state in range(n_states):
        number = min(n_actions, 1 + rng.poisson(mean_admissible - 1))
        admissible[state, rng.choice(n_actions, number, replace=False, p=popular)] = True
    everywhere = rng.normal(size=(3, n_actions)) * 0.3
    effect = rng.normal(size=(3, n_states, n_actions)) + everywhere[:, None]
    off = grade[:, None] - 0.5
    dies = _sigmoid(death + severity[0] * off * 2 + effects[0] * effect[0])
    lives = _sigmoid(survival - severity[1] * off + effects[1] * effect[1])
    lives = np.minimum(lives, 1 - dies - 0.02)
    transition = np.zeros((n_states, n_actions, n_states + 2))
    transition[:, :, n_states], transition[:, :, n_states + 1] = dies, lives
    stays = (1 - dies - lives)[:, :, None]
    for state in range(n_states):
        tilt = 10 * effects[2] * effect[2, state]
        there, rows = _moves(rng, grade, state, tilt, n_next=n_next, width=0.2)
        transition[state][:, there] = rows * stays[state]
    start = rng.gamma(1.0, size=n_states)
    liked = rng.gamma(0.5, size=admissible.shape) * admissible * np.exp(10 * (lives - dies))
    return _world_of(
        start,
        liked,
        name=name or f"clinic {seed}",
        transition=transition,
        admissible=admissible,
        outcomes=("died", "survived"),
        outcome_rewards=(0.0, 1.0),
    )


def clinics(half: Literal["set", "judged"]) -> Iterator[World]:
    """Return the clinics of a half, made one after the other.

    Constants of `privrl.offline.fit_policy` may have been chosen by results on "set"; those on
    "judged" are of other seeds, sizes and rates.
    """
    shapes = tomllib.loads(package_text(__package__, "clinics.toml"))[half]
    return (clinic(name=name, **shape) for name, shape in shapes.items())


def ward(seed: int = 201, *, name: str = "ward", n_states: int = 240, n_actions: int = 8) -> World:
    """Return a ward for a chronic illness, drawn at random: what counts is health at each step.

    Parameters
    ----------
    seed : int
        Of all that is drawn.
    name : str
        What tables call it.
    n_states, n_actions : int
        Their numbers.

    Returns
    -------
    World
        Each step earns a health index in [0, 1] of the state, less the burden of the action; to
        be discharged is worth ten steps of full health. Rewards are discounted by 0.95. Logs are
        cut off after 30 steps.
    """
    check_count("n_states", n_states)
    check_count("n_actions", n_actions, least=4)  # of which a state has up to four
    rng = np.random.default_rng(check_count("seed", seed, least=0))
    health = rng.random(n_states)
    admissible = np.zeros((n_states, n_actions), np.bool_)
    for each in admissible:
        each[rng.choice(n_actions, rng.integers(2, 5), replace=False)] = True
    effect = rng.normal(size=(3, n_states, n_actions))
    dies = _sigmoid(-4.0 - 4 * (health[:, None] - 0.5) + 0.5 * effect[0])
    leaves = _sigmoid(-3.5 + 4 * (health[:, None] - 0.5) + 0.3 * effect[1])
    transition = np.zeros((n_states, n_actions, n_states + 2))
    transition[:, :, n_states], transition[:, :, n_states + 1] = dies, leaves
    stays = (1 - dies - leaves)[:, :, None]
    for state in range(n_states):
        there, rows = _moves(rng, health, state, 3 * effect[2, state], n_next=30, width=0.15)
        transition[state][:, there] = rows * stays[state]
    burden = rng.uniform(0.0, 0.2, n_actions)
    start = rng.gamma(1.0, size=n_states) * (1 - health)
    liked = rng.gamma(0.5, size=admissible.shape) * admissible * np.exp(effect[2])
    return _world_of(
        start,
        liked,
        name=name,
        transition=transition,
        admissible=admissible,
        outcomes=("died", "discharged"),
        outcome_rewards=(0.0, 10.0),
        step_reward=np.maximum(health[:, None] - burden, 0.0),
        discount=0.95,
        most_steps=30,
    )


def _moves(
    rng: np.random.Generator,
    grade: FloatArray,
    state: int,
    tilt: FloatArray,
    *,
    n_next: int,
    width: float,
) -> tuple[IntArray, FloatArray]:
    """Return which states may follow one, of about its grade, and their chances by action.

    An action's ``tilt`` is the log-odds that it gives to a state for each unit of more grade.
    """
    near = np.exp(-((grade - grade[state]) ** 2) / (2 * width**2))
    size = min(n_next, len(grade))
    there = rng.choice(len(grade), size, replace=False, p=near / near.sum())
    rows = rng.gamma(1.0, size=size) * np.exp(tilt[:, None] * (grade[there] - grade[state]))
    return there, rows / rows.sum(axis=1, keepdims=True)


def _world_of(start: FloatArray, liked: FloatArray, **rest: Any) -> World:
    """Return a world with the chances of first states and of the expert's actions up to factors."""
    expert = liked / liked.sum(axis=1, keepdims=True)
    return World(start=start / start.sum(), expert=expert, **rest)


def _sigmoid(log_odds: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-log_odds))


# ICU-Sepsis --------------------------------------------------------------------------------------


def icu_world(
    path: str | PathLike[str] | None = None,
    *,
    name: str = "ICU-Sepsis",
    step_reward: float = 0.0,
    discount: float = 1.0,
) -> World:
    """Return ICU-Sepsis: 713 states of patients, 25 doses, and death or survival.

    Parameters
    ----------
    path : str or path-like, optional
        As for `privrl.envs.icu_sepsis`.
    name : str
        What tables call it.
    step_reward, discount : float
        Of the world: with others it is another one.

    Raises
    ------
    ValueError, OSError
        As `privrl.envs.icu_sepsis`.

    Notes
    -----
    Actions without records in a state are not admissible. Logs are cut off after 50 steps, of which
    few take so many.
    """
    n_states = 713
    mdp = icu_sepsis(path)
    admissible, expert = icu_sepsis_choices(path)
    return World(
        name=name,
        transition=mdp.transition[:n_states, :, : n_states + 2],
        start=mdp.start[:n_states],
        admissible=admissible[:n_states],
        expert=expert[:n_states],
        outcomes=("died", "survived"),
        outcome_rewards=(0.0, 1.0),
        step_reward=step_reward,
        discount=discount,
    )


# The sepsis simulator ----------------------------------------------------------------------------

#: Values of the vital signs and treatments that make up a state, the last one fastest.
_VITALS: Final = (2, 3, 3, 2, 5, 2, 2, 2)
_DIABETIC: Final = 0.2


def sepsis_simulator() -> World:
    """Return the sepsis simulator of Oberst and Sontag as exact tables: 1,440 states, 8 actions.

    Returns
    -------
    World
        A state is diabetes, heart rate, blood pressure, oxygen, glucose, and which of three
        treatments (antibiotics, vasopressors, ventilation) are given. An action is the set of
        treatments given next. A patient dies when three vital signs are abnormal, and goes home
        when all are normal without treatment. Death earns -1, going home 1, and an episode of 20
        steps that reaches neither earns 0. The expert is the optimal policy for a discount of 0.99.

    Notes
    -----
    M. Oberst and D. Sontag, *Counterfactual Off-Policy Evaluation with Gumbel-Max Structural
    Causal Models*, ICML 2019. As in the code that they published, the glucose of a patient without
    diabetes cannot rise above level 1 of 0 to 4 by itself.
    """
    shape = (*_VITALS[:5], 8)
    n_states = math.prod(_VITALS)
    values = np.indices(_VITALS).reshape(len(_VITALS), n_states)
    normal = np.array([1, 1, 1, 2])
    abnormal = (values[1:5] != normal[:, None]).sum(axis=0)
    dead = abnormal >= 3
    home = (abnormal == 0) & ~values[5:].any(axis=0)
    transition = np.zeros((n_states, 8, n_states + 2))
    for state, (diabetic, rate, pressure, oxygen, glucose, *before) in enumerate(values.T):
        for action in range(8):
            given = action >> 2 & 1, action >> 1 & 1, action & 1
            antibiotics, ventilation, vasopressors = given
            had_antibiotics, had_vasopressors, had_ventilation = before
            law = np.zeros(shape)
            law[diabetic, ..., 4 * antibiotics + 2 * vasopressors + ventilation] = reduce(
                np.multiply.outer,
                [
                    _heart_rate(had_antibiotics, antibiotics)[rate],
                    _blood_pressure(
                        (had_antibiotics, antibiotics), (had_vasopressors, vasopressors), diabetic
                    )[pressure],
                    _oxygen(had_ventilation, ventilation)[oxygen],
                    _glucose(vasopressors, diabetic)[glucose],
                ],
            )
            transition[state, action, :n_states] = law.ravel()
    ends = np.stack([dead, home])
    transition[:, :, n_states:] = transition[:, :, :n_states] @ ends.T.astype(float)
    transition[:, :, :n_states][:, :, dead | home] = 0.0
    start = np.zeros(_VITALS)
    middle, low_oxygen = np.array([0.25, 0.5, 0.25]), np.array([0.2, 0.8])
    for diabetic, share, glucose in (
        (0, 1 - _DIABETIC, [0.05, 0.15, 0.6, 0.15, 0.05]),
        (1, _DIABETIC, [0.01, 0.05, 0.15, 0.6, 0.19]),
    ):
        start[diabetic, ..., 0, 0, 0] = share * reduce(
            np.multiply.outer, [middle, middle, low_oxygen, np.array(glucose)]
        )
    begins = np.where(dead | home, 0.0, start.ravel())
    return World(
        name="sepsis simulator",
        transition=transition,
        start=begins / begins.sum(),
        admissible=np.ones((n_states, 8), np.bool_),
        expert=_best_stationary(transition, np.array([-1.0, 1.0]), 0.99),
        outcomes=("died", "home"),
        outcome_rewards=(-1.0, 1.0),
        most_steps=20,
    )


def _fluctuates(size: int, chance: float, most: int | None = None) -> FloatArray:
    """Return how a level moves by one up or down, each with this chance, between its ends."""
    law = (1 - 2 * chance) * np.eye(size)
    for level in range(size):
        law[level, max(level - 1, 0)] += chance
        law[level, min(level + 1, size - 1 if most is None else most)] += chance
    return law


def _heart_rate(before: int, now: int) -> FloatArray:
    law = np.eye(3)
    if now:
        law[2] = 0.0, 0.5, 0.5
    elif before:
        law[1] = 0.0, 0.9, 0.1
    else:
        law = _fluctuates(3, 0.1)
    return law


def _blood_pressure(
    antibiotics: tuple[int, int], vasopressors: tuple[int, int], diabetic: int
) -> FloatArray:
    if not any(antibiotics) and not any(vasopressors):
        return _fluctuates(3, 0.1)
    first, second = np.eye(3), np.eye(3)
    if antibiotics[1]:
        first[2] = 0.0, 0.5, 0.5
    elif antibiotics[0]:
        first[1] = 0.0, 0.9, 0.1
    if vasopressors[1]:
        second[0] = (0.1, 0.5, 0.4) if diabetic else (0.3, 0.7, 0.0)
        second[1] = (0.0, 0.1, 0.9) if diabetic else (0.0, 0.3, 0.7)
    elif vasopressors[0]:
        falls = 0.05 if diabetic else 0.1
        second[1] = falls, 1 - falls, 0.0
        second[2] = 0.0, falls, 1 - falls
    law: FloatArray = first @ second
    return law


def _oxygen(before: int, now: int) -> FloatArray:
    law = np.eye(2)
    if now:
        law[0] = 0.3, 0.7
    elif before:
        law[1] = 0.1, 0.9
    else:
        law = _fluctuates(2, 0.1)
    return law


def _glucose(vasopressors: int, diabetic: int) -> FloatArray:
    if not vasopressors:
        return _fluctuates(5, 0.3) if diabetic else _fluctuates(5, 0.1, most=1)
    if not diabetic:
        return np.eye(5)
    law = 0.5 * np.eye(5)
    law[np.arange(5), np.minimum(np.arange(5) + 1, 4)] += 0.5
    return law


def _best_stationary(transition: FloatArray, rewards: FloatArray, discount: float) -> FloatArray:
    """Return the chances of the best actions, by value iteration."""
    n_states, n_actions, _ = transition.shape
    earned = transition[:, :, n_states:] @ rewards
    moves = transition[:, :, :n_states].reshape(-1, n_states)
    worth = np.zeros(n_states)
    while True:
        ahead = earned + discount * (moves @ worth).reshape(n_states, n_actions)
        found = ahead.max(axis=1)
        if np.abs(found - worth).max() < 1e-9:
            return np.eye(n_actions)[ahead.argmax(axis=1)]
        worth = found
