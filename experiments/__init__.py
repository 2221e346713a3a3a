"""Experiments: private agents trained, swept over budgets, and compared on many tasks.

What is here is loaded when it is first asked for, so that training needs no plots.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privrl.agents.methods import Method
    from privrl.experiments.suites import SuiteSpec, run_suite
    from privrl.experiments.sweeps import SweepSpec, preset, run_sweep
    from privrl.experiments.sweeps.plots import reward_against_epsilon
    from privrl.experiments.training import Checkpoint, TrainSpec, run_training, train
    from privrl.experiments.training.playing import play_policy
    from privrl.experiments.training.plots import learning_figure, policy_figure

__all__ = [
    "Checkpoint",
    "Method",
    "SuiteSpec",
    "SweepSpec",
    "TrainSpec",
    "learning_figure",
    "play_policy",
    "policy_figure",
    "preset",
    "reward_against_epsilon",
    "run_suite",
    "run_sweep",
    "run_training",
    "train",
]

_FROM = {
    "Method": "methods",
    **dict.fromkeys(("SuiteSpec", "run_suite"), "suites"),
    **dict.fromkeys(("SweepSpec", "preset", "run_sweep"), "sweeps"),
    "reward_against_epsilon": "sweeps.plots",
    "play_policy": "training.playing",
    **dict.fromkeys(("learning_figure", "policy_figure"), "training.plots"),
    **dict.fromkeys(("Checkpoint", "TrainSpec", "run_training", "train"), "training"),
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
