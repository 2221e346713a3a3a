"""Number the states of a MiniGrid: the agent's position, and what it has changed."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from privrl.files.shown import shown_env

_DIRECTIONS = 4
_DOORS = 3  # states of one: open, closed, locked


class Position(gym.ObservationWrapper[np.int64, Any, Any], gym.utils.RecordConstructorArgs):
    """Number the agent's column, row and direction, its load and the doors, the last fastest.

    If the map has objects, a state includes whether the agent carries one; if it has doors, which
    of them are open, closed and locked, row by row. An empty room of 5 × 5 cells has 100 states;
    with a key and a door it has 600. It leaves out other changes, such as where a ball was put
    down. It does not distinguish maps: where maps are drawn anew for each episode, as many
    of MiniGrid's are, give the environment one map by ``minigrid.wrappers.ReseedWrapper``.

    Parameters
    ----------
    env : gymnasium.Env
        A MiniGrid (Chevalier-Boisvert et al., 2023), see `is_minigrid`. It is reset once, to see
        how many doors its map has.

    Attributes
    ----------
    horizon : int
        Steps after which an episode is truncated.

    Raises
    ------
    ValueError
        If it is none.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        if not is_minigrid(env):
            raise ValueError(
                f"env must be a MiniGrid, got {shown_env(env)}; FlattenDiscrete numbers others."
            )
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._grid.reset()
        self._doors = len(self._door_states())
        self._loads = 1 + any(each.can_pickup() for each in self._things())
        places = self._grid.width * self._grid.height * _DIRECTIONS
        self.observation_space = Discrete(places * self._loads * _DOORS**self._doors)

    @property
    def _grid(self) -> Any:  # minigrid need not be there to say what it has
        return self.env.unwrapped

    @property
    def horizon(self) -> int:
        """Steps after which an episode is truncated."""
        return int(self._grid.max_steps)

    def observation(self, observation: Any) -> np.int64:
        """Return the number of the state that the grid is in, whatever part of it is seen.

        Raises
        ------
        ValueError
            If the map of this episode has other doors or loads than the first one had.
        """
        del observation
        column, row = self._grid.agent_pos
        doors, carries = self._door_states(), self._grid.carrying is not None
        if len(doors) != self._doors or carries >= self._loads:
            raise ValueError(
                "env must have the same doors and things to carry in each episode; fix its map "
                "with minigrid.wrappers.ReseedWrapper."
            )
        number = int(column) * self._grid.height + int(row)
        number = number * _DIRECTIONS + int(self._grid.agent_dir)
        number = number * self._loads + carries
        for door in doors:
            number = number * _DOORS + door
        return np.int64(number)

    def _door_states(self) -> list[int]:
        return [int(each.encode()[2]) for each in self._things() if each.type == "door"]

    def _things(self) -> list[Any]:
        return [each for each in self._grid.grid.grid if each is not None]


def is_minigrid(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment is one of the package minigrid, which need not be there."""
    kinds = type(env.unwrapped).__mro__
    return any(kind.__module__ == "minigrid.minigrid_env" for kind in kinds)
