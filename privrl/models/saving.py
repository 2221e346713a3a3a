"""Models as JSON files, and the checks that all such files share.

A file holds the released numbers and their cost, and neither counts nor seeds. Everything that is
read is checked, because a file may come from anybody.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from privrl.accounting.ledger_file import relation_key
from privrl.costs.relations import Relation, ReplaceRecord
from privrl.files.files import check_stated, read_bytes, save_all, text_writer
from privrl.files.plain import listed, parse_json
from privrl.files.sharing import Verdict, judge
from privrl.files.shown import shown
from privrl.mechanisms.tables import Rows, TablesMechanism
from privrl.numerics.randomness import SECRET, SEEDED

_Model = TypeVar("_Model", bound="Saved")


class Saved(ABC):
    """A model that can be written to a JSON file, and read from one."""

    _indent: ClassVar[int | None] = None  # of the file's lines; None for a single line

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data, of the form that `from_dict` reads."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the model that plain data describe.

        Raises
        ------
        ValueError
            If an entry is absent, unknown or of a wrong type, or they describe no model.
        """

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, replacing it whole: released numbers, and no counts.

        The file states whether the release is private.

        Raises
        ------
        ValueError
            As `to_dict`.
        """
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=self._indent)
        path = Path(path)
        save_all(path.parent, {path.name: text_writer(f"{text}\n")})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the model in a JSON file.

        Raises
        ------
        ValueError
            If its content is not such a model, or the statement ``release.json`` beside it is about
            another file of that name; the message begins with the file's name.
        """
        return load_as(path, cls.from_dict)


def load_as(path: str | Path, read: Callable[[Any], _Model]) -> _Model:
    """Return what is read from the data of a JSON file; as `Saved.load`."""
    path = Path(path)
    try:
        content = read_bytes(path)  # once: a pipe gives it once
        check_stated(path, content)
        data = parse_json(content)
        return read(data)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def check_entries(
    what: str, data: Any, wanted: Collection[str], *, optional: Collection[str] = ()
) -> None:
    """Check that plain data are a table with these entries and no others."""
    if not isinstance(data, Mapping) or not set(wanted) <= set(data) <= {*wanted, *optional}:
        got = listed(data) if isinstance(data, Mapping) else type(data).__name__
        raise ValueError(f"{what} must have the entries {listed(sorted(wanted))}, got {got}.")


def check_classifier(data: Any, wanted: Collection[str]) -> None:
    """Check the entries of a classifier that states its own cost alone."""
    said = data.get("format") if isinstance(data, Mapping) else None
    if isinstance(said, str) and said.endswith(OF_TRIAL):
        raise ValueError(
            "a classifier must be read with the whole file of what was chosen, which states the "
            "cost; got what one trial fitted."
        )
    if said == CHOSEN:
        raise ValueError(
            "the file must hold a classifier that was fitted alone, got one that privrl classify "
            "--choose chose among several; privrl predict takes either."
        )
    check_entries("a classifier", data, wanted, optional=[CAVEATS])


def check_format(data: Mapping[str, Any], known: str) -> None:
    """Check that plain data have the known format."""
    if data["format"] != known:
        raise ValueError(f"format must be {shown(known)}, got {shown(data['format'])}.")


def randomness_said(data: Mapping[str, Any]) -> str | None:
    """Return the kind of randomness in plain data, or None."""
    said: Any = data["randomness"]
    if said not in (None, SECRET, SEEDED):
        raise ValueError(f"randomness must be {SECRET!r}, {SEEDED!r} or null, got {shown(said)}.")
    return said


#: The format of a classifier that was chosen; its file states the cost of the whole selection.
CHOSEN: Final = "privrl.ChosenClassifier 2"

#: After the format of what such a file holds: alone it would state what one trial cost.
OF_TRIAL: Final = " of a trial"

#: The entry of a file that lists what its guarantee does not cover; absent if there is nothing.
CAVEATS: Final = "caveats"

#: Of a classifier that was fitted as a clone.
OF_CLONE: Final = (
    "a copy made by scikit-learn was fitted, perhaps one of several, or to repeated records: "
    "neither a choice among copies nor a repetition is in this cost"
)

#: Of a classifier whose classes are not public.
OF_CLASSES: Final = "its classes were read from the private records, which no guarantee covers"

#: The verdict on it, by which a file without the caveat is recognised, as older ones are.
LEARNED: Final = Verdict(False, OF_CLASSES)


def classifier_verdict(*, private: bool, randomness: str | None, caveats: list[str]) -> Verdict:
    """Return whether the file of a classifier may be shared."""
    verdict = judge("model.json", private=private, randomness=randomness)
    if OF_CLASSES in caveats and verdict.shareable:
        return LEARNED
    return judge("model.json", private=private, randomness=randomness, caveats=caveats)


def caveats_said(data: Mapping[str, Any]) -> list[str]:
    """Return the caveats in the plain data of a classifier."""
    said, known = data.get(CAVEATS, []), [OF_CLONE, OF_CLASSES]
    if not isinstance(said, list) or said != [each for each in known if each in said]:
        raise ValueError(f"{CAVEATS} must be of {known}, or left out, got {shown(said)}.")
    is_older = data.get("because") == LEARNED.because and OF_CLASSES not in said
    return [*said, OF_CLASSES] if is_older else said


def plain_caveats(caveats: list[str]) -> dict[str, list[str]]:
    """Return caveats as an entry of plain data, or none, as `caveats_said` reads it."""
    return {CAVEATS: caveats} if caveats else {}


SPENT = ("relation", "mechanism", "sizes", "alpha")


def relation_in_file(relation: Relation, known: Mapping[str, Relation]) -> str:
    """Return the name of a relation, by which a file is read again.

    Raises
    ------
    ValueError
        If it is none of those known, whatever its name: the file would state another cost.
    """
    same = known.get(str(relation))
    if same is None or relation_key(relation) != relation_key(same):
        raise ValueError(
            f"relation must be one of {listed(known)} as privrl defines it, for a file has its "
            f"name alone, got another one, {shown(str(relation))}."
        )
    return str(relation)


def plain_spent(mechanism: TablesMechanism) -> dict[str, Any]:
    """Return what was spent on tables, as `mechanism_of` reads it; raise as `relation_in_file`."""
    known = ReplaceRecord()
    return {
        "relation": relation_in_file(mechanism.relation, {str(known): known}),
        "mechanism": mechanism.mechanism,
        "sizes": list(mechanism.sizes),
        "alpha": mechanism.alpha,
    }


def mechanism_of(spent: Mapping[str, Any], shapes: tuple[Rows, ...]) -> TablesMechanism:
    """Return what released tables of these shapes, from the entries `SPENT`."""
    relation = ReplaceRecord()
    if spent["relation"] != str(relation):
        raise ValueError(f"relation must be {str(relation)!r}, got {shown(spent['relation'])}.")
    if not isinstance(spent["sizes"], list):
        raise ValueError(f"sizes must be a list of numbers, got {shown(spent['sizes'])}.")
    return TablesMechanism(
        shapes=shapes,
        mechanism=spent["mechanism"],
        sizes=tuple(spent["sizes"]),
        alpha=spent["alpha"],
    )
