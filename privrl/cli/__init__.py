"""The command line: the one part that reaches up to everything."""

from typing import Annotated

import typer

from privrl._version import __version__
from privrl.cli import (  # their commands are added to the app
    account,
    bayes_net,
    classify,
    fit_model,
    fit_policy,
    histogram,
    ledger,
    naive_bayes,
    play,
    predict,
    report,
    reproduce,
    schema,
    share,
    suite,
    sweep,
    train,
    watch,
)
from privrl.cli.terminal import OUT, app

__all__ = [
    "account",
    "app",
    "bayes_net",
    "classify",
    "fit_model",
    "fit_policy",
    "histogram",
    "ledger",
    "main",
    "naive_bayes",
    "play",
    "predict",
    "report",
    "reproduce",
    "schema",
    "share",
    "suite",
    "sweep",
    "train",
    "watch",
]


def main() -> None:
    """Run the command line."""
    app(prog_name="privrl")


@app.callback(invoke_without_command=True)
def _top(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        OUT.print(__version__)
        raise typer.Exit
