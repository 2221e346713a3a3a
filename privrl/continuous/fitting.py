"""Fit a model of continuous states to a log, from a few adaptive releases of moments."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from privrl.accounting.base import Accountant
from privrl.accounting.targets import ApproxDP, RenyiDP, Target, target_of
from privrl.continuous.encoding import (
    encoder,
    end_bins,
    gram_span,
    row_by_row,
    target_kinds,
    target_units,
    targets,
)
from privrl.continuous.features import Basis
from privrl.continuous.log import ContinuousLog
from privrl.continuous.model import ContinuousModel, Starts
from privrl.continuous.moments import MomentsMechanism, MomentStream, Rows, most_columns
from privrl.continuous.partitions import AnyLog, PartitionedContinuousLog
from privrl.continuous.posterior import (
    Round,
    Weights,
    log_evidence,
    nearest_gram,
    positive_part,
    update,
    whitened,
)
from privrl.continuous.schema import Choice, ContinuousSchema, Number
from privrl.costs.relations import AddRemovePerson, Relation, ReplacePerson
from privrl.envs.released import privacy_statement
from privrl.numerics.checks import check_between, check_count, check_is
from privrl.numerics.randomness import Rng, as_rng, randomness_of
from privrl.numerics.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Design:
    """Choices of the fit. They do not depend on data.

    Tuned once on Pendulum, MountainCar and CartPole with 3,000 and 10,000 persons, at epsilon .1,
    .3 and 1, three seeds each; `docs/continuous.md` judges them on other tasks as well.
    """

    scales: float = 0.05
    """Part of the budget for the sizes of changes."""
    starts: float = 0.02
    """Part for where episodes start."""
    ends: float = 0.08
    """Part for where they terminate, if the log has that."""
    rounds: tuple[float, ...] = (0.27, 0.32, 0.41)
    """How the rest is divided among the rounds of moments."""
    root: float = 8.0
    """Sizes of changes are averaged as this root, so that all orders of magnitude are seen."""
    decay: float = 0.75
    """Factor of a weight's prior deviation for each degree of its feature."""
    weak: float = 0.25
    """Power of a direction's strength by which the prior variance of its weight falls."""
    steeper: tuple[float, ...] = (1.0, 0.6, 0.35)
    """Further factors for each degree, of which each target takes the likeliest."""
    spread: float = 1.0
    """Prior deviation of the binary logarithm by which a round's prior is rescaled."""
    power: float = 0.25
    """How far features are whitened between rounds: 0.5 would make them equally strong."""
    targets: float = 0.5
    """Norm of a row's targets over that of its features."""
    noise: float = 0.35
    """Largest noise of the Gram matrix, over its size, at which features of an order are used."""
    orders: tuple[int, ...] = (6, 4, 3, 2)
    """Orders of features that are tried."""
    most: int = 160
    """Most features."""
    bins: int = 24
    """Of each numeric column, for where episodes terminate."""

    def __post_init__(self) -> None:
        shares = (self.scales, self.starts, self.ends, *self.rounds)
        for share in shares:
            check_between("each share of the budget", share, 0, 1)
        if sum(shares[:3]) >= 1 or not self.rounds or sum(self.rounds) > 1 + 1e-12:
            raise ValueError(
                "shares of the budget must sum to 1 at most, and rounds have one or more."
            )
        if not self.orders:
            raise ValueError("orders must have one order at least.")
        for order in self.orders:
            check_count("each order", order, 2)
        check_count("bins", self.bins)
        check_count("most", self.most)


DESIGN: Final = Design()
_MOST_SPAN: Final = 60  # features up to which the span is looked for: it takes d^6 operations


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
        mechanism = MomentsMechanism.calibrated(target, relation=relation)
        statement = _statement(mechanism, target, delta, randomness_of(rng), log.schema)
    elif epsilon is not None or target is not None or accountant is not None:
        raise ValueError("private=False takes no epsilon, target or accountant.")
    plan = _Plan(log.schema, design, order, private=private)
    stream = None
    try:
        stream = MomentStream(log, mechanism, rng, accountant)
        with np.errstate(all="ignore"):
            return plan.run(stream, statement)
    except BaseException as error:
        if accountant is not None and stream is not None:
            error.add_note("The accountant was charged for this fit, and nothing was released.")
        elif accountant is not None and not isinstance(error, ValueError | TypeError | OSError):
            error.add_note("The accountant may have been charged; nothing was released.")
        raise


