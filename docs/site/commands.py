"""A page of all commands and their options, from the command line's own help."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

from privrl.cli import app as command_line

PAGE = Path(__file__).parents[1] / "reference" / "commands.md"
START = """# Commands

What `privrl --help` and `privrl COMMAND --help` say, on one page.
"""


def _told(text: str) -> str:
    """Return help as Markdown: names of options are code."""
    return re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", text.replace("*", r"\*"))


def _prose(text: str) -> str:
    """Return the help of a command, with its examples as code."""
    lines = (
        re.sub(r"^Example: (.*)$", r"```bash\n\1\n```", line)
        if line[:8] == "Example:"
        else _told(line)
        for line in text.splitlines()
    )
    paragraphs = "\n".join(lines)
    return re.sub(r"(?m)(^```)\n\n```bash\n", "", paragraphs)


def _option(what: Any) -> str:
    if what.param_type_name == "argument":
        return f"- `{(what.metavar or what.name).upper()}`: {_told(what.help or '')}\n"
    names = ", ".join(f"`{name}`" for name in (*what.opts, *what.secondary_opts))
    shown = what.default not in (None, False, "", ())
    default = f" By default `{what.default}`." if shown and not callable(what.default) else ""
    return f"- {names}: {_told(' '.join((what.help or '').split()))}{default}\n"


def _blocks(name: str, command: Any, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    context = command.make_context(name, [], resilient_parsing=True)
    told = (
        what for what in context.command.get_params(context) if not getattr(what, "hidden", False)
    )
    options = "" if inner else "".join(_option(what) for what in told if what.name != "help")
    yield f"{'#' * level} {name}\n\n{_prose(command.help or '')}\n\n{options}"
    for each, one in sorted(inner.items()):
        yield from _blocks(f"{name} {each}", one, level + 1)


def _write(app: Sphinx, config: Any) -> None:
    commands = get_command(command_line).commands  # type: ignore[attr-defined] # it is a group
    blocks = (_blocks(f"privrl {name}", one, 2) for name, one in sorted(commands.items()))
    text = "\n".join([START, *(text for block in blocks for text in block)])
    PAGE.parent.mkdir(exist_ok=True)
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before it is looked for."""
    app.connect("config-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
