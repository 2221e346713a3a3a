"""Suites: agents on many tasks, how far each comes from chance to the optimum."""

from privrl.experiments.suites.suite import SuiteSpec, run_suite

__all__ = ["SuiteSpec", "run_suite"]
