"""How far a sweep is: jobs that are finished, and episodes of those that run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from privrl.agents.training import Stretch


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is.

    Attributes
    ----------
    done, jobs : int
        Jobs that are finished, and all.
    already : int
        Those that were in the database.
    share : float
        Part of the expected work of the others that is done, 0 to 1.
    episodes, of_episodes : int
        Episodes that the others have had, in all of their runs, and will have.
    """

    done: int
    jobs: int
    already: int
    share: float
    episodes: int = 0
    of_episodes: int = 0
    _later: "Callable[[], SweepProgress] | None" = field(default=None, repr=False, compare=False)

    def now(self) -> "SweepProgress":
        """Return how far it is by now, also within jobs that run, where workers can tell.

        Workers of this machine can. Of others, jobs count when they are finished.
        """
        return self if self._later is None else self._later()


class Counts:
    """A file for each job that runs, with how many episodes of a run it has had.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are. On a machine without it nothing is counted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def counting(self, key: str) -> Iterator[Callable[[Stretch], object] | None]:
        """Have a callback that counts a job's episodes, or None on another machine."""
        try:
            file = (self._folder / key).open("wb", buffering=0)
        except OSError:
            yield None
            return

        def count(told: Stretch) -> None:
            file.seek(0)
            file.write(told.done.to_bytes(8, "little"))

        with file:
            yield count

    def read(self) -> dict[str, int]:
        """Return the episodes of jobs that run, by the jobs' keys."""
        found: dict[str, int] = {}
        try:
            paths = list(self._folder.iterdir())
        except FileNotFoundError:  # the sweep has ended, and removed it
            return found
        for path in paths:
            try:
                episodes = int.from_bytes(path.read_bytes(), "little")
            except OSError:  # it has just ended
                continue
            if episodes:  # before the first there is no such count
                found[path.name] = episodes
        return found

    def drop(self, key: str) -> None:
        """Forget a job that is finished."""
        (self._folder / key).unlink(missing_ok=True)


@contextmanager
def counts() -> Iterator[Counts]:
    """Have counts in a separate folder, which is removed in the end."""
    with TemporaryDirectory(prefix="privrl-", ignore_cleanup_errors=True) as folder:
        yield Counts(Path(folder))
