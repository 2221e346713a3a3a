"""Results of jobs in a SQLite file, each kept as soon as it is there."""

import hashlib
import json
import math
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from privrl.experiments.sweeps.jobs import Job, JobResult
from privrl.files.files import package_text
from privrl.numerics.checks import check_is

_APPLICATION = 0x5072_4C53  # "PrLS", in the header of the file
_SCHEMA = 4
_PATIENCE = (2.0, 58.0)  # seconds in silence, and once more when it is said what is waited for
_NUMBERS = ("seconds", "draws", "spent", "epsilon_delta", "weight", "alpha", "sigma")


class Database(AbstractContextManager["Database"]):
    """Finished jobs in a file, which several processes may use at once.

    A job is found again by its content and by what else its result depends on, such as the
    versions of libraries. A change of our own code is seen only where the version changes:
    delete the file after such a change. The view ``results`` has a row for each run, and
    ``pandas.read_sql("SELECT * FROM results", sqlite3.connect(path))`` reads it.

    Parameters
    ----------
    path : pathlib.Path
        The file; made if it does not exist, with its folder.
    conditions : mapping of str to str
        What results depend on beside the job, see `privrl.experiments.sweeps.jobs.conditions`.

    Raises
    ------
    ValueError
        If the file cannot be made, or is something else; it is left as it was.
    OSError
        Here and later, if another process holds the file for a minute.

    Warns
    -----
    UserWarning
        If another process has held it for seconds.
    """

    def __init__(self, path: Path, conditions: Mapping[str, str]) -> None:
        self._conditions = json.dumps(dict(conditions), sort_keys=True)
        check_is("database", path, Path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            raise ValueError(f"database {str(path)!r} cannot be made: {error}.") from error
        self._wait_at_most(_PATIENCE[0])
        try:
            self._make_or_check(path)
        except (sqlite3.Error, UnicodeError) as error:  # SQLite's words quote the file's bytes
            self.close()
            raise ValueError(
                f"database {str(path)!r} cannot be read and written: {error}; move it away, or "
                "choose another folder."
            ) from error
        except (ValueError, OSError):
            self.close()
            raise

    def finished(self, jobs: Iterable[Job]) -> dict[Job, JobResult]:
        """Return the results of those jobs that are there.

        Raises
        ------
        OSError
            If the file is damaged: it cannot be read, or is not what was written.
        """
        query = f"SELECT key, id, sha256, job, {', '.join(_NUMBERS)} FROM jobs WHERE conditions = ?"
        try:
            rows = self._execute(query, (self._conditions,)).fetchall()
            there = {key: rest for key, *rest in rows}
            return {job: self._result(job.key, *there[job.key]) for job in jobs if job.key in there}
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise OSError(
                f"database cannot be read: {error}; move the file away, and all is computed anew."
            ) from error

    def save(self, job: Job, result: JobResult) -> None:
        """Add a job, all of it or nothing; if it is there, it stays as it is.

        Raises
        ------
        OSError
            If it cannot be written, such as on a full disk, or to a damaged file.
        """
        try:
            self._save(job, result)
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorname != "SQLITE_CONSTRAINT_PRIMARYKEY":
                raise
            raise OSError(
                "database is damaged: it has runs of a job that is not there; move the file away, "
                "and all is computed anew."
            ) from error
        except sqlite3.DatabaseError as error:
            raise OSError(
                f"database cannot be written: {error}; what was there is kept."
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _save(self, job: Job, result: JobResult) -> None:
        numbers = [_to_sql(getattr(result, name)) for name in _NUMBERS]
        text, rewards = json.dumps(job.to_dict()), result.rewards.astype("<f8")
        runs = [
            (job.first_run + i, _to_sql(run[-1]), _to_sql(final), run.tobytes())
            for i, (run, final) in enumerate(zip(rewards.T, result.final, strict=True))
        ]
        digest = self._digest(job.key, text, numbers, runs)
        with self._transaction() as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO jobs "
                f"(key, conditions, job, sha256, {', '.join(_NUMBERS)}) "
                f"VALUES (?, ?, ?, ?{', ?' * len(_NUMBERS)})",
                (job.key, self._conditions, text, digest, *numbers),
            )
            if added.rowcount == 1:
                connection.executemany(
                    "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
                    [(added.lastrowid, *run) for run in runs],
                )

    def _digest(self, key: str, text: str, numbers: list[Any], runs: list[Any]) -> str:
        """Return the digest of a job's rows, of which one that was changed or is gone has another.

        Raises
        ------
        TypeError
            If a row holds values of other types.
        """
        digest = hashlib.sha256()
        for *values, blob in runs:
            digest.update(json.dumps(values).encode() + blob)
        digest.update(json.dumps([key, self._conditions, text, numbers, len(runs)]).encode())
        return digest.hexdigest()

    def _result(self, key: str, number: int, digest: str, text: str, *values: Any) -> JobResult:
        runs = self._execute(
            "SELECT run, total_reward, final_value, rewards FROM runs WHERE job = ? ORDER BY run",
            (number,),
        ).fetchall()
        if self._digest(key, text, list(values), runs) != digest:
            raise ValueError("a job in it is not what was written")
        _, _, finals, blobs = zip(*runs, strict=True)
        rewards = np.stack([np.frombuffer(blob, "<f8") for blob in blobs], axis=-1)
        found: dict[str, Any] = dict(zip(_NUMBERS, map(_from_sql, values), strict=True))
        found["draws"] = int(found["draws"])
        return JobResult(
            rewards=rewards.astype(np.float64), final=np.array(finals, np.float64), **found
        )

    def _make_or_check(self, path: Path) -> None:
        with self._transaction() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if empty and not application and not schema:
                for table in package_text(__package__, "tables.sql").split(";"):
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_SCHEMA}")
            elif application != _APPLICATION:
                raise ValueError(
                    f"database {str(path)!r} is another program's; move it away, or choose "
                    "another folder."
                )
            elif schema != _SCHEMA:
                raise ValueError(
                    f"database {str(path)!r} must have schema {_SCHEMA}, got {schema}: another "
                    "version of privrl made it; move it away, or choose another folder."
                )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what is done inside, or, on an error, none of it."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            if self._connection.in_transaction:  # a full disk has rolled back already
                self._connection.execute("ROLLBACK")
            raise
        self._execute("COMMIT")

    def _execute(self, statement: str, given: Sequence[object] = ()) -> sqlite3.Cursor:
        """Execute a statement; where another process holds the file, say so, and wait on."""
        try:
            return self._connection.execute(statement, given)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        seconds = round(_PATIENCE[1])
        warnings.warn(
            f"another process holds the database; it is waited for, {seconds} s at the most.",
            stacklevel=2,
        )
        self._wait_at_most(_PATIENCE[1])
        try:
            return self._connection.execute(statement, given)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            raise OSError(
                "database is held by another process; end that or wait for it, or choose another "
                "folder."
            ) from error
        finally:
            self._wait_at_most(_PATIENCE[0])

    def _wait_at_most(self, seconds: float) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _to_sql(value: float) -> float | None:
    return None if math.isnan(value) else float(value) + 0.0  # SQLite's zeros have no sign


def _from_sql(value: float | None) -> float:
    return math.nan if value is None else value
