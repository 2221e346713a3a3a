"""Neighbouring data sets: a relation is a finite set of change vectors.

A **change vector** lists the differences between the cells of a table of counts for two
neighbouring data sets: ``(+1, -1)`` means that one cell gains one and another loses one. Cells
that are not listed do not change. All of privrl's guarantees are about these numbers, never
about the size, the width or the contents of the table.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from unicodedata import category, normalize

from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is, check_positive, check_truth

ChangeVector = tuple[float, ...]
Tables = tuple[tuple[str, tuple[ChangeVector, ...]], ...]


#: What accountants, ledgers and statements rely on; a subclass gives it to ``__init__``.
_FINAL: Final = frozenset(
    ("changes", "name", "tables", "covers_arrival", "norm_only", "convex_from", "sum_only")
) | {"__str__", "__eq__", "__hash__"}


class PaperStepWarning(UserWarning):
    """A guarantee uses a sensitivity that is known to be too small."""


@dataclass(frozen=True)
class Relation:
    """Neighbouring data sets, as the changes they may make to each table of counts.

    Parameters
    ----------
    name : str
        The difference between neighbours, in words: ``"replace one record"``.
    tables : mapping of str to iterable of change vectors
        For each table that is computed from the data, all change vectors between neighbouring
        data sets; empty for a table that does not change. Sub-multisets of a listed vector cost
        no more and need not be listed, but for those that change the number of records: that is
        taken as public if every listed vector sums to 0.
    covers_arrival : bool
        Whether the changes of the table ``"rewards"`` also hold if a reward depends on the next
        state, so that replacing that state also changes the reward. By default they do not.
    norm_only : collection of str
        Tables whose vectors bound the Euclidean norm of a change, but not its cells:
        enough for Gaussian noise, and refused by every other cost.
    convex_from : float, optional
        If given, each listed vector also represents every way of spreading its gains, and
        its losses, over more cells. That is sound in Rényi divergence only, and only for
        priors of at least this much (convexity in the amount); costs with a smaller one
        are refused, and their ``delta`` goes through Rényi divergence.
    sum_only : collection of str
        Tables whose vectors have one amount, which bounds the sum of the sizes of all changes,
        for any cells and signs: enough for Laplace and for Gaussian noise, and refused by other
        costs.

    Raises
    ------
    ValueError
        If ``norm_only`` or ``sum_only`` names no table, an amount is zero or not finite, or a
        change vector is empty, or has several amounts where they bound the sum: a change of one
        cell by all of it costs more.
    TypeError
        If a subclass defines ``changes`` or an attribute anew: ledgers and files go by ``tables``.

    Notes
    -----
    *A smaller change costs no more.* Write ``δ_γ(P, Q) = sup_E P(E) − γ Q(E)``. One pair dominates
    another if its ``δ_γ`` is at least as large for every ``γ > 0`` (Blackwell, 1953), and products
    of dominating pairs dominate products, so one cell is enough.

    - Dirichlet draws, with Q and P the regularised incomplete gamma functions. In ``UP(s)`` the
      likelihood ratio increases with g, so the best events are ``g >= t`` and ``δ_γ = sup_t
      Q(a + s, t) − γ Q(a, t)``. A gamma variable grows stochastically with its shape, so this does
      not fall as s grows. ``DOWN(s)`` is the reversed pair: there ``δ_γ = sup_t P(a, t) −
      γ P(a + s, t)``, and ``P(a + s, t)`` falls as s grows.
    - Noise with a log-concave distribution F, on the real line or the integers: Gaussian, Laplace,
      and the discrete versions of both. Its likelihood ratio at a shift ``m > 0`` is monotone, the
      best events are ``x <= t``, and ``δ_γ = sup_t F(t) − γ F(t − m)`` does not fall as m grows;
      for ``m < 0`` by symmetry.
    """

    name: str
    tables: Tables = field(repr=False)
    covers_arrival: bool = field(default=False, repr=False)
    norm_only: frozenset[str] = field(default=frozenset(), repr=False)
    convex_from: float | None = field(default=None, repr=False)
    sum_only: frozenset[str] = field(default=frozenset(), repr=False)

    def __init_subclass__(cls) -> None:
        """Refuse a class whose costs would not be those of its tables."""
        own = sorted(_FINAL.intersection(vars(cls)))
        if own:
            raise TypeError(
                f"{cls.__name__} must not define {', '.join(own)} of a Relation; give the changes "
                "as tables to Relation(name, tables)."
            )

    def __init__(
        self,
        name: str,
        tables: Mapping[str, Iterable[Iterable[float]]],
        *,
        covers_arrival: bool = False,
        norm_only: Collection[str] = (),
        convex_from: float | None = None,
        sum_only: Collection[str] = (),
    ) -> None:
        check_is("name", name, str)
        check_is("tables", tables, Mapping)
        if not tables:
            raise ValueError(
                "tables must name at least one table of counts, got none; "
                'for a histogram: {"counts": [(1, -1)]}.'
            )
        frozen = tuple(
            (table, tuple(tuple(float(m) for m in vector) for vector in vectors))
            for table, vectors in tables.items()
        )
        known, bounds = dict(frozen), (("norm_only", norm_only), ("sum_only", sum_only))
        for argument, names in bounds:
            if isinstance(names, str) or not all(each in known for each in names):
                raise ValueError(
                    f"{argument} must be a collection of names of tables, of "
                    f"{', '.join(map(repr, known))}, got {shown(names)}."
                )
        for table, vectors in frozen:
            for vector in vectors:
                wrong = [m for m in vector if not math.isfinite(m) or m == 0]
                if wrong or not vector:
                    raise ValueError(
                        f"a change vector of tables[{shown(table)}] must list finite amounts other "
                        f"than zero, got {shown(wrong[0] if wrong else vector)}; leave out "
                        "cells that do not change."
                    )
                if table in sum_only and len(vector) > 1:
                    raise ValueError(
                        f"a change vector of tables[{shown(table)}], which is in sum_only, must "
                        f"have one amount, got {shown(vector)}; give the sum of all sizes."
                    )
        check_truth("covers_arrival", covers_arrival)
        if convex_from is not None:
            check_positive("convex_from", convex_from)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "tables", frozen)
        object.__setattr__(self, "covers_arrival", covers_arrival)
        object.__setattr__(self, "norm_only", frozenset(norm_only))
        object.__setattr__(self, "convex_from", convex_from)
        object.__setattr__(self, "sum_only", frozenset(sum_only))

    def __str__(self) -> str:
        return self.name

    def changes(self, table: str | None = None) -> tuple[ChangeVector, ...]:
        """Return the change vectors of one table (by default, of the first).

        Raises
        ------
        ValueError
            If the relation does not know the table.
        """
        known = dict(self.tables)
        if table is None:
            table = self.tables[0][0]
        if table not in known:
            raise ValueError(
                f"table must be one of {', '.join(map(repr, known))} for the relation "
                f"{shown(self.name)}, got {shown(table)}."
            )
        return known[table]


def check_relation(relation: object, default: Relation | None = None) -> Relation:
    """Return an argument that must be a relation, or the default if it is None.

    Raises
    ------
    ValueError
        If it is not a relation.
    """
    relation = default if relation is None else relation
    if not isinstance(relation, Relation):
        raise ValueError(
            f"relation must be a Relation such as ReplaceRecord(), got {shown(relation)}."
        )
    return relation


def one_way(relation: Relation) -> tuple[str, ChangeVector] | None:
    """Return a table and a change of it whose reverse is not listed, nor part of another change.

    None if each change can be undone: then neighbours can be swapped.
    """
    for table, vectors in relation.tables:
        listed = [Counter(vector) for vector in vectors]
        for vector in vectors:
            reverse = Counter(-amount for amount in vector)
            if not any(reverse <= each for each in listed):
                return table, vector
    return None


def check_name(relation: object) -> Relation:
    """Return a relation that has the changes of the built-in one of its name, if there is one.

    Statements give the name alone.

    Raises
    ------
    ValueError
        If the changes are others, or it is no relation.
    """
    relation = check_relation(relation)
    known = _built_in(relation.name)
    said = [_without_unit(relation.name), *_definition(relation)[1:]]
    if known and said not in map(_definition, known):
        raise ValueError(
            f"relation must have a name of its own if its changes are, got "
            f"{shown(relation.name)}, which is {type(known[0]).__name__}'s: a statement has the "
            "name alone."
        )
    return relation


def has_built_in_name(relation: Relation) -> bool:
    """Whether a relation is named as a built-in one, whose tables it then has."""
    return bool(_built_in(check_name(relation).name))


def _built_in(name: str) -> list[Relation]:
    """Return the built-in relation of a name, and what it changes of moments."""
    records: tuple[Relation, ...]
    records = ReplaceRecord(), AddRemoveRecord(), AddRemovePerson(), ReplacePerson()
    records += ReplaceLoggedStep(), REPLACE_REWARD
    steps: tuple[Relation, ...] = (
        *(ReplaceStep(arrival_rewards=each) for each in (False, True)),
        *(ReplaceTransition(arrival_rewards=each) for each in (False, True)),
    )
    if (length := steps_of(name)) is not None:
        records, steps = (), (ReplaceEpisode(length),)
    known = [*records, *steps, *map(relation_of_moments, steps)]
    return [each for each in known if each.name == _without_unit(_spelled(name))]


def kind_of(name: str) -> str:
    """Return a relation's name without what other relations of its kind differ in.

    That is whom persons are, how long an episode is, and when rewards are paid.
    """
    if steps_of(name) is not None:
        return "replace one episode"
    return _without_unit(name).removesuffix(_ARRIVAL)


def _without_unit(name: str) -> str:
    found = _PERSON.fullmatch(name)
    return name if found is None else found[1]


def steps_of(name: str) -> int | None:
    """Return how many steps the episode has that a relation of such a name replaces, else None."""
    found = _EPISODE.fullmatch(_spelled(name))
    return None if found is None else int(found[1])


def _spelled(name: str) -> str:
    """Return a name in the spelling of the built-in ones, which readers would take it for."""
    seen = "".join(each for each in normalize("NFKC", name) if category(each) != "Cf")
    return re.sub(r"(?<=of )0+(?=\d)", "", " ".join(seen.split()).casefold())


def _definition(relation: Relation) -> list[object]:
    return [getattr(relation, each.name) for each in fields(Relation)]


class ReplaceRecord(Relation):
    """One person's record is replaced by any other: the table ``counts`` changes by (+1, −1).

    The relation of histograms and of every categorical table whose number of records is
    public.
    """

    def __init__(self) -> None:
        super().__init__("replace one record", {"counts": [(1, -1)]}, covers_arrival=True)


class AddRemoveRecord(Relation):
    """One person's record is added or removed: the table ``counts`` changes by +1 or by −1."""

    def __init__(self) -> None:
        super().__init__("add or remove one record", {"counts": [(1,), (-1,)]}, covers_arrival=True)


