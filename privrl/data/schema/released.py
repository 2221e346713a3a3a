"""Where bins come from whose edges were released from private data.

Their release has a cost of its own, beside that of whatever is fitted with them. Bins, schemas and
models keep it, and guarantees state it under ``bins``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from privrl.files.fixed import read_only
from privrl.files.plain import check_writable, listed
from privrl.files.sharing import SECRET, SEEDED
from privrl.files.shown import shown
from privrl.numerics.checks import check_finite

_TEXTS: Final = ("id", "relation", "randomness")
_AMOUNTS: Final = (("epsilon", "delta"), ("order", "epsilon"), ("rho",))  # of each kind of target
_NUMBERS: Final = ("epsilon", "delta", "order", "rho")


@dataclass(frozen=True, kw_only=True)
class BinsRelease:
    """The release that chose the edges of bins, by `privrl.models.discretise`, and its cost.

    Parameters
    ----------
    id : str
        Tells releases of equal cost apart; bins of several columns may have one release.
    relation, randomness : str
        Its relation, and the kind of its generator, as guarantees state them.
    epsilon, delta, order, rho : float, optional
        What it cost: ``epsilon`` with ``delta`` or ``order``, or ``rho``.

    Raises
    ------
    ValueError
        If an amount is absent or out of range, or a text is something else.
    """

    id: str
    relation: str
    randomness: str
    epsilon: float | None = None
    delta: float | None = None
    order: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            text = getattr(self, name)
            if not isinstance(text, str) or not text:
                raise ValueError(f"{name} must be a text that is not empty, got {shown(text)}.")
            check_writable(name, text)
        if self.randomness not in (SECRET, SEEDED):
            raise ValueError(
                f"randomness must be {SECRET!r} or {SEEDED!r}, got {shown(self.randomness)}."
            )
        given = {name for name in _NUMBERS if getattr(self, name) is not None}
        if given not in map(set, _AMOUNTS):
            raise ValueError(
                "a release of bins must cost epsilon with delta, epsilon with order, or rho, got "
                f"{listed(sorted(given)) if given else 'none of them'}."
            )
        for name in given:
            object.__setattr__(self, name, check_finite(name, getattr(self, name)))
        for name, amount in (("epsilon", self.epsilon), ("rho", self.rho)):
            if amount is not None and not amount >= 0:
                raise ValueError(f"{name} must be >= 0, got {amount}.")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ValueError(f"delta must be >= 0 and < 1, got {self.delta}.")
        if self.order is not None and not self.order > 1:
            raise ValueError(f"order must be > 1, got {self.order}.")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, of the form that `from_dict` reads; read-only."""
        data = {name: each for name, each in asdict(self).items() if each is not None}
        fixed: dict[str, Any] = read_only(data)
        return fixed

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the release that plain data describe."""
        known = {*_TEXTS, *_NUMBERS}
        if not isinstance(data, Mapping) or not set(_TEXTS) <= set(data) <= known:
            got = listed(data) if isinstance(data, Mapping) else shown(data)
            raise ValueError(
                f"released must have the entries {listed(_TEXTS)} and what was spent, got {got}."
            )
        return cls(**data)
