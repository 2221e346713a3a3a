"""What models state of bins that were released, beside what they cost themselves."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP, PureDP, Target
from privrl.costs.base import Cost
from privrl.data.schema.released import BinsRelease
from privrl.data.schema.table import releases_of
from privrl.files.fixed import read_only
from privrl.files.sharing import SECRET
from privrl.models.targets import guarantee_of
from privrl.numerics.randomness import randomness_of

_SALT: Final = 16  # bytes


def with_bins(guarantee: Mapping[str, Any], domain: object) -> Mapping[str, Any]:
    """Return a guarantee with the releases that chose bins of a schema or column, if any did.

    Each has its own cost, under ``bins``. It is not added: relations and terms may differ.
    """
    bins = [each.to_dict() for each in releases_of(domain)]
    return MappingProxyType({**guarantee, "bins": read_only(bins)}) if bins else guarantee


def check_bins(domain: object, accountant: object) -> None:
    """Check that all fits of a selection have the same released bins, or none.

    Which of them is chosen tells of the bins of all, and its file states its own alone.

    Raises
    ------
    ValueError
        If an earlier trial, or this one, fitted with others.
    """
    seen: list[frozenset[str]] | None = getattr(accountant, "bins_seen", None)
    if seen is None:  # that of no trial
        return
    seen.append(frozenset(each.id for each in releases_of(domain)))
    if seen[-1] != seen[0]:
        raise ValueError(
            "all candidates of a selection must have the same released bins, got others, or none: "
            "the file of the chosen one would not state what they cost. Use one schema for all, "
            "or compare numbers of bins with Bins.even."
        )


def randomness_with_bins(said: str, domain: object) -> str:
    """Return the kind of randomness of all that a model holds: its own, and that of its bins."""
    kinds = (said, *(each.randomness for each in releases_of(domain)))
    return next((each for each in kinds if each != SECRET), SECRET)


def randomness_of_model(rng: np.random.Generator, domain: object) -> str:
    """Return the kind of randomness of a model that a generator and bins are behind."""
    return randomness_with_bins(randomness_of(rng), domain)


def planned_bins(cost: Cost, target: Target, rng: np.random.Generator) -> BinsRelease:
    """Return what bins will keep of their release, before it is charged; it has no id yet.

    Of targets that are no (epsilon, delta), it is the epsilon at the default delta.
    """
    terms = target if isinstance(target, ApproxDP | PureDP) else ApproxDP(1.0, DEFAULT_DELTA)
    said = randomness_of(rng)
    return BinsRelease(id="planned", randomness=said, **guarantee_of(cost, terms))


def made_bins(planned: BinsRelease, edges: object, rng: np.random.Generator) -> BinsRelease:
    """Return the same with an id, from a generator that has drawn the noise.

    No other release has it, unless both are of one seed, and have the same edges and cost.
    """
    salt = hashlib.sha256(rng.bytes(_SALT))
    salt.update(repr((planned, edges)).encode())
    return replace(planned, id=salt.hexdigest()[: 2 * _SALT])
