"""privrl schema."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from privrl.cli.released import Separator
from privrl.cli.terminal import OUT, app, friendly, print_files, words


@app.command("schema")
def schema_command(
    columns: Annotated[str | None, typer.Option(help="Comma-separated names of columns.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Or a CSV file, of which only the header is read.")
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LOW:HIGH, public bounds of a numeric column; may be repeated."),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of every numeric column.")] = 10,
    log: Annotated[
        bool,
        typer.Option("--log", help="Of a log of persons, for privrl fit-model and fit-policy."),
    ] = False,
    separator: Separator = ",",
    out: Annotated[Path, typer.Option(help="File to write, .toml or .json.")] = Path("schema.toml"),
) -> None:
    """Write a schema to be filled in: what each column may hold, known without the data.

    Example: privrl schema --columns age,job --numeric age=0:100 --bins 10
    """
    with friendly():
        from privrl.data.logs.templates import write_log_template
        from privrl.data.schema import parse_bounds, read_header, write_template

        if (columns is None) == (csv is None):
            raise ValueError("give --columns or --csv, one of them.")
        if csv is not None:
            between = "\t" if separator == "tab" else separator
            if len(between) != 1:
                raise ValueError(f"separator must be one character or 'tab', got {separator!r}.")
            names = read_header(csv, separator=between)
        else:
            names = words(columns or "")
        bounds = parse_bounds(numeric or ())
        if not out.absolute().parent.is_dir():
            raise ValueError(f"out must be in a folder that exists, got {str(out)!r}.")
        try:
            unfilled: tuple[str, ...] = ()
            if log:
                write_log_template(out, names, numeric=bounds, bins=bins)
            else:
                unfilled = write_template(out, names, numeric=bounds, bins=bins)
        except FileExistsError:
            raise ValueError(
                f"out must be a new file, got {str(out)!r}, which exists; what was filled in is "
                "not overwritten."
            ) from None
        print_files([out])
        if log:
            OUT.print(
                "Fill in whose a row is, what is state and what is action, and what is earned, as "
                "the file says: from what everybody may know and not from the data."
            )
        elif unfilled:
            OUT.print(
                f"Fill in the categories of [bold]{escape(', '.join(unfilled))}[/], from what "
                "everybody may know and not from the data. Numeric ones get bins by --numeric."
            )
        else:
            OUT.print("Nothing is left to fill in.")
