"""The figures that no paper has, at their quick sizes."""

import math
import re
import sys

import numpy as np
import pandas as pd
import pytest
from picture_checks import check_picture
from scipy.special import betaln, polygamma

from privrl.experiments.figures import FIGURES

IDS = ("ours-frontier", "ours-exact", "ours-schedule", "ours-users")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(IDS[0], marks=pytest.mark.slow), *IDS[1:]])
def test_picture_and_caption(tables, name) -> None:
    check_picture(FIGURES[name], tables[name])
    caption = FIGURES[name].caption(tables[name])
    assert caption.startswith("No paper ")
    assert caption.endswith(".")
    assert not re.search(r"\b(nan|inf|None)\b|  ", caption)
    assert len(re.findall(r"\d", caption)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours-schedule", "ours-users"])
def test_computed_again_it_is_the_same(tables, name) -> None:
    pd.testing.assert_frame_equal(FIGURES[name].compute(True), tables[name])


@pytest.mark.slow
def test_frontier_noisy_counts_before_windowed_draws_before_draws_every_episode(tables) -> None:
    """600 episodes, four runs; the gaps are tens of standard errors."""
    table = tables["ours-frontier"]
    kept = table.groupby(["method", "epsilon"]).optimal_share.mean()
    noisy = kept["noisy-counts, geometric:1.05"]
    window = kept["diffuse, geometric:1.2, window 16"]
    every = kept["diffuse, every-episode"]
    assert noisy[1.0] > window[1.0] + 0.2 > every[1.0] + 0.4
    assert noisy[0.01] > window[0.01] + 0.3
    assert window[1.0] > kept["concentrated, geometric:1.2, window 16"][1.0] + 0.2
    assert kept["local-counts, geometric:1.1"][0.01] < 0.5 * noisy[0.01]
    assert kept["random policy"][math.inf] < 0.02
    assert kept["PSRL without privacy, geometric:1.05"][math.inf] > noisy[1.0] - 0.02
    private = table[np.isfinite(table.epsilon)]
    assert (private.spent <= private.epsilon * (1 + 1e-9)).all()
    assert (private.relation == "replace-step").all()


@pytest.mark.slow
def test_exact_accounting_of_one_draw(tables) -> None:
    table = tables["ours-exact"]
    for row in table[table.panel == "rdp"].itertuples():
        a = row.at
        assert row.exact == pytest.approx(betaln(a + 2, a - 1) - betaln(a + 1, a), rel=1e-9)
        if row.curve == "DPS, Theorem 2 or 4":
            assert row.epsilon == pytest.approx(2 * polygamma(1, a - 1), rel=1e-9)
        if row.curve == "DKL, Theorem 1":
            assert math.isinf(row.epsilon) == (a < 2)
    assert (table.epsilon >= table.exact * (1 - 1e-12)).all()
    delta = table[(table.panel == "delta") & (table.curve == "DPS, Theorem 2 or 4")]
    ratios = (delta.epsilon / delta.exact).to_numpy()
    assert (np.diff(ratios) < 0).all()
    assert ratios[0] > 2
    assert 1.2 < ratios[-1] < 1.3


@pytest.mark.slow
def test_exact_accounting_needs_loss_distributions(monkeypatch) -> None:
    """A conversion of Rényi divergences is not to be called exact."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"privrl\[pld\]"):
        FIGURES["ours-exact"].compute(True)


@pytest.mark.slow
def test_exact_accounting_of_65_draws(tables) -> None:
    """Numbers that were found by another program, to two digits after the point."""
    table = tables["ours-exact"]
    found = table[(table.panel == "composed") & (table["at"] == 65)].set_index("curve").epsilon
    expected = {
        "exact, loss distributions": 3.08,
        "exact, Rényi": 3.34,
        "DPS, Theorem 2 or 4": 3.59,
        "DPS, order 2 only": 10.69,
    }
    assert found.to_dict() == pytest.approx(expected, abs=6e-3)


@pytest.mark.slow
def test_draws_have_a_best_number_and_noisy_counts_do_not_mind(tables) -> None:
    """1000 episodes, five runs, at ε = 1."""
    table = tables["ours-schedule"]
    kept = table.groupby(["method", "epsilon", "draws"]).optimal_share.mean()
    diffuse = kept["diffuse", 1.0]
    assert list(diffuse.index) == [5, 32, 181, 1000]
    assert diffuse.idxmax() == 32
    assert diffuse[32] > 1.3 * diffuse[181] > 2 * diffuse[1000]
    noisy = kept["noisy counts", 1.0]
    assert noisy[181] > 0.95
    assert noisy[181] > noisy[32] - 0.02
    assert kept["without privacy", math.inf][5] < 0.7 < kept["without privacy", math.inf][32]


@pytest.mark.slow
def test_more_users_lose_less(tables) -> None:
    """Five runs of 1000, 100,000 and 10,000,000 users."""
    table = tables["ours-users"]
    assert (table.relation == "replace-episode").all()
    kept = table.groupby(["method", "epsilon", "episodes"]).optimal_share.mean()
    for method in ("nothing public", "public: possible next states"):
        for epsilon in (0.1, 1.0):
            lost = 1 - kept[method, epsilon]
            assert lost[1_000] > 5 * lost[100_000]
            assert lost[10_000_000] < 0.01
    assert kept["nothing public", 1.0, 1_000] > kept["nothing public", 0.1, 1_000] + 0.2
    known = kept["public: possible next states", 0.1]
    assert known[1_000] > kept["nothing public", 0.1, 1_000]
    assert abs(1 - kept["without privacy", math.inf, 10_000_000]) < 2e-3
