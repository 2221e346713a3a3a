"""Logs of simulated persons: how good policies are that were learned from them privately."""

from privrl.experiments.logs.simulate import simulate_log
from privrl.experiments.logs.worlds import World, clinic, clinics, icu_world, ward

__all__ = [
    "World",
    "clinic",
    "clinics",
    "icu_world",
    "simulate_log",
    "ward",
]
