"""Make the numbers and the pictures of docs/epsilon.md, and the points of docs/epsilon.html.

Run with ``python docs/make/epsilon.py``; it takes a minute or two. Pass names of tables,
such as ``guesses``, to make those alone.
"""

import json
import re

import numpy as np
import pages
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from privrl.accounting import RdpAccountant
from privrl.costs import DirichletCost, GaussianCost, Relation, ReplaceRecord
from privrl.costs.conversion import rdp_to_epsilon
from privrl.experiments import Method, SweepSpec, run_sweep
from privrl.experiments.palette import GREEN, GREY, VERMILION, WINE, colour
from privrl.experiments.reports.promise import best_guess
from privrl.numerics.printing import up, up_to_places
from privrl.numerics.special import FloatArray

DELTA = 1e-5
RARE = 0.01  # believed of somebody beforehand, where it is not one half
SHOWN = (0.1, 1.0, 10.0)
#: Budgets of order 2 whose (epsilon, DELTA) lie below .01 and above 10, and all between.
MEASURED = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)
#: One Gaussian release of what changes by 1, as counts with noise are for a whole run.
ONE = Relation("change one count by 1", {"counts": [(1,)]})


def main() -> None:
    """Write the pictures, the tables between the markers of the page, and the slider's points."""
    pages.main("epsilon.md", {"guesses": _guesses, "measured": _measured})
    pages.fill(pages.DOCS / "epsilon.html", {"points": _points})
    for name, picture in (("guess", _guess_picture), ("units", _units), ("turned", _turned)):
        pages.save(picture(), pages.IMAGES / f"epsilon_{name}.png")


def belief(epsilon: float) -> float:
    """Return the largest belief in a `RARE` fact after the release, without delta.

    A likelihood ratio of at most ``exp(epsilon)`` multiplies the odds (Bayes).
    """
    odds = RARE / (1 - RARE) * np.exp(epsilon)
    return float(odds / (1 + odds))


# Tables ---------------------------------------------------------------------------------------


def _guesses() -> str:
    rows = [
        (
            f"{epsilon:g}",
            up(np.exp(epsilon)) if epsilon < 5 else f"{np.ceil(np.exp(epsilon)):,.0f}",
            _percent(best_guess(epsilon, DELTA)),
            _percent(belief(epsilon)),
        )
        for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
    ]
    header = (
        f"ε, at δ = {DELTA:g} | odds grow by a factor of at most | best guess, from 50 % | "
        "largest belief, from 1 %"
    )
    return pages.table(header, rows)


def _measured() -> str:
    results = run_sweep(
        SweepSpec(methods=(Method(),), epsilons=MEASURED, renyi_order=2.0, runs=100)
    ).results
    cells = results.groupby("epsilon")
    rows = [
        (
            f"{order_2:g}",
            up(cell["epsilon_delta"].max()),
            _percent(best_guess(cell["epsilon_delta"].max(), DELTA)),
            _percent((1 + float(_gaussian(order_2).delta(0.0))) / 2),
            f"{cell['optimal_share'].mean():.3f} ± {1.96 * cell['optimal_share'].sem():.3f}",
        )
        for order_2, cell in cells
    ]
    header = (
        f"order 2 | ε, at δ = {DELTA:g} | best guess by (ε, δ) | best guess against the noise "
        "itself | reward kept"
    )
    return pages.table(header, rows)


def _points() -> str:
    """Return (epsilon, reward kept) from the page, so that both agree."""
    row = r"^\| [\d.e-]+ \| ([\d.]+) \| .* \| ([\d.]+) ± [\d.]+ \|$"
    found = re.findall(row, (pages.DOCS / "epsilon.md").read_text(), re.M)
    points = [[float(epsilon), float(reward)] for epsilon, reward in found]
    return f'<script type="application/json" id="points">{json.dumps(points)}</script>'


def _percent(chance: float) -> str:
    return f"{up_to_places(100 * chance, 1)} %"


def _gaussian(order_2: float) -> GaussianCost:
    """Return the cost of one release with just so much noise that order 2 has this divergence."""
    return GaussianCost(relation=ONE, sigma=1 / np.sqrt(order_2))


# Pictures -------------------------------------------------------------------------------------


def _finish(axes: Axes, title: str, legend: str) -> None:
    axes.set_title(title, loc="left", fontsize="medium")
    axes.legend(frameon=False, loc=legend)
    axes.grid(alpha=0.25)


