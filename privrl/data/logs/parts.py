"""The entries of a part of a column, each read by itself.

A part is what is read of a column at once. It holds entries, and perhaps the place of each row's
entry, so that repeated entries are read once.

No result depends on other entries. Names are distinguished by a key made of the name alone; names
are sorted by that key alone, kinds included, so that two different names never tie. NumPy and
pandas sort and find equal ones among whole numbers only: pandas' tables of objects choose by all
entries how they compare one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privrl.data.records import text_reader
from privrl.data.schema import Bins, Categories, Column
from privrl.data.schema.entries import (
    Entries,
    categories_of,
    category_key,
    entries_of,
    exact_of,
    key_of,
    kind_of,
    refuse_type,
)
from privrl.data.schema.texts import TRUTH, WHOLE, number_in
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

Key = str | int | bool | tuple[str, str | int | bool]
"""What tells persons or episodes apart; with its kind, where a container holds several kinds."""

NO_NAME: Final[Key] = ("none", False)
"""Of an entry that is there and can be no name."""

_TRUTH: dict[Key, str] = {("whole number", 1): "true", ("whole number", 0): "false"}


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a column.

    Attributes
    ----------
    entries : Entries or list of str
        Entries of a container with a type; or fields of a text file, which have none.
    at : array of int, shape (n,), optional
        Which entry each row has, −1 where it is missing; by default each row has its own.
    """

    entries: Entries | list[str]
    at: IntArray | None = None

    def __len__(self) -> int:
        return len(self._held if self.at is None else self.at)

    @property
    def _held(self) -> list[str] | NDArray[Any]:
        return self.entries if isinstance(self.entries, list) else self.entries.values

    def spread(self, found: Any, missing: float) -> Any:
        """Return what was found for each entry, for each row."""
        return found if self.at is None else np.append(found, found.dtype.type(missing))[self.at]


def part_of(values: Any, called: str) -> Part:
    """Return a part of a column of pandas, or of an array.

    Raises
    ------
    ValueError
        If it is of a type that cannot be read.
    """
    dtype = getattr(values, "dtype", None)
    if not isinstance(dtype, pd.CategoricalDtype):
        return Part(entries_of(values, called))
    codes = pd.Series(values).cat.codes.to_numpy().astype(np.intp)
    return Part(categories_of(dtype, called), codes)


def cells_in(part: Part, column: Column, name: str) -> IntArray:
    """Return the cell of each row, −1 where it has none.

    Raises
    ------
    ValueError
        If the part is of a type that cannot hold what the column holds.
    """
    if not isinstance(part.entries, list):
        found = column.find(part.entries)
    else:
        found = text_reader(name, column)(part.entries)
        if isinstance(column, Bins):
            found = column.find(entries_of(found, f"column {name!r}"))
    cells: IntArray = part.spread(found, -1)
    rest = len(column.values) if isinstance(column, Categories) else len(column.edges) - 1
    return np.where(cells < 0, rest, cells) if column.size > rest else cells


def numbers_in(part: Part) -> FloatArray:
    """Return the number of each row, NaN where it has none.

    Raises
    ------
    ValueError
        If the part is of a type that holds no numbers.
    """
    entries = part.entries
    if isinstance(entries, list):
        found = np.fromiter(map(number_in, entries), np.float64, len(entries))
    else:
        found = entries.numbers()
    return part.spread(found, np.nan)


def texts_in(part: Part, find: Callable[[str], int], *, missing: int, unknown: int) -> IntArray:
    """Return what is found for the text of each row, that is as a text file would have it.

    It is ``missing`` for missing entries, and ``unknown`` for other types than text, whole number
    and truth value.
    """
    keys, at = keys_in(part)
    by_equality = not isinstance(part.entries, list) and part.entries.by_equality

    def found(key: Key) -> int:
        place = unknown if key == NO_NAME else find(_text(key))
        if place == unknown and by_equality:  # 1 may be what is left of True
            place = find(_TRUTH.get(key, ""))
        return place

    return np.array([*map(found, keys), missing], np.intp)[at]


def flags_in(part: Part) -> FloatArray:
    """Return 1 or 0 for each row: truth values, or numbers; NaN for something else.

    A missing flag is not set.
    """
    codes = texts_in(part, _flag, missing=0, unknown=-1)
    if not isinstance(part.entries, list) and part.entries.held in ("numbers", "anything"):
        numbers = numbers_in(part)  # those with decimals are no texts of names
        codes = np.where((codes < 0) & ~np.isnan(numbers), numbers != 0, codes)
    return np.where(codes >= 0, codes, np.nan)


def _flag(text: str) -> int:
    number = TRUTH.get(text.strip().lower(), number_in(text))
    return -1 if math.isnan(number) else int(number != 0)


