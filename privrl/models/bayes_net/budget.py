"""The tables of a network that are worth their noise, once its nodes were counted one by one.

A table takes its part of the budget, and may be so large that noise drowns every cell. The
information in a table is predicted from public and released numbers: the noise that it would have,
and the number of records that its cells would hold by the noisy counts of the nodes alone.

**The model.** A cell that would hold E records if the nodes were independent holds ``E (1 + z)``,
where z has mean 0 and a variance v. The mean of z over each row and each column of the table is 0,
because z only moves records. So v is small in a cell that holds most of its row and column. If
`_TUNED.effect` is the variance before both means are subtracted, a cell keeps ``(1 − 2 p + Σ p²)
(1 − 2 q + Σ q²)`` times that, where p and q are the probabilities of the row and of the column. The
information of an edge is proportional to ``(1 − Σ p²) (1 − Σ q²)``. It vanishes if one of the two
nodes nearly always has the same value.

Noise of variance ``1 / w`` and chance, of variance E, hide the cell. Of its ``E v / (2 n)`` nats
per record the part ``E v / (E v + 1 + 1 / (w E))`` is found. A table has this information about
each parent alone, its noise summed over the other parents, and about all parents together, in equal
parts. A node's own counts with noise of variance ``1 / w`` lose ``p / (2 + 2 w (n p)²)`` nats in a
cell of probability p.

**The division.** The slopes of all gains fall with w. So their sum is largest where the slopes are
equal, with w = 0 for those whose slope is smaller from the start. This model may be wrong, so it
only decides which tables are counted: those to which it gives half of their part by the fourth
roots of the numbers of cells, and those of which it expects to find most of the information. The
other tables lose their edges, and their nodes are counted alone once more. The budget is divided by
the roots, so that a network without edges is as good as one that never had any.

References
----------
C. Dwork, G. Rothblum and S. Vadhan. *Boosting and differential privacy* (2010), of adaptive
composition; here the cost of the second round does not depend on the first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privrl.models.bayes_net.structure import Structure
from privrl.numerics.typing import FloatArray


@dataclass(frozen=True)
class _Tuned:
    """What an edge is expected to tell, and which tables are worth their noise.

    They were chosen on the sets that docs/results/networks.md calls "chosen on", on other
    splits. Sizes of blocks and chunks bound memory, and the smallest and largest numbers keep
    results within floats; none of these changes a result by more than rounding.
    """

    effect: float = 0.3  # settled on data; the median edge of five sets has 0.1 to 0.3
    first: float = 0.2  # of the budget, at most, for the first round
    chance: float = 4.0  # by how much a first variance need not be below that of chance
    chance_chosen: float = 0.5  # the same where parents are chosen, whose tables count nodes again
    enough: float = 0.5  # of a table's part by roots, above which it is counted
    clear: float = 0.7  # or of its information
    sample: int = 2048  # cells of a table that are looked at
    halvings: int = 60
    tiny: float = 1e-300


_TUNED = _Tuned()


_PARTS = np.geomspace(1e-9, 1.0, 90)  # of the budget


def first_precisions(
    structure: Structure, n_records: float, precision: float, *, chosen: bool = False
) -> FloatArray:
    """Return the precisions (1 / variance) for counting each node alone, at first, shape (V,).

    Their sum is below ``precision``, that of both rounds together: precisions add up as the costs
    of Gaussian noise do. ``chosen`` is whether parents or pairs are to be chosen.
    """
    sizes = np.array([structure.sizes[node] for node in structure.nodes], np.float64)
    chance = _TUNED.chance_chosen if chosen else _TUNED.chance
    return np.minimum(_TUNED.first * precision * _by_roots(sizes), chance * sizes / n_records)


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
    tables, found = zip(
        *(_of_table(structure, node, of, grid, n_records) for node in structure.nodes), strict=True
    )
    best = _level(np.array([*alone, *tables]), grid, precision).reshape(2, -1)
    clear = [
        np.interp(w, grid, parts) > _TUNED.clear for w, parts in zip(best[1], found, strict=True)
    ]
    kept = (best[1] > _TUNED.enough * precision * _by_roots(_cells(structure))) | clear
    kept &= [bool(own) for own in structure.parents.values()]
    parents = {
        node: structure.parents[node] if keep else ()
        for node, keep in zip(structure.nodes, kept, strict=True)
    }
    left = Structure(parents, structure.sizes)
    return left, precisions_of(left, precision)


def precisions_of(structure: Structure, precision: float) -> FloatArray:
    """Return the precisions of the tables of a structure, as the roots of their numbers of cells.

    Numbers > 0 of shape (V,) that sum to ``precision`` within rounding.
    """
    return precision * _by_roots(_cells(structure))


def _cells(structure: Structure) -> FloatArray:
    """Return the number of cells of each node's table, shape (V,)."""
    return np.array([math.prod(structure.shape(node)) for node in structure.nodes], np.float64)


