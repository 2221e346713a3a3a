"""Public facts about the behaviour policy: admissible actions and propensities."""

from typing import Any, Final

import numpy as np

from privrl.data.logs.log import LogSpace
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_between, check_is, plain_array
from privrl.numerics.typing import BoolArray, FloatArray

_LEAST: Final = 1e-100


def check_support(
    log: LogSpace, admissible: Any, behaviour: Any
) -> tuple[BoolArray | None, FloatArray | None, bool]:
    """Return which actions are admissible, and their chances, as far as they are public.

    Parameters
    ----------
    log : LogSpace
        Of which the sizes are read.
    admissible : array of bool, shape (S, A), optional
        Which actions are admissible in each state.
    behaviour : array, shape (S, A), or "uniform", optional
        Chances of actions.

    Returns
    -------
    admissible : array of bool, shape (S, A), or None
        None if it is not known.
    chances : array, shape (S, A), or None
        None if they are not known.
    uniform : bool
        Whether all admissible actions of a state were as frequent.

    Raises
    ------
    ValueError
        If an argument is of another shape or kind.
    """
    check_is("log", log, LogSpace, hint="fit_continuous_model takes a ContinuousLog")
    shape = log.n_states, log.n_actions
    if admissible is not None:
        admissible = plain_array("admissible", admissible)
        if admissible.dtype != np.bool_ or admissible.shape != shape:
            raise ValueError(
                f"admissible must be booleans of shape {shape}, got {admissible.dtype} of shape "
                f"{admissible.shape}."
            )
        if not admissible.any(axis=1).all():
            raise ValueError("admissible must have an action at least in every state.")
    if behaviour is None:
        return admissible, None, False
    if isinstance(behaviour, str):
        if behaviour != "uniform":
            raise ValueError(
                f"behaviour must be chances of shape {shape}, or 'uniform', got {shown(behaviour)}."
            )
        if admissible is None:
            return None, None, True
        return admissible, admissible / admissible.sum(axis=1, keepdims=True), True
    chances = as_floats("behaviour", behaviour)
    sums = chances.shape == shape and (np.abs(chances.sum(axis=1) - 1) < 1e-6).all()
    if not sums or not (chances >= 0).all():
        raise ValueError(f"behaviour must be chances of shape {shape} that sum to 1 in each state.")
    followed = chances > 0
    if (followed & (chances < _LEAST)).any():  # squares of one over them are no numbers
        raise ValueError(
            f"behaviour must be chances of 0 or of at least {_LEAST:g}, got "
            f"{chances[followed].min():g}; write 0 where an action is never taken."
        )
    if admissible is not None and not (followed & admissible).any(axis=1).all():
        raise ValueError("behaviour must follow an admissible action at least in every state.")
    allowed = followed if admissible is None else admissible & followed
    return allowed, chances, _is_uniform(chances, allowed)


def _is_uniform(chances: FloatArray, allowed: BoolArray) -> bool:
    most, least = np.where(allowed, chances, 0.0), np.where(allowed, chances, 1.0)
    return bool((most.max(axis=1) <= least.min(axis=1) * (1 + 1e-9)).all())


def check_discount(discount: float) -> float:
    """Return a discount as a float if it is in (0, 1]."""
    if discount != 1:
        check_between("discount", discount, 0, 1, "1 counts all rewards alike")
    return float(discount)
