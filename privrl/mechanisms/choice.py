"""The exponential mechanism: one of several options, one of a large score more likely."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.choice import ChoiceCost
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.mechanisms.base import Mechanism
from privrl.numerics.checks import check_numbers
from privrl.numerics.discrete_noise import check_drawable, exponential_choice
from privrl.numerics.typing import FloatArray, IntArray

_LARGEST_SCORE = 2.0**53  # up to which floats hold every whole number


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(Mechanism[IntArray]):
    """Choose an option with probability proportional to ``exp(score / scale)``, exactly.

    A release is one choice. A second one by scores of the same records is a second release: all of
    its scores may change again. An argument out of range raises ValueError.

    Parameters
    ----------
    scale : float
        From 1e-3 to 2**40, in the scores' units; larger is more private.
    sensitivity : float
        By how much any of the scores may change between neighbours, each in its own direction,
        > 0. It is the caller's to derive.
    relation : Relation
        Which data sets are neighbours; by default one record is replaced.

    References
    ----------
    F. McSherry and K. Talwar. *Mechanism design via differential privacy* (2007).

    C. Ilvento. *Implementing the exponential mechanism with base-2 differential privacy* (2020), on
    what floats do to it; here scores are whole numbers, and
    `privrl.numerics.discrete_noise.exponential_choice` draws exactly.
    """

    scale: float
    sensitivity: float
    relation: Relation = field(default_factory=ReplaceRecord)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_drawable("scale", self.scale))
        object.__setattr__(self, "sensitivity", self.cost.sensitivity)

    @classmethod
    def calibrated(
        cls, target: Target, *, sensitivity: float, count: int = 1, relation: Relation | None = None
    ) -> Self:
        """Return the mechanism whose ``count`` choices together meet a target.

        The arguments are those of the class and of `privrl.accounting.calibrate`, as are errors.
        """
        relation = check_relation(relation, ReplaceRecord())

        def cost(scale: float) -> ChoiceCost:
            return ChoiceCost(scale=scale, sensitivity=sensitivity, relation=relation)

        scale = calibrate(target, cost, rises=False, count=count)
        return cls(scale=scale, sensitivity=sensitivity, relation=relation)

    @property
    def cost(self) -> ChoiceCost:
        """What one choice costs."""
        return ChoiceCost(scale=self.scale, sensitivity=self.sensitivity, relation=self.relation)

    def check(self, data: ArrayLike) -> FloatArray:
        """Return scores, shape (K,), if they are whole numbers from 0 to 2**53.

        Raises
        ------
        ValueError
            If they are not; the message holds no score.
        """
        scores = check_numbers("data", data)
        if scores.ndim != 1 or not scores.size:
            raise ValueError(
                f"data must be the scores of one choice, shape (K,), got shape {scores.shape}; "
                "release choices one by one, for each is paid for."
            )
        within = (scores >= 0) & (scores <= _LARGEST_SCORE)
        if not (within & (scores == np.floor(scores))).all():
            raise ValueError(
                "data must be whole numbers from 0 to 2**53; round scores, and let the "
                "sensitivity be that of what is rounded."
            )
        return scores

    def _draw(self, data: Any, rng: np.random.Generator) -> IntArray:
        return exponential_choice(data[None].astype(np.int64), self.scale, rng).reshape(())
