"""Feature weights from noisy gradients, and a private choice between the candidates.

**Feature weights.** Naive Bayes adds the features' log-ratios as if the features were independent.
One temperature for all features corrects the least, one weight for each value and class the
most. One weight for each feature is in between: few numbers, which can be learned where noise
would drown the gradients of all values. Gradients of these weights and of the intercept are
released one after the other.

A record adds the vector

    v = (<r, L_1(x_1)>, .., <r, L_K(x_K)>, r)

to the gradient, with the residual ``r = p(x) − e_y`` and the log-ratios ``L_k`` of its values. It
depends on this record and on released numbers only. A vector longer than a public length c is
clipped to c. So one replaced record changes the sum by at most ``2 c`` in Euclidean norm; two
opposite vectors of length c reach that.

**The choice.** Gradients are followed farther than is safe, because the best distance depends on
the records: noise where the features carry no information, far where they explain nearly
everything. One more release finds the distance that predicted well. The lead of a candidate is the
sum, over all records, of the nats by which it predicts the record's class better than the first
candidate. A record adds the vector of its leads, clipped to `Tuned.lead_length`, so one replaced
record changes the sum by at most twice that length. The sums are rounded and get noise like
gradients.

The candidates were learned from the same records, so they look better on these than on others: by
a nat for each free number (Akaike, 1974), if the start were independent of the records and the
noise small. A part of that is subtracted, and one standard deviation of the noise from all but the
first candidate, which is the safest.

References
----------
H. Akaike. *A new look at the statistical model identification* (1974).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privrl.mechanisms.sums import SumsMechanism
from privrl.models.encoding import Codes
from privrl.models.logistic_regression.plan import TUNED, Steps
from privrl.models.logistic_regression.training import Candidate, Start, probabilities
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray


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
    The weights are not regularised: the steps end early instead. The common information of many
    features is learned first, because the loss bends most there, and the rest is mostly noise. So
    the steps go as far as their noise in logits allows, and no farther than is stable if all
    features carry the same information. With more informative features the same noise in logits
    costs less: it may grow as the root of records' typical length.
    """
    if not steps.number:
        return start
    base, n_features = np.exp(start.log_prior), len(start.sizes)
    bent = np.append(start.strengths, base * (1 - base))
    typical = math.sqrt(2 * bent.sum())
    even = min(float((base * (1 - base)).sum()), 0.5)  # less where classes are rare
    length = TUNED.length * math.sqrt(bent.sum() / even)
    noise = length * math.sqrt(2 / steps.precision) / start.n_records  # of the mean gradient
    stable = steps.number / ((1 - TUNED.momentum) * bent.sum())
    time = min(TUNED.time, stable, TUNED.feature_noise / (noise * math.sqrt(typical)))
    pace = time * (1 - TUNED.momentum) / (steps.number * start.n_records)
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
        velocity = TUNED.momentum * velocity - pace * gradient
        at = at + velocity
        if step >= steps.number * (1 - TUNED.averaged):
            total, n_summed = total + at, n_summed + 1
    found = total / n_summed
    return replace(
        start,
        temperatures=found[:n_features],
        intercept=found[n_features:],
        deviations=noise * -np.expm1(-bent * time) / bent,
    )


def shortened_sums(parts: FloatArray, length: float) -> tuple[FloatArray, float]:
    """Return sums of vectors that one replaced record changes by at most √2: private.

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


def choose(
    cells: Codes,
    numbers: Codes,
    candidates: Sequence[Candidate],
    mechanism: SumsMechanism,
    rng: np.random.Generator,
) -> Candidate:
    """Release leads of the candidates, which have been paid for, and return the best.

    Parameters
    ----------
    cells : array of int, shape (K, n)
        For each record, the rows of its values' weights, and ``numbers``, shape (n,), its class:
        private.
    candidates : sequence of Candidate
        Others are compared with the first. A single candidate is returned without a release.
    mechanism : SumsMechanism
        What releases the leads.
    rng : numpy.random.Generator
        Where the randomness comes from.
    """
    if len(candidates) == 1:
        return candidates[0]
    first, *others = (_log_chances(cells, numbers, each) for each in candidates)
    sums, factor = shortened_sums(np.array(others) - first, TUNED.lead_length)
    leads = mechanism.release(sums, rng) / factor
    freedom = np.array([each.freedom for each in candidates[1:]])
    ahead = leads - TUNED.optimism * freedom - TUNED.doubt * mechanism.sigma / factor
    return candidates[int(np.argmax([0.0, *ahead]))]


def _log_chances(cells: Codes, numbers: Codes, candidate: Candidate) -> FloatArray:
    """Return the logarithm of the probability of each record's class, shape (n,)."""
    logits = sum((candidate.weights[cell] for cell in cells), candidate.intercept)
    own = np.take_along_axis(logits, numbers[:, None], axis=1)[:, 0]
    chances: FloatArray = own - special.logsumexp(logits, axis=1)
    return chances
