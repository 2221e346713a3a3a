"""The fits of DKL's experiments on UCI data, as plain data: jobs.

A job is one fit: a data set, a split, a mechanism, a budget. Its randomness is derived from its
fields, so its result does not depend on other jobs.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.experiments.uci.data import Cells
from privrl.files.shown import shown
from privrl.numerics.checks import check_among, check_between, check_count

ORDER = 5.0  # the paper's λ
DELTA = 1e-5

Model = Literal["naive Bayes", "network"]

#: What each mechanism is: the library's name for it, and for noisy counts where they are cut off;
#: None for the standard deviation of the noise.
FLOORS: dict[str, tuple[str, float | None]] = {
    "Gaussian, cut at 1e-6": ("gaussian", 1e-6),  # as in the paper's published code
    "Gaussian, cut at 1": ("gaussian", 1.0),
    "Gaussian, cut at its deviation": ("gaussian", None),
    "Laplace, cut at 1e-6": ("laplace", 1e-6),
    "Laplace, cut at 1": ("laplace", 1.0),
    "Laplace, cut at its deviation": ("laplace", None),
}
NONE, UNIFORM, AUTO = "no privacy", "uniform guess", "auto"
PRINTED, DKL, DESIGNED = "Algorithm 1, as printed", "Algorithm 1", "Dirichlet, designed"
EXACT = "Algorithm 1's prior, exact accounting"
GOHARI = "Gohari et al."
#: `AUTO` with a fixed temperature.
TEMPERED = {"auto, temperature 1": 1.0, "auto, temperature 0.7": 0.7}

MECHANISMS: dict[Model, tuple[str, ...]] = {
    "naive Bayes": (
        *(NONE, PRINTED, DKL, EXACT, DESIGNED, GOHARI, *FLOORS, *TEMPERED, AUTO, UNIFORM),
    ),
    "network": (NONE, DKL, DESIGNED, GOHARI, *FLOORS, AUTO, UNIFORM),
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fit, which is judged on the test part; plain data.

    Parameters
    ----------
    data : str
        A data set's name.
    model : {"naive Bayes", "network"}
        The model.
    cells : {"public", "paper"}
        Into what columns are cut, see `privrl.experiments.uci.data.split`.
    split : int
        Which split, >= 0.
    mechanism : str
        Of `MECHANISMS` for the model.
    epsilon : float
        Of the budget of the whole fit (nats); infinity without privacy, 0 for the uniform guess.
    delta : float
        Of the budget; 0 means a Rényi divergence of order 5 instead.

    Raises
    ------
    ValueError
        If one of these is unknown or out of range, or they do not go together.
    """

    data: str
    model: Model
    cells: Cells
    split: int
    mechanism: str
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.model not in MECHANISMS:
            raise ValueError(f"model must be 'naive Bayes' or 'network', got {shown(self.model)}.")
        check_among(f"mechanism of {self.model}", self.mechanism, MECHANISMS[self.model])
        if self.mechanism == GOHARI and self.delta == 0:
            raise ValueError(f"delta must be > 0 for {GOHARI!r}, got 0; it has no Rényi bound.")
        check_count("split", self.split, least=0)
        fixed = {NONE: math.inf, UNIFORM: 0.0}.get(self.mechanism)
        if fixed is None:
            check_between("epsilon", self.epsilon, 0, math.inf)
        elif self.epsilon != fixed:
            raise ValueError(
                f"epsilon of {shown(self.mechanism)} is {fixed:g}, got {shown(self.epsilon)}."
            )
        if self.delta != 0:
            check_between("delta", self.delta, 0, 1)

    @property
    def target(self) -> RenyiDP | ApproxDP:
        """What the fit may spend."""
        if self.delta == 0:
            return RenyiDP(ORDER, self.epsilon)
        return ApproxDP(self.epsilon, self.delta)

    def rng(self) -> np.random.Generator:
        """Return the job's generator: no other job has the same numbers."""
        text = json.dumps(asdict(self), sort_keys=True)
        words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
        return np.random.default_rng(np.random.SeedSequence(words.tolist()))


class Found(NamedTuple):
    """The results of a job: means over the records of the test part, or NaN.

    The cross-entropy and the log-likelihood are in nats.
    """

    cross_entropy: float = math.nan
    accuracy: float = math.nan
    log_likelihood: float = math.nan


def grid(
    *,
    data: Iterable[str],
    model: Model,
    cells: Cells,
    splits: Iterable[int],
    mechanisms: Iterable[str],
    epsilons: Iterable[float],
    delta: float = 0.0,
) -> list[Job]:
    """Return a job for each combination; those without a budget once for each split."""
    epsilons, mechanisms, splits = list(epsilons), list(mechanisms), list(splits)
    fixed = {NONE: [math.inf], UNIFORM: [0.0]}
    return [
        Job(
            data=name, model=model, cells=cells, split=number, mechanism=mechanism,
            epsilon=float(epsilon), delta=delta,
        )
        for name in data
        for number in splits
        for mechanism in mechanisms
        for epsilon in fixed.get(mechanism, epsilons)
    ]  # fmt: skip