class Names:
    """Numbers of persons or episodes, by their first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, part: Part) -> NDArray[np.int32]:
        """Return the number of the name of each row, −1 where it is missing or none."""
        keys, at = keys_in(part)
        known = self._numbers
        numbers = [-1 if key == NO_NAME else known.setdefault(key, len(known)) for key in keys]
        return np.array([*numbers, -1], np.int32)[at]

    def ranks(self) -> IntArray:
        """Return the place of each name among all: whole numbers by size, then texts.

        The order of two names depends on these two alone.
        """
        order = sorted(range(len(self)), key=list(map(_rank, self._numbers)).__getitem__)
        ranks = np.empty(len(self), np.intp)
        ranks[order] = np.arange(len(self))
        return ranks


def keys_in(part: Part) -> tuple[list[Key], IntArray]:
    """Return different keys by first appearance, and at which of them each row has its own.

    An entry that is there and can be no name has the key ``NO_NAME``; a missing one is at −1.
    """
    entries = part.entries
    if isinstance(entries, list):
        return _first_seen(list(entries), part.at)
    if part.at is not None:
        return _first_seen(_categories(entries), part.at)
    if entries.held == "anything":
        return _first_seen([name_of(entry) for entry in entries.values], None)
    if entries.held == "texts":
        pairs = zip(entries.values, entries.there, strict=True)
        texts = [str.__str__(text) if there else "" for text, there in pairs]
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        at = np.fromiter(map(places.__getitem__, texts), np.intp, len(texts))
        return _first_seen(list(places), at)
    numbers, whole = _whole_numbers(entries)
    at, different = pd.factorize(numbers)
    at = np.where(whole, at, np.where(entries.there, len(different), -1))
    return [*_typed(different, entries), NO_NAME], at


def name_of(entry: object) -> Key | None:
    """Return the key of an object, None if it is missing.

    None is a float that does not keep all whole numbers of its size: it may be one of two names.
    """
    key = key_of(entry)
    if key is None:
        return None if _is_missing(entry) else NO_NAME
    is_float = isinstance(entry, float | np.floating)
    if is_float and abs(int(key[1])) >= exact_of(np.dtype(type(entry))):
        return NO_NAME
    return key if key != ("text", "") else None


def _is_missing(entry: object) -> bool:
    if entry is None or entry is pd.NA or entry is pd.NaT:
        return True
    try:
        return isinstance(entry, float | np.floating) and bool(np.isnan(entry))
    except Exception:  # as in key_of
        return False


def _whole_numbers(entries: Entries) -> tuple[IntArray, BoolArray]:
    """Return exact whole numbers, and where they are.

    Raises
    ------
    ValueError
        If they were longer floats, of which 64 bits may make one of two names.
    """
    if entries.type_name == "longdouble":
        refuse_type(entries.called, "whole numbers or texts", entries.type_name)
    if entries.values.dtype.kind == "u":
        return entries.values, entries.there
    numbers, whole = entries.whole_numbers()
    if entries.held == "numbers":
        whole = whole & (np.abs(numbers) < entries.exact)
    return numbers, whole


def _typed(values: Any, entries: Entries) -> list[Key]:
    return [bool(each) if entries.held == "truth values" else each for each in values.tolist()]


def _categories(entries: Entries) -> list[Key | None]:
    """Return the keys of categories, or of the entries of a dictionary."""
    if entries.by_equality:
        return [_key_of_category(each, entries.exact) for each in entries.values]
    if entries.held == "texts":
        return [
            str.__str__(text) or None if there else None
            for text, there in zip(entries.values, entries.there, strict=True)
        ]
    numbers, whole = _whole_numbers(entries)
    keys = zip(_typed(numbers, entries), whole, strict=True)
    return [key if is_whole else NO_NAME for key, is_whole in keys]


def _key_of_category(category: object, exact: float) -> Key | None:
    """Return the key of a category of pandas.

    None is a whole number that floats do not keep: one decimal of anybody makes floats of all.
    """
    key = category_key(category)
    if key is None or (not isinstance(key, str) and abs(key) >= exact):
        return NO_NAME
    return (kind_of(key), key) if key != "" else None


def _first_seen(keys: Sequence[Key | None], at: IntArray | None) -> tuple[list[Key], IntArray]:
    """Return keys in the order in which rows have them first, and at which of them each is."""
    places, different = (
        (np.arange(len(keys)), np.arange(len(keys))) if at is None else pd.factorize(at)
    )
    chosen = [keys[place] if place >= 0 else None for place in different.tolist()]
    there = np.array([key is not None and key != "" for key in chosen], np.bool_)
    return [NO_NAME if key is None else key for key in chosen], np.where(there[places], places, -1)


def _text(key: Key) -> str:
    """Return a key as a text file has it."""
    value = key[1] if isinstance(key, tuple) else key
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**24 else ""  # Python refuses to write the longest
    return value


def _rank(key: Key) -> tuple[int, int, str, str]:
    """Return by what a name is sorted: of different names never the same."""
    value = key[1] if isinstance(key, tuple) else key
    kind = kind_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return 0, value, "", kind
    text = _text(value)
    if len(text) < 25 and WHOLE.fullmatch(text):
        return 0, int(text.partition(".")[0]), text, kind
    return 1, 0, text, kind
