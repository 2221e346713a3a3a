"""A warning if a release shows that a schema does not fit the data: most records fit no cell."""

import warnings
from typing import Final

from privrl.data.schema import Categories, Column
from privrl.numerics.typing import FloatArray

_SURE: Final = 4.0  # deviations of the noise


def warn_of_others(name: str, column: Column, released: FloatArray, deviation: float) -> None:
    """Warn if more than half of what was released is in the cell of the rest.

    Parameters
    ----------
    name : str
        What the column is called.
    column : Column
        Of whose cells the last is that of other or missing values, if there is one.
    released : array, shape (..., K)
        Counts or probabilities that were released: the warning costs nothing.
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
