"""Audits: how much privacy a mechanism loses at the least, from its outputs alone.

Whatever a mechanism claims, it is run many times on two neighbouring data sets, and an event
is sought that is much likelier under one of them. If the event has probability at least ``p``
under one and at most ``q`` under the other, then for every delta at once

    epsilon(delta) >= log((p - delta) / q),        delta(epsilon) >= p - exp(epsilon) q.

A fifth of the draws picks the event: the score, the threshold, and which data set comes
first. The others, which had no part in that, give ``p`` and ``q`` by Clopper and Pearson's
exact bounds, each allowed half of the error. So, if runs are independent, the stated
confidence holds for whatever event was picked, and an honest claim is contradicted no more
often than ``1 - confidence``.

What can be seen
    The best event for a delta is two to ten times as likely as delta, and it takes a
    thousand hits to know its probability to a few percent. A million draws therefore show
    nearly all of epsilon at delta = 0.01 (the default), nine tenths at 0.001, and not at
    1e-5. A wrong weight or prior shifts epsilon at every delta, so nothing is lost by
    auditing at a large one. The draws needed grow as ``exp(epsilon)`` for large epsilon, and
    as ``1 / epsilon**2`` for small: there, audit the same weight and prior with a claim about
    a group, such as ``Relation("replace 20 records", {"counts": [(20, -20)]})``.

References
----------
C. J. Clopper and E. S. Pearson. *The use of confidence or fiducial limits illustrated in the
case of the binomial* (1934).

M. Jagielski, J. Ullman and A. Oprea. *Auditing differentially private machine learning: how
private is private SGD?* (2020). The bound above, with Clopper-Pearson intervals.

B. Bichsel, S. Steffen, I. Bogunovic and M. Vechev. *DP-Sniper: black-box discovery of
differential privacy violations using classifiers* (2021). Events are thresholds on a learned
likelihood ratio.

W. Kong, A. Muñoz Medina, M. Ribero and U. Syed. *DP-Auditorium: a large scale library for
auditing differential privacy* (2023).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import check_delta, check_epsilons
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import ChangeVector, Relation, check_relation
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_between, check_count, check_does
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray

Mechanism = Callable[[FloatArray, np.random.Generator], ArrayLike]
Score = Callable[[FloatArray], FloatArray]

_PILOT = 0.2  # share of the scores that picks the event
_LEARN = 0.3  # share of a mechanism's outputs from which its scores are learned
_LEAST_DRAWS = 100
_CHUNK = 100_000  # draws made at once
_REST = 1e8  # records elsewhere in a row, where its sum is to tell nothing
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, kw_only=True)
class AuditResult(InHtml):
    """What an audit has shown, with probability at least ``confidence``.

    Parameters
    ----------
    event : str
        The event that was found. With ``>=`` it is likelier under the first data set, with
        ``<=`` under the second.
    likely, unlikely : float
        Lower bound on its probability under the one, upper bound under the other.
    delta : float
        At which epsilon is bounded.
    confidence : float
        Of both bounds together.
    draws : int
        From each data set.
    claimed : float, optional
        The epsilon (nats) that the mechanism claims at ``delta``.
    """

    event: str
    likely: float
    unlikely: float
    delta: float
    confidence: float
    draws: int
    claimed: float | None = None

    @property
    def epsilon_lower(self) -> float:
        """Lower bound on epsilon (nats) at ``delta``; 0 if nothing was seen."""
        return max(0.0, float(_log_ratio(self.likely, self.unlikely, self.delta)))

    def delta_lower(self, epsilon: ArrayLike) -> FloatArray:
        """Return a lower bound on delta at each epsilon >= 0, all valid at once."""
        with np.errstate(over="ignore"):
            excess = self.likely - np.exp(check_epsilons(epsilon)) * self.unlikely
        return np.maximum(excess, 0.0)

    @property
    def violated(self) -> bool:
        """Whether the claim is contradicted."""
        return self.claimed is not None and self.epsilon_lower > self.claimed


def audit_scores(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float = 0.01,
    claimed: float | None = None,
    confidence: float = 0.99,
) -> AuditResult:
    """Bound epsilon from one number for each output, larger where the first data set is likelier.

    Parameters
    ----------
    first, second : array_like, shape (draws,)
        Scores of independent outputs under two neighbouring data sets. Any statistic may be
        used, if it was fixed before these outputs were seen; the best is the privacy loss.
    delta : float
        In (0, 1).
    claimed : float, optional
        The epsilon (nats) to compare with, >= 0.
    confidence : float
        In (0, 1).

    Returns
    -------
    AuditResult
        About the best event that the score is above, or below, some threshold.

    Raises
    ------
    ValueError
        If the scores are fewer than 100, not paired in number, or NaN, or a parameter lies
        outside its range.
    """
    _check_question(delta, claimed, confidence)
    first, second = as_floats("first", first), as_floats("second", second)
    if first.ndim != 1 or first.shape != second.shape or len(first) < _LEAST_DRAWS:
        raise ValueError(
            f"scores must be two arrays of one length >= {_LEAST_DRAWS}, got shapes "
            f"{first.shape} and {second.shape}; draw equally often from both data sets."
        )
    if np.isnan(first).any() or np.isnan(second).any():
        raise ValueError("scores must be numbers, got NaN; say what it counts as, such as -inf.")
    return _audit({"score": (first, second)}, delta, claimed, confidence)


def audit_dirichlet(
    sampler: Any,
    rng: Rng = None,
    *,
    relation: Relation | None = None,
    delta: float = 0.01,
    draws: int = 1_000_000,
    confidence: float = 0.99,
) -> AuditResult:
    """Bound the epsilon of a sampler, and compare it with that of the sampler's own release.

    Parameters
    ----------
    sampler : Sampler
        Its ``release`` is a `DirichletCost`, and the leading axes of its counts are
        independent. It is left as it is: each batch of draws comes from a fresh one.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    relation : Relation, optional
        Which data sets are neighbours, if not those of the claim. Neighbours are mutual: a change
        vector includes its reverse.
    delta, confidence
        As for `audit_scores`.
    draws : int
        From each data set, for each change vector; at least 100.

    Returns
    -------
    AuditResult
        For the change vector, direction and threshold that looked worst.

    Raises
    ------
    ValueError
        If the release is of another kind, no neighbour changes its table, or a parameter
        lies outside its range.

    Notes
    -----
    The data sets are the worst ones: every changed cell is empty in one of the two, and a
    row whose sum changes has 1e8 other records. The score is optimal: the privacy loss is
    ``weight * sum(m_c log y_c)`` and a constant, for whatever weight and prior the sampler
    really uses, so that by Neyman and Pearson no event does better than a threshold on it.
    A sampler whose draws are not Dirichlet at all may lose more in other events, which
    `audit_mechanism` looks for.
    """
    check_does("sampler", sampler, "a sampler, such as NoisyCounts", "fresh", "check", "update")
    cost = sampler.cost
    if not isinstance(cost, DirichletCost):
        raise ValueError(
            f"sampler must claim a DirichletCost, got {shown(cost)}; "
            "audit_mechanism takes anything that can be called."
        )
    relation = check_relation(relation, cost.relation)
    changes = relation.changes(cost.table)
    vectors = {max(_descending(v), _descending([-m for m in v])) for v in changes}
    if not vectors:
        raise ValueError(f"no neighbour changes the table {shown(cost.table)}: nothing to audit.")
    claimed = float(cost.epsilon(delta))
    _check_question(delta, claimed, confidence)
    check_count("draws", draws, _LEAST_DRAWS)
    rng = as_rng(rng)
    candidates = {
        f"change ({', '.join(f'{m:+g}' for m in vector)}): sum(m log y)": (
            _dirichlet_scores(sampler, vector, draws, rng)
        )
        for vector in sorted(vectors)
    }
    return _audit(candidates, delta, claimed, confidence)


def audit_mechanism(
    mechanism: Mechanism,
    data: ArrayLike,
    neighbour: ArrayLike,
    rng: Rng = None,
    *,
    claimed: float | None = None,
    delta: float = 0.01,
    draws: int = 100_000,
    confidence: float = 0.99,
    batched: bool = False,
) -> AuditResult:
    """Bound the epsilon of any mechanism by the event that best distinguishes two data sets.

    Parameters
    ----------
    mechanism : callable
        Takes data and a generator; returns numbers, always equally many.
    data, neighbour : array_like, the same shape
        Two neighbouring data sets: which they are decides what can be found.
    rng : numpy.random.Generator, int or None
        Given to the mechanism.
    claimed, delta, confidence
        As for `audit_scores`.
    draws : int
        From each data set, at least 100.
    batched : bool
        Call the mechanism once for all draws, its data repeated along a new first axis, over
        which it must be independent. Without, it is called once for each draw, and a
        mechanism that starts the same noise at every call is found out.

    Returns
    -------
    AuditResult
        For the score, direction and threshold that looked worst.

    Raises
    ------
    ValueError
        If the data sets differ in shape, an output is not a finite number, or a parameter
        lies outside its range.

    Notes
    -----
    Two scores are learned from outputs that are not used again. ``linear`` is Fisher's
    discriminant of the outputs and their logarithms, which is right for Gaussian and
    Dirichlet outputs. ``binned`` adds up log-ratios of the histograms of each output, which
    is right for independent noise of any law, and sees values that come up again and again:
    raw counts, zeros that no noise was added to.
    """
    _check_question(delta, claimed, confidence)
    check_count("draws", draws, _LEAST_DRAWS)
    data, neighbour = as_floats("data", data), as_floats("neighbour", neighbour)
    if data.shape != neighbour.shape:
        raise ValueError(
            f"neighbour must have the shape of data, {data.shape}, got {neighbour.shape}; "
            "an absent record is a count of zero."
        )
    rng = as_rng(rng)
    first, second = (_outputs(mechanism, each, draws, rng, batched) for each in (data, neighbour))
    learn = int(_LEARN * draws)
    learned = {
        "linear": _linear_score(first[:learn], second[:learn]),
        "binned": _binned_score(first[:learn], second[:learn]),
    }
    candidates = {
        name: (score(first[learn:]), score(second[learn:])) for name, score in learned.items()
    }
    return replace(_audit(candidates, delta, claimed, confidence), draws=draws)


def _check_question(delta: float, claimed: float | None, confidence: float) -> None:
    check_delta(delta)
    check_between("confidence", confidence, 0, 1, "0.99 is usual")
    if claimed is not None and not as_floats("claimed", claimed) >= 0:
        raise ValueError(f"claimed must be >= 0, got {shown(claimed)}; it is an epsilon in nats.")


def _audit(
    candidates: Mapping[str, tuple[FloatArray, FloatArray]],
    delta: float,
    claimed: float | None,
    confidence: float,
) -> AuditResult:
    """Pick the best event among all scores by their first draws, and judge it by the rest."""
    error = (1 - confidence) / 2  # for each of the two probabilities
    ways = [
        way
        for name, (first, second) in candidates.items()
        for way in ((name, 1, first, second), (name, -1, -second, -first))
    ]
    draws = len(ways[0][2])
    pilot = int(_PILOT * draws)
    found = [_best_threshold(a[:pilot], b[:pilot], delta, error) for _, _, a, b in ways]
    best = int(np.argmax([worth for worth, _ in found]))
    (name, sign, first, second), (_, threshold) = ways[best], found[best]
    likely, unlikely = _clopper_pearson(first[pilot:], second[pilot:], threshold, error)
    return AuditResult(
        event=f"{name} {'>=' if sign > 0 else '<='} {sign * threshold:.6g}",
        likely=float(likely),
        unlikely=float(unlikely),
        delta=delta,
        confidence=confidence,
        draws=draws,
        claimed=None if claimed is None else float(claimed),
    )


def _best_threshold(
    likely: FloatArray, unlikely: FloatArray, delta: float, error: float
) -> tuple[float, float]:
    """Return the best bound on epsilon that an event ``score >= threshold`` gives, and where."""
    thresholds = _spread(np.concatenate([likely, unlikely]))
    worth = _log_ratio(*_clopper_pearson(likely, unlikely, thresholds, error), delta)
    best = int(worth.argmax())
    return float(worth[best]), float(thresholds[best])


def _clopper_pearson(
    likely: FloatArray, unlikely: FloatArray, threshold: ArrayLike, error: float
) -> tuple[FloatArray, FloatArray]:
    """Bound the probabilities of ``score >= threshold``: the one from below, the other above."""
    draws = len(likely)
    hits = draws - np.searchsorted(np.sort(likely), threshold)
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), draws - hits + 1, error), 0.0)
    hits = draws - np.searchsorted(np.sort(unlikely), threshold)
    high = np.where(
        hits < draws, special.betainccinv(hits + 1, np.maximum(draws - hits, 1), error), 1.0
    )
    return low, high


def _log_ratio(likely: ArrayLike, unlikely: ArrayLike, delta: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(np.subtract(likely, delta), 0.0) / unlikely)


def _spread(values: FloatArray) -> FloatArray:
    """Pick some of the values, evenly spread and ever denser by rank towards both ends."""
    reach = math.log(len(values))
    ranks = special.expit(np.linspace(-reach, reach, 129)) * len(values)
    return np.unique(np.sort(values)[ranks.astype(np.intp)])


def _descending(vector: Iterable[float]) -> ChangeVector:
    return tuple(sorted(vector, reverse=True))


def _dirichlet_scores(
    sampler: Any, vector: ChangeVector, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Score the draws after and before a change of otherwise empty cells."""
    amounts = np.array(vector)
    rest = [_REST] if amounts.sum() else []

    def scores(changed: FloatArray) -> FloatArray:
        row = np.concatenate([changed, rest])
        parts = []
        for start in range(0, draws, _CHUNK):
            counts = np.tile(row, (min(_CHUNK, draws - start), 1))
            released = sampler.fresh().update(counts, rng).sample(rng)
            parts.append(_log(released[:, : len(amounts)]) @ amounts)
        return np.concatenate(parts)

    return scores(np.maximum(amounts, 0)), scores(np.maximum(-amounts, 0))


