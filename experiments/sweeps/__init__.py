"""Sweeps: reward against privacy budget, for many methods and runs."""

from privrl.experiments.sweeps.presets import preset
from privrl.experiments.sweeps.sweep import SweepSpec, run_sweep

__all__ = ["SweepSpec", "preset", "run_sweep"]
