"""Synthetic histories of persons, drawn from a released model: post-processing."""

import io
import zipfile
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pandas as pd

from privrl.data.logs import Log, LogSchema
from privrl.data.logs.log import CUT, LogSpace
from privrl.data.schema import Categories, Schema
from privrl.envs.released import Released
from privrl.envs.rows import TransitionRows
from privrl.envs.tabular import TabularMDP
from privrl.files.files import Write, bytes_writer, check_parquet, parquet_writer, table_writer
from privrl.files.plain import listed, lookup
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

FORMATS: Final = {
    "csv": "synthetic.csv", "parquet": "synthetic.parquet", "minari": "synthetic.zip"
}  # fmt: skip
UNKNOWN: Final = "unknown"  # the outcome of a model where no count shows what follows
MOST_ROWS: Final = 5_000_000  # of a synthetic table: what memory holds
_MOST_EPISODES: Final = 10_000  # of a data set of Minari's, which has a folder for each
_MOST_AGAIN: Final = 1 - 1e-9  # chance of one more episode: sums converge
_MOST_STATES: Final = 2000  # for which returns are worked out
_ROUNDS: Final = 50  # of the fixed point of `behaviour_in_counts`


def sample_log(model: Released, schema: LogSchema, persons: int, rng: Rng = None) -> pd.DataFrame:
    """Return a table of made-up persons in the columns of a log, drawn from a released model.

    It costs no more privacy than the model: nothing else is read.

    Parameters
    ----------
    model : Released
        What `fit_model` released of a log with this schema.
    schema : LogSchema
        What the columns mean. Each column has one role.
    persons : int
        How many, >= 1; they are numbered from 1, and so are the episodes of each.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.

    Returns
    -------
    pandas.DataFrame
        The rows of a person are together and in order, and `read_log` reads them. A state or action
        is the category or the middle of the bin; rewards are the model's mean for a state and
        action. An episode that the model ends in no outcome of the schema has none.

    Raises
    ------
    ValueError
        If an argument is out of range, or model and schema do not fit together.

    Notes
    -----
    The next state depends on state and action alone (in models of kind "endings", on the state
    alone), and the action on the state alone: the model's ``behaviour``, or without it uniform
    over admissible actions. Nothing else of the log is preserved: see `lost_in`.
    """
    check_is("model", model, Released)
    check_sampling(schema, "persons", persons)
    return table_of(synthetic_log(model, schema.space, persons, as_rng(rng)), schema)


def lost_in(model: Released) -> str:
    """Return what histories that are drawn from a model do not preserve, in words."""
    details = model.statement.get("details") or {}
    lost = ["memory longer than one step", "differences between persons", "when episodes were cut"]
    if details.get("model") == "endings":
        lost.insert(0, "effects of actions on the next state (only on how episodes end)")
    if model.behaviour is None:
        lost.insert(0, "how often each action was taken (actions are uniform)")
    return f"{', '.join(lost[:-1])} and {lost[-1]}"