_ARRIVAL = ", rewards paid on arrival"
_STEP = [(1, -1, 1, -1), (-2, 1, 1), (2, -1, -1)]

#: The transition table with its self-loop cells divided by √2. Only such a cell can change by
#: two, and only in such a cell can a whole episode accumulate. So changes have a smaller norm, and
#: less Gaussian noise gives the same guarantee.
DAMPED = "transitions, self-loops damped"

#: The table of rewards with separate cells for self-loops, divided by √2. A reward adds to its row
#: nonnegative amounts of norm 1 at most. Rewards are assumed to be paid on arrival: then changes
#: have a smaller norm, for the same reason.
DAMPED_REWARDS = "rewards, self-loops damped"

_NORM_ONLY = (DAMPED, DAMPED_REWARDS)
_ROOT_2 = math.sqrt(2)
_DAMPED_STEP = [(1, -1, 1, -1), (-_ROOT_2, 1, 1), (_ROOT_2, -1, -1)]


class ReplaceTransition(Relation):
    """In reinforcement learning, the next state of one transition is replaced.

    The weakest unit: the previous state and action do not change.

    Parameters
    ----------
    arrival_rewards : bool
        Whether the reward of a transition depends on its next state. Then the reward is
        replaced with it, otherwise no reward changes.
    """

    def __init__(self, *, arrival_rewards: bool = False) -> None:
        check_truth("arrival_rewards", arrival_rewards)
        super().__init__(
            "replace one transition" + _ARRIVAL * arrival_rewards,
            {
                "transitions": [(1, -1)],
                "rewards": [(1, -1)] if arrival_rewards else [],
                DAMPED: [(1, -1)],
                DAMPED_REWARDS: [(1, -1)],
            },
            covers_arrival=arrival_rewards,
            norm_only=_NORM_ONLY,
        )


