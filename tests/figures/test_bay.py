"""BAY's figures at their quick sizes, beside integrals and draws made here."""

import numpy as np
import pandas as pd
import pytest
from picture_checks import picture_test
from scipy import stats
from scipy.integrate import quad

from privrl.experiments.figures import FIGURES
from privrl.experiments.figures.bay_accuracy import accuracy, data_sets, hellinger

IDS = ("bay-fig1", "bay-fig2", "bay-fig3", "bay-fig4")

test_picture_and_caption = picture_test(IDS)


@pytest.mark.slow
def test_computed_again_it_is_the_same(tables) -> None:
    pd.testing.assert_frame_equal(FIGURES["bay-fig2"].compute(True), tables["bay-fig2"])


def by_integral(u, v) -> float:
    """H between two beta densities: half the integral of the squared difference of roots."""
    p, q = stats.beta(*u), stats.beta(*v)
    value, _ = quad(lambda x: (np.sqrt(p.pdf(x)) - np.sqrt(q.pdf(x))) ** 2, 0, 1, points=[0.5])
    return float(np.sqrt(value / 2))


def test_hellinger_is_the_integral() -> None:
    for u, v in (([57, 54], [58, 53]), ([7, 4], [6.5, 9]), ([3, 3], [3, 3])):
        assert float(hellinger(np.array(u), np.array(v))) == pytest.approx(
            by_integral(u, v), abs=1e-7
        )


@pytest.mark.parametrize(
    ("n", "cells", "middle"), [(500, 2, (250, 250)), (100, 3, (33, 33, 34)), (5, 3, (1, 2, 2))]
)
def test_data_sets(n, cells, middle) -> None:
    assert data_sets(n, cells) == {"middle": middle, "edge": (n,) + (0,) * (cells - 1)}


# Figure 1 ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_score_changes_most_at_the_true_posterior(tables) -> None:
    for case, group in tables["bay-fig1"].groupby("case"):
        own = group[group.kind == "BI(x)"]
        assert len(own) == 1
        assert own.distance.iloc[0] == 0
        assert own.change.iloc[0] == pytest.approx(group.change.max(), rel=1e-12)
        others = group[group.kind == "other"]
        assert (others.change < own.change.iloc[0]).all(), case
        nearest = group[group.kind == "neighbour"].change.max()
        assert nearest == pytest.approx(own.change.iloc[0], rel=1e-12)
    two = tables["bay-fig1"].set_index(["case", "candidate"]).change
    farthest = max(by_integral([57, 54], v) for v in ([58, 53], [56, 55]))
    assert two["Beta(7, 4), x = (50, 50)", "50 50"] == pytest.approx(farthest, rel=1e-6)
    # At some other candidate, by the definition: counts (60, 40).
    change = max(
        abs(by_integral([57, 54], [67, 44]) - by_integral(v, [67, 44]))
        for v in ([58, 53], [56, 55])
    )
    assert two["Beta(7, 4), x = (50, 50)", "60 40"] == pytest.approx(change, rel=1e-5)


# Figures 2 to 4 ---------------------------------------------------------------------------------


def means(table, n, place, loss="hellinger"):
    some = table[(table.n == n) & (table.place == place) & (table.loss == loss)]
    return some.set_index("mechanism")["mean"]


@pytest.mark.slow
def test_figure_2_has_the_known_certificates_and_errors(tables) -> None:
    table = tables["bay-fig2"]
    certified = table[table.n == 500].groupby("mechanism").certified.first()
    known = {"global": 0.25621, "local": 0.37596, "smooth": 0.31973, "Laplace": 0.5}
    for kind, epsilon in known.items():
        assert certified[kind] == pytest.approx(epsilon, abs=5e-6)
    assert 0.4999 < certified["certified"] <= 0.5
    error = means(table, 500, "middle")
    for kind, value in (("global", 0.832), ("local", 0.146), ("smooth", 0.146)):
        assert error[kind] == pytest.approx(value, abs=5e-4)
    assert error["certified"] == pytest.approx(0.068, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("bay-fig2", 500), ("bay-fig2", 300), ("bay-fig3", 100)])
def test_global_sensitivity_is_worst_and_noise_best_at_the_edge(tables, name, n) -> None:
    middle, edge = means(tables[name], n, "middle"), means(tables[name], n, "edge")
    assert middle["global"] == middle.max()
    assert middle["certified"] < middle["smooth"] / 2
    assert edge["Laplace"] == edge.min()
    assert edge["Laplace"] < edge.drop("Laplace").min() / 3


