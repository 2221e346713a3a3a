"""Finite environments: the mathematical object, and Gymnasium environments made from it.

Importing this registers them with Gymnasium, as does the id ``privrl.envs:privrl/RiverSwim-v0``.
"""

from privrl.envs.planning import evaluate, plan, plan_support
from privrl.envs.registration import register_envs
from privrl.envs.riverswim import RiverSwimEnv, riverswim
from privrl.envs.support import Support
from privrl.envs.tabular import TabularMDP
from privrl.envs.vector import RiverSwimVectorEnv, TabularVectorEnv
from privrl.envs.wrappers import CARTPOLE_BINS, Discretised, FlattenDiscrete

__all__ = [
    "CARTPOLE_BINS",
    "Discretised",
    "FlattenDiscrete",
    "RiverSwimEnv",
    "RiverSwimVectorEnv",
    "Support",
    "TabularMDP",
    "TabularVectorEnv",
    "evaluate",
    "plan",
    "plan_support",
    "riverswim",
]

register_envs()
