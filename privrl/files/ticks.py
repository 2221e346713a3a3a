"""Plain numbers on axes: 0.6 rather than 6 × 10⁻¹."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

_PLAIN = (1e-4, 1e5)  # beyond them, powers of ten


class _Plain(LogFormatter):
    """Labels the usual ticks with plain numbers, and fewer ticks over many decades."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return plain_number(x) if super().__call__(x, pos) else ""


def plain_number(x: float) -> str:
    """Return a number as axes show it; very small and large ones use powers of ten."""
    if x == 0 or _PLAIN[0] <= abs(x) < _PLAIN[1]:
        return f"{x:g}"
    mantissa, _, power = f"{x:e}".partition("e")
    factor = f"{float(mantissa):g}"
    ten = f"10^{{{int(power)}}}"
    return f"${ten}$" if factor == "1" else f"${factor} \\times {ten}$"


def plain_ticks(figure: Figure) -> None:
    """Show plain numbers on the logarithmic axes of a figure, unless another format was set."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for which in ("major", "minor"):
                given: Any = getattr(axis, f"get_{which}_formatter")()
                of_logs = axis.get_scale() in ("log", "symlog")
                if of_logs and isinstance(given, LogFormatter):
                    made = _Plain(
                        labelOnlyBase=given.labelOnlyBase, minor_thresholds=given.minor_thresholds
                    )
                    getattr(axis, f"set_{which}_formatter")(made)
