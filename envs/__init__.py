"""Finite environments: exact tables, planning in them, and Gymnasium environments made from them.

``import privrl`` registers the environments with Gymnasium, see `privrl.envs.RiverSwimEnv`.
"""

from privrl.envs.bins import CARTPOLE_BINS, PUBLIC_BINS
from privrl.envs.blackjack import blackjack
from privrl.envs.exploration import deep_sea, double_chain, key_and_door, six_arms
from privrl.envs.facts import PublicFacts, public_facts
from privrl.envs.icu_sepsis import icu_sepsis, icu_sepsis_choices
from privrl.envs.labels import grid_of
from privrl.envs.operations import inventory, machine_replacement, queue
from privrl.envs.planning import evaluate, plan, plan_support
from privrl.envs.random_tables import dense, garnet
from privrl.envs.released import Released, privacy_statement
from privrl.envs.released_files import load_released, save_released
from privrl.envs.riverswim import RiverSwimEnv, riverswim
from privrl.envs.suite import FAMILIES, SUITE, Benchmark, benchmark
from privrl.envs.support import Support
from privrl.envs.tables import load_tables, save_tables
from privrl.envs.tabular import TabularMDP
from privrl.envs.tabular_env import ReleasedEnv, TabularEnv
from privrl.envs.vector import RiverSwimVectorEnv, TabularVectorEnv
from privrl.envs.worth import Worth, worth
from privrl.envs.wrappers import Discretised, FlattenActions, FlattenDiscrete, numbered

__all__ = [
    "CARTPOLE_BINS",
    "FAMILIES",
    "PUBLIC_BINS",
    "SUITE",
    "Benchmark",
    "Discretised",
    "FlattenActions",
    "FlattenDiscrete",
    "PublicFacts",
    "Released",
    "ReleasedEnv",
    "RiverSwimEnv",
    "RiverSwimVectorEnv",
    "Support",
    "TabularEnv",
    "TabularMDP",
    "TabularVectorEnv",
    "Worth",
    "benchmark",
    "blackjack",
    "deep_sea",
    "dense",
    "double_chain",
    "evaluate",
    "garnet",
    "grid_of",
    "icu_sepsis",
    "icu_sepsis_choices",
    "inventory",
    "key_and_door",
    "load_released",
    "load_tables",
    "machine_replacement",
    "numbered",
    "plan",
    "plan_support",
    "privacy_statement",
    "public_facts",
    "queue",
    "riverswim",
    "save_released",
    "save_tables",
    "six_arms",
    "worth",
]
