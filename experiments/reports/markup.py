"""Pages in HTML: one file that needs no network."""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.util import find_spec

from privrl.experiments.reports import charts
from privrl.experiments.reports.looks import SCRIPT, STYLE
from privrl.experiments.reports.parts import (
    Cell,
    Cells,
    Chart,
    Command,
    Facts,
    Level,
    Listing,
    Page,
    Part,
    Picture,
    Series,
    Table,
)

_POINTS = 500  # in the table below a picture


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


def html(page: Page) -> str:
    """Return a page as text.

    All texts are escaped. A policy in its head allows only the two scripts in it, by their digests,
    and forbids all requests.
    """
    pictures: list[tuple[str, Chart]] = []
    body = "\n".join(_body(page, pictures))
    scripts = [SCRIPT]
    if pictures:
        check_bokeh()
        scripts.insert(0, charts.script())
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="application/json" data-picture>{charts.chart_json(chart, target)}</script>'
        for target, chart in pictures
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(page.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        f"{data}\n{''.join(f'<script>{each}</script>' for each in scripts)}\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _body(page: Page, pictures: list[tuple[str, Chart]]) -> Iterator[str]:
    kind = "public" if page.shareable else "own"
    yield '<a class="skip" href="#main">To the report</a>'
    yield f"<header><h1>{escape(page.title)}</h1>"
    yield f'<p class="audience {kind}" role="note">{escape(page.warning)}</p></header>'
    links = "".join(
        f'<li><a href="#s{place}">{escape(section.heading)}</a></li>'
        for place, section in enumerate(page.sections)
    )
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav><main id="main" tabindex="-1">'
    for place, section in enumerate(page.sections):
        yield f'<section aria-labelledby="s{place}">'
        yield f'<h2 id="s{place}">{escape(section.heading)}</h2>'
        for part in section.parts:
            yield _part(part, pictures)
        yield "</section>"
    yield "</main>"


def _part(part: Part, pictures: list[tuple[str, Chart]]) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Command):
        return f'<pre tabindex="0"><code>{escape(part.line)}</code></pre>'
    if isinstance(part, Listing):
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in part.lines)}</ul>"
    if isinstance(part, Facts):
        rows = "".join(
            f"<div><dt>{escape(n)}</dt><dd>{escape(what)}</dd></div>" for n, what in part.rows
        )
        return f"<dl>{rows}</dl>"
    if isinstance(part, Table):
        return _table(part)
    return _figure(part, pictures)


def _figure(part: Picture | Chart, pictures: list[tuple[str, Chart]]) -> str:
    caption = escape(part.caption)
    if isinstance(part, Picture):
        data = base64.b64encode(part.png).decode()
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{caption}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    target = f"picture-{len(pictures)}"
    pictures.append((target, part))
    numbers = "" if part.kind in ("grid", "map") else (
        "<details><summary>Numbers of this picture</summary>"
        f"{_table(_numbers(part))}</details>"
    )  # fmt: skip
    return (
        f'<figure><div id="{target}" class="picture" role="img" aria-label="{caption}"></div>'
        f"{_legend(part)}<figcaption>{caption}</figcaption></figure>{numbers}"
    )


def _table(table: Table) -> str:
    numeric = [
        all(isinstance(row[place], int | float | None) for row in table.rows)
        for place in range(len(table.heads))
    ]
    heads = "".join(
        f'<th scope="col"{_aligned(is_number)}><button type="button">{escape(head)}</button></th>'
        for head, is_number in zip(table.heads, numeric, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(map(_cell, row, numeric, table.heads)) + "</tr>" for row in table.rows
    )
    rest = f'<p class="rest">{escape(table.left_out)}</p>' if table.left_out else ""
    caption = escape(table.caption)
    return (  # the caption is outside the table, so that it does not scroll with it
        f'<p class="caption">{caption}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">'
        f'<table aria-label="{caption}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>'
        f"</table></div>{rest}"
    )


def _aligned(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(cell: Cell, is_number: bool, head: str) -> str:
    """Return a cell; ``data-head`` labels it on narrow screens."""
    opened = f'<td{_aligned(is_number)} data-head="{escape(head)}"'
    if isinstance(cell, float):
        short = f"{cell:,.0f}" if 1e4 <= abs(cell) < 1e9 else f"{cell:.4g}"
        return f'{opened} data-key="{cell!r}">{short}</td>'
    if isinstance(cell, int):
        return f'{opened} data-key="{cell}">{cell:,}</td>'
    return f"{opened}>{'' if cell is None else escape(cell)}</td>"


def _numbers(chart: Chart) -> Table:
    """Return the numbers of a picture of series; a grid and a map have tables of their own."""
    rows: list[tuple[Cell, ...]] = []
    ends = any(isinstance(series, Series) and series.low for series in chart.series)
    first, second = (chart.x, chart.y) if chart.kind == "lines" else (chart.y, chart.x)
    for series in chart.series:
        assert isinstance(series, Series)
        for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            here: tuple[Cell, ...] = (x, y) if chart.kind == "lines" else (chart.labels[int(y)], x)
            if ends:
                here += (series.low[place], series.high[place]) if series.low else (None, None)
            rows.append((series.name, *here))
    left = len(rows) - _POINTS
    return Table(
        f"Numbers of the picture: {chart.caption}",
        ("series", first, second, *(("from", "to") if ends else ())),
        tuple(rows[:_POINTS]),
        left_out=f"{left:,} more points are in the picture." if left > 0 else "",
    )


_SHAPES = {
    "circle": '<circle cx="16" cy="7" r="4.5"/>',
    "square": '<rect x="12" y="3" width="8" height="8"/>',
    "triangle": '<path d="M16 2l5 9h-10z"/>',
    "diamond": '<path d="M16 1l5 6-5 6-5-6z"/>',
    "inverted_triangle": '<path d="M16 12l5-9h-10z"/>',
    "plus": '<path d="M14 2h4v3h3v4h-3v3h-4v-3h-3v-4h3z"/>',
    "x": '<path d="M12 3l8 8M20 3l-8 8" stroke-width="2.5"/>',
    "star": '<path d="M16 1l2 4 4 1-3 3 1 4-4-2-4 2 1-4-3-3 4-1z"/>',
}
_DASHED = {"solid": "", "dashed": "6 4", "dotted": "2 3", "dashdot": "7 3 2 3"}


def _legend(chart: Chart) -> str:
    """Return the legend, if it has more than one entry."""
    if len(chart.series) + len(chart.levels) < 2:
        return ""
    made = [_key(each, is_line=chart.kind == "lines") for each in chart.series]
    made += [_key(level, is_line=True) for level in chart.levels]
    return f'<ul class="legend">{"".join(made)}</ul>'


def _key(each: Series | Cells | Level, *, is_line: bool) -> str:
    colour = "currentColor" if isinstance(each, Level) else each.colour
    drawn = ""
    if is_line and not isinstance(each, Cells):
        dash = f' stroke-dasharray="{_DASHED[each.dash]}"' if _DASHED[each.dash] else ""
        drawn = f'<path d="M1 7h30" stroke-width="2.5"{dash}/>'
    if isinstance(each, Series) and each.marker:
        drawn += _SHAPES[each.marker]
    if isinstance(each, Cells):
        drawn = '<rect x="4" y="0" width="24" height="14"/>'
    return (
        f'<li><svg width="32" height="14" viewBox="0 0 32 14" aria-hidden="true" fill="{colour}" '
        f'stroke="{colour}" stroke-width="0">{drawn}</svg>{escape(each.name)}</li>'
    )
