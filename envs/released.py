"""A privately released model, and the statement that belongs to it."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from privrl import __version__
from privrl.envs.tabular import TabularMDP
from privrl.files.chosen import MayBeChosen
from privrl.files.fixed import read_only
from privrl.files.html import InHtml
from privrl.files.plain import listed
from privrl.files.sharing import check_beside
from privrl.files.shown import one_line, shown
from privrl.numerics.checks import check_is, plain_array
from privrl.numerics.typing import BoolArray, FloatArray

MOST_CELLS = 2**28
"""Transitions S x A x S of the largest model in files: as many floats take 2 GiB."""

_TEXTS = ("unit", "relation", "released", "version")
_BESIDE = "environments"  # of a policy that was learned in them
_DEEPEST = 4  # lists and tables within ``details``


@dataclass(frozen=True, eq=False, kw_only=True)
class Released(MayBeChosen, InHtml):
    """A Markov decision process that was released from private data, with its privacy statement.

    Parameters
    ----------
    mdp : TabularMDP
        What was released. Its last states are the outcomes.
    statement : dict
        What protects whom, see `privacy_statement`.
    outcomes : iterable of str
        How an episode may end: labels of as many last states, which are never left and pay
        nothing. Perhaps none.
    state_names : iterable of str, optional
        Public labels of the states before the outcomes.
    action_names : iterable of str, optional
        Public labels of the actions.
    admissible : array of bool, shape (S, A), optional
        Which actions may be recommended; in each state, one at least.
    deviations : array of float, shape (S, A), optional
        Standard deviation >= 0 that the noise of the release leaves in an action's value or
        expected reward, whichever ``statement`` says.
    behaviour : array of float, shape (S, A), optional
        Estimated chances of the actions of those in the data, from the release or public.

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit the others.

    Notes
    -----
    Everything here is public: anybody may be given it, and whatever is computed from it costs
    no more privacy. Labels differ, and all of their characters are printable.
    """

    mdp: TabularMDP
    statement: dict[str, Any]
    outcomes: tuple[str, ...] = ()
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    admissible: BoolArray | None = None
    deviations: FloatArray | None = None
    behaviour: FloatArray | None = None

    def __post_init__(self) -> None:
        mdp = self.mdp
        hint = "TabularMDP(transition, reward, start, horizon) makes one of arrays"
        check_is("mdp", mdp, TabularMDP, hint=hint)
        check_cells(mdp.n_states, mdp.n_actions)
        n_before, outcomes = self._check_outcomes()
        checked: dict[str, Any] = {"statement": read_only(checked_statement(self.statement))}
        checked["outcomes"] = outcomes
        for name, size in (("state_names", n_before), ("action_names", mdp.n_actions)):
            labels = getattr(self, name)
            checked[name] = None if labels is None else check_labels(name, labels, size)
        both = [label for label in checked["state_names"] or () if label in set(outcomes)]
        if both:
            raise ValueError(
                f"state_names must differ from outcomes, got {listed(both)} in both; outcomes "
                "are left out of state_names."
            )
        checked["admissible"], checked["deviations"] = self._check_tables()
        checked["behaviour"] = self._check_behaviour()
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        # Whoever learns in its tables states what they cost; the given ones may be public.
        own = object.__new__(type(mdp))
        vars(own).update(vars(mdp), _released=(self,))
        object.__setattr__(self, "mdp", own)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:  # pickles forget "read-only"
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return partial(type(self), **values), ()

    def state_label(self, state: int) -> str:
        """Return what a state is called: its label, or its number."""
        n_before = self.mdp.n_states - len(self.outcomes)
        if state >= n_before:
            return self.outcomes[state - n_before]
        return self.state_names[state] if self.state_names is not None else str(state)

    def action_label(self, action: int) -> str:
        """Return what an action is called: its label, or its number."""
        return self.action_names[action] if self.action_names is not None else str(action)

    def _check_outcomes(self) -> tuple[int, tuple[str, ...]]:
        n_states = self.mdp.n_states
        outcomes = check_labels("outcomes", self.outcomes)
        n_before = n_states - len(outcomes)
        if n_before < 1:
            raise ValueError(
                f"outcomes must be fewer than the {n_states} states, got {len(outcomes)}; they "
                "label the last states."
            )
        open_ended = np.flatnonzero(~self.mdp.ends[n_before:])
        if len(open_ended):
            raise ValueError(
                f"outcomes must be states that are never left and pay nothing, got "
                f"{shown(outcomes[open_ended[0]])}, state {n_before + open_ended[0]}, which is "
                "none; pay on arrival what an outcome is worth."
            )
        return n_before, outcomes

    def _check_tables(self) -> tuple[BoolArray | None, FloatArray | None]:
        shape = (self.mdp.n_states, self.mdp.n_actions)
        admissible, deviations = self.admissible, self.deviations
        if admissible is not None:
            admissible = _table("admissible", "booleans", admissible, shape, "b")
            if not admissible.any(axis=1).all():
                state = int(np.flatnonzero(~admissible.any(axis=1))[0])
                raise ValueError(
                    f"admissible must leave an action at least in each state, got none in state "
                    f"{state}; where nothing is known, all are."
                )
        if deviations is not None:
            deviations = _table("deviations", "numbers", deviations, shape, "iuf").astype(float)
            deviations.setflags(write=False)
            if not (np.isfinite(deviations) & (deviations >= 0)).all():
                where = ~(np.isfinite(deviations) & (deviations >= 0))
                raise ValueError(
                    f"deviations must be >= 0 and finite, got {deviations[where][0]}; they are "
                    "standard deviations."
                )
        return admissible, deviations

    def _check_behaviour(self) -> FloatArray | None:
        if self.behaviour is None:
            return None
        shape = (self.mdp.n_states, self.mdp.n_actions)
        chances = _table("behaviour", "numbers", self.behaviour, shape, "iuf").astype(float)
        chances.setflags(write=False)
        if not ((chances >= 0).all() and (np.abs(chances.sum(axis=1) - 1) < 1e-6).all()):
            raise ValueError("behaviour must be chances >= 0 that sum to 1 in each state.")
        return chances


def unit_in_words(unit: str) -> str:
    """Return the privacy unit of a log, named as its column is: ``"visit: all episodes"``."""
    name = one_line(unit)
    return name if unit == "episode" else f"{name}: all episodes"


def privacy_statement(
    *,
    unit: str,
    relation: str,
    epsilon: float,
    released: str,
    delta: float | None = None,
    order: float | None = None,
    randomness: str | None = None,
    caveats: Iterable[str] = (),
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what a release promises, as plain data; the library's version is added.

    Parameters
    ----------
    unit : str
        Who or what is protected: ``"a person: all episodes"``.
    relation : str
        In words, which data sets are neighbours: ``"replace one person"``.
    epsilon : float
        In nats, > 0.
    released : str
        What was released, and how.
    delta : float, optional
        In 0..1, less than 1: 0 for pure differential privacy.
    order : float, optional
        Rényi order > 1 that ``epsilon`` is of, in place of ``delta``.
    randomness : str, optional
        What `privrl.numerics.randomness.randomness_of` says of the generator.
    caveats : iterable of str
        What the promise does not cover.
    details : mapping, optional
        Anything else that is plain data.

    Returns
    -------
    dict
        With the entries ``unit``, ``relation``, ``epsilon``, ``delta`` or ``order``,
        ``released``, ``caveats``, ``version``, and perhaps ``randomness`` and ``details``.

    Raises
    ------
    ValueError
        If an entry is out of range, or not one of ``delta`` and ``order`` is given.
    """
    given = {
        "unit": unit,
        "relation": relation,
        "epsilon": epsilon,
        "delta": delta,
        "order": order,
        "released": released,
        "randomness": randomness,
        "caveats": caveats if isinstance(caveats, str) else list(caveats),
        "version": __version__,
        "details": details,
    }
    return checked_statement({name: value for name, value in given.items() if value is not None})