def check_sampling(schema: LogSchema, name: str, persons: int, kind: str = "csv") -> None:
    """Check, before anything is spent, that so many persons can be written in these columns.

    ``name`` is the argument's, and ``kind`` one of `FORMATS`.

    Raises
    ------
    ValueError
        If they cannot.
    ImportError
        If a package is not installed.
    """
    check_is("schema", schema, LogSchema)
    lookup("synthetic_format", kind, FORMATS)
    most = MOST_ROWS // (schema.most_steps * schema.most_episodes)
    if kind == "minari":
        most = min(most, _MOST_EPISODES // schema.most_episodes)
        for package in ("minari", "pyarrow"):
            import_module(package)
    if kind == "parquet":
        check_parquet()
        _check_kinds(schema)
    hint = (
        "by the schema, more could have too many steps or episodes. Draw them in parts: "
        "sample_log(model, schema, persons)"
    )
    check_count(name, persons, 1, most, hint)
    states = () if schema.state is None else schema.state.names
    roles = (schema.person, schema.episode, schema.order, schema.reward, schema.outcome)
    names = [*filter(None, roles), *states, *schema.action.names]
    several = sorted({name for name in names if names.count(name) > 1})
    if several:
        raise ValueError(
            f"columns of synthetic histories must have one role each, and {listed(several)} has "
            "several in the schema; copy that column under another name."
        )


def _check_kinds(schema: LogSchema) -> None:
    """Check that each column has values of one type."""
    for cells in filter(None, (schema.state, schema.action)):
        for name, column in cells.columns.items():
            if isinstance(column, Categories) and len(set(map(type, column.values))) > 1:
                raise ValueError(
                    f"synthetic_format must not be 'parquet' where a column has categories of "
                    f"several types, as {shown(name)} has; write csv."
                )


def synthetic_log(model: Released, space: LogSpace, persons: int, rng: np.random.Generator) -> Log:
    """Return the steps of made-up persons."""
    mdp, n_states = model.mdp, space.n_states
    known = len(space.outcomes)
    if (
        mdp.n_states - len(model.outcomes) != n_states
        or mdp.n_actions != space.n_actions
        or model.outcomes[:known] != space.outcomes
    ):
        raise ValueError(
            f"model must be of a log with this schema, of {n_states} states, {space.n_actions} "
            f"actions and the outcomes {listed(space.outcomes)}; got one of "
            f"{mdp.n_states - len(model.outcomes)} states, {mdp.n_actions} actions and the "
            f"outcomes {listed(model.outcomes)}."
        )
    number = _numbers_of_episodes(model, space, persons, rng)
    n_episodes = int(number.sum())
    rows = TransitionRows(mdp.transition, mdp.start)
    chances = _behaviour(model)
    choose = TransitionRows(chances[:, None], chances[0])
    paid = _step_rewards(model, space)

    def drawn(table: TransitionRows, row: Any) -> IntArray:
        draws = rng.random(len(row))
        table.keep_below_one(draws)
        return table.next_state[table.entries(row + draws)]

    state = drawn(rows, np.full(n_episodes, rows.start_row))
    who, steps = np.arange(n_episodes), []
    for _ in range(min(space.most_steps, mdp.horizon)):
        action = drawn(choose, state)
        following = drawn(rows, state * mdp.n_actions + action)
        steps.append(np.stack([who, state, action, following]))
        goes_on = following < n_states
        who, state = who[goes_on], following[goes_on]
        if not len(who):
            break
    table = np.concatenate(steps, axis=1)
    episode, state, action, following = table[:, np.argsort(table[0], kind="stable")]
    last = np.append(np.diff(episode) != 0, True)
    outcome = following - n_states
    ended = last & (outcome >= 0) & (outcome < known)
    reward = paid[state, action]
    reward[ended] += np.array(space.outcome_rewards)[outcome[ended]]
    following = np.where(last & (outcome >= known), CUT, following)
    return Log(
        **{name: getattr(space, name) for name in LogSpace.__dataclass_fields__},
        state=state,
        action=action,
        next_state=following,
        reward=reward,
        episode_starts=np.append(0, np.flatnonzero(last) + 1),
        person_starts=np.append(0, np.cumsum(number)),
    )


def table_of(log: Log, schema: LogSchema) -> pd.DataFrame:
    """Return the rows of a log in the columns of its schema."""
    length = np.diff(log.episode_starts)
    first = log.person_starts[:-1]
    episode = np.arange(len(length)) - np.repeat(first, np.diff(log.person_starts))
    columns: dict[str, Any] = {schema.person: log.person + 1}
    if schema.episode is not None:
        columns[schema.episode] = np.repeat(episode + 1, length)
    if schema.order is not None:
        columns[schema.order] = np.arange(log.n_steps) - np.repeat(log.episode_starts[:-1], length)
    for cells, number in ((schema.state, log.state), (schema.action, log.action)):
        if cells is not None:
            columns |= _cells(cells, number)
    if schema.reward is not None:
        columns[schema.reward] = np.clip(log.step_reward, *log.step_rewards)
    if schema.outcome is not None:
        labels = np.array([*log.outcomes, None], object)
        ended = log.next_state >= log.n_states
        columns[schema.outcome] = labels[np.where(ended, log.next_state - log.n_states, -1)]
    return pd.DataFrame(columns)


def _cells(cells: Schema, number: IntArray) -> dict[str, Any]:
    codes = np.stack(np.unravel_index(number, cells.sizes), axis=1)
    decoded = cells.decode(codes)
    return {str(name): decoded[name] for name in decoded}


def writer(model: Released, schema: LogSchema, persons: int, rng: Rng, kind: str) -> Write:
    """Return what writes made-up persons, once drawn, to a file of one of `FORMATS`."""
    log = synthetic_log(model, schema.space, persons, as_rng(rng))
    if kind == "minari":
        return bytes_writer(_zipped(log, model))
    return (parquet_writer if kind == "parquet" else table_writer)(table_of(log, schema))


def _zipped(log: Log, model: Released) -> bytes:
    """Return a data set of Minari's as an archive: a folder ``synthetic`` that Minari reads.

    Observations and actions are those of the released environment. It does not say which episodes
    are of one person.
    """
    minari, spaces = import_module("minari"), import_module("gymnasium").spaces
    storage = import_module("minari.dataset.minari_storage").MinariStorage
    mdp, content = model.mdp, io.BytesIO()
    seen = np.where(log.next_state == CUT, mdp.n_states - 1, log.next_state)
    bounds = enumerate(pairwise(log.episode_starts.tolist()))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "synthetic", "data")
        folder.parent.mkdir()
        made = storage.new(
            folder, spaces.Discrete(mdp.n_states), spaces.Discrete(mdp.n_actions),
            data_format="arrow",
        )  # fmt: skip
        size, made.get_size = made.get_size, lambda: 0.0  # of all files, after every episode
        made.update_episodes(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=np.append(log.state[first:last], seen[last - 1]),
                actions=log.action[first:last],
                rewards=log.reward[first:last],
                terminations=(ends := np.arange(first, last) == last - 1)
                & (log.n_states <= log.next_state[first:last]),
                truncations=ends & (log.next_state[first:last] < log.n_states),
                infos={},
            )
            for number, (first, last) in bounds
        )
        made.update_metadata({
            "dataset_id": "privrl/synthetic-v0", "dataset_size": size(),
            "minari_version": minari.__version__,
            "description": "Synthetic: drawn from a model that privrl released.",
        })  # fmt: skip
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(path.relative_to(temporary).as_posix())
                    archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _numbers_of_episodes(
    model: Released, space: LogSpace, persons: int, rng: np.random.Generator
) -> IntArray:
    """Return how many episodes each person has: binomial, with the mean that was released."""
    more = space.most_episodes - 1
    if not more:
        return np.ones(persons, np.intp)
    details = model.statement.get("details") or {}
    mean = float(details.get("episodes", 1.0))
    return 1 + rng.binomial(more, min(max((mean - 1) / more, 0.0), 1.0), persons)


