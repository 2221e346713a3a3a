"""How near histograms are to the truth, in hundreds of cases: the numbers for docs/results.

A case is a column, a number of records and an epsilon; each is released `RELEASES` times, or
`OF_MANY` times if it has `MANY` cells or more, over which its error is a mean. In each, a method's
mean error is divided by that of the best of all methods but `auto`, found afterwards; a tenth of a
record is added to both errors, below which nothing counts.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from histogram_rivals import flat, others
from scipy.special import xlogy

from privrl.accounting import ApproxDP
from privrl.data.datasets import load
from privrl.data.schema import Bins
from privrl.mechanisms import TablesMechanism
from privrl.models.estimates.mixture import fit
from privrl.models.histograms.choice import choose_mechanism
from privrl.models.histograms.release import histogram
from privrl.numerics.typing import FloatArray, IntArray

EPSILONS = (0.01, 0.1, 1.0, 10.0)
DELTA = 1e-6
RELEASES, MANY, OF_MANY = 8, 200, 2
CONFIDENCE = 0.9
AUTO = "`auto`"
AUTO_BY_FLAT = "`auto`, over the best that is no tree"
WITHOUT = "`auto`, never with sums of blocks"
#: The estimate was chosen on the first; on the others nothing was.
CHOSEN, SETS, SHAPES, STEPS = (
    "chosen on: 4 shapes, 6 columns of Adult",
    "columns of the other sets",
    "4 more shapes",
    "6 columns in steps wider than bins",
)
_COLUMNS = {
    "Bank": ("job", "month", "cons.conf.idx", "nr.employed"),
    "Shopper": ("TrafficType", "ProductRelated", "Month"),
    "CreditCard": ("PAY_0", "BILL_AMT1"),
    "Thyroid": ("TSH",),
    "Digit": ("pixel_0_2",),
    "Spam": ("word_freq_our",),
    "GermanCredit": ("purpose",),
}
_NUMBERS = {  # columns cut finely: how many bins, and between what
    ("Bank", "duration"): (1000, 0, 5000),
    ("Bank", "age"): (80, 17, 97),
    ("CreditCard", "LIMIT_BAL"): (200, 0, 1e6),
    ("Shopper", "ProductRelated_Duration"): (500, 0, 20_000),
}
_IN_STEPS = {  # columns whose values are in steps, cut more finely: how many bins, and between what
    ("GermanCredit", "duration"): (72, 0, 72),
    ("Shopper", "SpecialDay"): (30, 0, 1.02),
    ("Adult", "education-num"): (64, 0, 16),
    ("Digit", "pixel_2_2"): (50, 0, 17),
    ("Bank", "campaign"): (45, 0.5, 15.5),
}
#: How many women there are of each age, in bins of a year from 15 on: `fair` of statsmodels.
_AGES = {2: 139, 7: 1800, 12: 1931, 17: 1069, 22: 634, 27: 793}


def errors() -> pd.DataFrame:
    """Return a row for each method in each case: group, kl, l1, least errors, and coverage."""
    rows = []
    for number, (group, counts, is_ordered) in enumerate(_cases()):
        for epsilon in EPSILONS:
            rng = np.random.default_rng((number, round(1000 * epsilon)))
            rows += _case(group, number, counts, epsilon, rng, is_ordered=is_ordered)
    return pd.DataFrame(rows)


def _case(
    group: str,
    number: int,
    counts: IntArray,
    epsilon: float,
    rng: np.random.Generator,
    *,
    is_ordered: bool,
) -> list[dict[str, object]]:
    n = float(counts.sum())
    target = ApproxDP(epsilon, DELTA)
    noise = choose_mechanism(target, n_records=n, n_cells=counts.size)
    of_auto = choose_mechanism(target, n_records=n, n_cells=counts.size, is_ordered=is_ordered)
    assert not isinstance(noise, TablesMechanism)
    losses: dict[str, list[tuple[float, float]]] = {}
    held = []
    aside = rng.spawn(1)[0]  # so that rivals' noise is what it is without
    for _ in range(RELEASES if counts.size < MANY else OF_MANY):
        z = np.asarray(noise.release(counts, rng), np.float64)
        flatly = fit(z, noise, n)
        if of_auto == noise:
            best, ends = flatly.counts / n, flatly.intervals(CONFIDENCE)
        else:
            values = np.repeat(np.arange(counts.size) + 0.5, counts)
            found = histogram(values, range(counts.size + 1), target=target, rng=aside)
            best, ends = found.probabilities, found.credible_intervals(CONFIDENCE)
        low, high = ends.T
        held.append(float(((low <= counts) & (counts <= high)).mean()))
        guesses = {
            AUTO: best,
            WITHOUT: flatly.counts / n,
            **flat(z, noise, n),
            **others(counts, target, n, rng),
        }
        for name, q in guesses.items():
            losses.setdefault(name, []).append(_losses(counts / n, q))
    means = {name: np.mean(each, axis=0) + 0.1 / n for name, each in losses.items()}
    rivals = {name: mean for name, mean in means.items() if name not in (AUTO, WITHOUT)}
    flat_ones = [mean for name, mean in rivals.items() if "tree" not in name]
    bests = {AUTO_BY_FLAT: np.min(flat_ones, axis=0)}
    best = np.min(list(rivals.values()), axis=0)
    return [
        {
            "group": group, "case": (number, epsilon), "method": name,
            **dict(zip(("KL", "L1"), mean / bests.get(name, best), strict=True)),
            "held": np.mean(held) if name == AUTO else np.nan,
        }
        for name, mean in {**means, AUTO_BY_FLAT: means[AUTO]}.items()
    ]  # fmt: skip


def _losses(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    return float((xlogy(p, p) - xlogy(p, q)).sum()), float(np.abs(p - q).sum())


def _cases() -> Iterator[tuple[str, IntArray, bool]]:
    """Yield a group, counts, and whether cells are bins; all shapes count as bins."""
    for d in (10, 100, 1000):
        for n in (300, 10_000, 100_000):
            rng = np.random.default_rng((d, n))
            for shape in _shapes(d, rng):
                yield CHOSEN, rng.multinomial(n, shape / shape.sum()), True
    for counts, is_ordered in _adult():
        for n in (300, 10_000, int(counts.sum())):
            yield CHOSEN, _some(counts, n), is_ordered
    for counts, is_ordered in _others():
        for n in (300, int(counts.sum())):
            yield SETS, _some(counts, n), is_ordered
    for d in (20, 300):
        for n in (1000, 30_000):
            rng = np.random.default_rng((d, n))
            for shape in _more_shapes(d, rng):
                yield SHAPES, rng.multinomial(n, shape / shape.sum()), True
    for counts in _in_steps():
        for n in sorted({300, 1000, int(counts.sum())}):
            yield STEPS, _some(counts, n), True


def _in_steps() -> list[IntArray]:
    ages = np.zeros(30, int)
    ages[list(_AGES)] = list(_AGES.values())
    return [ages, *map(_cut, *zip(*_IN_STEPS.items(), strict=True))]


def _cut(column: tuple[str, str], cuts: tuple[int, float, float]) -> IntArray:
    """Return the histogram of a column with so many even bins between two numbers."""
    values = np.clip(load(column[0]).frame[column[1]].to_numpy(float), *cuts[1:])
    return np.histogram(values, cuts[0], cuts[1:])[0]


def _some(counts: IntArray, n: int) -> IntArray:
    """Return the histogram of n of the records."""
    if n == counts.sum():
        return counts
    return np.random.default_rng(n).multivariate_hypergeometric(counts, n)


def _shapes(d: int, rng: np.random.Generator) -> list[FloatArray]:
    t = (np.arange(d) + 0.5) / d
    smooth = np.exp(-(((t - 0.35) / 0.12) ** 2) / 2) + 0.5 * np.exp(-(((t - 0.7) / 0.08) ** 2) / 2)
    sparse = np.zeros(d)
    few = max(2, d // 20)
    sparse[rng.choice(d, few, replace=False)] = rng.exponential(1, few) + 0.1
    cuts = np.sort(rng.choice(np.arange(1, d), min(6, d // 2), replace=False))
    steps = rng.exponential(1, 7)[np.searchsorted(cuts, np.arange(d), side="right")]
    return [smooth + 0.02, rng.permutation(1 / np.arange(1.0, d + 1)), sparse, steps + 0.02]


def _more_shapes(d: int, rng: np.random.Generator) -> list[FloatArray]:
    i = np.arange(d)
    spikes = np.where(i % 5 == 0, 5.0, 1.0) * (1 + i / d)  # ages are rounded so
    return [0.5 ** (10 * i / d), rng.dirichlet(np.full(d, 0.5)), spikes, (i / d - 0.4) ** 4 + 1e-3]


def _adult() -> list[tuple[IntArray, bool]]:
    data = load("Adult")
    frame = data.frame
    named = [
        data.schema.columns[name].encode(frame[name]) for name in ("occupation", "native-country")
    ]
    numbers = [
        np.bincount(frame["age"] - 17, minlength=74)[:74],
        np.histogram(frame["capital-gain"], 1000, (0, 100_000))[0],
        np.bincount(frame["hours-per-week"], minlength=100)[1:100],
        np.histogram(frame["fnlwgt"], 1000, (0, 1_000_000))[0],
    ]
    return [(each, True) for each in numbers] + [(np.bincount(codes), False) for codes in named]


def _others() -> list[tuple[IntArray, bool]]:
    found = []
    for name, columns in _COLUMNS.items():
        data = load(name)
        for column in columns:
            kind = data.schema.columns[column]
            counts = np.bincount(kind.encode(data.frame[column]), minlength=kind.size)
            found.append((counts, isinstance(kind, Bins)))
    return found + [(_cut(column, cuts), True) for column, cuts in _NUMBERS.items()]
