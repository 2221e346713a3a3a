"""A sparse posterior over transitions and rewards, computed from released tables.

Most cells of a transition table are empty, but after a release all cells hold noise.
`chance_filled` computes the posterior probability that a cell is filled, and models are sampled
from these probabilities. Planning is sparse: its time and memory grow with the number of
transitions that probably exist.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privrl.agents.neighbours import Cells, Neighbours
from privrl.agents.rewards import HatPosterior
from privrl.envs.support import Support
from privrl.numerics.compiled import Compiled
from privrl.numerics.scipy_lazily import sparse
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.noisy_counts import NoisyPosterior
from privrl.samplers.sparse_counts import SparsePosterior

_LOW, _HIGH, _PER_DEVIATION = -6, 12, 8  # bins of noisy counts, in standard deviations
_N_BINS = (_HIGH - _LOW) * _PER_DEVIATION + 2
_LEAST = 0.5  # deviations: the smallest count of a filled cell
_PSEUDO_CELLS = 5.0  # pseudo-cells in each class, filled as often as in the whole table


def chance_filled(
    noisy: FloatArray, classes: NDArray[Any] | None = None, n_classes: int = 1
) -> FloatArray:
    """Return the posterior probability that each cell is filled.

    Parameters
    ----------
    noisy : array, shape (...)
        Released counts, in standard deviations of their noise.
    classes : array of int, shape (...), optional
        Class of each cell, ``0 .. n_classes - 1``. The cells of a class share a prior probability.
        By default all cells are in one class.
    n_classes : int
        Number of classes.

    Returns
    -------
    array, shape (...)
        Probabilities; 0 where the count is not positive.
    """
    # Exact, so that no count just below 0 is in the first bin above it; 0 is in the bin below.
    place = np.ceil(noisy * _PER_DEVIATION) - _LOW * _PER_DEVIATION
    bins = np.clip(place, 0, _N_BINS - 1).astype(np.int32)  # clipped first, to fit int32
    if classes is not None:
        bins += classes.astype(np.int32) * _N_BINS
    seen = np.bincount(bins.ravel(), minlength=n_classes * _N_BINS).reshape(n_classes, _N_BINS)
    spike, slab = _densities()
    slab = slab / np.log(1 + max(float(noisy.max(initial=0)), 4.0))  # up to the largest count
    overall = _weights(seen.sum(axis=0, keepdims=True), spike, slab, 0.5, 0.1)
    some = seen.any(axis=1)  # of many classes, few have cells
    weight = _weights(seen[some], spike, slab, float(overall[0, 0]), _PSEUDO_CELLS)
    chance = weight * slab / (weight * slab + (1 - weight) * spike)
    chance[:, : -_LOW * _PER_DEVIATION + 1] = 0  # no positive counts
    chance[:, -1] = 1
    table = np.empty(seen.shape, np.float32)
    table[some] = chance
    return table.reshape(-1).take(bins)


@lru_cache
def _densities() -> tuple[FloatArray, FloatArray]:
    """Return the density of the spike, and the unnormalised density of the slab, in each bin.

    Amounts have a log-uniform prior, from half a standard deviation up.
    """
    middle = np.linspace(_LOW, _HIGH, _N_BINS - 1) - 0.5 / _PER_DEVIATION
    middle = np.append(middle, _HIGH)
    amount = np.arange(_LEAST, _HIGH + 4, 0.05)
    normal = np.exp(-0.5 * (middle[:, None] - amount) ** 2) / np.sqrt(2 * np.pi)
    spike = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi)
    return spike, (normal / (amount + 1 - _LEAST)).sum(axis=1) * 0.05


def _bisected(
    seen: IntArray,
    spike: FloatArray,
    slab: FloatArray,
    prior: float,
    pseudo: float,
    *,
    least: float,
    most: float,
    steps: int,
) -> FloatArray:
    """Return the maximum-likelihood fraction of filled cells per class, shape (classes, 1).

    The prior is ``pseudo`` additional cells, of which a fraction ``prior`` is filled. The
    likelihood is concave, so that bisection on a logarithmic scale finds the maximum.
    """
    low, high = np.full((len(seen), 1), least), np.full((len(seen), 1), most)
    gap, cells, each = slab - spike, seen.astype(np.float64), np.empty(seen.shape)
    for _ in range(steps):
        weight = np.sqrt(low * high)
        np.multiply(weight, slab, out=each)
        each += (1 - weight) * spike
        np.divide(gap, each, out=each)
        each *= cells
        slope = each.sum(axis=1, keepdims=True)
        rises = slope + pseudo * (prior / weight - (1 - prior) / (1 - weight)) > 0
        low, high = np.where(rises, weight, low), np.where(rises, high, weight)
    return weight


_weights = partial(Compiled(_bisected, "fractions"), least=1e-8, most=0.999, steps=40)


_KEPT: Final = 0.05  # a cell with a lower probability is treated as empty
_KNOWN: Final = 0.9  # an optimistic plan uses cells from this probability on
_LIKELY: Final = 0.5  # the deployed policy uses cells from this probability on
_SURE: Final = 0.99  # and relies on favourable cells only from this one on
_CERTAIN: Final = 99.0  # deviations, for exact counts: filled, or with a minus sign empty
_LUCK: Final = 0.03  # probability that the unknown part of a row leads to the best state
_ANYWAY: Final = 0.5  # fraction of searches without noise that are random beside unknown rows
_SOONER: Final = 1e-4  # discount over a whole episode, so that sooner is better
_PUT_OFF: Final = 0.5  # fraction of the time in which free actions are postponed
_COMPARED: Final = 2**16  # action values compared at a time
_MOST: Final = 40.0  # nats, of a likelihood ratio
_STEP: Final = 0.25  # nats, of its bins
_SPREAD: Final = 0.1  # standard error of a mean of one reward, as a fraction of the reward range


_Matrix = tuple[FloatArray, IntArray, IntArray]  # entries, their columns, and where rows begin


class SparseModel:
    """A posterior over the transitions and rewards of several runs, from one release.

    Parameters
    ----------
    transition : NoisyPosterior or SparsePosterior
        Posterior of a table of shape (R, S, A, K), of runs if sparse also (..., S, A, K).
    reward : HatPosterior
        Posterior of a table of shape (R, S, A, width).
    horizon : int
        Number of steps of an episode.
    support : Support, optional
        Next states of the cells of the transition table. By default cells are states, followed by
        "the episode is over" if K is S + 1.
    bins : sequence of int, optional
        How many bins each coordinate has, if states are bins; without a support.

    Notes
    -----
    Rows are ordered by action, run and state, so that the maximum over actions is an operation on
    whole arrays, and one sparse matrix serves to plan for all runs. Its columns hold the values of
    the states of all runs, of "over", of each run's best state, and of the worst case.
    """

    def __init__(
        self,
        transition: NoisyPosterior | SparsePosterior,
        reward: HatPosterior,
        horizon: int,
        support: Support | None = None,
        bins: Sequence[int] = (),
    ) -> None:
        paid = reward.rows
        assert isinstance(paid, NoisyPosterior)  # the agent has checked it
        runs, n_states, n_actions, _ = paid.counts.shape
        self._shape = n_actions, runs, n_states
        self._horizon, self._grid, self._range = horizon, reward.grid, np.ptp(reward.grid)
        self._exact = isinstance(transition, NoisyPosterior) and not transition.deviation.any()
        near = Neighbours(bins) if bins and not self._exact else None
        self._paid = np.maximum(paid.counts.transpose(2, 0, 1, 3), 0.0)
        cells, chances = [], []
        for run in range(runs):
            if isinstance(transition, SparsePosterior):
                reward_counts = _Noisy.of(paid, run)
                state, action, cell, here, rewarded = _of_cells(transition, run, reward_counts)
            else:
                noisy = _Noisy.of(transition, run), _Noisy.of(paid, run)
                filled, rewarded = _chances(*noisy, support, near)
                state, action, cell = np.nonzero(filled > _KEPT)
                here = filled[state, action, cell], noisy[0].counts[state, action, cell]
            if near is not None:
                own = Cells(state, action, cell, *here)
                state, action, cell, chance, count = near.with_shared(own, n_actions)
                here = chance, count
                mine = self._paid[:, run].transpose(1, 0, 2)
                mine, rewarded = near.with_shared_rewards(mine, rewarded)
                self._paid[:, run] = mine.transpose(1, 0, 2)
            following = cell if support is None else support.next_states[state, action, cell]
            column = np.where(following == n_states, runs * n_states, run * n_states + following)
            row = (action * runs + run) * n_states + state
            cells.append((row, column, *here))
            chances.append(rewarded.transpose(1, 0, 2))
        self._lay_out(*(np.concatenate(parts) for parts in zip(*cells, strict=True)))
        self._chance_paid = np.stack(chances, axis=1)  # (A, R, S, width)
        self._learn()

    @property
    def size(self) -> int:
        """Number of matrix entries of all runs, times steps; the work of one plan."""
        return len(self._columns) * self._horizon

    def _lay_out(
        self, row: IntArray, column: IntArray, chance: FloatArray, count: FloatArray
    ) -> None:
        """Lay out the matrix: the cells of each row, then one entry for its unknown part."""
        n_rows = int(np.prod(self._shape))
        rows = np.concatenate([row, np.arange(n_rows)])
        order = np.argsort(rows, kind="stable")
        self._lengths = np.bincount(rows, minlength=n_rows)
        ends = np.cumsum(self._lengths)
        self._starts = ends - self._lengths
        self._beyond = ends - 1  # the entry for the unknown
        self._columns = np.concatenate([column, np.zeros(n_rows, np.intp)])[order]
        self._is_cell = np.ones(len(rows), np.bool_)
        self._is_cell[self._beyond] = False
        sorted_cells = order[order < len(row)]
        self._chance, self._count = chance[sorted_cells].astype(np.float64), count[sorted_cells]
        self._run_of_cell = (row[sorted_cells] // self._shape[2]) % self._shape[1]

    def _learn(self) -> None:
        """Compute all that is constant between plans."""
        _, runs, n_states = self._shape
        known = self._totals(self._count * (self._chance > _KNOWN))
        self._mean, self._spread, number = self._rewards(self._chance_paid > _KNOWN)
        self._is_paid = number > 0
        upper = self._grid >= self._grid[[0, -1]].mean()
        self.found = (self._chance_paid[..., upper] > _KNOWN).any(axis=(0, 2, 3))
        # Visited states: with a filled row, or reached by a filled cell.
        seen = ((known > 0) | self._is_paid).any(axis=0)
        led_to = np.zeros(runs * n_states + 1, np.bool_)
        led_to[self._columns[self._is_cell][self._chance > _KNOWN]] = True
        seen |= led_to[:-1].reshape(runs, n_states)
        seen |= ~seen.any(axis=1, keepdims=True)
        self._settled = ~(seen & (known <= 0) & ~self._is_paid).any(axis=(0, 2))
        self._pool = _Pool.of(seen)
        # With noise, any state may be the best one; without noise, only visited states.
        self._perhaps = seen if self._exact else np.ones_like(seen)

    def plan(
        self,
        explore: BoolArray,
        doubt: float,
        rng: np.random.Generator,
        search: bool = False,
    ) -> tuple[IntArray, BoolArray]:
        """Sample a model for each run and compute its optimal policy.

        Parameters
        ----------
        explore : array of bool, shape (R,)
            Runs with an optimistic plan: it uses cells that are very probably filled; unknown
            rows pay the most and lead to the best state. Other runs follow a posterior sample, in
            which unknown rows resemble known ones.
        doubt : float
            Pseudo-count of the unseen transitions of a row, > 0.
        rng : numpy.random.Generator
            Source of randomness.
        search : bool
            Whether optimistic plans are random actions once all rows of visited states are known:
            what noise or chance still hides may be anywhere. Without noise, half of them are random
            before that. No state postpones free actions.

        Returns
        -------
        policy : array of int, shape (R, H, S)
            Actions; -1 for any of the free actions.
        free : array of bool, shape (R, S, A)
            Free actions: those of unknown rows, or all.
        """
        _, runs, n_states = self._shape
        optimist = explore[None, :, None]
        least = np.where(explore[self._run_of_cell], _KNOWN, rng.random(len(self._chance)))
        weight = rng.standard_gamma(self._count * (self._chance > least))
        total = self._totals(weight)
        lost = np.where(total > 0, rng.standard_gamma(doubt, size=total.shape), 1.0)
        reward, paid = self._sampled_rewards(optimist, rng)
        best = runs * n_states + 1 + np.arange(runs)[:, None]
        # With noise, any row may lead to the best state; without noise, rows never tried.
        luck = optimist & ((total <= 0) | (not self._exact))
        luck |= rng.random(self._shape) < _LUCK
        beyond = np.where(luck, best, self._pool.draw(self._shape, rng))
        free = optimist & (total <= 0) & ~paid
        # Break ties at random.
        reward += np.where(free, 0.0, 1e-7 * self._range * rng.random(self._shape))
        matrix = self._matrix(weight, lost, total + lost, beyond)
        turns = self._turns(rng)
        policy = self._best([matrix], reward, free, None if search else turns)
        if search and explore.any():
            anywhere = explore & (self._settled | (self._exact & (rng.random(runs) < _ANYWAY)))
            policy[anywhere], free[:, anywhere] = -1, True
        return policy, np.moveaxis(free, 0, -1)

    def mean_plan(self, penalty: FloatArray | float = 0.0) -> IntArray:
        """Return pessimistic policies, shape (R, H, S), for the cells that are probably filled.

        ``penalty``, shape (A, R, S), is subtracted from the reward of each action.

        If it is uncertain whether a cell is filled, the worse case is assumed. A row with unknown
        transitions pays its mean reward once, if that is known, and the least reward for the rest
        of the episode.
        """
        likely = self._chance > _LIKELY
        empty = self._totals(np.log1p(-np.minimum(np.where(likely, self._chance, 0.0), 1 - 1e-9)))
        unknown = empty > np.log(1 - _KNOWN)  # all cells of the row together
        of_unknown, lost = self._of_cells(unknown), unknown.astype(np.float64)
        worst = np.full(self._shape, self._shape[1] * (self._shape[2] + 1) + 1)  # the last column
        matrices, rewards = [], []
        for least, least_paid in ((_LIKELY, _LIKELY), (_SURE, _KNOWN)):
            counted = likely & (self._chance > least)
            none = self._totals(counted.astype(np.float64)) <= 0
            counted |= likely & self._of_cells(none)
            weight = np.where(of_unknown, 0.0, self._count * counted)
            total = np.where(unknown, 1.0, self._totals(weight))
            matrices.append(self._matrix(weight, lost, total, worst))
            mean, _, number = self._rewards(self._chance_paid > least_paid)
            rewards.append(np.where(number <= 0, self._grid[0], mean))
        return self._best(matrices, np.minimum(*rewards) - penalty)

    def likely(self, run: int = 0) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return tables of the cells of a run whose probability exceeds 1/2.

        Returns
        -------
        transition : array, shape (S, A, S + 1)
            Probabilities; the last column is "over". Unknown rows are zero.
        reward : array, shape (S, A)
            Mean rewards; the least reward where unknown.
        known : array of bool, shape (S, A)
            Rows with known transitions.
        """
        n_actions, runs, n_states = self._shape
        weight = np.zeros(len(self._columns))
        weight[self._is_cell] = np.where(self._chance > _LIKELY, self._count, 0.0)
        row = np.repeat(np.arange(n_actions * runs * n_states), self._lengths)
        mine = (row // n_states) % runs == run
        state, action = row[mine] % n_states, row[mine] // (n_states * runs)
        column = np.minimum(self._columns[mine], runs * n_states)
        column = np.where(column == runs * n_states, n_states, column - run * n_states)
        table = np.zeros((n_states, n_actions, n_states + 1))
        counted = weight[mine] > 0
        place = state[counted], action[counted], column[counted]
        np.add.at(table, place, weight[mine][counted])
        total = table.sum(axis=-1)
        known = total > 0
        mean, _, number = self._rewards(self._chance_paid > _LIKELY)
        reward = np.where(number > 0, mean, self._grid[0])[:, run].T
        return table / np.where(known, total, 1.0)[..., None], reward, known

    def _of_cells(self, rows: BoolArray) -> BoolArray:
        """Broadcast an array over rows, shape (A, R, S), to cells."""
        return np.repeat(rows.ravel(), self._lengths)[self._is_cell]

    def _totals(self, weight: FloatArray) -> FloatArray:
        """Return the sums of weights over the cells of each row, shape (A, R, S)."""
        entries = np.zeros(len(self._columns))
        entries[self._is_cell] = weight
        return np.add.reduceat(entries, self._starts).reshape(self._shape)

    def _rewards(self, counted: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, standard error and number of the rewards in the counted cells."""
        paid = self._paid * counted
        number = paid.sum(axis=-1)
        some = np.maximum(number, 1e-9)
        mean = paid @ self._grid / some
        variance = paid @ self._grid**2 / some - mean**2
        # Subtract the variance of the encoding: two points share a reward between them.
        step = self._grid[1] - self._grid[0]
        part = (mean - self._grid[0]) / step % 1
        variance = np.maximum(variance - part * (1 - part) * step**2, 0.0)
        error = np.sqrt(
            variance / np.maximum(number, 1) + (_SPREAD * self._range / (number + 1)) ** 2
        )
        return mean, error, number

    def _sampled_rewards(
        self, optimist: BoolArray, rng: np.random.Generator
    ) -> tuple[FloatArray, BoolArray]:
        """Return sampled rewards, shape (A, R, S), and the rows with observed rewards."""
        low, high = self._grid[[0, -1]]
        mean, error, number = self._rewards(rng.random(self._chance_paid.shape) < self._chance_paid)
        paid = np.where(optimist, self._is_paid, number > 0)
        mean, error = (
            np.where(optimist, mine, other)
            for mine, other in ((self._mean, mean), (self._spread, error))
        )
        sampled = np.clip(mean + error * rng.standard_normal(self._shape), low, high)
        # An unknown reward is that of a random known row, or the largest.
        known = number > 0
        rows = _Pool.of(known.transpose(1, 0, 2).reshape(self._shape[1], -1))
        several = rows.number[:, None]
        flat = mean.transpose(1, 0, 2).ravel()
        like = flat[rows.draw(self._shape, rng)]
        lucky = optimist | (rng.random(self._shape) * (several + 1) < 1)
        return np.where(paid, sampled, np.where(lucky, high, like)), paid

    def _matrix(
        self, weight: FloatArray, lost: FloatArray, total: FloatArray, beyond: IntArray
    ) -> _Matrix:
        entries = np.empty(len(self._columns))
        entries[self._is_cell], entries[self._beyond] = weight, lost.ravel()
        entries /= np.repeat(total.ravel(), self._lengths)
        columns = self._columns.copy()
        columns[self._beyond] = beyond.ravel()
        return entries, columns, np.append(self._starts, len(columns))

    def _turns(self, rng: np.random.Generator) -> BoolArray:
        """Return the steps at which a state postpones free actions, shape (H, R * S).

        Half of the blocks of ``n_actions`` steps are postponed, at random. Without this, an action
        that keeps the state would be repeated for the rest of the episode.
        """
        n_actions, runs, n_states = self._shape
        number = self._horizon // n_actions + 2
        turns = np.repeat(rng.random((number, runs * n_states)) < _PUT_OFF, n_actions, axis=0)
        first = rng.integers(n_actions)
        return turns[first : first + self._horizon]

    def _best(
        self,
        matrices: Sequence[_Matrix],
        reward: FloatArray,
        free: BoolArray | None = None,
        put_off: BoolArray | None = None,
    ) -> IntArray:
        """Return greedy policies, shape (R, H, S), by backward induction.

        With several matrices, each row takes its worst value. -1 stands for any free action. At
        postponed steps, free actions are chosen last.
        """
        n_actions, runs, n_states = self._shape
        reward = reward.reshape(n_actions, runs * n_states)
        free = None if free is None or not free.any() else free.reshape(reward.shape)
        postponed = None if put_off is None or free is None else (free, put_off)
        worst = self._grid[0] * np.arange(self._horizon, 0, -1)
        discount = 1 - _SOONER / self._horizon
        policy = _induced(matrices, reward, postponed, self._perhaps, worst, discount=discount)
        if free is not None:
            policy[free[policy, np.arange(runs * n_states)]] = -1
        return policy.reshape(self._horizon, runs, n_states).swapaxes(0, 1)


def _by_products(
    matrices: Sequence[_Matrix],
    reward: FloatArray,
    postponed: tuple[BoolArray, BoolArray] | None,
    perhaps: BoolArray,
    worst: FloatArray,
    *,
    discount: float,
) -> IntArray:
    """Return the best actions, shape (H, places), by backward induction.

    Parameters
    ----------
    matrices : sequence of _Matrix, with A * places rows
        Chances of the columns of a `SparseModel`; each row takes its worst value.
    reward : array, shape (A, places)
        Expected rewards.
    postponed : (array of bool, array of bool), shapes (A, places) and (H, places), or None
        Actions that are chosen last, and at which steps.
    perhaps : array of bool, shape (R, S)
        States that may be the best one of their run.
    worst : array, shape (H,)
        What the worst case is worth at each step.
    discount : float
        Of one step.
    """
    (n_actions, places), horizon = reward.shape, len(worst)
    policy = np.empty((horizon, places), np.intp)
    worth, best = np.zeros(places + len(perhaps) + 2), np.zeros(perhaps.shape)
    tables = [sparse.csr_array(each, shape=(reward.size, len(worth))) for each in matrices]
    value, best_of_all = worth[:places], worth[places + 1 : -1]
    at_once = max(1, _COMPARED // reward.size)  # steps per comparison
    block = np.empty((at_once, n_actions, places))
    for step in reversed(range(horizon)):
        ahead = reduce(np.minimum, (table @ worth for table in tables))
        candidates = block[step % at_once]
        np.add(ahead.reshape(n_actions, places), reward, out=candidates)
        if postponed is not None:
            # At most the value of any other action; "over" has value 0.
            free, put_off = postponed
            candidates[free & put_off[step]] = min(worst[step], 0)
        if step % at_once == 0:
            steps = slice(step, min(step + at_once, horizon))
            policy[steps] = _first_best(block[: steps.stop - step])
        np.maximum.reduce(candidates, axis=0, out=value)
        np.copyto(best, value.reshape(best.shape), where=perhaps)
        np.maximum.reduce(best, axis=1, out=best_of_all, initial=0.0)
        worth[-1] = worst[step]
        worth *= discount
    return policy


_induced = Compiled(_by_products, "induced")


def _first_best(candidates: FloatArray) -> IntArray:
    """Return the argmax over actions of values (H, A, places), shape (H, places)."""
    first, *others = np.moveaxis(candidates, 1, 0)
    best, value = np.zeros(first.shape, np.intp), first
    for action, other in enumerate(others, 1):
        np.putmask(best, other > value, action)
        value = np.maximum(value, other)
    return best


class _Noisy:
    """Counts of one run, and the standard deviation of their noise."""

    def __init__(self, counts: FloatArray, deviation: FloatArray) -> None:
        self.counts, self.deviation = counts, deviation
        self.exact = not deviation.any()

    @classmethod
    def of(cls, rows: NoisyPosterior, run: int) -> "_Noisy":
        counts = rows.counts
        return cls(counts[run], np.broadcast_to(rows.deviation, counts.shape)[run])

    @property
    def in_deviations(self) -> FloatArray:
        if self.exact:
            return np.where(self.counts > 0, _CERTAIN, -_CERTAIN).astype(np.float32)
        return (self.counts / self.deviation).astype(np.float32)


class _Pool:
    """A subset of places of each run, to draw from."""

    def __init__(self, members: IntArray, starts: IntArray, number: IntArray) -> None:
        self._members, self._starts, self.number = members, starts, number

    @classmethod
    def of(cls, chosen: BoolArray) -> "_Pool":
        """Make the pool of places ``run * n + i`` with ``chosen[run, i]``."""
        number = chosen.sum(axis=1)
        members = np.append(np.flatnonzero(chosen), 0)  # a dummy for empty runs
        return cls(members, np.cumsum(number) - number, number)

    def draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> IntArray:
        """Return random places of each run, shape (A, R, S)."""
        number = self.number[:, None]
        which = (rng.random(shape) * number).astype(np.intp)
        return self._members[np.minimum(self._starts[:, None] + which, len(self._members) - 1)]


def _chances(
    noisy: _Noisy, paid: _Noisy, support: Support | None, near: Neighbours | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the probability that each cell is filled, of transitions (S, A, K) and of rewards.

    A first pass puts all cells into one class. The result defines classes of cells that are
    filled about equally often, for a second pass.
    """
    if noisy.exact and paid.exact:
        return (noisy.counts > 0).astype(np.float32), (paid.counts > 0).astype(np.float32)
    valid = None if support is None else support.valid
    z, rewards = noisy.in_deviations, paid.in_deviations
    if valid is not None:
        z[~valid] = -_CERTAIN
    filled, rewarded = chance_filled(z), chance_filled(rewards)
    played = np.maximum(1 - np.prod(1 - rewarded, axis=-1), filled.max(axis=-1))
    seen = played.max(axis=1)  # (S,)
    classes = _level(_others(filled, 2))
    if support is None:
        n_states, n_next = len(z), z.shape[-1]
        led_to = np.ones(n_next, np.float32)
        led_to[:n_states] = np.maximum(seen, filled.max(axis=(0, 1))[:n_states])
        back = np.zeros((n_states, n_next), np.int16)
        back[:, :n_states] = _level(filled.max(axis=1)[:, :n_states]).T
        np.fill_diagonal(back[:, :n_states], 0)
        classes = (
            classes * 81
            + _level(_others(filled, 1)) * 27
            + (back * 9)[:, None]
            + (_level(seen) * 3)[:, None, None]
            + _level(led_to)
        )
    else:
        classes = classes * 9 + (_level(seen) * 3)[:, None, None] + _level(played)[..., None]
    if near is not None:
        classes = classes * 3 + _level(near.beside(filled))
    filled = chance_filled(z, classes, 243 if near is None else 729)
    return filled, _rewarded(rewards, rewarded, seen, filled.max(axis=-1))


def _rewarded(
    rewards: FloatArray, chance: FloatArray, seen: FloatArray, led: FloatArray
) -> FloatArray:
    """Return the second pass over rewards, in classes of the first and of transitions."""
    classes = (_level(_others(chance, 2)) * 9 + (_level(seen) * 3)[:, None, None]) + _level(led)[
        ..., None
    ]
    # Each point has separate classes, since most rewards never occur.
    points = rewards.shape[-1]
    classes = classes + 27 * np.arange(points)
    return np.where(rewards > 2, chance_filled(rewards, classes, 27 * points), 0)


def _of_cells(
    transition: SparsePosterior, run: int, paid: _Noisy
) -> tuple[IntArray, IntArray, IntArray, tuple[FloatArray, FloatArray], FloatArray]:
    """Return what `_chances` does for a run of a sparse release, without the whole table.

    Returns
    -------
    state, action, cell : array of int, shape (n,)
        The cells that are probably filled.
    here : (array, array), shape (n,)
        Their chances and counts.
    rewarded : array, shape (S, A, width)
        Chances of the rewards.
    """
    n_states, n_actions, n_next = transition.shape[-3:]
    rows, size = n_states * n_actions, n_states * n_actions * n_next
    place, ratio, count, unseen = _evidence(transition, run * size, (run + 1) * size)
    row, cell = np.divmod(place, n_next)
    state, shape = row // n_actions, (n_states, n_actions)

    def best_of(places: IntArray, number: int, chance: FloatArray) -> FloatArray:
        best = np.zeros(number)
        np.maximum.at(best, places, chance)
        return best

    rewards = paid.in_deviations
    chance = _chance_of_ratio(ratio, unseen, np.array([size]), np.zeros(len(row), np.intp))
    rewarded, best = chance_filled(rewards), best_of(row, rows, chance).reshape(shape)
    played = np.maximum(1 - np.prod(1 - rewarded, axis=-1), best)
    seen = played.max(axis=1)
    led_to = best_of(cell, n_next, chance)
    led_to[:n_states] = np.maximum(led_to[:n_states], seen)
    to, levels = _level(led_to), _level(best) * 3 + _level(seen)[:, None]
    number = np.outer(np.bincount(levels.ravel(), minlength=9), np.bincount(to, minlength=3))
    classes = _level(_second_best(row, chance, rows)) * 9 + _level(seen)[state] * 3 + to[cell]
    chance = _chance_of_ratio(ratio, unseen, number.ravel(), classes)
    kept = np.flatnonzero(chance > _KEPT)
    return (
        state[kept],
        row[kept] % n_actions,
        cell[kept],
        (chance[kept], count[kept]),
        _rewarded(rewards, rewarded, seen, best_of(row, rows, chance).reshape(shape)),
    )


def _evidence(
    transition: SparsePosterior, first: int, last: int
) -> tuple[IntArray, FloatArray, FloatArray, float]:
    """Return the cells of a part of the table that appeared, and how likely they are filled.

    A filled cell is visited in half of the releases.

    Returns
    -------
    place : array of int, shape (n,)
        Their places in the part.
    ratio : array, shape (n,)
        Logarithm of the likelihood ratio of a filled and an empty cell.
    count : array, shape (n,)
        Sums of noisy counts, each times the chance that it is not noise alone.
    unseen : float
        The logarithm for a cell that never appeared.
    """
    spike, slab = _densities()
    largest = max((float(each.max(initial=0)) for each in transition.evidence), default=0.0)
    slab = slab / np.log(1 + max(largest, 4.0))
    below = np.arange(_N_BINS) < (transition.threshold - _LOW) * _PER_DEVIATION + 1
    hidden = math.log(0.5 + 0.5 * float(slab[below].sum() / spike[below].sum()))
    places: list[IntArray] = []
    ratios: list[FloatArray] = []
    counts: list[FloatArray] = []
    for cells, z in zip(transition.counts, transition.evidence, strict=True):
        mine = slice(*np.searchsorted(cells.places, [first, last]))
        bins = np.clip((z[mine] - _LOW) * _PER_DEVIATION + 1, 0, _N_BINS - 1).astype(np.int32)
        times = (slab / spike)[bins]
        places.append(cells.places[mine] - first)
        ratios.append(np.minimum(np.log(0.5 + 0.5 * times), _MOST) - hidden)
        counts.append(cells.amounts[mine] * times / (1 + times))
    unseen = hidden * len(places)
    if not places:
        return np.empty(0, np.intp), np.empty(0), np.empty(0), 0.0
    place, which = np.unique(np.concatenate(places), return_inverse=True)
    ratio = np.bincount(which, np.concatenate(ratios)).astype(np.float64) + unseen
    count = np.bincount(which, np.concatenate(counts)).astype(np.float64)
    return place, ratio, count, unseen


def _chance_of_ratio(
    ratio: FloatArray, unseen: float, number: IntArray, classes: IntArray
) -> FloatArray:
    """Return the posterior probability that each cell is filled, as `chance_filled` does.

    Parameters
    ----------
    ratio : array, shape (n,)
        Logarithms of likelihood ratios of cells that appeared.
    unseen : float
        The same of those that did not.
    number : array of int, shape (n_classes,)
        How many cells each class has.
    classes : array of int, shape (n,)
        The class of each cell that appeared.
    """
    ends = np.arange(-_MOST, _MOST + _STEP, _STEP)
    bins = np.clip(np.rint((ratio + _MOST) / _STEP), 0, len(ends) - 1).astype(np.intp)
    seen = np.bincount(classes * len(ends) + bins, minlength=len(number) * len(ends))
    seen = seen.reshape(len(number), len(ends))
    seen = np.column_stack([seen, np.maximum(number - seen.sum(axis=1), 0)])
    filled = np.exp(np.append(ends, unseen))
    empty = np.ones_like(filled)
    overall = _weights(seen.sum(axis=0, keepdims=True), empty, filled, 0.5, 0.1)
    weight = _weights(seen, empty, filled, float(overall[0, 0]), _PSEUDO_CELLS)
    chance: FloatArray = (weight * filled / (weight * filled + 1 - weight))[classes, bins]
    return chance


def _second_best(row: IntArray, chance: FloatArray, rows: int) -> FloatArray:
    """Return for each cell the largest chance of the other cells of its row."""
    order = np.lexsort((-chance, row))
    sorted_rows, sorted_chance = row[order], chance[order]
    first = np.ones(len(row), np.bool_)
    first[1:] = sorted_rows[1:] != sorted_rows[:-1]
    starts = np.flatnonzero(first)
    best = np.zeros(rows)
    best[sorted_rows[starts]] = sorted_chance[starts]
    second = np.zeros(rows)
    behind = starts[starts + 1 < len(row)] + 1
    behind = behind[~first[behind]]
    second[sorted_rows[behind]] = sorted_chance[behind]
    others = np.empty(len(row))
    others[order] = np.where(first, second[sorted_rows], best[sorted_rows])
    return others


def _level(chance: NDArray[Any]) -> NDArray[np.int16]:
    """Return 0, 1 or 2 for a low, medium or high probability."""
    level: NDArray[np.int16] = (chance > 0.5).astype(np.int16) + (chance > 0.1)
    return level


def _others(chance: FloatArray, axis: int) -> FloatArray:
    """Return the largest of the other entries along an axis."""
    if chance.shape[axis] == 1:
        return np.zeros_like(chance)
    where = np.expand_dims(chance.argmax(axis=axis), axis)
    rest = chance.copy()
    np.put_along_axis(rest, where, -1, axis=axis)
    second = rest.max(axis=axis, keepdims=True)
    result = np.broadcast_to(np.take_along_axis(chance, where, axis=axis), chance.shape).copy()
    np.put_along_axis(result, where, second, axis=axis)
    return result
