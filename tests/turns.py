"""What takes long is done in turns: one part in so many of it at a time.

Each name belongs to one turn for good, whatever else there is.
"""

from argparse import ArgumentTypeError
from dataclasses import dataclass
from zlib import crc32


@dataclass(frozen=True)
class Turn:
    """Turn number ``which`` of ``of``, from 0."""

    which: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Turn":
        """Read ``"K/N"``, as in 0/3: the first of three."""
        which, _, of = text.partition("/")
        if not (which.isdecimal() and of.isdecimal() and int(which) < int(of)):
            raise ArgumentTypeError(
                f"a turn must be K/N with 0 <= K < N, such as 0/3; got {text!r}"
            )
        return cls(int(which), int(of))

    def has(self, name: str) -> bool:
        """Whether it is this name's turn."""
        return crc32(name.encode()) % self.of == self.which
