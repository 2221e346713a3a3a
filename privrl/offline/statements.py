"""What is promised to persons of a log, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

from privrl.costs.base import Cost
from privrl.costs.noise import LaplaceCost
from privrl.envs.released import privacy_statement


def unit_in_words(unit: str) -> str:
    """Return the privacy unit of a log, named as its column is: ``"visit: all episodes"``."""
    name = unit if unit.isprintable() else ascii(unit)
    return name if unit == "episode" else f"{name}: all episodes"


def statement_of(
    cost: Cost,
    epsilon: float,
    *,
    unit: str,
    order: float | None,
    released: str,
    randomness: str | None,
    caveats: Iterable[str] = (),
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the privacy statement of what left of persons.

    Parameters
    ----------
    cost : LaplaceCost or GaussianCost
        Of everything.
    epsilon, order
        The budget, as `privrl.offline.person_cost` took it.
    released : str
        What left, in words: sums, votes.
    randomness, caveats, details
        As `privrl.envs.released.privacy_statement` takes them.

    Returns
    -------
    dict
    """
    noise = "Laplace" if isinstance(cost, LaplaceCost) else "Gaussian"
    given: dict[str, Any] = {"delta": 0.0} if order is None else {"order": order}
    return privacy_statement(
        unit=unit_in_words(unit),
        relation=str(cost.relation),
        epsilon=epsilon,
        released=f"{released}, each scaled to a size of 1, with {noise} noise",
        randomness=randomness,
        caveats=caveats,
        details=details,
        **given,
    )
