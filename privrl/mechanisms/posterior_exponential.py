"""Exponential mechanism over posteriors: releases the posterior of a data set near the true one.

The candidates are the Dirichlet posteriors ``Dir(prior + z)`` of all data sets of n records,
one for each vector z of m counts that sum to n. Given counts x, candidate z is drawn with
probability proportional to ``exp(-c(x) H(x, z))``, where H is the Hellinger distance between
the two densities,

    H(x, z)^2 = 1 - B((u + v) / 2) / sqrt(B(u) B(v)),    u = prior + x,  v = prior + z,

with B the multivariate beta function. Neighbours replace one record, so n is public.

The notes that this follows (*Notes of DP - Bayesian Inference*, "BAY" below) set
``c(x) = epsilon / (2 S(x))``, with S one of three sensitivities, and argue about the privacy of
each. Here none of the arguments is relied on: what a release costs is computed from the matrix
of all probabilities (`privrl.mechanisms.certificate`), and depends on nothing private. That
shows how much they leave unused, and two more ways solve for the c that uses all of it.

Two facts make it quick. By the triangle inequality, for every candidate z,

    -H(x, x') <= H(x', z) - H(x, z) <= H(x, x'),

attained at ``z = x`` and ``z = x'``. So the local sensitivity at x is the distance to the
farthest neighbour, and for c(x) <= c(x') the loss ``log P_x(z) - log P_x'(z)``, which is
``c(x') H(x', z) - c(x) H(x, z) + log Z_x' - log Z_x`` with Z the normalisers, lies between

    -c(x) H(x, x') + log(Z_x' / Z_x)  and  c(x) H(x, x') + c(x') - c(x) + log(Z_x' / Z_x),

for H is at most 1. Where c is constant both are attained, and

    eps_0 = max over neighbours of  c H(x, x') + |log Z_x - log Z_x'|.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.base import check_epsilons, smallest_epsilon
from privrl.costs.relations import Relation, ReplaceRecord
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.mechanisms.base import Mechanism, check_counts
from privrl.mechanisms.certificate import BLOCK, Certificate, IntArray
from privrl.mechanisms.posteriors import (
    ExponentialLaw,
    Posteriors,
    check_size,
    posteriors_of,
    smooth_beta,
)
from privrl.numerics.checks import check_among, check_between, check_is, check_orders
from privrl.numerics.dirichlet_rows import DirichletPosterior
from privrl.numerics.discrete_noise import choices_by_gap
from privrl.numerics.roots import brentq
from privrl.numerics.special import FloatArray

Sensitivity = Literal["certified", "constant", "global", "local", "smooth"]

_EPSILONS = (1e-6, 1e6)
_MOST_TO_CALIBRATE = 3e7  # the same where some sixty certificates are needed
_SOLVED = 1e-6  # how far below epsilon is aimed


@dataclass(frozen=True)
class PosteriorExponentialMechanism(Mechanism[DirichletPosterior]):
    """Release the posterior of a data set near the true one.

    Parameters
    ----------
    prior : array_like, shape (m,)
        Prior pseudo-counts of the m >= 2 cells, each > 0; public.
    n : int
        Records in each row of counts, >= 1; public.
    epsilon : float
        In nats, > 1e-6 and < 1e6; larger is more accurate.
    sensitivity : {"certified", "constant", "global", "local", "smooth"}
        How the c of the module's docstring comes from ``epsilon``. ``"global"``, ``"local"``
        and ``"smooth"`` are BAY's, ``epsilon / (2 S(x))``, and cost what they cost: see `cost`
        and `claim`. With the other two c is solved for, so that the release is
        ``epsilon``-differentially private and 0.9998 ``epsilon`` would not do:
        ``"constant"`` has one c for all data sets, ``"certified"`` one that is larger where
        the posterior is sharper, inversely to a smooth sensitivity.
    delta : float, optional
        In (0, 1), for ``"smooth"`` only: its smoothing depends on it.

    Raises
    ------
    ValueError
        If an argument is out of range, or the matrix is too large: m = 2 is accepted up to
        n = 38,000 and m = 3 up to n = 210, say.

    Notes
    -----
    The guarantee is `cost`, computed from the very matrix that is drawn from, whatever the
    sensitivity. Choices are exact, as `privrl.numerics.discrete_noise` explains, so no rounding
    makes a candidate impossible for one data set and possible for its neighbour.

    For ``"certified"`` the smoothing is that of BAY at ``delta = 1`` and with the true number
    of candidates. The guarantee does not depend on it, and the error hardly: where it is too
    small, c is held down far from the edge of the simplex for the sake of the edge; where it
    is too large, it is the changes of c that cost.

    References
    ----------
    *Notes of DP - Bayesian Inference*, sections 2.1 to 2.3.

    K. Nissim, S. Raskhodnikova and A. Smith. *Smooth sensitivity and sampling in private data
    analysis* (2007).
    """

    prior: tuple[float, ...]
    n: int
    epsilon: float
    sensitivity: Sensitivity = "certified"
    delta: float | None = None

    def __post_init__(self) -> None:
        prior, n = check_size(self.prior, self.n)
        epsilon = check_between("epsilon", self.epsilon, *_EPSILONS, "smaller means more privacy")
        check_among("sensitivity", self.sensitivity, get_args(Sensitivity))
        if self.sensitivity == "smooth":
            if self.delta is None:
                raise ValueError('delta must be given for the sensitivity "smooth", got None.')
            object.__setattr__(self, "delta", check_between("delta", self.delta, 0, 1))
        elif self.delta is not None:
            raise ValueError(
                f"delta must be None for the sensitivity {shown(self.sensitivity)}, got "
                f'{shown(self.delta)}; it is for "smooth", and what a release costs at some delta '
                "is "
                "cost.epsilon(delta)."
            )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "epsilon", epsilon)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        prior: ArrayLike,
        n: int,
        sensitivity: Sensitivity = "certified",
        delta: float | None = None,
        count: int = 1,
    ) -> Self:
        """Return the most accurate mechanism of which ``count`` releases meet ``target``.

        The arguments are those of the class, which itself is calibrated to pure differential
        privacy, and of `privrl.accounting.calibrate`. For an `ApproxDP` target one release is
        accounted for exactly, several by the sum of their Rényi divergences.

        Raises
        ------
        ValueError
            If an argument is out of range, no epsilon meets the target, or the matrix is too
            large to be certified again and again.
        """
        prior, n = check_size(
            prior, n, _MOST_TO_CALIBRATE, "or give the constructor an epsilon, at any size it takes"
        )
        make = partial(cls, prior, n, sensitivity=sensitivity, delta=delta)
        epsilon = calibrate(target, lambda each: make(each).cost, rises=True, count=count)
        return make(epsilon)

    @property
    def cost(self) -> "ExponentialCost":
        """What one release costs, exactly, under the relation "replace one record"."""
        return ExponentialCost(self)

    @property
    def claim(self) -> str:
        """What is certified, and what BAY says; only the first is a guarantee."""
        digits = 2 - math.floor(math.log10(self.cost.pure_epsilon))
        certified = math.ceil(self.cost.pure_epsilon * 10.0**digits) / 10.0**digits
        says = {
            "global": f"; its paper claims {self.epsilon:g}-DP",
            "local": "; its paper makes no claim",
            "smooth": f"; its paper claims ({self.epsilon:g}, {self.delta})-DP",
        }
        return f"certified {certified:.10g}-DP{says.get(self.sensitivity, '')}"

    def check(self, data: ArrayLike) -> FloatArray:
        """Return counts, shape (..., m), if they are whole and each row sums to n.

        Raises
        ------
        ValueError
            If they are not.
        """
        counts = check_counts(data)
        m = len(self.prior)
        if counts.shape[-1] != m:
            raise ValueError(
                f"data must have as many cells as the prior, {m}, got shape {counts.shape}."
            )
        if not (counts == np.floor(counts)).all():
            raise ValueError("data must be whole numbers; this mechanism selects among counts.")
        if not (counts.sum(axis=-1) == self.n).all():
            raise ValueError(
                f"data must sum to n = {self.n} in each row, which is public here; make a "
                "mechanism for another n if that is known without looking."
            )
        return counts

    def probabilities(self, counts: ArrayLike) -> FloatArray:
        """Return the probability of each candidate, shape (..., n_candidates).

        The candidates are ``Posteriors(prior, n).counts``. Not private: for study.

        Raises
        ------
        ValueError
            If `check` refuses the counts.
        """
        counts = self.check(counts)
        law = _law(self)
        rows = law.posteriors.rank(counts)
        return law.probs(rows.ravel()).reshape(*rows.shape, law.n_outputs)

    def expected_error(self, counts: ArrayLike) -> FloatArray:
        """Return the mean Hellinger distance from the released to the true posterior.

        Not private: for study.

        Parameters
        ----------
        counts : array_like, shape (..., m)
            As for `release`.

        Returns
        -------
        array, shape (...)
            In [0, 1].

        Raises
        ------
        ValueError
            If `check` refuses the counts.
        """
        law, rows, of = self._rows(self.check(counts))
        errors = [
            np.einsum("ij,ij->i", law.probs(block), law.posteriors.distances(block))
            for block in _blocks(rows, law.n_outputs)
        ]
        return np.concatenate([np.zeros(0), *errors])[of]

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> DirichletPosterior:
        law, rows, of = self._rows(data)
        chosen = np.zeros(of.size, np.intp)
        draws_of = iter(np.split(of.ravel().argsort(), np.bincount(of.ravel()).cumsum()[:-1]))
        for block in _blocks(rows, law.n_outputs):
            for gaps in law.gaps(block):
                draws = next(draws_of)
                chosen[draws] = choices_by_gap(gaps, draws.size, rng)
        selected = law.posteriors.counts[chosen].reshape(data.shape)
        return DirichletPosterior(np.array(self.prior) + selected)

    def _rows(self, data: FloatArray) -> tuple[ExponentialLaw, IntArray, IntArray]:
        """Return the matrix, which of its rows the data are, each once, and which each is."""
        law = _law(self)
        rows, of = np.unique(law.posteriors.rank(data), return_inverse=True)
        return law, rows, of.reshape(data.shape[:-1])


@dataclass(frozen=True)
class ExponentialCost(InHtml):
    """One release of a `PosteriorExponentialMechanism`, at its exact cost.

    All numbers are those of the mechanism's own matrix of probabilities, the worst over all
    pairs of neighbours in both directions. They are computed when first asked for.

    Raises
    ------
    ValueError
        If ``mechanism`` is of another kind.
    """

    mechanism: PosteriorExponentialMechanism

    def __post_init__(self) -> None:
        check_is("mechanism", self.mechanism, PosteriorExponentialMechanism)

    @property
    def relation(self) -> Relation:
        """One record is replaced."""
        return ReplaceRecord()

    @property
    def pure_epsilon(self) -> float:
        """The smallest epsilon (nats) with delta = 0, never rounded down."""
        return _certificate(self.mechanism).pure_epsilon

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        return _certificate(self.mechanism).rdp(check_orders(orders))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats); zero from `pure_epsilon` on."""
        return _certificate(self.mechanism).delta(check_epsilons(epsilon))

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta`` in (0, 1), never rounded down."""

        def log_delta(epsilon: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                return np.log(self.delta(epsilon))

        # Where delta is small it falls to nothing within the digits that were solved for.
        epsilon, margin = float(smallest_epsilon(log_delta, delta)), 1e-15
        while epsilon < self.pure_epsilon and self.delta(epsilon) > delta:
            epsilon, margin = epsilon * (1 + margin), 2 * margin
        return np.asarray(min(epsilon, self.pure_epsilon))


def _law(mechanism: PosteriorExponentialMechanism) -> ExponentialLaw:
    """Return the mechanism's matrix, certified only where c is solved for."""
    if mechanism.sensitivity in {"certified", "constant"}:
        return _solved(mechanism)[0]
    return ExponentialLaw(*_shape(mechanism))