class ReplaceStep(Relation):
    """In reinforcement learning, one step is replaced: the state, the action, and its reward.

    Such a step takes part in two transitions, the one into the state and the one out of it,
    so four cells change by one. If both transitions are in one cell, before or after the
    replacement (a self-loop, common in RiverSwim), that cell changes by two.
    Ponnoprat (*Differential privacy of Dirichlet posterior sampling*, section 5) counts only
    the first case; see `PaperStep`.

    Parameters
    ----------
    arrival_rewards : bool
        Whether the reward of a transition depends on its next state. Then replacing a state by
        another one also replaces the reward for arriving there, by any other, and rewards
        change like transitions do. Otherwise only the reward of the replaced action changes. If
        the state stays the same and only the action or its reward is replaced, the reward for
        arriving there stays the same, even if it is random.

    Notes
    -----
    The table `DAMPED_REWARDS` changes by no more than 4 in squared norm, wherever rewards are paid.
    Two rewards change, r' when the state is reached and r when it is left, and each is one
    nonnegative entry of norm 1 at most, divided by √2 if the state followed itself. In the old or
    the new table, both entries are in cells of one kind of one row only if the state and action
    before equal the replaced ones, so that the first step is a self-loop, and the second step is a
    self-loop as well: then their sum has a squared norm of at most
    ``(1 + 1)² / 2 = 2``. Otherwise they share no cell, and it is at most ``1 + 1``. At the ends of
    an episode only one entry exists. Old and new entries are nonnegative, so the squared norm of
    their difference is at most the sum of both, 4.
    """

    def __init__(self, *, arrival_rewards: bool = False) -> None:
        check_truth("arrival_rewards", arrival_rewards)
        super().__init__(
            "replace one step" + _ARRIVAL * arrival_rewards,
            {
                "transitions": _STEP,
                "rewards": _STEP if arrival_rewards else [(1, -1)],
                DAMPED: _DAMPED_STEP,
                DAMPED_REWARDS: _DAMPED_STEP,
            },
            covers_arrival=arrival_rewards,
            norm_only=_NORM_ONLY,
        )


