"""Agents that learn from private counts, on any finite environment."""

from privrl.agents.psrl import PSRL, Transition
from privrl.agents.rewards import BetaRewards, KnownRewards, NormalGamma, RewardModel
from privrl.agents.schedules import EveryEpisode, Geometric, Schedule

__all__ = [
    "PSRL",
    "BetaRewards",
    "EveryEpisode",
    "Geometric",
    "KnownRewards",
    "NormalGamma",
    "RewardModel",
    "Schedule",
    "Transition",
]
