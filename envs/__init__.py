"""Finite environments: the mathematical object, and Gymnasium environments made from it."""

from privrl.envs.planning import evaluate, plan, plan_support
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
