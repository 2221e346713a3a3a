"""A released model of continuous states, played."""

import copy
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privrl.continuous.model import ContinuousModel
from privrl.continuous.planning import Over, Reward
from privrl.continuous.schema import Choice
from privrl.numerics.checks import check_count
from privrl.numerics.typing import FloatArray


class ReleasedContinuousEnv(gym.Env[NDArray[np.float32], np.int64]):
    """Play a model of continuous states, ``privrl/ReleasedContinuous-v0``.

    Observations are states within their public ranges; a category is a number from 0. Actions are
    numbers of the combinations of levels, ``released.schema.levels``. Whatever is learned here
    costs no more privacy than ``statement`` says.

    Parameters
    ----------
    path : str or path-like, optional
        Folder that `ContinuousModel.save` wrote.
    released : ContinuousModel, optional
        The model itself instead.
    reward, ends : callable, optional
        Public functions in place of what was learned, see `ContinuousModel.predict`.
    horizon : int
        Steps after which an episode is truncated.
    start : callable, optional
        From a generator to a state where an episode starts; by default as learned.

    Attributes
    ----------
    released : ContinuousModel
        The model behind the environment.
    statement : dict
        The privacy statement.

    Raises
    ------
    ValueError
        If not one of ``path`` and ``released`` is given, or no reward is given or learned.
    OSError
        If the folder cannot be read.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        released: ContinuousModel | None = None,
        reward: Reward | None = None,
        ends: Over | None = None,
        horizon: int = 200,
        start: Any = None,
        render_mode: None = None,
    ) -> None:
        if (path is None) == (released is None):
            raise ValueError("one of path and released must be given.")
        model = ContinuousModel.load(path) if path is not None else released
        if not isinstance(model, ContinuousModel):
            raise ValueError(f"released must be a ContinuousModel, got {type(released).__name__}.")
        self.released = model
        schema = model.schema
        check_count("horizon", horizon)
        if reward is None and schema.reward is None:
            raise ValueError("reward must be given: the log has no rewards.")
        self._reward, self._ends, self._start, self._horizon = reward, ends, start, horizon
        bounds = [
            (0, len(c.values) - 1) if isinstance(c, Choice) else (c.low, c.high)
            for c in schema.state.values()
        ]
        low, high = np.array(bounds, np.float32).T
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gym.spaces.Discrete(schema.n_actions)
        self.render_mode = render_mode
        self._state: FloatArray | None = None
        self._steps = 0

    @property
    def statement(self) -> dict[str, Any] | None:
        """The privacy statement, a fresh copy."""
        return copy.deepcopy(self.released.statement)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; ``options`` are accepted and ignored."""
        super().reset(seed=seed)
        model = self.released
        state = model.sample_start(self.np_random)
        if self._start is not None:
            state = np.asarray(self._start(self.np_random), np.float64)
        self._state, self._steps = model.schema.inside(state[None])[0], 0
        return self._seen(), {}

    def step(
        self, action: np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one action: predict, add the learned residual, and draw categories and the end."""
        if self._state is None:
            raise gym.error.ResetNeeded("step needs a state; call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be in {self.action_space}.")
        model, rng = self.released, self.np_random
        values = model.schema.levels[int(action)][None]
        state = self._state[None]
        after, found = model.sample(state, values, rng, reward=self._reward, ends=self._ends)
        over = bool(rng.random() < found.ends[0])
        self._state, self._steps = after[0], self._steps + 1
        return self._seen(), float(found.reward[0]), over, self._steps >= self._horizon, {}

    def _seen(self) -> NDArray[np.float32]:
        assert self._state is not None
        space = self.observation_space
        assert isinstance(space, gym.spaces.Box)
        return np.clip(self._state.astype(np.float32), space.low, space.high)
