"""Pages in HTML: one file that needs no network, from the template ``page.html``."""

import base64
import hashlib
import json
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from privrl.experiments.palette import BLACK, GREY
from privrl.experiments.reports import charts, parts
from privrl.files.files import package_text
from privrl.numerics.printing import up

_POINTS = 500  # in the table below a picture
#: Colours of charts on dark pages.
_DARK: Final = {
    charts.INK: "#e8e8e8", charts.GRID: "#444444", charts.STRIPE: "#242628", GREY: "#b8b8b8",
    BLACK: "#f0f0f0",
}  # fmt: skip


def check_bokeh() -> None:
    """Check that Bokeh is installed.

    Raises
    ------
    ValueError
        If it is not.
    """
    if find_spec("bokeh") is None:
        raise ValueError(
            "report needs the package bokeh, which is not installed; pip install 'privrl[report]'."
        )


def html(page: parts.Page) -> str:
    """Return a page as text.

    The template escapes all texts. A policy in the head allows only the two scripts of the page, by
    their digests, and forbids all requests.
    """
    check_bokeh()  # Jinja comes with it
    pictures = [part for s in page.sections for part in s.parts if isinstance(part, parts.Chart)]
    drawn = [charts.chart_json(chart, f"picture-{n}") for n, chart in enumerate(pictures)]
    scripts = [package_text(__package__, "page.js").replace("DARK", json.dumps(_DARK))]
    if pictures:
        scripts.insert(0, charts.script())
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    style = package_text(__package__, "page.css")
    return str(
        _template().render(page=page, policy=policy, style=style, charts=drawn, scripts=scripts)
    )


def _digest(text: str) -> str:
    return _base64(hashlib.sha256(text.encode()).digest())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@cache
def _template() -> Any:
    """Return the template, which tells the parts of a page by ``is table`` and the like."""
    made = import_module("jinja2").Environment(autoescape=True, keep_trailing_newline=True)
    for name in ("Cells", "Command", "Facts", "Listing", "Picture", "Table"):
        made.tests[name.lower()] = getattr(parts, name).__instancecheck__
    made.filters.update({"short": _short, "repr": repr, "base64": _base64})
    made.globals.update({"numbers": _numbers, "numeric_columns": _numeric_columns})
    return made.from_string(package_text(__package__, "page.html"))


def _short(cell: parts.Cell) -> str:
    """Return a cell as it is shown."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if 1e4 <= abs(cell) < 1e9 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else cell or ""


def _numeric_columns(table: parts.Table) -> list[bool]:
    return [
        all(isinstance(row[place], int | float | None) for row in table.rows)
        for place in range(len(table.heads))
    ]


def _numbers(chart: parts.Chart) -> parts.Table:
    """Return the numbers of a picture of series; a grid and a map have separate tables."""
    rows: list[tuple[parts.Cell, ...]] = []
    ends = any(isinstance(series, parts.Series) and series.low for series in chart.series)
    first, second = (chart.x, chart.y) if chart.kind == "lines" else (chart.y, chart.x)
    for series in chart.series:
        assert isinstance(series, parts.Series)
        for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            is_line, shown = chart.kind == "lines", float(up(x)) if chart.of_budgets else x
            here: tuple[parts.Cell, ...] = (shown, y) if is_line else (chart.labels[int(y)], x)
            if ends:
                here += (series.low[place], series.high[place]) if series.low else (None, None)
            rows.append((series.name, *here))
    left = len(rows) - _POINTS
    return parts.Table(
        f"Numbers of the picture: {chart.caption}",
        ("series", first, second, *(("from", "to") if ends else ())),
        tuple(rows[:_POINTS]),
        left_out=f"{left:,} more points are in the picture." if left > 0 else "",
    )
