"""Fit a model of continuous states to a log, from a few adaptive releases of moments."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privrl.accounting.base import Accountant
from privrl.accounting.targets import ApproxDP, RenyiDP, Target, target_of
from privrl.continuous.design import DESIGN, ENDS, Design
from privrl.continuous.encoding import (
    bins_of,
    encoder,
    gram_span,
    numbers_of,
    target_kinds,
    target_units,
    targets,
)
from privrl.continuous.ends import most_cells, release_ends, release_visits
from privrl.continuous.features import Basis
from privrl.continuous.log import ContinuousLog
from privrl.continuous.model import ContinuousModel, Starts
from privrl.continuous.moments import MomentsMechanism, MomentStream, Rows, most_columns
from privrl.continuous.partitions import AnyLog, PartitionedContinuousLog
from privrl.continuous.posterior import (
    Round,
    Weights,
    learn,
    likeliest,
    nearest_gram,
    positive_part,
)
from privrl.continuous.schema import ContinuousSchema, Number
from privrl.costs.relations import AddRemovePerson, Relation, ReplacePerson, of_unit
from privrl.envs.released import privacy_statement, unit_in_words
from privrl.files.chosen import paid_by
from privrl.numerics.checks import check_is
from privrl.numerics.products import row_by_row
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import FloatArray

_REWARD_BINS: Final = 16
_REWARD_CELLS: Final = _REWARD_BINS + 3
_SURE: Final = 3.5  # deviations of noise above which some reward occurs
_MOST_WORK: Final = 10**9  # the cube of features for each target, a minute or two


def fit_continuous_model(
    log: AnyLog,
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    target: Target | None = None,
    relation: Relation | None = None,
    order: int | None = None,
    rng: Rng = None,
    accountant: Accountant | None = None,
    private: bool = True,
    design: Design = DESIGN,
) -> ContinuousModel:
    """Return a private model of a log's dynamics, rewards and ends.

    Parameters
    ----------
    log : ContinuousLog, or as `read_continuous_log` returns
        The private data.
    epsilon, delta : float
        The budget, (epsilon, delta)-differential privacy.
    target : ApproxDP, RenyiDP or ZeroConcentratedDP, optional
        The budget instead.
    relation : Relation, optional
        `AddRemovePerson`, by default, `ReplacePerson` or `ReplaceLoggedStep`.
    order : int, optional
        Of the features, see `Basis`. By default it follows from the noise and the released number
        of persons.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged once, before anything is drawn.
    private : bool
        False for a fit without noise, to compare with; such a model cannot be saved.
    design : Design
        How the budget is divided, and other public choices.

    Returns
    -------
    ContinuousModel

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost; nothing is released then.
    ValueError
        If an argument is out of range.
    """
    check_is("log", log, ContinuousLog, PartitionedContinuousLog)
    rng = as_rng(rng)
    mechanism = statement = None
    if private:
        if (epsilon is None) == (target is None):
            raise ValueError("one of epsilon and target must be given.")
        if target is None:
            assert epsilon is not None
            target = target_of(epsilon, delta)
        relation = of_unit(AddRemovePerson() if relation is None else relation, log.unit)
        mechanism = MomentsMechanism.calibrated(target, relation=relation)
        statement = _statement(mechanism, target, delta, randomness_of(rng), log.unit)
    elif epsilon is not None or target is not None or accountant is not None:
        raise ValueError("private=False takes no epsilon, target or accountant.")
    plan = _Plan(log.schema, design, order, private=private)
    stream = None
    try:
        stream = MomentStream(log, mechanism, rng, accountant)
        with np.errstate(all="ignore"):
            return paid_by(accountant, plan.run(stream, statement))
    except BaseException as error:
        if accountant is not None and stream is not None:
            error.add_note("The accountant was charged for this fit, and nothing was released.")
        elif accountant is not None and not isinstance(error, ValueError | TypeError | OSError):
            error.add_note("The accountant may have been charged; nothing was released.")
        raise


def _statement(
    mechanism: MomentsMechanism, target: Target, delta: float, randomness: str | None, unit: str
) -> dict[str, Any]:
    if isinstance(target, ApproxDP):
        budget: dict[str, Any] = {"epsilon": target.epsilon, "delta": target.delta}
    elif isinstance(target, RenyiDP):
        budget = {"epsilon": target.epsilon, "order": target.order}
    else:
        budget = {"epsilon": float(mechanism.cost.epsilon(delta)), "delta": delta}
    by_person = isinstance(mechanism.relation, AddRemovePerson | ReplacePerson)
    return privacy_statement(
        unit=unit_in_words(unit) if by_person else "a step of a log",
        relation=str(mechanism.relation),
        released="moments of features and changes of state, with discrete Gaussian noise",
        randomness=randomness,
        **budget,
    )


@dataclass(eq=False)
class _Plan:
    """One fit. It sees public facts and what a stream releases."""

    schema: ContinuousSchema
    design: Design
    order: int | None
    private: bool

    def __post_init__(self) -> None:
        check_is("design", self.design, Design)
        # Whatever is wrong raises before anything is spent.
        design, m = self.design, len(self._units)
        rest = self._rest(design.ends)
        features = len(self._basis(design.orders[-1] if self.order is None else self.order))
        if self.order is None:
            features = max(features, design.most)
        sizes = [
            (1 + m, design.scales),
            (len(encoder(self.schema)), design.starts),
            (ENDS.bins * len(numbers_of(self.schema)), design.core),
            (_REWARD_CELLS, design.rewards),
            (features + m, rest * min(design.rounds)),
        ]
        if self.schema.terminates:
            sizes.append((most_cells(self.schema), design.ends / 2))
        if features**3 * m > _MOST_WORK:  # of posteriors: minutes, and gigabytes soon after
            raise ValueError(
                f"schema must have fewer columns, or order be lower: {features} features for {m} "
                "numbers to predict take too long to fit."
            )
        for size, share in sizes:
            if size > most_columns(share):
                raise ValueError(
                    f"schema must have fewer columns, or order be lower: {size} numbers a row are "
                    f"more than the {most_columns(share)} that can be released."
                )

    def _rest(self, ends: float) -> float:
        """Return the part of the budget for the rounds."""
        design = self.design
        rewards = design.rewards * (self.schema.reward is not None)
        return 1 - design.scales - design.starts - design.core - rewards - ends

    def run(self, stream: MomentStream, statement: dict[str, Any] | None) -> ContinuousModel:
        design, schema = self.design, self.schema
        reward = None if schema.reward is None else self._release_reward(stream, schema.reward)
        scale, count = self._release_scales(stream, reward)
        start = self._release_starts(stream)
        visits, core = release_visits(stream, schema, design.core)
        ends = None
        if schema.terminates:
            ends = release_ends(stream, schema, visits, design.ends)
        rest = stream.left
        rounds = design.rounds if self.private else (1.0,)
        noise = stream.noise / math.sqrt(rest * rounds[0])
        basis = self._basis(self.order or self._choose_order(noise / count))
        mean = np.zeros((len(basis), len(scale)))
        if reward is not None:
            mean[0, -1] = reward * math.sqrt(len(basis))
        weights, residual = self._learn(
            stream, basis, mean, scale, [rest * part for part in rounds]
        )
        return ContinuousModel(
            schema=schema,
            basis=basis,
            mean=weights.mean,
            covariance=weights.covariance,
            residual=residual,
            start=start,
            core=core,
            ends=ends,
            persons=count,
            statement=statement,
        )

    def _basis(self, order: int) -> Basis:
        return Basis(self.schema, order, order)

    def _choose_order(self, noise: float) -> int:
        """Return the largest order whose Gram matrix is not lost in noise."""
        for order in self.design.orders:
            try:
                size = len(self._basis(order))
            except ValueError:  # of too many features
                continue
            if size <= self.design.most and size * noise <= self.design.noise:
                return order
        return self.design.orders[-1]

    @property
    def _units(self) -> FloatArray:
        """The public size of each target: the widths of ranges, 1 for a category."""
        return target_units(self.schema)

    def _release_reward(self, stream: MomentStream, column: Number) -> float:
        """Return the mean reward of steps that continue, from a histogram.

        Exactly the lowest, the highest or 0, if the noise does not tell that others occur.
        """
        special = np.array([column.low, column.high, 0.0])
        centres = column.low + column.width * (np.arange(_REWARD_BINS) + 0.5) / _REWARD_BINS
        values = np.concatenate([special, centres])

        def rows(part: ContinuousLog) -> FloatArray:
            assert part.reward is not None
            found = np.zeros((len(part.reward), len(values)))
            place = len(special) + bins_of(column, part.reward, _REWARD_BINS)
            for k, value in enumerate(special):
                place = np.where(part.reward == value, k, place)
            found[np.arange(len(found)), place] = 1
            return found * _going(part)

        counts, noise = stream.count(rows, len(values), self.design.rewards)
        likely = int(np.argmax(counts))
        others = np.delete(counts, likely)
        if likely < len(special) and counts[likely] > _SURE * noise >= others.max():
            return float(values[likely])
        counts = np.where(counts > noise, counts, 0.0)
        total = max(float(counts.sum()), 1e-300)
        return float(column.inside(np.array([counts @ values / total]))[0])

    def _release_scales(
        self, stream: MomentStream, reward: float | None
    ) -> tuple[FloatArray, float]:
        """Return how large each target typically is, and the number of persons."""
        units = self._units
        roots = np.full(len(units), self.design.root)
        before = np.zeros(len(units))
        if reward is not None:
            before[-1], roots[-1] = reward, 2.0  # rewards may be rare and large

        def rows(part: ContinuousLog) -> FloatArray:
            sizes = np.abs(targets(part) - before) / units
            every = np.ones((len(sizes), 1))
            return np.concatenate([every, sizes ** (2 / roots)], axis=1) * _going(part)

        sums, noise = stream.count(rows, 1 + len(units), self.design.scales)
        sums = np.maximum(sums, max(noise, 1e-300))
        share = sums[1:] / sums[0]
        scale = np.where(target_kinds(self.schema), 2 * np.clip(share, 0, 1) ** (roots / 2), 0.5)
        # A contribution has norm 1: this is the number of persons if all are alike.
        count = max(float(sums[0]) * math.sqrt(1 + float(np.sum(share**2))), 1.0)
        return np.clip(scale, 1e-6, 1) * units, count

    def _release_starts(self, stream: MomentStream) -> Starts:
        """Return where persons' first episodes start: means and deviations of encoded columns."""
        encode = encoder(self.schema)
        size = 1 + encode(np.zeros((1, self.schema.n_state))).shape[1]

        def rows(part: ContinuousLog) -> FloatArray:
            found = np.zeros((len(part.state), size))
            first = part.offsets[:-1][np.diff(part.offsets) > 0]
            found[first, 0] = 1
            found[first, 1:] = encode(part.state[first])
            return found

        moments, noise = stream.update(rows, size, self.design.starts)
        total = max(float(moments[0, 0]), noise, 1e-300)
        mean = np.clip(moments[0, 1:] / total, -1, 1)
        spread = np.clip(np.diag(moments)[1:] / total - mean**2, 0, 1)
        return Starts(mean, np.sqrt(spread))

    def _learn(
        self,
        stream: MomentStream,
        basis: Basis,
        guess: FloatArray,
        scale: FloatArray,
        shares: list[float],
    ) -> tuple[Weights, FloatArray]:
        """Return the posterior of the weights, and the residual's deviation for each target."""
        design, d, m = self.design, len(basis), len(scale)
        transform = np.diag(design.decay ** basis.degrees.astype(np.float64))
        scale = scale * math.sqrt(m) / design.targets
        weights = None
        shapes = [steep ** basis.degrees.astype(np.float64) for steep in design.steeper]
        factors = np.exp2(np.arange(-5.0, 6))
        residual = scale
        span = gram_span(basis) if self.private else None
        for share in shares:
            before = guess if weights is None else weights.mean
            rows = _rows(basis, transform, before, scale)
            seen = Round(transform, scale, *stream.update(rows, d + m, share))
            gram = seen.gram
            if self.private:
                gram = nearest_gram(gram, span, transform)
            if weights is None:
                weights = Weights(before, self._prior(seen, gram))
            weights = likeliest(weights, seen, gram, shapes, factors, spread=design.spread)
            shapes, factors = [np.ones(d)], np.exp2(np.arange(-1.0, 4))
            found = learn(weights, seen, gram, power=design.power, norm=design.targets)
            weights, residual = found.weights, found.residual
            transform, scale = found.transform, found.scale
        assert weights is not None
        return weights, residual

    def _prior(self, seen: Round, gram: FloatArray) -> FloatArray:
        """Return prior covariances, shape (m, d, d): weak directions may have larger weights.

        Between independent weights and those of a g-prior (Zellner, 1986), for the released Gram
        matrix; on average targets are as large as they were found to be.
        """
        values, vectors = np.linalg.eigh(gram)
        least = max(seen.noise * math.sqrt(len(gram)), 1e-6 * values[-1], 1e-6)
        values = np.maximum(values, least)
        spread = (vectors * values**-self.design.weak) @ vectors.T
        solid = float(np.trace(spread @ positive_part(gram)))
        spread *= values.sum() / max(solid, 1e-3 * float(np.trace(spread)) * values[0])
        mapped = seen.transform.T @ spread @ seen.transform
        return np.stack([s**2 * mapped for s in seen.scale])


def _going(part: ContinuousLog) -> FloatArray:
    """Return 1 for steps that continue, shape (N, 1).

    Terminating steps lead nowhere, and their next states are often clipped: models leave them out.
    """
    if part.terminated is None:
        return np.ones((len(part.state), 1))
    return (~part.terminated[:, None]).astype(np.float64)


def _rows(basis: Basis, transform: FloatArray, mean: FloatArray, scale: FloatArray) -> Rows:
    both = np.concatenate([transform.T, mean], axis=1)

    def rows(part: ContinuousLog) -> FloatArray:
        found = row_by_row(basis(part.state, part.action), both)
        found[:, len(basis) :] = (targets(part) - found[:, len(basis) :]) / scale
        return found * _going(part)

    return rows
