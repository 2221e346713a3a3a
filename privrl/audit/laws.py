"""Law tests: whether what came out is distributed as what was paid for says.

An audit of a black box needs draws as ``exp(epsilon) / delta`` or ``1 / epsilon**2`` to see
anything. Where the law of the output is known, its noise can be looked at itself: how many draws
find an error of 5 % depends on neither, and is computed before any is made (`draws_needed`).

Every law here is an exponential family: draws ``x`` of log-density ``θ·T(x) − A(θ)``, up to a
term that neither the data nor an error changes. `law_test` asks three things, in equal parts of
the false-alarm rate.

Size
    The likelihood ratio of noise that is too small by some part against noise as claimed: the most
    powerful statistic for that error (Neyman and Pearson). Under the claim its mean is 1, so that
    it reaches 1e6 once in a million tests at the most (Markov), whatever the number of draws. How
    many suffice is Chernoff's bound on the other side, in closed form as ``A`` is.
Shape
    The law turns its draws into independent standard normal numbers, *scores*. How far their
    empirical distribution is off has an exact bound (Dvoretzky, Kiefer and Wolfowitz; Massart).
Dependence
    Scores of two consecutive draws, side by side, have a matrix of sums of products whose
    Cholesky factor has independent standard normal numbers below its diagonal (Bartlett): the sum
    of their squares is chi-square. Noise that is shared between cells or tables, noise reused at
    the next update, or redrawn where it should continue, is found here.

The law is the one that was paid for: take its parameters from the claim, not from the mechanism,
or both may be wrong together. The log-likelihoods of one output under two neighbouring data sets
make the best score for `privrl.audit.audit_scores` and `privrl.audit.separation`.

References
----------
M. S. Bartlett. *On the theory of statistical regression* (1933). The Cholesky factor.

P. Massart. *The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality* (1990).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import (
    as_floats,
    check_between,
    check_is,
    check_numbers,
    check_positive,
    plain_array,
)
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray

__all__ = [
    "DirichletLaw", "DiscreteGaussianLaw", "DiscreteLaplaceLaw", "GaussianLaw", "LaplaceLaw", "Law",
    "LawResult", "draws_needed", "law_test",
]  # fmt: skip

_LEAST_CONCENTRATION = 0.1  # below it draws underflow, and are not what the law says
_LARGEST_DISCRETE = 1e5  # sigma of discrete noise whose whole table of probabilities is made
_TIES = 0x1A3  # seed of the coins that spread a whole number's probability
_TINY = np.finfo(np.float64).tiny
_FURTHEST = 37.0  # of a score, where floats end
_ROUNDING = 1e-9  # by which a row of probabilities may miss its sum


class Law(ABC):
    """What the draws of a mechanism are distributed as, all of them independent."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one draw."""

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """The natural parameters θ."""

    @abstractmethod
    def wrong(self, error: float) -> Mapping[str, FloatArray]:
        """Return θ for each way in which there may be too little noise by a part ``error``."""

    @abstractmethod
    def statistics(self, draws: FloatArray) -> FloatArray:
        """Return the sufficient statistics T, shape ``(n, *parameters.shape)``."""

    @abstractmethod
    def log_normaliser(self, parameters: FloatArray) -> float:
        """Return A(θ)."""

    @abstractmethod
    def scores(self, draws: FloatArray) -> FloatArray:
        """Return numbers that are independent and standard normal by the law, shape (n, m)."""

    def check(self, draws: ArrayLike) -> FloatArray:
        """Return draws, shape ``(n, *shape)``, as floats.

        Raises
        ------
        ValueError
            If they are not finite numbers of that shape.
        """
        checked = check_numbers("draws", draws)
        if checked.ndim < 1 or checked.shape[1:] != self.shape:
            raise ValueError(
                f"draws must have shape {('n', *self.shape)}, one draw of the law for each entry "
                f"of the first axis, got {checked.shape}."
            )
        if not np.isfinite(checked).all():
            raise ValueError("draws must be finite; a release that is not has no law like this.")
        return checked

    def log_likelihood(self, draws: ArrayLike) -> FloatArray:
        """Return each draw's log-density, shape (n,), up to a term that is the same for all data.

        Raises
        ------
        ValueError
            As `check` does.
        """
        return self._log_likelihood(self.check(draws), self.parameters)

    def _log_likelihood(self, draws: FloatArray, parameters: FloatArray) -> FloatArray:
        exponent = (self.statistics(draws) * parameters).reshape(len(draws), -1).sum(axis=1)
        return exponent - self.log_normaliser(parameters)


