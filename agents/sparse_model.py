"""What released tables say of an environment: which transitions there are, and what they pay.

Most cells of a transition table are empty, and after a release all of them hold noise. Here every
cell has a probability that it is filled (`chance_filled`), models are sampled accordingly,
and everything is sparse: time and memory of planning grow with the transitions that there are.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privrl.agents.rewards import HatPosterior
from privrl.envs.support import Support
from privrl.numerics.scipy_lazily import sparse
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.noisy_counts import NoisyPosterior

_LOW, _HIGH, _PER_DEVIATION = -6, 12, 8  # bins of noisy counts, in deviations
_N_BINS = (_HIGH - _LOW) * _PER_DEVIATION + 2
_LEAST = 0.5  # deviations: smaller amounts count as nothing
_PSEUDO_CELLS = 5.0  # of the whole table's kind, in every class


def chance_filled(
    noisy: FloatArray, classes: NDArray[Any] | None = None, n_classes: int = 1
) -> FloatArray:
    """Return the posterior probability that each cell is filled.

    Parameters
    ----------
    noisy : array, shape (...)
        Released counts, in deviations of their noise.
    classes : array of int, shape (...), optional
        Which class each cell is in, ``0 .. n_classes - 1``; cells of a class are filled equally
        often. By default all are in one.
    n_classes : int
        How many classes there are.

    Returns
    -------
    array, shape (...)
        Probabilities; 0 for what is negative.
    """
    place = (noisy - _LOW) * _PER_DEVIATION + 1
    bins = np.clip(place, 0, _N_BINS - 1).astype(np.int32)  # none that is too large for integers
    if classes is not None:
        bins += classes.astype(np.int32) * _N_BINS
    seen = np.bincount(bins.ravel(), minlength=n_classes * _N_BINS).reshape(n_classes, _N_BINS)
    spike, slab = _densities()
    slab = slab / np.log(1 + max(float(noisy.max(initial=0)), 4.0))  # up to the largest
    overall = _weights(seen.sum(axis=0, keepdims=True), spike, slab, 0.5, 0.1)
    weight = np.tile(overall, (n_classes, 1))
    some = seen.any(axis=1)
    weight[some] = _weights(seen[some], spike, slab, float(overall[0, 0]), _PSEUDO_CELLS)
    chance = weight * slab / (weight * slab + (1 - weight) * spike)
    chance[:, : -_LOW * _PER_DEVIATION + 1] = 0  # less than nothing
    chance[:, -1] = 1
    table: FloatArray = chance.astype(np.float32)
    return table.reshape(-1)[bins]


@lru_cache
def _densities() -> tuple[FloatArray, FloatArray]:
    """Return the spike's density in each bin, and the slab's but for its normaliser.

    Amounts are log-uniform, from half a deviation up.
    """
    middle = np.linspace(_LOW, _HIGH, _N_BINS - 1) - 0.5 / _PER_DEVIATION
    middle = np.append(middle, _HIGH)
    amount = np.arange(_LEAST, _HIGH + 4, 0.05)
    normal = np.exp(-0.5 * (middle[:, None] - amount) ** 2) / np.sqrt(2 * np.pi)
    spike = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi)
    return spike, (normal / (amount + 1 - _LEAST)).sum(axis=1) * 0.05


def _weights(
    seen: IntArray, spike: FloatArray, slab: FloatArray, prior: float, pseudo: float
) -> FloatArray:
    """Return the likeliest part of filled cells in each class, shape (classes, 1).

    ``pseudo`` cells more, of which that part is filled, are taken to have been seen. The
    likelihood is concave: bisection, on a logarithmic scale.
    """
    least, most = np.full((len(seen), 1), 1e-8), np.full((len(seen), 1), 0.999)
    for _ in range(40):
        weight = np.sqrt(least * most)
        slope = (seen * ((slab - spike) / (weight * slab + (1 - weight) * spike))).sum(
            axis=1, keepdims=True
        )
        rises = slope + pseudo * (prior / weight - (1 - prior) / (1 - weight)) > 0
        least, most = np.where(rises, weight, least), np.where(rises, most, weight)
    return weight


_KEPT: Final = 0.05  # a cell less likely to be filled than this is taken to be empty
_KNOWN: Final = 0.9  # from here on optimism counts on a cell
_LIKELY: Final = 0.5
_SURE: Final = 0.99  # from here on a policy that is deployed counts on a cell that does good
_CERTAIN: Final = 99.0  # deviations, of what is known without noise: filled or, below 0, empty
_LUCK: Final = 0.03  # the chance that what is unknown of a row is the best state
_SOONER: Final = 1e-4  # part of what is ahead that waiting for a whole episode costs
_PUT_OFF: Final = 0.5  # of the time in which one could try what is unknown
_COMPARED: Final = 2**16  # values of actions that are compared at a time
_SPREAD: Final = 0.1  # of the range of rewards: what a mean of one reward may be wrong by


class SparseModel:
    """A belief about the transitions and rewards of several runs, from one release.

    Parameters
    ----------
    transition : NoisyPosterior
        Of a table of shape (R, S, A, K).
    reward : HatPosterior
        Of a table of shape (R, S, A, width).
    horizon : int
        Steps of an episode.
    support : Support, optional
        What the cells of the transition table are about; by default states, and after them "the
        episode is over" if there is one more.

    Notes
    -----
    Inside, rows are ordered by action, run, state, so that the best of the actions is found by
    whole arrays, and all runs are planned for by one sparse matrix. Its columns are the values of
    the states of all runs, of "over", of each run's best state, and of the least there can be.
    """

    def __init__(
        self,
        transition: NoisyPosterior,
        reward: HatPosterior,
        horizon: int,
        support: Support | None = None,
    ) -> None:
        runs, n_states, n_actions, _ = transition.counts.shape
        self._shape = n_actions, runs, n_states
        self._horizon, self._grid = horizon, reward.grid
        self._exact = not transition.deviation.any()
        cells, chances = [], []
        paid = reward.rows
        assert isinstance(paid, NoisyPosterior)  # the agent has checked it
        for run in range(runs):
            noisy = _Noisy.of(transition, run), _Noisy.of(paid, run)
            filled, rewarded = _chances(*noisy, support)
            state, action, cell = np.nonzero(filled > _KEPT)
            here = filled[state, action, cell], noisy[0].counts[state, action, cell]
            following = cell if support is None else support.next_states[state, action, cell]
            column = np.where(following == n_states, runs * n_states, run * n_states + following)
            row = (action * runs + run) * n_states + state
            cells.append((row, column, *here))
            chances.append(rewarded.transpose(1, 0, 2))
        self._lay_out(*(np.concatenate(parts) for parts in zip(*cells, strict=True)))
        self._chance_paid = np.stack(chances, axis=1)  # (A, R, S, width)
        self._paid = np.maximum(paid.counts.transpose(2, 0, 1, 3), 0.0)
        self._learn()

    @property
    def size(self) -> int:
        """Entries of the matrices of all runs, times steps: what a plan takes."""
        return len(self._columns) * self._horizon

    def _lay_out(
        self, row: IntArray, column: IntArray, chance: FloatArray, count: FloatArray
    ) -> None:
        """Prepare the matrix: the cells of each row, then one entry for what is unknown of it."""
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
        """Work out what does not change from plan to plan."""
        _, runs, n_states = self._shape
        known = self._totals(self._count * (self._chance > _KNOWN))
        self._mean, self._spread, number = self._rewards(self._chance_paid > _KNOWN)
        self._is_paid = number > 0
        # States that were seen: something was done there, or something leads there.
        seen = ((known > 0) | self._is_paid).any(axis=0)
        led_to = np.zeros(runs * n_states + 1, np.bool_)
        led_to[self._columns[self._is_cell][self._chance > _KNOWN]] = True
        seen |= led_to[:-1].reshape(runs, n_states)
        seen |= ~seen.any(axis=1, keepdims=True)
        self._pool = _Pool.of(seen)
        # What noise may hide could be the best of all; without noise, what was not seen cannot.
        self._perhaps = seen if self._exact else np.ones_like(seen)

    def plan(
        self, explore: BoolArray, doubt: float, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Sample a model for each run, and plan.

        Parameters
        ----------
        explore : array of bool, shape (R,)
            Which runs are optimistic: only cells that are known are counted on, what is unknown
            pays the most and leads to the best state. The others follow a sample of all: what is
            unknown is like something that is known.
        doubt : float
            Pseudo-count of what a row has not shown yet, > 0.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        policy : array of int, shape (R, H, S)
            -1 for any action of which nothing is known.
        free : array of bool, shape (R, S, A)
            Which those are.
        """
        _, runs, n_states = self._shape
        optimist = explore[None, :, None]
        least = np.where(explore[self._run_of_cell], _KNOWN, rng.random(len(self._chance)))
        weight = rng.standard_gamma(self._count * (self._chance > least))
        total = self._totals(weight)
        lost = np.where(total > 0, rng.standard_gamma(doubt, size=total.shape), 1.0)
        reward, paid = self._sampled_rewards(optimist, rng)
        best = runs * n_states + 1 + np.arange(runs)[:, None]
        # What noise may hide could be there in any row; without noise, in rows never tried.
        luck = optimist & ((total <= 0) | (not self._exact))
        luck |= rng.random(self._shape) < _LUCK
        beyond = np.where(luck, best, self._pool.draw(self._shape, rng))
        free = optimist & (total <= 0) & ~paid
        # Ties are broken at random.
        reward += np.where(free, 0.0, 1e-7 * np.ptp(self._grid) * rng.random(self._shape))
        matrix = self._matrix(weight, lost, total + lost, beyond)
        policy = self._best([matrix], reward, free, self._turns(rng))
        return policy, np.moveaxis(free, 0, -1)

    def mean_plan(self, penalty: FloatArray | float = 0.0) -> IntArray:
        """Return the best policies, shape (R, H, S), for what is likely, and pessimistic of it.

        ``penalty``, shape (A, R, S), is taken from what each action earns.

        Of cells that are likely but not sure to be filled, the worse is taken: that they are, or
        that they are not. A row whose transitions are not known pays its reward once, if that is
        known, and the least for the rest of the episode.
        """
        likely = self._chance > _LIKELY
        empty = self._totals(np.log1p(-np.minimum(np.where(likely, self._chance, 0.0), 1 - 1e-9)))
        unknown = empty > np.log(1 - _KNOWN)  # even all of its cells together
        of_unknown, lost = self._of_cells(unknown), unknown.astype(np.float64)
        worst = np.full(self._shape, self._n_columns - 1)
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
        """Return what is likelier than not of a run, as tables.

        Returns
        -------
        transition : array, shape (S, A, S + 1)
            Chances; the last column is "over". Rows that are not known are zeros.
        reward : array, shape (S, A)
            Means; the least where nothing is known.
        known : array of bool, shape (S, A)
            Which rows' transitions are known.
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
        """Return for each cell what is said of its row, shape (A, R, S)."""
        return np.repeat(rows.ravel(), self._lengths)[self._is_cell]

    def _totals(self, weight: FloatArray) -> FloatArray:
        """Return the sum of each row's cells, shape (A, R, S)."""
        entries = np.zeros(len(self._columns))
        entries[self._is_cell] = weight
        return np.add.reduceat(entries, self._starts).reshape(self._shape)

    def _rewards(self, counted: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, its standard error and number of the rewards in the cells counted."""
        paid = self._paid * counted
        number = paid.sum(axis=-1)
        some = np.maximum(number, 1e-9)
        mean = paid @ self._grid / some
        variance = paid @ self._grid**2 / some - mean**2
        # Between two points of the grid even a constant reward is spread over both.
        step = self._grid[1] - self._grid[0]
        part = (mean - self._grid[0]) / step % 1
        variance = np.maximum(variance - part * (1 - part) * step**2, 0.0)
        error = np.sqrt(
            variance / np.maximum(number, 1) + (_SPREAD * np.ptp(self._grid) / (number + 1)) ** 2
        )
        return mean, error, number

    def _sampled_rewards(
        self, optimist: BoolArray, rng: np.random.Generator
    ) -> tuple[FloatArray, BoolArray]:
        """Return rewards, shape (A, R, S), and where there is anything to go by."""
        low, high = self._grid[[0, -1]]
        mean, error, number = self._rewards(rng.random(self._chance_paid.shape) < self._chance_paid)
        paid = np.where(optimist, self._is_paid, number > 0)
        mean, error = (
            np.where(optimist, mine, other)
            for mine, other in ((self._mean, mean), (self._spread, error))
        )
        sampled = np.clip(mean + error * rng.standard_normal(self._shape), low, high)
        # Like that of a row that is known, or of one more that pays the most.
        known = number > 0
        rows = _Pool.of(known.transpose(1, 0, 2).reshape(self._shape[1], -1))
        several = rows.number[:, None]
        flat = mean.transpose(1, 0, 2).ravel()
        like = flat[rows.draw(self._shape, rng)]
        lucky = optimist | (rng.random(self._shape) * (several + 1) < 1)
        return np.where(paid, sampled, np.where(lucky, high, like)), paid

    @property
    def _n_columns(self) -> int:
        _, runs, n_states = self._shape
        return runs * n_states + runs + 2

    def _matrix(
        self, weight: FloatArray, lost: FloatArray, total: FloatArray, beyond: IntArray
    ) -> "sparse.csr_array":
        entries = np.empty(len(self._columns))
        entries[self._is_cell], entries[self._beyond] = weight, lost.ravel()
        entries /= np.repeat(total.ravel(), self._lengths)
        columns = self._columns.copy()
        columns[self._beyond] = beyond.ravel()
        pointers = np.append(self._starts, len(columns))
        shape = len(self._starts), self._n_columns
        return sparse.csr_array((entries, columns, pointers), shape=shape)

    def _turns(self, rng: np.random.Generator) -> BoolArray:
        """Return when trying what is free is put off, shape (H, R * S): it is half of the time.

        Each state's turn lasts for as many steps as there are actions. Who tries an action that
        leaves the state as it was would try it again for the rest of the episode.
        """
        n_actions, runs, n_states = self._shape
        number = self._horizon // n_actions + 2
        turns = np.repeat(rng.random((number, runs * n_states)) < _PUT_OFF, n_actions, axis=0)
        first = rng.integers(n_actions)
        return turns[first : first + self._horizon]

    def _best(
        self,
        matrices: "Sequence[sparse.csr_array]",
        reward: FloatArray,
        free: BoolArray | None = None,
        put_off: BoolArray | None = None,
    ) -> IntArray:
        """Return greedy policies, shape (R, H, S), by backward induction.

        Of several matrices, each row's worst counts. -1 stands for actions that are free; at steps
        where they are put off they are the last resort.
        """
        n_actions, runs, n_states = self._shape
        places = runs * n_states
        reward = reward.reshape(n_actions, places)
        some = free is not None and free.any()
        free = np.zeros_like(reward, np.bool_) if free is None else free.reshape(reward.shape)
        policy = np.empty((self._horizon, places), np.intp)
        worth, perhaps = np.zeros(self._n_columns), np.zeros((runs, n_states))
        value, best_of_all = worth[:places], worth[places + 1 : -1]
        at_once = max(1, _COMPARED // reward.size)  # steps whose actions are compared together
        block = np.empty((at_once, n_actions, places))
        for step in reversed(range(self._horizon)):
            ahead = reduce(np.minimum, (matrix @ worth for matrix in matrices))
            candidates = block[step % at_once]
            np.add(ahead.reshape(n_actions, places), reward, out=candidates)
            if some and put_off is not None:
                # No more than any other: whose episode is over gets 0.
                candidates[free & put_off[step]] = min(self._grid[0], 0) * (self._horizon - step)
            if step % at_once == 0:
                steps = slice(step, min(step + at_once, self._horizon))
                policy[steps] = _first_best(block[: steps.stop - step])
            np.maximum.reduce(candidates, axis=0, out=value)
            np.copyto(perhaps, value.reshape(runs, n_states), where=self._perhaps)
            np.maximum.reduce(perhaps, axis=1, out=best_of_all, initial=0.0)
            worth[-1] = self._grid[0] * (self._horizon - step)
            worth *= 1 - _SOONER / self._horizon
        if some:
            policy[free[policy, np.arange(places)]] = -1
        return policy.reshape(self._horizon, runs, n_states).swapaxes(0, 1)


def _first_best(candidates: FloatArray) -> IntArray:
    """Return the best actions, shape (H, places), of values (H, A, places); of equals the first."""
    first, *others = np.moveaxis(candidates, 1, 0)
    best, value = np.zeros(first.shape, np.intp), first
    for action, other in enumerate(others, 1):
        np.putmask(best, other > value, action)
        value = np.maximum(value, other)
    return best


class _Noisy:
    """One run's counts, and the deviation of their noise."""

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
    """Some of each run's places, to draw from."""

    def __init__(self, members: IntArray, starts: IntArray, number: IntArray) -> None:
        self._members, self._starts, self.number = members, starts, number

    @classmethod
    def of(cls, chosen: BoolArray) -> "_Pool":
        """Of places ``run * n + i`` where ``chosen[run, i]``."""
        number = chosen.sum(axis=1)
        members = np.append(np.flatnonzero(chosen), 0)  # a place for runs without any
        return cls(members, np.cumsum(number) - number, number)

    def draw(self, shape: tuple[int, int, int], rng: np.random.Generator) -> IntArray:
        """Return places, shape (A, R, S), each run's its own."""
        number = self.number[:, None]
        which = (rng.random(shape) * number).astype(np.intp)
        return self._members[np.minimum(self._starts[:, None] + which, len(self._members) - 1)]


def _chances(noisy: _Noisy, paid: _Noisy, support: Support | None) -> tuple[FloatArray, FloatArray]:
    """Return how likely each cell is filled: of transitions, (S, A, K), and of rewards.

    First every cell by itself; from that, classes of cells that are filled about equally often,
    and once more.
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
    filled = chance_filled(z, classes, 243)
    classes = (_level(_others(rewarded, 2)) * 9 + (_level(seen) * 3)[:, None, None]) + _level(
        filled.max(axis=-1)
    )[..., None]
    # Each point by itself: most of them are paid nowhere.
    points = rewards.shape[-1]
    classes = classes + 27 * np.arange(points)
    rewarded = np.where(rewards > 2, chance_filled(rewards, classes, 27 * points), 0)
    return filled, rewarded


def _level(chance: NDArray[Any]) -> NDArray[np.int16]:
    """Return 0, 1 or 2: hardly, perhaps, probably."""
    level: NDArray[np.int16] = (chance > 0.5).astype(np.int16) + (chance > 0.1)
    return level


def _others(chance: FloatArray, axis: int) -> FloatArray:
    """Return the largest along an axis of all but the entry itself."""
    if chance.shape[axis] == 1:
        return np.zeros_like(chance)
    where = np.expand_dims(chance.argmax(axis=axis), axis)
    rest = chance.copy()
    np.put_along_axis(rest, where, -1, axis=axis)
    second = rest.max(axis=axis, keepdims=True)
    result = np.broadcast_to(np.take_along_axis(chance, where, axis=axis), chance.shape).copy()
    np.put_along_axis(result, where, second, axis=axis)
    return result