def _outputs(
    mechanism: Mechanism, data: FloatArray, draws: int, rng: np.random.Generator, batched: bool
) -> FloatArray:
    """Run a mechanism; one row of numbers for each draw."""
    if batched:
        outputs = np.asarray(mechanism(np.tile(data, (draws, *[1] * data.ndim)), rng), np.float64)
    else:
        outputs = np.array(
            [np.ravel(mechanism(data.copy(), rng)) for _ in range(draws)], np.float64
        )
    if outputs.shape[:1] != (draws,) or not np.isfinite(outputs).all():
        raise ValueError(
            f"mechanism must return finite numbers for each of {draws} draws, got an array of "
            f"shape {outputs.shape} with {np.count_nonzero(~np.isfinite(outputs))} others."
        )
    return outputs.reshape(draws, -1)


def _linear_score(first: FloatArray, second: FloatArray) -> Score:
    """Fisher's discriminant of the outputs and their logarithms."""

    def features(outputs: FloatArray) -> FloatArray:
        return np.hstack([outputs, _log(np.abs(outputs))])

    a, b = features(first), features(second)
    with np.errstate(over="ignore"):  # of outputs beyond 1e154, which then count for nothing
        unit = np.sqrt(a.var(0) + b.var(0))
    unit[unit == 0] = 1.0
    within = np.cov(a / unit, rowvar=False) + np.cov(b / unit, rowvar=False)
    within += 1e-6 * np.eye(len(within))  # sums without any noise count, but not infinitely
    weights = np.linalg.solve(within, (a / unit).mean(0) - (b / unit).mean(0))
    return lambda outputs: features(outputs) @ (weights / unit)


def _binned_score(first: FloatArray, second: FloatArray) -> Score:
    """Sum over the outputs of the log-ratio of their histograms."""
    tables = []
    for a, b in zip(first.T, second.T, strict=True):
        pooled = np.concatenate([a, b])
        values, times = np.unique(pooled, return_counts=True)
        again = values[times >= 10]  # each gets a bin of its own
        edges = np.unique(np.concatenate([_spread(pooled), again, np.nextafter(again, np.inf)]))
        in_a, in_b = (
            1.0 + np.bincount(np.searchsorted(edges, x, side="right"), minlength=len(edges) + 1)
            for x in (a, b)
        )
        tables.append((edges, np.log(in_a / in_b)))

    def score(outputs: FloatArray) -> FloatArray:
        total = np.zeros(len(outputs))
        for column, (edges, ratio) in zip(outputs.T, tables, strict=True):
            total += ratio[np.searchsorted(edges, column, side="right")]
        return total

    return score


def _log(values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, _TINY))