def checked_statement(statement: object) -> dict[str, Any]:
    """Return a copy of a privacy statement, if it is one; see `privacy_statement`.

    Raises
    ------
    ValueError
        If an entry is absent, unknown or out of range.
    """
    if not isinstance(statement, Mapping):
        raise ValueError(
            f"statement must be a table of entries, got {type(statement).__name__}; "
            "privacy_statement(...) makes one."
        )
    entries = _plain("statement", statement, _DEEPEST + 1)
    needed = {*_TEXTS, "epsilon", "caveats"}
    missing = sorted(needed - set(entries))
    unknown = sorted(set(entries) - needed - {"delta", "order", "randomness", "details", _BESIDE})
    if missing:
        raise ValueError(
            f"statement must say {listed(missing)}, got {listed(entries)}; tables without a "
            "promise of privacy are for save_tables."
        )
    if unknown:
        raise ValueError(
            f"statement must have no other entries, got {listed(unknown)}; anything else belongs "
            "into 'details'."
        )
    if ("delta" in entries) == ("order" in entries):
        got = "both" if "delta" in entries else "neither"
        raise ValueError(
            f"statement must have one of 'delta' and 'order', got {got}; delta is 0 for pure "
            "differential privacy."
        )
    _check_number("epsilon", "> 0 and finite", entries["epsilon"], lambda x: 0 < x < math.inf)
    if "delta" in entries:
        _check_number("delta", ">= 0 and < 1", entries["delta"], lambda x: 0 <= x < 1)
    else:
        _check_number("order", "> 1 and finite", entries["order"], lambda x: 1 < x < math.inf)
    for name in (*_TEXTS, *({"randomness"} & entries.keys())):
        if not isinstance(entries[name], str) or not entries[name].strip():
            raise ValueError(
                f"statement's {shown(name)} must be a text that is not empty, got "
                f"{shown(entries[name])}."
            )
    caveats = entries["caveats"]
    if not isinstance(caveats, list) or not all(isinstance(each, str) for each in caveats):
        raise ValueError(f"statement's 'caveats' must be a list of texts, got {shown(caveats)}.")
    if not isinstance(entries.get("details", {}), dict):
        raise ValueError(
            f"statement's 'details' must be a table of entries, got {shown(entries['details'])}."
        )
    check_beside(entries)
    return entries


