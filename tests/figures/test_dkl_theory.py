"""DKL's figures that need no data, at their quick sizes, beside formulas written out here."""

import math

import numpy as np
import pandas as pd
import pytest
from mpmath import mp, mpf
from picture_checks import check_caption, check_picture
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, digamma, polygamma
from scipy.stats import beta

from privrl.experiments.figures import FIGURES

IDS = ("dkl-noise-example", "dkl-fig1", "dkl-fig2", "dkl-fig3", "dkl-fig8")
HISTOGRAM = np.array([119, 74, 618, 272, 13, 187])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in IDS if name != "dkl-fig1"])
def test_picture(tables, name) -> None:
    check_picture(FIGURES[name], tables[name])


@pytest.mark.slow
def test_picture_of_a_function(tables) -> None:
    """It is about no data, so that it has no privacy unit."""
    for axes in FIGURES["dkl-fig1"].draw(tables["dkl-fig1"]).axes:
        assert axes.get_xlabel() == "x"
        assert axes.get_ylabel()


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_caption(tables, name) -> None:
    check_caption(FIGURES[name], tables[name])


@pytest.mark.slow
def test_computed_again_it_is_the_same(tables) -> None:
    again = FIGURES["dkl-noise-example"].compute(True)
    pd.testing.assert_frame_equal(again, tables["dkl-noise-example"])


# The example ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_example_has_the_papers_numbers(tables) -> None:
    table = tables["dkl-noise-example"]
    two = table[table.released == "the paper's two"]
    np.testing.assert_allclose(two.l1, [0.135, 0.137], atol=1e-9)
    np.testing.assert_allclose(two.kl, [0.186, 0.499], atol=5e-4)
    assert two.kl.iloc[1] / two.kl.iloc[0] == pytest.approx(2.68, abs=5e-3)
    for kl, row, noise in zip(
        two.kl_normalised, two.itertuples(), ((-0.09, 0.045), (-0.099, -0.038)), strict=True
    ):
        assert kl == pytest.approx(row.kl + math.log(1 + sum(noise)), abs=1e-12)


@pytest.mark.slow
def test_noise_makes_some_frequencies_negative_and_a_floor_mends_it(tables) -> None:
    """Of 2000 draws: 0.045 is five standard errors, a false alarm in two million."""
    table = tables["dkl-noise-example"]
    loss = {name: rows.kl_normalised for name, rows in table.groupby("released")}
    lost = np.isinf(loss["noise as it is"]).mean()
    assert lost == pytest.approx(math.exp(-1) / 2 + math.exp(-9) / 2, abs=0.045)
    mended, drawn = loss["noise, no count below 1"], loss["Dirichlet, designed"]
    assert np.isfinite(mended).all()
    assert np.isfinite(drawn).all()
    assert mended.mean() < 0.5 * drawn.mean()


# Figure 1 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trigamma_its_bounds_and_its_slow_series(tables) -> None:
    wide = tables["dkl-fig1"].pivot(index="x", columns="curve", values="value")
    with mp.workdps(30):
        truth = [float(mp.zeta(2, x)) for x in wide.index]
    np.testing.assert_allclose(wide["ψ'(x)"], truth, rtol=1e-13)
    assert (wide["lower bound of (5)"] < wide["ψ'(x)"]).all()
    assert (wide["upper bound of (5)"] > wide["ψ'(x)"]).all()
    for terms in (10, 1000):
        missing = wide["ψ'(x)"] - wide[f"{terms} terms of (4)"]
        x = wide.index.to_numpy() + terms
        assert (missing > 1 / x).all()
        assert (missing < 1 / x + 1 / x**2).all()


