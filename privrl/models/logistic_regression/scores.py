"""A weight for each feature: how far what naive Bayes says of it is to be believed.

Naive Bayes adds the features' log-ratios as if no two said the same. One temperature for all of
them is the mildest remedy, a weight for each value and class the strongest; between the two is a
weight for each feature. Those are few, and can be learned where gradients of all values would
drown in noise. Their gradients, and the intercept's, are released one after the other.

**What one record can change.** A record adds the vector

    v = (<r, L_1(x_1)>, .., <r, L_K(x_K)>, r)

to the sum, with the residual ``r = p(x) − e_y`` and the log-ratios ``L_k`` of its values: it is
made of this record and of what has been released. If it is longer than a public length c it is
shortened to c, in its own direction. So one record replaced changes the sum by ``2 c`` at the
most, in Euclidean norm, whatever the records are; and two opposite ones of length c do.
"""

import math
from dataclasses import replace

import numpy as np

from privrl.mechanisms.sums import SumsMechanism
from privrl.models.logistic_regression.plan import MOMENTUM, Steps
from privrl.models.logistic_regression.training import AVERAGED, Start, probabilities
from privrl.models.naive_bayes.encoding import Codes
from privrl.numerics.typing import FloatArray

# Chosen on public data sets; docs/models.md says which.
_LENGTH = 1.2  # which records' vectors are shortened to, in typical lengths at even odds
_TIME = 60.0  # how far steps lead together at the most, were there no momentum
_NOISE = 0.3  # nats, which steps may add to logits where the typical length is 1; then they end


def weigh(
    columns: Codes, numbers: Codes, start: Start, steps: Steps, rng: np.random.Generator
) -> Start:
    """Release gradients, which have been paid for, and return a start with weights of features.

    Parameters
    ----------
    columns : array of int, shape (K, n)
        Records, and ``numbers``, shape (n,), their classes: private.
    start : Start
        Naive Bayes, where steps begin.
    steps : Steps
        How many, how far they may lead, and with which noise.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Notes
    -----
    Nothing draws weights back: steps end early instead. What many features say together is
    learned first, for the loss bends most there, and what is left is mostly noise. So steps lead
    as far as the noise allows, which they add to logits, and no farther than is stable where all
    features say the same. Where features tell more, predictions are surer, and the same noise in
    logits costs less: it may grow as the root of records' typical length.
    """
    if not steps.number:
        return start
    base, n_features = np.exp(start.log_prior), len(start.sizes)
    bent = np.append(start.strengths, base * (1 - base))
    typical = math.sqrt(2 * bent.sum())
    even = min(float((base * (1 - base)).sum()), 0.5)  # less where classes are rare
    length = _LENGTH * math.sqrt(bent.sum() / even)
    noise = length * math.sqrt(2 / steps.precision) / start.n_records  # of the mean gradient
    stable = steps.number / ((1 - MOMENTUM) * bent.sum())
    time = min(_TIME, stable, _NOISE / (noise * math.sqrt(typical)))
    pace = time * (1 - MOMENTUM) / (steps.number * start.n_records)
    tables = np.split(start.log_ratios, start.starts[1:])
    said = np.stack([table[column] for table, column in zip(tables, columns, strict=True)])
    classes = np.eye(len(base))[numbers]
    at = np.concatenate([start.temperatures, start.intercept])
    velocity, total, n_summed = np.zeros(len(at)), np.zeros(len(at)), 0
    for step in range(steps.number):
        logits = np.tensordot(at[:n_features], said, 1) + at[n_features:]
        residuals = probabilities(logits) - classes
        parts = np.concatenate([np.einsum("knj,nj->kn", said, residuals), residuals.T])
        sums, factor = shortened_sums(parts, length)
        gradient = steps.mechanism.release(sums, rng) / factor
        gradient[n_features:] -= gradient[n_features:].mean()  # what all share changes nothing
        velocity = MOMENTUM * velocity - pace * gradient
        at = at + velocity
        if step >= steps.number * (1 - AVERAGED):
            total, n_summed = total + at, n_summed + 1
    found = total / n_summed
    return replace(
        start,
        temperatures=found[:n_features],
        intercept=found[n_features:],
        deviations=noise * -np.expm1(-bent * time) / bent,
    )


def shortened_sums(parts: FloatArray, length: float) -> tuple[FloatArray, float]:
    """Return sums of vectors that one replaced record changes by √2 at the most: private.

    Parameters
    ----------
    parts : array, shape (M, n)
        What each record adds.
    length : float
        Which they are shortened to, > 0.

    Returns
    -------
    sums : array, shape (M,)
        Multiples of `SumsMechanism.grain`.
    factor : float
        By which they are larger than sums of the shortened vectors.

    Notes
    -----
    What a record adds is rounded to multiples of the grain g, times the factor: each number by g/2
    at the most, taken as g to cover what floats lose in shortening. So two records differ by
    ``2 c`` times the factor and ``2 g √M``, which together are √2.
    """
    grain = SumsMechanism.grain
    factor = (math.sqrt(2) - 2 * grain * math.sqrt(len(parts))) / (2 * length)
    lengths = np.sqrt((parts**2).sum(axis=0))
    scaled = parts * (factor * length / np.maximum(lengths, length))
    return (np.rint(scaled / grain) * grain).sum(axis=1), factor