class ReplaceEpisode(Relation):
    """In reinforcement learning, a whole episode is replaced: the unit when one is a person.

    Up to ``horizon`` transitions and rewards change. Spreading them over the cells costs no more
    than putting all of them in one cell: the log-moment of a gamma distribution is convex in the
    amount for priors of at least 1/2.

    Parameters
    ----------
    horizon : int
        The largest number of steps in an episode; a public fact.

    Notes
    -----
    The table `DAMPED` changes by no more than ``2 ⌈horizon² / 2⌉`` in squared norm, half of the
    transitions' bound. An episode is one chain of states. Let L of its H steps be self-loops:
    their damped counts have a sum of squares of at most ``L² / 2``. Of the other m = H − L, one
    cell has at most ``⌈m / 2⌉``, since the chain must return by another cell before it uses the
    same one again; their sum of squares is at most ``⌈m² / 2⌉``. Together that is at most
    ``⌈H² / 2⌉``. Counts are not negative, so the squared norm of a difference is at most the sum
    of two.

    The same holds for `DAMPED_REWARDS`, with rows in place of cells: to leave a state once more by
    the same action, the chain must return by another row. Spreading rewards over the cells of a row
    makes no norm larger.

    *Convexity.* A cell with prior a that changes by m has the shift ``s = r |m|``. Its log-moment
    is ``λ − 1`` times the divergence of order λ. For losses the second derivative by m is ``r²``
    times ``(λ − 1)² ψ'(a − (λ − 1) s) + (λ − 1) ψ'(a + s) > 0``. For gains it is ``r²`` times
    ``λ² ψ'(a + λ s) − λ ψ'(a + s)``, which is not negative if ``(z − a) ψ'(z)`` does not fall on
    ``z > a`` (compare ``z = a + s`` and ``z = a + λ s``). With ``w = z − 1/2``, ``w ψ'(w + 1/2)``
    is the integral of ``e^−v h(v / w)`` over ``v > 0``, where ``h(t) = (t/2) / sinh(t/2)`` falls:
    so it rises with w, the claim for ``a = 1/2``. For larger a subtract ``(a − 1/2) ψ'(z)``, which
    falls with z. For smaller ones the claim fails. A convex function that is zero at zero is
    superadditive, so all changes in one cell cost most.
    """

    horizon: int = fixed()

    def __init__(self, horizon: int) -> None:
        object.__setattr__(self, "horizon", check_count("horizon", horizon))
        changes = [(horizon, -horizon)]
        most = math.sqrt((horizon**2 + 1) // 2)
        damped = [(most, -most)]
        super().__init__(
            f"replace one episode of {horizon} steps",
            {"transitions": changes, "rewards": changes, DAMPED: damped, DAMPED_REWARDS: damped},
            covers_arrival=True,
            norm_only=_NORM_ONLY,
            convex_from=0.5,
        )


_EPISODE: Final = re.compile(r"replace one episode of ([1-9]\d{0,15}) steps")
_PERSON: Final = re.compile(r"((?:add or remove|replace) one person) \(.*\)", re.DOTALL)

GRAINS: Final = 2.0**24  #: Of a contribution of norm 1 to moments: data are whole numbers of them.
MOST_COLUMNS: Final = 3000  #: Of such a contribution: the bound on rounding holds up to here.


def relation_of_moments(relation: Relation) -> Relation:
    """Return by how much neighbours of an agent's relation change contributions, in norm.

    `privrl.samplers.moments` derives it.

    Raises
    ------
    ValueError
        If the relation is none of those that it derives.
    """
    kind = type(check_relation(relation))
    if kind is ReplaceStep:
        square = 8.0
    elif kind is ReplaceTransition:
        square = 2.0
    elif kind is ReplaceEpisode:
        square = 2 + 4.5 * MOST_COLUMNS / GRAINS
    else:
        raise ValueError(
            "relation must be ReplaceStep(), ReplaceTransition() or ReplaceEpisode(horizon) for "
            f"continuous states, got {shown(relation)}."
        )
    most = math.nextafter(math.sqrt(square), math.inf)
    return Relation(
        str(relation), {NORMS: [(most,), (-most,)]}, covers_arrival=True, norm_only=(NORMS,)
    )


#: All counts of persons, each scaled so that the sizes of its contributions sum to 1 at most.
SUMS = "contributions, by their sum"

#: The same, each scaled so that the Euclidean norm of its contributions is 1 at most.
NORMS = "contributions, by their norm"


def _of_persons(kind: str, unit: str, size: int) -> dict[str, Any]:
    """Return what a relation about persons of a unit is, where contributions change by a size.

    No other unit has its name, which for "person" is that of the kind.
    """
    check_is("unit", unit, str)
    plain = unit.isprintable() and "\\" not in unit
    said = unit if plain else unit.encode("unicode_escape").decode()
    name = kind if unit == "person" else f"{kind} ({said})"
    tables = {SUMS: [(size,), (-size,)], NORMS: [(size,), (-size,)]}
    return {"name": name, "tables": tables, "covers_arrival": True,
            "norm_only": (NORMS,), "sum_only": (SUMS,)}  # fmt: skip


class AddRemovePerson(Relation):
    """One person is added or removed, with all of their episodes: the unit of a log.

    A person's contribution to all tables together is scaled to a size of 1: by the sum of absolute
    amounts (`SUMS`, for Laplace noise and for votes), or by its Euclidean norm (`NORMS`, for
    Gaussian noise). So the number of steps and episodes does not matter.

    Parameters
    ----------
    unit : str
        What a person is: a log's column of persons. Releases from a log use the log's by default.
        Relations of several units are several: a patient may have many visits.
    """

    unit: str = fixed()

    def __init__(self, unit: str = "person") -> None:
        super().__init__(**_of_persons("add or remove one person", unit, 1))
        object.__setattr__(self, "unit", unit)


class ReplacePerson(Relation):
    """One person is replaced by any other, with all of their episodes.

    As `AddRemovePerson`, twice: one is removed and one added, perhaps with the opposite amounts in
    the same cells. The number of persons is public.
    """

    unit: str = fixed()

    def __init__(self, unit: str = "person") -> None:
        super().__init__(**_of_persons("replace one person", unit, 2))
        object.__setattr__(self, "unit", unit)


def of_unit(relation: Relation, unit: str) -> Relation:
    """Return a relation about persons for a log of a unit; others do not depend on it.

    Raises
    ------
    ValueError
        If it is about another unit.
    """
    if not (type(relation) is AddRemovePerson or type(relation) is ReplacePerson):
        return relation
    if relation.unit not in ("person", unit):
        raise ValueError(
            f"relation must be about the unit {shown(unit)} of the log, got {shown(relation.unit)}."
        )
    return type(relation)(unit)


class ReplaceLoggedStep(Relation):
    """One step of a log is replaced: its state, its action, its reward and whether it terminated.

    Its entries may be of any kind. An episode in memory (`ContinuousLog.from_buffer`) keeps the
    types of its arrays, and how many steps it has.
    Squared norms of contributions that are normalised by row change by 8 at most, see
    `privrl.continuous.moments`.
    """

    def __init__(self) -> None:
        most = math.nextafter(math.sqrt(8), math.inf)
        super().__init__(
            "replace one step of a log",
            {NORMS: [(most,), (-most,)]},
            covers_arrival=True,
            norm_only=(NORMS,),
        )


#: One reward of a bandit, in [0, 1], is replaced by any other: a sum changes by at most 1.
REPLACE_REWARD: Final = Relation(
    "replace one reward", {"rewards": [(1,), (-1,)]}, covers_arrival=True
)


class PaperStep(Relation):
    """The sensitivity that Ponnoprat (section 5) takes for one step. It is too small.

    It overlooks self-loops, where one cell changes by two (`ReplaceStep` covers them). Use it only
    to reproduce the paper's figures.

    Warns
    -----
    PaperStepWarning
        Always.
    """

    def __init__(self) -> None:
        warnings.warn(
            "PaperStep() uses the sensitivity printed in the paper, which is too small where a "
            "state can follow itself; numbers under it are for comparison with the paper, not "
            "guarantees. ReplaceStep() is the sound one.",
            PaperStepWarning,
            stacklevel=2,
        )
        super().__init__(
            "replace one step, self-loops overlooked (not a guarantee)",
            {"transitions": [(1, -1, 1, -1)], "rewards": [(1, -1)]},
            covers_arrival=True,
        )
