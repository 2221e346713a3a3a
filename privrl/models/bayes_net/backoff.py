"""Conditional probabilities from noisy tables, shrunk towards predictions of fewer parents.

A table with many configurations of parents has few records in each row, and noise in every cell.
Its sums over a parent have less noise per record. So the table is estimated without parents first,
with the noisy counts of the node alone if they were released. Then it is estimated for each parent,
for each pair, and so on up to all of them. Each time the rows are shrunk, as far as the noise makes
it likely, towards a base that the smaller tables predict. All of it is computed from released
numbers and public facts, and is free.

**The model** is that of `privrl.models.estimates.tables`. The count of a cell follows a gamma law
with mean ``t b`` and shape ``κ b``: t is the row's expected total, b the base's probability of the
cell, and κ a strength, the number of records that the base is worth. The released number is the
count with noise of known size. The counts' posterior means, with κ b added as for exact counts, are
averaged over strengths and bases. The weights are their evidence and a weak prior on the strength:
lognormal around 100 records, or around three for each cell towards the uniform row.

**The bases.** Each smaller table with one parent less; their normalised geometric mean; and the
table without interaction of the highest order, ``log b = Σ_T (−1)^(|S| − |T| + 1) log p_T`` over
the proper subsets T of the parents S; for two parents that is ``p(k | a) p(k | b) / p(k)``.

**Totals.** The network's own probabilities of a node's parents, which are estimated before the
node, predict the totals of its rows; the noisy row sums of the table correct them in the same way.
The noise that the cells of a row share is then removed, as far as the total is known better than
the sum.

References
----------
H. Jeffreys. *Theory of probability* (1939). Weighing hypotheses by their evidence.

S. Chen and J. Goodman. *An empirical study of smoothing techniques for language modeling* (1999).
Back-off to fewer conditions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.bayes_net.elimination import TooLarge, joint
from privrl.models.bayes_net.structure import Structure
from privrl.models.estimates.posterior import LEAST_DEVIATION, posterior_counts
from privrl.numerics.typing import FloatArray

_STRENGTHS = np.geomspace(0.5, 5e4, 7)  # κ, in records


@dataclass(frozen=True)
class _Tuned:
    """How the rows of a table are estimated from tables of fewer parents.

    They were chosen on the sets that docs/results/networks.md calls "chosen on", on other
    splits. Sizes of blocks and chunks bound memory, and the smallest and largest numbers keep
    results within floats; none of these changes a result by more than rounding.
    """

    likely_strength: float = 100.0  # of a base: real tables have such
    sample: int = 2048  # cells that strengths and bases are weighed on
    least_weight: float = 1e-2  # strengths and bases below are left out
    most_parents: int = 4  # up to which all subsets of parents are estimated
    chunk: int = 2**14  # cells at once
    tiny: float = 1e-100


_TUNED = _Tuned()


def family_probabilities(
    structure: Structure,
    released: Sequence[ReleasedTable],
    n_records: float,
    margins: Sequence[ReleasedTable] | None = None,
) -> dict[str, FloatArray]:
    """Return the conditional probabilities of every node of a network.

    Parameters
    ----------
    structure : Structure
        Nodes and parents.
    released : sequence of ReleasedTable
        Noisy counts of each node, in the order of the nodes.
    n_records : float
        The public number of records, > 0.
    margins : sequence of ReleasedTable, optional
        Noisy counts of each node alone, shape (1, K), in the same order.

    Returns
    -------
    dict from str to array, shape (R, K)
        Probabilities > 0; each row sums to 1 within rounding.
    """
    tables = dict(zip(structure.nodes, released, strict=True))
    alone = dict(
        zip(structure.nodes, [None] * len(tables) if margins is None else margins, strict=True)
    )
    done: dict[str, FloatArray] = {}
    for node in structure.order:
        totals = n_records * _parents_probabilities(structure, done, node)
        done[node] = conditional_rows(
            tables[node], structure.parent_sizes(node), totals, alone[node]
        )
    return {node: done[node] for node in structure.nodes}


def conditional_rows(
    table: ReleasedTable,
    parent_sizes: Sequence[int],
    totals: FloatArray,
    margin: ReleasedTable | None = None,
) -> FloatArray:
    """Return the conditional probabilities of one node.

    Parameters
    ----------
    table : ReleasedTable
        Its noisy counts: a row for each configuration of the parents, the last parent fastest.
    parent_sizes : sequence of int
        The number of values of each parent.
    totals : array, shape (R,)
        How many records each row is expected to have, from elsewhere than this table, > 0; their
        sum is taken as exact.
    margin : ReleasedTable, optional
        Noisy counts of the node alone, shape (1, K), besides those in the table.

    Returns
    -------
    array, shape (R, K)
        Probabilities > 0; each row sums to 1 within rounding.
    """
    cells = table.values.shape[1]
    shape = tuple(parent_sizes)
    deviation = max(table.deviation, LEAST_DEVIATION)
    totals, uncertainty = _corrected_totals(table.values.sum(axis=1), deviation, cells, totals)
    counts = table.values.reshape(*shape, cells)
    totals, uncertainty = totals.reshape(shape), uncertainty.reshape(shape)
    done: dict[tuple[int, ...], FloatArray] = {}
    for kept in _subsets(len(shape)):
        left_out = tuple(i for i in range(len(shape)) if i not in kept)
        n_added = math.prod(shape[i] for i in left_out)
        expected = totals.sum(axis=left_out).reshape(-1)
        noisy = counts.sum(axis=left_out).reshape(-1, cells)
        variance, laplace = n_added * deviation**2, table.mechanism == "laplace" and n_added == 1
        if margin is not None and not kept:
            both = together(ReleasedTable(noisy, "gaussian", math.sqrt(variance)), margin)
            noisy, variance, laplace = both.values, both.deviation**2, False
        # All of a row's cells are moved so that they sum to what the total is thought to be.
        noisy = noisy - (noisy.sum(axis=1) - expected)[:, None] / cells
        spread = uncertainty.sum(axis=left_out).reshape(-1) if kept else np.zeros(1)
        variance = np.minimum(variance, variance * (1 - 1 / cells) + spread / cells**2)
        rates, _ = _averaged(
            noisy,
            np.sqrt(variance)[:, None],
            [expected[:, None] * base for base in _bases(done, kept, shape, cells)],
            expected[:, None],
            laplace=laplace,
            log_prior=_log_prior(_TUNED.likely_strength, 2.5)
            if kept
            else _log_prior(3 * cells, 1.5),
        )
        done[kept] = _normalised(rates).reshape(*(shape[i] for i in kept), cells)
    return done[tuple(range(len(shape)))].reshape(-1, cells)


def shrunk(table: ReleasedTable, base: FloatArray, n_records: float) -> FloatArray:
    """Return the probabilities of a table's cells, shrunk towards those of a base.

    Parameters
    ----------
    table : ReleasedTable
        Its noisy counts.
    base : array
        Probabilities that sum to 1, in the same shape.
    n_records : float
        The public number of records, > 0.
    """
    rates, _ = _averaged(
        table.values.reshape(1, -1),
        np.full((1, 1), max(table.deviation, LEAST_DEVIATION)),
        [n_records * base.reshape(1, -1)],
        np.full((1, 1), n_records),
        laplace=False,
        log_prior=_log_prior(_TUNED.likely_strength, 2.5),
    )
    return _normalised(rates).reshape(base.shape)


def together(one: ReleasedTable, other: ReleasedTable) -> ReleasedTable:
    """Return the mean of two noisy tables of the same counts, the less noisy with more weight."""
    first, second = (max(each.deviation, LEAST_DEVIATION) ** -2 for each in (one, other))
    mean = (first * one.values + second * other.values) / (first + second)
    return ReleasedTable(mean, "gaussian", (first + second) ** -0.5)


def _parents_probabilities(
    structure: Structure, done: Mapping[str, FloatArray], node: str
) -> FloatArray:
    """Return the probability of each configuration of a node's parents, shape (R,)."""
    rows, _ = structure.shape(node)
    try:
        weights = joint(structure, done, structure.parents[node], {}).ravel()
    except TooLarge:
        return np.full(rows, 1 / rows)
    return _normalised(np.maximum(weights, _TUNED.tiny))


