"""What comes of something in the child of a fork."""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest


def needs_forks(test: Any) -> Any:
    """Python warns of forks beside threads, which test runners have."""
    test = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")(test)
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")(test)


def forked(ask: Callable[[], Any]) -> Any:
    """Return what a function returns in a forked child, or the error that it raises there."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def answer() -> None:
        try:
            theirs.send(ask())
        except BaseException as error:
            theirs.send(error if isinstance(error, ValueError) else AssertionError(repr(error)))

    process = context.Process(target=answer)
    process.start()
    got = ours.recv()
    process.join()
    if isinstance(got, AssertionError):
        raise got
    return got
