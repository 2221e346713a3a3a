"""Pictures of a training run say what they show."""

import io

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from privrl.agents import Policy
from privrl.agents.methods import Method
from privrl.envs.labels import action_names, grid_of
from privrl.envs.worth import Worth
from privrl.experiments.palette import LOOKS
from privrl.experiments.training.plots import learning_figure, policy_figure
from privrl.files.files import figure_writer

LAKE = gym.make("FrozenLake-v1")


def texts(axes) -> list[str]:
    return [each.get_text() for each in axes.texts if each.get_text()]


def test_a_policy_has_a_colour_for_each_action_it_takes() -> None:
    policy = Policy(actions=[[0, 1, -1], [2, 1, 1]], n_actions=4, first_action=3)
    (axes,) = policy_figure(policy).axes
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["any", "3", "4", "5"]
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), policy.actions)
    colours = {tuple(each.get_facecolor()) for each in axes.get_legend().get_patches()}
    drawn = {tuple(image.cmap(image.norm(action))) for action in (-1, 0, 1, 2)}
    assert colours == drawn


def test_a_map_has_an_arrow_in_each_free_cell() -> None:
    policy = Policy.of(np.zeros((100, 16), int), 4, LAKE)
    figure = policy_figure(policy, grid_of(LAKE))
    ground, table = figure.axes
    assert sorted(texts(ground)) == ["goal", "hole", "hole", "hole", "hole", "start"]
    arrows = [each for each in ground.texts if getattr(each, "arrow_patch", None)]
    assert len(arrows) == 11
    assert all(each.xy[0] < each.xyann[0] and each.xy[1] == each.xyann[1] for each in arrows)
    assert table.get_xlabel() == "state"


def test_a_learning_curve_says_that_it_is_not_private() -> None:
    record = pd.DataFrame(
        {"episode": [0, 1, 3], "episodes": [1, 2, 1], "reward": [1.0, 4.0, 5.0], "draws": [0, 1, 1]}
    )
    (axes,) = learning_figure(record, Worth(4.0, 6.0, 0.5), "Lake-v0").axes
    assert "NOT PRIVATE" in axes.get_title()
    curve, *lines, draws = axes.lines
    assert curve.get_ydata().tolist() == [1, 2, 2, 5]
    assert curve.get_xdata().tolist() == [1, 2, 3, 4]
    assert [line.get_ydata()[0] for line in lines] == [4.0, 6.0, 0.5]
    assert draws.get_xdata().tolist() == [2]
    labels = [each.get_text() for each in axes.get_legend().get_texts()]
    assert "the best there is, without privacy: 6" in labels
    (bare,) = learning_figure(record, None, "Lake-v0").axes
    assert len(bare.lines) == 2


def test_a_learning_curve_goes_into_a_panel_of_ones_own_in_its_methods_colour() -> None:
    record = pd.DataFrame({"episode": [0], "episodes": [4], "reward": [4.0], "draws": [0]})
    mine, other = Figure().subplots(1, 2)
    method = Method(agent="ucbvi")
    assert learning_figure(record, None, "Lake-v0", method, ax=mine) is mine.get_figure()
    assert (mine.lines[0].get_color(), mine.lines[0].get_marker()) == LOOKS["ucbvi"][:2]
    assert not other.lines


@pytest.mark.parametrize(
    ("name", "names", "grid"),
    [
        ("FrozenLake-v1", ("left", "down", "right", "up"), ("SFFF", "FHFH", "FFFH", "HFFG")),
        ("CliffWalking-v1", ("up", "right", "down", "left"),
         (" " * 12, " " * 12, " " * 12, f"S{'C' * 10}G")),
        ("privrl.envs:privrl/RiverSwim-v0", ("left", "right"), None),
        ("Taxi-v4", ("down", "up", "right", "left", "pick up", "drop off"), None),
    ],
)  # fmt: skip
def test_labels(name: str, names: tuple[str, ...], grid: tuple[str, ...] | None) -> None:
    env = gym.make(name)
    assert action_names(env, len(names)) == names
    assert action_names(env, len(names) + 1) is None
    assert grid_of(env) == grid


def test_names_are_what_actions_do() -> None:
    """Where each of FrozenLake's and CliffWalking's actions leads, if nothing slips."""
    moves = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
    for env in (gym.make("FrozenLake-v1", is_slippery=False), gym.make("CliffWalking-v1")):
        columns = len(grid_of(env)[0])
        here = columns + 2 if columns > 4 else 9
        for action, name in enumerate(action_names(env, 4)):
            ((_, there, _, _),) = env.unwrapped.P[here][action]
            down, right = moves[name]
            assert there == here + down * columns + right


def test_an_environment_names_its_own_actions() -> None:
    env = gym.make("FrozenLake-v1")
    env.unwrapped.action_names = ["w", "s", "e", "n"]
    assert action_names(env, 4) == ("w", "s", "e", "n")
    assert action_names(None, 4) is None


def test_notebooks_show_pictures_as_files_have_them() -> None:
    """Whether or not pyplot, which tells notebooks how, is loaded."""
    figure = policy_figure(Policy(actions=[[0, 1]], n_actions=2))
    png, said = figure._repr_png_()
    file = io.BytesIO()
    figure_writer(figure)(file)
    assert png == file.getvalue()
    assert png.startswith(b"\x89PNG")
    assert said == {"width": 640}
