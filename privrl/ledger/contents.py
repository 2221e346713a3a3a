"""Which data a release is of: a keyed digest of a file's bytes, or of a folder's.

The key is the ledger's salt. Whoever has the digest and not the salt, such as a reader of an
export, cannot find out whether guessed data have it. Whoever may read the ledger has both, and can.
"""

import hashlib
import hmac
from pathlib import Path

from privrl.costs.relations import Relation
from privrl.ledger.file import digest_of

_BLOCK = 1 << 20


def content_of(data: Path, salt: bytes) -> str:
    """Return the keyed digest of all bytes of a file, or of all files in a folder with their names.

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
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        name = path.relative_to(data).as_posix()
        whole.update(f"{digest_of(name.encode())} {_file(path, salt)}\n".encode())
    return whole.hexdigest()


def _file(path: Path, salt: bytes) -> str:
    whole = hmac.new(salt, digestmod=hashlib.sha256)
    with path.open("rb") as file:
        if not path.is_file():
            raise ValueError(
                f"data must be a file or folder to be known again by, got {str(path)!r}, which can "
                "be read only once; say which data set it is: --dataset NAME."
            )
        while block := file.read(_BLOCK):
            whole.update(block)
    return whole.hexdigest()


def relation_key(relation: Relation) -> str:
    """Return a digest of all that a relation says, for two of one name may differ."""
    said = (
        relation.name,
        relation.tables,
        relation.covers_arrival,
        sorted(relation.norm_only),
        relation.convex_from,
        sorted(relation.sum_only),
    )
    return digest_of(repr(said).encode())
