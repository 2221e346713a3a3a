"""Checks of a row that is drawn, and the search for the number of its records."""

from collections.abc import Callable

from numpy.typing import ArrayLike

from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_count, check_positive, check_positive_array
from privrl.numerics.special import FloatArray

_MOST_RECORDS = 2**100
_LEAST = 1e-100


def check_row(total_weight: ArrayLike, alpha: float, n_cells: int) -> tuple[FloatArray, float, int]:
    """Return what a row is drawn with, if all of it is in range."""
    return (
        check_positive_array(
            "total_weight", total_weight, "it is the weight times the number of records"
        ),
        check_positive("alpha", alpha),
        check_count("n_cells", n_cells, least=2),
    )


def check_sizes(name: str, values: ArrayLike, hint: str = "") -> FloatArray:
    """Return positive numbers as floats if squares and inverses of them are floats, too."""
    array = check_positive_array(name, values, hint)
    wrong = array[(array < _LEAST) | (array > 1 / _LEAST)]
    if wrong.size:
        raise ValueError(
            f"{name} must be from {_LEAST:g} to {1 / _LEAST:g} everywhere, got {wrong.flat[0]!s}; "
            "floats hold the squares of no others."
        )
    return array


def check_failure(failure: ArrayLike) -> FloatArray:
    """Return probabilities as floats if each is strictly between 0 and 1."""
    failure = as_floats("failure", failure)
    wrong = failure[~((failure > 0) & (failure < 1))]
    if wrong.size:
        raise ValueError(
            f"failure must be > 0 and < 1 everywhere, got {wrong.flat[0]!s}; 0.05 is usual."
        )
    return failure


def least_records(meets: Callable[[float], bool], weight: float, name: str, value: float) -> int:
    """Return the least N with ``meets(weight * N)``, which holds from some N on."""
    high = 1
    while not meets(weight * high):
        high *= 2
        if high > _MOST_RECORDS:
            raise ValueError(
                f"{name} must be one that 2^100 records suffice for, got {shown(value)}; allow "
                "more."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(weight * middle) else (middle, high)
    return high
