"""Charts of a page, as JSON that Bokeh's script draws."""

import json
from importlib import import_module
from typing import Any

from privrl.experiments.palette import GREY
from privrl.experiments.reports.parts import Cells, Chart, Level, Series
from privrl.numerics.printing import up

_HEIGHT, _ROW, _FRAME = 360, 26, 64  # pixels: of lines, of a row, and around the rows
_LANE = 9  # pixels of a row for each of its series
INK, GRID, STRIPE = "#222222", "#DDDDDD", "#F4F4F4"  # which dark pages replace
_LETTERS = 22  # of a label beside a row


def chart_json(chart: Chart, target: str) -> str:
    """Return the JSON of a chart, which Bokeh's script draws into the element with an id."""
    item = import_module("bokeh.embed").json_item(_figure(chart), target)
    return json.dumps(item).replace("<", "\\u003c")


def script() -> str:
    """Return Bokeh's own script, which is all that the charts need."""
    resources = import_module("bokeh.resources").Resources("inline", components=["bokeh"])
    return "\n".join(resources.js_raw)


def _figure(chart: Chart) -> Any:
    plotting = import_module("bokeh.plotting")
    horizontal = chart.kind != "lines"
    lanes = len(chart.series) if chart.kind == "dots" else 1
    row = max(_ROW, _LANE * lanes + 8)
    figure = plotting.figure(
        height=_FRAME + row * len(chart.labels) if horizontal else _HEIGHT,
        sizing_mode="stretch_width",
        x_axis_type="log" if chart.of_budgets else "linear",
        toolbar_location=None,
        tools="",
        min_border_right=16,
        x_axis_label=_unread(chart.x),
        y_axis_label=_unread(_short(chart.y) if horizontal else chart.y),
        outline_line_color=None,
        background_fill_color=None,
        border_fill_color=None,
    )
    draw = {"lines": _lines, "bars": _bars, "dots": _dots, "grid": _grid, "map": _grid}[chart.kind]
    draw(figure, chart)
    if horizontal:
        _label_rows(figure, chart)
    _plain_look(figure)
    return figure


def _lines(figure: Any, chart: Chart) -> None:
    models = import_module("bokeh.models")
    for level in chart.levels:
        figure.add_layout(_span(models, level))
    seen = []
    for series in _series(chart):
        source = _source(models, series)
        if chart.of_budgets:
            source.data["budget"] = list(map(up, series.x))
        if series.low:
            figure.varea("x", "low", "high", source=source, fill_alpha=0.15, color=series.colour)
        figure.line("x", "y", source=source, color=series.colour, line_width=2,
                    line_dash=series.dash)  # fmt: skip
        # A series without markers has invisible ones, for the pointer to find.
        look = {"size": 8} if series.marker else {"size": 8, "alpha": 0}
        seen.append(
            figure.scatter("x", "y", source=source, color=series.colour,
                           marker=series.marker or "circle", **look)
        )  # fmt: skip
    along = "@budget" if chart.of_budgets else "@x{0.[000]}"
    _hover(figure, chart, seen, "@y{0.[0000]}", along, interval=True)
    numbers = [level.y for level in chart.levels] + [0.0] * chart.from_zero
    for series in _series(chart):
        numbers += (*series.y, *series.low, *series.high)
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    pad = 0.05 * ((high - low) or 1.0)
    start = low if low == 0 and chart.from_zero else low - pad
    figure.update(y_range=models.Range1d(start, high + pad))
    if chart.of_budgets:
        ticks = sorted({x for series in _series(chart) for x in series.x})
        labels = {x: up(x) for x in ticks}
        figure.xaxis[0].update(ticker=models.FixedTicker(ticks=ticks), major_label_overrides=labels)
    else:
        figure.xaxis[0].update(formatter=models.NumeralTickFormatter(format="0,0[.]000"))


def _bars(figure: Any, chart: Chart) -> None:
    models = import_module("bokeh.models")
    seen = []
    for series in _series(chart):
        source = _source(models, series, chart.labels, middle=0.5)
        seen.append(
            figure.hbar("y", right="x", left=0, height=0.7, source=source, color=series.colour)
        )  # fmt: skip
        if series.low:
            figure.segment("low", "y", "high", "y", source=source, color=INK, line_width=2)
    _hover(figure, chart, seen, "@row", "@x{0.[0000]}", interval=_has_intervals(chart))
    figure.x_range.update(start=0)


def _dots(figure: Any, chart: Chart) -> None:
    models = import_module("bokeh.models")
    seen = []
    for place in range(0, len(chart.labels), 2):  # stripes
        figure.add_layout(
            models.BoxAnnotation(bottom=place, top=place + 1, fill_color=STRIPE, line_width=0,
                                 level="underlay")
        )  # fmt: skip
    for series in _series(chart):
        source = _source(models, series, chart.labels)
        if series.low:
            figure.segment(
                "low", "y", "high", "y", source=source, color=series.colour, line_width=2
            )
            figure.scatter("high", "y", source=source, color=series.colour, marker="dash", size=8,
                           angle=1.5707963, line_width=2)  # fmt: skip
        seen.append(
            figure.scatter("x", "y", source=source, color=series.colour, marker=series.marker,
                           size=9)
        )  # fmt: skip
    _hover(figure, chart, seen, "@row", "@x{0.[000]}", interval=_has_intervals(chart))
    numbers = [0.0]
    for series in _series(chart):
        numbers += (*series.x, *series.low, *series.high)
    pad = 0.04 * ((max(numbers) - min(numbers)) or 1.0)
    figure.update(x_range=models.Range1d(min(numbers) - pad, max(numbers) + pad))
    figure.add_layout(_span(models, Level("", 0.0, "solid"), dimension="height"))


