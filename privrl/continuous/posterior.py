"""The normal posterior of a linear model, updated with noisy moments round by round.

Targets are linear in features: ``y = W^T phi + residual``. In a round, rows are ``z = (u, r)`` with
``u = T phi`` and ``r = (y - W^T phi) / s``, for the map ``T``, the mean ``W`` and the scale ``s``
that earlier rounds led to. The released blocks satisfy, for each target,

    C = G beta + (noise of C) - (noise of G) beta + sampling error,    w = W + s T^T beta.

Given the prior covariance B of ``beta``, all of that is noise of covariance

    sigma^2 / 2 ((1 + tr B) I + B) + v G,

where v is the residual's share of the moments. So the update is Bayes' rule for a normal model with
errors in the regressors, to first order. A round only has to explain the residual of those before,
whose scale shrinks from round to round, and so does the part of the noise that grows with beta.
"""

from dataclasses import dataclass

import numpy as np

from privrl.numerics.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Weights:
    """A normal posterior of the weights of linear targets.

    Attributes
    ----------
    mean : array, shape (d, m)
    covariance : array, shape (m, d, d)
    """

    mean: FloatArray
    covariance: FloatArray


def nearest_gram(gram: FloatArray, span: FloatArray | None, transform: FloatArray) -> FloatArray:
    """Return the projection of a noisy Gram matrix on the span of true ones.

    Products of features are linearly dependent, so true Gram matrices have fewer degrees of freedom
    than entries, and noise outside of them is taken away. ``span`` has matrices, shape (k, d, d),
    before the map ``transform``; None leaves the matrix as it is.
    """
    if span is None:
        return gram
    upper = np.triu_indices(len(gram))
    weight = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
    mapped = (transform @ span @ transform.T)[:, *upper] * weight
    basis, _ = np.linalg.qr(mapped.T)
    found = np.zeros_like(gram)
    found[upper] = basis @ (basis.T @ (gram[upper] * weight)) / weight
    return found + np.triu(found, 1).T


