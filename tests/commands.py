"""Commands as a test runs them, in a terminal of so many columns."""

from typing import Any

from typer.testing import CliRunner

from privrl.cli import app


def run(*arguments: object, columns: int = 200) -> Any:
    texts = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, texts, env={"COLUMNS": str(columns), "TERM": "dumb"})


def said(result: Any) -> str:
    """What a command printed, wherever its lines break."""
    return " ".join(result.output.split())
