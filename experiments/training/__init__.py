"""Training: one agent on one environment."""

from privrl.agents.checkpoints import Checkpoint
from privrl.agents.training import learn_counts
from privrl.experiments.training.run import TrainResult, TrainSpec, run_training, train

__all__ = ["Checkpoint", "TrainResult", "TrainSpec", "learn_counts", "run_training", "train"]
