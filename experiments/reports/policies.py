"""A policy, step by step: a picture and a table."""

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
    """Return picture and table of a policy.

    Parameters
    ----------
    policy : array, shape (H, S)
        An action for each step and state.
    states : list of str
        What they are called.
    actions : mapping of int to str
        What each is called; -1 is what is done there already.
    file : str
        Where all of it is.
    """
    within = range(min(len(states), _ROWS))  # a state has a row at least
    runs = [(state, *run) for state in within for run in _runs(policy[:, state])]
    shown = [run for run in runs if run[0] < _STATES]
    series = []
    for action, name in actions.items():
        mine = [run for run in shown if run[3] == action]
        if mine:
            rows, starts, ends, _ = zip(*mine, strict=True)
            series.append(Cells(name, _colour(action), rows, starts, ends))
    rest = len(states) - _STATES
    picture = Chart(
        "grid",
        f"What the policy does in each state, from step 0 to step {len(policy) - 1}"
        + (f": the first {_STATES} states, of {len(states)}." if rest > 0 else "."),
        x="step of an episode",
        y="state",
        series=tuple(series),
        labels=tuple(states[:_STATES]),
    )
    table = Table(
        "The policy, step by step: an action holds until the next one of its state",
        ("state", "from step", "to step", "action"),
        tuple((states[s], start, end - 1, actions[a]) for s, start, end, a in runs[:_ROWS]),
        left_out=f"all of it: {file}" if max(len(runs), len(states)) > _ROWS else "",
    )
    return picture, table


def _runs(actions: NDArray[np.intp]) -> Iterator[tuple[int, int, int]]:
    """Return from which step, before which, what is done."""
    starts = [0, *(np.flatnonzero(np.diff(actions)) + 1).tolist(), len(actions)]
    for start, end in pairwise(starts):
        yield start, end, int(actions[start])


def _colour(action: int) -> str:
    return GREY if action < 0 else COLOURS[action % len(COLOURS)]
