"""Agents that learn from private counts, on any finite environment."""

from privrl.agents.bandits import imed, regret_constant
from privrl.agents.baselines import Oracle, RandomPolicy
from privrl.agents.checkpoints import Checkpoint
from privrl.agents.dp_ucbvi import DPUCBVI
from privrl.agents.explore_then_plan import ExploreThenPlan
from privrl.agents.observer import Transition
from privrl.agents.policies import Policy
from privrl.agents.psrl import PSRL
from privrl.agents.q_learning import QLearning
from privrl.agents.rewards import (
    BetaRewards,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    RewardModel,
    reward_loops,
)
from privrl.agents.rlsvi import RLSVI, rlsvi_claimed_epsilon
from privrl.agents.schedules import EveryEpisode, Geometric, Once, Schedule
from privrl.agents.sparse_psrl import SparsePSRL, sparse_schedule
from privrl.agents.tabular import TabularAgent, self_loops
from privrl.agents.training import Callback, Stretch
from privrl.agents.ucbvi import UCBVI

__all__ = [
    "DPUCBVI",
    "PSRL",
    "RLSVI",
    "UCBVI",
    "BetaRewards",
    "Callback",
    "Checkpoint",
    "EveryEpisode",
    "ExploreThenPlan",
    "Geometric",
    "HatRewards",
    "KnownRewards",
    "NoisyRewards",
    "Once",
    "Oracle",
    "Policy",
    "QLearning",
    "RandomPolicy",
    "RewardModel",
    "Schedule",
    "SparsePSRL",
    "Stretch",
    "TabularAgent",
    "Transition",
    "imed",
    "regret_constant",
    "reward_loops",
    "rlsvi_claimed_epsilon",
    "self_loops",
    "sparse_schedule",
]
