"""Epsilons in words: never rounded down."""

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import SupportsFloat


def up(epsilon: SupportsFloat, digits: int = 4) -> str:
    """Write an epsilon with some digits in all."""
    value = float(epsilon)
    if not math.isfinite(value):
        return "∞"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))):g}"


def up_to_places(epsilon: SupportsFloat, places: int = 2) -> str:
    """Write an epsilon with some digits after the point."""
    place = Decimal(1).scaleb(-places)
    return str(Decimal(repr(float(epsilon))).quantize(place, rounding=ROUND_CEILING))
