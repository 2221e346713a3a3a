"""DKL, Table 1 and Figures 4, 5, 9 and 10: naive Bayes on eight UCI data sets."""

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.data.datasets import NAMES, load
from privrl.data.schema import Categories
from privrl.experiments.figures.base import Figure, draw_table, legend, panels, told
from privrl.experiments.figures.dkl_fits import (
    GAUSSIAN,
    GAUSSIAN_SD,
    LAPLACE,
    LAPLACE_SD,
    budgets_axis,
    count,
    draw_panel,
    naive_bayes_fits,
)
from privrl.experiments.palette import GREY
from privrl.experiments.uci.data import commonest_share, split
from privrl.experiments.uci.jobs import AUTO, DELTA, DESIGNED, DKL, GOHARI, NONE, PRINTED, UNIFORM
from privrl.experiments.uci.run import half_widths, means

# Table 1 --------------------------------------------------------------------------------------

#: Instances, attributes, classes and per cent of positives, as printed.
PRINTED_TABLE: dict[str, tuple[int, int, int, int | None]] = {
    "CreditCard": (30000, 23, 2, 22),
    "Thyroid": (7200, 21, 3, None),
    "Shopper": (12330, 17, 2, 15),
    "Digit": (5620, 64, 10, None),
    "GermanCredit": (1000, 20, 2, 30),
    "Bank": (41188, 20, 2, 11),
    "Spam": (4601, 57, 2, 39),
    "Adult": (48842, 13, 2, 24),
}


def _compute_table(quick: bool) -> pd.DataFrame:
    del quick  # it takes a second
    rows = []
    for name in NAMES:
        data = load(name)
        *_, column = data.schema.columns.values()
        assert isinstance(column, Categories)
        shares = data.frame[data.target].value_counts(normalize=True)
        attributes, classes = len(data.schema.names) - 1, len(column.values)
        least, most = float(shares.min()), float(shares.max())
        rows.append((name, len(data.frame), attributes, classes, least, most))
    columns = ["data", "instances", "attributes", "classes", "rarest", "commonest"]
    return pd.DataFrame(rows, columns=columns)


def _draw_table(table: pd.DataFrame) -> Picture:
    rows = []
    for row in table.to_dict("records"):
        printed = PRINTED_TABLE[row["data"]]
        share = "" if printed[3] is None else f"{row['rarest']:.2%} ({printed[3]} %)"
        rows.append(
            (
                row["data"],
                *(f"{row[name]} ({printed[i]})" for i, name in enumerate(_COUNTED)),
                share,
                f"{row['commonest']:.2%}",
            )
        )
    return draw_table(
        ["data set", "instances", "attributes", "classes", "positive", "commonest\nclass"],
        rows,
        note="In parentheses: as printed. Positive is the rarer of two classes.\n"
        "Privacy unit of all that is made of them: replace one record.",
        widths=(1.3, 1.5, 1.2, 1.1, 1.5, 1.1),
    )


_COUNTED = ("instances", "attributes", "classes")


def _differences(table: pd.DataFrame) -> list[str]:
    """Return what differs from the printed table, in words."""
    found = []
    for row in table.to_dict("records"):
        name = row["data"]
        *numbers, percent = PRINTED_TABLE[name]
        found += [
            f"{name} has {row[what]} {what}, not {number}"
            for what, number in zip(_COUNTED, numbers, strict=True)
            if row[what] != number
        ]
        if percent is not None and round(100 * row["rarest"]) != percent:
            found.append(f"{name} has {row['rarest']:.1%} positives, not {percent} %")
    return found


def _caption_table(table: pd.DataFrame) -> str:
    differences = _differences(table)
    said = "; ".join(differences) if differences else "nothing differs"
    shares = table.set_index("data").commonest
    return told(
        "dkl-table1",
        said=said,
        thyroid=table.classes[table.data == "Thyroid"].iloc[0],
        digit=table.classes[table.data == "Digit"].iloc[0],
        shares=shares,
    )


DKL_TABLE1 = Figure("dkl-table1", _compute_table, _draw_table, _caption_table)


# Figures 4, 5, 9 and 10 -----------------------------------------------------------------------


def _compute(quick: bool, *, delta: float, what: str) -> pd.DataFrame:
    table = naive_bayes_fits(delta, quick).copy()
    return table if what == "cross_entropy" else with_commonest(table)


def with_commonest(table: pd.DataFrame) -> pd.DataFrame:
    """Add what always guessing the commonest class is right in, for each data set and split."""
    pairs = table[["data", "split"]].drop_duplicates().itertuples(index=False)
    shares = [(name, seed, commonest_share(split(name, seed))) for name, seed in pairs]
    return table.merge(pd.DataFrame(shares, columns=["data", "split", "commonest"]))


_COMMONEST = "always the commonest class"