@pytest.mark.slow
def test_laplace_errors_by_simulation(tables) -> None:
    """100,000 draws against 2,000: a standard error of 2 %, of which five are allowed."""
    rng = np.random.default_rng(0)
    noisy = np.clip(250 + rng.laplace(scale=4, size=(100_000, 2)), 0, 500) + np.array([7, 4])
    expected = hellinger(np.array([257, 254]), noisy)
    row = tables["bay-fig2"].query("n == 500 and place == 'middle' and mechanism == 'Laplace'")
    assert row["mean"].iloc[0] == pytest.approx(expected.mean(), rel=0.1)
    assert row.q50.iloc[0] == pytest.approx(np.median(expected), rel=0.15)
    # Half the noise, a neighbour that adds or removes a record, would be seen.
    noisy = np.clip(250 + rng.laplace(scale=2, size=(100_000, 2)), 0, 500) + np.array([7, 4])
    assert row["mean"].iloc[0] > 1.3 * hellinger(np.array([257, 254]), noisy).mean()


def test_quantiles_of_exponential_mechanisms_are_those_of_their_law() -> None:
    """A coin thrown twice, prior (1, 1): every number by hand, for global sensitivity."""
    table = accuracy(True, prior=(1.0, 1.0), sizes=(2,), epsilon=3.0, figure=0)
    row = table.query("mechanism == 'global' and place == 'middle' and loss == 'hellinger'")
    near = by_integral([2, 2], [1, 3])  # of both other candidates
    sensitivity = max(near, by_integral([3, 1], [2, 2]))
    weight = np.exp(-3 * near / (2 * sensitivity))
    chance = 2 * weight / (1 + 2 * weight)
    assert row["mean"].iloc[0] == pytest.approx(chance * near, rel=1e-6)
    expected = [0 if level < 1 - chance else near for level in (0.05, 0.25, 0.5, 0.75, 0.95)]
    quantiles = row[["q5", "q25", "q50", "q75", "q95"]].to_numpy()[0]
    np.testing.assert_allclose(quantiles, expected, atol=1e-6)


@pytest.mark.slow
def test_the_printed_sensitivities(tables) -> None:
    numbers = pd.concat([tables["bay-fig3"], tables["bay-fig4"]])
    numbers = numbers[numbers.loss == "sensitivity"].pivot(
        index="n", columns="mechanism", values="mean"
    )
    with_2n = numbers["beta, 2n"]
    assert with_2n[100] == pytest.approx(0.0699407108115, abs=5e-14)
    assert with_2n[120] == pytest.approx(0.0677791100173, abs=5e-14)
    assert abs(with_2n[150] - 0.0677791100173) > 1e-3  # printed for 150, copied from 120
    assert (numbers["beta, 2(n + 1)"] < with_2n).all()
    np.testing.assert_allclose(numbers["global"], 0.233629480709, atol=5e-13)
    np.testing.assert_allclose(numbers["global, below the prior"], 0.239992747797, atol=5e-13)
    # Smooth is above local only where local is far above what is printed for it.
    assert (numbers["least local with smooth above"] > 0.0945).all()
    assert numbers["local"][100] == pytest.approx(0.08, abs=0.005)
    assert numbers["local"][120] < 0.08


@pytest.mark.slow
def test_local_costs_more_than_its_epsilon_and_smooth_less(tables) -> None:
    for name in ("bay-fig3", "bay-fig4"):
        certified = tables[name].groupby("mechanism").certified.first()
        assert certified["local"] > 0.8
        assert certified["smooth"] < 0.6
        assert certified["global"] < 0.41


@pytest.mark.slow
def test_figure_4_ranks_by_both_distances_alike(tables) -> None:
    by_h = means(tables["bay-fig4"], 150, "middle")
    by_l1 = means(tables["bay-fig4"], 150, "middle", "l1")
    assert by_h.sort_values(kind="stable").index.tolist() == (
        by_l1.sort_values(kind="stable").index.tolist()
    )
    # Three Laplace variables of scale 2.5 each have the mean absolute value 2.5.
    assert by_l1["Laplace"] == pytest.approx(7.5, rel=0.1)
