"""A sampler that pays once: running counts with Gaussian noise, and free posteriors of them.

Each batch of counts enters a running sum whose noise is correlated over time
(`privrl.samplers.factorisations`), so that the sums of the whole stream cost each record one
Gaussian mechanism, whatever their number. Everything computed from them is post-processing: any
number of posterior samples, at any time.

**Proof** of the theorem in docs/finite-precision.md, in its notation. Fix the releases. The fresh
noises that lead to them are ``e_t = R_t − S_t − M_t`` under one history and ``e'_t`` under the
other. Cell by cell, ``Δ = e' − e`` solves ``Δ_t + sum_{j<t} (B_tj / B_jj) Δ_j = (S − S')_t −
(ρ' − ρ)_t``, so ``Δ = diag(B) B⁻¹ (A m − (ρ' − ρ))``, and ``B⁻¹ A = C``. Divided by the standard
deviations of the fresh noises, its norm is at most ``(‖C m‖ + ‖B⁻¹‖ ‖ρ' − ρ‖) / σc``. Cells on
which neighbours agree have the same noises and the same rounding, and at most K others remain. Δ is
an integer vector, and ``Δ_t`` is a function of the releases before t. So the releases are an
adaptive composition of integer shifts of discrete Gaussians whose squares sum to no more than that
bound. By the lemma of `privrl.numerics.discrete_gaussian.gaussian_on_grid` each is a
post-processing of a Gaussian, and such compositions are dominated by one Gaussian of the whole
distance (Smith and Thakurta, *Fully adaptive composition for Gaussian differential privacy*, 2022).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.base import NoPrivacy, tables_released
from privrl.costs.noise import GaussianCost, largest_square
from privrl.costs.relations import DAMPED, DAMPED_REWARDS, Relation, ReplaceStep, check_relation
from privrl.files.shown import shown
from privrl.numerics.checks import check_finite, check_positive, check_rng, plain_array
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.special import FloatArray
from privrl.samplers.base import PaidOnce, PaidSampler, check_batch, frozen, lead
from privrl.samplers.buffered import Buffers
from privrl.samplers.factorisations import FactorisationName, LocalNoise, Mixed, factorise
from privrl.samplers.innovations import LARGEST_DEVIATION, Innovations

DEFAULT_THRESHOLD = 1.5  # deviations


@dataclass(frozen=True, eq=False)
class NoisyPosterior:
    """Released counts and the posterior that follows from them; sampling it is free.

    Attributes
    ----------
    counts : array, shape (..., K)
        The running counts with their noise; some may be negative.
    deviation : array, shape (..., 1) or (..., K)
        Standard deviation of that noise; public.
    alpha : array, shape (..., 1)
        Prior pseudo-count of every cell.
    threshold : float
        How many deviations are taken off each count before it enters the posterior, at the most
        all of it: what noise alone may have put there counts as nothing.
    """

    counts: FloatArray
    deviation: FloatArray
    alpha: FloatArray
    threshold: float = 0.0

    @property
    def mean(self) -> FloatArray:
        """Expected probabilities, shape (..., K)."""
        concentrations = self._concentrations
        return concentrations / concentrations.sum(axis=-1, keepdims=True)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return fresh probabilities, shape (..., K)."""
        least = float(np.min(self.alpha))
        return dirichlet_rows(self._concentrations, rng, least=least)

    @property
    def _concentrations(self) -> FloatArray:
        return np.maximum(self.counts - self.threshold * self.deviation, 0.0) + self.alpha


