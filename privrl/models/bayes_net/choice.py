"""A private choice of the structure: for one node after the other, the most informative parents.

The nodes were counted one by one before. The node whose released probabilities are most even comes
first, without parents. Then one exponential mechanism after the other chooses a remaining node
together with its parents, or without any, among the placed nodes (the greedy search of PrivBayes).
All candidates and the deductions from their scores follow from public sizes and released numbers.
The records enter as one number for each candidate.

**The score.** Let p be a node's released probabilities, and n(r, k) the number of records with
value k in row r of its table. Change each p_k in each row by a factor of at most ``e^b``, with the
sum still 1, to maximise the likelihood of the records:

    gain = Σ_r max { Σ_k n(r, k) h_k :  Σ_k p_k e^(h_k) <= 1,  −b <= h_k <= b },

the information of the parents in nats, of which no record contributes more than b. In a maximum of
sums, a record whose part is between −b and b moves the maximum by at most b if it is added or
removed, and by 2 b if it is replaced, for each candidate. Mutual information has the same form
without the bound; there one record can contribute as much as log n (Zhang et al., 2017).

**The expected finding.** A part of the gain is chance: half a nat for each cell that expects E
records, or b E if that is less. The rest, G, would be ``Σ E v / 2`` with ``v = 2 G / n``, if all
cells were equally informative. Noise hides ``(1 + 1 / (w E)) / (E v + 1 + 1 / (w E))`` of each,
as in `privrl.models.bayes_net.budget`. The remainder rises with G by no more than G does, so the
sensitivity stays. Scores are rounded to whole grains of `GRAIN` nats, for which one more grain of
sensitivity is charged; floating-point errors are far below half a grain.

**No parents.** This candidate has the score of the best of equally many useless candidates, as the
mechanism draws them: its scale times the logarithm of their number. If that is more than a tenth
of a nat per record or so, chance has too much part in it, and `plan` has fewer choices or none, by
public numbers. If it would be less than `_TUNED.enough`, choices get less of the budget.

References
----------
J. Zhang, G. Cormode, C. Procopiuc, D. Srivastava and X. Xiao. *PrivBayes: private data release via
Bayesian networks* (2017).
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.base import Cost, Together
from privrl.costs.choice import ChoiceCost
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms.choice import ExponentialMechanism
from privrl.models.bayes_net.decomposable import MOST_CELLS
from privrl.models.bayes_net.structure import LARGEST, count_table
from privrl.numerics.discrete_noise import SMALLEST
from privrl.numerics.typing import FloatArray, IntArray

GRAIN = 2.0**-7  # nats, to which scores are rounded
BOUND = 0.5  # b: nats that one record counts for at the most; settled on data
SENSITIVITY = 2 * BOUND / GRAIN + 1  # of a score in grains, where one record is replaced


@dataclass(frozen=True)
class _Tuned:
    """How the private choice of parents spends its part, and when it is skipped.

    They were chosen on the sets that docs/results/networks.md calls "chosen on", on other
    splits. Sizes of blocks and chunks bound memory, and the smallest and largest numbers keep
    results within floats; none of these changes a result by more than rounding.
    """

    share: float = 0.2  # of the budget, at most, for all choices; settled on data
    hopeless: float = 0.2  # nats a record that chance may choose by; settled on data
    for_pairs: float = 0.1  # the same, where pairs are chosen as well; settled on data
    enough: float = 0.01  # the same, below which choices are not paid for; settled on data
    most_tables: int = 10_000  # to be looked at: decides how many parents a node may have
    most_parents: int = 3
    thinnest: float = 0.25  # records a cell must expect on average, in deviations of the noise
    tiny: float = 1e-300


_TUNED = _Tuned()


_LOWEST = -60.0  # logarithm of a multiplier that is not needed
_ROUNDED = 1 + 1e-9  # where a scale is made to be what is compared


class Plan(NamedTuple):
    """What is chosen and with how much noise, all of it public."""

    sigma: float  # the noise of one table that gets the rest of the budget
    choice: ExponentialMechanism | None  # each of them; None where chance alone would choose
    n_parents: int  # nodes whose parents are chosen: all but one, or none
    n_rounds: int  # pairs that are chosen besides


def plan(target: Target, sizes: Collection[int], n_records: int) -> Plan:
    """Return what is chosen within a target, from the numbers of cells of all nodes and of records.

    The first of these that leaves chance a small enough part: parents and as many pairs as nodes,
    with no more budget than that needs; parents and half as many pairs; as many pairs as possible,
    at least one for seven nodes; parents. There are fewer pairs of many nodes, and none where a
    model would be too large.
    """
    n_nodes = len(sizes)
    if n_nodes < 2:
        return Plan(math.inf, None, 0, 0)
    least = sum(sizes) + math.prod(sorted(sizes)[:2])  # cells of a model with one pair
    n_pairs, nats = math.comb(n_nodes, 2), GRAIN * math.log(n_nodes**2) / n_records
    room = 0 if least > MOST_CELLS else _TUNED.most_tables // n_pairs
    most = min(n_nodes, n_pairs, 3 * room)  # without parents to be looked at

    def scaled(n_choices: int) -> tuple[float, float]:
        return _calibrated(target, n_choices, _TUNED.enough / nats)

    def plans() -> Iterator[tuple[int, int, float]]:
        if room >= most > 0:
            yield n_nodes - 1, most, _TUNED.enough
        yield n_nodes - 1, min(n_nodes // 2, room), _TUNED.for_pairs
        every = range(1, min(most, n_nodes - 1) + 1)  # fewer than nodes
        n_rounds = bisect_right(every, _TUNED.for_pairs / nats, key=lambda n: scaled(n)[1])
        if 7 * n_rounds >= n_nodes:
            yield 0, n_rounds, _TUNED.for_pairs
        yield n_nodes - 1, 0, _TUNED.hopeless

    for n_parents, n_rounds, part in plans():
        sigma, scale = scaled(n_parents + n_rounds)
        if scale * nats <= part * _ROUNDED:
            choice = ExponentialMechanism(scale=scale, sensitivity=SENSITIVITY)
            return Plan(sigma, choice, n_parents, n_rounds)
    return Plan(sigma, None, 0, 0)


def _calibrated(target: Target, n_choices: int, least: float) -> tuple[float, float]:
    """Return the noise of tables, and the scale of choices, that meet a target together."""

    def scale(sigma: float) -> float:
        # So that all choices' divergences, λ η²/8, are to the tables', λ/σ², as their shares are.
        spread = math.sqrt(8 * _TUNED.share / (1 - _TUNED.share) / n_choices) / sigma
        return min(max(2 * SENSITIVITY / spread, least, SMALLEST), 1e30)

    def cost(sigma: float) -> Cost:
        relation = ReplaceRecord()
        choice = ChoiceCost(scale=scale(sigma), sensitivity=SENSITIVITY, relation=relation)
        return with_choices(GaussianCost(sigma=sigma, relation=relation), choice, n_choices)

    sigma = calibrate(target, cost, rises=False)
    return sigma, scale(sigma)


def with_choices(tables: Cost, choice: ChoiceCost, n_choices: int) -> Cost:
    """Return the joint cost of the tables and of all choices."""
    return Together([tables, *[choice] * n_choices])


def choose_parents(
    scores: "Scores", mechanism: ExponentialMechanism, rng: np.random.Generator
) -> dict[str, tuple[str, ...]]:
    """Choose the parents of every node, privately, with a mechanism that is already charged."""
    sizes, margins = scores.sizes, scores.margins
    first = max(sizes, key=lambda node: float(-(margins[node] @ np.log(margins[node]))))
    parents: dict[str, tuple[str, ...]] = {first: ()}
    while len(parents) < len(sizes):
        left = [node for node in sizes if node not in parents]
        some = [(node, own) for node in left for own in scores.candidates(node, list(parents))]
        none = mechanism.scale * math.log(len(some)) if some else 0.0
        grains = np.rint([none] * len(left) + [scores(*each) / GRAIN for each in some])
        chosen = int(mechanism.release(grains, rng))
        node, own = [*((node, ()) for node in left), *some][chosen]
        parents[node] = own
    return {node: parents[node] for node in sizes}


class Scores:
    """The worth of parents to a node, each computed once.

    Parameters
    ----------
    sizes : mapping from str to int
        The nodes and how many cells they have: public.
    margins : mapping from str to array, shape (K,)
        Each node's released probabilities > 0.
    codes : mapping from str to array of int, shape (n,)
        Cell numbers of every record: private.
    precision : float
        One over the variance of the noise that the tables will have, > 0.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        margins: Mapping[str, FloatArray],
        codes: Mapping[str, IntArray],
        precision: float,
    ) -> None:
        self.sizes, self.margins = sizes, margins
        self._codes, self._precision = codes, precision
        self._n_records = len(next(iter(codes.values())))
        self._most_cells = min(LARGEST, self._n_records * precision**0.5 / _TUNED.thinnest)
        n_tables = np.cumsum(
            [math.comb(len(sizes) - 1, k) for k in range(1, _TUNED.most_parents + 1)]
        )
        self._most_parents = max(1, int((len(sizes) * n_tables <= _TUNED.most_tables).sum()))
        self._known = dict[tuple[str, tuple[str, ...]], float]()

    def candidates(self, node: str, placed: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the sets of parents that a node may have: by public facts and releases."""
        for size in range(1, min(self._most_parents, len(placed)) + 1):
            for own in combinations(placed, size):
                rows = math.prod(self.sizes[parent] for parent in own)
                if rows * self.sizes[node] <= self._most_cells:
                    yield own

    def __call__(self, node: str, own: tuple[str, ...]) -> float:
        """Return the nats that a table of these parents is expected to find."""
        if (node, own) not in self._known:
            counts = count_table(node, own, self.sizes, self._codes)
            rows = np.ones(1)
            for parent in own:
                rows = np.multiply.outer(rows, self.margins[parent]).ravel()
            expected = self._n_records * np.multiply.outer(rows, self.margins[node])
            gain = bounded_gain(counts, self.margins[node])
            self._known[node, own] = found(gain, expected, self._precision)
        return self._known[node, own]


def bounded_gain(counts: FloatArray, p: FloatArray) -> float:
    """Return the most nats that rows near p have above p, none of them more than `BOUND` for any.

    Parameters
    ----------
    counts : array, shape (R, K)
        Numbers of records.
    p : array, shape (K,) or (R, K)
        Probabilities > 0, the same in every row or not.

    Notes
    -----
    With a multiplier ``N e^l`` for the sum of a row of N records, the best ``h_k`` is
    ``log(n_k / (N p_k)) − l``, cut at ±b. The sum of ``p e^h`` falls with l, and is
    ``A + B e^(−l)`` between two of the levels at which a cell begins or ends to be cut: l is where
    it is 1. The returned value is the dual's value there. It is off by N times the rounding errors
    of that sum and of l. Where even factors of e^b leave the sum below 1, no multiplier is needed,
    and l is as low as it gets.
    """
    filled = counts.sum(axis=1) > 0
    counts, p = counts[filled], np.broadcast_to(p, counts.shape)[filled]
    totals = counts.sum(axis=1, keepdims=True)
    shares, some = counts / totals, counts > 0
    with np.errstate(divide="ignore"):
        logs = np.log(shares) - np.log(p)
    first = np.where(some, logs, 0.0)  # a cell without records is cut at every level
    levels = np.hstack([first - BOUND, first + BOUND])
    order = np.argsort(levels, axis=1)
    levels = np.take_along_axis(levels, order, axis=1)
    top, least = (np.where(some, p * math.exp(cut), 0.0) for cut in (BOUND, -BOUND))
    start = (top + np.where(some, 0.0, p * math.exp(-BOUND))).sum(axis=1, keepdims=True)
    a = start + np.take_along_axis(np.hstack([-top, least]), order, axis=1).cumsum(axis=1)
    b = np.take_along_axis(np.hstack([shares, -shares]), order, axis=1).cumsum(axis=1)
    last = (a + b * np.exp(-levels) > 1).sum(axis=1, keepdims=True) - 1  # before the sum is 1
    place = np.maximum(last, 0)
    a, b = (np.take_along_axis(each, place, axis=1) for each in (a, b))
    level = np.log(np.maximum(b, _TUNED.tiny) / np.maximum(1 - a, _TUNED.tiny))
    ends = [np.take_along_axis(levels, place + more, axis=1) for more in (0, 1)]
    level = np.where(last < 0, _LOWEST, np.clip(level, *ends))
    h = np.clip(logs - level, -BOUND, BOUND)
    excess = (np.exp(h) * p).sum(axis=1, keepdims=True) - 1
    return float((counts * h).sum() - (totals * np.exp(level) * excess).sum())


def found(gain: float, expected: FloatArray, precision: float) -> float:
    """Return the nats of a gain that are not chance and are found under noise."""
    g = gain - float(np.minimum(0.5, BOUND * expected).sum())
    if g <= 0:
        return 0.0
    signal = expected * (2 * g / float(expected.sum()))
    hidden = 1 + 1 / np.maximum(precision * expected, _TUNED.tiny)
    return float((signal**2 / (signal + hidden)).sum()) / 2
