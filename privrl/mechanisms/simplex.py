"""The Dirichlet mechanism on the unit simplex, for one vector or the average of several.

After Gohari, Wu, Hale and Topcu, *The Dirichlet mechanism for differential privacy on the unit
simplex* (SIM below): a vector p is released as one draw from ``Dirichlet(weight * p)``, which has
the mean p and, in each component, the variance ``p_i (1 − p_i) / (weight + 1)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.simplex import SimplexCost, simplex_relation
from privrl.files.shown import shown
from privrl.mechanisms.base import Mechanism
from privrl.numerics.checks import (
    check_among,
    check_between,
    check_count,
    check_finite,
    check_numbers,
    check_positive,
)
from privrl.numerics.exact_dirichlet import posterior_rows
from privrl.numerics.special import FloatArray

SimplexBound = Literal["exact", "sim"]
_LEAST_SCALE = 1e-9  # a draw with less is a vertex, and its cost falls no further
_FAINT = 1e-290  # of concentrations up to which floats do not hold a draw's logarithm; as good as 0
_ROUNDING = 1e-9  # by which a vector may miss its sum, or a bound


@dataclass(frozen=True, kw_only=True)
class SimplexMechanism(Mechanism[FloatArray]):
    """Release one draw from ``Dirichlet(weight * p)`` of a vector, or an average, of the simplex.

    Parameters
    ----------
    weight : float
        The paper's k, > 0; smaller is more private.
    eta : float
        Public bound in (0, 1): every sensitive component of every vector is at least this.
    sensitive : sequence of int
        The paper's W: which components may differ between neighbours, at least two.
    eta_bar : float
        Public bound in [0, 1): the components that are not sensitive are together at least
        this. The paper's bound needs it and one such component; the exact one does not.
    distance : float
        The paper's b, > 0: by how much one vector may change, in 1-norm, ``distance / 2``
        moving from one sensitive component to another.
    n_vectors : int
        The paper's N: how many vectors are averaged. With 1, the vector itself is released.
    bound : {"exact", "sim"}
        How the cost is counted: exactly, or by the paper's Theorems 1 and 2
        (`privrl.costs.simplex.SimplexCost`), which need ``weight * eta`` and ``weight * eta_bar``
        to be at least 1.

    Raises
    ------
    ValueError
        If a number is out of range, or outside what the theorems assume.

    Notes
    -----
    Numbers that are averaged are rounded to a grid of ``g = 2^(k - 52)``, ``2^k >= n_vectors``, on
    which sums are exact. One vector changes the sum by at most ``distance / 2 + g``, whatever the
    others are, and g is at most ``2^-51`` of ``n_vectors``. Rounding the average, and its product
    with the weight, adds at most ``2^-52`` each. The cost includes these ``2^-50``.
    """

    weight: float
    eta: float
    sensitive: tuple[int, ...]
    eta_bar: float = 0.0
    distance: float = 1.0
    n_vectors: int = 1
    bound: SimplexBound = "exact"

    def __post_init__(self) -> None:
        checked = {
            "weight": check_positive("weight", self.weight, "larger means less noise"),
            "eta": check_between("eta", self.eta, 0, 1),
            "sensitive": tuple(check_count("sensitive", i, 0) for i in self.sensitive),
            "distance": check_positive("distance", self.distance),
            "n_vectors": check_count("n_vectors", self.n_vectors),
            "eta_bar": check_finite("eta_bar", self.eta_bar, "0 is always true"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not 0 <= self.eta_bar < 1:
            raise ValueError(f"eta_bar must be >= 0 and < 1, got {shown(self.eta_bar)}.")
        if len(self.sensitive) < 2 or len(set(self.sensitive)) < len(self.sensitive):
            raise ValueError(
                "sensitive must name at least two components, each once, counted from 0, got "
                f"{shown(self.sensitive)}."
            )
        least = len(self.sensitive) * self.eta + self.eta_bar
        if least > 1 + _ROUNDING:
            raise ValueError(
                "eta times the number of sensitive components, and eta_bar, must be at most 1, got "
                f"{least:g}; no vector is like that."
            )
        check_among("bound", self.bound, ("exact", "sim"))
        _ = self.cost  # refuses what it cannot account for

    @property
    def cost(self) -> DirichletCost | SimplexCost:
        """What one release costs: the known bound on the vector acts as a prior."""
        if self.bound == "exact":
            return DirichletCost(
                weight=self.weight,
                alpha=self.weight * self.eta,
                relation=simplex_relation(self.distance, self.n_vectors),
            )
        return SimplexCost(
            weight=self.weight,
            eta=self.eta,
            eta_bar=self.eta_bar,
            n_components=len(self.sensitive),
            distance=self.distance,
            n_vectors=self.n_vectors,
        )

    def check(self, data: ArrayLike) -> FloatArray:
        """Return the vectors to be released, shape (..., K), averages being taken.

        Parameters
        ----------
        data : array_like, shape (..., K), or (..., n_vectors, K) where several are averaged
            Vectors >= 0 that sum to 1 within 1e-9, and keep the public bounds.

        Raises
        ------
        ValueError
            If they are not such. The message holds no value of the data, but a vector outside
            its public bounds is refused: choose bounds that hold whatever the data are.
        """
        vectors = check_numbers("data", data)
        wanted = "(..., K)" if self.n_vectors == 1 else f"(..., {self.n_vectors}, K)"
        least = max(1 + max(self.sensitive), len(self.sensitive) + (self.bound == "sim"))
        if (
            vectors.ndim < 1 + (self.n_vectors > 1)
            or (self.n_vectors > 1 and vectors.shape[-2] != self.n_vectors)
            or vectors.shape[-1] < least
        ):
            raise ValueError(
                f"data must have shape {wanted}, K at least {least}, got {vectors.shape}."
            )
        with np.errstate(all="ignore"):  # a warning would tell of large numbers
            sums = vectors.sum(-1)
        if not ((vectors >= 0).all() and (abs(sums - 1) <= _ROUNDING).all()):
            raise ValueError(
                "data must be vectors >= 0 that each sum to 1 within 1e-9; normalise them, in "
                "float64."
            )
        inside = vectors[..., list(self.sensitive)]
        if not (inside >= self.eta - _ROUNDING).all():
            raise ValueError(
                f"data must have sensitive components of at least eta = {self.eta:g}; choose a "
                "smaller eta, from public knowledge."
            )
        if not (1 - inside.sum(-1) >= self.eta_bar - _ROUNDING).all():
            raise ValueError(
                "data must have components that are not sensitive of at least eta_bar = "
                f"{self.eta_bar:g} together; choose a smaller one, from public knowledge."
            )
        return vectors if self.n_vectors == 1 else _average(vectors)

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return vectors of the simplex, shape (..., K)."""
        concentrations = self.weight * data
        columns = list(self.sensitive)
        # What rounding may have taken from the bound that the cost relies on.
        concentrations[..., columns] = np.maximum(
            concentrations[..., columns], self.weight * self.eta
        )
        flat = concentrations.reshape(-1, concentrations.shape[-1])
        present, rows = flat > _FAINT, np.zeros_like(flat)
        # A component of 0 is never sensitive, and stays 0: the others are drawn without it. Beside
        # a larger one, small ones would all be 0 as floats.
        for which in np.unique(present, axis=0):
            here = np.ix_((present == which).all(axis=1), which)
            rows[here] = posterior_rows(flat[here], np.asarray(1.0), np.asarray(0.0), rng)
        rows /= rows.sum(-1, keepdims=True)
        return rows.reshape(concentrations.shape)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        eta: float,
        sensitive: Sequence[int],
        eta_bar: float = 0.0,
        distance: float = 1.0,
        n_vectors: int = 1,
        bound: SimplexBound = "exact",
        count: int = 1,
        accountant: Callable[[], Accountant] | None = None,
    ) -> Self:
        """Return the mechanism of the largest weight whose ``count`` releases meet ``target``.

        Under the paper's bound only one release can meet a target, and only an `ApproxDP` one:
        its guarantee does not bound a Rényi divergence.

        Raises
        ------
        ValueError
            If an argument is out of range, or the target cannot be met.
        """
        made = partial(
            cls,
            eta=eta,
            eta_bar=eta_bar,
            sensitive=tuple(sensitive),
            distance=distance,
            n_vectors=n_vectors,
            bound=bound,
        )
        least = _LEAST_SCALE
        if bound == "sim":
            lowest = min(check_between("eta", eta, 0, 1), check_between("eta_bar", eta_bar, 0, 1))
            least = (1 + 1e-12) / lowest
        largest = calibrate(
            target,
            lambda weight: made(weight=weight).cost,
            rises=True,
            count=count,
            accountant=accountant,
            least=least,
        )
        return made(weight=largest)


def _average(vectors: FloatArray) -> FloatArray:
    """Return averages along the last axis but one, of numbers on a grid whose sums are exact."""
    n = vectors.shape[-2]
    grid = 2.0 ** ((n - 1).bit_length() - 52)
    return np.rint(vectors / grid).sum(axis=-2) * grid / n
