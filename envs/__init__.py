"""Finite environments: exact tables, planning in them, and Gymnasium environments made from them.

``import privrl`` registers the environments with Gymnasium, see `privrl.envs.RiverSwimEnv`.
"""

from privrl.envs.facts import public_facts
from privrl.envs.planning import plan
from privrl.envs.ranges import Ranged
from privrl.envs.released import Released
from privrl.envs.released_files import load_released, save_released
from privrl.envs.riverswim import riverswim
from privrl.envs.suite import SUITE, benchmark
from privrl.envs.support import Support
from privrl.envs.tables import load_tables, save_tables
from privrl.envs.tabular import TabularMDP
from privrl.envs.tabular_env import ReleasedEnv, TabularEnv
from privrl.envs.vector import TabularVectorEnv
from privrl.envs.wrappers import numbered

__all__ = [
    "SUITE",
    "Ranged",
    "Released",
    "ReleasedEnv",
    "Support",
    "TabularEnv",
    "TabularMDP",
    "TabularVectorEnv",
    "benchmark",
    "load_released",
    "load_tables",
    "numbered",
    "plan",
    "public_facts",
    "riverswim",
    "save_released",
    "save_tables",
]
