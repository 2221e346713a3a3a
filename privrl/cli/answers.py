"""Answers for programs: with --json a command prints one object and nothing else."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from privrl.cli.terminal import OUT
from privrl.numerics.printing import up

AsJson = Annotated[bool, typer.Option("--json", help="Print only one JSON object, for programs.")]


@contextmanager
def answering(as_json: bool) -> Iterator[dict[str, Any]]:
    """Have what is to be answered; where it is asked for, it is printed in place of all text."""
    answer: dict[str, Any] = {}
    before, OUT.quiet = OUT.quiet, as_json
    try:
        yield answer
    finally:
        OUT.quiet = before
    if as_json:
        print_object(answer)


def print_object(answer: Mapping[str, Any]) -> None:
    """Print strict JSON that any terminal can show."""
    typer.echo(json.dumps(answer, indent=1, allow_nan=False))


def amount(epsilon: float | None, digits: int = 4) -> float | None:
    """Return an epsilon as printed, never rounded down; None if it is unbounded."""
    shown = "∞" if epsilon is None else up(epsilon, digits)
    return None if shown == "∞" else float(shown)


def guaranteed(guarantee: Mapping[str, Any]) -> dict[str, Any]:
    """Return a guarantee with its amounts as printed."""
    amounts = ("epsilon", "epsilon_delta")
    return {name: amount(value) if name in amounts else value for name, value in guarantee.items()}


def named(paths: list[Path]) -> list[str]:
    """Return the paths of written files."""
    return [str(path) for path in paths]