def _statement(
    mechanism: MomentsMechanism,
    target: Target,
    delta: float,
    randomness: str | None,
    schema: ContinuousSchema,
) -> dict[str, Any]:
    if isinstance(target, ApproxDP):
        budget: dict[str, Any] = {"epsilon": target.epsilon, "delta": target.delta}
    elif isinstance(target, RenyiDP):
        budget = {"epsilon": target.epsilon, "order": target.order}
    else:
        budget = {"epsilon": float(mechanism.cost.epsilon(delta)), "delta": delta}
    by_person = isinstance(mechanism.relation, AddRemovePerson | ReplacePerson)
    return privacy_statement(
        unit=f"{schema.person}: all episodes" if by_person else "a step of a log",
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
    columns: list[tuple[str, Number | Choice]] = field(init=False)

    def __post_init__(self) -> None:
        check_is("design", self.design, Design)
        self.columns = list(self.schema.state.items())
        # Whatever is wrong raises before anything is spent.
        design, m = self.design, len(self._units)
        rest = 1 - design.scales - design.starts - design.ends * self.schema.terminates
        features = len(self._basis(design.orders[-1] if self.order is None else self.order))
        if self.order is None:
            features = max(features, design.most)
        sizes = [
            (1 + m, design.scales),
            (len(encoder(self.schema)), design.starts),
            (features + m, rest * min(design.rounds)),
        ]
        if self.schema.terminates:
            sizes.append((2 * design.bins * sum(map(_is_number, self.columns)), design.ends))
        for size, share in sizes:
            if size > most_columns(share):
                raise ValueError(
                    f"schema must have fewer columns, or order be lower: {size} numbers a row are "
                    f"more than the {most_columns(share)} that can be released."
                )

    def run(self, stream: MomentStream, statement: dict[str, Any] | None) -> ContinuousModel:
        design, schema = self.design, self.schema
        rest = 1 - design.scales - design.starts - design.ends * schema.terminates
        rounds = design.rounds if self.private else (1.0,)
        scale, count = self._release_scales(stream)
        start = self._release_starts(stream)
        chances = self._release_ends(stream) if schema.terminates else None
        noise = stream.noise / math.sqrt(rest * rounds[0])
        basis = self._basis(self.order or self._choose_order(noise / count))
        weights, residual = self._learn(stream, basis, scale, [rest * part for part in rounds])
        return ContinuousModel(
            schema=schema,
            basis=basis,
            mean=weights.mean,
            covariance=weights.covariance,
            residual=residual,
            start=start,
            ends=chances,
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

    def _release_scales(self, stream: MomentStream) -> tuple[FloatArray, float]:
        """Return how large each target typically is, and the number of persons."""
        units, root = self._units, self.design.root

        def rows(part: ContinuousLog) -> FloatArray:
            sizes = np.abs(targets(part)) / units
            return np.concatenate([np.ones((len(sizes), 1)), sizes ** (2 / root)], axis=1)

        sums, noise = stream.count(rows, 1 + len(units), self.design.scales)
        sums = np.maximum(sums, max(noise, 1e-300))
        share = sums[1:] / sums[0]
        scale = np.where(target_kinds(self.schema), 2 * np.clip(share, 0, 1) ** (root / 2), 0.5)
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

    def _release_ends(self, stream: MomentStream) -> FloatArray:
        """Return the chance to terminate in each bin of each numeric column, shape (n, bins)."""
        bins, numbers = self.design.bins, [i for i, c in enumerate(self.columns) if _is_number(c)]
        loud = 10.0  # the root of how much more a step counts at which an episode terminates
        size = 2 * bins * len(numbers)
        if not numbers:
            return np.zeros((0, bins))

        def rows(part: ContinuousLog) -> FloatArray:
            assert part.terminated is not None
            found = np.zeros((len(part.state), len(numbers), 2, bins))
            every, over = np.arange(len(part.state)), part.terminated.astype(np.intp)
            for k, i in enumerate(numbers):
                place = end_bins(self.columns[i][1], part.next_state[:, i], bins)
                found[every, k, over, place] = np.where(over, loud**2, 1.0)
            return found.reshape(len(part.state), size)

        counts, noise = stream.count(rows, size, self.design.ends)
        counts = counts.reshape(len(numbers), 2, bins)
        over = np.where(counts[:, 1] > 3 * noise, counts[:, 1], 0.0) / loud**2
        chances: FloatArray = over / np.maximum(over + np.maximum(counts[:, 0], 0), 1e-300)
        # In other bins episodes end by chance: for what another column says.
        return np.where(chances >= 0.5, chances, 0.0)

    def _learn(
        self, stream: MomentStream, basis: Basis, scale: FloatArray, shares: list[float]
    ) -> tuple[Weights, FloatArray]:
        """Return the posterior of the weights, and the residual's deviation for each target."""
        design, d, m = self.design, len(basis), len(scale)
        transform = np.diag(design.decay ** basis.degrees.astype(np.float64))
        scale = scale * math.sqrt(m) / design.targets
        weights = None
        grid = np.exp2(np.arange(-5.0, 6))
        residual = scale
        span = gram_span(basis) if self.private and d <= _MOST_SPAN else None
        for share in shares:
            before = np.zeros((d, m)) if weights is None else weights.mean
            rows = _rows(basis, transform, before, scale)
            seen = Round(transform, scale, *stream.update(rows, d + m, share))
            gram = seen.gram
            if self.private:
                gram = nearest_gram(gram, span, transform)
            steeper: tuple[float, ...] = (1.0,)
            if weights is None:
                weights, steeper = Weights(before, self._prior(seen, gram)), self.design.steeper
            shapes: list[FloatArray] = [
                np.diag(factor ** basis.degrees.astype(np.float64)) for factor in steeper
            ]
            weights = self._rescaled(weights, seen, gram, grid, shapes)
            found, left = update(weights, seen, gram)
            if np.isfinite(found.mean).all() and np.isfinite(found.covariance).all():
                weights = found  # or noise has made numbers that floats do not hold
            plain = seen.plain_gram(positive_part(gram))
            count = max(float(plain[0, 0]) * d, seen.noise, 1e-300)
            unsure = np.array([np.trace(each @ plain) for each in weights.covariance])
            residual = np.sqrt(left / count)
            typical = np.sqrt((left + np.maximum(unsure, 0)) / count)
            least = 0.3 * scale * math.sqrt(seen.noise / count)
            wanted = np.maximum(typical * math.sqrt(m) / design.targets, least)
            scale = np.maximum(np.minimum(wanted, 4 * scale), 1e-12)
            transform = whitened(transform, gram, seen.noise, design.power)
            grid = np.exp2(np.arange(-1.0, 4))
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

    def _rescaled(
        self,
        weights: Weights,
        seen: Round,
        gram: FloatArray,
        grid: FloatArray,
        shapes: list[FloatArray],
    ) -> Weights:
        """Return the prior with the likeliest scale and decay by degree, for each target."""
        inverse = np.linalg.inv(seen.transform)
        covariance = weights.covariance.copy()
        penalty = np.log2(grid) ** 2 / 2 / self.design.spread**2
        for j, s in enumerate(seen.scale):
            best = -np.inf
            for shape in shapes:
                given = shape @ weights.covariance[j] @ shape
                prior = inverse.T @ given @ inverse / s**2
                evidence = [log_evidence(seen, gram, j, prior * factor**2) for factor in grid]
                likely = int(np.argmax(np.array(evidence) - penalty))
                if evidence[likely] - penalty[likely] > best:
                    best = evidence[likely] - penalty[likely]
                    covariance[j] = given * grid[likely] ** 2
        return Weights(weights.mean, covariance)


def _is_number(column: tuple[str, Number | Choice]) -> bool:
    return isinstance(column[1], Number)


def _rows(basis: Basis, transform: FloatArray, mean: FloatArray, scale: FloatArray) -> Rows:
    def rows(part: ContinuousLog) -> FloatArray:
        features = basis(part.state, part.action)
        rest = (targets(part) - row_by_row(features, mean)) / scale
        return np.concatenate([row_by_row(features, transform.T), rest], axis=1)

    return rows
