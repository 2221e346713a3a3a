"""Training: one agent on one environment."""

from privrl.agents.resuming import Checkpoint
from privrl.agents.training import learn_counts
from privrl.experiments.training.loop import train
from privrl.experiments.training.run import TrainResult, TrainSpec, run_training

__all__ = ["Checkpoint", "TrainResult", "TrainSpec", "learn_counts", "run_training", "train"]
