"""What states and actions of a log are called."""

import math
from itertools import product
from typing import Final

from privrl.data.schema import Schema

MOST_LABELS: Final = 1000


def cell_labels(cells: Schema | None) -> tuple[str, ...] | None:
    """Return a label for each state, or action, such as ``"glucose [4, 8), ward medical"``.

    Parameters
    ----------
    cells : Schema or None
        The columns that it is made of, as `LogSchema` has them.

    Returns
    -------
    tuple of str or None
        In the order of numbers. None where a number says as much: there are more than
        `MOST_LABELS`, two would be alike, or a line cannot show one.
    """
    if cells is None:
        return ("any",)
    if math.prod(cells.sizes) > MOST_LABELS:
        return None
    of_columns = (
        [f"{name} {label}" for label in column.labels] for name, column in cells.columns.items()
    )
    labels = tuple(map(", ".join, product(*of_columns)))
    told_apart = len(set(labels)) == len(labels)
    return labels if told_apart and all(map(str.isprintable, labels)) else None
