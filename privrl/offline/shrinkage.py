"""From noisy sums to what actions are worth: what is expected given the noise, nothing more."""

from dataclasses import dataclass

import numpy as np

from privrl.numerics.typing import BoolArray, FloatArray


@dataclass(frozen=True)
class Spread:
    """How much things differ, as deviations of a normal law around zero: a prior.

    Attributes
    ----------
    cell : float
        What an action does in a state, beside what it does in all.
    action : float
        What an action does in all states alike.
    state : float
        What a state is worth.
    """

    cell: float
    action: float
    state: float


def action_effects(
    deviations: FloatArray, variance: FloatArray, allowed: BoolArray, spread: Spread
) -> FloatArray:
    """Return the expected effect of each action in all states alike.

    Parameters
    ----------
    deviations : array, shape (S, A)
        Measured, from the mean of their state; 0 where not allowed.
    variance : array, shape (S, A)
        Of what they are measured with.
    allowed : array of bool, shape (S, A)
        What was measured.
    spread : Spread
        The prior.

    Returns
    -------
    array, shape (S, A)
        In each state, from its mean: the best linear prediction of a model with a mean for each
        state and a random effect of each action.
    """
    if spread.action == 0:  # nothing differs: noise has brought a chance to 1, say
        return np.zeros_like(deviations)
    weight = np.where(allowed, 1 / (variance + spread.cell**2), 0.0)
    total = np.maximum(weight.sum(axis=1), np.finfo(float).tiny)
    per_state = weight / total[:, None]
    precision = np.diag(weight.sum(axis=0)) - per_state.T @ weight
    centred = deviations - (weight * deviations).sum(axis=1, keepdims=True) / total[:, None]
    scale = spread.action**-2 * np.eye(weight.shape[1])
    effect = np.linalg.solve(precision + scale, (weight * centred).sum(axis=0))
    shown: FloatArray = effect - (per_state @ effect)[:, None]
    return np.where(allowed, shown, 0.0)


def expected(measured: FloatArray, variance: FloatArray, prior: float) -> FloatArray:
    """Return what is expected of a normal quantity around 0 that was measured with noise."""
    return measured * prior**2 / (prior**2 + variance)
