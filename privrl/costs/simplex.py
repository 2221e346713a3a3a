"""The (epsilon, delta) guarantee of a Dirichlet draw on the unit simplex.

It is that of Gohari et al., *The Dirichlet mechanism for differential privacy on the unit simplex*
(SIM below), whose exact counterpart is `SimplexCost.exact`.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import check_epsilons, smallest_epsilon
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import Relation
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_orders, check_positive
from privrl.numerics.printing import exact
from privrl.numerics.scipy_lazily import optimize, special
from privrl.numerics.special import FloatArray, bregman_lgamma, lgamma_excess
from privrl.numerics.upwards import FEW, LOG_DELTA, exp_up, outward

#: By how much rounding may increase a change: that of an average of numbers up to 1, and that of
#: its product with a weight, in units of the weight; see `privrl.mechanisms.SimplexMechanism`.
_ROUNDING = 2.0**-50


def simplex_relation(distance: float, n_vectors: int = 1) -> Relation:
    """Return SIM's relation, for the average of ``n_vectors``; see `SimplexCost`.

    It includes what rounding may add to a change.
    """
    change = _change(distance, n_vectors)
    name = f"move {exact(distance / 2)} between two sensitive components of one vector"
    if n_vectors > 1:
        name += f" of {n_vectors}"
    return Relation(name, {"counts": [(change, -change)]}, covers_arrival=True)


def _change(distance: float, n_vectors: int) -> float:
    return math.nextafter(distance / (2 * n_vectors) + _ROUNDING, math.inf)


@dataclass(frozen=True, kw_only=True)
class SimplexCost(InHtml):
    """One draw ``y ~ Dirichlet(weight * p)`` of a vector p of the unit simplex: SIM's guarantee.

    The vector, or the average of several, has sensitive components (the paper's W) that are
    each known to be at least ``eta``, and all the other components together are known to
    be at least ``eta_bar``. Neighbours move up to ``distance / 2`` from one sensitive
    component of one vector to another: Theorem 1 for one vector, Theorem 2 for an average.

    Parameters
    ----------
    weight : float
        The paper's k, > 0; smaller is more private.
    eta, eta_bar : float
        As above, each in (0, 1).
    n_components : int
        How many components are sensitive, >= 2.
    distance : float
        The paper's b, > 0: by how much one vector may change, in 1-norm.
    n_vectors : int
        How many vectors are averaged, >= 1.

    Raises
    ------
    ValueError
        If a number is out of range; if ``weight * eta`` or ``weight * eta_bar`` is below 1,
        which the theorems assume; or if no two vectors are ``distance`` apart.

    Notes
    -----
    Except with probability delta each sensitive component of the draw is at least gamma, and
    then the privacy loss is at most epsilon. Each gamma gives one such pair, so for a given
    epsilon or delta the best gamma is the only one that matters. The worst input has every
    sensitive component at ``eta``: a draw can be made from a gamma process on [0, 1], on
    which raising one component at the expense of the rest lengthens one interval, so that no
    sensitive component falls. (Theorem 1 looks for it among all vertices of the set.) The
    loss is at most ``log B(a, c − a)/B(a + s, c − a − s) + s L`` with ``a = weight * eta``,
    ``c = weight (1 − eta_bar)``, ``s`` the change of ``weight * p`` and ``e^L`` the largest
    ratio of two components of the draw, if that grows with s all the way (it is concave in
    s). Where it does not, which takes a gamma of the size of ``eta``, Lemma 4 overlooks the
    maximum, and no guarantee is given here.

    For the average, (18) and (21) print the dimension n for the number of vectors, and
    Definition 3 leaves out that the two components are sensitive ones.
    """

    weight: float
    eta: float
    eta_bar: float
    n_components: int = 2
    distance: float = 1.0
    n_vectors: int = 1

    def __post_init__(self) -> None:
        checked = {
            "weight": check_positive("weight", self.weight, "larger means less noise"),
            "eta": check_between("eta", self.eta, 0, 1),
            "eta_bar": check_between("eta_bar", self.eta_bar, 0, 1),
            "n_components": check_count("n_components", self.n_components, 2),
            "distance": check_positive("distance", self.distance, "the paper takes at most 1"),
            "n_vectors": check_count("n_vectors", self.n_vectors),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, least in (("eta", self.eta), ("eta_bar", self.eta_bar)):
            if not self.weight * least >= 1:
                raise ValueError(
                    f"weight * {name} must be >= 1, which the theorem assumes, got "
                    f"{self.weight * least:g}; the exact DirichletCost(weight={self.weight:g}, "
                    f"alpha={self.weight * self.eta:g}, ...) does not need this."
                )
        room = 1 - self.eta_bar - self.n_components * self.eta
        if not room > 0:
            raise ValueError(
                "n_components * eta + eta_bar must be < 1, got "
                f"{self.n_components * self.eta + self.eta_bar:g}; no two vectors satisfy this."
            )
        if not self.distance / 2 <= room * (1 + 1e-12):
            raise ValueError(
                f"distance must be <= 2 (1 - eta_bar - n_components * eta) = {2 * room:g}, got "
                f"{shown(self.distance)}; no two vectors of the set are further apart."
            )

    @property
    def relation(self) -> Relation:
        """Which vectors, or collections of vectors, are neighbours."""
        return simplex_relation(self.distance, self.n_vectors)

    @property
    def exact(self) -> DirichletCost:
        """The exact cost of the same draw: the known lower bounds act as a prior."""
        return DirichletCost(
            weight=self.weight, alpha=self.weight * self.eta, relation=self.relation
        )

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return infinity at each order > 1: nothing bounds the event of probability delta."""
        return np.full_like(check_orders(orders), np.inf)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats); same shape as ``epsilon``."""
        return exp_up(self._log_delta(epsilon))

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta`` in (0, 1), never rounded down."""
        return smallest_epsilon(self._log_delta, delta)

    def lemma_5(self, delta: float) -> FloatArray:
        """Return the paper's simpler bound on `epsilon`, its beta functions bounded by Lemma 5.

        ``exp(2 − a − b) <= B(a, b) <= (a + b − 1) / ((2a − 1)(2b − 1))`` for a, b >= 1: the
        same gamma, and a constant more than `epsilon`.
        """
        a, c, s = self._parameters()
        looser = math.log((c - 1) / ((2 * a - 1) * (2 * (c - a) - 1))) - (2 - c)
        exact = _log_beta(a, c - a) - _log_beta(a + s, c - a - s)
        more = looser - exact + FEW * (abs(looser) + abs(exact))
        return outward(self.epsilon(delta) + more, FEW)

    def gamma(self, epsilon: ArrayLike) -> FloatArray:
        """Return the gamma of the theorem at each epsilon >= 0; 1 where it gives no guarantee."""
        epsilon = check_epsilons(epsilon)
        a, c, s = self._parameters()
        # log B(a, c − a) / B(a + s, c − a − s), less its part that is linear in s
        bend = -bregman_lgamma(a, s) - bregman_lgamma(c - a, -s)
        slopes = special.digamma(c - a), special.digamma(a)
        log_ratio = (epsilon - bend) / s - (slopes[0] - slopes[1])
        log_ratio -= FEW * ((epsilon - bend) / s + abs(slopes[0]) + abs(slopes[1]))
        least = max(special.digamma(a + s) - special.digamma(c - a - s), 0.0)
        valid = log_ratio >= least
        small = np.exp(-np.where(valid, log_ratio, 0.0))
        return np.where(valid, small / (1 + (self.n_components - 1) * small), 1.0)

    def _parameters(self) -> tuple[float, float, float]:
        """Return the least concentration, the largest sum of two, and by how much one changes."""
        change = _change(self.distance, self.n_vectors)
        return self.weight * self.eta, self.weight * (1 - self.eta_bar), self.weight * change

    def _log_delta(self, epsilon: ArrayLike) -> FloatArray:
        gammas, alpha = self.gamma(epsilon), self.weight * self.eta
        each = [
            probability_some_below(gamma, alpha=alpha, n=self.n_components, total=self.weight)
            for gamma in gammas.flat
        ]
        shares = np.reshape(each, gammas.shape)
        # What underflows is not 0.
        shares = np.where(gammas > 0, np.maximum(shares, 5e-324), shares)
        with np.errstate(divide="ignore"):
            return np.minimum(np.log(shares) + LOG_DELTA, 0.0)


