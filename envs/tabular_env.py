"""Any tabular MDP as a Gymnasium environment."""

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privrl.envs.facts import Outcome
from privrl.envs.released import Released
from privrl.envs.released_files import load_released
from privrl.envs.released_render import ansi, rgb_array
from privrl.envs.tables import load_tables
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.numerics.checks import check_is


class TabularEnv(gym.Env[np.int64, np.int64]):
    """Play a tabular MDP, ``privrl/Tabular-v0``.

    Observations are states and actions are numbered from 0. An episode terminates on arrival in
    a state that is never left and pays nothing, and is truncated after ``mdp.horizon`` steps.

    Parameters
    ----------
    mdp : TabularMDP, optional
        What is played.
    path : str or path-like, optional
        Where its tables are instead, see `privrl.envs.load_tables`::

            gymnasium.make("privrl/Tabular-v0", path="tables.npz")

    Attributes
    ----------
    mdp : TabularMDP
        The tables behind the environment.
    horizon : int
        Steps after which an episode is truncated.
    P : dict
        ``P[state][action]`` lists ``(probability, next_state, reward, terminated)``.
    initial_state_distrib : array, shape (S,)
        Distribution of the first state.

    Raises
    ------
    ValueError
        If not one of ``mdp`` and ``path`` is given, or the file holds no MDP.
    OSError
        If the file cannot be read.

    Notes
    -----
    Tables that are played are public, as those of toy_text: whoever trains an agent here may read
    from ``P`` which moves are possible and on what rewards depend.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 # as Gymnasium declares it

    def __init__(
        self, mdp: TabularMDP | None = None, *, path: str | PathLike[str] | None = None
    ) -> None:
        _check_one(("mdp", mdp), ("path", path), "save_tables(path, mdp) makes a file of tables")
        if path is not None:
            mdp = load_tables(path)
        hint = "TabularMDP(transition, reward, start, horizon) makes one of arrays"
        check_is("mdp", mdp, TabularMDP, hint=hint)
        assert mdp is not None
        self.mdp = mdp
        self.horizon = self.mdp.horizon
        self.initial_state_distrib = self.mdp.start
        self.observation_space = gym.spaces.Discrete(self.mdp.n_states)
        self.action_space = gym.spaces.Discrete(self.mdp.n_actions)
        self._start = _cumulative(self.mdp.start)
        self._moves = _cumulative(self.mdp.transition)
        self._reward = np.broadcast_to(self.mdp.reward_table, self.mdp.transition.shape)
        self._over = self.mdp.ends
        self._state: int | None = None
        self._steps = 0

    @cached_property
    def P(self) -> dict[int, dict[int, list[Outcome]]]:  # noqa: N802 # as Gymnasium calls it
        """The possible transitions in the form of Gymnasium's toy_text."""
        states, actions = range(self.mdp.n_states), range(self.mdp.n_actions)
        return {s: {a: self._outcomes(s, a) for a in actions} for s in states}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode; ``options`` are accepted and ignored."""
        super().reset(seed=seed)
        self._state = self._drawn(self._start)
        self._steps = 0
        return np.int64(self._state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take one action.

        Raises
        ------
        ValueError
            If the action does not exist; the state is then unchanged.
        gymnasium.error.ResetNeeded
            If `reset` was not called.
        """
        if self._state is None:
            raise gym.error.ResetNeeded("step needs a state to start from; call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(
                f"action must be a whole number in 0..{self.mdp.n_actions - 1}, got "
                f"{shown(action)}; number actions from 0."
            )
        here = self._state, int(action)
        self._state = self._drawn(self._moves[here])
        self._steps += 1
        reward = float(self._reward[here][self._state])
        over = bool(self._over[self._state])
        return np.int64(self._state), reward, over, self._steps >= self.horizon, {}

    def _drawn(self, cumulative: NDArray[np.float64]) -> int:
        return int(cumulative.searchsorted(self.np_random.random(), side="right"))

    def _outcomes(self, state: int, action: int) -> list[Outcome]:
        row, reward = self.mdp.transition[state, action], self._reward[state, action]
        following = np.flatnonzero(row)
        columns = row[following], following, reward[following], self._over[following]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def _cumulative(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cumulative sums along the last axis that end at exactly 1."""
    sums = np.cumsum(rows, axis=-1)
    return sums / sums[..., -1:]


def _check_one(first: tuple[str, object], second: tuple[str, object], hint: str) -> None:
    """Check that one of two arguments is given."""
    (name, one), (other_name, other) = first, second
    if (one is None) == (other is None):
        got = "neither" if one is None else "both"
        raise ValueError(f"{name} or {other_name} must be given, got {got}; {hint}.")


class DrawnEnv(TabularEnv, ABC):
    """A tabular environment that is drawn, as text or as a picture."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def _check_mode(self, render_mode: str | None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode must be None, 'ansi' or 'rgb_array', got {shown(render_mode)}; "
                "None is fastest."
            )
        self.render_mode = render_mode

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return the state as text or as a picture, whichever ``render_mode`` says."""
        if self._state is None:
            raise gym.error.ResetNeeded("render needs a state to show; call reset() first.")
        if self.render_mode is not None:
            return self._picture(int(self._state))
        gym.logger.warn("render() shows nothing unless the environment is made with a render_mode.")
        return None

    @abstractmethod
    def _picture(self, state: int) -> str | NDArray[np.uint8]:
        """Return a state in the form that ``render_mode`` says."""


class ReleasedEnv(DrawnEnv):
    """Play a model that was released privately, ``privrl/Released-v0``.

    Observations are states and actions are numbered from 0; the last states are the outcomes,
    where an episode terminates. Its other attributes are those of `TabularEnv`. Learning here costs
    no privacy beyond ``statement``, by post-processing.

    Parameters
    ----------
    path : str or path-like, optional
        Folder that `privrl.envs.save_released` wrote::

            gymnasium.make("privrl/Released-v0", path="model/")

    released : Released, optional
        The model itself instead.
    render_mode : {None, "ansi", "rgb_array"}
        What `render` returns: nothing, or where actions lead from here as text or as a picture
        (it needs matplotlib).

    Attributes
    ----------
    released : Released
        The model behind the environment: labels, admissible actions, what noise leaves.
    statement : dict
        What protects whom, see `privrl.envs.released.privacy_statement`.

    Raises
    ------
    ValueError
        If not one of ``path`` and ``released`` is given, or the folder holds no released model.
    OSError
        If the folder cannot be read.

    Notes
    -----
    If the model says which actions are admissible, ``info["action_mask"]`` of `reset` and `step`
    has a 1 for each that is in the new state, int8, as Gymnasium's Taxi has it:
    ``env.action_space.sample(info["action_mask"])``. Others may be played, and do what the tables
    say.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        released: Released | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._check_mode(render_mode)
        _check_one(
            ("path", path),
            ("released", released),
            "save_released(path, released) makes a folder of a model",
        )
        if path is not None:
            released = load_released(path)
        check_is("released", released, Released, hint="load_released(path) reads one")
        assert released is not None
        self.released = released
        super().__init__(self.released.mdp)
        self._last: tuple[int, int, float] | None = None

    @property
    def statement(self) -> dict[str, Any]:
        """The statement of the release, a fresh copy."""
        return copy.deepcopy(self.released.statement)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode; ``options`` are accepted and ignored."""
        state, info = super().reset(seed=seed, options=options)
        self._last = None
        return state, info | self._mask(state)

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take one action; see `TabularEnv.step`."""
        before = self._state
        state, reward, over, cut, info = super().step(action)
        assert before is not None  # or there would have been no step
        self._last = before, int(action), reward
        return state, reward, over, cut, info | self._mask(state)

    def _picture(self, state: int) -> str | NDArray[np.uint8]:
        draw = ansi if self.render_mode == "ansi" else rgb_array
        return draw(self.released, state, self._steps, self._last)

    def _mask(self, state: np.int64) -> dict[str, Any]:
        admissible = self.released.admissible
        return {} if admissible is None else {"action_mask": admissible[state].astype(np.int8)}