def _grid(figure: Any, chart: Chart) -> None:
    models = import_module("bokeh.models")
    steps, seen = chart.kind == "grid", []
    for cells in chart.series:
        assert isinstance(cells, Cells)
        data = {
            "start": cells.starts, "end": cells.ends, "top": cells.rows,
            "bottom": [row + 1 for row in cells.rows], "last": [end - steps for end in cells.ends],
            "row": [_unread(chart.labels[row]) for row in cells.rows],
            "name": [_unread(cells.name)] * len(cells.rows),
        }  # fmt: skip
        source = models.ColumnDataSource(data)
        seen.append(
            figure.quad(left="start", right="end", top="top", bottom="bottom", source=source,
                        fill_color=cells.colour, line_color="white", line_width=1)
        )  # fmt: skip
    figure.add_tools(
        models.HoverTool(
            renderers=seen,
            tooltips=[
                ("" if steps else _label(chart.y), "@row"),
                ("steps", "@start to @last") if steps
                else (_label(chart.x), "@start{0.[000]} to @last{0.[000]}"),
                ("action", "@name"),
            ],
        )
    )  # fmt: skip
    figure.x_range.update(range_padding=0)
    if steps:
        figure.x_range.update(start=0)
        ticker = models.BasicTicker(mantissas=[1, 2, 5], min_interval=1)
        figure.xaxis[0].update(ticker=ticker)


def _label_rows(figure: Any, chart: Chart) -> None:
    models = import_module("bokeh.models")
    n = len(chart.labels)
    figure.update(y_range=models.Range1d(n, 0))
    middles = [place + 0.5 for place in range(n)]
    labels = map(_unread, map(_short, chart.labels))
    figure.yaxis[0].update(
        ticker=models.FixedTicker(ticks=middles),
        major_label_overrides=dict(zip(middles, labels, strict=True)),
        major_tick_line_color=None,
    )
    figure.ygrid[0].update(grid_line_color=None)


def _hover(
    figure: Any, chart: Chart, seen: list[Any], first: str, second: str, *, interval: bool
) -> None:
    """Add a tooltip. Bokeh escapes the values that it inserts for a column's name."""
    models = import_module("bokeh.models")
    tips = [("", "@name")] if len(chart.series) > 1 else []
    tips += [(_label(chart.y), first), (_label(chart.x), second)]
    if interval:
        tips.append(("", "@low{0.[0000]} to @high{0.[0000]}"))
    figure.add_tools(models.HoverTool(renderers=seen, tooltips=tips))


def _series(chart: Chart) -> list[Series]:
    return [each for each in chart.series if isinstance(each, Series)]


def _has_intervals(chart: Chart) -> bool:
    return any(series.low for series in _series(chart))


def _source(
    models: Any, series: Series, labels: tuple[str, ...] = (), *, middle: float = 0.0
) -> Any:
    data: dict[str, list[Any]] = {
        "x": list(series.x),
        "y": [y + middle for y in series.y],
        "name": [_unread(series.name)] * len(series.x),
    }
    if series.low:
        data |= {"low": list(series.low), "high": list(series.high)}
    if labels:
        data["row"] = [_unread(labels[int(y)]) for y in series.y]
    return models.ColumnDataSource(data)


def _span(models: Any, level: Level, dimension: str = "width") -> Any:
    return models.Span(
        location=level.y, dimension=dimension, line_color=GREY, line_dash=level.dash, line_width=1.5
    )


def _plain_look(figure: Any) -> None:
    """Make letters large enough for a phone, and the rest quiet."""
    for axis in (*figure.xaxis, *figure.yaxis):
        axis.update(
            axis_label_text_font_style="normal",
            axis_label_text_font_size="13px",
            axis_label_text_color=INK,
            major_label_text_font_size="13px",
            major_label_text_color=INK,
            axis_line_color=None,
            minor_tick_line_color=None,
        )
    for grid in (*figure.xgrid, *figure.ygrid):
        if grid.grid_line_color is not None:
            grid.update(grid_line_color=GRID)


def _label(text: str) -> str:
    """Return a text for the head of a tooltip, in which Bokeh sees no column's name."""
    return _unread(text).replace("@", "@\u2060").replace("$", "$\u2060")


def _unread(text: str) -> str:
    """Return a text in which Bokeh sees no formula: it would fetch a script for it."""
    for mark in ("$$", r"\[", r"\("):
        text = text.replace(mark, f"{mark[0]}\u2060{mark[1]}")
    return text


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
