"""Reports: a web page about the files that a command wrote."""

from pathlib import Path

from privrl.experiments.reports.contents import Audience, contents_of
from privrl.experiments.reports.markup import html
from privrl.experiments.reports.page import page_of


def report(folder: Path, audience: Audience | None = None) -> tuple[Audience, str]:
    """Return the audience of a report about a folder, and the report in HTML.

    Parameters
    ----------
    folder : pathlib.Path
        A folder that a command wrote.
    audience : str, optional
        ``"public"`` for shareable files only; ``"researcher"`` for all. By default the first if
        there are such files.

    Raises
    ------
    ValueError
        If no command wrote the folder, its kind has no report, no file may be shared in a public
        page, or Bokeh is not installed.
    OSError
        If a file cannot be read.
    """
    found = contents_of(folder, audience)
    return found.audience, html(page_of(found))
