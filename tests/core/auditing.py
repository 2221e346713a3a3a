"""The audit of a mechanism in its tests: the claim holds, and most of it is found."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privrl.audit import audit_mechanism


def check_claim(
    run: Any,
    data: ArrayLike,
    neighbour: ArrayLike,
    *,
    seed: int,
    claimed: float,
    least: float,
    draws: int = 200_000,
) -> None:
    """Check that the lower bound on epsilon, at confidence 0.9999, is from least to claimed."""
    result = audit_mechanism(
        run,
        data,
        neighbour,
        np.random.default_rng(seed),
        claimed=claimed,
        draws=draws,
        confidence=0.9999,
        batched=True,
    )
    assert not result.violated
    assert result.epsilon_lower >= least, result.epsilon_lower / claimed
