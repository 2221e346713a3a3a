"""Logs as values that tests compare."""

from privrl.data.logs import Log


def persons(log: Log) -> list[tuple[bytes, ...]]:
    """The steps of each person, as bytes."""
    found = []
    for first, last in zip(log.person_starts[:-1], log.person_starts[1:], strict=True):
        starts = log.episode_starts[first : last + 1]
        steps = slice(starts[0], starts[-1])
        columns = (log.state, log.action, log.next_state, log.reward)
        found.append(((starts - starts[0]).tobytes(), *(c[steps].tobytes() for c in columns)))
    return found
