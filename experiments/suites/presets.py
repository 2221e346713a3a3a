"""Suites worth running: named specs, any part of which can be overridden."""

from dataclasses import replace
from typing import Any, Final

from privrl.agents.methods import Method
from privrl.experiments.suites.suite import SuiteSpec
from privrl.experiments.sweeps.presets import override
from privrl.files.plain import lookup

_OURS = Method(agent="sparse-psrl")

#: One step of one episode is private: all tasks, between the simplest rival and a learner without
#: privacy. Others plan with whole tables, which takes hours where there are many states.
_STEPS = SuiteSpec(
    methods=(_OURS, Method(agent="explore-then-plan"), Method(agent="q-learning")),
)

#: Other sizes and seeds of its families, that nobody looked at before settings were chosen.
_OTHERS = replace(
    _STEPS,
    tasks=(
        "KeyAndDoor7", "Inventory20", "Queue40", "Garnet30x3-11", "Dense20x6-5", "DeepSea14",
        "RiverSwim25", "MachineReplacement20",
    ),
)  # fmt: skip

#: Rivals that plan with whole tables, on tasks whose tables are small.
_RIVALS = SuiteSpec(
    tasks=(
        "RiverSwim6",
        "RiverSwim50",
        "Garnet20x4",
        "FrozenLake4x4",
        "CliffWalking",
        "KeyAndDoor5",
    ),
    methods=(_OURS, *(Method(agent=name) for name in ("psrl", "ucbvi", "dp-ucbvi", "rlsvi"))),
    runs=8,
)

#: All that one user does is: fewer tasks, and as many users as that takes.
_USERS = SuiteSpec(
    tasks=("RiverSwim6", "FrozenLake4x4", "FrozenLake8x8", "Garnet20x4"),
    methods=(_OURS, Method()),
    relation="replace-episode",
    episodes=(100_000, 1_000_000),
    runs=8,
)

_PLAIN = {"steps": _STEPS, "others": _OTHERS, "rivals": _RIVALS, "users": _USERS}

PRESETS: Final[dict[str, SuiteSpec]] = {
    **_PLAIN,
    **{f"{name}-renyi-2": replace(base, renyi_order=2.0) for name, base in _PLAIN.items()},
}
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