def _draw(table: pd.DataFrame, *, what: str) -> Picture:
    wide = means(table, what)
    names = wide.index.unique("data")
    columns = min(4, len(names))
    picture, axes = panels(columns, -(-len(names) // columns))
    bars = half_widths(table, what)
    for each, name in zip(axes, names, strict=True):
        shown = wide.loc[name]
        if what == "cross_entropy":
            each.set(yscale="log", ylim=(0.7 * shown.min().min(), 4 * shown[UNIFORM].max()))
        else:  # what to beat is the commonest class, and not a guess
            shown = shown.drop(columns=UNIFORM)
            base = float(table.commonest[table.data == name].mean())
            each.axhline(base, color=GREY, ls=(0, (6, 2)), lw=1.4, label=_COMMONEST)
            ends = min(base, shown.min().min()), max(base, shown.max().max())
            each.set(ylim=(ends[0] - 0.02, ends[1] + 0.02))
        draw_panel(each, shown, bars.loc[name], name)
    picture.supylabel(
        "cross-entropy on the test part (nats)" if what == "cross_entropy" else "accuracy"
    )
    legend(picture, axes[0], "outside upper center", ncols=6, fontsize="small")
    picture.supxlabel(
        f"{budgets_axis(table)}; privacy unit: replace one record, in a set of public size"
    )
    return picture


def _setting(table: pd.DataFrame) -> str:
    adp = table.delta.iloc[0] > 0
    budget = f"(ε̂, {DELTA:g}) differential privacy" if adp else "(5, ε)-RDP"
    return (
        f"{table.data.nunique()} data sets, {table.split.nunique()} splits, ε from "
        f"{_budgets(table).min():g} to {_budgets(table).max():g}, {budget}; bins are deciles of "
        "the training part as in the paper, which is not private"
    )


def _budgets(table: pd.DataFrame) -> "pd.Series[float]":
    return table.epsilon[(table.epsilon > 0) & (table.epsilon < float("inf"))]


def _caption_losses(table: pd.DataFrame) -> str:
    wide = means(table, "cross_entropy")
    cut, raised = wide[[GAUSSIAN, LAPLACE]].min(axis=1), wide[[GAUSSIAN_SD, LAPLACE_SD]].min(axis=1)
    others = wide.drop(columns=[AUTO, NONE, UNIFORM])
    largest = wide.xs(_budgets(table).max(), level="epsilon")
    text = told(
        "dkl-losses",
        setting=_setting(table),
        below_cut=count(wide[DKL] < cut),
        below_raised=count(wide[DKL] < raised),
        designed=count(wide[DESIGNED] < raised),
        printed=largest[PRINTED].mean(),
        by_class=largest[DKL].mean(),
        auto=count(wide[AUTO] < wide[DKL]),
        best=count(wide[AUTO] < others.min(axis=1)),
        worst=(wide[AUTO] / wide[UNIFORM]).max(),
        beats_none=_beats_none(wide),
    )
    return text + (_gohari(wide, "loses") if GOHARI in wide.columns else "")


def _beats_none(wide: pd.DataFrame) -> str:
    better = wide[AUTO] < wide[NONE]
    if not better.any():
        return ""
    return (
        f"; in {count(better)} it is even below naive Bayes without privacy, which is too sure of "
        "itself, for auto lowers its certainty"
    )


def _gohari(wide: pd.DataFrame, verb: str) -> str:
    better = wide[DKL] < wide[GOHARI] if verb == "loses" else wide[DKL] > wide[GOHARI]
    noise = wide[LAPLACE] < wide[GAUSSIAN] if verb == "loses" else wide[LAPLACE] > wide[GAUSSIAN]
    return " " + told("dkl-gohari", better=count(better), noise=count(noise))


def _caption_accuracies(table: pd.DataFrame) -> str:
    wide = means(table, "accuracy")
    against = {name: count(wide[DKL] > wide[name]) for name in (GAUSSIAN, LAPLACE, GAUSSIAN_SD)}
    text = told("dkl-accuracies", setting=_setting(table), against=against, mean=wide.mean())
    claims: list[tuple[str, str, Callable[[float], bool]]] = [
        ("Digit", "for ε > 0.1", lambda e: e > 0.11),
        ("Adult", "for ε < 0.1", lambda e: e < 0.09),
        ("Bank", "for all ε", lambda e: True),
    ]
    if table.delta.iloc[0] == 0:
        text += " It names three data sets where the Dirichlet mechanism beats Gaussian noise"
        shown = [claim for claim in claims if claim[0] in wide.index.get_level_values("data")]
        for name, words, holds in shown:
            some = wide.loc[name]
            some = some[[holds(float(e)) for e in some.index]]
            text += f"; on {name} {words} it is so at {count(some[DKL] > some[GAUSSIAN])} ε"
        text += "." if shown else ", none of which is shown here."
    else:
        text += _gohari(wide, "is right")
    return text


def _figure(number: int, what: str, delta: float) -> Figure:
    return Figure(
        id=f"dkl-fig{number}",
        compute=partial(_compute, delta=delta, what=what),
        draw=partial(_draw, what=what),
        caption=_caption_losses if what == "cross_entropy" else _caption_accuracies,
    )


DKL_FIG4 = _figure(4, "cross_entropy", 0.0)
DKL_FIG5 = _figure(5, "accuracy", 0.0)
DKL_FIG9 = _figure(9, "cross_entropy", DELTA)
DKL_FIG10 = _figure(10, "accuracy", DELTA)
