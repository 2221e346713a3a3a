"""Epsilons in words: never rounded down."""

import math
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, SupportsFloat


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


def bins_texts(bins: Iterable[Mapping[str, Any]]) -> list[str]:
    """Write what released bins cost, as guarantees state it beside the cost of a model."""
    return [
        f"its bins were released at a cost beside it: ({up(each['epsilon'])}, {each['delta']!r})-"
        f"differential privacy; privacy unit: {each['relation']}"
        for each in bins
    ]
