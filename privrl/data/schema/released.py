"""Where bins come from whose edges were released from private data.

Their release has its own cost, beside that of whatever is fitted with them. Bins, schemas and
models keep it, and guarantees state it under ``bins``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from privrl.files.fixed import read_only
from privrl.files.plain import check_writable, listed
from privrl.files.sharing import SECRET, SEEDED
from privrl.files.shown import shown
from privrl.numerics.checks import check_finite


@dataclass(frozen=True, kw_only=True)
class BinsRelease:
    """The release that chose the edges of bins, by `privrl.models.discretise`, and its cost.

    Parameters
    ----------
    id : str
        Tells releases of equal cost apart; bins of several columns may have one release.
    relation, randomness : str
        Its relation, and the kind of its generator, as guarantees state them.
    epsilon, delta : float
        What it cost: it is (epsilon, delta)-differentially private.

    Raises
    ------
    ValueError
        If an amount is out of range, or a text is something else.
    """

    id: str
    relation: str
    randomness: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("id", "relation", "randomness"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text:
                raise ValueError(f"{name} must be a text that is not empty, got {shown(text)}.")
            check_writable(name, text)
        if self.randomness not in (SECRET, SEEDED):
            raise ValueError(
                f"randomness must be {SECRET!r} or {SEEDED!r}, got {shown(self.randomness)}."
            )
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, check_finite(name, getattr(self, name)))
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be >= 0, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be >= 0 and < 1, got {self.delta}.")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, of the form that `from_dict` reads; read-only."""
        data: dict[str, Any] = read_only(asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the release that plain data describe."""
        known = [each.name for each in fields(cls)]
        if not isinstance(data, Mapping) or set(data) != set(known):
            got = listed(data) if isinstance(data, Mapping) else shown(data)
            raise ValueError(f"released must have the entries {listed(known)}, got {got}.")
        return cls(**data)
