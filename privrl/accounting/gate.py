"""The gate through which every charge and every release passes.

There is one, so that an audit can stand at it and see what goes in and what comes out
(`privrl.audit.replay`). Without an audit nothing is kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

import numpy as np

from privrl._shown import shown
from privrl.accounting.base import Accountant
from privrl.costs.base import Cost
from privrl.numerics.special import FloatArray

Released = TypeVar("Released")
Draw = Callable[[FloatArray, np.random.Generator], Released]


class Watcher(Protocol):
    """What stands at the gate."""

    def charged(self, cost: Cost) -> None:
        """See what an accountant has recorded."""

    def released(
        self,
        who: object,
        cost: Cost | None,
        data: FloatArray,
        rng: np.random.Generator,
        draw: Draw[Released],
    ) -> Released:
        """Make a release in place of the gate: of data that were checked and paid for."""


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let a watcher stand at the gate, in this thread."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def charge(accountant: Accountant | None, cost: Cost) -> None:
    """Tell an accountant, if there is one, what is about to be released; it may refuse."""
    if accountant is None:
        return
    if isinstance(accountant, type) or not callable(getattr(accountant, "compose", None)):
        raise ValueError(
            f"accountant must be one, such as RdpAccountant(budget=...), got {shown(accountant)}."
        )
    accountant.compose(cost)
    watcher = _watcher.get()
    if watcher is not None:
        watcher.charged(cost)


def release(
    who: object,
    cost: Cost | None,
    data: FloatArray,
    rng: np.random.Generator,
    draw: Draw[Released],
) -> Released:
    """Draw a release of data that were checked and paid for.

    Parameters
    ----------
    who : object
        The mechanism or sampler.
    cost : Cost or None
        What it costs; None if it was paid for before.
    data : array
        The private data.
    rng : numpy.random.Generator
        Where the randomness comes from.
    draw : callable
        Takes the data and the generator, returns what is released.
    """
    watcher = _watcher.get()
    if watcher is None:
        return draw(data, rng)
    return watcher.released(who, cost, data, rng, draw)
