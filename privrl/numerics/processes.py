"""Which process this is, and which generators are those of the process it was forked from.

A fork copies a process with its generators, and both continue with the same random numbers: of two
releases that share their noise, the difference is that of the data.
"""

import gc
import os
import secrets
from typing import Any

import numpy as np

_GENERATORS = (np.random.Generator, np.random.BitGenerator)


class _Here:
    """What is known of this process; a fork begins it anew."""

    def __init__(self, inherited: list[Any]) -> None:
        self.mark = secrets.randbits(64)  # numbers of processes are used again
        # The generators themselves: none of them may go, and leave its address to another one.
        self.inherited = {id(each): each for each in inherited}


_here = [_Here([])]


def this_process() -> tuple[int, int]:
    """Return what no other process has, plain and safe to pickle."""
    return os.getpid(), _here[0].mark


def check_made_here(rng: np.random.Generator) -> None:
    """Check that a generator is none of the process that this one was forked from.

    Raises
    ------
    ValueError
        If it is, or what drives it.
    """
    inherited = _here[0].inherited
    if inherited and (id(rng) in inherited or id(rng.bit_generator) in inherited):
        raise from_elsewhere()
    if getattr(rng, "made_in", this_process()) != this_process():
        raise from_elsewhere()  # after a fork that Python was not told of


def from_elsewhere() -> ValueError:
    """Return what is raised for a generator of another process."""
    return ValueError(
        "rng must be made in the process that uses it, got one from before a fork: both processes "
        "would draw the same noise, and their releases differ by the data. Call "
        "privrl.secret_rng() in each process."
    )


def _begin_anew() -> None:
    # Whoever made them, and wherever they are kept. The type is asked for, not the object: some
    # stand for others, and do things when they are asked what they are.
    found = [each for each in gc.get_objects() if issubclass(type(each), _GENERATORS)]
    _here[0] = _Here(found)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_begin_anew)