@dataclass(frozen=True, kw_only=True)
class LawResult(InHtml):
    """What a law test has found.

    Parameters
    ----------
    p_values : mapping from str to float
        For each question an upper bound on the probability that the claimed law would look at
        least so wrong.
    draws : int
        Number of draws.
    needed : int
        How many find ``error`` in a part ``power`` of all tests, at the least.
    error, power, false_alarm : float
        As for `law_test`.
    """

    p_values: Mapping[str, float]
    draws: int
    needed: int
    error: float
    power: float
    false_alarm: float

    @property
    def found(self) -> tuple[str, ...]:
        """Which questions have a wrong answer."""
        least = self.false_alarm / len(self.p_values)
        return tuple(name for name, p_value in self.p_values.items() if not p_value >= least)

    @property
    def violated(self) -> bool:
        """Whether the law is not the claimed one."""
        return bool(self.found)


def law_test(
    draws: ArrayLike,
    law: Law,
    *,
    error: float = 0.05,
    power: float = 0.95,
    false_alarm: float = 1e-6,
) -> LawResult:
    """Test whether draws come from the claimed law, with known power against too little noise.

    Parameters
    ----------
    draws : array_like, shape ``(n, *law.shape)``
        Independent draws, in the order in which they were made.
    law : Law
        The claimed one.
    error : float
        The part, in (0, 1), by which noise may be too small. Larger errors need fewer draws.
    power : float
        How often it is to be found, in (0, 1): for `LawResult.needed`, and nothing else.
    false_alarm : float
        How often draws of the claimed law may be found wrong, at the most; in (0, 1).

    Returns
    -------
    LawResult
        Its p-values are named after what may be wrong, such as ``"noise"``, and ``"shape"`` and
        ``"dependence"``, whose power depends on the error.

    Raises
    ------
    ValueError
        If the draws are not of the law's shape, fewer than four for each score that the law makes
        of one, or a number is out of range.
    """
    check_is("law", law, Law)
    checked = law.check(draws)
    needed = draws_needed(law, error=error, power=power, false_alarm=false_alarm)
    scores = law.scores(checked)
    if len(scores) < 4 * scores.shape[1]:
        raise ValueError(
            f"draws must be at least {4 * scores.shape[1]}, four for each number of one, got "
            f"{len(scores)}."
        )
    claimed = law.log_likelihood(checked).sum()
    p_values = {
        name: float(np.exp(np.minimum(0.0, claimed - law._log_likelihood(checked, other).sum())))
        for name, other in law.wrong(error).items()
    }
    return LawResult(
        p_values={**p_values, "shape": _shape(scores), "dependence": _dependence(scores)},
        draws=len(checked),
        needed=needed,
        error=error,
        power=power,
        false_alarm=false_alarm,
    )


def draws_needed(
    law: Law, *, error: float = 0.05, power: float = 0.95, false_alarm: float = 1e-6
) -> int:
    """Return how many draws let `law_test` find an error, by a bound that holds for any number.

    Parameters
    ----------
    law, error, power, false_alarm
        As for `law_test`.

    Raises
    ------
    ValueError
        If a number is out of range, or the law is the same with the error.

    Notes
    -----
    With q the law with the error, the test misses it if ``Σ log(q/p) < log(1/α)``. For every s in
    (0, 1) that has a probability of at most ``exp(s log(1/α) + n K(s))`` with
    ``K(s) = log ∫ q^(1−s) p^s``, which is a difference of values of A.
    """
    check_is("law", law, Law)
    for name, value in (("error", error), ("power", power), ("false_alarm", false_alarm)):
        check_between(name, value, 0, 1)
    claimed, needed = law.parameters, 1
    others = law.wrong(error)
    reach = math.log(len(others) + 2) - math.log(false_alarm)
    weights = np.linspace(0, 1, 101)[1:-1]
    for name, other in others.items():
        ends = law.log_normaliser(other), law.log_normaliser(claimed)
        mixed = [
            law.log_normaliser((1 - s) * other + s * claimed) - (1 - s) * ends[0] - s * ends[1]
            for s in weights
        ]
        if not min(mixed) < -1e-12:
            raise ValueError(
                f"law must change with an error of {error:g} of its {name}, and it does not; "
                "test it on counts that are large in some cells and 0 in others."
            )
        enough = [
            (s * reach - math.log1p(-power)) / -each
            for s, each in zip(weights, mixed, strict=True)
            if each < 0
        ]
        needed = max(needed, math.ceil(min(enough)))
    return needed


