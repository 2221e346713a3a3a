"""Decomposable models: networks in which all parents of a node are related to each other.

Eliminate the columns one after the other: each is related to some that are left, its *neighbours*,
which then are related to each other as well. A model of such a graph is a Bayesian network: the
parents of a column are its neighbours, and with it they form a clique. The probabilities of a
clique sum to those of the parents, which all are in the clique of one of them. So one pass over
the columns normalises any product of tables on cliques, and a second one finds the probabilities
of all cliques.

**The fit.** Noisy tables y of counts, with noise of deviation s, are given for some sets of columns
that are in cliques. The model's probabilities μ minimise

    Σ_tables Σ_cells (n μ − y)² / (2 s²) − κ q log μ,

the negative logarithm of a posterior density: of Gaussian noise, and of a Dirichlet prior for each
table, worth κ records with probabilities q. Mirror descent changes the logarithm of the model by a
step along the negative gradient, a table for each of those given, so that all constraints of the
graph are kept; a step that does not reduce the sum is halved (McKenna, Sheldon and Miklau, 2019).

References
----------
S. Lauritzen. *Graphical models* (1996), of decomposable models.

R. McKenna, D. Sheldon and G. Miklau. *Graphical-model based estimation and inference for
differential privacy* (2019).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from privrl.numerics.typing import FloatArray

Names = tuple[str, ...]

MOST_CELLS = 2**16  # of all cliques together, where a model is extended
MOST_CARRIED = 2**26  # of all tables at a time, half a gigabyte
TINY = 1e-200  # the least probability that is divided by
_SMALLEST_STEP = 1e-300


@dataclass(frozen=True)
class _Tuned:
    """How tables are fitted, chosen on the sets that docs/results/networks.md calls "chosen on"."""

    records: float = 300.0  # κ: that a table's prior is worth
    growth: float = 1.3  # of the step, after one that helped
    largest_step: float = 20.0  # in the logarithm of a probability
    least_gain: float = 1e-4  # of the sum in one step; below it the fit ends


_TUNED = _Tuned()


class Noisy(NamedTuple):
    """A noisy table of counts, and what was thought of it before."""

    names: Names  # of its axes
    counts: FloatArray
    deviation: float
    prior: FloatArray  # probabilities > 0, in the same shape


def neighbours(sizes: Mapping[str, int], groups: Iterable[Collection[str]]) -> dict[str, Names]:
    """Return each column's neighbours in an order of elimination, from the first to the last.

    Parameters
    ----------
    sizes : mapping from str to int
        The columns, and how many cells each has.
    groups : iterable of collections of str
        Columns that are to be in one clique.

    Returns
    -------
    dict from str to tuple of str
        Columns that are eliminated later, in the order of the sizes. The next column is one whose
        clique has the fewest cells.
    """
    related: dict[str, set[str]] = {name: set() for name in sizes}
    for group in groups:
        for one, other in combinations(group, 2):
            related[one].add(other)
            related[other].add(one)
    found: dict[str, Names] = {}

    def cells(name: str) -> int:
        return sizes[name] * math.prod(sizes[other] for other in related[name])

    while related:
        name = min(related, key=cells)
        near = related.pop(name)
        for other in near:
            related[other] |= near
            related[other] -= {name, other}
        found[name] = tuple(each for each in sizes if each in near)
    return found


def joined(near: Mapping[str, Names], one: str, other: str) -> dict[str, Names]:
    """Return the neighbours, in the same order, where two columns are to be in one clique.

    The one that is eliminated later becomes a neighbour of the other, whose neighbours then are to
    be related to each other as well, and so on.
    """
    place = {name: i for i, name in enumerate(near)}
    early, late = sorted((one, other), key=place.__getitem__)
    larger = dict(near)
    larger[early] = tuple(dict.fromkeys((*near[early], late)))
    name = early
    while own := larger[name]:
        above = min(own, key=place.__getitem__)
        both = dict.fromkeys((*larger[above], *(each for each in own if each != above)))
        larger[above], name = tuple(both), above
    return larger


def total_cells(sizes: Mapping[str, int], near: Mapping[str, Names]) -> int:
    """Return the number of cells of all cliques together."""
    return sum(sizes[name] * math.prod(sizes[n] for n in own) for name, own in near.items())


class Decomposable:
    """A model on the cliques of an elimination; `normalise` after every change.

    Parameters
    ----------
    sizes : mapping from str to int
        The columns, and how many cells each has.
    parents : mapping from str to tuple of str
        Each column's neighbours, in the order of elimination, as `neighbours` returns them.

    Attributes
    ----------
    conditional : dict from str to array
        Given them (the first axes) the probabilities of the column.
    cliques : dict from str to array
        Their joint probabilities.
    """

    def __init__(self, sizes: Mapping[str, int], parents: Mapping[str, Names]) -> None:
        self.sizes, self.parents = dict(sizes), dict(parents)
        place = {name: i for i, name in enumerate(self.parents)}
        self._above = {
            name: min(own, key=place.__getitem__) if own else None
            for name, own in self.parents.items()
        }
        self._place = place
        self._logs = {
            name: np.zeros([sizes[each] for each in (*own, name)])
            for name, own in self.parents.items()
        }
        self.conditional: dict[str, FloatArray] = {}
        self.cliques: dict[str, FloatArray] = {}
        self.normalise()

    def axes(self, name: str) -> Names:
        """Return the columns of a clique, that of the name the last."""
        return (*self.parents[name], name)

    def home(self, names: Collection[str]) -> str | None:
        """Return whose clique holds all of some columns: that of the first to be eliminated."""
        first = min(names, key=self._place.__getitem__)
        return first if set(names) <= set(self.axes(first)) else None

    def multiply(self, names: Sequence[str], logs: FloatArray) -> None:
        """Multiply the model with a table, given by its logarithms; the columns are in a clique."""
        home = self.home(names)
        assert home is not None, "the columns are in a clique"
        self._logs[home] = self._logs[home] + _spread(logs, names, self.axes(home))

    def normalise(self) -> Self:
        """Sum the product of all tables, from the first column to the last and back."""
        logs = dict(self._logs)
        for name, own in self.parents.items():
            most = logs[name].max(axis=-1, keepdims=True)
            weights = np.exp(logs[name] - most)
            sums = weights.sum(axis=-1, keepdims=True)
            self.conditional[name] = weights / sums
            above = self._above[name]
            if above is not None:
                message = (np.log(sums) + most)[..., 0]
                logs[above] = logs[above] + _spread(message, own, self.axes(above))
        for name in reversed(self.parents):
            above = self._above[name]
            if above is None:
                self.cliques[name] = self.conditional[name]
            else:
                rows = onto(self.cliques[above], self.axes(above), self.parents[name])
                self.cliques[name] = rows[..., None] * self.conditional[name]
        return self

    def marginal(self, names: Sequence[str]) -> FloatArray:
        """Return the joint probabilities of columns of one clique."""
        home = self.home(names)
        assert home is not None, "the columns are in a clique"
        return onto(self.cliques[home], self.axes(home), names)

    def with_each(self, name: str, others: Collection[str]) -> dict[str, FloatArray]:
        """Return the joint probabilities of a column and each of some others, shape (K, L).

        Without those for which more than `MOST_CARRIED` cells would be needed. A column in a clique
        with the other one, or independent of it, needs none.
        """
        joint, missing = self._carried(name)
        found = {}
        for other in others:
            if other in joint:
                found[other] = onto(*joint[other], (name, other))
            elif other in self.axes(name):
                found[other] = self.marginal((name, other))
            elif other not in missing:
                found[other] = np.multiply.outer(self.marginal((name,)), self.marginal((other,)))
        return found

    def _carried(self, name: str) -> tuple[dict[str, tuple[FloatArray, Names]], set[str]]:
        """Return the probabilities of a column with cliques related to it, and those left out."""
        joint: dict[str, tuple[FloatArray, Names]] = {name: (self.cliques[name], self.axes(name))}
        left, missing = MOST_CARRIED, set[str]()
        below, above = name, self._above[name]
        while above is not None:  # given its own parents, it is independent of all above
            left -= self.sizes[name] * self.cliques[above].size
            if left < 0:
                missing.add(above)
            else:
                between, both = self.parents[below], (name, *self.axes(above))
                rows = onto(*joint[below], (name, *between))
                known = onto(self.cliques[above], self.axes(above), between)
                given = rows / np.maximum(known, TINY)
                joint[above] = _spread(given, (name, *between), both) * self.cliques[above], both
            below, above = above, self._above[above]
        for other in reversed(self.parents):
            up, axes = self._above[other], self.axes(other)
            if other in joint or other in missing:
                continue
            if name in axes:
                joint[other] = self.cliques[other], axes
            elif up in missing:
                missing.add(other)
            elif up in joint:
                left -= self.sizes[name] * self.cliques[other].size
                if left < 0:
                    missing.add(other)
                else:
                    rows = onto(*joint[up], (name, *self.parents[other]))
                    joint[other] = rows[..., None] * self.conditional[other], (name, *axes)
        return joint, missing

    def with_pair(self, one: str, other: str) -> "Decomposable":
        """Return a model of the same probabilities in which two columns are in one clique."""
        larger = Decomposable(self.sizes, joined(self.parents, one, other))
        for name, table in self.conditional.items():
            larger.multiply(self.axes(name), np.log(np.maximum(table, TINY)))
        return larger.normalise()

    def fit(self, tables: Sequence[Noisy], n_records: float, steps: int) -> Self:
        """Fit the model to noisy tables of columns in cliques, by mirror descent."""
        step = n_records**-2.0
        loss, gradients = _loss(self, tables, n_records)
        for _ in range(steps):
            before = dict(self._logs)
            while True:
                for table, gradient in zip(tables, gradients, strict=True):
                    most = _TUNED.largest_step
                    self.multiply(table.names, np.clip(-step * gradient, -most, most))
                found, following = _loss(self.normalise(), tables, n_records)
                if found <= loss:
                    break
                self._logs, step = dict(before), step / 2
                if step < _SMALLEST_STEP:
                    return self.normalise()
            gain, loss, gradients = loss - found, found, following
            step *= _TUNED.growth
            if gain < _TUNED.least_gain:
                break
        return self


def _loss(
    model: Decomposable, tables: Sequence[Noisy], n_records: float
) -> tuple[float, list[FloatArray]]:
    """Return what is minimised, and its gradient by the probabilities of every table."""
    loss, gradients = 0.0, []
    for names, counts, deviation, prior in tables:
        p = np.maximum(model.marginal(names), TINY)
        off = (n_records * p - counts) / deviation
        loss += float((off**2).sum()) / 2 - _TUNED.records * float((prior * np.log(p)).sum())
        gradients.append(n_records / deviation * off - _TUNED.records * prior / p)
    return loss, gradients


def onto(table: FloatArray, axes: Sequence[str], keep: Sequence[str]) -> FloatArray:
    """Return a table summed over all of its axes but a few, in the order of those."""
    gone = tuple(i for i, name in enumerate(axes) if name not in keep)
    left = [name for name in axes if name in keep]
    return table.sum(axis=gone).transpose([left.index(name) for name in keep])


def _spread(table: FloatArray, axes: Sequence[str], into: Sequence[str]) -> FloatArray:
    """Return a table with its axes in the order of others, and with one cell in those it lacks."""
    kept = [name for name in into if name in axes]
    moved = table.transpose([list(axes).index(name) for name in kept])
    return moved[tuple(slice(None) if name in axes else None for name in into)]