def _guess_picture() -> Figure:
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    epsilons = np.union1d(np.geomspace(0.01, 20, 200), SHOWN)
    lines = (
        ("from 50 %: share of right guesses", WINE, "-o", 0.5, 9),
        ("from 1 %: belief after the release", VERMILION, "--s", RARE, -17),
    )
    for label, ink, line, before, last in lines:
        chance = belief if before == RARE else (lambda e: best_guess(e, DELTA))
        shares = [100 * chance(e) for e in epsilons]
        marked = [int(abs(epsilons - e).argmin()) for e in SHOWN]
        axes.axhline(100 * before, color=GREY, lw=1, ls=":")
        axes.plot(epsilons, shares, line, color=ink, lw=2, ms=7, markevery=marked, label=label)
        for epsilon in SHOWN:
            away = last if epsilon == SHOWN[-1] else 9
            axes.annotate(
                _percent(chance(epsilon)), (epsilon, 100 * chance(epsilon)), (-8, away),
                textcoords="offset points", ha="right" if away > 0 else "left", color=ink,
            )  # fmt: skip
    axes.set(xscale="log", xlim=(0.01, 20), ylim=(-3, 112), yticks=range(0, 101, 25))
    axes.set_xlabel(f"ε of all releases (nats), δ = {DELTA:g}")
    axes.set_ylabel("upper bound for the attacker (%)")
    _finish(
        axes,
        "What an attacker can learn about one yes-or-no fact of one privacy unit",
        "upper left",
    )
    return figure


def _units() -> Figure:
    """Draw one person's stays in a hospital, and boxes around what each unit protects."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    for stay, (first, days) in enumerate(((0.0, 5), (6.6, 4), (12.2, 6))):
        places = first + np.arange(days)
        axes.plot(places, np.zeros(days), "-o", color=GREY, ms=9, lw=1.5, zorder=3)
        axes.text(places.mean(), -0.8, f"stay {stay + 1}", ha="center", va="top")
    boxes = (
        ((1.55, -0.55), (0.9, 1.1), WINE, "-", "a step: one day,\nits action and reward"),
        ((6.0, -0.55), (4.2, 1.1), GREEN, "--", "an episode:\none whole stay"),
        ((-0.9, -1.5), (19.0, 2.7), VERMILION, "-.", "a person: all of Anna's stays"),
    )
    for corner, size, ink, line, _ in boxes:
        axes.add_patch(
            FancyBboxPatch(
                corner, *size, boxstyle="round,pad=0.1", fill=False, ec=ink, ls=line, lw=2.5
            )
        )
    for (x, y), at, (_, _, ink, _, words) in (
        ((2.0, 0.65), (2.0, 1.9), boxes[0]),
        ((8.1, 0.65), (8.1, 1.9), boxes[1]),
        ((15.0, 1.3), (15.0, 1.9), boxes[2]),
    ):
        axes.annotate(
            words, (x, y), at, ha="center", va="bottom", color=ink, fontsize="large",
            arrowprops={"arrowstyle": "-", "color": ink, "lw": 1.5},
        )  # fmt: skip
    axes.set(xlim=(-1.4, 18.6), ylim=(-1.8, 3.3))
    axes.set_title("What each privacy unit protects of one person's data", loc="left")
    axes.axis("off")
    return figure


def _turned() -> Figure:
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    asked = np.geomspace(1e-3, 20, 60)
    alone = [float(rdp_to_epsilon(np.array([2.0]), np.array([e]), DELTA)) for e in asked]
    noise = [float(_gaussian(e).epsilon(DELTA)) for e in asked]
    draws = _draws()
    axes.plot(asked, alone, ":", color=GREY, lw=2, label="from order 2 alone")
    axes.plot(*draws, "--", color=colour("diffuse"), lw=2, label="Dirichlet draws, 38 with prior 5")
    axes.plot(asked, noise, "-", color=colour("gaussian"), lw=2, label="counts with Gaussian noise")
    for order_2 in (0.01, 0.1, 1.0, 10.0):
        at = order_2, float(_gaussian(order_2).epsilon(DELTA))
        axes.plot(*at, "o", color=colour("gaussian"), ms=7)
        axes.annotate(
            up(at[1], 3), at, (6, -14), textcoords="offset points", color=colour("gaussian"),
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(1e-3, 20), ylim=(0.05, 60))
    axes.set_xlabel("Rényi ε of order 2 (nats), as with --renyi-order 2")
    axes.set_ylabel(f"ε at δ = {DELTA:g} (nats), the usual form")
    _finish(axes, "The same runs in both forms, with the same privacy unit", "lower right")
    return figure


def _draws() -> tuple[list[float], list[float]]:
    """Return what 38 Dirichlet draws cost at order 2, and at `DELTA`, for many weights."""
    orders: FloatArray = np.array([2.0])
    second, paired = [], []
    for weight in np.geomspace(0.01, 3, 25):
        cost = DirichletCost(weight=float(weight), alpha=5.0, relation=ReplaceRecord())
        accountant = RdpAccountant()
        accountant.compose(cost, 38)
        second.append(38 * float(cost.rdp(orders)[0]))
        paired.append(float(accountant.epsilon(DELTA)))
    return second, paired


if __name__ == "__main__":
    main()
