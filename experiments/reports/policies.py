"""A policy by steps: a chart and a table."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privrl.experiments.palette import COLOURS, GREY
from privrl.experiments.reports.parts import Cells, Chart, Part, Table

_STATES = 40  # in the picture
_ROWS = 500  # of the table


def policy_parts(
    policy: NDArray[np.intp], states: list[str], actions: Mapping[int, str], file: str
) -> tuple[Part, ...]:
    """Return the chart and the table of a policy.

    Parameters
    ----------
    policy : array, shape (H, S)
        An action for each step and state.
    states : list of str
        Their names.
    actions : mapping of int to str
        Their names; -1 stands for the behaviour policy.
    file : str
        The file with the whole policy.
    """
    within = range(min(len(states), _ROWS))  # a state has at least one row
    found = [(state, *run) for state in within for run in runs(policy[:, state])]
    shown = [run for run in found if run[0] < _STATES]
    series = []
    for action, name in actions.items():
        mine = [run for run in shown if run[3] == action]
        if mine:
            rows, starts, ends, _ = zip(*mine, strict=True)
            series.append(Cells(name, _colour(action), rows, starts, ends))
    rest = len(states) - _STATES
    picture = Chart(
        "grid",
        f"The action of the policy in each state, from step 0 to step {len(policy) - 1}"
        + (f": the first {_STATES} of {len(states)} states." if rest > 0 else "."),
        x="step of an episode",
        y="state",
        series=tuple(series),
        labels=tuple(states[:_STATES]),
    )
    table = Table(
        "The policy: the actions of each state, step by step",
        ("state", "from step", "to step", "action"),
        tuple((states[s], start, end - 1, actions[a]) for s, start, end, a in found[:_ROWS]),
        left_out=f"the rest is in {file}" if max(len(found), len(states)) > _ROWS else "",
    )
    return picture, table


def runs(actions: NDArray[np.intp]) -> Iterator[tuple[int, int, int]]:
    """Return runs of equal actions: first step, step after the last, action."""
    starts = [0, *(np.flatnonzero(np.diff(actions)) + 1).tolist(), len(actions)]
    for start, end in pairwise(starts):
        yield start, end, int(actions[start])


def _colour(action: int) -> str:
    return GREY if action < 0 else COLOURS[action % len(COLOURS)]