def check_cells(n_states: int, n_actions: int) -> None:
    """Check, before tables are made, that they are not too large to be kept in files."""
    cells = n_states * n_actions * n_states
    if cells > MOST_CELLS:
        raise ValueError(
            f"a released model must have at most {MOST_CELLS:,} transitions S x A x S, got "
            f"{n_states:,} states and {n_actions:,} actions; put states together."
        )


def _check_number(name: str, range_: str, value: Any, fine: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not fine(value):
        raise ValueError(
            f"statement's {shown(name)} must be a number {range_}, got {shown(value)}."
        )


def _plain(where: str, value: Any, depth: int) -> Any:
    """Return a copy of plain data as JSON has them."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _encodable(where, str(value))
    if isinstance(value, Integral | Real):
        number = int(value) if isinstance(value, Integral) else float(value)
        if not abs(number) <= sys.float_info.max:
            raise ValueError(f"{where} must hold finite numbers, got {shown(value)}.")
        return number
    if not isinstance(value, Mapping | list | tuple):
        raise ValueError(
            f"{where} must hold texts, numbers, lists and tables of entries, got "
            f"{type(value).__name__}."
        )
    if depth == 0:
        raise ValueError(f"{where} must not be nested so deeply; at most {_DEEPEST} times.")
    if not isinstance(value, Mapping):
        return [_plain(where, each, depth - 1) for each in value]
    if not all(isinstance(key, str) for key in value):
        raise ValueError(f"{where} must have texts as names of entries, got {listed(value)}.")
    return {
        _encodable(where, str(key)): _plain(where, each, depth - 1) for key, each in value.items()
    }


def _encodable(where: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{where} must hold texts of whole characters, got {shown(text)}."
        ) from None
    return text


def check_labels(name: str, labels: Iterable[str], size: int | None = None) -> tuple[str, ...]:
    """Return labels that are texts, different, and so many."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise ValueError(f"{name} must be a list of texts, got {shown(labels)}.")
    labels = tuple(labels)
    for label in labels:
        if not isinstance(label, str) or not label.strip() or not label.isprintable():
            raise ValueError(
                f"{name} must be texts that a line can show, got {shown(label)}; leave out control "
                "characters."
            )
    labels = tuple(str(label) for label in labels)
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise ValueError(f"{name} must be different, got {shown(label)} twice; number them.")
        seen.add(label)
    if size is not None and len(labels) != size:
        raise ValueError(f"{name} must be {size} texts to fit the tables, got {len(labels)}.")
    return labels


def _table(name: str, what: str, values: Any, shape: tuple[int, int], kinds: str) -> Any:
    """Return a read-only copy of an array with that shape and kind of entries."""
    try:
        array = plain_array(name, values).copy()
    except ValueError:  # rows of unequal lengths
        array = np.empty(0, object)
    if array.dtype.kind not in kinds or array.shape != shape:
        raise ValueError(
            f"{name} must be {what} of shape {shape}, got {array.dtype} of shape {array.shape}; "
            "give one for each state, outcomes too, and action."
        )
    array.setflags(write=False)
    return array
