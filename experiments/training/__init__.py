"""Training: one agent on one environment."""

from privrl.experiments.training.checkpoints import Checkpoint
from privrl.experiments.training.loop import learn_counts, train
from privrl.experiments.training.run import TrainResult, TrainSpec, run_training

__all__ = ["Checkpoint", "TrainResult", "TrainSpec", "learn_counts", "run_training", "train"]
