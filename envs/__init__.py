"""Finite environments: the mathematical object, and Gymnasium environments made from it."""

from privrl.envs.planning import evaluate, plan
from privrl.envs.riverswim import RiverSwimEnv, riverswim
from privrl.envs.tabular import TabularMDP

__all__ = ["RiverSwimEnv", "TabularMDP", "evaluate", "plan", "riverswim"]
