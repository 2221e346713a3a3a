"""Logs of simulated persons: how good policies are that were learned from them privately."""

from privrl.experiments.logs.simulate import simulate_log
from privrl.experiments.logs.study import Condition, Study, run_study
from privrl.experiments.logs.worlds import (
    World,
    clinic,
    clinics,
    icu_world,
    sepsis_simulator,
    ward,
)

__all__ = [
    "Condition",
    "Study",
    "World",
    "clinic",
    "clinics",
    "icu_world",
    "run_study",
    "sepsis_simulator",
    "simulate_log",
    "ward",
]
