"""Checks of arguments with uniform errors: name, accepted range, value, next step."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.files.shown import shown
from privrl.numerics.processes import check_made_here

_QUICK = 2**63
LARGEST_WHOLE = 2**53  # up to which floats hold every whole number


def check_positive(name: str, value: float, hint: str = "") -> float:
    """Return ``value`` as a float if it is a number > 0 and finite."""
    if not 0 < _as_float(value) < math.inf:
        raise ValueError(
            f"{name} must be a number > 0 and finite, got {shown(value)}{_hint(hint)}."
        )
    return float(value)


def check_finite(name: str, value: float, hint: str = "") -> float:
    """Return ``value`` as a float if it is a number that is neither infinite nor NaN."""
    if not math.isfinite(_as_float(value)):
        raise ValueError(f"{name} must be a finite number, got {shown(value)}{_hint(hint)}.")
    return float(value)


def check_between(name: str, value: float, low: float, high: float, hint: str = "") -> float:
    """Return ``value`` as a float if it is strictly between ``low`` and ``high``."""
    if not low < _as_float(value) < high:
        raise ValueError(
            f"{name} must be a number > {low:g} and < {high:g}, got {shown(value)}{_hint(hint)}."
        )
    return float(value)


def check_count(
    name: str, value: int, least: int = 1, most: float = math.inf, hint: str = ""
) -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``."""
    if type(value) is int and least <= value < _QUICK and value <= most:  # nearly always
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {shown(value)}.")
    if math.isnan(_as_float(value)):
        raise ValueError(f"{name} must be a whole number >= {least}, got one beyond all floats.")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}{_hint(hint)}.")
    return int(value)


def check_repeats(name: str, value: int) -> int:
    """Return a number of charges as an int, up to the largest whole number that floats resolve."""
    return check_count(name, value, 1, LARGEST_WHOLE, "floats do not hold all larger ones")


def check_positive_array(name: str, values: ArrayLike, hint: str = "") -> NDArray[np.float64]:
    """Return ``values`` as floats if all of them are > 0 and finite."""
    array = as_floats(name, values)
    fits = (array > 0) & np.isfinite(array)
    return check_each(name, array, fits, "> 0 and finite everywhere", hint)


def check_each(
    name: str, array: NDArray[Any], fits: NDArray[np.bool_], must: str, hint: str = ""
) -> NDArray[Any]:
    """Return public numbers if all of them fit; the first one that does not is shown."""
    if not fits.all():
        raise ValueError(f"{name} must be {must}, got {array[~fits].flat[0]!s}{_hint(hint)}.")
    return array


def check_is(name: str, value: object, *kinds: type, hint: str = "") -> None:
    """Check that a public argument is of one of these types."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be a {wanted}, got {type(value).__name__}{_hint(hint)}.")


def check_among(name: str, value: object, known: Iterable[str], hint: str = "") -> None:
    """Check that a public argument is one of some texts."""
    known = tuple(known)
    if not (isinstance(value, str) and value in known):
        texts = ", ".join(map(repr, known))
        raise ValueError(f"{name} must be one of {texts}, got {shown(value)}{_hint(hint)}.")


def check_does(name: str, value: object, what: str, *methods: str) -> None:
    """Check that a public argument has the methods of its expected type."""
    if isinstance(value, type) or not all(callable(getattr(value, each, None)) for each in methods):
        got = value.__name__ if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{name} must be {what}, got {got}.")


def plain_array(name: str, values: object) -> NDArray[Any]:
    """Return an argument as a plain NumPy array, so that checks see all its values.

    Masked arrays are refused, also inside lists: comparisons skip masked entries, so checks would
    miss values that the computation uses. What cannot be converted is refused without the error
    of whoever tried, which may show an entry: Arrow's show texts.
    """
    if _is_masked(values):
        raise ValueError(
            f"{name} must be a plain array, got a masked array; leave out the masked entries, or "
            "fill them."
        )
    try:
        return np.asarray(values)
    except MemoryError:
        raise
    except Exception:
        pass  # the error below is raised outside, so that it is no context of it
    raise ValueError(
        f"{name} must be an array, or rows of one length, got {type(values).__name__}, which NumPy "
        "cannot convert."
    )


def plain_float(name: str, value: Any) -> float:
    """Return a number as a float; the error for anything else, or what is masked, shows none.

    What is masked would become NaN with a warning.
    """
    try:
        return float(plain_array(name, value) if isinstance(value, np.ndarray) else value)
    except MemoryError:
        raise
    except Exception:
        pass  # as in plain_array
    raise ValueError(f"{name} must be a number, got {type(value).__name__}.")


def _is_masked(values: object) -> bool:
    if isinstance(values, np.ndarray):
        return hasattr(values, "mask")  # numpy.ma's, and other packages'
    return isinstance(values, list | tuple) and any(map(_is_masked, values))


def as_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return public numbers as floats, if they are numbers."""
    try:
        array = plain_array(name, values)
        if array.dtype.kind not in "cSU":  # NumPy would drop the imaginary part, or read a text
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass  # its message does not name the argument
    raise ValueError(
        f"{name} must be numbers that floats hold, in rows of one length, got "
        f"{type(values).__name__}."
    )


def check_rng(rng: object) -> None:
    """Check that ``rng`` is a generator of this process, before any cost is charged."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng must be a numpy.random.Generator, got {shown(rng)}; privrl.secret_rng() makes "
            "one."
        )
    check_made_here(rng)


def check_numbers(name: str, data: ArrayLike) -> NDArray[np.float64]:
    """Return data as floats if they are an array of plain numbers.

    No message shows a value of the data. Masked, complex and Boolean values, dates and texts are
    refused, although NumPy would convert them to numbers.
    """
    kind = type(data).__name__
    try:
        array = plain_array(name, data)
        if array.dtype.kind == "O":
            if any(isinstance(x, bool) or not isinstance(x, Real) for x in array.flat):
                raise TypeError
        elif array.dtype.kind not in "iuf":
            raise TypeError
        with np.errstate(all="ignore"):  # of longer floats, which a warning would tell
            return array.astype(np.float64)
    except MemoryError:
        raise
    except Exception:
        pass  # as in plain_array
    raise ValueError(
        f"{name} must be an array of numbers, got {kind}; rows must be of one length, "
        "without masked entries, complex numbers, Booleans, dates or texts."
    )


def check_orders(orders: ArrayLike) -> NDArray[np.float64]:
    """Return Rényi orders as floats if all of them are > 1 and finite."""
    array = as_floats("orders", orders)
    return check_each("orders", array, (array > 1) & np.isfinite(array), "> 1 and finite")


def check_truth(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")
    return value


def _hint(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _as_float(value: object) -> float:
    """Return a number as a float; anything else becomes NaN, which every check refuses."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return math.nan
