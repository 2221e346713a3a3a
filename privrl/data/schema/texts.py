"""Read a text of a file as a number or a category."""

import re
from collections.abc import Sequence

from privrl.data.schema.entries import Value

WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE
)
TRUTH = {"true": True, "false": False}


def number_in(text: str) -> float:
    """Return the number that a field is, NaN where it is none."""
    short = text.strip()
    return float(short) if _NUMBER.fullmatch(short) else float("nan")


def values_in(texts: Sequence[str]) -> tuple[Value, ...]:
    """Return categories that were written as texts: whole numbers or truth values if all are.

    ``01`` stays a text, for a number would not be written so.
    """
    if all(text.lower() in TRUTH for text in texts):
        return tuple(TRUTH[text.lower()] for text in texts)
    if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", text) for text in texts):
        return tuple(map(int, texts))
    return tuple(texts)