class NoisyCounts(PaidOnce):
    """The posterior of running counts that carry Gaussian noise.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise that would hide as much in a single release of the
        counts: what the stream costs is ``GaussianCost(sigma=sigma, …)``, all of it at the
        first update. The noise in the sums is `deviations`.
    updates : int
        How many updates there will be at the most, a public number.
    alpha : float
        Prior pseudo-count of every cell, > 0; a public choice that costs nothing.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`. A neighbour changes one batch
        only.
    table : str, optional
        The relation's table that is counted; by default its first.
    factorisation : str or LocalNoise
        How the noise is correlated, by a name of `privrl.samplers.factorisations.factorise`; with
        `LocalNoise` each user adds noise, and one user's data cost as much. All but ``"buffered"``,
        which ``"auto"`` takes from 1,001 updates on, keep the noise of every update, a table each.
    loops : array of bool, shape of the counts' last axes, optional
        In which cells a state follows itself, all of them: a public fact. With it the table that
        is paid for is the relation's `privrl.costs.DAMPED`, or of ``"rewards"``
        `privrl.costs.DAMPED_REWARDS`: these cells get √2 times the noise, and all others need less.
        `privrl.agents.setup.self_loops` and `privrl.agents.rewards.reward_loops` make it. (Agents
        check that it is right. Elsewhere the guarantee rests on it, and what no table could have is
        refused: of transitions two such cells in one row, or one behind the place of its own state;
        of rewards all but the second half of a row.)
    threshold : float
        As for `NoisyPosterior`, >= 0; a public choice that costs nothing. Most cells of a
        transition table are never visited, and their noise, if it is kept, spreads every row
        over states that do not follow. 1.5 is a compromise: sparse tables like more, tables
        whose every cell fills like 0.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown, or ``sigma`` above 2^29 over the largest of
        `deviations` there would be for 1: noise is drawn on the grid of counts.

    Notes
    -----
    Noise is discrete, on a grid, and the guarantee includes rounding: rounding can move neighbours
    farther apart by `Factorisation.rounding` times the root of the number of cells, and the noise
    is larger by that amount, a part in a million or so. See docs/finite-precision.md. Noise of
    which rounding would take a sixteenth is refused.

    The batches may depend on earlier releases, as an agent's do. Their counts are whole, or other
    multiples of `privrl.samplers.base.GRID`, so that all sums are exact; that a record changes them
    by no more than the relation says is for whoever made them fractional to show, as
    `privrl.agents.NoisyRewards` does.
    """

    remembered = ("_total", "_grain", "_noise")
    settings = ("sigma", "alpha")

    def __init__(
        self,
        *,
        sigma: float,
        updates: int,
        alpha: float = 1.0,
        relation: Relation | None = None,
        table: str | None = None,
        factorisation: FactorisationName | LocalNoise = "auto",
        loops: ArrayLike | None = None,
        threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        relation = check_relation(relation, ReplaceStep())
        cost = GaussianCost(sigma=sigma, relation=relation, table=_table_paid_for(table, loops))
        self._cost = cost
        self._sigma = frozen(np.asarray(cost.sigma))
        self._alpha = frozen(np.asarray(check_positive("alpha", alpha)))
        self._norm = math.sqrt(largest_square(cost.changes))
        self._factors = factorise(factorisation, updates)
        largest = LARGEST_DEVIATION / self._factors.column_norm / max(self._factors.fresh.max(), 1)
        if not cost.sigma <= largest:
            raise ValueError(
                f"sigma must be at most {largest:.3g} for these updates, got {shown(cost.sigma)}: "
                "noise is drawn on the grid of counts; take a larger budget."
            )
        self._factorisation = factorisation
        self._loops = None if loops is None else _check_loops(loops, cost.table)
        self._threshold = _check_threshold(threshold)
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._total: FloatArray | None = None
        self._grain: FloatArray | None = None
        self._noise: Mixed | Buffers | None = None

    def begin_again(self) -> None:
        """Make the noise of the stream, which a checkpoint then puts back."""
        assert self._total is not None
        self._begin(self._total.shape)

    def _goes_with(self, other: PaidSampler) -> bool:
        return (
            isinstance(other, NoisyCounts)
            and other._factorisation == self._factorisation
            and other.updates == self.updates
            and other._threshold == self._threshold
            and tables_released(other._cost) == tables_released(self._cost)
            and (other._loops is None) == (self._loops is None)
            and np.array_equal(other._loops, self._loops)  # type: ignore[arg-type] # both or none
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(sigma={self.sigma}, alpha={self.alpha}, updates={self.updates})"
        )

    @property
    def sigma(self) -> FloatArray:
        """Standard deviation that the stream costs, one number or one for each run."""
        return self._sigma

    @property
    def loops(self) -> NDArray[np.bool_] | None:
        """In which cells a state follows itself, if they are damped; read-only."""
        return self._loops

    @property
    def factorisation(self) -> FactorisationName | LocalNoise:
        """How the noise is correlated."""
        return self._factorisation

    @property
    def updates(self) -> int:
        """How many updates there can be."""
        return self._factors.updates

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise in the sum of each update, shape (..., updates).

        In self-loops that are damped it is √2 times as much.
        """
        return self._sigma[..., None] * self._factors.deviations

    def check(self, counts: FloatArray) -> None:
        """Check a batch of counts, shape (..., K).

        Raises
        ------
        ValueError
            As `privrl.samplers.base.check_batch` does, if all planned updates have been made, and
            if a batch has counts but no planned users.
        """
        self.check_usable()
        self._check_left("updates", self.updates)
        before, past = (None, ()) if self._total is None else (self._total.shape, (self._total,))
        if (
            self._loops is not None
            and counts.shape[counts.ndim - self._loops.ndim :] != self._loops.shape
        ):
            raise ValueError(
                f"counts must end with the axes of loops, {self._loops.shape}, got {counts.shape}."
            )
        check_batch(counts, self._sigma.shape, before, past)
        if before is None and not (self._rounded(counts.shape) <= _MOST_ROUNDED).all():
            raise ValueError(
                f"sigma must be smaller for so many updates and cells, got {shown(self)} for shape "
                f"{counts.shape}: what rounding adds to the distance of neighbours would be "
                "noticeable; take a larger budget or fewer updates."
            )
        local = self._factorisation if isinstance(self._factorisation, LocalNoise) else None
        if local is not None and local.users[self._done] == 0 and counts.any():
            raise ValueError(
                "counts must be 0 in a batch of no users; plan users as their data come."
            )

    def update(self, counts: FloatArray, rng: np.random.Generator) -> NoisyPosterior:
        """Add a batch of counts, shape (..., K), to the sums; see `Sampler.update`."""
        self.check(counts)
        check_rng(rng)
        # Until all is done. What follows changes noise and sums in place: half of it, done again,
        # would be two releases with less noise between them than is paid for.
        self._invalid = True
        if self._total is None or self._noise is None:
            self._total = np.zeros(counts.shape)
            self._begin(counts.shape)
        assert self._noise is not None
        assert self._grain is not None
        self._total += counts
        released = self._noise.next(rng)
        # Both terms are exact, so their sum is rounded as the exact sum is: post-processing.
        released *= self._grain
        released += self._total
        deviation = lead(self._sigma * self._factors.deviations[self._done], counts.ndim)
        if self._loops is not None:
            deviation = np.where(self._loops, deviation * math.sqrt(2), deviation)
        posterior = NoisyPosterior(
            released, deviation, lead(self._alpha, counts.ndim), self._threshold
        )
        self._done += 1
        self._invalid = False
        return posterior

    def _begin(self, shape: tuple[int, ...]) -> None:
        # Louder noise in place of damped counts: sums of counts stay exact.
        fresh = Innovations(
            self._sigma * self._factors.column_norm / (1 - self._rounded(shape)),
            float(self._factors.fresh.max()),
            shape,
            self._loops,
        )
        self._noise, self._grain = self._factors.noise(fresh), lead(fresh.grain, len(shape))

    def _rounded(self, shape: tuple[int, ...]) -> FloatArray:
        """Return which part of the distance of neighbours is left to what rounding adds to it."""
        if not self._norm:
            return np.zeros_like(self._sigma)
        cells = math.prod(shape[self._sigma.ndim :])
        return self._factors.rounding * math.sqrt(cells) / self._norm * self._sigma

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 1.0,
        relation: Relation | None = None,
        table: str | None = None,
        factorisation: FactorisationName | LocalNoise = "auto",
        loops: ArrayLike | None = None,
        threshold: float = DEFAULT_THRESHOLD,
    ) -> Self:
        """Return the sampler whose ``draws`` updates together just meet ``target``.

        The target is what the whole stream may spend; with `LocalNoise`, what every user may. A
        ValueError is raised if it cannot be met. ``draws`` is the class's ``updates``, and the
        other arguments are those of the class.
        """
        relation = check_relation(relation, ReplaceStep())
        sigma = calibrated_sigma(target, relation, _table_paid_for(table, loops))
        return cls(
            sigma=sigma,
            updates=draws,
            alpha=alpha,
            relation=relation,
            table=table,
            factorisation=factorisation,
            loops=loops,
            threshold=threshold,
        )


class NonPrivate:
    """Exact running counts, for comparison: without any guarantee, so every budget refuses it.

    Parameters
    ----------
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        That of the accountant in use.
    """

    remembered = ("_total",)

    def __init__(self, *, alpha: float = 1.0, relation: Relation | None = None) -> None:
        self._alpha = check_positive("alpha", alpha)
        self._relation = check_relation(relation, ReplaceStep())
        self._total: FloatArray | None = None

    def __repr__(self) -> str:
        return f"NonPrivate(alpha={self._alpha})"

    @property
    def alpha(self) -> float:
        """Prior pseudo-count of every cell."""
        return self._alpha

    @property
    def cost(self) -> NoPrivacy:
        """No guarantee."""
        return NoPrivacy(self._relation)

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""
        return type(self)(alpha=self._alpha, relation=self._relation)

    def invalidate(self) -> None:
        """Do nothing: it has no guarantee."""

    def check(self, counts: FloatArray) -> None:
        """Check a batch of counts, shape (..., K); see `privrl.samplers.base.check_batch`."""
        if self._total is None:
            check_batch(counts, (), None)
        else:
            check_batch(counts, (), self._total.shape, (self._total,))

    def update(self, counts: FloatArray, rng: np.random.Generator) -> NoisyPosterior:
        """Add a batch of counts, shape (..., K), and return the posterior."""
        del rng
        self.check(counts)
        self._total = counts.copy() if self._total is None else self._total + counts
        ones = np.ones((1,) * counts.ndim)
        return NoisyPosterior(self._total, 0 * ones, self._alpha * ones)


def _table_paid_for(table: str | None, loops: ArrayLike | None) -> str | None:
    """Return the relation's table whose changes the noise has to hide."""
    if loops is None:
        if table in (DAMPED, DAMPED_REWARDS):
            raise ValueError(
                f"table {shown(table)} needs loops, the cells that are damped; "
                "privrl.agents.setup.self_loops and privrl.agents.rewards.reward_loops make them. "
                "Without, all counts are as they are."
            )
        return table
    if table in (None, "transitions", DAMPED):
        return DAMPED
    if table in ("rewards", DAMPED_REWARDS):
        return DAMPED_REWARDS
    raise ValueError(
        f"loops are for the tables 'transitions' and 'rewards', got {shown(table)}; leave them out."
    )


def _check_loops(loops: ArrayLike, table: str | None) -> NDArray[np.bool_]:
    """Return a read-only copy, if there could be a table with these loops.

    Of a row's transitions, in the order of their states, at most one is about the state of the row,
    and its place is at most the number of earlier states. Of a row's rewards the second half is.
    """
    mask = plain_array("loops", loops).copy()
    if mask.dtype != np.bool_ or mask.ndim < 1:
        raise ValueError(f"loops must be an array of bool, got {mask.dtype} of shape {mask.shape}.")
    mask.flags.writeable = False
    if table == DAMPED_REWARDS:
        if not np.array_equal(mask, np.repeat([False, True], mask.size // 2)):
            raise ValueError(
                "loops of rewards must be the second half of a row, got a mask of shape "
                f"{mask.shape} that is not; privrl.agents.rewards.reward_loops makes them."
            )
        return mask
    own = np.arange(len(mask)).reshape(-1, *[1] * (mask.ndim - 2)) if mask.ndim > 1 else 0
    if (mask.sum(axis=-1) > 1).any() or (mask.ndim > 1 and (mask.argmax(axis=-1) > own).any()):
        raise ValueError(
            "loops must have at most one cell in each row, that in which a state follows itself; "
            "privrl.agents.setup.self_loops makes them."
        )
    return mask


def _check_threshold(threshold: float) -> float:
    value = check_finite("threshold", threshold, "1.5 is usual")
    if value < 0:
        raise ValueError(f"threshold must be >= 0, got {shown(threshold)}; 1.5 is usual.")
    return value


_MOST_ROUNDED = 1 / 16
_NOTHING_TO_HIDE = 1e-6  # standard deviation for a table that no neighbour changes


def calibrated_sigma(target: Target, relation: Relation, table: str | None) -> float:
    """Return the sigma of Gaussian noise on a table that just meets a target."""
    if not relation.changes(table):
        return _NOTHING_TO_HIDE
    return calibrate(
        target, lambda sigma: GaussianCost(sigma=sigma, relation=relation, table=table), rises=False
    )
