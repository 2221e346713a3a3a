"""Agents that learn from private counts, on any finite environment."""

from privrl.agents.baselines import Oracle, RandomPolicy
from privrl.agents.observer import Transition
from privrl.agents.psrl import PSRL
from privrl.agents.rewards import BetaRewards, KnownRewards, NoisyRewards, RewardModel
from privrl.agents.schedules import EveryEpisode, Geometric, Schedule
from privrl.agents.tabular import TabularAgent, self_loops
from privrl.agents.ucbvi import UCBVI

__all__ = [
    "PSRL",
    "UCBVI",
    "BetaRewards",
    "EveryEpisode",
    "Geometric",
    "KnownRewards",
    "NoisyRewards",
    "Oracle",
    "RandomPolicy",
    "RewardModel",
    "Schedule",
    "TabularAgent",
    "Transition",
    "self_loops",
]
