"""Draw where actions lead in a released model, as text and as a picture."""

import unicodedata
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privrl.envs.released import Released
from privrl.numerics.printing import exact, up
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:  # it loads when a picture is drawn
    from matplotlib.axes import Axes

Step = tuple[int, int, float]
"""State, action, reward: what came last."""

_COLUMNS = 80
_MOST_ROWS, _MOST_STATES = 30, 14
_DPI, _WIDTH, _ROW = 100, 9.6, 0.30  # inches
_INK, _GREY, _PALE = "#222222", "#767676", "#D9D9D9"
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito: colour-blind eyes tell them apart


def ansi(released: Released, state: int, steps: int, last: Step | None) -> str:
    """Return a table of 80 columns: for each action, what it pays and where it leads.

    Parameters
    ----------
    released : Released
        What is played.
    state : int
        Where the episode is.
    steps : int
        How many steps it has had.
    last : tuple of (int, int, float), optional
        State, action and reward of the step that led here.
    """
    lines = [_heading(released, state, steps), _came_from(released, last), _promise(released)]
    if not released.mdp.ends[state]:
        lines += ["", *_action_lines(released, state)]
    return "".join(f"{_short(line, _COLUMNS)}\n" for line in lines)


def rgb_array(released: Released, state: int, steps: int, last: Step | None) -> NDArray[np.uint8]:
    """Return a picture: chances of next states by action, and what each action pays.

    Darker squares are likelier. The states that are likeliest under any action have a column, the
    others share one. Whiskers are a standard deviation of what noise leaves; actions that are not
    to be recommended are crossed out. All pictures of a model have one size.

    Parameters
    ----------
    released, state, steps, last
        See `ansi`.

    Returns
    -------
    array of uint8, shape (height, width, 3)

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    n_rows = min(released.mdp.n_actions, _MOST_ROWS)
    figure = Figure(figsize=(_WIDTH, 2.5 + _ROW * max(n_rows, 3)), dpi=_DPI, facecolor="white")
    canvas: Any = FigureCanvasAgg(figure)
    inch = 1 / figure.get_figheight()
    texts = (
        (_heading(released, state, steps), _INK, "bold", 13, 0.30),
        (_came_from(released, last), _INK, "normal", 10, 0.57),
        (_promise(released), _GREY, "normal", 9, 0.80),
    )
    for text, colour, weight, size, down in texts:
        figure.text(
            0.02, 1 - down * inch, _short(text, 100), color=colour, weight=weight, size=size,
            parse_math=False,
        )  # fmt: skip
    if released.mdp.ends[state]:
        figure.text(0.5, 0.4, "The episode is over here.", ha="center", size=14, color=_GREY)
    else:
        bottom, height = 0.62 * inch, 1 - 2.42 * inch
        _draw_chances(figure.add_axes((0.17, bottom, 0.52, height)), released, state)
        _draw_rewards(figure.add_axes((0.72, bottom, 0.25, height)), released, state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # of alphabets that the font lacks
        canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3].copy()


def _heading(released: Released, state: int, steps: int) -> str:
    label = released.state_label(state)
    named = "" if label == str(state) else f": {_short(label, 32)}"
    over = ", the episode is over" if released.mdp.ends[state] else ""
    return f"state {state}{named} (step {steps} of {released.mdp.horizon}){over}"


def _came_from(released: Released, last: Step | None) -> str:
    if last is None:
        return "the episode begins"
    state, action, reward = last
    where, what = released.state_label(state), released.action_label(action)
    return f"from {_short(where, 24)} by {_short(what, 24)}, paid {reward:.4g}"


def _promise(released: Released) -> str:
    statement = released.statement
    of = (
        f"delta {up(statement['delta'])}" if "delta" in statement
        else f"of Rényi order {exact(statement['order'])}"
    )  # fmt: skip
    return f"epsilon {up(statement['epsilon'])}, {of}; protects {statement['unit']}"


def _action_lines(released: Released, state: int) -> list[str]:
    reward = released.mdp.expected_reward[state]
    refused = _refused(released, state)
    deviations = released.deviations
    spread = "" if deviations is None else f" {'sd':>8}"
    lines = [f"  {'action':<18} {'reward':>10}{spread}  leads to"]
    for action in range(min(released.mdp.n_actions, _MOST_ROWS)):
        label = released.action_label(action)
        label = label if label == str(action) else f"{action} {label}"
        mark = "x" if refused[action] else " "
        spread = "" if deviations is None else f" {deviations[state, action]:8.3g}"
        line = f"{mark} {_filled(label, 18)} {reward[action]:10.4g}{spread}  "
        chances = released.mdp.transition[state, action]
        lines.append(line + _likeliest(released, chances, _COLUMNS - _width(line)))
    if released.mdp.n_actions > _MOST_ROWS:
        lines.append(f"  and {released.mdp.n_actions - _MOST_ROWS} more actions")
    if refused.any():
        lines.append("x: not to be recommended")
    return lines


def _likeliest(released: Released, chances: FloatArray, width: int) -> str:
    """Return as many next states as fit, the likeliest first."""
    shown = ""
    n_possible = int((chances > 0).sum())
    for rank, state in enumerate(np.argsort(-chances, kind="stable")[:n_possible]):
        label = _short(released.state_label(int(state)), 14)
        longer = f"{shown}{', ' if shown else ''}{_chance(chances[state])} {label}"
        left = n_possible - rank - 1
        if shown and _width(longer) + (len(f", +{left}") if left else 0) > width:
            return f"{shown}, +{left + 1}"
        shown = longer
    return shown


def _draw_chances(axes: "Axes", released: Released, state: int) -> None:
    """Draw a matrix: actions are rows, next states are columns."""
    table = released.mdp.transition[state, :_MOST_ROWS]
    shown = _columns(released.mdp.transition[state])
    labels = [_short(released.state_label(int(column)), 13) for column in shown]
    squares = table[:, shown]
    options: dict[str, Any] = {"vmin": 0, "edgecolors": "white", "linewidth": 1.5}
    axes.pcolormesh(squares, cmap="Blues", vmax=1, **options)
    if len(shown) < np.count_nonzero(released.mdp.transition[state].any(axis=0)):
        rest = np.delete(table, shown, axis=1).sum(axis=1)
        sides = np.arange(len(shown), len(shown) + 2), np.arange(len(table) + 1)
        axes.pcolormesh(*sides, rest[:, None], cmap="Greys", vmax=3, **options)
        squares, labels = np.column_stack([squares, rest]), [*labels, "others"]
    refused = _refused(released, state)[:_MOST_ROWS]
    for (row, column), chance in np.ndenumerate(squares):
        if chance > 0:
            axes.text(
                column + 0.5, row + 0.5, _chance(chance), ha="center", va="center",
                size=8, color=_ink_on(chance) if column < len(shown) else _INK,
            )  # fmt: skip
    names = [_short(released.action_label(action), 17) for action in range(len(table))]
    marked = [f"{name} ×" if no else name for name, no in zip(names, refused, strict=True)]
    slant: dict[str, Any] = {}
    if max(len(label) for label in labels) > 48 // len(labels):
        slant = {"rotation": 35, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(labels)) + 0.5, labels, size=9, parse_math=False, **slant)
    axes.set_yticks(np.arange(len(names)) + 0.5, marked, size=9, parse_math=False)
    for text, no in zip(axes.get_yticklabels(), refused, strict=True):
        text.set_color(_ORANGE if no else _INK)
    axes.set_ylim(len(table), 0)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_color(_PALE)
    words = "chance of the next state"
    more = released.mdp.n_actions - _MOST_ROWS
    words += f"; {more} more actions are not shown" if more > 0 else ""
    words += "; ×: not to be recommended" if refused.any() else ""
    axes.set_xlabel(words, size=9, color=_INK, labelpad=6)


def _draw_rewards(axes: "Axes", released: Released, state: int) -> None:
    """Draw what each action pays, and how far off noise may have put that."""
    reward = released.mdp.expected_reward[state, :_MOST_ROWS]
    refused = _refused(released, state)[:_MOST_ROWS]
    rows = np.arange(len(reward)) + 0.5
    colours = [_PALE if no else _BLUE for no in refused]
    spread = None if released.deviations is None else released.deviations[state, :_MOST_ROWS]
    axes.barh(
        rows, reward, height=0.55, color=colours, edgecolor=_BLUE, linewidth=0.8, xerr=spread,
        error_kw={"ecolor": _INK, "elinewidth": 1.2, "capsize": 2.5},
    )  # fmt: skip
    axes.axvline(0, color=_GREY, linewidth=0.8)
    axes.set_ylim(len(reward), 0)
    axes.set_yticks([])
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_formatter("{x:.3g}")
    axes.locator_params(axis="x", nbins=4)
    axes.spines[["top", "left", "right"]].set_visible(False)
    words = "expected reward" if spread is None else "expected reward; whiskers: sd of noise"
    axes.set_xlabel(words, size=9, color=_INK)


def _columns(table: FloatArray) -> IntArray:
    """Return the next states to show of the (A, S) chances: the likeliest, by their numbers."""
    most = table.max(axis=0)
    n_possible = int((most > 0).sum())
    likeliest = np.argsort(-most, kind="stable")[: min(n_possible, _MOST_STATES)]
    return np.sort(likeliest)


def _refused(released: Released, state: int) -> BoolArray:
    """Return which actions are not to be recommended."""
    if released.admissible is None:
        return np.zeros(released.mdp.n_actions, np.bool_)
    return ~released.admissible[state]


def _chance(chance: float) -> str:
    if chance < 0.005:
        return "<.01"
    return f"{chance:.2f}".removeprefix("0")


def _ink_on(chance: float) -> str:
    """Return a colour to be read on a square."""
    if chance > 0.55:
        return "white"
    return _INK if chance >= 0.05 else _GREY


def _width(text: str) -> int:
    """Return how many columns a text takes: letters of some alphabets take two, accents none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _short(text: str, width: int) -> str:
    """Return a text that takes so many columns at most."""
    if _width(text) <= width:
        return text
    kept = text[:width]
    while _width(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _filled(text: str, width: int) -> str:
    """Return a text that takes just so many columns."""
    text = _short(text, width)
    return text + " " * (width - _width(text))
