"""privrl schema."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli.answers import command, named
from privrl.cli.released import Separator, check_name
from privrl.cli.terminal import OUT, print_files, words

if TYPE_CHECKING:
    from privrl.data.schema.documentation import Documentation
    from privrl.data.schema.entries import Value
    from privrl.data.schema.templates import Bounds, Written

_MOST_NAMES = 20  # that are told


@command("schema")
def schema_command(
    answer: dict[str, Any],
    columns: list[str] | None = None,
    csv: Path | None = None,
    header: Annotated[bool, typer.Option("--header")] = False,
    numeric: list[str] | None = None,
    categories: list[str] | None = None,
    from_documentation: Path | None = None,
    missing: list[str] | None = None,
    bins: int = 10,
    log: Annotated[bool, typer.Option("--log")] = False,
    person: str | None = None,
    order: str | None = None,
    action: list[str] | None = None,
    outcome: str | None = None,
    reward: str | None = None,
    separator: Separator = ",",
    out: Path = Path("schema.toml"),
) -> None:
    """Write a schema: what each column may hold, known without the data.

    Options fill it in. Fill in the rest in the file, or rerun the command with more options: it
    completes an existing file, and keeps what is filled in.

    Example: privrl schema --columns age,job --numeric age=0:100 --categories job=clerk,smith

    Parameters
    ----------
    columns
        Comma-separated names of columns; of a file, those to use.
    csv
        CSV file with a header, of which no other line is read.
    header
        The first line of the file is a row of names. Needed only where no other option names
        one of its columns.
    numeric
        COLUMN=LOW:HIGH, public bounds of a numeric column; COLUMN=LOW:HIGH:whole if it has
        whole numbers. May be repeated.
    categories
        COLUMN=A,B,C, all values of a column. May be repeated.
    from_documentation
        File with lines such as 'job: clerk, smith.' and 'age: continuous.', as UCI and C4.5
        document data sets (.names). Lines about other columns than those of --columns or --csv
        are left out.
    missing
        Comma-separated columns that get a cell for missing and unlisted values; all is each
        but the classes of a documentation.
    bins
        Bins of every numeric column.
    log
        Of a log of persons, for privrl fit-model and fit-policy.
    person
        With --log: the column that identifies persons.
    order
        With --log: the column of numbers that sorts rows.
    action
        With --log: comma-separated columns that make up the action.
    outcome
        With --log: the column of how an episode ended; see --categories.
    reward
        With --log: the column of rewards; see --numeric.
    out
        File to write, .toml or .json.
    """
    from privrl.data.csv_files import check_separator
    from privrl.data.logs.templates import write_log_template
    from privrl.data.schema import read_documentation, write_template
    from privrl.data.schema.documentation import parse_categories
    from privrl.data.schema.templates import parse_bounds

    if columns is None and csv is None:
        also = "; --from-documentation alone is not enough: its lines may be of persons"
        raise ValueError(f"give --columns or --csv{also if from_documentation else ''}.")
    roles: dict[str, Any] = {
        "person": person, "order": order, "actions": words(action or ()), "outcome": outcome,
        "reward": reward,
    }  # fmt: skip
    of_roles = [each for each in (person, order, *roles["actions"], outcome, reward) if each]
    if of_roles and not log:
        raise ValueError("person, order, action, outcome and reward need --log.")
    documented = None
    if from_documentation is not None:
        documented = read_documentation(from_documentation)
    between = check_separator(separator)
    names, rest = words(columns or ()), words(missing or ())
    if csv is not None:
        named_so = {*of_roles, *_named(numeric, categories, rest)}
        typed = None if header else {*names, *named_so, *_there(out, log=log)}
        found = _names_of(csv, between, documented, typed)
        for name in (*names, *of_roles):
            check_name("columns", name, found)
        names = names or _in_use(found, _there(out, log=log), out, named_so)
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
        "rest": _rest(rest, names, documented),
        "bins": bins,
    }
    written = (
        write_log_template(out, names, **roles, **said)
        if log
        else write_template(out, names, **said)
    )
    print_files([out])
    inferred = _inferences(bounds, values, bins, {outcome, reward})
    for sentence in inferred:
        OUT.print(escape(sentence), soft_wrap=True)
    _tell(written, has_rest=bool(rest), log=log)
    answer |= {
        "columns": list(names),
        "inferred": inferred,
        "to_fill_in": list(written.unfilled),
        "kept": list(written.kept),
        "files": named([out]),
    }


def _inferences(
    bounds: "Mapping[str, Bounds]",
    values: "Mapping[str, Sequence[Value]]",
    bins: int,
    roles: Collection[str | None],
) -> list[str]:
    """Return a sentence about each type that the options imply."""
    told, kinds = [], dict[str, list[str]]()
    for name, listed in values.items():
        if listed and name not in roles:
            kind = {int: "whole numbers", bool: "truth values"}.get(type(listed[0]), "texts")
            kinds.setdefault(f"Categories are {kind} in", []).append(name)
    for name, each in bounds.items():
        if each is not None and name not in roles:
            kind = f"{'Real' if len(each) == 2 else 'Whole'} numbers in {bins} bins:"
            kinds.setdefault(kind, []).append(f"{name} from {each[0]:g} to {each[1]:g}")
    for kind, names in kinds.items():
        hint = " Add :whole to the bounds of whole numbers." if kind.startswith("Real") else ""
        told.append(f"{kind} {_some(names)}.{hint}")
    return told


def _names_of(
    path: Path, separator: str, documented: "Documentation | None", known: set[str] | None
) -> tuple[str, ...]:
    """Return the names in a header; without a header, those of a documentation that fits.

    ``known`` are names that the user gave, None with ``--header``.
    """
    from privrl.data.schema import read_header
    from privrl.data.schema.headers import NoHeader, with_names

    if known is not None and documented is not None:
        known = known.union(documented.names)
    try:
        return read_header(path, separator=separator, known=known)
    except NoHeader as none:
        if documented is None or len(documented.names) != none.fields:
            raise
    OUT.print(
        f"{escape(path.name)} has no row of names: its first line looks like a record, of "
        f"{len(documented.names)} fields, as the documentation has columns. If they are these, in "
        "this order, make a copy that begins with them, and use that:"
    )
    OUT.print(f"  {escape(with_names(path, documented.names, separator))}", soft_wrap=True)
    return documented.names


def _named(
    numeric: Sequence[str] | None, categories: Sequence[str] | None, rest: Sequence[str]
) -> set[str]:
    """Return the columns that options name."""
    named = {each.rpartition("=")[0] for each in numeric or ()}
    named |= {each.partition("=")[0].strip() for each in categories or ()}
    return named.union(() if rest == ("all",) else rest)


def _there(out: Path, *, log: bool) -> set[str]:
    """Return the columns of an existing schema; none without one of this kind to complete."""
    from privrl.data.schema.plain import read

    try:
        data = read(out)
        if ("columns" in data) == log:
            return set()
        tables = [data.get(key, {}) for key in ("columns", "state", "action")]
        roles = [data.get(key) for key in ("person", "episode", "order")]
        roles += [data.get(key, {}).get("column") for key in ("reward", "outcome")]
        return {*filter(None, roles), *(name for table in tables for name in table)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()  # any other file is refused when it is to be completed


def _in_use(
    header: tuple[str, ...], there: set[str], out: Path, named_so: set[str]
) -> tuple[str, ...]:
    """Return a file's columns, but those that were deleted from a schema which is there."""
    if not there:
        return header
    names = tuple(each for each in header if each in there | named_so)
    left = [each for each in header if each not in names]
    if left and names:
        OUT.print(
            f"Left out, because {escape(out.name)} lacks them: [bold]{escape(', '.join(left))}[/]; "
            "--columns adds more."
        )
    return names or header