_PANELS = 32
_DROP = 40.0  # the density is followed down to e^-40 of its peak


@cache
def _rule() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Gauss's nodes and weights, and what makes integrals from -1 up to each node."""
    legendre = np.polynomial.legendre  # loaded at its first use
    nodes, weights = legendre.leggauss(16)
    inverse = np.linalg.inv(legendre.legvander(nodes, 15))
    return (
        nodes,
        weights,
        legendre.legvander(nodes, 16) @ legendre.legint(np.eye(16), lbnd=-1) @ inverse,
    )


def probability_some_below(gamma: float, *, alpha: float, n: int, total: float) -> float:
    """Return the probability that some of n components of a Dirichlet draw is below ``gamma``.

    Parameters
    ----------
    gamma : float
        >= 0.
    alpha : float
        The concentration of each of the n components, > 0.
    n : int
        How many components, >= 1.
    total : float
        The sum of all concentrations, at least ``n * alpha + 1``.

    Returns
    -------
    float
        To nine digits or more, however small.

    Notes
    -----
    Break one stick after the other off the unit interval, the shortest first. The shortest of
    j components has at x the density ``j f_j(x) S_{j−1}(x / (1 − x))``, where f_j is the
    density of one component and S_{j−1} the probability that the other j − 1, which share
    the rest, are all longer. So

        F_j(x) = j ∫₀ˣ f_j(u) (1 − F_{j−1}(u / (1 − u))) du,    F_0 = 0,

    an integral of positive terms. Seen from the first stick, of length t, the arguments are
    ``t / (1 − (n − j) t)``, so that one grid of t serves all j.
    """
    if gamma <= 0:
        return 0.0
    if gamma * n >= 1:
        return 1.0
    low, high = _window(math.log(gamma), alpha, total - alpha)
    nodes, weights, cumulate = _rule()
    edges = np.linspace(low, high, _PANELS + 1)
    half = np.diff(edges)[:, None] / 2
    log_t = edges[:-1, None] + half * (1 + nodes)
    t = np.exp(log_t)
    survival = np.ones_like(t)
    for j in range(1, n):
        rest = 1 - (n - j) * t
        x, others = t / rest, total - (n - j + 1) * alpha
        log_x = log_t - np.log(rest)
        log_density = alpha * log_x + (others - 1) * np.log1p(-x) - _log_beta(alpha, others)
        density = np.exp(log_density) / rest * survival  # per unit of log t
        panels = (density @ weights)[:, None] * half
        before = np.cumsum(panels, axis=0) - panels + half * (density @ cumulate.T)
        survival = 1 - j * before
    height = alpha * log_t + (total - alpha - 1) * np.log1p(-t)
    likely = half * weights * np.exp(height - height.max())
    mean = float((likely * survival).sum() / likely.sum())
    return min(n * float(special.betainc(alpha, total - alpha, gamma)) * mean, 1.0)


def _log_beta(a: float, b: float) -> float:
    """Return ``log B(a, b)``; unlike SciPy's, it is precise if one argument is large."""
    excess = lgamma_excess(a) + lgamma_excess(b) - lgamma_excess(a + b)
    return float(excess) + a * math.log(a / (a + b)) + b * math.log1p(-a / (a + b))


def _window(log_gamma: float, a: float, b: float) -> tuple[float, float]:
    """Return the range of the logarithm of a Beta(a, b), cut off at ``log_gamma``.

    Nearly all of the mass is within it.
    """

    def height(y: float) -> float:
        return a * y + (b - 1) * math.log1p(-math.exp(y))

    peak = min(log_gamma, math.log(a / (a + b - 1)))
    lowest = height(peak) - _DROP
    low = optimize.brentq(lambda y: height(y) - lowest, lowest / a - 1, peak)
    if height(log_gamma) >= lowest:
        return float(low), log_gamma
    return float(low), float(optimize.brentq(lambda y: height(y) - lowest, peak, log_gamma))
