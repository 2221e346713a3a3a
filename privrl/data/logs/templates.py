"""Schemas of logs to be filled in, made of names and bounds only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from privrl.data.schema.entries import Value
from privrl.data.schema.plain import dump
from privrl.data.schema.templates import Bounds, template
from privrl.files.files import save_new

_ADVICE: Final = """\
# A schema of a log is public. Fill it in from what everybody may know, not from the data.
# person: the column that says whose a row is. most_steps: of an episode. most_episodes: of a
# person. What is beyond is left out. Above the first table there may also be
#   episode = "stay"      the column that says of which episode of its person a row is
#   order = "hour"        the column of numbers by which rows of an episode are sorted
# Every column is listed as part of the state: delete those that are not, and move those that say
# what was done, [state.dose], to [action.dose]. A column has
#   categories = ["a", "b"]   texts in quotes, whole numbers, or true and false; other = true adds a
#                             cell for whatever is unknown or missing
#   count = 5                 or whole numbers 0 .. 4
#   edges = [0, 4, 8]         or bins of numbers; missing = true adds a cell for what is none
# A person with a row that does not fit is left out. What is earned is said by these, or by one:
#   [reward]
#   column = "score"
#   low = 0
#   high = 1
#   [outcome]
#   column = "left"
#   values = ["well", "dead"]
#   rewards = [1, -1]

"""


def write_log_template(
    path: str | Path,
    names: Iterable[str],
    *,
    numeric: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Value]] | None = None,
    rest: Collection[str] = (),
    bins: int = 10,
) -> None:
    """Write a file of a `LogSchema`, ``.toml`` or ``.json``, in which the user fills in the rest.

    Parameters
    ----------
    path : str or pathlib.Path
        Where; a file that is there is not replaced.
    names, numeric, categories, rest, bins
        As for `privrl.data.schema.write_template`.

    Raises
    ------
    ValueError
        As `privrl.data.schema.write_template`.
    FileExistsError
        If the file exists: what was filled in is not lost.
    """
    path = Path(path)
    columns = template(names, numeric=numeric, categories=categories, rest=rest, bins=bins)[
        "columns"
    ]
    data: dict[str, Any] = {"person": "", "most_steps": 0, "most_episodes": 1}
    content = dump(path, data | {"state": columns, "action": {}})
    if path.suffix.lower() == ".toml":
        content = _ADVICE.encode() + content
    save_new(path, content)