@lru_cache(maxsize=4)
def _certificate(mechanism: PosteriorExponentialMechanism) -> Certificate:
    if mechanism.sensitivity in {"certified", "constant"}:
        return _solved(mechanism)[1]
    return Certificate(_law(mechanism))


def _shape(mechanism: PosteriorExponentialMechanism) -> tuple[Posteriors, FloatArray]:
    """Return the posteriors, and c as BAY has it for a sensitivity."""
    posteriors = posteriors_of(mechanism.prior, mechanism.n)
    match mechanism.sensitivity:
        case "local":
            sensitivity = posteriors.local_sensitivity
        case "smooth":
            assert mechanism.delta is not None
            beta = smooth_beta(mechanism.epsilon, mechanism.delta, mechanism.n + 1)
            sensitivity = posteriors.smooth_sensitivity(beta)
        case "certified":
            n_candidates = len(posteriors.counts)
            beta = math.log1p(mechanism.epsilon / (2 * math.log(2 * n_candidates)))
            sensitivity = posteriors.smooth_sensitivity(beta)
        case _:
            largest = posteriors.local_sensitivity.max()
            sensitivity = np.full(len(posteriors.counts), largest)
    return posteriors, mechanism.epsilon / (2 * sensitivity)


@lru_cache(maxsize=4)
def _solved(mechanism: PosteriorExponentialMechanism) -> tuple[ExponentialLaw, Certificate]:
    """Multiply c so that the certificate is epsilon, and never more.

    A cutting plane: the multiple is solved for on a few pairs; the certificate of the whole
    matrix confirms it, or names a worse pair to be added to them.
    """
    posteriors, shape = _shape(mechanism)
    first, second = posteriors.pairs.T
    near = np.minimum(shape[first], shape[second]) * posteriors.neighbour_distances
    chosen = {int(near.argmax()), int(np.abs(shape[first] - shape[second]).argmax())}
    aim, start = mechanism.epsilon * (1 - _SOLVED), 1.0
    while True:
        rows = posteriors.pairs[list(chosen)]
        weights = np.stack([posteriors.distances(pair) * -shape[pair, None] for pair in rows])
        start = _last_multiple(weights, aim, start)
        law = ExponentialLaw(posteriors, start * shape)
        certificate = Certificate(law)
        largest, at = certificate.worst
        if largest <= mechanism.epsilon:
            return law, certificate
        if at in chosen:  # what is left is rounding, and the margin for it
            aim -= 2 * (largest - mechanism.epsilon)
        chosen.add(at)


def _last_multiple(weights: FloatArray, aim: float, start: float) -> float:
    """Return the multiple of c at which the largest loss of some pairs is ``aim``.

    The weights are those of ``log P``, shape (n_pairs, 2, n_candidates).
    """

    def excess(multiple: float) -> float:
        logs = multiple * weights
        logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
        return float(np.abs(logs[:, 0] - logs[:, 1]).max()) - aim

    low = high = start
    while excess(low) > 0:
        low /= 2
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, low, high, xtol=1e-300, rtol=1e-10))


def _blocks(rows: IntArray, n_outputs: int) -> Iterator[IntArray]:
    step = max(1, BLOCK // n_outputs)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
