"""SIM's figures at their quick sizes, beside formulas written out here."""

import numpy as np
import pandas as pd
import pytest
from mpmath import mp, mpf
from picture_checks import picture_test
from scipy.special import expit
from scipy.stats import beta

from privrl.experiments.figures import FIGURES
from privrl.experiments.figures.sim import SETTINGS
from privrl.experiments.figures.sim_average import collections

IDS = ("sim-fig1", "sim-fig2", "sim-table1")

test_picture_and_caption = picture_test(IDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sim-fig2", "sim-table1"])
def test_computed_again_it_is_the_same(tables, name: str) -> None:
    pd.testing.assert_frame_equal(FIGURES[name].compute(True), tables[name])


# Figure 1 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lemma_5_adds_the_same_at_every_delta(tables) -> None:
    wide = tables["sim-fig1"].pivot(
        index=["eta", "eta_bar", "k", "delta"], columns="curve", values="epsilon"
    )
    assert (wide["exact"] < wide["Theorem 1"]).all()
    offsets = []
    for eta, eta_bar, k in SETTINGS:
        rows = wide.loc[(eta, eta_bar, k)]
        offset = rows["Theorem 1 with Lemma 5"] - rows["Theorem 1"]
        with mp.workdps(30):  # (15) for both beta functions, with b / 2 = 0.05
            a, b, s = (
                mpf(k) * mpf(eta),
                mpf(k) * (1 - mpf(eta_bar) - mpf(eta)),
                mpf(k) * mpf("0.05"),
            )
            above, below = (a + b - 1) / ((2 * a - 1) * (2 * b - 1)), mp.exp(2 - a - b)
            truth = mp.log(mp.beta(a, b) / mp.beta(a + s, b - s))
            expected = float(mp.log(above / below) - truth)
        np.testing.assert_allclose(offset, expected, rtol=1e-9)
        offsets.append(expected)
    epsilons = [wide.loc[(*setting, 0.05), "Theorem 1"] for setting in SETTINGS]
    # As the paper says in three settings: the smaller epsilon, the smaller the offset ...
    assert list(np.argsort(epsilons[:3])) == list(np.argsort(offsets[:3]))
    # ... and not in the fourth.
    assert epsilons[3] > epsilons[0]
    assert offsets[3] < offsets[0]


# Figure 2 ---------------------------------------------------------------------------------------


def test_collections_are_neighbours_within_the_sensitive_components() -> None:
    p, q = collections(np.random.default_rng(0))
    assert p.shape == q.shape == (100, 3)
    for each in (p, q):
        np.testing.assert_allclose(each.sum(1), 1, rtol=1e-12)
        assert each.min() >= 0.05  # eta, and eta_bar
    assert np.flatnonzero((p != q).any(axis=1)).tolist() == [0]
    np.testing.assert_allclose(q[0] - p[0], [0.5, -0.5, 0], atol=1e-15)
    printed = np.array([0.314923, 0.315923, 0.320923])
    np.testing.assert_allclose(p.mean(0), printed / printed.sum(), rtol=1e-12)


@pytest.mark.slow
def test_epsilon_of_the_paper_of_its_theorem_and_exact(tables) -> None:
    table = tables["sim-fig2"]
    costs = table[table.panel == "cost"]

    def cost(k: float, what: str) -> tuple[float, float]:
        rows = costs[(costs.k == k) & (costs.what == what)].sort_values("y")
        (at_printed, delta), (epsilon, _) = rows[["x", "y"]].to_numpy()
        assert at_printed == 1.18
        return epsilon, delta

    epsilon, delta = cost(24, "Theorem 2")
    assert epsilon == pytest.approx(1.122, abs=5e-4)
    assert delta < 0.05  # so that the printed (1.18, 0.05) holds, with room
    epsilon, delta = cost(24, "exact")
    assert epsilon == pytest.approx(0.0508, abs=5e-5)
    assert delta == pytest.approx(9.3e-7, rel=5e-3)
    for k in (24.0, 10.0):
        a, s = 0.05 * k, 0.005 * k
        for at, expected in ((cost(k, "exact")[0], 0.05), (1.18, cost(k, "exact")[1])):
            threshold = expit(at / s)
            stick = beta(a + s, a).sf(threshold) - np.exp(at) * beta(a, a + s).sf(threshold)
            assert stick == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_smaller_k_scatters_more_and_falls_below_gamma_more_often(tables) -> None:
    """By Proposition 1; a variance from 200 draws has a standard error of 10 %, five allowed."""
    table = tables["sim-fig2"]
    for k in (24.0, 10.0):
        for name in "PQ":
            some = table[(table.panel == "output") & (table.k == k) & (table.what == name)]
            wanted = 0.33 * 0.67 / (k + 1)
            assert some.x.var() == pytest.approx(wanted, rel=0.5)
    below = table[table.panel == "below gamma"].set_index("k").y
    assert below[24.0] == pytest.approx(0.05, rel=1e-6)
    assert below[10.0] > 4 * below[24.0]
    rng = np.random.default_rng(1)  # 200,000 draws of the worst input: 1 % or less
    gamma = table[table.panel == "below gamma"].x.iloc[0]
    drawn = rng.dirichlet([0.5, 0.5, 9], 200_000)[:, :2].min(1) < gamma
    assert drawn.mean() == pytest.approx(below[10.0], rel=0.03)


# Table I ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_table_1_and_what_is_wrong_in_it(tables) -> None:
    table = tables["sim-table1"]
    paper = table.pivot(index=["collection", "component"], columns="statistic", values="paper")
    sums = paper.average.groupby("collection").sum()
    np.testing.assert_allclose(sums, 0.951769, atol=1e-6)
    apart = paper.average["P"] != paper.average["Q"]
    assert apart[apart].index.tolist() == [2, 3]  # not in W = {1, 2}
    assert paper.variance.max() > 0.01  # which k = 24 was to keep below
    rows = table.set_index(["statistic", "collection", "component"])
    ours = rows.loc["average"].exact
    assert ours["P", 1] + 0.005 == pytest.approx(ours["Q", 1])
    assert ours["P", 3] == pytest.approx(ours["Q", 3])
    # Means of 2,000 draws have a standard error of 0.0021, variances of 3 %: five of each.
    np.testing.assert_allclose(rows.loc["mean"].seen, ours, atol=5 * 0.0021)
    np.testing.assert_allclose(rows.loc["variance"].exact, ours * (1 - ours) / 25, rtol=1e-12)
    np.testing.assert_allclose(rows.loc["variance"].seen, ours * (1 - ours) / 25, rtol=0.17)
    # At the other weight, 10, that would be seen.
    assert not np.allclose(rows.loc["variance"].seen, ours * (1 - ours) / 11, rtol=0.17)
    np.testing.assert_allclose(rows.loc["mean"].paper, rows.loc["mean"].exact, atol=4 * 0.0042)
