"""Names of data sets: names that look the same have one spelling.

A budget is kept by name, so two spellings of one name would be two budgets of the same data. Every
new name and every name in an entry passes through `one_spelling`. Unicode's compatibility
composition (NFKC) unites composed and decomposed accents, full-width and ordinary letters,
ligatures and their letters. Consecutive blanks become one space, and invisible marks are removed.
Letters that merely look alike, such as a Latin and a Cyrillic a, remain different.
"""

from functools import lru_cache
from typing import Final
from unicodedata import category, normalize

from privrl.files.shown import shown

LONGEST: Final = 100  # characters of a name

# Default_Ignorable_Code_Point, without those of the categories C, which no name may have, and the
# pattern of Braille without dots.
_INVISIBLE: Final = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F),
            *(0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
        ),
    )
)


@lru_cache(maxsize=1024)
def one_spelling(name: str) -> str:
    """Return the canonical spelling of a name; the function is idempotent."""
    before = None
    while name != before:
        before = name
        seen = "".join(each for each in name if each not in _INVISIBLE)
        name = " ".join(normalize("NFKC", seen).split())
    return name


def check_name(argument: str, name: object) -> str:
    """Return the canonical spelling of a name that fits on one line.

    Raises
    ------
    ValueError
        If it does not fit, or is not 1 to 100 characters long.
    """
    known = one_spelling(check_line(argument, name))
    return check_line(argument, known)


def check_line(argument: str, text: object) -> str:
    """Return a text of 1 to 100 characters that can be shown on one line; see `check_name`."""
    fits = isinstance(text, str) and 0 < len(text) <= LONGEST and text == text.strip()
    if isinstance(text, str) and fits and all(category(each)[0] != "C" for each in text):
        return text
    raise ValueError(
        f"{argument} must be a name of 1 to {LONGEST} characters that can be printed, without "
        f"blanks around it, got {shown(text)}."
    )
