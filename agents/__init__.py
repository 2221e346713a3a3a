"""Agents that learn from private counts, on any finite environment."""

from privrl.agents.checkpoints import Checkpoint
from privrl.agents.dp_ucbvi import DPUCBVI
from privrl.agents.explore_then_plan import ExploreThenPlan
from privrl.agents.observer import Transition
from privrl.agents.policies import Policy
from privrl.agents.psrl import PSRL
from privrl.agents.q_learning import QLearning
from privrl.agents.rewards import BetaRewards, HatRewards, KnownRewards, NoisyRewards
from privrl.agents.rlsvi import RLSVI
from privrl.agents.schedules import EveryEpisode, Geometric
from privrl.agents.setup import TabularSetup
from privrl.agents.sparse_psrl import SparsePSRL
from privrl.agents.tabular import TabularAgent
from privrl.agents.ucbvi import UCBVI

__all__ = [
    "DPUCBVI",
    "PSRL",
    "RLSVI",
    "UCBVI",
    "BetaRewards",
    "Checkpoint",
    "EveryEpisode",
    "ExploreThenPlan",
    "Geometric",
    "HatRewards",
    "KnownRewards",
    "NoisyRewards",
    "Policy",
    "QLearning",
    "SparsePSRL",
    "TabularAgent",
    "TabularSetup",
    "Transition",
]
