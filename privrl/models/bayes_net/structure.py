"""Structures of Bayesian networks: the parents of each node, checked and in order.

A structure is public, or it was chosen privately (`privrl.models.bayes_net.choice`). It fixes the
shapes of all tables before the data are counted, so tables that do not fit into memory are refused
by public sizes alone.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from privrl.files.extras import extra
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.typing import FloatArray, IntArray

LARGEST = 2**24  # cells of one table, 128 megabytes


@dataclass(frozen=True, eq=False)
class Structure:
    """A directed acyclic graph of nodes with a public number of cells each.

    A node's table has a row for each configuration of its parents, in the order of counting with
    the last parent fastest, and a cell in each row for each value of the node.

    Parameters
    ----------
    parents : mapping from str to sequence of str
        For every node its parents, in the order in which the table's rows count them.
    sizes : mapping from str to int
        The number of cells of each node; others than nodes are left out.

    Raises
    ------
    ValueError
        If the structure is empty or has a cycle, a parent is unknown or repeated, a size is
        missing, or a table has more than 2^24 cells.
    """

    parents: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not isinstance(self.parents, Mapping) or not self.parents:
            raise ValueError(
                f"parents must map at least one node to its parents, got {shown(self.parents)}."
            )
        parents = {node: _check_own(node, own, self.parents) for node, own in self.parents.items()}
        absent = [node for node in parents if node not in self.sizes]
        if absent:
            raise ValueError(
                f"parents must name columns of the schema, got {listed(absent)}; it has "
                f"{listed(self.sizes)}."
            )
        object.__setattr__(self, "parents", MappingProxyType(parents))
        sizes = {node: int(self.sizes[node]) for node in parents}
        object.__setattr__(self, "sizes", MappingProxyType(sizes))
        _check_acyclic(parents)
        for node, own in parents.items():
            rows, cells = self.shape(node)
            if rows * cells > LARGEST:
                raise ValueError(
                    f"the table of {shown(node)} would have {rows} rows of {cells} cells, more "
                    "than "
                    f"{LARGEST} in all; take away a parent, or merge values of {shown(node)} or of "
                    f"{listed(own)}."
                )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in the order given."""
        return tuple(self.parents)

    @property
    def order(self) -> tuple[str, ...]:
        """The nodes, parents before children."""
        return tuple(networkx().topological_sort(_graph(self.parents)))

    def shape(self, node: str) -> tuple[int, int]:
        """Return the number of rows of a node's table, and of cells in each."""
        return math.prod(self.parent_sizes(node)), self.sizes[node]

    def parent_sizes(self, node: str) -> tuple[int, ...]:
        """Return the number of cells of each parent of a node."""
        return tuple(self.sizes[parent] for parent in self.parents[node])

    def with_ancestors(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return some nodes and all from which a path leads to one of them, in order."""
        graph, found = _graph(self.parents), set(nodes)
        for node in tuple(found):
            found |= networkx().ancestors(graph, node)
        return tuple(node for node in self.nodes if node in found)

    def rows(self, node: str, codes: Mapping[str, IntArray]) -> IntArray:
        """Return the row of a node's table of every record.

        Parameters
        ----------
        node : str
            Whose table.
        codes : mapping from str to array of int, shape (n,)
            Cell numbers of every record, at least of the node's parents.
        """
        return _rows(self.parents[node], self.sizes, codes)

    def counts(self, codes: Mapping[str, IntArray]) -> tuple[FloatArray, ...]:
        """Return the table of counts of every node, of records given as cell numbers."""
        return tuple(count_table(n, own, self.sizes, codes) for n, own in self.parents.items())

    def __eq__(self, other: object) -> bool:
        """Equal nodes, parents and sizes in equal order."""
        if not isinstance(other, Structure):
            return NotImplemented
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"Structure({dict(self.parents)!r}, {dict(self.sizes)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, Any], dict[str, int]]]:
        # A read-only view of a dictionary cannot be pickled or copied.
        return type(self), (dict(self.parents), dict(self.sizes))


def count_table(
    node: str, own: Sequence[str], sizes: Mapping[str, int], codes: Mapping[str, IntArray]
) -> FloatArray:
    """Return a node's table of counts with some parents, shape (R, K), of records' cell numbers."""
    rows, cells = math.prod(sizes[parent] for parent in own), sizes[node]
    cell = _rows(own, sizes, codes) * cells + codes[node]
    counts = np.bincount(cell, minlength=rows * cells)
    return counts.reshape(rows, cells).astype(np.float64)


def _rows(own: Sequence[str], sizes: Mapping[str, int], codes: Mapping[str, IntArray]) -> IntArray:
    n_records = len(next(iter(codes.values()))) if codes else 0
    row = np.zeros(n_records, np.int64)
    for parent in own:
        row = row * sizes[parent] + codes[parent]
    return row


def networkx() -> Any:
    """Return the networkx package; raise ImportError if it is not installed."""
    return extra("networkx", "a Bayesian network", "models")


def opt_einsum() -> Any:
    """Return the opt_einsum package; raise ImportError if it is not installed."""
    return extra("opt_einsum", "a query of a Bayesian network", "models")


def _check_own(node: str, own: Sequence[str], nodes: Collection[str]) -> tuple[str, ...]:
    """Return the parents of a node if they are different nodes."""
    if isinstance(own, str) or not isinstance(own, Iterable):
        raise ValueError(
            f"parents of {shown(node)} must be a sequence of nodes, got {shown(own)}; one parent "
            "is written (name,)."
        )
    own = tuple(own)
    unknown = [parent for parent in own if not isinstance(parent, str) or parent not in nodes]
    if unknown:
        raise ValueError(
            f"parents of {shown(node)} must be nodes, got {listed(unknown)}; the nodes are "
            f"{listed(nodes)}. A node without parents has ()."
        )
    repeated = [parent for i, parent in enumerate(own) if parent in own[:i]]
    if repeated:
        raise ValueError(
            f"parents of {shown(node)} must be different, got {listed(repeated)} twice."
        )
    return own


def _check_acyclic(parents: Mapping[str, tuple[str, ...]]) -> None:
    graph = _graph(parents)
    if not networkx().is_directed_acyclic_graph(graph):
        edges = networkx().find_cycle(graph)
        path = [*(source for source, _ in edges), edges[0][0]]
        raise ValueError(
            f"parents must make no cycle, got {' -> '.join(map(shown, path))}; turn round or take "
            "away one of these edges."
        )


def _graph(parents: Mapping[str, tuple[str, ...]]) -> Any:
    graph = networkx().DiGraph()
    graph.add_nodes_from(parents)
    graph.add_edges_from((parent, node) for node, own in parents.items() for parent in own)
    return graph
