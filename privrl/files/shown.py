"""Arguments in messages. The command line needs this module before NumPy is loaded."""

import sys
from typing import Any

_LONGEST = 200  # characters of a value in a message


def shown(value: object) -> str:
    """Return an argument's text for a message; an object that may hold data shows only its type.

    Swapped arguments may put a private table in the place of a number.
    """
    if value is None or isinstance(value, bool | int | float | str | type) or _is_scalar(value):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    empty = isinstance(value, tuple | list | dict) and not value
    return repr(value) if empty else f"an object of type {type(value).__name__}"


def one_line(text: str) -> str:
    """Return a text of a file as it is, or with escapes if it would break a line or a terminal."""
    return text if text.isprintable() else ascii(text)


def shown_env(env: Any) -> str:
    """Return an environment's name for a message; its own text may hold the state it is in."""
    bare = getattr(env, "unwrapped", env)
    return str(getattr(getattr(bare, "spec", None), "id", None) or type(bare).__name__)


def _is_scalar(value: object) -> bool:
    numpy = sys.modules.get("numpy")  # without it, nothing is one of its numbers
    return numpy is not None and isinstance(value, numpy.generic)
