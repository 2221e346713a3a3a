"""Suites: agents on many tasks, how far each comes from chance to the optimum."""

from privrl.experiments.suites.presets import PRESETS, preset
from privrl.experiments.suites.suite import SuiteResult, SuiteSpec, jobs_of, run_suite

__all__ = [
    "PRESETS",
    "SuiteResult",
    "SuiteSpec",
    "jobs_of",
    "preset",
    "run_suite",
]
