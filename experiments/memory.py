"""Whether what an agent has to keep fits into memory: asked before anything runs."""

from privrl.agents.methods import Method
from privrl.files.shown import shown

_LARGEST_TABLE = 2.5e8  # bytes; a draw holds several tables of that size, in each worker
_REWARDS = 22  # cells of a row of rewards, and more than cells that appear in one of transitions
_LARGEST_PAST = 4e9  # bytes of what a sampler keeps from its draws: their noise, or a window


def check_memory(
    method: Method, table: tuple[int, int, int], episodes: int, *, runs: int | None = None
) -> None:
    """Check that the tables of an agent fit into memory.

    Parameters
    ----------
    method : Method
        How it learns.
    table : tuple of int
        Shape (S, A, K) of its table of transitions.
    episodes : int
        How many there will be.
    runs : int, optional
        How many are in a block, side by side; by default it is a single run.

    Raises
    ------
    ValueError
        If they do not: how much that would be, and what to declare or to lower.
    """
    one, past = _bytes(method, table, episodes)
    fit = most_runs(method, table, episodes)
    if (runs or 1) <= fit:
        return
    what = f"{(runs or 1) * one / 1e9:.1f} GB for each of several tables"
    kept = fit == _LARGEST_PAST // max(past, 1)
    if kept:
        what = f"{(runs or 1) * past / 1e9:.1f} GB for what is kept of all draws"
    ways = (
        []
        if method.support or method.is_sparse
        else ["make the possible next states public (support)"]
    )
    if method.kind.takes_cells and not method.is_sparse and not method.support:
        ways.append("take the sampler sparse-counts")
    if kept and method.lighter_sampler:
        ways.append(f"take the sampler {method.lighter_sampler}, which keeps a few tables")
    if kept:
        ways.append("draw less often (schedule)")
    way = ", or ".join(ways or ["number fewer states"])
    if runs is None:
        raise ValueError(
            f"env must have tables that fit into memory, got {table[0]} states and {table[1]} "
            f"actions for {shown(method.label)}, {what}; {way}."
        )
    raise ValueError(
        f"block must be small enough for memory, got {runs} runs of {shown(method.label)}, {what}; "
        + (f"at most {fit} fit, or " if fit else "not one fits; ")
        + f"{way}."
    )


def most_runs(method: Method, table: tuple[int, int, int], episodes: int) -> int:
    """Return how many runs fit into memory side by side, >= 0; see `check_memory`."""
    one, past = _bytes(method, table, episodes)
    return int(min(_LARGEST_TABLE // one, _LARGEST_PAST // max(past, 1)))


def _bytes(method: Method, table: tuple[int, int, int], episodes: int) -> tuple[int, int]:
    """Return how large a table of a run is, and all that it keeps from draw to draw."""
    states, actions, cells = table
    if method.is_sparse:  # of all cells only those that appear, but all rewards
        cells = _REWARDS
    one = 8 * states * actions * cells
    draws = len(method.draws_of(episodes).starts(episodes))
    return one, method.tables_kept(draws) * one
