"""A released model, played."""

import copy
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privrl.envs.released import Released
from privrl.envs.released_files import load_released
from privrl.envs.released_render import ansi, rgb_array
from privrl.envs.tabular_env import TabularEnv
from privrl.files.shown import shown


class ReleasedEnv(TabularEnv):
    """Play a model that was released privately, ``privrl/Released-v0``.

    Observations are states and actions are numbered from 0; the last states are the outcomes,
    where an episode terminates. Its other attributes are those of `TabularEnv`. Whatever is
    learned here costs no more privacy than ``statement`` says.

    Parameters
    ----------
    path : str or path-like, optional
        Folder that `privrl.envs.save_released` wrote::

            gymnasium.make("privrl.envs:privrl/Released-v0", path="model/")

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
        What protects whom, see `privrl.envs.privacy_statement`.

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

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        released: Released | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode must be None, 'ansi' or 'rgb_array', got {shown(render_mode)}; "
                "None is fastest."
            )
        if (path is None) == (released is None):
            raise ValueError(
                f"path or released must be given, got {'neither' if path is None else 'both'}; "
                "save_released(path, released) makes a folder of a model."
            )
        self.released = load_released(path) if path is not None else _checked(released)
        super().__init__(self.released.mdp)
        self.render_mode = render_mode
        self._last: tuple[int, int, float] | None = None

    @property
    def statement(self) -> dict[str, Any]:
        """What the release promises, a fresh copy."""
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

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return where actions lead from here, in the form that ``render_mode`` says."""
        if self._state is None:
            raise gym.error.ResetNeeded("render needs a state to show; call reset() first.")
        if self.render_mode == "ansi":
            return ansi(self.released, self._state, self._steps, self._last)
        if self.render_mode == "rgb_array":
            return rgb_array(self.released, self._state, self._steps, self._last)
        gym.logger.warn("render() shows nothing unless the environment is made with a render_mode.")
        return None

    def _mask(self, state: np.int64) -> dict[str, Any]:
        admissible = self.released.admissible
        return {} if admissible is None else {"action_mask": admissible[state].astype(np.int8)}


def _checked(released: object) -> Released:
    if not isinstance(released, Released):
        raise ValueError(
            f"released must be a Released, got {type(released).__name__}; load_released(path) "
            "reads one."
        )
    return released
