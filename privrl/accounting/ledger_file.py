"""The file of a ledger: entries in a SQLite database, each on disk before the caller continues.

An entry is a text. The file also stores a hash of each text, its commitment, and a link: the hash
of the previous link and the commitment. So changing, removing or moving an entry breaks the links.
The exception is the end of the chain: anyone who can write the file can recompute all links. An
export keeps the head elsewhere, and the rewritten file lacks that head. Erasing a text keeps its
commitment; each text contains a random number, so that the commitment does not reveal it.

Each transaction opens its own connection. So forked processes and other threads share no
connection, and a replaced file is noticed.
"""

import contextlib
import hashlib
import hmac
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, Final

from privrl.costs.conversion import DEFAULT_ORDERS
from privrl.costs.relations import Relation
from privrl.files.files import LEDGER, parquet_in, sync_folder

_SCHEMA: Final = 1
_PATIENCE = 10.0  # seconds that another process may hold the file
_TABLES: Final = (
    "CREATE TABLE meta (salt BLOB NOT NULL, orders BLOB NOT NULL)",
    "CREATE TABLE curves (digest TEXT PRIMARY KEY, curve BLOB NOT NULL)",
    """
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY,
        text TEXT,
        commitment TEXT NOT NULL,
        link TEXT NOT NULL
    )
    """,
)

Row = tuple[int, str | None, str, str]


class LedgerError(OSError):
    """The ledger is unreliable or cannot be written; nothing was drawn."""


def default_path() -> Path:
    """Return the ledger's path: ``PRIVRL_LEDGER``, or a file in the user's state directory."""
    if said := os.environ.get("PRIVRL_LEDGER"):
        return Path(said)
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    folder = state if state.is_absolute() else Path.home() / ".local" / "state"
    return folder / "privrl" / "ledger.sqlite"


class LedgerFile:
    """A file of chained entries, which several processes may use at once.

    Parameters
    ----------
    path : pathlib.Path
        The file. The first entry creates it, readable by its owner alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        return self.path.exists()

    @contextmanager
    def reading(self) -> Iterator["Transaction"]:
        """Give the block a consistent view of the file.

        Raises
        ------
        LedgerError
            If the file is absent, unreadable, or not a ledger of a known version.
        """
        with self._transaction("BEGIN") as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator["Transaction"]:
        """Give the block exclusive write access; on an error, nothing is added.

        All additions are on disk when the block ends.

        Raises
        ------
        LedgerError
            As `reading`, or if the file cannot be created or written.
        """
        with self._words():
            if not self.path.exists():
                self._make()
        with self._transaction("BEGIN IMMEDIATE") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, begin: str) -> Iterator["Transaction"]:
        with self._words(), closing(self._open(begin)) as connection:
            yield Transaction(connection, self.path)  # closing rolls back on an error
            connection.execute("COMMIT")

    def _open(self, begin: str) -> sqlite3.Connection:
        """Return a connection within a transaction, once other processes release the file."""
        until = time.monotonic() + _PATIENCE
        while True:
            if not self.path.exists():
                raise LedgerError(f"ledger {str(self.path)!r} does not exist.")
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",  # creates no file
                uri=True,
                isolation_level=None,
                timeout=max(0.0, until - time.monotonic()),
            )
            try:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute(begin)
                self._check(connection)
                return connection
            except sqlite3.OperationalError as error:
                connection.close()
                # SQLite does not wait while the last connection closes.
                if _code(error) != "SQLITE_BUSY" or time.monotonic() > until:
                    raise
                time.sleep(0.005)
            except BaseException:
                connection.close()
                raise

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if application != LEDGER:
            raise LedgerError(
                f"ledger {str(self.path)!r} is not a ledger: the file is empty, damaged or from "
                "another program. Restore a backup, or choose another file."
            )
        if schema != _SCHEMA:
            raise LedgerError(
                f"ledger {str(self.path)!r} must have schema {_SCHEMA}, got {schema}: another "
                "version of privrl made it; use that version."
            )

    def _make(self) -> None:
        """Create an empty ledger atomically, unless another process did so first."""
        folder = self.path.absolute().parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = folder / f".{self.path.name}-{token_hex(8)}"
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN")
                for table in _TABLES:
                    connection.execute(table)
                orders = DEFAULT_ORDERS.astype("<f8").tobytes()
                connection.execute("INSERT INTO meta VALUES (?, ?)", (token_bytes(32), orders))
                connection.execute(f"PRAGMA application_id = {LEDGER}")
                connection.execute(f"PRAGMA user_version = {_SCHEMA}")
                connection.execute("COMMIT")
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    raise LedgerError(
                        f"ledger {str(self.path)!r} must be on a file system that supports "
                        "SQLite's WAL mode; choose another place."
                    )
            with contextlib.suppress(FileExistsError):
                os.link(scratch, self.path)
            sync_folder(folder)
        finally:
            scratch.unlink()

    @contextmanager
    def _words(self) -> Iterator[None]:
        """Turn errors of the file into readable ones."""
        try:
            yield
        except LedgerError:
            raise
        except sqlite3.Error as error:
            raise LedgerError(self._why(error)) from error
        except UnicodeError as error:  # SQLite's message quotes the file's bytes
            raise LedgerError(
                f"ledger {str(self.path)!r} is damaged: it contains invalid text; nothing was "
                "drawn. Restore a backup."
            ) from error
        except OSError as error:
            why = error.strerror or str(error)
            raise LedgerError(
                f"ledger {str(self.path)!r} cannot be created or read: {why}. Nothing was drawn."
            ) from error

    def _why(self, error: sqlite3.Error) -> str:
        """Return the meaning of a database error for the user."""
        code, name = _code(error), f"ledger {str(self.path)!r}"
        if code in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
            return (
                f"{name} has been in use by another process for {_PATIENCE:g} seconds; nothing "
                "was drawn. Try again later."
            )
        if code == "SQLITE_FULL":
            return f"{name} cannot be written, the disk is full; nothing was drawn. Free space."
        if code in {"SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN"}:
            return (
                f"{name} cannot be written: {error}; nothing was drawn. Make the file and "
                "its folder writable, or choose another one."
            )
        if code == "SQLITE_IOERR":
            return f"{name} cannot be written: {error}; nothing was drawn. Check the disk."
        return f"{name} is damaged: {error}; nothing was drawn. Restore a backup."


class Transaction:
    """The operations on the file during one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def meta(self) -> tuple[bytes, bytes]:
        """Return the salt, and the orders as little-endian floats."""
        rows = self._connection.execute("SELECT salt, orders FROM meta").fetchall()
        if len(rows) != 1 or not all(isinstance(value, bytes) for value in rows[0]):
            raise damaged(self.path, "its salt is missing")
        salt, orders = rows[0]
        return salt, orders

    def rows(self, first: int) -> list[Row]:
        """Return the entries in order, starting at a number."""
        query = "SELECT number, text, commitment, link FROM entries WHERE number >= ?"
        return self._connection.execute(f"{query} ORDER BY number", (first,)).fetchall()

    def curve(self, digest: str) -> bytes:
        """Return the curve with a digest, and check the digest."""
        found = self._connection.execute("SELECT curve FROM curves WHERE digest = ?", (digest,))
        row = found.fetchone()
        if row is None or not isinstance(row[0], bytes) or digest_of(row[0]) != digest:
            raise damaged(self.path, "the cost of a release was altered")
        return row[0]

    def add_curve(self, curve: bytes) -> str:
        """Store a curve once, and return its digest."""
        digest = digest_of(curve)
        self._connection.execute("INSERT OR IGNORE INTO curves VALUES (?, ?)", (digest, curve))
        return digest

    def add(self, before: str, number: int, entry: dict[str, Any]) -> Row:
        """Add an entry after the one with a link, and return it."""
        text = json.dumps(entry | {"nonce": token_hex(16)}, ensure_ascii=False, allow_nan=False)
        commitment = digest_of(text.encode())
        row = (number, text, commitment, link_of(before, commitment))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        return row

    def erase(self, numbers: list[int], curves: set[str]) -> None:
        """Erase the texts of some entries, and all curves except those kept."""
        self._connection.executemany(
            "UPDATE entries SET text = NULL WHERE number = ?", [(number,) for number in numbers]
        )
        there = [digest for (digest,) in self._connection.execute("SELECT digest FROM curves")]
        self._connection.executemany(
            "DELETE FROM curves WHERE digest = ?", [(each,) for each in there if each not in curves]
        )

    def check_pages(self) -> None:
        """Run SQLite's check of the whole file."""
        found = self._connection.execute("PRAGMA integrity_check").fetchall()
        if found != [("ok",)]:
            raise damaged(self.path, str(found[0][0]))


