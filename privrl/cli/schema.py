"""privrl schema."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli.answers import AsJson, answering, named
from privrl.cli.released import Separator, check_name
from privrl.cli.terminal import OUT, app, friendly, print_files, words

if TYPE_CHECKING:
    from privrl.data.schema import Documentation, Written

_MOST_NAMES = 20  # that are told


@app.command("schema")
def schema_command(
    columns: Annotated[
        str | None, typer.Option(help="Comma-separated names of columns; of a file, those to use.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(help="CSV file with a header, of which no other line is read."),
    ] = None,
    header: Annotated[
        bool,
        typer.Option(
            "--header",
            help="The first line of the file is a row of names. Needed only where no other option "
            "names one of its columns.",
        ),
    ] = False,
    numeric: Annotated[
        list[str] | None,
        typer.Option(
            help="COLUMN=LOW:HIGH, public bounds of a numeric column; may be repeated. It is cut "
            "at whole numbers if both are, as in age=0:100, but not in 0.0:100.0."
        ),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=A,B,C, all that a column may hold; may be repeated."),
    ] = None,
    from_documentation: Annotated[
        Path | None,
        typer.Option(
            help="File with lines such as 'job: clerk, smith.' and 'age: continuous.', as UCI "
            "and C4.5 document data sets (.names)."
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated columns that get a cell for what is missing or not listed; all "
            "is each but the classes of a documentation."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of every numeric column.")] = 10,
    log: Annotated[
        bool,
        typer.Option("--log", help="Of a log of persons, for privrl fit-model and fit-policy."),
    ] = False,
    separator: Separator = ",",
    out: Annotated[Path, typer.Option(help="File to write, .toml or .json.")] = Path("schema.toml"),
    as_json: AsJson = False,
) -> None:
    """Write a schema: what each column may hold, known without the data.

    What is not said by options is left to be filled in, in the file or by the same command with
    more of them: a file that is there is added to, and what is filled in stays.

    Example: privrl schema --columns age,job --numeric age=0:100 --categories job=clerk,smith
    """
    with friendly(), answering(as_json) as answer:
        from privrl.data.logs.templates import write_log_template
        from privrl.data.records import check_separator
        from privrl.data.schema import (
            parse_bounds,
            parse_categories,
            read_documentation,
            write_template,
        )

        if columns is None and csv is None and from_documentation is None:
            raise ValueError("give --columns or --csv, or --from-documentation.")
        documented = None
        if from_documentation is not None:
            documented = read_documentation(from_documentation)
        between = check_separator(separator)
        names = words(columns or "")
        if csv is not None:
            said_of = (numeric, categories, missing)
            typed = None if header else {*names, *_named(said_of), *_there(out)}
            found = _names_of(csv, between, documented, typed)
            for name in names:
                check_name("columns", name, found)
            names = names or _in_use(found, out, said_of)
        elif columns is None and documented is not None:
            names = documented.names
        bounds: dict[str, Any] = {**parse_bounds(numeric or ())}
        values: dict[str, Any] = {**parse_categories(categories or ())}
        if documented is not None:
            known = documented.named(names)
            bounds = {n: None for n in known.continuous if n not in values} | bounds
            values = {n: v for n, v in known.categories.items() if n not in bounds} | values
            _tell_documented(documented, names)
        if not out.absolute().parent.is_dir():
            raise ValueError(f"out must be in a folder that exists, got {str(out)!r}.")
        said: dict[str, Any] = {
            "numeric": bounds,
            "categories": values,
            "rest": _rest(missing, names, documented),
            "bins": bins,
        }
        if log:
            try:
                write_log_template(out, names, **said)
            except FileExistsError:
                raise ValueError(
                    f"out must be a new file with --log, got {str(out)!r}, which exists; what was "
                    "filled in is not overwritten."
                ) from None
            print_files([out])
            OUT.print(
                "Fill in whose a row is, what is state and what is action, and what is earned, as "
                "the file says: from what everybody may know and not from the data."
            )
            answer["files"] = named([out])
            return
        written = write_template(out, names, **said)
        print_files([out])
        _tell(written, has_rest=missing is not None)
        answer |= {
            "columns": list(names),
            "to_fill_in": list(written.unfilled),
            "kept": list(written.kept),
            "files": named([out]),
        }


def _names_of(
    path: Path, separator: str, documented: "Documentation | None", known: set[str] | None
) -> tuple[str, ...]:
    """Return the names in a header; where there is none, those of a documentation that fits.

    ``known`` are names that the user gave, None where the user says that there is a header.
    """
    from privrl.data.schema import NoHeader, read_header
    from privrl.data.schema.headers import with_names

    if known is not None and documented is not None:
        known = known.union(documented.names)
    try:
        return read_header(path, separator=separator, known=known)
    except NoHeader as none:
        if documented is None or len(documented.names) != none.fields:
            raise
    OUT.print(
        f"{escape(path.name)} has no row of names: its first line is like a record, of "
        f"{len(documented.names)} fields, as the documentation has columns. If they are these, in "
        "this order, make a copy that begins with them, and use that:"
    )
    OUT.print(f"  {escape(with_names(path, documented.names, separator))}", soft_wrap=True)
    return documented.names


_Said = tuple[list[str] | None, list[str] | None, str | None]  # numeric, categories, missing


def _named(said: _Said) -> set[str]:
    """Return the columns that options name."""
    numeric, categories, missing = said
    named = {each.rpartition("=")[0] for each in (*(numeric or ()), *(categories or ()))}
    return named if missing in (None, "all") else named.union(words(missing))


def _there(out: Path) -> set[str]:
    """Return the columns of a schema that is there; none where there is no schema to add to."""
    from privrl.data.schema.plain import read

    try:
        return set(read(out)["columns"].keys())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()  # what is there and is no schema is refused when it is to be added to


def _in_use(header: tuple[str, ...], out: Path, said: _Said) -> tuple[str, ...]:
    """Return a file's columns, but those that were deleted from a schema which is there."""
    there = _there(out)
    if not there:
        return header
    names = tuple(each for each in header if each in there | _named(said))
    left = [each for each in header if each not in names]
    if left and names:
        OUT.print(
            f"Left out, as {escape(out.name)} has not: [bold]{escape(', '.join(left))}[/]; "
            "--columns adds more."
        )
    return names or header


