"""Frozen dataclasses from plain data, as JSON holds it; every mistake is named."""

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


def from_plain(kind: type[Made], data: Any, name: str) -> Made:
    """Make a dataclass from the dictionary that `dataclasses.asdict` makes of it.

    Parameters
    ----------
    kind : type
        The dataclass. Its fields are numbers, texts, truth values, other such dataclasses, and
        tuples of them.
    data : dict
        A value for each field; those left out take their default.
    name : str
        What messages call it.

    Raises
    ------
    ValueError
        If a field is unknown or missing, of another type, or refused by the dataclass.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{name} must be a JSON object, got {data!r}.")
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type] # a dataclass
    for field in data:
        if field not in known:
            near = difflib.get_close_matches(str(field), known, n=1)
            raise ValueError(
                f"{name} has no field {field!r}"
                + (f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}.")
            )
    values = {field: _value(hints[field], data[field], f"{name}.{field}") for field in data}
    try:
        return kind(**values)
    except TypeError as error:  # a field without default is missing
        raise ValueError(f"{name} is not complete: {error}.") from error


def _value(hint: Any, data: Any, name: str) -> Any:
    if is_dataclass(hint):
        return from_plain(hint, data, name)  # type: ignore[arg-type] # it is a type
    if get_origin(hint) is tuple:
        if not isinstance(data, list | tuple):
            raise ValueError(f"{name} must be a list, got {data!r}.")
        of = get_args(hint)[0]
        return tuple(_value(of, each, f"{name}[{i}]") for i, each in enumerate(data))
    accepted = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for one in accepted:
        if get_origin(one) is Literal and data in get_args(one):
            return data
        if one is float and isinstance(data, int | float) and not isinstance(data, bool):
            return float(data)
        truth = isinstance(data, bool)  # which is an integer too
        if isinstance(one, type) and isinstance(data, one) and (one is bool or not truth):
            return data
    wanted = " or ".join(getattr(one, "__name__", str(one)) for one in accepted)
    raise ValueError(f"{name} must be of type {wanted}, got {data!r}.")
