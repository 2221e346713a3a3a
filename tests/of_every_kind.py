"""Entries of every kind, for tests of readers."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Final

import numpy as np
import pandas as pd


class Fails:
    """Fails whenever it is looked at, and says that it is a whole number."""

    def _fail(self, *_):
        raise RuntimeError("SECRET")

    __eq__ = __hash__ = __int__ = __float__ = __index__ = __bool__ = __len__ = __iter__ = _fail
    __lt__ = __gt__ = __le__ = __ge__ = __str__ = __repr__ = __array__ = __getitem__ = _fail


Integral.register(Fails)


class Word(str):
    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("SECRET")


#: Entries of every kind. What one of them is in a column of some type is its own affair.
KINDS: Final[list[Any]] = [
    *("a", "b", "c", "", " ", " 1", "1", "1.0", "2", "true", "True", "nan", "NA", "None", "inf"),
    *("\x00", "\ud800", "a\n", 'a"b', "é", "x" * 300, np.str_("a"), np.str_("1"), Word("a")),
    *(True, False, np.True_, np.False_, None, np.nan, float("nan"), pd.NA, pd.NaT, np.inf, -np.inf),
    *(0, 1, 2, 3, -1, 2**53, 2**53 + 1, 2**63, 2**64, -(10**400), 10**400, 10**5000),
    *(0.5, 1.0, 1.5, 2.0**53, 1e308, np.float16(1), np.float32(0.1), np.float64(2), np.int8(1)),
    *(np.uint64(2**64 - 1), np.longdouble("1e4000"), np.longdouble(1), np.longdouble("nan")),
    *(Decimal(1), Decimal("0.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1e999"), Fraction(1)),
    *(Fraction(1, 3), Fraction(10**400, 3), 1j, complex(1), np.complex64(1), b"a", b"1"),
    *(bytearray(b"a"), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.timedelta(1)),
    *(np.datetime64("2020-01-01"), np.datetime64("NaT"), np.timedelta64(1), np.timedelta64("NaT")),
    *(np.timedelta64(1, "D"), pd.Timestamp(2020, 1, 1), pd.Timestamp(2020, 1, 1, tz="UTC")),
    *(pd.Timedelta(1), pd.Period("2020"), pd.Interval(0, 1), [], [1], ["a"], (), (1,), (1, 2)),
    *([[1], [2]], {}, {1}, {"a": 1}, np.array([1]), np.array([1, 2]), np.array(1), np.array("a")),
    *(np.ma.masked, pd.Series([1]), pd.DataFrame({"a": [1]}), object(), int, ..., range(2)),
    *(np.zeros(1, [("a", int)])[0], Fails(), ValueError("SECRET"), lambda: 1),
]
