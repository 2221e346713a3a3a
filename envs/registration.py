"""Make the environments known to Gymnasium."""

import gymnasium as gym

_RIVERSWIM = "privrl/RiverSwim-v0"


def register_envs() -> None:
    """Register the environments once; a second call changes nothing."""
    if _RIVERSWIM not in gym.registry:
        gym.register(_RIVERSWIM, entry_point="privrl.envs.riverswim:RiverSwimEnv")
