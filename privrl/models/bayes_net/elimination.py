"""Exact sums over products of tables: variable elimination, as one tensor contraction.

A conditional probability in a Bayesian network is such a sum, with the tables sliced at the
evidence. opt_einsum finds the order of summation. Its largest table is known before anything is
computed, and refused if it does not fit into memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privrl.models.bayes_net.structure import LARGEST, Structure, opt_einsum
from privrl.numerics.typing import FloatArray


class TooLarge(ValueError):
    """A sum would go over a table that is too large for memory."""


Factor = tuple[FloatArray, tuple[str, ...]]  # a table and the names of its axes


def eliminate(factors: Sequence[Factor], keep: Sequence[str]) -> FloatArray:
    """Return the product of all factors, summed over all names but a few.

    Parameters
    ----------
    factors : sequence of (array, tuple of str)
        Tables >= 0 and the names of their axes; axes of one name are of one length.
    keep : sequence of str
        The axes of the result, in its order; each is in a factor.

    Returns
    -------
    array
        Up to a factor that is common to all of its entries: every table is first divided by its
        largest entry, so that many small probabilities do not vanish.

    Raises
    ------
    TooLarge
        If a table on the way would have more than 2^24 entries.
    """
    if not factors:
        return np.ones(())
    names = dict.fromkeys(name for _, axes in factors for name in axes)
    number = {name: i for i, name in enumerate(names)}
    operands: list[Any] = []
    for table, axes in factors:
        largest = float(table.max())
        operands += [table / largest if largest > 0 else table, [number[name] for name in axes]]
    output = [number[name] for name in keep]
    path, plan = opt_einsum().contract_path(*operands, output)
    if plan.largest_intermediate > LARGEST:
        raise TooLarge(
            f"variables must leave sums over tables of at most {LARGEST} entries, got "
            f"{float(plan.largest_intermediate):.3g}; ask for fewer variables at once, or sample."
        )
    return np.asarray(opt_einsum().contract(*operands, output, optimize=path))


def joint(
    structure: Structure,
    tables: Mapping[str, FloatArray],
    variables: Sequence[str],
    evidence: Mapping[str, int],
) -> FloatArray:
    """Return the joint probabilities of a few nodes and given values of others.

    Nodes from which no path leads to a variable or to evidence sum to one, and are left out.

    Parameters
    ----------
    structure : Structure
        The network's.
    tables : mapping from str to array, shape (R, K)
        For each node (at least those that matter), each row's probabilities.
    variables : sequence of str
        Different nodes, none of them in the evidence.
    evidence : mapping from str to int
        Known cell numbers.

    Returns
    -------
    array
        One axis for each variable; up to a factor. All zero if the evidence is impossible.

    Raises
    ------
    TooLarge
        As `eliminate`.
    """
    factors: list[Factor] = []
    for node in structure.with_ancestors([*variables, *evidence]):
        axes = (*structure.parents[node], node)
        table = tables[node].reshape([structure.sizes[name] for name in axes])
        known = tuple(evidence.get(name, slice(None)) for name in axes)
        rest = tuple(name for name in axes if name not in evidence)
        factors.append((np.asarray(table[known]), rest))
    return eliminate(factors, variables)
