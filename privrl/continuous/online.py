"""Learn a model of continuous states while acting, from noisy moments of one batch after another.

Each batch is one round of `privrl.continuous.posterior`. What a step contributes follows from the
posterior of the batches before: features are whitened, and targets are residuals, which shrink as
the model improves; so does the noise. The first batch tells how large changes are.

A step contributes to a matrix and to counts, of norm 1 at most together. If the episode continues,
it is ``z z^T`` of its features and targets, and a count for each column: the bin of the next state.
If the episode terminates, all of the contribution is counts: the bins, and the reward. Such steps
are rare, and the noise is the same for all.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from privrl.continuous.design import ONLINE
from privrl.continuous.encoding import (
    bins_of,
    gram_span,
    numbers_of,
    target_units,
    targets,
)
from privrl.continuous.features import Basis
from privrl.continuous.log import ContinuousLog
from privrl.continuous.moments import GRAINS, by_person, by_row, counts_by_person, counts_by_row
from privrl.continuous.planning import Predicted, worth_on_grid
from privrl.continuous.posterior import Round, Weights, learn, nearest_gram
from privrl.continuous.schema import ContinuousSchema
from privrl.numerics.products import row_by_row
from privrl.numerics.typing import BoolArray, FloatArray, IntArray


def order_for(schema: ContinuousSchema, noise: float, contributions: float) -> int:
    """Return the largest order of features that the noise allows, from public facts alone.

    Raises
    ------
    ValueError
        If there are too many columns for any.
    """
    for order in ONLINE.orders:
        size = len(Basis(schema, order, order))
        if size <= ONLINE.most and size * noise <= ONLINE.noise * contributions / ONLINE.used:
            return order
    if len(Basis(schema, ONLINE.orders[-1], ONLINE.orders[-1])) > ONLINE.most:
        raise ValueError(
            f"env must have at most {ONLINE.most} features, got more from {schema.n_state} "
            "coordinates; pass bins, which may ignore some."
        )
    return ONLINE.orders[-1]


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known of dynamics, rewards and ends: public, as it follows from releases.

    Attributes
    ----------
    basis : Basis
    weights : Weights
        The posterior of each target: changes of columns, then the reward.
    transform, scale : array, shapes (d, d) and (m,)
        The map of features and the scales of targets, for the next batch.
    counts : array, shape (n_state, 2, bins)
        Steps that went on, and steps that terminated, by the bin they led to; with noise.
    end_rewards : array, shape (2,)
        Of steps that terminated: sums of rewards above the lowest and below the highest, as parts
        of the range.
    noise : float
        Deviation of the noise in ``counts``, before the weights of visits.
    seen : float
        About how many contributions the rounds were made of.
    batches : int
    span : array, shape (k, d, d), or None
        See `gram_span`; None if there are too many features.
    """

    basis: Basis
    weights: Weights
    transform: FloatArray
    scale: FloatArray
    counts: FloatArray
    end_rewards: FloatArray
    noise: float
    seen: float
    batches: int
    span: FloatArray | None

    @classmethod
    def of(cls, schema: ContinuousSchema, order: int) -> "Belief":
        """Return what is known before there are data: nothing."""
        basis, units = Basis(schema, order, order), target_units(schema)
        d, n = len(basis), schema.n_state
        return cls(
            basis=basis,
            weights=Weights(np.zeros((d, len(units))), np.zeros((len(units), d, d))),
            transform=np.diag(ONLINE.map ** basis.degrees.astype(np.float64)),
            scale=units,
            counts=np.zeros((n, 2, ONLINE.bins)),
            end_rewards=np.zeros(2),
            noise=0.0,
            seen=0.0,
            batches=0,
            span=gram_span(basis),
        )

    @property
    def schema(self) -> ContinuousSchema:
        """The public ranges."""
        return self.basis.schema

    @property
    def columns(self) -> int:
        """How many columns rows ``z`` have."""
        return len(self.basis) + len(self.scale)

    @property
    def cells(self) -> int:
        """The number of counts."""
        return self.counts.size + 2

    def contributions(self, steps: ContinuousLog, *, by_episode: bool) -> FloatArray:
        """Return the sum of contributions: the upper triangle, and the counts.

        Parameters
        ----------
        steps : ContinuousLog
            A batch; its "persons" are episodes.
        by_episode : bool
            Whether an episode contributes once, and not each step.
        """
        z, cells, over = self._rows(steps), self._cells(steps), steps.terminated
        assert over is not None
        n = self.columns
        matrix, counts = np.zeros((n, n)), np.zeros(self.cells)
        if by_episode:
            loud = np.where(over, ONLINE.loud, 1.0)[:, None]
            matrix += by_person(z, math.sqrt(1 - ONLINE.visits), steps.offsets)
            counts += counts_by_person(cells * loud, math.sqrt(ONLINE.visits), steps.offsets)
        else:
            matrix += by_row(z[~over], math.sqrt(1 - ONLINE.visits))
            counts += counts_by_row(cells[~over], math.sqrt(ONLINE.visits))
            counts += counts_by_row(cells[over], 1.0)
        return np.concatenate([matrix[np.triu_indices(n)], counts]) / GRAINS

    def _rows(self, steps: ContinuousLog) -> FloatArray:
        changes = targets(steps)
        if not self.batches:  # how large changes are
            rows = np.zeros((len(changes), self.columns))
            rows[:, 0] = 1
            rows[:, 1 : 1 + len(self.scale)] = (np.abs(changes) / self.scale) ** (1 / ONLINE.root)
            return rows
        features = self.basis(steps.state, steps.action)
        rest = (changes - row_by_row(features, self.weights.mean)) / self.scale
        return np.concatenate([row_by_row(features, self.transform.T), rest], axis=1)

    def _cells(self, steps: ContinuousLog) -> FloatArray:
        """Return each step's counts: a bin of each column, and the reward of a last step."""
        over, every = steps.terminated, np.arange(len(steps.state))
        assert over is not None
        found = np.zeros((len(every), *self.counts.shape))
        for k, place in enumerate(_bins(self.schema, steps.next_state)):
            found[every, k, over.astype(np.intp), place] = 1
        ends = np.zeros((len(every), 2))
        reward = self.schema.reward
        assert reward is not None
        assert steps.reward is not None
        part = (steps.reward - reward.low) / reward.width
        ends[over] = np.stack([part, 1 - part], axis=1)[over]
        return np.concatenate([found.reshape(len(every), self.counts.size), ends], axis=1)

    def after(
        self, matrix: FloatArray, counts: FloatArray, noise: float, *, by_episode: bool
    ) -> "Belief":
        """Return what is known after a batch, of which noisy sums were released."""
        n = self.schema.n_state
        visits, ends = counts[:-2].reshape(self.counts.shape), counts[-2:]
        # In steps: a step has a count in each column, so that all of them have norm 1.
        weights = np.array([math.sqrt(n / ONLINE.visits), math.sqrt(n + 1)])
        if by_episode:
            weights[1] = weights[0] / ONLINE.loud
        more = replace(
            self,
            counts=self.counts + visits * weights[:, None],
            end_rewards=self.end_rewards + ends,
            noise=math.hypot(self.noise, noise),
            batches=self.batches + 1,
        )
        matrix, noise = matrix / math.sqrt(1 - ONLINE.visits), noise / math.sqrt(1 - ONLINE.visits)
        if not self.batches:
            return more._after_sizes(matrix, noise)
        more = replace(more, seen=self.seen + max(float(np.trace(matrix)), 0.0))
        try:
            with np.errstate(all="ignore"):
                return more._after_round(Round(self.transform, self.scale, matrix, noise))
        except np.linalg.LinAlgError:  # noise has made numbers that floats do not hold
            return more

    def _after_sizes(self, matrix: FloatArray, noise: float) -> "Belief":
        d, m = self.weights.mean.shape
        sums = np.maximum(np.diag(matrix), max(noise, 1e-300))
        size = 2 * np.clip(sums[1 : 1 + m] / sums[0], 0, 1) ** (ONLINE.root / 2)
        scale = np.clip(size, 1e-6, 1) * self.scale * math.sqrt(m) / ONLINE.targets
        decay = ONLINE.decay ** self.basis.degrees.astype(np.float64)
        deviations = ONLINE.prior * math.sqrt(d) * scale[:, None] * decay
        prior = np.stack([np.diag(each**2) for each in deviations])
        return replace(self, weights=Weights(self.weights.mean, prior), scale=scale)

    def _after_round(self, seen: Round) -> "Belief":
        gram = nearest_gram(seen.gram, self.span, self.transform)
        found = learn(self.weights, seen, gram, power=ONLINE.white, norm=ONLINE.targets)
        return replace(self, weights=found.weights, scale=found.scale, transform=found.transform)

    @property
    def is_solid(self) -> bool:
        """Whether the noise leaves enough of the model to act on its plan."""
        return self.seen >= ONLINE.solid * self.noise * len(self.basis)

    @property
    def far_is_good(self) -> bool:
        """Whether to terminate is the best there is: no reward is above 0."""
        reward = self.schema.reward
        return reward is not None and reward.high <= 0

    @property
    def _ends(self) -> tuple[BoolArray, BoolArray]:
        """In which bins episodes terminate, and in which it is unknown, shape (n_state, bins)."""
        n = self.schema.n_state
        visits, over = self.counts[:, 0], self.counts[:, 1]
        seen = visits > ONLINE.sure * self.noise * math.sqrt(n / ONLINE.visits)
        ends = over > ONLINE.sure * self.noise * math.sqrt(n + 1)
        ends &= over >= np.maximum(visits, 0)
        return ends, ~seen & ~ends

    def worth(self, *, discount: float, horizon: int) -> FloatArray:
        """Return what each action is worth in each point of a grid, for the posterior mean.

        If no reward is above 0, an episode may terminate in bins where that is unknown: to
        terminate is the best there is, so the plan goes there and finds out.
        """
        schema = self.schema
        assert schema.reward is not None
        low, width = schema.reward.low, schema.reward.width
        total = float(self.end_rewards.sum())
        known = total > ONLINE.sure * self.noise * 2
        part = float(np.clip(self.end_rewards[0] / max(total, 1e-300), 0, 1))
        ends, unknown = self._ends
        hopeful = ends | unknown if self.far_is_good else ends

        def predict(state: FloatArray, action: FloatArray) -> Predicted:
            features = self.basis(state, np.ascontiguousarray(action))
            found = features @ self.weights.mean
            after = schema.inside(state + found[:, :-1])
            reward = np.clip(found[:, -1], low, low + width)
            place = _bins(schema, after)
            every = np.arange(schema.n_state)[:, None]
            reached = ends[every, place].any(axis=0)
            over = np.asarray(hopeful[every, place].any(axis=0), np.float64)
            if known:
                reward = np.where(reached, low + width * part, reward)
            return Predicted(after, {}, np.zeros(after.shape), reward, over)

        return worth_on_grid(predict, schema, discount=discount, caution=0.0, horizon=horizon)


def _bins(schema: ContinuousSchema, states: FloatArray) -> IntArray:
    """Return the bin of each column, shape (n_state, N)."""
    columns = numbers_of(schema)
    return np.stack([bins_of(column, states[:, i], ONLINE.bins) for i, column in columns])
