"""Answers for programs: with --json a command prints one object and nothing else."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from privrl.cli.outputs import claiming
from privrl.cli.terminal import OUT, Commands, app, friendly, with_parameters
from privrl.files.sharing import BESIDE
from privrl.numerics.printing import up

Run = Callable[..., None]
AsJson = Annotated[bool, typer.Option("--json", help="Print only one JSON object, for programs.")]
AS_JSON: Final = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)


def command(name: str, of: Commands = app) -> Callable[[Run], Run]:
    """Add a function as a command; its first argument takes what ``--json`` prints.

    Errors are reported in a sentence.
    """

    def add(run: Run) -> Run:
        def answered(**given: Any) -> None:
            with friendly(), answering(given.pop("as_json")) as answer:
                run(answer, **given)

        _, *own = inspect.signature(run).parameters.values()
        of.command(name)(with_parameters(answered, run, [*own, AS_JSON]))
        return run

    return add


@contextmanager
def answering(as_json: bool) -> Iterator[dict[str, Any]]:
    """Have what is to be answered; where it is asked for, it is printed in place of all text."""
    answer: dict[str, Any] = {}
    before, OUT.quiet = OUT.quiet, as_json
    try:
        with claiming():
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
    printed = {name: amount(v) if name in amounts else v for name, v in guarantee.items()}
    beside = {name: guarantee[name] for name in BESIDE if name in guarantee}
    return printed | {name: list(map(guaranteed, each)) for name, each in beside.items()}


def named(paths: list[Path]) -> list[str]:
    """Return the paths of written files."""
    return [str(path) for path in paths]