# Figure 2 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_floor_is_that_of_the_rule(tables) -> None:
    wide = tables["dkl-fig2"].pivot(index="gamma", columns="curve", values="delta")
    ours = wide.pop("as an integral of positive terms")
    alpha, total = 4.88, 171.87
    assert np.log10(ours.iloc[0]) == pytest.approx(-137.2, abs=0.05)
    np.testing.assert_allclose(
        ours.iloc[:-5], 2 * betainc(alpha, total - alpha, ours.index[:-5]), rtol=1e-3
    )  # both at once is rarer still
    first, gamma = beta(alpha, total - alpha), ours.index[-1]

    def both_above(x):
        rest = beta(alpha, total - 2 * alpha)
        return first.pdf(x) * rest.sf(gamma / (1 - x))

    above, _ = quad(both_above, gamma, 1 - gamma, epsabs=1e-14, epsrel=1e-12, limit=200)
    assert ours.iloc[-1] == pytest.approx(1 - above, rel=1e-6)
    # A fixed rule stays where it is, by whatever it is off, and more nodes are less off.
    small = wide[wide.index < 1e-10]
    assert (small.std() < 1e-6 * abs(small.mean())).all()
    floors = abs(small.mean())
    order = [f"{n} x {n} nodes" for n in (20, 26, 30, 40)]
    assert (np.diff(floors[order]) < 0).all()
    assert floors["30 x 30 nodes"] < 2.1e-4 < floors["26 x 26 nodes"]
    assert small["20 x 20 nodes"].max() < 0  # "the integral may be greater than one"


# Figure 3 ---------------------------------------------------------------------------------------


def renyi(u, v, order) -> float:
    """Between Dirichlet densities, from (15) of the paper."""

    def log_beta(w):
        return mp.fsum(mp.loggamma(x) for x in w) - mp.loggamma(mp.fsum(w))

    far = [x + (order - 1) * (x - y) for x, y in zip(u, v, strict=True)]
    return float((log_beta(far) + (order - 1) * log_beta(v) - order * log_beta(u)) / (order - 1))


def curves_of(table, panel, order, values):
    some = table[(table.panel == panel) & (table.order == order)]
    return some.pivot_table(index="weight", columns="curve", values=values)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2.0, 20.0, 200.0])
def test_divergences_are_those_of_the_formulas(tables, order) -> None:
    wide = curves_of(tables["dkl-fig3"], "rdp", order, "epsilon")
    pairs = {
        "the two histograms as meant": ([11, 8, 65, 25, 38, 0], [11, 7, 65, 25, 38, 1]),
        "as printed: no neighbours": ([11, 8, 65, 25, 38, 1], [11, 7, 65, 25, 38, 0]),
    }
    for r, row in wide.iterrows():
        bound = order / 2 * r**2 * 2 * polygamma(1, 1 + 3 * (order - 1) * r)
        assert row["Algorithm 1"] == pytest.approx(bound, rel=1e-9)
        with mp.workdps(50):
            alpha = 1 + 4 * (order - 1) * mpf(r)
            for name, pair in pairs.items():
                u, v = ([mpf(r) * x + alpha for x in counts] for counts in pair)
                assert row[name] == pytest.approx(renyi(u, v, order), rel=1e-6)
            empty = renyi([alpha + r, alpha], [alpha, alpha + r], order)
            assert row["exact, any data"] == pytest.approx(empty, rel=1e-6)
    assert sum(pairs["as printed: no neighbours"][0]) == 148
    assert sum(pairs["as printed: no neighbours"][1]) == 146
    ratio = wide["Algorithm 1"] / wide["exact, any data"]
    assert (ratio > 1).all()
    assert (ratio < 1.5).all()  # the paper's "close"
    assert (wide["exact, any data"] >= wide["the two histograms as meant"] * (1 - 1e-9)).all()


@pytest.mark.slow
def test_conversion_has_a_least_epsilon_and_the_simplex_bound_no_missing_point(tables) -> None:
    table = tables["dkl-fig3"]
    losses = table[table.panel == "kl"]
    for order, least in ((2.0, 10.1266), (20.0, 0.397), (200.0, 0.02622)):
        log_delta = math.log(1e-5)
        formula = math.log(order - 1) - (log_delta + order * math.log(order)) / (order - 1)
        assert formula == pytest.approx(least, rel=2e-3)
        some = losses[losses.order == order]
        by_13 = some[some.curve == "Algorithm 1"].epsilon
        assert (by_13 > formula).all()
        assert by_13.min() == pytest.approx(formula, rel=1e-4)
        simplex = some[some.curve == "Gohari et al., the same prior"]
        exact = some[some.curve == "exact, the same prior"]
        assert len(simplex) == len(exact) == len(by_13)
        assert simplex.epsilon.min() < 1e-3
        assert (exact.epsilon.to_numpy() < simplex.epsilon.to_numpy()).all()
        assert (exact.epsilon.to_numpy() < by_13.to_numpy()).all()


