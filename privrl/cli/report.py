"""privrl report, and the option --report of other commands."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from privrl.cli import outputs
from privrl.cli.answers import command
from privrl.cli.outputs import Force
from privrl.cli.terminal import OUT, friendly, print_files
from privrl.files.shown import shown

_AUDIENCES = ("researcher", "public")


def _checked(wanted: bool) -> bool:
    """Check that pages can be made before a run, which may spend budget."""
    if wanted:
        with friendly():
            from privrl.experiments.reports.markup import check_bokeh

            check_bokeh()
    return wanted


WithReport = Annotated[
    bool,
    typer.Option("--report", callback=_checked, help="Also write a report; see privrl report."),
]


@command("report")
def report_command(
    answer: dict[str, Any],
    folder: Annotated[Path, typer.Argument()],
    audience: Annotated[str | None, typer.Option("--for")] = None,
    out: Path | None = None,
    force: Force = False,
) -> None:
    """Write a report about a folder: a web page in one file that needs no network.

    It has a summary, the privacy guarantee and its limits, pictures, tables, settings, versions and
    the command line. A banner states whether you may share the page.

    Example: privrl report results/train --for researcher

    Parameters
    ----------
    folder
        A folder that a command of privrl wrote.
    audience
        public: only what privrl share would copy; researcher: everything. By default public
        if there are shareable files.
    out
        The file; by default report-public.html or report-researcher.html in the folder.
    """
    if audience is not None and audience not in _AUDIENCES:
        raise ValueError(f"for must be researcher or public, got {shown(audience)}.")
    answer.update(write_report(folder, audience, out, force=force))


def write_report(
    folder: Path, audience: str | None = None, out: Path | None = None, *, force: bool = True
) -> dict[str, str]:
    """Write a report about a folder; return its path and audience."""
    from privrl.experiments.reports import report
    from privrl.experiments.reports.contents import NAMES, Audience
    from privrl.files import files as _files
    from privrl.files.sharing import ARTEFACTS, PAGES, STATEMENTS

    chosen, text = report(folder, cast("Audience | None", audience))
    text = text.encode(errors="backslashreplace").decode()  # names of files need not be in UTF-8
    path = folder / NAMES[chosen] if out is None else out
    read = [folder / name for name in (*STATEMENTS, *ARTEFACTS) if name not in PAGES]
    outputs.check_new(path.parent, [path.name], force=force, inputs=read)
    print_files(_files.save_all(path.parent, {path.name: _files.text_writer(text)}))
    if chosen == "researcher":
        OUT.print(
            "keep this page to yourself: it contains data that may not be shared", soft_wrap=True
        )
    elif audience is None:
        OUT.print(
            "you may share this page; --for researcher writes one about all files of the folder",
            soft_wrap=True,
        )
    return {"report": str(path), "for": chosen}
