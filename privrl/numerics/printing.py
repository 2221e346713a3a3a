"""Epsilons in words: never rounded down."""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, SupportsFloat

from privrl.files.shown import one_line


def up(epsilon: SupportsFloat, digits: int = 4) -> str:
    """Write an epsilon with some digits in all."""
    value = float(epsilon)
    if not math.isfinite(value):
        return "∞"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))):g}"


def down(size: SupportsFloat, digits: int = 6) -> str:
    """Write a finite number of which less is more private, such as a weight."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(float(size)))
    return f"{float(rounded):.{digits}g}"


def exact(number: SupportsFloat) -> str:
    """Write a delta or an order with all its digits; of a whole number without a point."""
    return repr(float(number)).removesuffix(".0")


def up_to_places(epsilon: SupportsFloat, places: int = 2) -> str:
    """Write an epsilon with some digits after the point."""
    place = Decimal(1).scaleb(-places)
    return str(Decimal(repr(float(epsilon))).quantize(place, rounding=ROUND_CEILING))


_AMOUNTS = (  # the less, the more private
    *("epsilon", "delta", "rho", "weight"),
    *("sensitivity", "distance"),
)


def setting(name: str, value: float) -> str:
    """Write a number of a cost or command, by its name, as no more private than it is."""
    return up(value, 6) if any(each in name for each in _AMOUNTS) else down(value)


def beside_texts(guarantee: Mapping[str, Any]) -> list[str]:
    """Write what released bins and environments cost, which a guarantee states beside its own."""
    return [
        text
        for what in ("bins", "environments")
        for each in guarantee.get(what, ())
        for text in (
            f"its {'bins were' if what == 'bins' else 'environment was'} released at a cost beside "
            f"it: {_cost(each)}; privacy unit: {unit_text(each)}",
            *beside_texts(each),
        )
    ]


def unit_text(guarantee: Mapping[str, Any]) -> str:
    """Write the relation and the privacy unit of a release, in one line whatever a file says."""
    said = (guarantee.get(name) for name in ("relation", "unit"))
    return ", ".join(one_line(str(each)) for each in said if each)


def _cost(said: Mapping[str, Any]) -> str:
    if "order" in said:
        return f"Rényi divergence of order {exact(said['order'])} at most {up(said['epsilon'])}"
    return f"({up(said['epsilon'])}, {said['delta']!r})-differential privacy"
