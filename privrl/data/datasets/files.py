"""Finding the files of a data set: in a folder that is given, in the cache, or at UCI."""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from privrl.files.extras import extra
from privrl.files.files import bytes_writer, save_all
from privrl.files.shown import shown

ARCHIVES = "https://archive.ics.uci.edu/static/public"
MOST_BYTES = 2**26  # of one file in an archive; the largest in use has 6 MB


@dataclass(frozen=True)
class Files:
    """The files of a data set.

    Attributes
    ----------
    folder : str
        Where the files are, below the folder of all data sets.
    digests : mapping from str to str
        The files' names and SHA-256 checksums.
    archive : str
        The ZIP file at UCI that holds them, below `ARCHIVES`.
    """

    folder: str
    digests: Mapping[str, str]
    archive: str


def locate(files: Files, folder: Path | None, *, progress: bool = False) -> Path:
    """Return the folder that holds the files, their checksums verified.

    Parameters
    ----------
    files : Files
        What is needed.
    folder : pathlib.Path
        The folder of all data sets, used as it is; None for the cache, which is filled by a
        download if needed.
    progress : bool
        Whether a bar shows how far a download is.

    Raises
    ------
    FileNotFoundError
        If a folder is given and a file is not there.
    ValueError
        If a checksum is wrong.
    ConnectionError
        If a download fails.
    ImportError
        If pooch is needed and not installed.
    """
    if folder is not None:
        where = folder / files.folder
        for name, digest in files.digests.items():
            path = where / name
            if not path.is_file():
                raise FileNotFoundError(
                    f"{path} must exist, since the folder of data sets is {folder}; put it there "
                    "from UCI, or give no folder and unset PRIVRL_DATA to download it."
                )
            _check(path.read_bytes(), digest, str(path))
        return where
    where = Path(_pooch().os_cache("privrl")) / files.folder
    if not all(_is_there(where / name, digest) for name, digest in files.digests.items()):
        _download(files, where, progress=progress)
    return where


def _is_there(path: Path, digest: str) -> bool:
    return path.is_file() and _sha256(path.read_bytes()) == digest


def _pooch() -> Any:
    return extra("pooch", "downloading data sets, without a folder that has them,", "data")


def _download(files: Files, where: Path, *, progress: bool) -> None:
    """Write the files into a folder, each whole and verified or none."""
    url = f"{ARCHIVES}/{files.archive}"
    archive = BytesIO()
    try:
        _pooch().HTTPDownloader(progressbar=progress)(url, archive, None)
        archive.seek(0)
        contents = _members(archive, files.digests)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConnectionError(
            f"{url} could not be downloaded whole ({error}); try again, or get the files "
            f"{', '.join(files.digests)} by other means and give their folder."
        ) from error
    for name, digest in files.digests.items():
        if name not in contents:
            raise ValueError(
                f"{url} must hold {shown(name)}, and does not; give a folder that has it."
            )
        _check(contents[name], digest, f"{name} in {url}")
    save_all(where, {name: bytes_writer(contents[name]) for name in files.digests})


def _members(
    archive: BinaryIO, names: Mapping[str, str], *, inside: bool = False
) -> dict[str, bytes]:
    """Return what a ZIP file, or one inside it, holds under some names, whatever the folder."""
    contents: dict[str, bytes] = {}
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            name = PurePosixPath(member.filename).name
            if name in names:
                contents[name] = _content(opened, member)
            elif name.endswith(".zip") and not inside:  # Bank's; a file may hold itself
                contents |= _members(BytesIO(_content(opened, member)), names, inside=True)
    return contents


def _content(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with opened.open(member) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{member.filename} in the archive must have at most {MOST_BYTES} bytes.")
    return content


def _check(content: bytes, digest: str, called: str) -> None:
    found = _sha256(content)
    if found != digest:
        raise ValueError(
            f"{called} must be the file that UCI distributes, of SHA-256 {digest}, got {found}; "
            "get it anew, line ends unchanged."
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
