"""Estimates from released tables: against slow integrals, in their limits, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import rel_entr

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.posterior import posterior_counts
from privrl.models.estimates.tables import (
    clipped_rows,
    row_probabilities,
    row_totals,
    table_probabilities,
)

STRENGTHS = 0.5 * 10.0 ** (np.arange(7) * 2 / 3)  # 0.5 to 5000


def noisy(values, deviation, mechanism="gaussian"):
    return ReleasedTable(np.array(values, np.float64), mechanism, deviation)


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize(
    ("noisy", "deviation", "mean", "shape"),
    [
        (30, 5, 20, 0.5),
        (3000, 3233, 2279, 0.02),
        (-100, 187, 7, 3),
        (5000, 187, 4000, 1),
        (3, 1.9, 2, 1e4),
        (7, 1e-3, 2, 0.1),  # taken as 0.5
        (500, 1.9, 480, 30),
        (2000, 3233, 2279, 20),
    ],
)
def test_a_count_s_posterior_agrees_with_a_sum_over_many_counts(
    noisy, deviation, mean, shape, laplace
):
    """For shapes below 1 evenly in ``x ** shape``, where the density is finite.

    Sixteen nodes know a Gaussian's evidence to 1 %, and Laplace's, whose density has an edge, to
    12 %; means to a tenth of the standard deviation.
    """
    power, n = max(1 / shape, 1.0), 100_000
    points = (np.arange(n) + 0.5) / n
    top = mean * (1 + 20 / math.sqrt(shape) + 20 / shape)
    counts = np.maximum(top * points**power, 1e-300)
    width = power * points ** (power - 1) * top / n
    scale = max(deviation, 0.5)
    noise = stats.laplace(scale=scale / math.sqrt(2)) if laplace else stats.norm(scale=scale)
    log_prior = stats.gamma(shape, scale=mean / shape).logpdf(counts)
    with np.errstate(divide="ignore"):
        log_joint = log_prior + noise.logpdf(noisy - counts) + np.log(width)
    joint = np.exp(log_joint - log_joint.max())
    expected = (joint * counts).sum() / joint.sum()
    spread = math.sqrt((joint * (counts - expected) ** 2).sum() / joint.sum())
    evidence = log_joint.max() + math.log(joint.sum())
    found, square, log_evidence = posterior_counts(
        np.array([float(noisy)]),
        deviation,
        np.array([float(mean)]),
        np.array([float(shape)]),
        laplace=laplace,
    )
    assert found[0] == pytest.approx(expected, abs=0.1 * spread)
    assert math.sqrt(square[0] - found[0] ** 2) == pytest.approx(spread, rel=0.2)
    assert log_evidence[0] == pytest.approx(evidence, abs=0.12 if laplace else 0.01)


def slow_rows(table, totals, prior):
    """The model in so many words: means over 20,000 quantiles of each cell's prior."""
    if table.mechanism == "laplace":
        noise = stats.laplace(scale=table.deviation / math.sqrt(2))
    else:
        noise = stats.norm(scale=table.deviation)
    levels = (np.arange(20_000) + 0.5) / 20_000
    evidences, means = [], []
    for strength in STRENGTHS:
        evidence, mean = 0.0, np.empty_like(table.values)
        for (row, cell), seen in np.ndenumerate(table.values):
            prior_of_count = stats.gamma(strength * prior[cell], scale=totals[row] / strength)
            counts = prior_of_count.ppf(levels)
            likelihood = noise.pdf(seen - counts)
            evidence += math.log(likelihood.mean())
            mean[row, cell] = (likelihood * counts).sum() / likelihood.sum()
        evidences.append(evidence)
        rows = mean + strength * prior
        means.append(rows / rows.sum(1, keepdims=True))
    weights = np.exp(np.array(evidences) - max(evidences))
    return np.tensordot(weights / weights.sum(), means, 1)


