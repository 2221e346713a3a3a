"""privrl report, and the option of other commands that makes one at their end."""

from pathlib import Path
from typing import Annotated, cast

import typer

from privrl.cli import outputs
from privrl.cli.answers import AsJson, answering
from privrl.cli.outputs import Force
from privrl.cli.terminal import OUT, app, friendly, print_files
from privrl.files.shown import shown

_AUDIENCES = ("researcher", "public")


def _checked(wanted: bool) -> bool:
    """Find out that pages cannot be made before a run, which may cost budget."""
    if wanted:
        with friendly():
            from privrl.experiments.reports import check_bokeh

            check_bokeh()
    return wanted


WithReport = Annotated[
    bool,
    typer.Option("--report", callback=_checked, help="Write a page about it too: privrl report."),
]


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that a command of privrl wrote.")],
    audience: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="public: what privrl share would copy, and nothing else; researcher: all of it. "
            "By default the first, where there is such.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file; by default report-public.html in the folder, or so."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a page about a folder, for a browser: one file that needs no network.

    It says what was asked, what is promised to whom and what is not, and shows pictures, tables,
    settings, versions and the command to repeat. Whether it may be shared stands on top.

    Example: privrl report results/train --for researcher
    """
    with friendly(), answering(as_json) as answer:
        if audience is not None and audience not in _AUDIENCES:
            raise ValueError(f"for must be researcher or public, got {shown(audience)}.")
        answer.update(write_report(folder, audience, out, force=force))


def write_report(
    folder: Path, audience: str | None = None, out: Path | None = None, *, force: bool = True
) -> dict[str, str]:
    """Write a page about a folder, and say where it is and whom it is for."""
    from privrl.experiments.reports import NAMES, Audience, report
    from privrl.files import files as _files

    chosen, text = report(folder, cast("Audience | None", audience))
    path = folder / NAMES[chosen] if out is None else out
    outputs.check_new(path.parent, [path.name], force=force)
    print_files(_files.save_all(path.parent, {path.name: _files.text_writer(text)}))
    if chosen == "researcher":
        OUT.print("for you alone: it holds what is not to be shared", soft_wrap=True)
    elif audience is None:
        OUT.print(
            "it may be shared; --for researcher makes one with all that is in the folder",
            soft_wrap=True,
        )
    return {"report": str(path), "for": chosen}
