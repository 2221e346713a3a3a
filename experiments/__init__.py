"""Experiments: private agents trained, swept over budgets, and compared on many tasks.

Each name is loaded when it is first used, so that training needs no plots.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privrl.agents.methods import Method
    from privrl.experiments.suites import SuiteSpec, run_suite
    from privrl.experiments.sweeps import SweepSpec, run_sweep
    from privrl.experiments.training import TrainSpec, run_training, train

__all__ = [
    "Method",
    "SuiteSpec",
    "SweepSpec",
    "TrainSpec",
    "run_suite",
    "run_sweep",
    "run_training",
    "train",
]

_FROM = {
    "Method": "privrl.agents.methods",
    **dict.fromkeys(("SuiteSpec", "run_suite"), "privrl.experiments.suites"),
    **dict.fromkeys(("SweepSpec", "run_sweep"), "privrl.experiments.sweeps"),
    **dict.fromkeys(("TrainSpec", "run_training", "train"), "privrl.experiments.training"),
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
