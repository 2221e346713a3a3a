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
from typing import Self

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

    @classmethod
    def prior(cls, deviations: FloatArray, n_targets: int) -> Self:
        """Return independent weights around zero, with deviations of shape (d,)."""
        diagonal = np.diag(deviations**2)
        return cls(np.zeros((len(deviations), n_targets)), np.stack([diagonal] * n_targets))

    def deviation(self, features: FloatArray) -> FloatArray:
        """Return the deviation of predictions, shape (N, m), of features (N, d)."""
        squares = np.stack(
            [np.einsum("ij,ij->i", features @ cov, features) for cov in self.covariance], axis=1
        )
        return np.sqrt(np.maximum(squares, 0.0))


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
    kept: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return kept


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
        plain: FloatArray = inverse @ gram @ inverse.T
        return plain


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


def whitened(transform: FloatArray, gram: FloatArray, noise: float, power: float) -> FloatArray:
    """Return a map under which directions of the Gram matrix are closer to equally strong.

    Directions below the noise are enlarged no more than those at the noise.
    """
    values, vectors = np.linalg.eigh(gram)
    floor = max(noise * np.sqrt(len(gram)), 1e-9 * float(values[-1]), 1e-300)
    factor = (np.maximum(values, 0.0) + floor) ** -power
    found: FloatArray = (factor[:, None] * vectors.T) @ transform
    return found / np.linalg.norm(found, 2)