@pytest.mark.slow
def test_mean_losses(tables) -> None:
    losses = tables["dkl-fig3"].query("panel == 'kl' and curve == 'exact, the same prior'")
    p = HISTOGRAM / HISTOGRAM.sum()
    for row in losses.itertuples():
        shapes = row.weight * HISTOGRAM + 1 + 4 * (row.order - 1) * row.weight
        mean = (p * (np.log(p) - digamma(shapes) + digamma(shapes.sum()))).sum()
        assert row.kl == pytest.approx(mean, rel=1e-6)


@pytest.mark.slow
def test_setting_of_the_published_code_is_hardly_private(tables) -> None:
    """Its conversion is called with delta = 2 and a squared sensitivity of 1."""
    table = tables["dkl-fig3"]
    code = table[table.curve == "as in the authors' code, δ = 2"]
    row = code[(code.order == 2) & np.isclose(code.epsilon, 1)].iloc[0]

    def excess(r):
        return r**2 * polygamma(1, 1 + 3 * r) - (math.log(2) + 2 * math.log(2)) - 1

    r = brentq(excess, 1e-3, 1e3)
    assert row.weight == pytest.approx(r, rel=1e-6)
    a, t = 1 + 4 * r, 1 / (1 + math.exp(-1 / r))
    delta = betaincc(a + r, a, t) - math.e * betaincc(a, a + r, t)
    assert row.delta == pytest.approx(delta, rel=1e-6)
    assert delta > 0.5  # in place of 1e-5


@pytest.mark.slow
def test_algorithm_1_is_ahead_of_the_simplex_bound_only_beyond_its_least_epsilon(tables) -> None:
    losses = tables["dkl-fig3"].query("panel == 'kl'")

    def loss(name, order, epsilon) -> float:
        curve = losses[(losses.curve == name) & (losses.order == order)].sort_values("epsilon")
        return float(np.interp(epsilon, curve.epsilon, curve.kl, left=np.inf))

    simplex, claim = "Gohari et al., the same prior", "Algorithm 1"
    assert loss(claim, 2.0, 50.0) < loss(simplex, 2.0, 50.0)
    assert loss(claim, 2.0, 5.0) == np.inf > loss(simplex, 2.0, 5.0)
    for epsilon in (1.0, 10.0):
        assert loss("exact, designed", 200.0, epsilon) < loss(claim, 200.0, epsilon) / 10
    # Towards large orders, close to uniform: 0.4 nats.
    assert loss(claim, 200.0, 50.0) > 0.2
    assert loss("uniform", 2.0, 1.0) == pytest.approx(0.3996, abs=5e-3)


# Figure 8 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_8_is_formula_13(tables) -> None:
    table = tables["dkl-fig8"]
    for row in table[table.curve == "(13)"].itertuples():
        r, order = row.weight, row.order
        formula = order * r**2 * polygamma(1, 1 + 3 * (order - 1) * r) + math.log(order - 1)
        formula -= (math.log(1e-5) + order * math.log(order)) / (order - 1)
        assert row.epsilon == pytest.approx(formula, rel=1e-9)
    wide = table[table.weight > 0].pivot(index=["order", "weight"], columns="curve")["epsilon"]
    assert (wide["exact"] < wide["(13)"]).all()
    by_order = wide["(13)"].unstack("order")
    assert (by_order.diff().iloc[1:] > 0).all().all()  # it rises with r,
    assert (by_order.loc[0.001].diff().iloc[1:] < 0).all()  # and falls with the order