def positive_part(matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


@dataclass(frozen=True, eq=False)
class Round:
    """The map and the scale under which moments were released, and what came out."""

    transform: FloatArray  # T, shape (d, d)
    scale: FloatArray  # s, shape (m,)
    moments: FloatArray  # shape (d + m, d + m)
    noise: float  # of the diagonal

    @property
    def gram(self) -> FloatArray:
        """Return the block of features."""
        return self.moments[: len(self.transform), : len(self.transform)]

    def plain_gram(self, gram: FloatArray) -> FloatArray:
        """Return a Gram matrix of ``u`` as one of ``phi``."""
        inverse = np.linalg.inv(self.transform)
        return inverse @ gram @ inverse.T


def update(before: Weights, seen: Round, gram: FloatArray) -> tuple[Weights, FloatArray]:
    """Return the posterior, and the residual's squared scale for each target, shape (m,).

    ``gram`` is the Gram matrix of the round after projection; the scale is in units of ``y``, for
    a contribution as large as that of the constant feature.
    """
    d, m = before.mean.shape
    cross, squares = seen.moments[:d, d:], np.diag(seen.moments)[d:]
    solid = positive_part(gram)
    total = max(float(np.trace(seen.moments)), 1.0)
    inverse = np.linalg.inv(seen.transform)
    mean, covariance = before.mean.copy(), before.covariance.copy()
    left = np.empty(m)
    for j in range(m):
        s = seen.scale[j]
        prior = inverse.T @ before.covariance[j] @ inverse / s**2
        prior = (prior + prior.T) / 2
        noise = seen.noise**2 / 2 * ((1 + np.trace(prior)) * np.eye(d) + prior)
        noise += max(squares[j], seen.noise) / total * solid + 1e-12 * total * np.eye(d)
        gain = np.linalg.solve(gram @ prior @ gram + noise, gram @ prior).T
        beta = gain @ cross[:, j]
        after = prior - gain @ gram @ prior
        after = (after + after.T) / 2
        mean[:, j] += s * seen.transform.T @ beta
        covariance[j] = s**2 * seen.transform.T @ after @ seen.transform
        rest = squares[j] - 2 * beta @ cross[:, j] + beta @ gram @ beta
        left[j] = s**2 * max(rest, 0.0)
    return Weights(mean, covariance), left


@dataclass(frozen=True, eq=False)
class Learned:
    """What a round leads to, and how the next one is to be released."""

    weights: Weights
    residual: FloatArray  # deviation of what the weights do not explain, shape (m,)
    transform: FloatArray
    scale: FloatArray


def learn(before: Weights, seen: Round, gram: FloatArray, *, power: float, norm: float) -> Learned:
    """Return the posterior after a round, and the map and the scales of the next one.

    Parameters
    ----------
    before : Weights
        The prior.
    seen : Round
    gram : array, shape (d, d)
        As for `update`.
    power : float
        How far features are whitened.
    norm : float
        Wanted norm of a row's targets over that of its features.
    """
    d, m = before.mean.shape
    weights, left = update(before, seen, gram)
    if not (np.isfinite(weights.mean).all() and np.isfinite(weights.covariance).all()):
        # Noise has made numbers that floats do not hold.
        return Learned(before, seen.scale, seen.transform, seen.scale)
    plain = seen.plain_gram(positive_part(gram))
    count = max(float(plain[0, 0]) * d, seen.noise, 1e-300)
    unsure = np.array([np.trace(each @ plain) for each in weights.covariance])
    typical = np.sqrt((left + np.maximum(unsure, 0)) / count) * np.sqrt(m) / norm
    least = 0.3 * seen.scale * np.sqrt(seen.noise / count)
    scale = np.minimum(np.maximum(typical, least), 4 * seen.scale)
    after = whitened(seen.transform, gram, seen.noise, power)
    return Learned(weights, np.sqrt(left / count), after, np.maximum(scale, 1e-12))


def log_evidence(
    seen: Round, gram: FloatArray, target: int, priors: list[FloatArray], factors: FloatArray
) -> FloatArray:
    """Return the log evidence of prior covariances of ``beta``, each times each factor.

    The covariance of what was released is ``factor A + N``, where A follows from a prior and N
    from the noise: one eigenvalue problem for all factors. Shape (n_priors, n_factors).
    """
    d, cross = len(gram), seen.moments[: len(gram), len(gram) + target]
    square = max(float(seen.moments[d + target, d + target]), seen.noise)
    total = max(float(np.trace(seen.moments)), 1.0)
    noise = (seen.noise**2 / 2 + 1e-12 * total) * np.eye(d) + square / total * positive_part(gram)
    values, vectors = np.linalg.eigh(noise)
    values = np.maximum(values, 1e-15 * values[-1])
    root = vectors / np.sqrt(values)
    found = np.empty((len(priors), len(factors)))
    for k, prior in enumerate(priors):
        size = seen.noise**2 / 2 * (np.trace(prior) * np.eye(d) + prior)
        strong, turned = np.linalg.eigh(root.T @ (gram @ prior @ gram + size) @ root)
        spread = np.maximum(strong, 0) * factors[:, None] + 1
        along = turned.T @ (root.T @ cross)
        found[k] = -0.5 * (np.log(spread) + along**2 / spread).sum(axis=1)
    return np.where(np.isfinite(found), found, -np.inf)


def likeliest(
    before: Weights,
    seen: Round,
    gram: FloatArray,
    shapes: list[FloatArray],
    factors: FloatArray,
    *,
    spread: float,
) -> Weights:
    """Return weights whose prior covariances are the likeliest for a round, target by target.

    Prior deviations are multiplied by one of ``shapes``, each with an entry for each feature, and
    one of ``factors``, whose binary logarithms have the prior deviation ``spread``.
    """
    inverse = np.linalg.inv(seen.transform)
    covariance = before.covariance.copy()
    for j, given in enumerate(before.covariance):
        tried = [given * np.outer(shape, shape) for shape in shapes]
        priors = [inverse.T @ each @ inverse / seen.scale[j] ** 2 for each in tried]
        found = log_evidence(seen, gram, j, priors, factors**2)
        found -= np.log2(factors) ** 2 / 2 / spread**2
        k, best = np.unravel_index(int(np.argmax(found)), found.shape)
        if np.isfinite(found[k, best]):
            covariance[j] = tried[k] * factors[best] ** 2
    return Weights(before.mean, covariance)


def whitened(transform: FloatArray, gram: FloatArray, noise: float, power: float) -> FloatArray:
    """Return a map under which directions of the Gram matrix are closer to equally strong.

    Directions below the noise are enlarged no more than those at the noise.
    """
    values, vectors = np.linalg.eigh(gram)
    floor = max(noise * np.sqrt(len(gram)), 1e-9 * float(values[-1]), 1e-300)
    factor = (np.maximum(values, 0.0) + floor) ** -power
    found: FloatArray = (factor[:, None] * vectors.T) @ transform
    return found / np.linalg.norm(found, 2)
