"""DKL's experiments on UCI data: naive Bayes and Bayesian networks, mechanism by mechanism."""

from privrl.experiments.uci.data import Cells, NotPrivateWarning, network_of, split
from privrl.experiments.uci.jobs import (
    AUTO,
    DELTA,
    DESIGNED,
    DKL,
    GOHARI,
    MECHANISMS,
    NONE,
    PRINTED,
    UNIFORM,
    Found,
    Job,
    Model,
    grid,
)
from privrl.experiments.uci.run import half_widths, means, run_jobs

__all__ = [
    "AUTO",
    "DELTA",
    "DESIGNED",
    "DKL",
    "GOHARI",
    "MECHANISMS",
    "NONE",
    "PRINTED",
    "UNIFORM",
    "Cells",
    "Found",
    "Job",
    "Model",
    "NotPrivateWarning",
    "grid",
    "half_widths",
    "means",
    "network_of",
    "run_jobs",
    "split",
]
