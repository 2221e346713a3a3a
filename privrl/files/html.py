"""Small tables for notebooks: the content of ``repr`` as HTML, with every text escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any

_MOST = 200  # letters of a cell


def table(caption: str, rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Return a table; without heads, the first cell of each row is its label."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    head = f"<thead><tr>{head}</tr></thead>" if heads else ""
    body = "".join(
        "<tr>"
        + "".join(
            f"<th>{escape(cell)}</th>" if not heads and place == 0 else f"<td>{escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>"


class InHtml:
    """A dataclass that notebooks show as a table of the fields in its ``repr``.

    Arrays and tables are shown by their sizes.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown = (each.name for each in fields(self) if each.repr)  # type: ignore[arg-type] # one
        return table(type(self).__name__, ((name, _said(getattr(self, name))) for name in shown))


def _said(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of {' × '.join(map(str, shape))}"
    text = str(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
