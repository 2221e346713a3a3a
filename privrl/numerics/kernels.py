"""Functions that numba compiles; `privrl.numerics.compiled` loads them when they are worth it.

Each function returns the same bits as its plain twin. Floats that could depend on the order of a
sum, or on the implementation of the logarithm, decide only where they leave no doubt. Compiled code
checks no index: the plain twin refuses arrays of other shapes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numba
import numpy as np

from privrl.numerics.discrete_noise import BoolArray, IntArray
from privrl.numerics.special import FloatArray

__all__ = ["candidates", "entered", "fit", "fractions", "greedy", "induced", "walked"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_HALF: Final = 0x3FE6A09E667F3BCD  # its bits
_MANTISSA: Final = (1 << 52) - 1
_EXPONENT: Final = 0x7FF << 52
_LOG_4: Final = math.log(4)
_SLACK: Final = 2.0**-47  # relative: more than what is computed here is off
_KNOWN: Final = 2.0**-52  # twice what is not known of a uniform number
_LEAST: Final = 2.0**-48  # uniform numbers below are not known well enough
_GRAIN: Final = 2.0**-30  # of the power of two below a number
_FEW_STATES: Final = 16  # for more, products of matrices are quicker
_AT_ONCE: Final = 256  # runs: their tables stay in a processor's cache
_FEW_ENTRIES: Final = 8  # of a row, that are looked at one after the other
_NONE: Final = np.empty(0, np.intp)
_READ_ONLY: Final = numba.types.Array(numba.float64, 1, "C", readonly=True)


def _inline(function: _Function) -> _Function:
    inlined: Any = numba.njit(inline="always", error_model="numpy")(function)
    return inlined


def _compiled(signature: Any) -> Callable[[_Function], _Function]:
    def compiled(function: _Function) -> _Function:
        options: Any = {"error_model": "numpy", "nogil": True}
        try:  # what one process has compiled, the next ones load
            return numba.njit(signature, cache=True, **options)(function)
        except Exception:  # no folder for it can be written to, or what is there is damaged
            return numba.njit(signature, **options)(function)

    return compiled


@_inline
def _log(x: float) -> float:
    """Return the logarithm of a normal number > 0, to less than a unit in its last place.

    As fdlibm does it (Sun Microsystems, 1993), but without a branch, so that a processor has
    several at once.
    """
    bits = np.float64(x).view(np.int64) - _ROOT_HALF
    power = np.float64(bits >> 52)
    f = np.int64((bits & _MANTISSA) + _ROOT_HALF).view(np.float64) - 1
    s = f / (2 + f)
    z = s * s
    r = 0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.1479819860511658591)
    r = 0.3999999999940941908 + z * (0.2857142874366239149 + z * (0.2222219843214978396 + z * r))
    r = z * (0.6666666666666735130 + z * r)
    half = 0.5 * f * f
    return power * _LN2_HIGH - ((half - (s * (half + r) + power * _LN2_LOW)) - f)


@_inline
def _exponential(x: float) -> tuple[float, float]:
    """Return ``exp(x) − 1`` and ``exp(x) − 1 − x``, for x from −40 to 40, without a branch.

    By Taylor's series around the nearest multiple of log 2; where that is 0 nothing cancels.
    """
    power = np.rint(x / math.log(2))
    y = (x - power * _LN2_HIGH) - power * _LN2_LOW
    r = 1 / 39916800 + y * (1 / 479001600 + y * (1 / 6227020800))
    r = 1 / 40320 + y * (1 / 362880 + y * (1 / 3628800 + y * r))
    r = 1 / 120 + y * (1 / 720 + y * (1 / 5040 + y * r))
    bent = y * y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * r)))
    two = np.int64((np.int64(power) + 1023) << 52).view(np.float64)
    rise = two * (y + bent) + (two - 1)
    return rise, bent if power == 0 else rise - x


@_compiled(f"int64({', '.join(5 * ['float64[::1]'])}, boolean[::1], boolean[::1])")
def _decide(
    shapes: FloatArray,
    first: FloatArray,
    second: FloatArray,
    third: FloatArray,
    values: FloatArray,
    accepted: BoolArray,
    unsure: BoolArray,
) -> int:
    """Enter what floats make of candidates, and return how many of them are in doubt.

    The bounds are those of `privrl.numerics.exact_dirichlet`, each candidate's own.
    """
    doubts = 0
    for i in range(len(shapes)):
        shape = shapes[i]
        one, two = max(first[i], 2.0**-53), max(second[i], 2.0**-53)
        three = max(third[i], 2.0**-53)
        small = shape < 1
        a = shape + 1 if small else shape
        root, spread = math.sqrt(2 * a - 1), one * (1 - one)
        logs = _log(spread * two)
        v = _log(one / (1 - one)) / root
        rise, bent = _exponential(v)
        bent *= a
        short = bent + logs + _LOG_4
        more = _log(three) / shape if small else 0.0
        centre = _log(a)
        value = centre + v + more
        below = np.int64(np.float64(value).view(np.int64) & _EXPONENT).view(np.float64)
        power = max(below, 0.5)
        far = power * (1.5 * 2.0**23)  # there floats are as far apart as a grain is wide
        rounded = (value + far) - far
        values[i], accepted[i] = rounded, short < 0
        turn = abs(v)
        unknown = (a * abs(rise) / root + 1) / spread + 1 / two
        margin_off = _SLACK * (bent * (3 + turn) - logs + 2) + _KNOWN * unknown
        tail = _KNOWN / (shape * three) if small else 0.0
        value_off = _KNOWN / (root * spread) + tail + _SLACK / 4 * (centre + turn - more + 1)
        unclear = (short < 0) & (power * _GRAIN - abs(value - rounded) <= value_off)
        unsure[i] = unclear | (abs(short) <= margin_off) | (min(one, two, three) < _LEAST)
        doubts += unsure[i]
    return doubts


def candidates(shapes: FloatArray, uniform: FloatArray) -> tuple[BoolArray, FloatArray, IntArray]:
    """Return which candidates floats accept, what they round them to, and which are in doubt."""
    values = np.empty(len(shapes))
    accepted, unsure = np.empty((2, len(shapes)), np.bool_)
    first, second, third = uniform
    doubts = _decide(shapes, first, second, third, values, accepted, unsure)
    return accepted, values, unsure.nonzero()[0] if doubts else _NONE


@_inline
def _sizes(tables: FloatArray, rewards: FloatArray) -> tuple[float, float, float]:
    """Return the mass and the reward of a row, at the most, and the total sum."""
    mass, paid, everything = 0.0, 0.0, 0.0
    n_states, n_rows, runs = tables.shape
    for row in range(n_rows):
        for run in range(runs):
            total, reward = 0.0, abs(rewards[row, run])
            for following in range(n_states):
                total += abs(tables[following, row, run])
            mass, paid = max(mass, total), max(paid, reward)
            everything += total + reward
    return mass, paid, everything


@_inline
def _back_up(
    tables: FloatArray, rewards: FloatArray, value: FloatArray, worth: FloatArray, ahead: bool
) -> None:
    """Enter what states and actions are worth, given the values of the next states."""
    n_states, n_rows, runs = tables.shape
    for row in range(n_rows):
        for run in range(runs):
            worth[row, run] = rewards[row, run]
    if not ahead:
        return
    if runs == 1:  # what is one after the other in memory is computed at once
        for following in range(n_states):
            only = value[following, 0]
            for row in range(n_rows):
                worth[row, 0] += tables[following, row, 0] * only
        return
    for row in range(n_rows):
        for following in range(n_states):
            for run in range(runs):
                worth[row, run] += tables[following, row, run] * value[following, run]


@_compiled(
    "boolean(float64[:, :, ::1], float64[:, ::1], int64[:, :, ::1], float64[:, ::1], "
    "float64[:, ::1])"
)
def _induce(
    tables: FloatArray, rewards: FloatArray, policy: IntArray, value: FloatArray, worth: FloatArray
) -> bool:
    """Enter the best action at each step, in each state and run; return whether all are sure.

    ``tables`` has shape (next state, state * action, run), ``rewards`` and ``policy`` likewise have
    the runs last; what states and actions are worth is written to the others. An action is sure if
    sums in whatever order make it better than those before, or no better; or if nothing was added.
    """
    horizon, n_states, runs = policy.shape
    n_rows = len(rewards)
    n_actions = n_rows // n_states
    mass, paid, everything = _sizes(tables, rewards)
    off, largest, doubts = 0.0, 0.0, 0  # how far values are off, and their size, at the most
    for step in range(horizon - 1, -1, -1):
        _back_up(tables, rewards, value, worth, step < horizon - 1)
        if step < horizon - 1:
            off = mass * off + (n_states + 2) * _KNOWN * (mass * largest + paid)
        nothing = 4 * off if off > 0 else -1.0
        for state in range(n_states):
            for run in range(runs):
                value[state, run], policy[step, state, run] = worth[state * n_actions, run], 0
            for action in range(1, n_actions):
                other = worth[state * n_actions + action]
                for run in range(runs):
                    gap = other[run] - value[state, run]
                    doubts += abs(gap) <= nothing
                    value[state, run] = other[run] if gap > 0 else value[state, run]
                    policy[step, state, run] = action if gap > 0 else policy[step, state, run]
        largest = mass * largest + paid
    return doubts == 0 and off + largest + everything < np.inf


def greedy(transition: FloatArray, reward: FloatArray, horizon: int) -> IntArray | None:
    """Return the policies of `privrl.envs.planning.plan` for tables that all have the same axes."""
    *batch, n_states, n_actions, n_next = transition.shape
    if n_states > _FEW_STATES or n_next != n_states or transition.shape[:-1] != reward.shape:
        return None
    n_rows = n_states * n_actions
    rows, rewards = transition.reshape(-1, n_rows, n_next).T, reward.reshape(-1, n_rows).T
    policies = []
    for first in range(0, rewards.shape[1], _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        tables, paid = (np.array(each[..., part], order="C") for each in (rows, rewards))
        policy = np.empty((horizon, n_states, paid.shape[1]), np.int64)
        if not _induce(tables, paid, policy, np.empty(policy.shape[1:]), np.empty(paid.shape)):
            return None
        policies.append(policy)
    policy = np.concatenate(policies, axis=2) if len(policies) > 1 else policies[0]
    return policy.transpose(2, 0, 1).reshape(*batch, horizon, n_states)


@_compiled(
    "void(int64[:, :, ::1], float64[:, ::1], float64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[:, ::1])"
)
def _walk(
    policy: IntArray,
    draws: FloatArray,
    ends: FloatArray,
    first: IntArray,
    next_state: IntArray,
    cell: IntArray,
    rows: IntArray,
    counts: IntArray,
) -> None:
    """Count where walkers go from the row of the start; ``first`` has each row's first entry."""
    horizon, n_states, runs = policy.shape
    start_row, walkers = len(first) - 2, draws.shape[1]
    n_actions, each = start_row // n_states, walkers // runs
    for step in range(-1, horizon):
        for walker in range(walkers):
            row, run = rows[walker], walker // each
            position = row + draws[step, walker]
            entry, after = first[row], first[row + 1]
            while after - entry > _FEW_ENTRIES:
                middle = (entry + after) // 2
                if ends[middle] <= position:
                    entry = middle
                else:
                    after = middle + 1
            for other in range(entry, after):  # without a branch that nobody can foretell
                entry += ends[other] <= position
            if step >= 0:
                counts[run, cell[entry]] += 1
            if step < horizon - 1:
                state = next_state[entry]
                rows[walker] = state * n_actions + policy[step + 1, state, run]


