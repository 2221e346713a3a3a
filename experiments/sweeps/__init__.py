"""Sweeps: reward against privacy budget, for many methods and runs."""

from privrl.experiments.sweeps.jobs import Job, run_job
from privrl.experiments.sweeps.presets import PRESETS, PUBLISHED, preset
from privrl.experiments.sweeps.progress import SweepProgress
from privrl.experiments.sweeps.sweep import (
    SweepResult,
    SweepSpec,
    jobs_of,
    run_sweep,
)

__all__ = [
    "PRESETS",
    "PUBLISHED",
    "Job",
    "SweepProgress",
    "SweepResult",
    "SweepSpec",
    "jobs_of",
    "preset",
    "run_job",
    "run_sweep",
]
