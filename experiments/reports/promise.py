"""What a guarantee promises, in plain words, and what it does not cover."""

import math
from collections.abc import Mapping
from typing import Any

from privrl.experiments.reports.parts import Listing, Part, Section
from privrl.files.sharing import SEEDED
from privrl.numerics.printing import up, up_to_places

HEADING = "What is promised"


def promise(guarantee: Mapping[str, Any], *, also_not: tuple[str, ...] = ()) -> Section:
    """Return the section that says what one release promises.

    Parameters
    ----------
    guarantee : mapping
        The entry of a statement.
    also_not : tuple of str
        What it does not cover, beside what no such promise does.
    """
    parts: list[Part] = []
    budget = budget_text(guarantee)
    if budget is None:
        return Section(
            HEADING, ("Nothing: no noise was added, so there is no promise of privacy.", *also_not)
        )
    relation = str(guarantee["relation"])
    caveats = [str(each) for each in guarantee.get("caveats") or ()]
    if caveats:
        parts.append(f"This is NOT a guarantee: {'; '.join(caveats)}.")
    parts.append(f"{budget[0].upper()}{budget[1:]}.")
    parts.append(
        f"What is protected is {guarantee.get('unit') or f'one {_unit(relation)}'}. Two data sets "
        f"are neighbours if one becomes the other when you {relation}: what was released would "
        "have looked nearly the same from either."
    )
    pair = _pair(guarantee)
    if pair is not None:
        parts.append(guess_text(*pair))
    parts.extend(("It does not cover:", Listing((*also_not, *_not_covered(relation)))))
    randomness = guarantee.get("randomness")
    if randomness == SEEDED:
        parts.append(f"Randomness: {randomness}.")
    elif randomness is not None:
        parts.append("The noise came from secret randomness, which nobody can draw again.")
    return Section(HEADING, tuple(parts))


def budget_text(guarantee: Mapping[str, Any]) -> str | None:
    """Return what a release cost at the most, (epsilon, delta) first; None without privacy."""
    pair = _pair(guarantee)
    order, renyi = guarantee.get("order"), guarantee.get("epsilon")
    told = None if order is None or renyi is None else (
        f"Rényi divergence of order {order:g} at most {up(renyi)} nats"
    )  # fmt: skip
    if pair is None:
        return told
    epsilon, delta = pair
    said = f"differential privacy with ε = {up(epsilon)}" + (f" and δ = {delta!r}" if delta else "")
    return said if told is None else f"{said} ({told})"


def best_guess(epsilon: float, delta: float) -> float:
    """Return how often an attacker is right at most who would else be right half of the time.

    Of two neighbours, each as likely, the right one is guessed with a chance of at most
    ``(exp(epsilon) + delta) / (exp(epsilon) + 1)`` (Kairouz, Oh and Viswanath, 2015).
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def guess_text(epsilon: float, delta: float) -> str:
    """Return what an attacker may learn, by a game of two data sets."""
    chance = best_guess(epsilon, delta)
    text = up_to_places(min(100 * chance, 100), 1)
    least = "" if chance < 0.99 else " So large a budget alone promises little."
    return (
        "In a game: somebody who knows everything else about the data, sees all that was released "
        "and has to say which of two neighbours it was made of, each as likely beforehand, is "
        f"right at most {text}\u00a0% of the time; whoever guesses blindly, 50\u00a0%.{least} "
        "The page What epsilon means here of privrl's documentation (docs/epsilon.md) says more."
    )


def _pair(guarantee: Mapping[str, Any]) -> tuple[float, float] | None:
    epsilon = guarantee.get("epsilon_delta")
    if epsilon is None and guarantee.get("order") is None:  # of a model, which says it so
        epsilon = guarantee.get("epsilon")
    return None if epsilon is None else (float(epsilon), float(guarantee.get("delta") or 0.0))


def _not_covered(relation: str) -> tuple[str, ...]:
    unit = _unit(relation)
    more = () if unit == "person" else (
        f"more than one {unit} at once: of a person who is in several, the whole is protected by "
        "less, at worst as if ε were as many times as large, and δ, where there is one, larger by "
        "more than that",
    )  # fmt: skip
    return (
        *more,
        "other releases of the same data: what each costs adds up",
        "what is public by assumption: names of columns, categories, bins, bounds, sizes and "
        "settings",
        "what is true of everyone: a fact about all can be learned, and then holds for each",
    )


def _unit(relation: str) -> str:
    """Return what a relation changes, in a word."""
    known = ("person", "episode", "transition", "step")
    return next((unit for unit in known if unit in relation), "record")