@pytest.mark.few(6)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("deviation", [1.0, 12.0])
def test_one_row_by_brute_force(mechanism, deviation):
    table = noisy([[30.0, -4.0, 11.0, 5.0]], deviation, mechanism)
    expected = slow_rows(table, [42.0], np.full(4, 0.25))
    close = 2e-3 if mechanism == "gaussian" else 6e-3  # a Laplace density has an edge
    np.testing.assert_allclose(row_probabilities(table), expected, atol=close)


@pytest.mark.slow
def test_several_rows_by_brute_force():
    """Rows around the pooled row, which comes from the sums of columns, with noise √2 times."""
    table = noisy([[30.0, -4.0, 11.0], [5.0, 8.0, 60.0]], 6.0)
    totals = np.array([37.0, 73.0])
    sums = noisy(table.values.sum(0, keepdims=True), 6.0 * math.sqrt(2))
    pooled = slow_rows(sums, [110.0], np.full(3, 1 / 3))[0]
    expected = slow_rows(table, totals, pooled)
    np.testing.assert_allclose(row_probabilities(table, totals), expected, atol=2e-3)


def test_little_noise_leaves_the_frequencies():
    counts = np.array([[7000.0, 2000, 1000], [100, 300, 9600]])
    frequencies = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(row_probabilities(noisy(counts, 0.01)), frequencies, atol=1e-3)
    np.testing.assert_allclose(
        row_probabilities(noisy(counts, 0.0, "none")), frequencies, atol=1e-3
    )


def test_much_noise_leaves_next_to_nothing():
    """Noise a thousand times the records: rows alike and about uniform."""
    rng = np.random.default_rng(0)
    table = noisy(1e5 * rng.standard_normal((3, 4)), 1e5)
    np.testing.assert_allclose(row_probabilities(table, [30.0, 30, 40]), 0.25, atol=0.1)


def test_rows_that_are_alike_share_their_records():
    """Twenty rows of one law with noise: shrunk rows are at least three times nearer to it."""
    rng = np.random.default_rng(1)
    law = np.array([0.5, 0.3, 0.15, 0.05])
    table = noisy(rng.multinomial(100, law, 20) + 10 * rng.standard_normal((20, 4)), 10.0)
    shrunk = row_probabilities(table, np.full(20, 100.0))
    clipped = clipped_rows(table)
    assert 3 * np.abs(shrunk - law).mean() < np.abs(clipped - law).mean()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("deviation", [3.0, 30.0, 100.0])
