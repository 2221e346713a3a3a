"""Suites worth running: named specs, any part of which can be overridden."""

from typing import Any, Final

from privrl.experiments.suites.suite import SuiteSpec
from privrl.experiments.sweeps.presets import override, presets
from privrl.files.plain import lookup

PRESETS: Final[dict[str, SuiteSpec]] = presets(__package__, SuiteSpec)
"""By their names; budgets of a preset "...-renyi-2" are Renyi divergences of order 2."""


def preset(name: str, **changes: Any) -> SuiteSpec:
    """Return a named suite, one of `PRESETS`, with changes as of a sweep.

    Parameters
    ----------
    name : str
        One of `PRESETS`.
    **changes
        As for `privrl.experiments.sweeps.presets.override`.

    Raises
    ------
    ValueError
        If the name is unknown, a value out of range, or no combination goes together.
    """
    return override(lookup("preset", name, PRESETS), **changes)
