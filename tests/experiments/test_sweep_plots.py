"""Pictures of a sweep, by what is drawn on them."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from privrl.agents.methods import Method
from privrl.experiments.palette import BLUE, GREY
from privrl.experiments.sweeps import SweepSpec, plots
from privrl.experiments.sweeps.sweep import SweepResult

NOISY, DIFFUSE, FREE = Method(), Method(sampler="diffuse"), Method(sampler="non-private")
SPEC = SweepSpec(methods=(FREE, NOISY, DIFFUSE), epsilons=(0.1, 1.0), episodes=100, runs=2)
EPISODES = np.array([50.0, 100.0])


def found(optimum: float = 4.0) -> SweepResult:
    """Two runs of each; at 1 without privacy, at a half and three quarters else."""
    rows, curves = [], []
    for method in SPEC.methods:
        for epsilon, share in ((0.1, 0.5), (1.0, 0.75)) if method.is_private else ((np.inf, 1.0),):
            for run in (0, 1):
                total = optimum * 100 * share + run
                rows.append(
                    {"method": method.label, "agent": method.agent, "sampler": method.sampler,
                     "epsilon": epsilon, "spent": epsilon, "epsilon_delta": 4 * epsilon,
                     "run": run, "total_reward": total, "regret": optimum * 100 - total}
                )  # fmt: skip
            line = {"method": method.label, "epsilon": epsilon, "episode": EPISODES}
            line |= {"reward_per_episode": optimum * share, "standard_error": 0.1}
            curves.append(pd.DataFrame(line))
    return SweepResult(pd.DataFrame(rows), pd.concat(curves), optimum, 0.2)


def test_lines_are_named_at_their_ends_and_random_actions_are_shown() -> None:
    figure = plots.reward_against_epsilon(found(), SPEC)
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.texts]
    assert sorted(names) == sorted([*(m.label for m in SPEC.methods), "random actions"])
    assert not figure.legends
    lines = {str(line.get_label()): line for line in axes.lines}
    assert to_hex(lines[NOISY.label].get_color()).upper() == BLUE
    assert lines[NOISY.label].get_ydata() == pytest.approx([0.50125, 0.75125])
    assert lines["random actions"].get_ydata()[0] == pytest.approx(0.05)
    assert axes.get_position().x1 < 0.8


@pytest.mark.parametrize("draw", [plots.reward_against_epsilon, plots.regret_against_epsilon])
def test_a_picture_goes_into_a_panel_of_ones_own(draw) -> None:
    figure = Figure()
    mine, other = figure.subplots(1, 2)
    assert draw(found(), SPEC, ax=mine) is figure
    assert not other.lines
    assert not figure.get_suptitle()
    assert {m.label for m in SPEC.methods} <= {t.get_text() for t in mine.get_legend().get_texts()}


def test_learning_curves_have_what_they_are_compared_with() -> None:
    panels = plots.learning_curves(found(), SPEC).axes
    assert [axes.get_title() for axes in panels] == [NOISY.label, DIFFUSE.label]
    for axes in panels:
        lines = {str(line.get_label()): line for line in axes.lines}
        assert list(lines) == ["ε = 1", "ε = 0.1", FREE.label, "random actions"]
        assert lines[FREE.label].get_ydata() == pytest.approx([1.0, 1.0])
        assert to_hex(lines[FREE.label].get_color()).upper() == GREY
        assert lines["random actions"].get_ydata()[0] == pytest.approx(0.05)


def test_a_method_that_is_not_there_has_no_curve() -> None:
    with pytest.raises(ValueError, match=r"method must be one of 'PSRL without privacy.*'nothing'"):
        plots.learning_curve(found(), SPEC, "nothing", Figure().subplots())


def test_where_the_best_is_to_lose_little_rewards_are_drawn_as_they_are() -> None:
    (axes,) = plots.reward_against_epsilon(found(optimum=-2.0), SPEC).axes
    lines = {str(line.get_label()): line for line in axes.lines}
    assert axes.get_ylabel() == "reward per episode"
    assert lines["random actions"].get_ydata()[0] == pytest.approx(0.2)
    assert lines["optimum"].get_ydata()[0] == pytest.approx(-2.0)
