"""Options that several commands share: a privacy budget, and the fields of specs."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from privrl.cli.answers import command
from privrl.cli.terminal import MARKUP, Commands, app, numbers, repeated, with_parameters

Epsilon = Annotated[
    float, "Privacy budget in nats: epsilon of (epsilon, delta)-differential privacy."
]
Delta = Annotated[float, "Delta of the privacy budget; 0 is pure epsilon."]
RenyiOrder = Annotated[
    float | None,
    "Makes --epsilon a bound on the Rényi divergence of this order, > 1; --delta is then "
    "where the equivalent epsilon is reported.",
]
DELTA: Final = 1e-5  # `privrl.accounting.targets.DEFAULT_DELTA`, without loading NumPy

Run = Callable[..., None]


def takes_options(options: Callable[[], Iterable[inspect.Parameter]]) -> Callable[[Run], Run]:
    """Add a function as a command whose ``**options`` another function returns.

    Specs need NumPy, which is slow to load. So the options are made when the command is called, and
    the list of all commands stays fast.
    """

    def add(run: Run) -> Run:
        class Late(TyperCommand):
            def make_context(self, *args: Any, **more: Any) -> Any:
                return _completed(run, options()).make_context(*args, **more)

        app.command(run.__name__, cls=Late)(with_parameters(lambda: None, run, []))
        return run

    return add


def _completed(run: Run, options: Iterable[inspect.Parameter]) -> Any:
    """Return the command of a function, its own parameters after the options."""
    answer, *own, _ = inspect.signature(run).parameters.values()
    alone = Commands(rich_markup_mode=MARKUP, add_completion=False)

    def completed(answer: dict[str, Any], **values: Any) -> None:
        run(answer, **values)

    command(run.__name__, alone)(with_parameters(completed, run, [answer, *options, *own]))
    return get_command(alone)


def options_of(
    spec: type,
    *,
    several: Collection[str] = (),
    overrides: bool = False,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    told: Mapping[str, str] = MappingProxyType({}),
    panel: str | None = None,
) -> list[inspect.Parameter]:
    """Return an option for each field of a spec with a help text.

    Parameters
    ----------
    spec : type
        A dataclass, see `privrl.experiments.specs`.
    several : collection of str
        Fields that take several values, separated by commas; their options are ``--names``.
    overrides : bool
        Whether the options override another spec; then they have no defaults.
    defaults : mapping
        Defaults of some fields in place of the spec's.
    told : mapping
        Defaults that the help shows, if another spec has them.
    panel : str, optional
        The heading above the options in the help.
    """
    hints = get_type_hints(spec, include_extras=True)
    made = []
    for field in fields(spec):
        if get_origin(hints[field.name]) is not Annotated:
            continue
        kind, sentence = get_args(hints[field.name])
        name, default = field.name, None if overrides else defaults.get(field.name, field.default)
        common: dict[str, Any] = {"rich_help_panel": panel, "show_default": told.get(name, True)}
        if name in several:
            name, kind, sentence = f"{name}s", list[str], f"Comma-separated: {sentence}"
        option = typer.Option(help=sentence, **common)
        if kind == tuple[str, ...]:  # repeatable, because an entry may contain commas
            option = typer.Option(repeated(name), help=sentence, **common)
            default = None
        made.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=Annotated[
                    _read_as(kind) if default is not None else _read_as(kind) | None, option
                ],
            )
        )
    return made


def told_by(preset: str, specs: Iterable[Any]) -> dict[str, str]:
    """Return the values of each field in a preset, each once, for the help."""
    specs = tuple(specs)
    in_help = {}
    for field in fields(specs[0]):
        values = dict.fromkeys(_in_help(getattr(spec, field.name)) for spec in specs)
        if values != {"": None}:
            in_help[field.name] = f"{preset}: {', '.join(value or 'none' for value in values)}"
    return in_help


def _in_help(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join("none" if each is None else _in_help(each) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def values_of(spec: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec that the options give."""
    kinds = get_type_hints(spec)
    given = {name: options[name] for name in kinds if options.get(name) is not None}
    return {name: _value(name, kinds[name], value) for name, value in given.items()}


def _value(name: str, kind: Any, given: Any) -> Any:
    if kind == tuple[str, ...]:
        return tuple(given)
    return numbers(name.replace("_", "-"), given) if _is_list(kind) else given


def _read_as(kind: Any) -> Any:
    """Return the type of a field on the command line; a list may be given several times."""
    if kind == list[str] or _is_list(kind):
        return list[str]
    return next((one for one in (bool, int, float) if kind in (one, one | None)), str)


def _is_list(kind: Any) -> bool:
    return any(get_origin(one) is tuple for one in (kind, *get_args(kind)))
