"""Bayesian networks in the Bayesian Interchange Format (BIF 0.15), which most other packages read.

A word of BIF is letters, digits and underscores, and begins with no digit. Other names and labels
are escaped so that they can be got back: every other character is written as ``_x`` with its
Unicode number in base sixteen and ``_``, and so is an underscore that an ``x`` follows. ``<=50K``
becomes ``_x3c__x3d_50K``. The first character of a word that begins with a digit, or that BIF
keeps for itself, such as ``property``, is escaped too. The empty text is ``_x_``.

References
----------
F. Cozman. *The interchange format for Bayesian networks* (1998), grammar of version 0.15.
"""

import re
from collections.abc import Mapping
from itertools import product

from privrl.models.bayes_net.structure import Structure
from privrl.numerics.typing import FloatArray

_KEPT = {
    *("network", "variable", "probability", "property", "type", "discrete", "default", "table")
}
_PLAIN = re.compile(r"_(?!x)|[A-Za-z0-9]")


def escape(text: str) -> str:
    """Return a word of BIF; no other text becomes the same."""
    if not text:
        return "_x_"
    characters = [
        character if _PLAIN.match(text, i) else _escaped(character)
        for i, character in enumerate(text)
    ]
    if text[0] in "0123456789" or text.lower() in _KEPT:
        characters[0] = _escaped(text[0])
    return "".join(characters)


def to_bif(
    structure: Structure,
    labels: Mapping[str, tuple[str, ...]],
    tables: Mapping[str, FloatArray],
) -> str:
    """Return a network as BIF.

    Parameters
    ----------
    structure : Structure
        Nodes and parents.
    labels : mapping from str to tuple of str
        A different text for each cell of each node.
    tables : mapping from str to array, shape (R, K)
        Each row's probabilities.

    Returns
    -------
    str
        Names and labels escaped; probabilities with all their digits.
    """
    words = {node: [escape(label) for label in labels[node]] for node in structure.nodes}
    parts = ["network unknown {\n}\n"]
    for node in structure.nodes:
        values = ", ".join(words[node])
        parts.append(
            f"variable {escape(node)} {{\n"
            f"  type discrete [ {structure.sizes[node]} ] {{ {values} }};\n}}\n"
        )
    for node, parents in structure.parents.items():
        rows = [", ".join(map(repr, row)) for row in tables[node].tolist()]
        if parents:
            given = " | " + ", ".join(map(escape, parents))
            configurations = product(*(words[parent] for parent in parents))
            heads = [f"({', '.join(configuration)})" for configuration in configurations]
        else:
            given, heads = "", ["table"]
        lines = "".join(f"  {head} {row};\n" for head, row in zip(heads, rows, strict=True))
        parts.append(f"probability ( {escape(node)}{given} ) {{\n{lines}}}\n")
    return "".join(parts)


def _escaped(character: str) -> str:
    return f"_x{ord(character):x}_"