def _by_roots(cells: FloatArray) -> FloatArray:
    """Return parts as the fourth roots of numbers of cells; they sum to 1."""
    return cells**0.25 / (cells**0.25).sum()


def _slopes_alone(p: FloatArray, precisions: FloatArray, n_records: float) -> FloatArray:
    """Return how the loss of a node's own counts falls with precision, shape (G,)."""
    square = (n_records * p) ** 2
    return 0.5 * (p * square / (1 + precisions[:, None] * square) ** 2).sum(axis=1)


def _of_table(
    structure: Structure,
    node: str,
    margins: dict[str, FloatArray],
    precisions: FloatArray,
    n_records: float,
) -> tuple[FloatArray, FloatArray]:
    """Return how the information of a table rises with precision, and the part that is found.

    Both of shape (G,), and 0 without parents.
    """
    own = structure.parents[node]
    if not own:
        return np.zeros(len(precisions)), np.zeros(len(precisions))
    slopes, known_part, most_known = np.zeros(len(precisions)), np.zeros(len(precisions)), 0.0
    for some in [(parent,) for parent in own] + ([own] if len(own) > 1 else []):
        rows = np.ones(1)
        for name in some:
            rows = np.multiply.outer(rows, margins[name]).ravel()
        expected = n_records * np.multiply.outer(rows, margins[node]).ravel()
        left = np.multiply.outer(_left(rows), _left(margins[node])).ravel()
        summed = math.prod(structure.shape(node)) / expected.size  # cells of the table in each
        every = max(1, round(expected.size / _TUNED.sample))
        sample = np.argsort(expected)[every // 2 :: every]
        each, v = expected[sample], _TUNED.effect * left[sample]
        known = each * (each * v + 1) / summed
        hidden = 1 / (1 + precisions[:, None] * known)
        most = (each * v) ** 2 / (each * v + 1) * expected.size / each.size
        slopes += hidden**2 @ (most * known)
        known_part += (1 - hidden) @ most
        most_known += float(most.sum())
    n_views = len(own) + (len(own) > 1)
    return slopes / (2 * n_records * n_views), known_part / most_known


def _left(p: FloatArray) -> FloatArray:
    """Return the part of each cell's variance that remains without the mean over all cells."""
    return 1 - 2 * p + (p**2).sum()


def _level(slopes: FloatArray, grid: FloatArray, precision: float) -> FloatArray:
    """Return the precisions at which slopes, shape (I, G), are equal, or 0; shape (I,)."""
    logs = -np.log(np.maximum(slopes, _TUNED.tiny))  # they rise along the grid

    def at(level: float) -> FloatArray:
        each = [np.interp(level, rises, np.log(grid)) for rises in logs]
        return np.where(logs[:, 0] < level, np.exp(each), 0.0)

    low, high = float(logs.min()), float(logs.max()) + 1
    for _ in range(_TUNED.halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() <= precision else (low, middle)
    return at(high)