def damaged(path: Path, why: str) -> LedgerError:
    """Return the error for a ledger whose entries were altered."""
    return LedgerError(
        f"ledger {str(path)!r} is damaged or was altered: {why}. Nothing was entered or drawn. "
        "Restore a backup."
    )


def start_of(salt: bytes, orders: bytes) -> str:
    """Return the link before the first entry; it binds the salt and the orders."""
    return digest_of(b"privrl ledger" + digest_of(salt).encode() + orders)


def link_of(before: str, commitment: str) -> str:
    """Return the link of an entry."""
    return digest_of(f"{before} {commitment}".encode())


def digest_of(data: bytes) -> str:
    """Return a SHA-256 digest as text."""
    return hashlib.sha256(data).hexdigest()


def _code(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error, without details for developers."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])


_BLOCK = 1 << 20


def content_of(data: Path, salt: bytes) -> str:
    """Return the keyed digest of all bytes of a file, or of all files in a folder.

    Of a folder with Parquet files only these count, since nothing else is read of it: what was
    released may be written there as well, and the data are still the same. Their names and order
    do not count: renamed files are the same data. A folder of one such file is known as the file.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it can be read only once, such as a pipe.
    """
    if not data.is_dir():
        return _file(data, salt)
    whole = hmac.new(salt, digestmod=hashlib.sha256)
    read = [path for path in parquet_in(data) if path.is_file()]
    if len(read) == 1:
        return _file(read[0], salt)
    for digest in sorted(_file(path, salt) for path in read or data.rglob("*") if path.is_file()):
        whole.update(f"{digest}\n".encode())
    return whole.hexdigest()


def _file(path: Path, salt: bytes) -> str:
    whole = hmac.new(salt, digestmod=hashlib.sha256)
    with path.open("rb") as file:
        if not path.is_file():
            raise ValueError(
                f"data must be a file or folder, got {str(path)!r}, which can be read only once; "
                "name the data set with --dataset NAME."
            )
        while block := file.read(_BLOCK):
            whole.update(block)
    return whole.hexdigest()


def relation_key(relation: Relation) -> str:
    """Return a digest of a relation's full definition; relations of equal names may differ."""
    said = (
        relation.name,
        relation.tables,
        relation.covers_arrival,
        sorted(relation.norm_only),
        relation.convex_from,
        sorted(relation.sum_only),
    )
    return digest_of(repr(said).encode())
