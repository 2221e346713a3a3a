"""Training: one agent on one environment."""

from privrl.experiments.training.run import TrainSpec, run_training, train

__all__ = ["TrainSpec", "run_training", "train"]