@pytest.mark.parametrize("spread", [0.3, 30.0])
def test_shrunk_rows_diverge_less_than_clipped_ones(mechanism, deviation, spread):
    """40 tables of 5 rows with 8 cells and about 400 records, like and unlike."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(40):
        pooled = rng.dirichlet(np.ones(8))
        truth = rng.dirichlet(spread * 8 * pooled + 0.01, 5)
        counts = np.array([rng.multinomial(400, row) for row in truth], np.float64)
        noise = rng.standard_normal((5, 8))
        if mechanism == "laplace":
            noise = rng.laplace(size=(5, 8)) / math.sqrt(2)
        table = noisy(counts + deviation * noise, deviation, mechanism)
        gains.append((truth * np.log(row_probabilities(table) / clipped_rows(table))).sum(1).mean())
    error = np.std(gains, ddof=1) / math.sqrt(len(gains))
    assert np.mean(gains) > 3 * error


def test_order_of_rows_and_cells_does_not_matter():
    rng = np.random.default_rng(0)
    values = 20 + 10 * rng.standard_normal((4, 5))
    totals = np.array([50.0, 100, 120, 80])
    straight = row_probabilities(noisy(values, 10.0), totals)
    rows, cells = rng.permutation(4), rng.permutation(5)
    mixed = row_probabilities(noisy(values[rows][:, cells], 10.0), totals[rows])
    np.testing.assert_allclose(mixed, straight[rows][:, cells], rtol=1e-9)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "none"])
@pytest.mark.parametrize("deviation", [0.0, 1e-9, 1.0, 1e12])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e15])
def test_extremes_stay_probabilities(mechanism, deviation, size):
    table = noisy([[size, 0, -size], [-size, -size, -size]], deviation, mechanism)
    for rows in (row_probabilities(table), clipped_rows(table)):
        assert (rows > 0).all()
        np.testing.assert_allclose(rows.sum(1), 1)
    totals = row_totals([table], 10.0)
    assert (totals > 0).all()
    assert totals.sum() == pytest.approx(10)


def test_a_thousand_cells_with_tiny_priors():
    values = np.zeros((2, 1000))
    values[0, 0] = 1e6
    rows = row_probabilities(noisy(values, 3.0), [1e6, 1.0])
    assert (rows > 0).all()
    assert rows[0, 0] > 0.99


def test_large_tables_are_worked_out_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    table = noisy(50 + 10 * rng.standard_normal((7, 5)), 10.0)
    whole = row_probabilities(table)
    monkeypatch.setattr("privrl.models.estimates.tables._AT_ONCE", 10)
    np.testing.assert_allclose(row_probabilities(table), whole, rtol=1e-12)


def test_totals_weigh_sums_by_their_noise():
    """Where there are many records, shrinking does little: the weighted mean, summing to n."""
    tables = [
        noisy([[6000.0, 4000.0]], 10.0),
        noisy([[3000.0, 3100.0], [2000.0, 1900.0]], 5.0),
        noisy([[2000.0] * 3, [1350.0] * 3], 50.0),
    ]
    weights = 1 / np.array([10.0**2, 2 * 5.0**2, 3 * 50.0**2])
    mean = weights @ np.array([[6000, 4000], [6100, 3900], [6000, 4050]]) / weights.sum()
    mean += (10_000 - mean.sum()) / 2
    np.testing.assert_allclose(row_totals(tables, 10_000), mean, rtol=2e-3)
    assert row_totals(tables).sum() == pytest.approx(10_000, rel=0.01)


def test_draws_are_returned_as_they_are():
    rows = np.array([[0.2, 0.8], [0.7, 0.3]])
    table = ReleasedTable(rows, "dirichlet", 0.0)
    np.testing.assert_array_equal(row_probabilities(table), rows)
    np.testing.assert_array_equal(clipped_rows(table), rows)


def test_clipped_rows():
    table = noisy([[-3.0, 1.0, 6.0]], 2.0)
    np.testing.assert_allclose(clipped_rows(table), [[0.2, 0.2, 0.6]])
    np.testing.assert_allclose(clipped_rows(table, floor=1.0), [[1 / 8, 1 / 8, 6 / 8]])


@pytest.mark.parametrize("totals", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, math.nan], ["a", "b"]])
def test_bad_totals(totals):
    with pytest.raises(ValueError, match="totals must be"):
        row_probabilities(noisy([[1.0, 2], [3, 4]], 1.0), totals)


def test_bad_floor_and_tables():
    table = noisy([[1.0, 2], [3, 4]], 1.0)
    with pytest.raises(ValueError, match="floor must be"):
        clipped_rows(table, floor=0.0)
    with pytest.raises(ValueError, match="tables must be noisy counts"):
        row_totals([])
    with pytest.raises(ValueError, match="tables must be noisy counts"):
        row_totals([ReleasedTable(table.values, "dirichlet", 0.0)])
    with pytest.raises(ValueError, match="must have the same rows"):
        row_totals([table, noisy([[1.0, 2, 3]], 1.0)])
    with pytest.raises(ValueError, match="n_records must be"):
        row_totals([table], n_records=0)


# Several tables with the same rows ----------------------------------------------------------------


def many(n_tables, strength, deviation, *, totals=(60, 140), cells=4):
    """True rows, spread around a row of each table's own, and what is released of their counts."""
    rng = np.random.default_rng(0)
    truth, tables = [], []
    for base in rng.dirichlet(np.full(cells, 2.0), n_tables):
        rows = np.array([rng.dirichlet(strength * base + 1e-3) for _ in totals])
        counts = np.array([rng.multinomial(n, row) for n, row in zip(totals, rows, strict=True)])
        truth.append(rows)
        tables.append(noisy(counts + rng.normal(0, deviation, rows.shape), deviation))
    return truth, tables, np.array(totals, np.float64)


