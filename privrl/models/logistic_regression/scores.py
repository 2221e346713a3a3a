"""Feature weights from noisy gradients, and multiples of the parts of a model.

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

**Multiples.** Gradients are followed farther than is safe, because the best distance depends on the
records: noise where the features carry no information, far where they explain nearly everything. So
the model is a sum of parts, such as the start and the way from it, and the last releases learn a
multiple of each and an intercept, from gradients of the same kind: a part takes the place of a
feature. These are few numbers, with little noise. Vectors are clipped to `Tuned.longest_score`
nats: those of records that the model predicts wrongly are longest, and without them it would be too
certain. The noise of a multiple is known, and it is drawn to a typical one as if that was right
within `Tuned.typical`. The parts were learned from the same records, so they look better on these
than on others. What a record itself added to the tables is taken out of its own logits, as if they
were released without it: from released numbers, so the sum stays one of vectors of one record each.
Gradients make a model look better by a nat for each free number (Akaike, 1974), if the start were
independent of the records and the noise small. A part of that is subtracted.

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
from privrl.models.logistic_regression.training import Part, Start, probabilities
from privrl.numerics.typing import FloatArray

_LEAST = 1e-9  # curvature, so that it divides


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
    apart = np.maximum(base * (1 - base), _LEAST)  # 0 where a class is nearly sure
    bent = np.append(start.strengths, apart)
    typical = math.sqrt(2 * bent.sum())
    even = min(float(apart.sum()), 0.5)  # less where classes are rare
    length = TUNED.length * math.sqrt(bent.sum() / even)
    noise = length * math.sqrt(2 / steps.precision) / start.n_records  # of the mean gradient
    stable = steps.number / ((1 - TUNED.momentum) * bent.sum())
    time = min(TUNED.time, stable, TUNED.feature_noise / (noise * math.sqrt(typical)))
    pace = time * (1 - TUNED.momentum) / steps.number
    tables = np.split(start.log_ratios, start.starts[1:])
    said = np.stack([table[column] for table, column in zip(tables, columns, strict=True)])
    begun = np.concatenate([start.temperatures, start.intercept])
    found = _followed(said, numbers, begun, pace=pace, length=length, steps=steps, rng=rng)
    return replace(
        start,
        temperatures=found[:n_features],
        intercept=found[n_features:],
        deviations=noise * -np.expm1(-bent * time) / bent,
    )


def multiply(
    cells: Codes,
    numbers: Codes,
    start: Start,
    parts: Sequence[Part],
    *,
    steps: Steps,
    rng: np.random.Generator,
) -> Part:
    """Release gradients, which have been paid for, and return the sum of multiples of parts.

    Parameters
    ----------
    cells : array of int, shape (K, n)
        For each record, the rows of its values' weights, and ``numbers``, shape (n,), its class:
        private.
    start : Start
        Has the intercept to which those of parts are added, and how frequent values are.
    parts : sequence of Part
        Of the model.
    steps : Steps
        How many gradients, and with which noise; without any, all parts have their own ``times``.
    rng : numpy.random.Generator
        Where the randomness comes from.
    """
    times, intercept = np.array([each.times for each in parts]), start.intercept
    if steps.number:
        found = _multiples(cells, numbers, start, parts, steps=steps, rng=rng)
        times, intercept = found[: len(parts)], intercept + found[len(parts) :]
    squares = times**2, [each.deviations**2 for each in parts]
    of_intercepts = times**2, [each.deviations_of_intercept**2 for each in parts]
    return Part(
        np.tensordot(times, [each.weights for each in parts], 1),
        intercept + times @ [each.intercept for each in parts],
        np.sqrt(np.tensordot(*squares, 1)),
        np.sqrt(np.tensordot(*of_intercepts, 1)),
        times=1.0,
    )


def _multiples(
    cells: Codes,
    numbers: Codes,
    start: Start,
    parts: Sequence[Part],
    *,
    steps: Steps,
    rng: np.random.Generator,
) -> FloatArray:
    """Return multiples of the parts and what is added to the intercept, (M + J,)."""
    n_classes, n_records = len(start.log_prior), start.n_records
    weights = np.stack([each.weights for each in parts])
    intercepts = np.stack([each.intercept for each in parts])
    means = np.add.reduceat(start.shares[:, None] * weights, start.starts, axis=1)
    apart, tops = weights - means[:, start.of_feature], intercepts + means.sum(axis=1)
    squares = [start.shares @ (apart**2).sum(axis=2).T, (tops**2).sum(axis=1)]
    bent = start.variance / (n_classes - 1) * np.append(sum(squares), np.ones(n_classes))
    bent = np.clip(bent, _LEAST, TUNED.most_bent)
    noise = TUNED.longest_score * math.sqrt(2 / steps.precision) / n_records
    pull = noise**2 / (bent * TUNED.typical**2)
    reached = min(1 / (len(parts) + 1), TUNED.score_time * (1 - TUNED.momentum) / steps.number)
    typical = np.append([each.times for each in parts], np.zeros(n_classes))
    optimism = np.append([TUNED.optimism * each.freedom for each in parts], np.zeros(n_classes))
    said = np.stack([sum(each[cell] for cell in cells) for each in weights]) + intercepts[:, None]
    for logits, part in zip(said, parts, strict=True):
        if isinstance(part.own, np.ndarray):
            logits[np.arange(len(numbers)), numbers] -= sum(
                part.own[cell, numbers] for cell in cells
            )
    return _followed(
        said,
        numbers,
        typical,
        pace=reached / (bent + pull),
        length=TUNED.longest_score,
        steps=steps,
        rng=rng,
        offset=start.intercept,
        pull=pull,
        optimism=optimism / n_records,
    )


def _followed(
    said: FloatArray,
    numbers: Codes,
    begun: FloatArray,
    *,
    pace: FloatArray | float,
    length: float,
    steps: Steps,
    rng: np.random.Generator,
    offset: FloatArray | float = 0.0,
    pull: FloatArray | float = 0.0,
    optimism: FloatArray | float = 0.0,
) -> FloatArray:
    """Release gradients, follow them, and return the mean of the last steps, (M + J,).

    Parameters
    ----------
    said : array, shape (M, n, J)
        What has one weight, such as a feature's log-ratios, of each record: private.
    numbers : array of int, shape (n,)
        The records' classes: private.
    begun : array, shape (M + J,)
        The weights to begin with, the intercept last.
    pace : array, shape (M + J,), or float
        Of a step, times the gradient of the mean loss.
    length : float
        To which records' vectors are clipped.
    steps : Steps
        How many, with which noise.
    offset, pull, optimism : arrays
        Added to the intercept, drawing weights to ``begun``, and added to gradients.
    """
    n_own, n_records = len(said), len(numbers)
    classes = np.eye(said.shape[2])[numbers]
    at, velocity = begun, np.zeros(len(begun))
    total, n_summed = np.zeros(len(begun)), 0
    for step in range(steps.number):
        # One after the other: the bits of a record's part of a product depend on its place.
        logits = sum(weight * each for weight, each in zip(at, said, strict=False))
        residuals = probabilities(logits + at[n_own:] + offset) - classes
        parts = np.concatenate([np.einsum("knj,nj->kn", said, residuals), residuals.T])
        sums, factor = shortened_sums(parts, length)
        gradient = steps.mechanism.release(sums, rng) / factor
        gradient[n_own:] -= gradient[n_own:].mean()  # what all share changes nothing
        slope = gradient / n_records + pull * (at - begun) + optimism
        velocity = TUNED.momentum * velocity - pace * slope
        at = at + velocity
        if step >= steps.number * (1 - TUNED.averaged):
            total, n_summed = total + at, n_summed + 1
    return total / n_summed


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