def _shape(scores: FloatArray) -> float:
    """Bound the chance that normal numbers' empirical distribution is so far from normal."""
    ordered = np.sort(scores, axis=None)
    size = ordered.size
    chance = special.ndtr(ordered)
    steps = np.arange(size + 1) / size
    distance = max(float((steps[1:] - chance).max()), float((chance - steps[:-1]).max()))
    return float(np.minimum(1.0, 2 * math.exp(-2 * size * distance**2)))


def _dependence(scores: FloatArray) -> float:
    """Return the chance that independent numbers are so dependent, in a draw and the next one."""
    half = len(scores) // 2
    pairs = scores[: 2 * half].reshape(half, -1)
    try:
        factor = np.linalg.cholesky(pairs.T @ pairs)
    except np.linalg.LinAlgError:  # some numbers are sums of others
        return 0.0
    below = np.tril(factor, -1)
    width = pairs.shape[1]
    return float(special.chdtrc(width * (width - 1) / 2, (below**2).sum()))


# Noise on counts -------------------------------------------------------------------------------


class _NoiseLaw(Law):
    """Noise around a centre."""

    centre: ArrayLike

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the centre."""
        return plain_array("centre", self.centre).shape

    def _noise(self, draws: FloatArray) -> FloatArray:
        return (draws - plain_array("centre", self.centre)).reshape(len(draws), -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _NormalLaw(_NoiseLaw):
    """Noise of density or probability proportional to ``exp(−x² / (2 sigma²))``."""

    sigma: float
    centre: ArrayLike = 0.0

    @property
    def parameters(self) -> FloatArray:
        """One over sigma's square."""
        return np.array(self.sigma**-2.0)

    def wrong(self, error: float) -> Mapping[str, FloatArray]:
        """Noise whose sigma is smaller by the error."""
        return {"noise": self.parameters / (1 - error) ** 2}

    def statistics(self, draws: FloatArray) -> FloatArray:
        """Minus half the sum of squares."""
        return -(self._noise(draws) ** 2).sum(axis=1) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianLaw(_NormalLaw):
    """Gaussian noise around a centre.

    Parameters
    ----------
    sigma : float
        Standard deviation of every number, > 0.
    centre : array_like
        Of one draw, which has its shape; 0 for draws that are noise alone, single numbers.
    covariance : array_like, shape (T, T), optional
        Of the numbers along the last axis of a draw, in units of ``sigma**2``; by default they
        are independent. For running sums it is ``B Bᵀ`` with the factor B of
        `privrl.samplers.factorisations.Factorisation`, and ``sigma`` the standard deviation paid
        for times its ``column_norm``.

    Raises
    ------
    ValueError
        If ``sigma`` is not > 0 and finite or the covariance is not that of the last axis.
    """

    covariance: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if self.covariance is not None:
            size = self.shape[-1:] * 2
            if not size or np.shape(self.covariance) != size:
                raise ValueError(
                    "covariance must be of the last axis of centre, shape "
                    f"{size}, got {np.shape(self.covariance)}."
                )

    def log_normaliser(self, parameters: FloatArray) -> float:
        """Up to a constant, half the logarithm of the variance for each number."""
        return -math.prod(self.shape) / 2 * math.log(parameters)

    def scores(self, draws: FloatArray) -> FloatArray:
        """Noise over its standard deviation, made independent."""
        return self._noise(draws) / self.sigma

    def _noise(self, draws: FloatArray) -> FloatArray:
        noise = draws - plain_array("centre", self.centre)
        if self.covariance is not None:
            factor = np.linalg.cholesky(np.asarray(self.covariance, np.float64))
            noise = noise @ np.linalg.inv(factor).T
        return noise.reshape(len(noise), -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScaleLaw(_NoiseLaw):
    """Independent noise, of density or probability proportional to ``exp(−|x| / scale)``.

    Parameters
    ----------
    scale : float
        Of every number, > 0.
    centre : array_like
        As for `GaussianLaw`.

    Raises
    ------
    ValueError
        If ``scale`` is not > 0 and finite.
    """

    scale: float
    centre: ArrayLike = 0.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    @property
    def parameters(self) -> FloatArray:
        """One over the scale."""
        return np.array(1 / self.scale)

    def wrong(self, error: float) -> Mapping[str, FloatArray]:
        """Noise of a scale that is smaller by the error."""
        return {"noise": self.parameters / (1 - error)}

    def statistics(self, draws: FloatArray) -> FloatArray:
        """Minus the sum of absolute values."""
        return -np.abs(self._noise(draws)).sum(axis=1)


class LaplaceLaw(_ScaleLaw):
    """Independent Laplace noise; ``scale`` and ``centre`` as for `_ScaleLaw`."""

    def log_normaliser(self, parameters: FloatArray) -> float:
        """Up to a constant, the logarithm of the scale for each number."""
        return -math.prod(self.shape) * math.log(parameters)

    def scores(self, draws: FloatArray) -> FloatArray:
        """Return normal numbers of the same ranks."""
        noise = self._noise(draws)
        return _bounded(-np.sign(noise) * special.ndtri(np.exp(-np.abs(noise) / self.scale) / 2))


class _DiscreteLaw(_NoiseLaw):
    """Independent noise on the whole numbers."""

    def check(self, draws: ArrayLike) -> FloatArray:
        """Return draws as floats, if they are whole numbers beside the centre.

        Raises
        ------
        ValueError
            If they are not, or as for `Law.check`.
        """
        checked = super().check(draws)
        noise = checked - plain_array("centre", self.centre)
        if not (noise == np.rint(noise)).all():
            raise ValueError("draws must differ from centre by whole numbers; noise is discrete.")
        return checked

    def scores(self, draws: FloatArray) -> FloatArray:
        """Return normal numbers of the same ranks; the test's own coins break ties."""
        size = np.abs(noise := self._noise(draws))
        coins = np.random.default_rng(_TIES)
        within = coins.random(size.shape)
        lower = self._beyond(size) + within * (self._beyond(size - 1) - self._beyond(size))
        # At 0 the tail beyond −1 is the other half and 0 itself, so both signs are covered.
        return _bounded(np.where(noise < 0, 1, -1) * special.ndtri(lower))

    @abstractmethod
    def _beyond(self, x: FloatArray) -> FloatArray:
        """Return the probability of more than x, for whole x >= −1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteGaussianLaw(_DiscreteLaw, _NormalLaw):
    """Independent whole numbers, of probability proportional to ``exp(−x² / (2 sigma²))``.

    Parameters
    ----------
    sigma : float
        From 1e-3 to 1e5.
    centre : array_like
        As for `GaussianLaw`.

    Raises
    ------
    ValueError
        If ``sigma`` is out of range.
    """

    def __post_init__(self) -> None:
        check_between("sigma", self.sigma, 0, _LARGEST_DISCRETE, "a larger one is Gaussian")

    def log_normaliser(self, parameters: FloatArray) -> float:
        """Logarithm of the sum over all whole numbers, for each number."""
        sigma = float(parameters) ** -0.5
        x = np.arange(-math.ceil(40 * sigma) - 1, math.ceil(40 * sigma) + 2)
        return math.prod(self.shape) * math.log(np.exp(-((x / sigma) ** 2) / 2).sum())

    def _beyond(self, x: FloatArray) -> FloatArray:
        reach = math.ceil(40 * self.sigma) + 1
        weights = np.exp(-((np.arange(-reach, reach + 1) / self.sigma) ** 2) / 2)
        tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / weights.sum()
        return tails[np.minimum(x + 1 + reach, 2 * reach + 1).astype(np.intp)]


class DiscreteLaplaceLaw(_DiscreteLaw, _ScaleLaw):
    """Independent discrete Laplace noise; ``scale`` and ``centre`` as for `_ScaleLaw`."""

    def log_normaliser(self, parameters: FloatArray) -> float:
        """Logarithm of the sum over all whole numbers, for each number."""
        return -math.prod(self.shape) * math.log(math.tanh(parameters / 2))

    def _beyond(self, x: FloatArray) -> FloatArray:
        ratio = math.exp(-1 / self.scale)
        return ratio ** (x + 1) / (1 + ratio)


# Draws of rows ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class DirichletLaw(Law):
    """Rows drawn from ``Dirichlet(weight * counts + alpha)``.

    Parameters
    ----------
    weight : float
        Weight of a count, > 0.
    counts : array_like, shape (..., K)
        Those of the test, >= 0, not of anyone's data. A count of 1e6 beside one of 0 shows most.
    alpha : array_like
        Prior pseudo-counts, each >= 0.1: draws with less underflow.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    weight: float
    counts: ArrayLike
    alpha: ArrayLike

    def __post_init__(self) -> None:
        check_positive("weight", self.weight)
        counts, alpha = as_floats("counts", self.counts), as_floats("alpha", self.alpha)
        if counts.ndim < 1 or counts.shape[-1] < 2 or not ((counts >= 0) & (counts < np.inf)).all():
            raise ValueError(
                "counts must be >= 0 and finite, with at least two cells on the last axis, got "
                f"shape {counts.shape}."
            )
        if not ((alpha >= _LEAST_CONCENTRATION) & (alpha < np.inf)).all():
            raise ValueError(
                f"alpha must be at least {_LEAST_CONCENTRATION} and finite, got "
                f"{shown(self.alpha)}; with less, draws underflow."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the counts."""
        return np.shape(self.counts)

    @property
    def parameters(self) -> FloatArray:
        """The concentrations."""
        return self._concentrations(1.0, 1.0)

    def check(self, draws: ArrayLike) -> FloatArray:
        """Return draws as floats; ValueError if rows are not probabilities that sum to 1."""
        checked = super().check(draws)
        if not ((checked >= 0).all() and (abs(checked.sum(axis=-1) - 1) <= _ROUNDING).all()):
            raise ValueError(
                "draws must be probabilities, in rows that each sum to 1 within 1e-9; what a row "
                "adds up to could tell of the data."
            )
        return checked

    def wrong(self, error: float) -> Mapping[str, FloatArray]:
        """Too large a weight, for cells with counts, and too small a prior."""
        others = {"prior": self._concentrations(1.0, 1 - error)}
        if np.any(self.counts):
            others["weight"] = self._concentrations(1 / (1 - error), 1.0)
        return others

    def statistics(self, draws: FloatArray) -> FloatArray:
        """Logarithms of the probabilities."""
        return np.log(np.maximum(draws, _TINY))

    def log_normaliser(self, parameters: FloatArray) -> float:
        """Logarithm of the multivariate Beta function, summed over rows."""
        return float(
            special.gammaln(parameters).sum() - special.gammaln(parameters.sum(axis=-1)).sum()
        )

    def scores(self, draws: FloatArray) -> FloatArray:
        """Each cell's part of what the cells before it leave, which is Beta; as normal numbers."""
        shapes = self.parameters
        ahead = _reversed_sums(shapes)[..., 1:]
        rest = np.maximum(_reversed_sums(draws), _TINY)
        own, here = shapes[..., :-1], draws[..., :-1] / rest[..., :-1]
        left = rest[..., 1:] / rest[..., :-1]
        lower = special.ndtri(special.betainc(own, ahead, here))
        upper = -special.ndtri(special.betainc(ahead, own, left))
        return _bounded(np.where(here < 0.5, lower, upper)).reshape(len(draws), -1)

    def _concentrations(self, weight: float, prior: float) -> FloatArray:
        counts = np.asarray(self.counts, np.float64)
        return self.weight * weight * counts + prior * np.asarray(self.alpha, np.float64)


def _reversed_sums(values: FloatArray) -> FloatArray:
    """Sum each cell and all behind it."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def _bounded(scores: FloatArray) -> FloatArray:
    return np.clip(scores, -_FURTHEST, _FURTHEST)
