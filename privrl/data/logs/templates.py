"""Schemas of logs to be filled in, made of names and bounds only."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from privrl.data.logs.schema import KEYS, still_empty
from privrl.data.schema.entries import Value
from privrl.data.schema.plain import dump, read
from privrl.data.schema.templates import Bounds, Written, merged, replace_file, template
from privrl.files.files import check_replaced, package_text, save_new
from privrl.files.plain import listed

_ADVICE: Final = package_text(__package__, "head.toml")

_EMPTY: Final[tuple[Any, ...]] = (None, "", [])


def write_log_template(
    path: str | Path,
    names: Iterable[str],
    *,
    person: str | None = None,
    order: str | None = None,
    actions: Sequence[str] = (),
    outcome: str | None = None,
    reward: str | None = None,
    numeric: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Value]] | None = None,
    rest: Collection[str] = (),
    bins: int = 10,
) -> Written:
    """Write a file of a `LogSchema`, ``.toml`` or ``.json``, in which the user fills in the rest.

    An existing file is completed: entries that are filled in stay, with their comments.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    names : sequence of str
        Columns. Those without a role are parts of the state.
    person, order, outcome, reward : str, optional
        The columns with these roles, see `LogSchema`. The reward takes its range from ``numeric``,
        and the outcome its values from ``categories``.
    actions : sequence of str
        The columns that make up the action.
    numeric, categories, rest, bins
        As for `privrl.data.schema.write_template`.

    Returns
    -------
    Written
        What is left to fill in, with line numbers, and which entries were kept.

    Raises
    ------
    ValueError
        As `privrl.data.schema.write_template`, or if a column has two roles.
    """
    path, names = Path(path), tuple(names)
    dump(path, {})  # its name is checked first
    there = _there(path) if os.path.lexists(path) else {}
    old = [there.get(key) for key in ("person", "order")]
    old += [there.get(table, {}).get("column") for table in ("outcome", "reward")]
    pairs = list(zip(old, (person, order, outcome, reward), strict=True))
    kept = [f"{a} (not {b})" for a, b in pairs if a and b not in (a, None)]
    person, order, outcome, reward = (a or b for a, b in pairs)
    given = {*actions, *(b for a, b in pairs if not a)}
    actions = tuple(dict.fromkeys((*there.get("action", {}), *actions)))
    roles = [name for name in (person, order, *actions, outcome, reward) if name]
    if len(set(roles)) < len(roles):
        raise ValueError(f"a column must have one role, got {listed(roles)}.")
    names += tuple(name for name in roles if name not in names)
    columns = template(names, numeric=numeric, categories=categories, rest=rest, bins=bins)[
        "columns"
    ]
    made: dict[str, Any] = {"person": person or "", "most_steps": 0, "most_episodes": 1}
    if order:
        made["order"] = order
    if reward:
        edges = columns[reward].get("edges") or [""]
        made["reward"] = {"column": reward, "low": edges[0], "high": edges[-1]}
    if outcome:
        values = [_as_in_a_file(each) for each in columns[outcome].get("categories", ())]
        made["outcome"] = {"column": outcome, "values": values, "rewards": []}
    data, more = _completed(there, made)
    kept += more
    state = there.get("state", {})
    cells, others = merged(state | there.get("action", {}), columns)
    kept += [name for name in others if name in state or name in actions]
    data["state"] = {
        name: each
        for name, each in cells.items()
        if name not in (given if name in state else roles)
    }
    data["action"] = {name: cells[name] for name in actions}
    data = {key: data[key] for key in KEYS if key in data}
    if not there:
        content = dump(path, data)
        save_new(path, (_ADVICE.encode() if path.suffix.lower() == ".toml" else b"") + content)
    elif data != there:
        check_replaced(path)
        replace_file(path, there, data, _ADVICE)
    return Written(still_empty(data, path), (), tuple(kept))


def _as_in_a_file(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _there(path: Path) -> dict[str, Any]:
    """Return the plain data of a log's schema, of which some may still have to be filled in."""
    wrong = "it has other entries than a schema of a log"
    try:
        data = read(path)
        tables = [data.get(key, {}) for key in ("state", "action", "reward", "outcome")]
        columns = [column for cells in tables[:2] for column in cells.values()]
        if data.keys() <= set(KEYS) and all(isinstance(each, dict) for each in tables + columns):
            return data
    except AttributeError:
        pass
    except ValueError as error:
        wrong = str(error).rstrip(".")
    raise ValueError(
        f"{path.name} exists and is not a schema of a log to complete: {wrong}. Correct it, or "
        "write another file: --out."
    )


def _completed(
    there: Mapping[str, Any], made: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return entries with the empty ones filled in, and the names of those that differ."""
    data, kept = dict(there), []
    for key, value in made.items():
        old = there.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            data[key], more = _completed(old, value)
            kept += more
        elif old in _EMPTY or (key == "most_steps" and not old):
            data[key] = value
        elif old != value and value not in _EMPTY and key not in ("most_steps", "most_episodes"):
            kept.append(key)
    return data, kept
