"""A warning if a release shows that a schema does not fit the data: most records fit no cell."""

import warnings
from typing import Final

from privrl.data.schema import Categories, Column
from privrl.numerics.typing import FloatArray

_SURE: Final = 4.0  # deviations of the noise


def warn_of_others(name: str, column: Column, released: FloatArray, deviation: float) -> None:
    """Warn if more than half of the release is in the cell of other or missing values.

    Parameters
    ----------
    name : str
        The name of the column.
    column : Column
        Its last cell may be that of other or missing values.
    released : array, shape (..., K)
        Released counts or probabilities, so that the warning is free.
    deviation : float
        Standard deviation of the noise of each.
    """
    if isinstance(column, Categories):
        has_rest, rest = column.other, "other"
        ask = "are its categories spelled as in the data? Blanks and capitals count."
    else:
        has_rest, rest = column.missing, "missing"
        ask = "are its numbers written as 1234.5 is? Decimal commas and dates are no numbers."
    if not has_rest:
        return
    rows = released.reshape(-1, released.shape[-1])
    others, known = float(rows[:, -1].sum()), float(rows[:, :-1].sum())
    if others - known > _SURE * deviation * rows.size**0.5 and others > known:
        share = 100 * min(1.0, others / max(others + known, others))
        _warn(
            f"about {share:.0f} % of {name!r} is in the cell of {rest} values, by what was "
            f"released: {ask} A release with a mended schema or file costs anew."
        )


def _warn(message: str) -> None:
    """Warn, and return whatever filters make of warnings: what was paid for must not be lost."""
    try:
        warnings.warn(message, UserWarning, stacklevel=4)
    except UserWarning:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(message, UserWarning, stacklevel=4)