def _behaviour(model: Released) -> FloatArray:
    """Return the chances of actions, shape (S, A)."""
    shape = model.mdp.n_states, model.mdp.n_actions
    even = np.ones(shape) if model.admissible is None else model.admissible.astype(float)
    chances = even if model.behaviour is None else model.behaviour
    if model.outcomes[-1:] == (UNKNOWN,):
        # An action of which nothing is known ends an episode: another is taken if there is one.
        known = model.mdp.transition[..., -1] < 1
        return _shares(chances * known, _shares(chances, even))
    return _shares(chances, even)


def _step_rewards(model: Released, space: LogSpace) -> FloatArray:
    """Return the mean reward of a step, that of its outcome apart, shape (S, A)."""
    ends = model.mdp.transition[..., space.n_states : space.n_states + len(space.outcomes)]
    mean = model.mdp.expected_reward - ends @ np.array(space.outcome_rewards)
    return np.clip(mean, *space.step_rewards)


def behaviour_in_counts(seen: FloatArray, mdp: TabularMDP, episodes: float) -> FloatArray:
    """Estimate the behaviour policy from how many persons took each action.

    Parameters
    ----------
    seen : array, shape (S, A)
        Released: how many persons were in a state and took an action there, once or more often.
    mdp : TabularMDP
        The released model; its states after the first S are outcomes.
    episodes : float
        The mean number of episodes of a person.

    Returns
    -------
    array, shape (S, A)
        Chances of actions; uniform where no action was seen.

    Notes
    -----
    Somebody who comes back to a state takes rare actions there sooner or later, so shares of
    persons are more even than chances of actions. Let a person return to the state with probability
    ``r_b`` after action ``b``. Then they take ``a`` there at least once with probability ``h_a =
    p_a + (sum of p_b r_b over b != a) h_a``, and ``seen`` is proportional to ``h``. So the chances
    are the fixed point of ``p_a ~ seen_a (1 - sum of p_b r_b over b != a)``. The model tells the
    ``r_b``; its horizon is taken to be geometric, with the same mean.
    """
    n_states = len(seen)
    even = np.full(seen.shape, 1 / seen.shape[1])
    chances = _shares(seen, even)
    if n_states > _MOST_STATES:  # where persons rarely come back
        return chances
    on = (1 - 1 / mdp.horizon) * mdp.transition[:n_states, :, :n_states]
    again = np.tile(mdp.start[:n_states], (n_states, 1)) * min(1 - 1 / episodes, _MOST_AGAIN)
    for _ in range(3):  # returns depend on chances
        stays = np.einsum("sa,sat->st", chances, on)
        stays += (1 - stays.sum(axis=1))[:, None] * again
        visits = np.linalg.inv(np.eye(n_states) - stays)
        reach = visits / np.diag(visits)  # from each state, the chance to come to another
        back = np.einsum("sat,ts->sa", on, reach)
        back += (1 - on.sum(axis=-1)) * np.einsum("st,ts->s", again, reach)[:, None]
        for _ in range(_ROUNDS):
            returned = (chances * back).sum(axis=1, keepdims=True) - chances * back
            chances = _shares(seen * (1 - returned), even)
    return chances


def _shares(amounts: FloatArray, otherwise: FloatArray) -> FloatArray:
    total = amounts.sum(axis=1, keepdims=True)
    return np.where(total > 0, amounts / np.where(total > 0, total, 1.0), otherwise)
