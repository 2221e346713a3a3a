"""The app, its two consoles, errors and progress bars."""

import errno
import inspect
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from typer.core import TyperGroup
from typer.models import ParameterInfo

from privrl.files.shown import one_line, shown
from privrl.numerics.printing import beside_texts, exact, up

MARKUP: Final = "markdown"  # of help
_PARAMETERS: Final = "\n\nParameters\n----------\n"  # of a docstring
_ENTRY: Final = re.compile(r"^(\w+)\n((?:    .*\n?)+)", re.M)
# Emoji would turn the bounds of 0:100:whole into a picture.
OUT = Console(highlight=False, emoji=False)
ERR = Console(stderr=True, highlight=False, emoji=False)
Command = TypeVar("Command", bound=Callable[..., Any])
DEBUG: Final = set[bool]()  # not empty where --debug was given
INTERRUPTED: Final = 130  # the code of an exit, as shells have it
_STOPPED: Final = "[yellow]stopped[/]; no file is incomplete."
# The base class of Typer's own errors, which has no public name.
_Misused: Any = typer.BadParameter.__mro__[2]


class _OneStyle(TyperGroup):
    """The group of all commands: reports misuse like other errors, and reads --debug anywhere."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **more: Any) -> Any:  # type: ignore[override] # all else by name
        args = sys.argv[1:] if args is None else list(args)
        DEBUG.clear()
        if "--debug" in args:
            args.remove("--debug")
            DEBUG.add(True)
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **more)
        try:
            code = super().main(args, standalone_mode=False, **more)
        except _Misused as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # which printed the help
                _say_misused(error)
            sys.exit(2)
        except typer.Abort:
            sys.exit(1)
        if code == INTERRUPTED:  # returned by Typer, outside of a command's own code
            _complain(_STOPPED)
        sys.exit(code if isinstance(code, int) else 0)


def _say_misused(error: Any) -> None:
    context = getattr(error, "ctx", None)
    command = "privrl" if context is None else context.command_path
    what = error.format_message().rstrip(".")
    what += " " if what.endswith("?") else "; "
    _complain(f"[red]error:[/] {escape(what)}see {command} --help.")


class Commands(typer.Typer):
    """Commands, whose help is their functions' docstrings.

    An option's help is its entry in the section of parameters. Of one that several commands have,
    it is a sentence beside its type: ``Annotated[int, "How many."]``.
    """

    def command(self, *args: Any, **settings: Any) -> Callable[[Command], Command]:
        """Return a decorator, as Typer does."""

        def add(run: Command) -> Command:
            text, _, entries = (inspect.getdoc(run) or "").partition(_PARAMETERS)
            told = {name: " ".join(lines.split()) for name, lines in _ENTRY.findall(entries)}
            own = inspect.signature(run).parameters.values()
            run.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # Typer reads it
                [each.replace(annotation=_option(each, told.get(each.name))) for each in own]
            )
            return super(Commands, self).command(*args, help=text, **settings)(run)

        return add


def with_parameters(
    command: Command, like: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> Command:
    """Return a command with these parameters and the docstring of another function."""
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined] # Typer reads it
    command.__doc__ = like.__doc__
    return command


def _option(parameter: inspect.Parameter, sentence: str | None) -> Any:
    match get_args(parameter.annotation):
        case (kind, str(shared)):
            return Annotated[kind, typer.Option(help=shared)]
        case (_, ParameterInfo() as option) if sentence is not None:
            option.help = sentence
        case _ if sentence is not None:
            return Annotated[parameter.annotation, typer.Option(help=sentence)]
    return parameter.annotation


app = Commands(
    name="privrl",
    cls=_OneStyle,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of every command
    rich_markup_mode=MARKUP,
    help="Private reinforcement learning and Bayesian counting models, exactly accounted.",
)


@contextmanager
def friendly() -> Iterator[None]:
    """Report errors and warnings in a sentence; a traceback comes with --debug."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("always", UserWarning)
        # Gymnasium quotes exceptions of a space, which may show a state.
        warnings.showwarning = lambda message, *_: _complain(
            "[yellow]warning:[/]", Text.from_ansi(str(message).partition(" with exception: ")[0])
        )
        try:
            yield
        except Exception as error:
            place = _in_environment(error)
            known = isinstance(
                error, ValueError | OSError | OverflowError | MemoryError | ImportError
            )
            if DEBUG or not (known or place):
                raise
            what = " ".join([place or _in_words(error), *getattr(error, "__notes__", ())])
            _complain(f"[red]error:[/] {escape(what)}")
            raise typer.Exit(2) from error
        except KeyboardInterrupt as stop:
            _complain(" ".join([_STOPPED, *map(escape, getattr(stop, "__notes__", ()))]))
            sys.exit(INTERRUPTED)


