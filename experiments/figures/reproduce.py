"""Make figures: compute their tables, draw them and write captions."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from privrl.experiments.figures import FIGURES
from privrl.experiments.figures.kept import kept
from privrl.experiments.sweeps.jobs import versions
from privrl.experiments.workers import on_workers
from privrl.files import files as _files
from privrl.files.plain import lookup
from privrl.numerics.randomness import SEEDED

_PACKAGES = ("privrl", "privrl.envs", "privrl.agents", "privrl.experiments")


@dataclass(frozen=True)
class Reproduced:
    """A finished figure.

    Attributes
    ----------
    id, title, source, caption : str
        As `privrl.experiments.figures.base.Figure` has them.
    files : tuple of pathlib.Path
        The table (CSV), the picture (PNG, SVG) and the caption (Markdown).
    """

    id: str
    title: str
    source: str
    caption: str
    files: tuple[Path, ...]


def reproduce(
    ids: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[list[Reproduced], dict[str, str]]:
    """Make figures, each with separate files.

    Parameters
    ----------
    ids : sequence of str
        Of `FIGURES`; all of them for ``"all"``.
    out : pathlib.Path
        Folder for the files. Its ``.cache`` keeps tables for as long as privrl's code and the
        libraries' versions stay the same. No code is read from it.
    quick : bool
        Smaller sizes that still show the papers' claims.
    workers : int, optional
        How many run in parallel; by default one per core.
    on_progress : callable, optional
        Called at the start and after each figure with its id, the number done, and the total.

    Returns
    -------
    made : list of Reproduced
        In the order of `FIGURES`.
    failed : dict
        Why others could not be made (such as missing data), by id.

    Raises
    ------
    ValueError
        If an id is unknown; no figure is made then.
    """
    for name in ids:
        if name != "all":
            lookup("figure", name, FIGURES)
    wanted = [name for name in FIGURES if name in ids or "all" in ids]
    if on_progress:
        on_progress("", 0, len(wanted))
    shared = (out, quick, code_digest())
    made: dict[str, Reproduced] = {}
    failed: dict[str, str] = {}
    results = on_workers(_make_there, wanted, shared, backend="loky", workers=workers)
    for done, (name, result) in enumerate(results, start=1):
        if isinstance(result, Reproduced):
            made[name] = result
        else:
            failed[name] = result
        if on_progress:
            on_progress(name, done, len(wanted))
    return [made[name] for name in wanted if name in made], failed


def _make_there(name: str, shared: tuple[Path, bool, str]) -> Reproduced | str:
    """Make a figure in any process, or return why it cannot be made."""
    out, quick, digest = shared
    figure = FIGURES[name]
    size = "quick" if quick else "full"
    try:
        table = kept(
            out / ".cache" / f"{name}-{size}.json",
            " ".join([name, size, digest, *versions().values()]),
            lambda: figure.compute(quick),
        )
    except (OSError, ImportError) as error:  # no data, no network, or an extra is missing
        return str(error)
    picture, caption = figure.draw(table), figure.caption(table)
    page = f"**{figure.title}** ({figure.source})\n\n{caption}\n\nRandomness: {SEEDED}.\n"
    written = _files.save_all(
        out,
        {
            f"{name}.csv": _files.table_writer(table),
            f"{name}.png": _files.figure_writer(picture),
            f"{name}.svg": _files.figure_writer(picture, kind="svg"),
            f"{name}.md": _files.text_writer(page),
        },
    )
    return Reproduced(name, figure.title, figure.source, caption, tuple(written))


@cache
def code_digest() -> str:
    """Return a digest of all of privrl's code and schemas, on which tables depend."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path, text in sorted(_sources(files(package))):
            digest.update(f"{package}/{path}\0{text}\0".encode())
    return digest.hexdigest()


def _sources(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".py", ".toml")):
            found.append((prefix + entry.name, entry.read_text(encoding="utf-8")))
    return found
