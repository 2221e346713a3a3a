"""privrl share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli.answers import command, named
from privrl.cli.outputs import Force
from privrl.cli.terminal import OUT, print_beside, print_files
from privrl.files.shown import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privrl.files.sharing import Verdict

_MOST = 40  # listed files


@command("share")
def share_command(
    answer: dict[str, Any],
    folder: Annotated[Path, typer.Argument()],
    to: Path,
    force: Force = False,
    weak: Annotated[bool, typer.Option("--weak")] = False,
) -> None:
    """Copy only the shareable files of a folder.

    These are releases from secret randomness with a privacy guarantee and no caveats, and files
    made from them, if their checksums match the statement. The statement is copied without the
    command line, which names files of this machine. For each file left out the reason is printed.

    Prints the guarantee of the copied files. An epsilon above 10 is weak privacy and needs --weak,
    and so is a delta above 0.001. A Rényi divergence alone counts as its epsilon at delta 1e-5.

    Example: privrl share results/histogram --to public/ages

    Parameters
    ----------
    folder
        A folder that a privrl command wrote.
    to
        The new folder for the shareable files.
    weak
        Also copy releases with an epsilon above 10 or a delta above 0.001.
    """
    from privrl.files import copies as _copies
    from privrl.files import files as _files
    from privrl.files import sharing as _sharing
    from privrl.numerics.printing import up

    _copies.check_place(to, folder, force=force)
    copy = _copies.copy_of(folder)
    ordered = sorted(copy.verdicts.items(), key=lambda each: (not each[1].shareable, each[0]))
    _print_verdicts(ordered)
    if not copy.files:
        raise ValueError(f"nothing of {str(folder)!r} may be shared; no file was written.")
    for name, guarantee in copy.guarantees.items():
        _print_guarantee(name, guarantee)
        limits = _sharing.MOST_EPSILON, _sharing.MOST_DELTA
        named_amounts = zip(
            ("an epsilon", "a delta"), _sharing.amounts_of(guarantee), limits, strict=True
        )
        for word, amount, most in named_amounts:
            if amount > most and not weak:
                raise ValueError(
                    f"{name} states {word} of {up(amount)}, above {most:g}: that is weak "
                    "privacy, and no file was written. To share it anyway, add --weak."
                )
    _files.save_folder(Path(os.path.realpath(to)), copy.files)
    written = [to / name for name in copy.files]
    print_files(written)
    answer |= {
        "shared": {name: each.because for name, each in ordered if each.shareable},
        "left": {name: each.because for name, each in ordered if not each.shareable},
        "guarantees": {name: dict(each) for name, each in copy.guarantees.items()},
        "files": named(written),
    }


def _print_guarantee(name: str, guarantee: "Mapping[str, Any]") -> None:
    """Print epsilon, delta and privacy unit of a release."""
    from privrl.numerics.printing import exact, unit_text, up

    order, pair = guarantee.get("order"), guarantee.get("epsilon_delta")
    epsilon: Any = guarantee.get("epsilon")
    parts = []
    first = pair if pair is not None or order is not None else epsilon
    if first is not None:
        parts.append(f"epsilon {up(first)}, delta {guarantee.get('delta') or 0!r}")
    if order is not None:
        parts.append(f"Rényi divergence of order {exact(order)} at most {up(epsilon)}")
    unit = escape(unit_text(guarantee))
    OUT.print(f"guarantee by {name}: {'; '.join(parts)}; privacy unit: {unit}")
    print_beside(guarantee)


def _print_verdicts(ordered: "list[tuple[str, Verdict]]") -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("because")
    for name, verdict in ordered[:_MOST]:
        word = "[green]shared[/]" if verdict.shareable else "left"
        table.add_row(escape(one_line(name)), word, escape(verdict.because))
    OUT.print(table)
    if len(ordered) > _MOST:
        OUT.print(f"and {len(ordered) - _MOST} more files, which were left out")
