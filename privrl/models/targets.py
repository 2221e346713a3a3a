"""The privacy target of a model: as an argument, in its short form, and in a file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, cast

from privrl.accounting.targets import (
    DEFAULT_DELTA,
    ApproxDP,
    PureDP,
    RenyiDP,
    Target,
    ZeroConcentratedDP,
    check_target,
    float_up,
    target_of,
)
from privrl.costs.base import Cost, pure_ratio, zcdp_rho
from privrl.files.shown import shown


def given_target(
    target: Target | None, epsilon: float | None, delta: float | None, otherwise: str = ""
) -> Target:
    """Return the target that arguments name.

    Parameters
    ----------
    target : RenyiDP, ApproxDP, PureDP, ZeroConcentratedDP or None
        The target itself.
    epsilon, delta : float or None
        The short form: ``delta`` is 1e-5 by default, and 0 for pure privacy.
    otherwise : str
        How a message about a missing target ends.

    Raises
    ------
    ValueError
        If none or both forms are given, or a number is out of range.
    """
    if epsilon is None and delta is None:
        check_target(target, f"; epsilon= is the short form{otherwise}")
        assert target is not None
        return target
    if target is not None or epsilon is None:
        raise ValueError("give either target= or epsilon= (with delta=, by default 1e-5).")
    return target_of(epsilon, DEFAULT_DELTA if delta is None else delta)


def not_pure(target: Target, what: str) -> Target:
    """Return a target that Gaussian noise can meet.

    Raises
    ------
    ValueError
        If it is pure privacy, which only noise with heavier tails gives.
    """
    if isinstance(target, PureDP):
        raise ValueError(
            f"target must allow Gaussian noise for {what}, got {target}: use delta > 0, or "
            "ZeroConcentratedDP."
        )
    return target


def mechanism_for(target: Target, mechanism: str = "auto") -> Any:
    """Return the mechanism that meets a target; in place of ``"auto"`` the one that is exact.

    Raises
    ------
    ValueError
        If the mechanism cannot meet such a target.
    """
    pure, kind = isinstance(target, PureDP), mechanism.removeprefix("discrete-")
    concentrated = isinstance(target, ZeroConcentratedDP)
    if (pure and kind in ("dirichlet", "gaussian")) or ((pure or concentrated) and kind == "dkl"):
        raise ValueError(
            f"target must be {'RenyiDP or ' * (kind == 'dkl')}ApproxDP for mechanism "
            f"{shown(mechanism)}, got {target}; mechanism='auto' meets it."
        )
    if mechanism != "auto":
        return mechanism
    return "laplace" if pure else "gaussian" if concentrated else "auto"


def plain_target(target: Target | None) -> dict[str, Any] | None:
    """Return a target as `read_target` reads it."""
    return None if target is None else asdict(cast(Any, target))


def read_target(data: Any) -> Target | None:
    """Return the target that plain data describe, or None."""
    if data is None:
        return None
    kinds: dict[frozenset[str], Any] = {
        frozenset(field.name for field in fields(kind)): kind
        for kind in (RenyiDP, ApproxDP, PureDP, ZeroConcentratedDP)
    }
    kind = kinds.get(frozenset(data)) if isinstance(data, Mapping) else None
    if kind is None:
        raise ValueError(
            "target must have the entries order and epsilon, epsilon and delta, epsilon, or rho, "
            f"got {shown(data)}."
        )
    made: Target = kind(**data)
    return made


def guarantee_of(
    cost: Cost, target: Target | None, caveats: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return the relation and the amounts that a cost has in the terms of a target; read-only.

    Caveats, if any, are an entry too.
    """
    amounts: dict[str, Any] = {"relation": str(cost.relation)}
    match target:
        case RenyiDP(order=order):
            amounts |= {"order": order, "epsilon": float(cost.rdp(order))}
        case ZeroConcentratedDP():
            # What is proven of all orders: a divergence over its order may be largest near 1.
            rho = zcdp_rho(cost)
            amounts |= {"rho": math.inf if rho is None else float_up(rho)}
        case PureDP():
            ratio = pure_ratio(cost)
            amounts |= {"epsilon": math.inf if ratio is None else float_up(ratio), "delta": 0.0}
        case ApproxDP(delta=delta):
            amounts |= {"epsilon": float(cost.epsilon(delta)), "delta": delta}
        case None:
            amounts |= {"epsilon": None}
    if caveats:
        amounts |= {"caveats": tuple(caveats)}
    return MappingProxyType(amounts)


def check_guarantee(said: Any, computed: Mapping[str, Any]) -> None:
    """Check what a file states; processors differ in the last digits of epsilon."""
    if said is None:  # of the first format, which stated none
        return
    key = "rho" if "rho" in computed else "epsilon"
    spent = said.get(key) if isinstance(said, Mapping) else None
    same = isinstance(spent, float) and math.isclose(spent, computed[key], rel_tol=1e-6)
    if not same or said != {**computed, key: spent}:
        raise ValueError(
            f"guarantee must be what all in the file cost, {dict(computed)}, got {shown(said)}."
        )
