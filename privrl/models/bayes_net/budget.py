"""How a network's budget is divided once its nodes were counted one by one; which edges go.

A table takes its part of the budget, and may be so large that every cell of it drowns in noise.
What a table will tell is foreseen from what is public or released: how much noise it would have,
and how many records its cells are expected to hold, by the noisy counts of the nodes alone.

**The model.** A cell that would hold E records if the nodes had nothing to do with each other holds
``E (1 + z)``, where z has mean 0 and variance v, `_EFFECT`. It is hidden by noise of variance
``1 / w`` and by chance, of variance E. So of the ``E v / (2 n)`` nats to a record that the cell
could tell, the part ``E v / (E v + 1 + 1 / (w E))`` is found. A table tells this of each parent
alone, its noise summed over the other parents, and of all parents together, in equal parts. A
node's own counts with noise of variance ``1 / w`` lose ``p / (2 + 2 w (n p)²)`` nats in a cell of
probability p.

**The division.** All gains have slopes in w that fall. So their sum is largest where slopes are
equal, and where w = 0 for those whose slope is below that from the start. A table with next to
nothing is not counted: its edges go, and its node is counted alone once more. Half of the budget is
divided so, and half by the fourth roots of the numbers of cells, for the model may be wrong.

References
----------
C. Dwork, G. Rothblum and S. Vadhan. *Boosting and differential privacy* (2010), of composition
where what is asked depends on what was answered; here the cost of the second round does not.
"""

import math
from collections.abc import Sequence

import numpy as np

from privrl._typing import FloatArray
from privrl.models.bayes_net.structure import Structure

_EFFECT = 0.1
_FIRST = 0.2  # of the budget, at most, for the first round
_CHANCE = 4.0  # how many times smaller than that of chance a first variance need not be
_LEAST = 1e-3  # of the budget, below which a table is not counted
_SAMPLE = 2048  # cells of a table that are looked at
_PARTS = np.geomspace(1e-9, 1.0, 90)  # of the budget
_HALVINGS = 60
_TINY = 1e-300


def first_precisions(structure: Structure, n_records: float, precision: float) -> FloatArray:
    """Return the precisions (1 / variance) for counting each node alone, at first.

    Parameters
    ----------
    structure : Structure
        Nodes and parents.
    n_records : float
        The public number of records, > 0.
    precision : float
        Of both rounds together, > 0: precisions add up as the costs of Gaussian noise do.

    Returns
    -------
    array, shape (V,)
        Numbers > 0, whose sum is below ``precision``.
    """
    sizes = np.array([structure.sizes[node] for node in structure.nodes], np.float64)
    return np.minimum(_FIRST * precision * _by_roots(sizes), _CHANCE * sizes / n_records)


def second_round(
    structure: Structure,
    margins: Sequence[FloatArray],
    known: FloatArray,
    n_records: float,
    precision: float,
) -> tuple[Structure, FloatArray]:
    """Return the structure that is left, and the precisions for its tables.

    Parameters
    ----------
    structure : Structure
        Nodes and parents.
    margins : sequence of array, shape (K,)
        Each node's probabilities, from the first round.
    known : array, shape (V,)
        The precisions of the first round.
    n_records : float
        The public number of records, > 0.
    precision : float
        Of the second round, > 0.

    Returns
    -------
    structure : Structure
        With all parents of a node or none.
    precisions : array, shape (V,)
        Numbers > 0 that sum to ``precision`` within rounding.
    """
    of = dict(zip(structure.nodes, margins, strict=True))
    grid = precision * _PARTS
    alone = [
        _slopes_alone(of[node], grid + first, n_records)
        for node, first in zip(structure.nodes, known, strict=True)
    ]
    tables = [_slopes_of_table(structure, node, of, grid, n_records) for node in structure.nodes]
    best = _level(np.array(alone + tables), grid, precision).reshape(2, -1)
    kept = best[1] > _LEAST * precision
    parents = {
        node: structure.parents[node] if keep else ()
        for node, keep in zip(structure.nodes, kept, strict=True)
    }
    left = Structure(parents, structure.sizes)
    foreseen = best[0] + np.where(kept, best[1], 0.0)
    cells = np.array([math.prod(left.shape(node)) for node in left.nodes], np.float64)
    return left, precision * (foreseen / foreseen.sum() + _by_roots(cells)) / 2


def _by_roots(cells: FloatArray) -> FloatArray:
    """Return parts as the fourth roots of numbers of cells; they sum to 1."""
    roots = cells**0.25
    return roots / roots.sum()


def _slopes_alone(p: FloatArray, precisions: FloatArray, n_records: float) -> FloatArray:
    """Return by how much a node's own counts lose less with more precision, shape (G,)."""
    square = (n_records * p) ** 2
    return 0.5 * (p * square / (1 + precisions[:, None] * square) ** 2).sum(axis=1)


def _slopes_of_table(
    structure: Structure,
    node: str,
    margins: dict[str, FloatArray],
    precisions: FloatArray,
    n_records: float,
) -> FloatArray:
    """Return by how much a table tells more with more precision, shape (G,); 0 without parents."""
    own = structure.parents[node]
    found = np.zeros(len(precisions))
    told = [(parent,) for parent in own] + ([own] if len(own) > 1 else [])
    for some in told:
        expected = np.array([n_records])
        for name in (*some, node):
            expected = np.multiply.outer(expected, margins[name]).ravel()
        summed = math.prod(structure.shape(node)) / expected.size  # cells of the table in each
        every = max(1, round(expected.size / _SAMPLE))
        each, v = np.sort(expected)[every // 2 :: every], _EFFECT
        hidden = 1 + precisions[:, None] / summed * each * (each * v + 1)
        slopes = (each**3 * v**2 / hidden**2).sum(axis=1) / (2 * n_records * summed)
        found += slopes * (expected.size / each.size) / len(told)
    return found


def _level(slopes: FloatArray, grid: FloatArray, precision: float) -> FloatArray:
    """Return the precisions at which slopes, shape (I, G), are equal, or 0; shape (I,)."""
    logs = -np.log(np.maximum(slopes, _TINY))  # they rise along the grid

    def at(level: float) -> FloatArray:
        each = [np.interp(level, rises, np.log(grid)) for rises in logs]
        return np.where(logs[:, 0] < level, np.exp(each), 0.0)

    low, high = float(logs.min()), float(logs.max()) + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() <= precision else (low, middle)
    return at(high)
