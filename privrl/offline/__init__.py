"""Policies, models and their values from logs of persons (offline reinforcement learning)."""

from privrl.offline.evaluation import PolicyValue, evaluate_policy
from privrl.offline.facts import LogFacts
from privrl.offline.persons import PersonStream
from privrl.offline.policy import LoggedPolicy, fit_policy

__all__ = [
    "LogFacts",
    "LoggedPolicy",
    "PersonStream",
    "PolicyValue",
    "evaluate_policy",
    "fit_policy",
]
