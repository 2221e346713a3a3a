"""The command line."""

import gc
from typing import Annotated, Any

import typer

from privrl.cli import (  # noqa: F401 # they add their commands to the app
    account,
    bayes_net,
    classifiers,
    fit_model,
    fit_policy,
    histogram,
    ledger,
    playing,
    predict,
    report,
    reproduce,
    schema,
    share,
    suite,
    sweep,
    terminal,
    train,
)

app = terminal.app

#: Commands by panel, in the order of the help.
_PANELS = {
    "Agents": ("train", "play", "watch", "sweep", "suite"),
    "People's records and logs": (
        *("schema", "histogram", "classify", "naive-bayes", "bayes-net", "predict"),
        *("fit-model", "fit-policy"),
    ),
    "Privacy": ("account", "ledger", "share"),
    "Pages": ("report", "reproduce"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_ORDER = {name: i for i, name in enumerate(_PANEL_OF)}


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__)


_each: Any
for _each in (*app.registered_commands, *app.registered_groups):
    _each.rich_help_panel = _PANEL_OF[_name(_each)]
app.registered_commands.sort(key=lambda each: _ORDER[_name(each)])


def main() -> None:
    """Run the command line."""
    gc.set_threshold(100_000)  # what a start makes stays
    app(prog_name="privrl")


@app.callback(invoke_without_command=True)
def _top(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    _debug: Annotated[  # terminal.app reads it, before or after the command
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
) -> None:
    if show_version:
        from importlib.metadata import version

        terminal.OUT.print(version("privrl"))
        raise typer.Exit