def _corrected_totals(
    sums: FloatArray, deviation: float, n_cells: int, totals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the rows' totals given their noisy sums, and the variance that is left in them."""
    rows, n_records = len(sums), float(totals.sum())
    if rows == 1:
        return totals, np.zeros(1)
    noisy = sums - (sums.sum() - n_records) / rows
    counts, variance = _averaged(
        noisy[None],
        np.full((1, 1), deviation * math.sqrt(n_cells * (1 - 1 / rows))),
        [totals[None]],
        np.full((1, 1), n_records),
        laplace=False,  # a sum of many is nearly Gaussian
        log_prior=np.zeros(len(_STRENGTHS)),
        of_counts=True,
    )
    counts = np.maximum(counts[0], _TUNED.tiny)
    return counts * (n_records / counts.sum()), variance[0]


def _subsets(n_parents: int) -> list[tuple[int, ...]]:
    """Return the sets of parents to be estimated, smaller ones first."""
    if n_parents > _TUNED.most_parents:  # the first of them, the first two, ...
        return [tuple(range(size)) for size in range(n_parents + 1)]
    return [kept for size in range(n_parents + 1) for kept in combinations(range(n_parents), size)]


def _bases(
    done: Mapping[tuple[int, ...], FloatArray],
    kept: tuple[int, ...],
    shape: tuple[int, ...],
    n_cells: int,
) -> list[FloatArray]:
    """Return what smaller tables predict for the rows of some parents, each shape (R, K)."""
    if not kept:
        return [np.full((1, n_cells), 1 / n_cells)]
    full = (*(shape[i] for i in kept), n_cells)

    def log_rows(subset: tuple[int, ...]) -> FloatArray:
        """Return a smaller table's logarithms, repeated over the parents that it lacks."""
        lacking = tuple(axis for axis, i in enumerate(kept) if i not in subset)
        return np.broadcast_to(np.expand_dims(np.log(done[subset]), lacking), full)

    below = [subset for subset in combinations(kept, len(kept) - 1) if subset in done]
    logs = [log_rows(subset) for subset in below]
    if len(below) > 1:
        smaller = [each for size in range(len(kept)) for each in combinations(kept, size)]
        logs.append(np.mean(logs, axis=0))
        signs = [(-1) ** (len(kept) - len(each) + 1) for each in smaller]
        logs.append(
            np.sum([sign * log_rows(s) for sign, s in zip(signs, smaller, strict=True)], axis=0)
        )
    return [
        _normalised(np.exp(each - each.max(axis=-1, keepdims=True))).reshape(-1, n_cells)
        for each in logs
    ]


def _averaged(
    noisy: FloatArray,
    deviation: FloatArray,
    means: Sequence[FloatArray],
    totals: FloatArray,
    *,
    laplace: bool,
    log_prior: FloatArray,
    of_counts: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior means of all cells' rates, averaged over strengths and prior means.

    Parameters
    ----------
    noisy : array, shape (R, K)
        What was released.
    deviation : array, shape (R, 1)
        Standard deviation of its noise.
    means : sequence of array, shape (R, K)
        Prior means to choose from.
    totals : array, shape (R, 1)
        Their rows' sums.
    laplace : bool
        Whether the noise is Laplace's, not Gauss's.
    log_prior : array, shape (n_strengths,)
        Of the strengths.
    of_counts : bool
        Whether the counts themselves are wanted, and not the rates.

    Returns
    -------
    means, variances : array, shape (R, K)
        The variances are of the counts.
    """
    every = np.arange(noisy.size)
    some = every
    if noisy.size > _TUNED.sample:  # spread evenly, in step with no parent
        some = np.unique(
            (np.arange(_TUNED.sample) * (math.sqrt(5) - 1) / 2 % 1 * noisy.size).astype(int)
        )
    deviations = np.broadcast_to(deviation, noisy.shape)

    def posterior(
        mean: FloatArray, strength: float, cells: np.ndarray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return posterior_counts(
            noisy.ravel()[cells],
            deviations.ravel()[cells],
            np.maximum(mean, _TUNED.tiny).ravel()[cells],
            np.maximum(strength * mean / totals, _TUNED.tiny).ravel()[cells],
            laplace=laplace,
        )

    choices = [(mean, float(strength)) for mean in means for strength in _STRENGTHS]
    evidence = np.array([posterior(mean, strength, some)[2].sum() for mean, strength in choices])
    evidence = evidence * (noisy.size / some.size) + np.tile(log_prior, len(means))
    weights = np.exp(evidence - evidence.max())
    weights = np.where(weights < _TUNED.least_weight * weights.sum(), 0.0, weights)
    weights /= weights.sum()
    first, second, wanted = np.zeros((3, noisy.size))
    for weight, (mean, strength) in zip(weights, choices, strict=True):
        if weight == 0:
            continue
        for start in range(0, noisy.size, _TUNED.chunk):
            cells = every[start : start + _TUNED.chunk]
            count, square, _ = posterior(mean, strength, cells)
            first[cells] += weight * count
            second[cells] += weight * square
            total = np.broadcast_to(totals, noisy.shape).ravel()[cells]
            pseudo = strength * mean.ravel()[cells] / total
            rate = (pseudo + count) * total / (strength + total)
            wanted[cells] += weight * (count if of_counts else rate)
    variance = np.maximum(second - first**2, 0.0)
    return np.maximum(wanted, _TUNED.tiny).reshape(noisy.shape), variance.reshape(noisy.shape)


def _log_prior(likely: float, spread: float) -> FloatArray:
    """Return the logarithms of a lognormal law of strengths."""
    return -((np.log(_STRENGTHS / likely) / spread) ** 2) / 2


def _normalised(rows: FloatArray) -> FloatArray:
    rows = np.maximum(rows, _TUNED.tiny)
    return rows / rows.sum(axis=-1, keepdims=True)
