"""Pictures of a training run: the policy, and what was earned on the way to it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from privrl.agents.methods import Method
from privrl.agents.policies import Policy
from privrl.envs.worth import Worth
from privrl.experiments.palette import BLACK, COLOURS, GREY, Picture, learner

_PALE = "#D9D9D9"
_ARROWS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_LETTERS = {"H": "hole", "C": "cliff", "G": "goal"}
_DOTS = 60  # of a learning curve: means of as many episodes each
_MOST_NAMED = 12  # actions in a legend


def policy_figure(policy: Policy, grid: tuple[str, ...] | None = None) -> Figure:
    """Draw what a policy does: a colour for each action, by step and state.

    Parameters
    ----------
    policy : Policy
        The policy.
    grid : tuple of str, optional
        Rows of the map whose cells are the states: then also with arrows for the first step.

    Returns
    -------
    matplotlib.figure.Figure
    """
    arrows = grid is not None and set(policy.action_names or ()) == set(_ARROWS)
    figure = Picture(figsize=(9.6 if arrows else 6.4, 4.4), layout="constrained")
    panels = figure.subplots(1, 1 + arrows, squeeze=False)[0]
    _table(panels[-1], policy)
    if arrows and grid is not None:
        _map(panels[0], policy, grid)
    figure.suptitle(f"What the policy does in {policy.env or 'its environment'}", fontweight="bold")
    return figure


def _table(axes: Axes, policy: Policy) -> None:
    used = np.unique(policy.actions)
    colours = _colours(policy.n_actions)
    first = policy.first_state - 0.5
    axes.imshow(
        policy.actions, cmap=ListedColormap([_PALE, *colours]), vmin=-1.5,
        vmax=policy.n_actions - 0.5, aspect="auto", interpolation="nearest",
        extent=(first, first + policy.n_states, policy.horizon - 0.5, -0.5),
    )  # fmt: skip
    axes.set_xlabel("state")
    axes.set_ylabel("step of the episode (the first is 0)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    shown = used[:_MOST_NAMED].tolist()
    patches = [
        Patch(color=_PALE if action < 0 else colours[action], label=policy.action_name(action))
        for action in shown
    ]
    title = "action" if len(used) == len(shown) else f"{len(shown)} of {len(used)} actions"
    axes.legend(
        handles=patches, title=title, loc="upper left", bbox_to_anchor=(1, 1), frameon=False
    )


def _colours(number: int) -> list[str]:
    """Return as many colours; beyond those that all eyes tell apart, some come again."""
    return [COLOURS[each % len(COLOURS)] for each in range(number)]


def _map(axes: Axes, policy: Policy, grid: tuple[str, ...]) -> None:
    assert policy.action_names is not None
    colours = _colours(policy.n_actions)
    for state, letter in enumerate("".join(grid)):
        y, x = divmod(state, len(grid[0]))
        if letter in _LETTERS:
            axes.text(
                x, y, _LETTERS[letter], ha="center", va="center", color=GREY, fontsize="small"
            )
            continue
        action = int(policy.actions[0, state])
        if action < 0:
            axes.text(x, y, "any", ha="center", va="center", color=GREY, fontsize="small")
            continue
        right, down = (0.32 * each for each in _ARROWS[policy.action_names[action]])
        arrow = {"arrowstyle": "-|>", "color": colours[action], "lw": 2, "mutation_scale": 14}
        axes.annotate("", (x + right, y + down), (x - right, y - down), arrowprops=arrow)
        if letter == "S":
            axes.text(
                x - 0.45, y - 0.45, "start", ha="left", va="top", color=GREY, fontsize="x-small"
            )
    axes.set_xlim(-0.5, len(grid[0]) - 0.5)
    axes.set_ylim(len(grid) - 0.5, -0.5)
    axes.set_xticks(np.arange(len(grid[0]) + 1) - 0.5, [])
    axes.set_yticks(np.arange(len(grid) + 1) - 0.5, [])
    axes.grid(color=_PALE)
    axes.tick_params(length=0)
    axes.set_aspect("equal")
    axes.set_title("at the first step of an episode", fontsize="medium")


def learning_figure(
    record: pd.DataFrame,
    worth: Worth | None,
    env: str,
    method: Method | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw what an agent earned while it learned: the researcher's view, not private.

    The record is of a single run, see `privrl.experiments.train`; ``worth`` is that of the final
    policy, the optimum and chance. The method (by default `privrl.experiments.Method`'s own) has a
    colour. Without ``ax``, the picture is drawn in a new figure.
    """
    method = Method() if method is None else method
    colour, marker, _ = learner(method.agent, method.sampler)
    axes = Picture(figsize=(7.2, 4.4), layout="constrained").subplots() if ax is None else ax
    episodes = record["episodes"].to_numpy()
    reward = np.repeat(record["reward"].to_numpy() / episodes, episodes)
    parts = np.array_split(np.arange(len(reward)), min(_DOTS, len(reward)))
    middle = [part.mean() + 1 for part in parts]
    mean = [reward[part].mean() for part in parts]
    size = -(-len(reward) // len(parts))
    label = "while learning" + (f": means of {size} episodes" if size > 1 else "")
    axes.plot(middle, mean, marker=marker, color=colour, ms=4, lw=1.2, label=label)
    if worth is not None:
        for value, ink, style, name in (
            (worth.policy, colour, "-.", "the policy in the end"),
            (worth.optimum, BLACK, "--", "the best there is, without privacy"),
            (worth.random, GREY, ":", "random actions"),
        ):
            axes.axhline(value, color=ink, ls=style, lw=1.6, label=f"{name}: {value:.4g}")
    draws = record["episode"][record["draws"].diff().fillna(record["draws"]) > 0] + 1
    axes.plot(
        draws, np.zeros(len(draws)), "|", color=GREY, ms=9, clip_on=False,
        transform=axes.get_xaxis_transform(), label=f"releases: {len(draws)}",
    )  # fmt: skip
    axes.set_xlabel("episode")
    axes.set_ylabel("reward of an episode")
    axes.set_xlim(0, len(reward) + 1)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_title(
        f"What was earned in {env}\nNOT PRIVATE: the guarantee is about the policy alone",
        fontsize="medium",
    )
    axes.legend(
        loc="upper left", bbox_to_anchor=(0, -0.14), ncols=2, frameon=False, fontsize="small"
    )
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure
