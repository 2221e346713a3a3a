"""Private models and policies for continuous states, from logs: one release of moments."""

from privrl.continuous.environment import ReleasedContinuousEnv
from privrl.continuous.fitting import fit_continuous_model
from privrl.continuous.log import ContinuousLog
from privrl.continuous.model import ContinuousModel
from privrl.continuous.policy import ContinuousPolicy, plan_continuous
from privrl.continuous.reading import read_continuous_log
from privrl.continuous.schema import Choice, ContinuousSchema, Number

__all__ = [
    "Choice",
    "ContinuousLog",
    "ContinuousModel",
    "ContinuousPolicy",
    "ContinuousSchema",
    "Number",
    "ReleasedContinuousEnv",
    "fit_continuous_model",
    "plan_continuous",
    "read_continuous_log",
]