def _rest(
    missing: str | None, names: tuple[str, ...], documented: "Documentation | None"
) -> tuple[str, ...]:
    """Return the columns that get a cell for the rest; classes must all be known."""
    if missing != "all":
        return words(missing or "")
    classes = None if documented is None else documented.named(names).classes
    return tuple(name for name in names if name != classes)


def _tell_documented(documented: "Documentation", names: tuple[str, ...]) -> None:
    """Say which columns a documentation is silent of, and which of its own a file has not."""
    known = documented.named(names)
    if known.classes not in (None, documented.classes):
        OUT.print(f"The classes of the documentation are taken to be {escape(str(known.classes))}.")
    silent = [name for name in names if name not in known.names]
    if silent:
        OUT.print(f"The documentation says nothing of {escape(', '.join(silent))}.")
    if len(known.names) < len(documented.names):
        more = len(documented.names) - len(known.names)
        OUT.print(f"It has {more} more column{'s' * (more > 1)}, which the file has not.")


def _tell(written: "Written", *, has_rest: bool) -> None:
    """Say what is left to do, and how."""
    if written.kept:
        OUT.print(
            f"Left as they were filled in: [bold]{escape(_some(written.kept))}[/]; to have one "
            "made anew, delete it from the file first."
        )
    unbounded = written.unbounded
    others = [name for name in written.unfilled if name not in unbounded]
    if unbounded:
        OUT.print(
            f"Fill in the bounds of [bold]{escape(_some(unbounded))}[/], from what everybody "
            "may know and not from the data: the same command again with"
        )
        options = " ".join(f"--numeric {shlex.quote(name)}=LOW:HIGH" for name in unbounded)
        OUT.print(f"  {escape(options)}", soft_wrap=True)
    if others:
        OUT.print(
            f"Fill in the categories of [bold]{escape(_some(others))}[/], from what everybody "
            "may know and not from the data: in the file, or the same command again with "
            f"--categories {escape(shlex.quote(others[0]))}=A,B,C. Numeric ones get bins by "
            f"--numeric {escape(shlex.quote(others[0]))}=LOW:HIGH. What is not to be used, such as "
            "names and numbers of persons, is deleted from the file."
        )
    if not has_rest:
        OUT.print(
            "A record with anything else in a column, such as nothing or '?', will stop the "
            "reading; --missing all gives columns a cell for that."
        )
    if not written.unfilled:
        OUT.print("Nothing is left to fill in.")


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are: a file may have hundreds."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
