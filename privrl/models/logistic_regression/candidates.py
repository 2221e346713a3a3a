"""A private choice among weights that are all made of what was released.

How far gradients may be followed depends on what the records are like: where features tell
nothing, any step is noise; where they explain nearly all, none is far enough. So one way is
followed farther than is safe, and one more release says how far it was good.

**The lead** of a candidate is the sum, over the records, of the nats by which it predicts the
record's class better than the first candidate. A record adds the vector of its differences, one
for each other candidate. If that is longer than `_LENGTH` it is shortened to it, in its own
direction; so one record replaced changes the leads by ``2 _LENGTH`` at the most, in Euclidean
norm, and two opposite ones do. They are rounded and get noise as
gradients do (`privrl.models.logistic_regression.scores.shortened_sums`), in one release.

**What is taken off.** The candidates were learned from the same records, and look better on these
than on others: by a nat for each number that is free to follow them (Akaike, 1974), were the start
not made of them too and the noise small. A part of that is taken off; and a deviation of the noise
off all but the first, which is the safest.

References
----------
H. Akaike. *A new look at the statistical model identification* (1974).
"""

from collections.abc import Sequence

import numpy as np

from privrl.mechanisms.sums import SumsMechanism
from privrl.models.logistic_regression.scores import shortened_sums
from privrl.models.logistic_regression.training import Candidate
from privrl.models.naive_bayes.encoding import Codes
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

# Chosen on public data sets; docs/models.md says which.
_LENGTH = 2.0  # nats, which records' vectors of differences are shortened to
_OPTIMISM = 0.25  # nats for each number that followed the records
_DOUBT = 1.0  # deviations of the noise, by which others must be ahead of the first


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
        The first is what others are compared with. Of one there is nothing to choose, and nothing
        is released.
    mechanism : SumsMechanism
        What releases the leads.
    rng : numpy.random.Generator
        Where the randomness comes from.
    """
    if len(candidates) == 1:
        return candidates[0]
    first, *others = (_log_chances(cells, numbers, each) for each in candidates)
    sums, factor = shortened_sums(np.array(others) - first, _LENGTH)
    leads = mechanism.release(sums, rng) / factor
    freedom = np.array([each.freedom for each in candidates[1:]])
    ahead = leads - _OPTIMISM * freedom - _DOUBT * mechanism.sigma / factor
    return candidates[int(np.argmax([0.0, *ahead]))]


def _log_chances(cells: Codes, numbers: Codes, candidate: Candidate) -> FloatArray:
    """Return the logarithm of the probability of each record's class, shape (n,)."""
    logits = sum((candidate.weights[cell] for cell in cells), candidate.intercept)
    own = np.take_along_axis(logits, numbers[:, None], axis=1)[:, 0]
    chances: FloatArray = own - special.logsumexp(logits, axis=1)
    return chances
