"""Specs: what is to be done, as frozen dataclasses of plain data that JSON can hold.

A field that the command line offers says what it is in a sentence beside its type:
``seed: Annotated[int, "Root of all randomness."] = 0``. One line gives an option its name, type,
default and help.
"""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from privrl.files.shown import shown
from privrl.numerics.checks import as_floats
from privrl.numerics.printing import exact

# What several specs have.
Delta = Annotated[float, "The delta of (epsilon, delta)-differential privacy; 0 for pure privacy."]
RenyiOrder = Annotated[
    float | None,
    "Makes the budget a Renyi divergence of this order > 1; delta is then for the report alone.",
]
Unit = Annotated[
    str, "Privacy unit: replace-transition, replace-step, replace-episode, paper-step."
]
Runs = Annotated[int, "Independent runs of each method and budget."]
Seed = Annotated[int, "Root of all randomness."]
Block = Annotated[int, "Most runs at a time in one worker; results depend on it as on a seed."]

Made = TypeVar("Made")


class Spec:
    """What a frozen dataclass of plain data can do: be saved as JSON, and be made of that again.

    Its fields are numbers, texts, truth values, other dataclasses of such, and tuples of them.
    """

    called: ClassVar[str] = "spec"  # by messages

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)  # type: ignore[call-overload] # a dataclass

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make one from what `to_dict` returns, or JSON made of that.

        Raises
        ------
        ValueError
            If a field is unknown or missing, of another type, or out of range.
        """
        return _from_plain(cls, data, cls.called)


def _from_plain(kind: type[Made], data: Any, name: str) -> Made:
    if not isinstance(data, Mapping):
        raise ValueError(f"{name} must be a JSON object, got {shown(data)}.")
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type] # a dataclass
    for field in data:
        if field not in known:
            near = difflib.get_close_matches(str(field), known, n=1)
            raise ValueError(
                f"{name} has no field {shown(field)}"
                + (f"; did you mean {shown(near[0])}?" if near else f"; it has {', '.join(known)}.")
            )
    values = {field: _value(hints[field], data[field], f"{name}.{field}") for field in data}
    try:
        return kind(**values)
    except TypeError as error:  # a field without default is missing
        raise ValueError(f"{name} is not complete: {error}.") from error


def _value(hint: Any, data: Any, name: str) -> Any:
    if is_dataclass(hint):
        return _from_plain(hint, data, name)  # type: ignore[arg-type] # it is a type
    accepted = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for one in accepted:
        if get_origin(one) is tuple and isinstance(data, list | tuple):
            of = get_args(one)[0]
            return tuple(_value(of, each, f"{name}[{i}]") for i, each in enumerate(data))
        if get_origin(one) is Literal and data in get_args(one):
            return data
        if one is float and isinstance(data, int | float) and not isinstance(data, bool):
            return float(as_floats(name, data))
        truth = isinstance(data, bool)  # which is an integer too
        if isinstance(one, type) and isinstance(data, one) and (one is bool or not truth):
            return data
    if get_origin(hint) is tuple:
        raise ValueError(f"{name} must be a list, got {shown(data)}.")
    wanted = " or ".join(getattr(one, "__name__", str(one)) for one in accepted)
    raise ValueError(f"{name} must be of type {wanted}, got {shown(data)}.")


def budget_name(delta: float, renyi_order: float | None) -> str:
    """Return the kind of a budget as axes and tables name it."""
    if renyi_order is not None:
        return f"Renyi order {exact(renyi_order)}"
    return f"(ε, δ = {exact(delta)})-DP" if delta else "pure ε-DP"


def unit_name(relation: str) -> str:
    """Return the privacy unit in words: "one step replaced"."""
    verb, _, what = relation.partition("-")
    return f"one {what} {verb}d" if verb == "replace" else relation.replace("-", " ")
