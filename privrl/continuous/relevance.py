"""Which prior covariance each target's weights have: by the evidence of what was released.

The first round chooses a scale, how fast weights fall with the degree of their features, and
whether products matter. Then variables that a target does not depend on are found one by one.
Logged states are correlated, and a ridge divides the effect of one of them among all of them, which
is wrong wherever they part. Later rounds see more, and may bring such a variable back.
"""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from privrl.continuous.features import Basis
from privrl.continuous.posterior import Round, Weights, log_evidence
from privrl.numerics.typing import BoolArray, FloatArray


@dataclass(eq=False)
class Relevance:
    """Priors of the weights of each target, chosen round by round.

    Parameters
    ----------
    basis : Basis
        The features.
    steeper, faint : sequence of float
        Factors of prior deviations for each degree of a feature, and for products of variables, of
        which each target takes the likeliest.
    fade : float
        Factor of prior deviations of features that an irrelevant variable takes part in.
    spread : float
        Prior deviation of the binary logarithm by which a round's prior is rescaled.
    """

    basis: Basis
    steeper: tuple[float, ...]
    faint: tuple[float, ...]
    fade: float
    spread: float
    _wide: list[FloatArray] = field(default_factory=list, init=False)  # before variables faded
    _faded: list[list[BoolArray]] = field(default_factory=list, init=False)

    def choose(self, before: Weights, seen: Round, gram: FloatArray) -> Weights:
        """Return weights whose covariance is the likeliest prior of a round."""
        first, covariance = not self._wide, before.covariance.copy()
        for j, given in enumerate(before.covariance):
            pick = _Pick(seen, gram, j, self.spread, first=first)
            if first:
                kept = pick.best([given * np.outer(shape, shape) for shape in self._shapes()])
                self._wide.append(pick.covariance)
                self._faded.append([])
                self._fade(pick, j)
            else:
                kept = pick.best([given])
                self._bring_back(pick, j)
            if kept is not None:
                covariance[j] = pick.covariance
        return Weights(before.mean, covariance)

    def _fade(self, pick: "_Pick", j: int) -> None:
        left = self._groups()
        while left:
            shapes = [np.where(group, self.fade, 1.0) for group in left]
            k = pick.best([pick.covariance * np.outer(shape, shape) for shape in shapes])
            if k is None:
                return
            self._faded[j].append(left.pop(k))

    def _bring_back(self, pick: "_Pick", j: int) -> None:
        while faded := self._faded[j]:
            tried = []
            for k in range(len(faded)):
                others = faded[:k] + faded[k + 1 :]
                back = faded[k] & ~np.any(others, axis=0) if others else faded[k]
                tried.append(pick.covariance + self._wide[j] * np.outer(back, back))
            found = pick.best(tried)
            if found is None:
                return
            faded.pop(found)

    def _shapes(self) -> list[FloatArray]:
        degrees = self.basis.degrees.astype(np.float64)
        products = np.array([len(factors) > 1 for factors in self.basis.factors])
        return [
            steep**degrees * np.where(products, faint, 1.0)
            for steep, faint in product(self.steeper, self.faint)
        ]

    def _groups(self) -> list[BoolArray]:
        """Return which features each variable takes part in."""
        used = [{variable for variable, _ in factors} for factors in self.basis.factors]
        return [np.array([v in each for each in used]) for v in sorted(set().union(*used))]


class _Pick:
    """The likeliest prior covariance of one target so far."""

    def __init__(
        self, seen: Round, gram: FloatArray, target: int, spread: float, *, first: bool
    ) -> None:
        self._seen, self._gram, self._target = seen, gram, target
        self._factors = np.exp2(np.arange(-5.0, 6) if first else np.arange(-1.0, 4))
        self._penalty = np.log2(self._factors) ** 2 / 2 / spread**2
        self._inverse = np.linalg.inv(seen.transform)
        self._evidence = -np.inf
        self.covariance = np.zeros_like(gram)

    def best(self, tried: list[FloatArray]) -> int | None:
        """Keep the likeliest, rescaled; return its number, or None if none is likelier."""
        to = self._inverse / self._seen.scale[self._target]
        priors = [to.T @ each @ to for each in tried]
        evidence = log_evidence(self._seen, self._gram, self._target, priors, self._factors**2)
        found = evidence - self._penalty
        k, factor = np.unravel_index(int(np.argmax(found)), found.shape)
        if not self._evidence < found[k, factor]:
            return None
        self._evidence = float(found[k, factor])
        self.covariance = tried[k] * self._factors[factor] ** 2
        return int(k)