def _rest(
    rest: tuple[str, ...], names: tuple[str, ...], documented: "Documentation | None"
) -> tuple[str, ...]:
    """Return the columns that get a cell for the rest; classes must all be known."""
    if rest != ("all",):
        return rest
    classes = None if documented is None else documented.named(names).classes
    return tuple(name for name in names if name != classes)


def _tell_documented(documented: "Documentation", names: tuple[str, ...]) -> None:
    """Print the columns that a documentation leaves out, and those that the file leaves out."""
    known = documented.named(names)
    if known.classes not in (None, documented.classes):
        OUT.print(f"The classes of the documentation are taken to be {escape(str(known.classes))}.")
    silent = [name for name in names if name not in known.names]
    if silent:
        OUT.print(f"The documentation leaves out {escape(', '.join(silent))}.")
    if len(known.names) < len(documented.names):
        more = len(documented.names) - len(known.names)
        OUT.print(f"It has {more} more column{'s' * (more > 1)}, which the file lacks.")


def _tell_log(written: "Written") -> None:
    """Print which lines of a log's schema are left to fill in."""
    if written.kept:
        OUT.print(f"Kept as they were filled in: [bold]{escape(_some(written.kept))}[/].")
    if written.unfilled:
        OUT.print(
            f"Fill in, from public knowledge and not from the data: "
            f"[bold]{escape(_some(written.unfilled))}[/]. The comment at the top of the file "
            "explains each entry."
        )
    else:
        OUT.print("Nothing is left to fill in.")


def _tell(written: "Written", *, has_rest: bool, log: bool) -> None:
    """Print what is left to do, and how."""
    if log:
        _tell_log(written)
        return
    if written.kept:
        OUT.print(
            f"Kept as they were filled in: [bold]{escape(_some(written.kept))}[/]; to have one "
            "made anew, delete it from the file first."
        )
    unbounded = written.unbounded
    others = [name for name in written.unfilled if name not in unbounded]
    if unbounded:
        OUT.print(
            f"Fill in the bounds of [bold]{escape(_some(unbounded))}[/], from public "
            "knowledge and not from the data: the same command again with"
        )
        options = " ".join(f"--numeric {shlex.quote(name)}=LOW:HIGH" for name in unbounded)
        OUT.print(f"  {escape(options)}", soft_wrap=True)
    if others:
        OUT.print(
            f"Fill in the categories of [bold]{escape(_some(others))}[/], from public "
            "knowledge and not from the data: in the file, or the same command again with "
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
    """Return the first names, and the number of the others: a file may have hundreds."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