def lost(truth, found):
    """Mean KL divergence from the true rows."""
    each = [rel_entr(p, q).sum(axis=1) for p, q in zip(truth, found, strict=True)]
    return float(np.mean(each))


def test_tables_tell_of_each_other():
    """Forty tables of two rows that differ much: alone, each looks like its own mean."""
    truth, tables, totals = many(40, 3.0, 15.0)
    alone = lost(truth, [row_probabilities(table, totals) for table in tables])
    together = lost(truth, table_probabilities(tables, totals))
    assert together < 0.9 * alone


def test_rows_of_many_tables_that_are_alike_are_drawn_together():
    """Of nothing but noise: within a tenth of what the noise makes of them one by one."""
    _, tables, totals = many(40, 1e6, 15.0)
    found = table_probabilities(tables, totals)
    assert apart(found) < 0.15 * apart([clipped_rows(table) for table in tables])


def apart(rows):
    """Mean distance of the logarithms of the first two rows."""
    return float(np.mean([np.abs(np.log(each[0] / each[1])).mean() for each in rows]))


def test_known_totals_do_not_speak_for_rows_that_are_alike():
    """Of two cells the sum, which is known, is half of the evidence: lost are .080, not .101."""
    truth, tables, totals = many(40, 3.0, 20.0, cells=2)
    assert lost(truth, table_probabilities(tables, totals)) < 0.09


def test_known_totals_and_what_may_be_told_in_all_take_noise_away():
    """Forty tables of noise alone, of the size of the rows: .017, and .03 or .10 without."""
    _, tables, totals = many(40, 1e6, 60.0)
    assert apart(table_probabilities(tables, totals)) < 0.024


def test_counts_that_vary_by_their_drawing_alone_are_drawn_together():
    """Counts without noise: rows are a sixth as far apart as frequencies, and not .42 of it."""
    _, tables, totals = many(40, 1e6, 0.5)
    exact = apart([clipped_rows(table) for table in tables])
    assert apart(table_probabilities(tables, totals)) < 0.25 * exact


def test_tables_without_noise_have_their_frequencies():
    _, tables, totals = many(6, 3.0, 0.0, totals=(60_000, 140_000))
    for found, table in zip(table_probabilities(tables, totals), tables, strict=True):
        expected = table.values / table.values.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_order_of_tables_rows_and_cells_says_nothing(mechanism):
    _, tables, totals = many(5, 3.0, 10.0, totals=(30, 90, 50))
    tables = [noisy(table.values, 10.0, mechanism) for table in tables]
    straight = table_probabilities(tables, totals)
    rows, cells = np.array([2, 0, 1]), np.array([3, 1, 0, 2])
    mixed = [noisy(table.values[rows][:, cells], 10.0, mechanism) for table in tables[::-1]]
    for one, other in zip(straight, table_probabilities(mixed, totals[rows])[::-1], strict=True):
        np.testing.assert_allclose(other, one[rows][:, cells], rtol=1e-6)


@pytest.mark.parametrize("deviation", [1e-3, 1e7])
def test_rows_of_all_tables_are_probabilities(deviation):
    rng = np.random.default_rng(0)
    tables = [noisy(rng.normal(0, deviation, (3, k)), deviation) for k in (1, 2, 50)]
    for rows in table_probabilities(tables, np.array([1e6, 1.0, 1e-3])):
        assert (rows > 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1)
