"""Slopes of ordered features, from noisy gradients that begin without any.

Cells forget the order of bins. A slope for each class uses it: one number for a whole column, at
the positions −1 to 1 of its bins. So where tables have few records in a cell, slopes have little
noise.

A record has the vector ``x``: the positions of its values, and the constant i for the intercept. So
``|x| <= √(K + i²)``. To the gradient it adds ``r ⊗ x``, with the residual ``r = p(x) − e_y``, of
length ``|r| |x|``. It depends on this record and on released numbers only. What is longer than a
length c, from released numbers, is shortened to c. So one replaced record changes the sum by at
most ``2 c`` in Euclidean norm; two records with the same vector and opposite residuals reach it.
Each gradient is a Gaussian release of its own, and precisions add up (`Plan.cost`).

If multiples are learned (`privrl.models.logistic_regression.scores`), those of the slopes and of
naive Bayes' log-ratios are.

The slopes are not regularised. The steps end early instead, by public facts: in a direction in
which the loss bends much they find nearly all, in others little, so noise stays small.
"""

import math
from typing import Any

import numpy as np

from privrl.data.schema import Bins
from privrl.mechanisms.sums import SumsMechanism
from privrl.models.encoding import Codes
from privrl.models.logistic_regression.plan import TUNED, Plan
from privrl.models.logistic_regression.training import Part, Start, probabilities
from privrl.numerics.products import row_by_row
from privrl.numerics.typing import FloatArray

_GRID = 64  # entries of records' vectors are multiples of 1/64, so that sums stay on a grid
_LEAST = 1e-12  # curvature, so that it divides


def climb(
    columns: Codes, numbers: Codes, start: Start, plan: Plan, rng: np.random.Generator
) -> list[Part]:
    """Release gradients, which have been paid for, and return where they led: parts of a model.

    Parameters
    ----------
    columns : array of int, shape (K, n)
        Records, and ``numbers``, shape (n,), their classes: private.
    start : Start
        Has the classes' frequencies, with which steps begin.
    plan : Plan
        How many steps, with which noise, and where the values of features are.
    rng : numpy.random.Generator
        Where the randomness comes from.
    """
    positions, steps, n_records = plan.positions, plan.scores, start.n_records
    base, constant = np.exp(start.log_prior), _on_grid(TUNED.intercept * math.sqrt(len(positions)))
    longest = math.sqrt(len(positions) + constant**2)
    placed = [at[column] for at, column in zip(positions, columns, strict=True)]
    rows = np.column_stack([*placed, np.full(n_records, constant)])
    evenly = np.array([*((at**2).mean() for at in positions), constant**2])  # values equally likely
    bent = np.maximum(evenly[:, None] * (base * (1 - base)), _LEAST)
    length = TUNED.length * math.sqrt(evenly.sum() * max(float(base @ (1 - base)), 0.5))
    noise = length * math.sqrt(2 / steps.precision) / n_records  # of the mean gradient
    stable = steps.number / ((1 - TUNED.momentum) * 2 * float(bent.max(axis=1).sum()))
    unit = noise / math.sqrt(len(positions))  # where all features have length 1 together
    if plan.multiples.number:
        far = min(part / unit**power for part, power in TUNED.chosen_slope)
    else:
        far = TUNED.slope / unit**1.5
    time = min(far / len(positions), stable)
    pace = time * (1 - TUNED.momentum) / (steps.number * n_records)
    classes = np.eye(len(base))[numbers]
    slopes, velocity, path = np.zeros_like(bent), np.zeros_like(bent), []
    for _ in range(steps.number):
        residuals = probabilities(row_by_row(rows, slopes) + start.intercept) - classes
        sums, factor = shortened_products(rows, residuals, length, longest)
        gradient = steps.mechanism.release(sums, rng) / factor
        gradient -= gradient.mean(axis=1, keepdims=True)  # what all share changes nothing
        velocity = TUNED.momentum * velocity - pace * gradient
        slopes = slopes + velocity
        path.append(slopes)
    found = np.mean(path[int(steps.number * (1 - TUNED.averaged)) :], axis=0)
    deviations = noise * -np.expm1(-bent * time) / bent
    weights, hidden = (
        np.concatenate([np.outer(at, own) for at, own in zip(places, each[:-1], strict=True)])
        for places, each in ((positions, found), (map(abs, positions), deviations))
    )
    is_alone = not plan.multiples.number
    times = 1.0 if is_alone else TUNED.slopes
    sloped = Part(weights, constant * found[-1], hidden, constant * deviations[-1], times)
    none, nowhere = np.zeros_like(start.weights), np.zeros_like(start.intercept)
    return (
        [sloped]
        if is_alone
        else [sloped, Part(start.weights, nowhere, none, nowhere, TUNED.tables, own=start.own)]
    )


def positions_of(column: Bins) -> FloatArray:
    """Return positions of bins by their order, even from −1 to 1 but for 1/128; 0 if missing."""
    ordered = _on_grid(np.linspace(-1, 1, n_ordered(column)))
    return np.append(ordered, 0.0) if column.missing else ordered


def n_ordered(column: object) -> int:
    """Return how many values of a column, its first ones, are bins in order."""
    return column.size - column.missing if isinstance(column, Bins) else 0


def _on_grid(amounts: Any) -> Any:
    return np.rint(amounts * _GRID) / _GRID


def shortened_products(
    rows: FloatArray, residuals: FloatArray, length: float, longest: float
) -> tuple[FloatArray, float]:
    """Return sums of gradients that one replaced record changes by at most √2: private.

    Parameters
    ----------
    rows : array, shape (n, M)
        The records' vectors: multiples of 1/64.
    residuals : array, shape (n, J)
        Probabilities minus classes.
    length : float
        Which a residual times its vector is shortened to, > 0: released.
    longest : float
        No vector that a record may have is longer: public.

    Returns
    -------
    sums : array, shape (M, J)
        Multiples of `SumsMechanism.grain`.
    factor : float
        By which they are larger than sums of the shortened products.

    Notes
    -----
    Shortened residuals, times the factor, are rounded to multiples of 64 grains; rows are multiples
    of 1/64, so all sums are exact. Rounding moves each of J numbers by 32 grains g at the most,
    taken as 64 to cover what floats lose. So it moves what a record adds by no more than
    ``64 g √J`` times the longest vector, and the difference of two records by twice that; the
    factor makes that and ``2 c`` times itself together √2.
    """
    grain = SumsMechanism.grain * _GRID
    rounding = 2 * grain * math.sqrt(residuals.shape[1]) * longest
    factor = (math.sqrt(2) - rounding) / (2 * length)
    whole = np.sqrt((residuals**2).sum(axis=1) * (rows**2).sum(axis=1))
    shortened = residuals * (factor * length / np.maximum(whole, length))[:, None]
    return rows.T @ (np.rint(shortened / grain) * grain), factor
