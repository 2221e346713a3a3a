"""Plain data from JSON of untrusted origin, and names in messages."""

import difflib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from privrl.files.shown import shown

Named = TypeVar("Named")
_SHOWN = 20  # characters of a number that is refused


def parse_json(text: str | bytes) -> Any:
    """Return the plain data of a JSON text, or of a JSON file's content.

    Raises
    ------
    ValueError
        If the text is not valid UTF-8 or JSON, or holds repeated keys, NaN, infinities, numbers
        beyond floats, or too deeply nested brackets.
    """
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode(),
            object_pairs_hook=_no_repeats,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_whole,
        )
    except UnicodeDecodeError:
        raise ValueError("it must be JSON in UTF-8, but is another kind of file.") from None
    except RecursionError:
        raise ValueError("brackets must not be nested so deeply.") from None


def _finite(text: str) -> float:
    number = float(text)
    if not abs(number) < math.inf:
        raise ValueError(f"numbers must be finite, got {_beginning(text)}.")
    return number


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated keys, which JSON allows."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = [key for i, key in enumerate(keys) if key in keys[:i]]
        raise ValueError(f"keys must be unique, got {listed(repeated)} twice.")
    return entries


def check_writable(name: str, text: str) -> None:
    """Check that files can hold a text: a failure after the charge would lose the release.

    Raises
    ------
    ValueError
        If it contains half of a surrogate pair, which JSON can express and UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must be a text that UTF-8 can hold, got {shown(text[:_SHOWN])}; write both "
            "halves of a surrogate pair, or the character itself."
        ) from None


def check_page(page: Any, form: str, entries: Collection[str]) -> dict[str, Any]:
    """Return the data of a page, if it is of a format and has all of its entries, and no others."""
    if not isinstance(page, dict) or page.get("format") != form:
        got = page.get("format") if isinstance(page, dict) else type(page).__name__
        raise ValueError(
            f"format must be {shown(form)}, got {shown(got)}; what a later privrl wrote, a later "
            "one reads."
        )
    if set(page) != set(entries):
        raise ValueError(f"entries must be {listed(entries)}, got {listed(page)}.")
    return page


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, if any."""
    near = difflib.get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near else "."


def listed(names: Iterable[object]) -> str:
    """Return names for a message, as `shown`."""
    return ", ".join(shown(name) for name in names) or "none"


def lookup(kind: str, name: str, table: Mapping[str, Named]) -> Named:
    """Return ``table[name]``.

    Raises
    ------
    ValueError
        If the name is unknown; the nearest ones are suggested.
    """
    if name in table:
        return table[name]
    raise ValueError(
        f"{kind} must be one of {', '.join(table)}, got {shown(name)}{did_you_mean(name, table)}"
    )
