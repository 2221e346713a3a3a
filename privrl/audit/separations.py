"""The separation d′ of a whole run: how far apart two neighbouring histories end up.

Everything that Gaussian noise releases over a run, chosen adaptively, carries the information of
one number, the log-likelihood ratio of the two transcripts. It is normal under either, with one
standard deviation, and its two means are d′ of these apart. A claim says how large d′ may be:
``rdp(λ) = λ d′² / 2``, so ``√(2 ε / λ)`` for a target ``RenyiDP(λ, ε)``, whatever has been split,
composed, damped or correlated on the way.

References
----------
J. Dong, A. Roth and W. J. Su. *Gaussian differential privacy* (2022). d′ is their μ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_numbers, check_positive
from privrl.numerics.scipy_lazily import special

_LEAST_CLAIMED = 1e-100
_LEAST_ERROR = 1e-6  # below which no number of runs would tell
_LARGEST = 1e100  # score or claim, whose square floats hold


@dataclass(frozen=True, kw_only=True)
class SeparationResult(InHtml):
    """How far apart two histories were found.

    Parameters
    ----------
    measured, deviation : float
        The distance of the means in standard deviations, and the standard error of that.
    claimed : float
        What it may be at the most.
    p_value : float
        How often so much or more would be measured if the claim held.
    draws : int
        From each history.
    needed : int
        How many find a separation that is larger by ``1 / (1 − error)`` in a part ``power`` of
        all tests.
    error, power, false_alarm : float
        As for `separation`.
    """

    measured: float
    deviation: float
    claimed: float
    p_value: float
    draws: int
    needed: int
    error: float
    power: float
    false_alarm: float

    @property
    def violated(self) -> bool:
        """Whether the claim is contradicted."""
        return not self.p_value >= self.false_alarm  # NaN, beyond all floats, is no proof


def separation(
    first: ArrayLike,
    second: ArrayLike,
    *,
    claimed: float,
    error: float = 0.05,
    power: float = 0.95,
    false_alarm: float = 1e-6,
) -> SeparationResult:
    """Measure how far apart normal scores of two neighbouring histories are.

    Parameters
    ----------
    first, second : array_like, shape (n,)
        Scores of independent runs on either history, larger for the first: log-likelihood ratios
        of everything that was released, such as the difference of `Law.log_likelihood`. They are
        taken to be normal, as they are for Gaussian noise.
    claimed : float
        The separation that is paid for, > 0.
    error : float
        The part, in (1e-6, 1), by which noise may be too small.
    power, false_alarm : float
        As for `law_test`.

    Raises
    ------
    ValueError
        If the scores are not two arrays of finite numbers of one length >= 10, or a number is out
        of range.

    Notes
    -----
    The difference of means over the pooled standard deviation is, up to a factor, Student's
    non-central t.
    """
    for name, value in (("power", power), ("false_alarm", false_alarm)):
        check_between(name, value, 0, 1)
    error = check_between(
        "error", error, _LEAST_ERROR, 1, "smaller ones take more runs than there are"
    )
    claimed = check_positive("claimed", claimed, "a RenyiDP target claims sqrt(2 epsilon / order)")
    if not _LEAST_CLAIMED <= claimed <= _LARGEST:
        raise ValueError(
            f"claimed must be from {_LEAST_CLAIMED:g} to {_LARGEST:g}, got {shown(claimed)}; no "
            "number of runs would tell less from nothing, and no scores are further apart."
        )
    one, other = check_numbers("first", first), check_numbers("second", second)
    n = one.size
    if one.ndim != 1 or one.shape != other.shape or n < 10:
        raise ValueError(
            f"scores must be two arrays of one length >= 10, got shapes {one.shape} and "
            f"{other.shape}; run equally often on both histories."
        )
    if not ((np.abs(one) < _LARGEST) & (np.abs(other) < _LARGEST)).all():
        raise ValueError(
            f"scores must be finite, below {_LARGEST:g} in size; a ratio that is not tells the "
            "histories apart."
        )
    gap = float(one.mean() - other.mean())
    pooled = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 2)
    measured = gap / pooled if pooled > 0 else math.copysign(math.inf, gap) if gap else 0.0
    degrees, root = 2 * n - 2, math.sqrt(n / 2)
    below = 1.0
    if math.isfinite(measured):
        below = float(special.nctdtr(degrees, root * claimed, root * measured))
    if math.isnan(below) and measured > 0:  # so far apart that only the pooled deviation varies
        below = float(special.chdtrc(degrees, degrees * min(claimed / measured, 1e100) ** 2))
    more = claimed / (1 - error)
    spreads = [math.sqrt(2 + d * d / 4) for d in (claimed, more)]
    reach = -special.ndtri(false_alarm) * spreads[0] + special.ndtri(power) * spreads[1]
    return SeparationResult(
        measured=measured,
        deviation=math.sqrt((2 + min(measured, 1e150) ** 2 / 4) / n),
        claimed=claimed,
        p_value=1 - below if measured > 0 else 1.0,
        draws=n,
        needed=math.ceil((reach / (more - claimed)) ** 2),
        error=error,
        power=power,
        false_alarm=false_alarm,
    )
