"""DPS's Figure 4 at its quick size: 300 episodes, 20 runs, ε = 0.1 and 10."""

import math

import numpy as np
import pandas as pd
import pytest
from picture_checks import check_caption, check_picture
from scipy.optimize import brentq
from scipy.special import polygamma

from privrl.experiments.figures import FIGURES

pytestmark = pytest.mark.slow  # the runs take most of the time of all tests of figures
FIGURE = FIGURES["dps-fig4"]
PAPER, SOUND = "paper-step", "replace-step"


@pytest.fixture(scope="module")
def table():
    return FIGURE.compute(True)


@pytest.fixture(scope="module")
def cells(table):
    return table.groupby(["relation", "method", "epsilon"]).first()


def test_picture_and_caption(table) -> None:
    check_picture(FIGURE, table)
    caption = check_caption(FIGURE, table)
    assert "not a guarantee" in caption
    titles = [axes.get_title() for axes in FIGURE.draw(table).axes]
    assert sum("NOT A GUARANTEE" in title for title in titles) == len(titles) / 2


def test_computed_again_it_is_the_same(table) -> None:
    pd.testing.assert_frame_equal(FIGURE.compute(True), table)


def test_diffuse_draws_are_ahead_of_concentrated_ones_and_behind_no_privacy(cells) -> None:
    """The paper's claim. Means of 20 runs, apart by four standard errors or more."""
    for relation in (PAPER, SOUND):
        diffuse = cells.loc[(relation, "diffuse", 10.0)]
        concentrated = cells.loc[(relation, "concentrated", 10.0)]
        free = cells.loc[(relation, "without privacy", math.inf)]
        for better, worse in ((free, diffuse), (diffuse, concentrated)):
            error = math.hypot(better.mean_error, worse.mean_error)
            assert better.mean_reward > worse.mean_reward + 4 * error
    more = cells.mean_reward[PAPER, "diffuse"]
    assert more[10.0] > 2 * more[0.1]


def test_sound_accounting_takes_reward_and_noisy_counts_give_it_back(cells) -> None:
    for epsilon in (0.1, 10.0):
        ours = cells.mean_reward[SOUND, "privrl's default", epsilon]
        assert ours > 2 * cells.mean_reward[PAPER, "diffuse", epsilon]
    for method in ("diffuse", "concentrated"):
        assert cells.mean_reward[SOUND, method, 10.0] < 0.9 * cells.mean_reward[PAPER, method, 10.0]


def test_what_is_spent_and_the_weight_and_prior_that_follow(cells) -> None:
    """(10) of the paper, solved here; exact accounting admits a little more."""
    for (_, method, epsilon), row in cells.iterrows():
        if method != "without privacy":
            assert epsilon + 0.5 - 1e-3 < row.spent <= epsilon + 0.5 + 1e-9
    for epsilon in (0.1, 10.0):
        each = epsilon / 300

        def over(r, each=each):
            return 4 * r**2 * polygamma(1, 10 - r) - each

        paper = cells.weight[PAPER, "diffuse", epsilon]
        by_10 = brentq(over, 1e-6, 9)
        assert by_10 < paper < 1.1 * by_10
        # In the limit of small weights the cost goes with the sum of squares, 6 for 4.
        sound = cells.weight[SOUND, "diffuse", epsilon] / paper
        assert sound == pytest.approx(math.sqrt(4 / 6), rel=0.03)
        prior = brentq(lambda a, each=each: 4 * polygamma(1, a - 1) - each, 2, 1e6)
        assert 0.98 * prior < cells.alpha[PAPER, "concentrated", epsilon] < prior


def test_optimum_and_the_means(table, cells) -> None:
    """Backward induction on the paper's river, written out here; curves average to the whole."""
    value = np.zeros(6)
    reward = np.array([0.005, 0, 0, 0, 0, 1.0])
    right = np.zeros((6, 6))
    right[0, :2] = 0.4, 0.6
    for s in range(1, 5):
        right[s, s - 1 : s + 2] = 0.05, 0.6, 0.35
    right[5, 4:] = 0.4, 0.6
    left = np.eye(6)[[0, 0, 1, 2, 3, 4]]
    for _ in range(30):
        value = np.maximum(left @ (reward + value), right @ (reward + value))
    assert table.optimum.unique() == pytest.approx([value[1]], abs=1e-9)
    whole = table.groupby(["relation", "method", "epsilon"]).reward_per_episode.mean()
    np.testing.assert_allclose(whole, cells.mean_reward.loc[whole.index], rtol=1e-9)
