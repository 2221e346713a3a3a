"""Rounds of one measurement, which are repeated where they disagree."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

_APART = 1.2  # of the median round and the quickest, which the page quotes
_TIMES = 2  # that all rounds are made again


def disagree(rounds: Sequence[float]) -> bool:
    """Return whether the quickest round is not what rounds usually take.

    Parameters
    ----------
    rounds : sequence of float
        Seconds; of one there is nothing to disagree with.
    """
    return len(rounds) > 1 and median(rounds) > _APART * min(rounds)


def repeat(
    stats: Any,
    function: Callable[..., object],
    setup: Callable[[], Any] | None,
    clock: Callable[[], float],
) -> None:
    """Make rounds again for as long as they disagree, twice at most; all of them count.

    Parameters
    ----------
    stats : pytest_benchmark's, or None
        With ``stats.data``, the rounds there were, ``update`` and ``iterations``.
    function, setup
        As for a measurement.
    clock : callable
        Returns the time in seconds.
    """
    for _ in range(0 if stats is None else _TIMES):
        rounds = list(stats.stats.data)
        if not disagree(rounds):
            return
        # Of a short call a few hundred rounds say as much as thousands.
        for _ in range(min(len(rounds), 300)):
            given = () if setup is None else (setup(),)
            begin = clock()
            for _ in range(stats.iterations):
                function(*given)
            stats.update(clock() - begin)
