"""Names of actions, and positions of states: public, by an environment's documentation."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_TURNS: Final = ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done")
_BY_ID: Final[Mapping[str, tuple[str, ...]]] = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Acrobot": ("left", "none", "right"),
    "RiverSwim": ("left", "right"),
    "RiverSwimDPS": ("left", "right"),
}
"""By the id, without what comes before and after its name."""


def action_names(env: Any, n_actions: int) -> tuple[str, ...] | None:
    """Return the names of an environment's actions, or None where they are not known.

    Your own environment declares them by an attribute ``action_names``.
    """
    said = getattr(getattr(env, "unwrapped", env), "action_names", None)
    if said is None:
        name = getattr(getattr(env, "spec", None), "id", "").rpartition("/")[2]
        said = _TURNS if name.startswith(("MiniGrid-", "BabyAI-")) else None
        said = _BY_ID.get(name.rpartition("-v")[0], said)
    if said is None or len(said) != n_actions:
        return None
    return tuple(map(str, said))


def grid_of(env: Any) -> tuple[str, ...] | None:
    """Return the rows of the map whose cells are the states, a letter each; None without a map.

    Those of Gymnasium's FrozenLake and CliffWalking: S where it starts, G the goal, H and C what to
    keep out of.
    """
    bare = getattr(env, "unwrapped", env)
    desc, cliff = getattr(bare, "desc", None), getattr(bare, "_cliff", None)
    if isinstance(cliff, np.ndarray) and cliff.dtype == np.bool_ and cliff.ndim == 2:
        rows = np.where(cliff, "C", " ")
        rows[-1, 0], rows[-1, -1] = "S", "G"
    elif isinstance(desc, np.ndarray) and desc.ndim == 2 and desc.dtype.kind == "S":
        rows = desc.astype(str)
    else:
        return None
    if rows.size != getattr(getattr(env, "observation_space", None), "n", None):
        return None
    return tuple("".join(row) for row in rows)