def _in_environment(error: BaseException) -> str:
    """Return where an environment of the user's raised an error, or nothing.

    Its message may have a state in it, as that of a KeyError does.
    """
    modules = sys.modules
    if "gymnasium" not in modules:
        return ""
    gym, raised = modules["gymnasium"], ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        env = frame.f_locals.get("self")
        if module.split(".", maxsplit=1)[0] == "privrl":
            raised = ""
        elif isinstance(env, gym.Env) and not module.startswith("gymnasium.wrappers"):
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
            raised = f"{type(env).__name__}.{frame.f_code.co_name} ({place})"
    what = f"{type(error).__name__}; --debug shows the traceback"
    return raised and f"the environment failed in {raised}: {what}, which may show a state."


def _complain(*what: str | Text) -> None:
    """Print an error: whole lines to a file or program, whole words on a terminal."""
    ERR.print(*what, soft_wrap=not ERR.is_terminal)


_REASONS: Final = {
    errno.ENOENT: "no such file or folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "it is a folder, not a file",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.ENOSPC: "the disk is full",
    errno.ENAMETOOLONG: "its name is too long",
}


def _in_words(error: BaseException) -> str:
    """Return the message of an error, without the operating system's numbers."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        reason = _REASONS.get(error.errno, error.strerror[:1].lower() + error.strerror[1:])
        if error.filename is None:
            return f"{reason}."
        name = error.filename
        return f"{str(name) if isinstance(name, Path) else name!r}: {reason}; look at the path."
    if isinstance(error, MemoryError):  # NumPy's message has a shape, which may be private
        return "out of memory; ask for less at a time."
    return str(error) or type(error).__name__


@contextmanager
def bar(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar, and yield a function that sets how much is done."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def rows_read(what: str) -> Iterator[Any]:
    """Count rows on a terminal, and only there: their number is private."""
    columns = (SpinnerColumn(), TextColumn(what), _Rows())
    shown = ERR.file.isatty()
    with Progress(*columns, console=ERR, transient=True, disable=not shown) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done: progress.update(task, completed=done)


class _Rows(ProgressColumn):
    """The number of rows read so far, and the rate."""

    def render(self, task: Task) -> Text:
        rate = "" if task.speed is None else f", {task.speed:,.0f} a second"
        return Text(f"{task.completed:,.0f} rows{rate}")


def print_files(paths: list[Path]) -> None:
    """Print the paths of the written files."""
    for path in paths:
        OUT.print(f"wrote {escape(str(path))}", soft_wrap=True)


def pair(epsilon: str, delta: float | None) -> str:
    """Return (epsilon, delta) as it is printed; without a delta it is pure."""
    return f"({epsilon}, {delta or 0!r})"


def print_cost(what: str, guarantee: dict[str, Any], *, without: str = "", also: str = "") -> None:
    """Print the cost of a file, or why it has no privacy."""
    if guarantee["epsilon_delta"] is None:
        OUT.print(f"no privacy guarantee: {without}")
        print_beside(guarantee)
        return
    if guarantee["caveats"]:
        caveats = "; ".join(map(one_line, guarantee["caveats"]))  # perhaps of a model's file
        ERR.print(f"[yellow]no guarantee:[/] {escape(caveats)}")
    renyi = ""
    if guarantee["order"] is not None:
        epsilon = up(guarantee["epsilon"])
        renyi = f" (Rényi divergence of order {exact(guarantee['order'])} at most {epsilon})"
    cost = pair(up(guarantee["epsilon_delta"]), guarantee["delta"])
    OUT.print(
        f"{what} cost: {cost}-differential privacy{renyi}; privacy unit: "
        f"{escape(guarantee['relation'] + also)}"
    )
    print_beside(guarantee)


def print_beside(guarantee: Mapping[str, Any]) -> None:
    """Print what released bins and environments cost, beside the rest."""
    for text in beside_texts(guarantee):
        OUT.print(escape(text))


def words(texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of comma-separated lists, one after the other."""
    text = texts if isinstance(texts, str) else ",".join(texts)
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(name: str, texts: str | Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of comma-separated lists; the name is the option's, for errors."""
    found = words(texts)
    try:
        return tuple(map(float, found))
    except ValueError as error:
        text = ",".join(found)
        raise ValueError(f"{name} must be comma-separated numbers, got {shown(text)}.") from error


def repeated(name: str) -> str:
    """Return the name of a repeatable option: --env-arg for env_args."""
    return f"--{name.removesuffix('s').replace('_', '-')}"


def command_line(verb: str, options: dict[str, Any]) -> str:
    """Return the command line of a run."""
    parts = ["privrl", verb]
    for name, value in options.items():
        if value is not None:
            if name == "env_args":  # whose values may hold commas
                parts += [f"{repeated(name)}={each}" for each in value]
                continue
            option = name.replace("_", "-")
            if isinstance(value, bool):
                parts.append(f"--{'' if value else 'no-'}{option}")
                continue
            text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            parts.append(f"--{option}={text}")
    return shlex.join(parts)
