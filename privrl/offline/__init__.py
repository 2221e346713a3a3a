"""Policies, models and their values from logs of persons (offline reinforcement learning)."""

from privrl.offline.evaluation import PolicyValue, evaluate_policy
from privrl.offline.model import fit_model
from privrl.offline.planning import plan_for
from privrl.offline.policy import LoggedPolicy, fit_policy
from privrl.offline.saving import ReleasedPolicy, load_policy, save_policy
from privrl.offline.synthetic import sample_log

__all__ = [
    "LoggedPolicy",
    "PolicyValue",
    "ReleasedPolicy",
    "evaluate_policy",
    "fit_model",
    "fit_policy",
    "load_policy",
    "plan_for",
    "sample_log",
    "save_policy",
]