def walked(
    policy: IntArray, draws: FloatArray, rows: Any, cell: IntArray, shape: tuple[int, int, int]
) -> IntArray:
    """Return what `privrl.envs.rollouts` counts, of as many walkers in each run."""
    counts = np.zeros((len(policy), *shape), np.int64)
    tables = rows.ends, rows.first, rows.next_state, cell
    begin = np.full(draws.shape[1], rows.start_row)
    policies = np.require(policy.transpose(1, 2, 0), np.int64, ["C", "W"])
    _walk(policies, draws, *tables, begin, counts.reshape(len(policy), -1))
    return counts


@_compiled("void(int64[:, :, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def _enter(moves: IntArray, rows: IntArray, cells: IntArray, totals: IntArray) -> None:
    runs, n_states, width = moves.shape
    for run in range(runs):
        for state in range(n_states):
            row = rows[run, state]
            for k in range(width):
                totals[run, cells[row, k]] += moves[run, state, k]


def entered(moves: IntArray, rows: IntArray, cells: IntArray, totals: IntArray) -> bool:
    """Add what `privrl.envs.rollouts` does to tables of all runs, in place."""
    _enter(moves, np.ascontiguousarray(rows), cells, totals.reshape(len(totals), -1))
    return True


@_compiled(numba.boolean(_READ_ONLY, _READ_ONLY, *3 * [numba.float64]))
def _all_fit(counts: FloatArray, past: FloatArray, some: float, grid: float, total: float) -> bool:
    """Return whether all are whole multiples of the grid, and sums with some of the past small."""
    wrong = 0
    for i in range(len(counts)):
        steps = counts[i] / grid
        whole = (steps >= 0) & (steps == np.rint(steps)) & (counts[i] + some * past[i] < total)
        wrong += not whole
    return wrong == 0


def fit(counts: FloatArray, past: Sequence[FloatArray], grid: float, total: float) -> bool | None:
    """Return True if `privrl.samplers.base` has nothing against counts, else None."""
    if counts.dtype != np.float64 or [each.shape for each in past] not in ([], [counts.shape]):
        return None
    flat = [np.ascontiguousarray(table).reshape(-1) for table in (counts, *past)]
    return _all_fit(flat[0], flat[-1], float(len(past)), grid, total) or None


@_compiled("UniTuple(float64[:, ::1], 2)(float64[:, ::1], float64[:, ::1], int64[:, ::1], int64)")
def _bin_losses(
    logs: FloatArray, probs: FloatArray, pairs: IntArray, n_bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return the masses of pairs of rows in bins of their losses."""
    p, q = np.zeros((len(pairs), n_bins)), np.zeros((len(pairs), n_bins))
    for i in range(len(pairs)):
        first, second = pairs[i]
        for output in range(logs.shape[1]):
            loss = (logs[first, output] - logs[second, output]) + n_bins / 2
            place = min(max(int(loss), 0), n_bins - 1)
            p[i, place] += probs[first, output]
            q[i, place] += probs[second, output]
    return p, q


def binned(
    logs: FloatArray, probs: FloatArray, pairs: IntArray, n_bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return the masses that `privrl.mechanisms.certificate` moves to the ends of bins."""
    return _bin_losses(
        np.ascontiguousarray(logs),
        np.ascontiguousarray(probs),
        np.ascontiguousarray(pairs, np.int64),
        n_bins,
    )


@_compiled(
    "Tuple((float64[::1], uint32[::1], int64[::1], uint32[::1]))(float64[::1], int64[::1], "
    "int64[::1])"
)
def _side_by_side(
    entries: FloatArray, columns: IntArray, pointers: IntArray
) -> tuple[FloatArray, Any, IntArray, Any]:
    """Return the first entry of each row, then the second ones, and so on, and their columns.

    Longer rows come first, so that those with a k-th entry are the first ``numbers[k]`` of
    ``order``.
    """
    lengths = pointers[1:] - pointers[:-1]
    numbers = np.zeros(lengths.max(), np.int64)
    for length in lengths:
        numbers[:length] += 1
    free = np.append(numbers, 0)  # the place of the next row of each length
    order = np.empty(len(lengths), np.uint32)
    for row in range(len(lengths)):
        order[free[lengths[row]]] = row
        free[lengths[row]] += 1
    new, laid, theirs = 0, np.empty_like(entries), np.empty(len(columns), np.uint32)
    for k in range(len(numbers)):
        for place in range(numbers[k]):
            old = pointers[order[place]] + k
            laid[new], theirs[new] = entries[old], columns[old]
            new += 1
    return laid, theirs, numbers, order


@_inline
def _worst(total: FloatArray, order: IntArray, found: FloatArray) -> None:
    """Enter the value of each row, the least one of all matrices."""
    size = len(found)
    if len(order) == size:
        for row in range(size):
            found[order[row]] = total[row]
    else:
        found[:] = np.inf
        for row in range(len(order)):
            found[order[row] % size] = min(found[order[row] % size], total[row])


@_inline
def _first_best(found: FloatArray, value: FloatArray, chosen: IntArray) -> None:
    """Enter the best value of each place, and its first action."""
    places = len(value)
    for place in range(places):
        value[place], chosen[place] = found[place], 0
    for action in range(1, len(found) // places):
        others = found[action * places : (action + 1) * places]
        for place in range(places):  # without a branch
            better = others[place] > value[place]
            value[place] = others[place] if better else value[place]
            chosen[place] = action if better else chosen[place]


@_inline
def _largest(values: FloatArray, some: BoolArray) -> float:
    """Return the largest of some values, or 0; of two at a time, none waits for the other."""
    first = second = 0.0
    half = len(values) // 2
    for place in range(half):
        here = values[place] if some[place] else 0.0
        there = values[half + place] if some[half + place] else 0.0
        first = here if here > first else first
        second = there if there > second else second
    last = values[-1] if some[-1] else 0.0
    larger = second if second > first else first
    return last if last > larger else larger


@_compiled(
    "void(float64[::1], int64[::1], int64[::1], float64[:, ::1], boolean[:, ::1], boolean[:, ::1], "
    "boolean[:, ::1], float64[::1], float64, float64[::1], int64[:, ::1])"
)
def _back(
    entries: FloatArray,
    columns: IntArray,
    pointers: IntArray,
    reward: FloatArray,
    free: BoolArray,
    put_off: BoolArray,
    perhaps: BoolArray,
    worst: FloatArray,
    discount: float,
    worth: FloatArray,
    policy: IntArray,
) -> None:
    """Enter the best actions, with the rows of all matrices one after the other."""
    horizon, places = policy.shape
    size, (runs, n_states) = reward.size, perhaps.shape
    paid, some = reward.reshape(-1), free.any()
    entries, columns, numbers, order = _side_by_side(entries, columns, pointers)
    total, found = np.empty(len(order)), np.empty(size)
    value, chosen = np.empty(places), np.empty(places, np.int64)
    for step in range(horizon - 1, -1, -1):
        first = numbers[0]  # all rows: each has an entry, for what is unknown
        for row in range(first):
            total[row] = entries[row] * worth[columns[row]]
        for number in numbers[1:]:  # one product after the other is added, as in SciPy
            part, where = entries[first : first + number], columns[first : first + number]
            for row in range(number):
                total[row] += part[row] * worth[where[row]]
            first += number
        _worst(total, order, found)
        for row in range(size):
            found[row] += paid[row]
        if some:
            low = min(worst[step], 0.0)
            for action in range(len(reward)):
                for place in range(places):  # without a branch
                    row, late = action * places + place, free[action, place] & put_off[step, place]
                    found[row] = low if late else found[row]
        _first_best(found, value, chosen)
        for place in range(places):
            policy[step, place] = chosen[place]
            worth[place] = value[place] * discount
        for run in range(runs):
            values = value[run * n_states : (run + 1) * n_states]
            worth[places + 1 + run] = _largest(values, perhaps[run]) * discount
        worth[-1] = worst[step] * discount


def induced(
    matrices: Sequence[Any],
    reward: FloatArray,
    postponed: tuple[BoolArray, BoolArray] | None,
    perhaps: BoolArray,
    worst: FloatArray,
    *,
    discount: float,
) -> IntArray:
    """Return what `privrl.agents.sparse_model` finds by products of sparse matrices."""
    policy = np.empty((len(worst), reward.shape[1]), np.int64)
    never = np.zeros(reward.shape, np.bool_), np.zeros(policy.shape, np.bool_)
    free, put_off = never if postponed is None else postponed
    entries = np.concatenate([each for each, _, _ in matrices])
    columns = np.concatenate([each for _, each, _ in matrices], dtype=np.int64)
    lengths = np.concatenate([np.diff(each) for _, _, each in matrices])
    pointers = np.append(0, np.cumsum(lengths, dtype=np.int64))
    given: Any = (reward, free, put_off, perhaps, worst)
    tables = (np.require(each, None, ["C", "W"]) for each in given)
    worth = np.zeros(reward.shape[1] + len(perhaps) + 2)
    rest: Any = (*tables, discount, worth, policy)
    _back(entries, columns, pointers, *rest)
    return policy


@_compiled(
    "boolean(int64[:, ::1], float64[::1], float64[::1], float64, float64, float64, float64, int64, "
    "float64[::1])"
)
def _bisect(
    seen: IntArray,
    spike: FloatArray,
    slab: FloatArray,
    prior: float,
    pseudo: float,
    least: float,
    most: float,
    steps: int,
    weights: FloatArray,
) -> bool:
    """Enter the weight of each row, and return False where the order of a sum may decide."""
    for row in range(len(seen)):
        bins, low, high = np.flatnonzero(seen[row]), least, most
        for _ in range(steps):
            weight = np.sqrt(low * high)
            slope = size = 0.0
            for place in bins:
                part = weight * slab[place] + (1 - weight) * spike[place]
                part = (slab[place] - spike[place]) / part * seen[row, place]
                slope, size = slope + part, size + abs(part)
            slope += pseudo * (prior / weight - (1 - prior) / (1 - weight))
            # Sums of n numbers, in two orders, differ by less than n times this of their sizes.
            if not abs(slope) > (len(bins) + 1) * 2.0**-52 * size:
                return False
            low, high = (weight, high) if slope > 0 else (low, weight)
            weights[row] = weight
    return True


def fractions(
    seen: IntArray,
    spike: FloatArray,
    slab: FloatArray,
    prior: float,
    pseudo: float,
    *,
    least: float,
    most: float,
    steps: int,
) -> FloatArray | None:
    """Return what `privrl.agents.sparse_model` finds by bisection, or None."""
    given: Any = (np.require(seen, np.int64, ["C", "W"]), spike, slab.copy())
    weights = np.empty((len(seen), 1))
    rest: Any = (prior, pseudo, least, most, steps, weights.reshape(-1))
    return weights if _bisect(*given, *rest) else None
