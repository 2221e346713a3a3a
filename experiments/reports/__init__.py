"""Reports of folders: a page for people, of the files that a command wrote."""

from pathlib import Path

from privrl.experiments.reports.contents import NAMES, Audience, contents_of
from privrl.experiments.reports.markup import check_bokeh, html
from privrl.experiments.reports.page import page_of

__all__ = ["NAMES", "Audience", "check_bokeh", "report"]


def report(folder: Path, audience: Audience | None = None) -> tuple[Audience, str]:
    """Return whom a report of a folder is for, and the report: a page in HTML.

    Parameters
    ----------
    folder : pathlib.Path
        What a command wrote.
    audience : str, optional
        ``"public"`` for what may be shared, and nothing else; ``"researcher"`` for all of it. By
        default the first where there is such.

    Raises
    ------
    ValueError
        If no command wrote the folder, there is no report of its kind, nothing of it may be shared
        though it is to be public, or Bokeh is not installed.
    OSError
        If it cannot be read.
    """
    found = contents_of(folder, audience)
    return found.audience, html(page_of(found))
