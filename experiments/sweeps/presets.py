"""Sweeps worth running: named specs, any part of which can be overridden."""

import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from privrl.agents.methods import AGENTS, SAMPLERS, Method
from privrl.experiments.sweeps.comparison import Comparison
from privrl.experiments.sweeps.sweep import SweepSpec
from privrl.files.files import package_text
from privrl.files.plain import lookup

Compared = TypeVar("Compared", bound=Comparison)

#: Ponnoprat's scheme, *Differential privacy of Dirichlet posterior sampling*, section 5.
PUBLISHED: dict[str, Any] = {"schedule": "every-episode", "alpha": 10.0}

_DEFAULTS = Method()


def presets(package: str, kind: type[Compared]) -> dict[str, Compared]:
    """Return the specs in a package's ``presets.toml``, and those of them in Renyi divergence."""
    page = tomllib.loads(package_text(package, "presets.toml"))
    specs = {name: kind.from_dict(data) for name, data in page.items()}
    plain = {name: spec for name, spec in specs.items() if spec.renyi_order is None}
    return plain | {f"{n}-renyi-2": replace(s, renyi_order=2.0) for n, s in specs.items()}  # type: ignore[type-var] # dataclasses


PRESETS: dict[str, SweepSpec] = presets(__package__, SweepSpec)
"""By their names; budgets of a preset "...-renyi-2" are Renyi divergences of order 2."""


def preset(name: str, **changes: Any) -> SweepSpec:
    """Return a named sweep, one of `PRESETS`, with the changes that `override` takes.

    Raises
    ------
    ValueError
        If the name is unknown, or as by `override`.
    """
    return override(lookup("preset", name, PRESETS), **changes)


def override(
    base: Compared,
    *,
    agents: Sequence[str] | None = None,
    samplers: Sequence[str] | None = None,
    schedules: Sequence[str] | None = None,
    method: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Compared:
    """Return a sweep, or a suite, with parts of it overridden.

    Parameters
    ----------
    base : SweepSpec or SuiteSpec
        What is overridden.
    agents, samplers, schedules : sequence of str, optional
        If any is given, the methods are every combination of them that goes together, with
        `Method`'s defaults, in place of the base's.
    method : mapping, optional
        Fields of `Method` to set in all methods that they go with; a warning names the others.
    spec : mapping, optional
        Fields of the base to set.

    Raises
    ------
    ValueError
        If a name is unknown, a value out of range, or no combination goes together.
    """
    for kind, given in (("agents", agents), ("samplers", samplers), ("schedules", schedules)):
        if given is not None and not given:
            raise ValueError(f"{kind} must name at least one, got none.")
    starts = list(base.methods)
    if agents or samplers or schedules:
        starts = _combinations(
            agents or (_DEFAULTS.agent,), samplers or ("auto",), schedules or ("auto",)
        )
    methods = _overridden(starts, dict(method or {}))
    return replace(base, methods=methods, **(spec or {}))  # type: ignore[type-var] # a dataclass


def _combinations(
    agents: Sequence[str], samplers: Sequence[str], schedules: Sequence[str]
) -> list[Method]:
    """Return the combinations that go together; if none does, say why not."""
    found: list[Method] = []
    refusals: list[ValueError] = []
    for agent, sampler, schedule in product(agents, samplers, schedules):
        lookup("agent", agent, AGENTS)
        lookup("sampler", sampler, {"auto": None, **SAMPLERS})
        try:
            found.append(Method(agent=agent, sampler=sampler, schedule=schedule))
        except ValueError as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    return found


def _overridden(methods: Sequence[Method], changes: Mapping[str, Any]) -> tuple[Method, ...]:
    """Make each change in all methods that it goes with, and warn of those that it does not."""
    changed = list(methods)
    for name, value in changes.items():
        refused: dict[str, ValueError] = {}
        for i, method in enumerate(changed):
            try:
                # Labels follow from the settings, so that they are made anew.
                changed[i] = replace(method, label="", **{name: value})
            except ValueError as error:
                refused[method.label] = error
        if len(refused) == len(changed):
            raise next(iter(refused.values()))
        if refused:
            warnings.warn(
                f"{name} = {value!r} does not go with, and is left out of: {'; '.join(refused)}.",
                stacklevel=3,
            )
    return tuple({method.label: method for method in changed}.values())
