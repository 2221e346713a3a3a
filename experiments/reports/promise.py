"""A privacy guarantee in plain words, and its limits."""

import math
from collections.abc import Mapping
from typing import Any

from privrl.experiments.reports.parts import Listing, Part, Section
from privrl.files.sharing import SEEDED, amounts_beside, releases_in
from privrl.numerics.printing import beside_texts, exact, up, up_to_places

HEADING = "Privacy guarantee"
PERSONS = ("later data about the same persons: learning from them is another release",)
"""What releases from logs of persons do not cover."""


def promise(guarantee: Mapping[str, Any], *, also_not: tuple[str, ...] = ()) -> Section:
    """Return the section about the guarantee of one release.

    Parameters
    ----------
    guarantee : mapping
        The entry of a statement.
    also_not : tuple of str
        What it does not cover, beside the limits of every guarantee.
    """
    parts: list[Part] = []
    budget = budget_text(guarantee)
    if budget is None:
        return Section.of(HEADING, "None: no noise was added, so there is no privacy guarantee.")
    relation = str(guarantee["relation"])
    unit = _unit(guarantee)
    caveats = [str(each) for each in guarantee.get("caveats") or ()]
    if caveats:
        parts.append(f"This is NOT a guarantee: {'; '.join(caveats)}.")
    parts.append(f"{budget[0].upper()}{budget[1:]}.")
    parts.append(
        f"The privacy unit is {guarantee.get('unit') or f'one {unit}'}. Two data sets "
        f"are neighbours if one becomes the other when you {relation}. The release would have "
        "looked almost the same from either."
    )
    parts.extend(f"{text[0].upper()}{text[1:]}." for text in beside_texts(guarantee))
    pair = _pair(guarantee)
    if pair is not None and all(each["relation"] == relation for each in releases_in(guarantee)):
        more = amounts_beside(guarantee)
        parts.append(guess_text(pair[0] + more[0], pair[1] + more[1]))
    parts.extend(("It does not cover:", Listing((*also_not, *_not_covered(unit)))))
    randomness = guarantee.get("randomness")
    if randomness == SEEDED:
        parts.append(f"Randomness: {randomness}.")
    elif randomness is not None:
        parts.append("The noise came from secret randomness. Nobody can draw it again.")
    return Section.of(HEADING, *parts)


def budget_text(guarantee: Mapping[str, Any]) -> str | None:
    """Return an upper bound on the cost of a release, (epsilon, delta) first, or None."""
    pair = _pair(guarantee)
    order, renyi = guarantee.get("order"), guarantee.get("epsilon")
    told = None if order is None or renyi is None else (
        f"Rényi divergence of order {exact(order)} at most {up(renyi)} nats"
    )  # fmt: skip
    if pair is None:
        return told
    epsilon, delta = pair
    said = f"differential privacy with ε = {up(epsilon)}" + (f" and δ = {delta!r}" if delta else "")
    return said if told is None else f"{said} ({told})"


def best_guess(epsilon: float, delta: float) -> float:
    """Return how often an attacker is right at most, from half of the time without a release.

    Between two equally likely neighbours, an attacker guesses right with probability at most
    ``(exp(epsilon) + delta) / (exp(epsilon) + 1)`` (Kairouz, Oh and Viswanath, 2015).
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def guess_text(epsilon: float, delta: float) -> str:
    """Return what an attacker may learn, as a guessing game between two data sets."""
    chance = best_guess(epsilon, delta)
    text = up_to_places(min(100 * chance, 100), 1)
    least = "" if chance < 0.99 else " So large a budget alone promises little."
    return (
        "In a guessing game: an attacker knows everything else about the data, sees the release, "
        "and guesses which of two equally likely neighbours it came from. The guess is right at "
        f"most {text}\u00a0% of the time; a blind guess, 50\u00a0%.{least} See the page What "
        "epsilon means here in privrl's documentation (docs/epsilon.md)."
    )


def _pair(guarantee: Mapping[str, Any]) -> tuple[float, float] | None:
    epsilon = guarantee.get("epsilon_delta")
    if epsilon is None and guarantee.get("order") is None:  # models keep it there
        epsilon = guarantee.get("epsilon")
    return None if epsilon is None else (float(epsilon), float(guarantee.get("delta") or 0.0))


def _not_covered(unit: str) -> tuple[str, ...]:
    more = () if unit == "person" else (
        f"more than one {unit} at once: a person who is in k of them has weaker protection, at "
        "worst as if ε were k times as large, and δ grows even faster",
    )  # fmt: skip
    return (
        *more,
        "other releases of the same data: their costs add up",
        "facts that are public by assumption: names of columns, categories, bins, bounds, sizes "
        "and settings",
        "facts about everyone: anyone can learn such a fact, and it then holds for each person",
    )


def _unit(guarantee: Mapping[str, Any]) -> str:
    """Return the privacy unit in a word: of a log the name of its column of persons."""
    relation, named = str(guarantee["relation"]), str(guarantee.get("unit") or "")
    if named and "person" in relation:  # "visit: all episodes"
        return named.removesuffix(": all episodes").removeprefix("a ")
    known = ("person", "episode", "transition", "step")
    return next((unit for unit in known if unit in relation), "record")
