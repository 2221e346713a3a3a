"""Make the tables of models in docs/results, and the pictures of docs/models.md.

Run with ``python docs/make/models.py``; it needs the data sets (PRIVRL_DATA, or a connection),
the extra ``models`` and a few minutes. Pass names of blocks, such as ``networks``, to make those
alone, and ``--redraw`` to use the fits kept in docs/numbers.
"""

import math
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import histogram_cells
import network_data
import numpy as np
import pages
import pandas as pd
import unseen_classifiers
import unseen_data
from classifier_rivals import RIVALS, Parts, scaled_descent
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar
from scipy.special import xlogy
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from privrl.accounting import ApproxDP, RenyiDP
from privrl.data import Bins, Categories, Schema
from privrl.data.datasets import NAMES, load, networks
from privrl.experiments.figures.dkl_fits import draw_panel
from privrl.experiments.palette import GREY, look
from privrl.experiments.uci.data import Cells, NotPrivateWarning, split
from privrl.experiments.uci.jobs import (
    AUTO,
    DESIGNED,
    DKL,
    EXACT,
    FLOORS,
    NONE,
    ORDER,
    PRINTED,
    TEMPERED,
    UNIFORM,
    grid,
)
from privrl.experiments.uci.run import half_widths, means, run_jobs
from privrl.models import (
    PrivateClassifier,
    PrivateNaiveBayes,
    histogram,
)

SPLITS = range(100, 105)  # nothing was chosen on these
EPSILONS = (0.01, 0.1, 1.0, 10.0)
DRAWS = 20
#: Of the tables; only naive Bayes has the first.
_SHOWN = (
    *(PRINTED, DKL, DESIGNED, "Gaussian, cut at 1", "Gaussian, cut at its deviation"),
    *("Laplace, cut at 1", "Laplace, cut at its deviation", AUTO, UNIFORM, NONE),
)
_NEEDED = (*_SHOWN, EXACT, *TEMPERED)
#: With their defaults fixed: the best of these is what auto is compared with.
FIXED = (DESIGNED, *(name for name in FLOORS if "1e-6" not in name))
HISTOGRAMS = (("GermanCredit", "purpose"), ("Thyroid", "age"), ("Adult", "occupation"))
#: On which how rows are estimated was not chosen.
UNSEEN = ("Thyroid", "Shopper")
#: Without privacy, with the temperature that is best on the training part.
TEMPERED_NONE = "no privacy, tempered"
LOOKS = {
    "Gaussian, cut at 1": look("gaussian") | {"linestyle": ":"},
    "Gaussian, cut at its deviation": look("gaussian"),
    "Laplace, cut at 1": look("laplace") | {"linestyle": ":"},
    "Laplace, cut at its deviation": look("laplace"),
    DKL: look("algorithm 1"),
    DESIGNED: look("designed"),
    AUTO: look("auto") | {"lw": 2.2},
    UNIFORM: look("uniform") | {"marker": ""},
}


def main() -> None:
    """Write the pictures, and the tables between the markers of their pages."""
    pages.main_of(
        {
            "results/histograms.md": {"histograms": _histograms, "estimates": _estimates},
            "results/naive-bayes.md": {
                "naive bayes": _naive_bayes,
                "counts": _counts,
                "unseen": _unseen,
                "steps": _steps,
            },
            "results/networks.md": {"networks": _networks, "rounds": _rounds},
            "results/classifiers.md": {
                "classifiers": _classifiers,
                "unseen classifiers": _unseen_classifiers,
            },
        }
    )


# Histograms -----------------------------------------------------------------------------------


def _histograms() -> str:
    names = ("auto", "dirichlet", "gaussian", "laplace")
    rows = []
    for number, (name, column) in enumerate(HISTOGRAMS):
        data = load(name)
        kind = data.schema.columns[column]
        codes = kind.encode(data.frame[column])
        numbered = Categories(tuple(range(kind.size)))
        p = np.bincount(codes, minlength=kind.size) / len(codes)
        for epsilon in EPSILONS:
            rng = np.random.default_rng((number, round(1e4 * epsilon)))
            losses, target = [], RenyiDP(ORDER, epsilon)
            for mechanism in names:
                drawn = (
                    histogram(
                        codes, numbered, target=target, rng=rng, mechanism=mechanism
                    ).probabilities
                    for _ in range(DRAWS)
                )  # fmt: skip
                losses.append(float(np.mean([(xlogy(p, p) - p * np.log(q)).sum() for q in drawn])))
            uniform = float(xlogy(p, p).sum() + math.log(kind.size))
            shown = (f"{loss:.2g}" for loss in (*losses, uniform))
            rows.append((f"{name}, {column}", kind.size, len(codes), f"{epsilon:g}", *shown))
    header = ("column", "cells", "records", "ε", *(f'`"{name}"`' for name in names), "uniform")
    return pages.table(header, rows)


def _estimates() -> str:
    found = histogram_cells.errors()
    rows = []
    for group, cases in found.groupby("group", sort=False):
        n_cases = cases["case"].nunique()
        order = cases.groupby("method")["KL"].median().sort_values().index
        first = [histogram_cells.AUTO, histogram_cells.AUTO_BY_FLAT, histogram_cells.WITHOUT]
        for method in (*first, *order.drop(first)):
            mine = cases[cases["method"] == method]
            shown = []
            for loss in ("KL", "L1"):
                ratio = mine[loss]
                worst, most, median = ratio.max(), ratio.quantile(0.9), ratio.median()
                shown.append(f"{worst:.2f} / {most:.2f} / {median:.2f}")
                near = (100 * (ratio <= most).mean() for most in (1.1, 1.5))
                shown.append(" / ".join(f"{share:.0f} %" for share in near))
            held = mine["held"].mean()
            shown.append("" if math.isnan(held) else f"{100 * held:.0f} %")
            rows.append((f"{group} ({n_cases})", method, *shown))
    header = ("cases", "estimate", "KL: worst / 90 % / median", "within 1.1 / 1.5")
    return pages.table((*header, "L1: the same", "within 1.1 / 1.5", "counts held"), rows)


# Naive Bayes ----------------------------------------------------------------------------------


@cache
def _fits(model: str, cells: Cells) -> pd.DataFrame:
    """Return a row for each fit, kept for the pictures."""
    naive = model == "naive Bayes"
    name = f"{model.replace(' ', '_')}_{cells}"
    return pages.numbers(name, lambda: _fitted(model, cells)[_KEPT if naive else _KEPT_NETWORKS])


_KEPT = ["data", "split", "mechanism", "epsilon", "cross_entropy"]
_KEPT_NETWORKS = [*_KEPT[:-1], "log_likelihood"]


def _fitted(model: str, cells: Cells) -> pd.DataFrame:
    naive = model == "naive Bayes"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # the page says so
        return run_jobs(
            grid(
                data=NAMES if naive else networks(),
                model="naive Bayes" if naive else "network",
                cells=cells,
                splits=SPLITS,
                mechanisms=_NEEDED if naive and cells == "public" else _SHOWN[not naive :],
                epsilons=EPSILONS,
            ),
            backend="loky",
        )


@cache
def _means(model: str, cells: Cells) -> pd.DataFrame:
    """Return mean results: a row for each data set and epsilon, a column for each mechanism."""
    naive, table = model == "naive Bayes", _fits(model, cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # the page says so
        tempered = {
            name: np.mean([_tempered(split(name, seed, cells)) for seed in SPLITS])
            for name in (NAMES if naive else ())
        }
    wide = means(table, "cross_entropy" if naive else "log_likelihood")
    if naive:
        wide[TEMPERED_NONE] = wide.index.get_level_values(0).map(tempered)
    return wide


def _rows(wide: pd.DataFrame, shown: Iterable[str]) -> Iterable[tuple[object, ...]]:
    shown = list(shown)
    for (name, epsilon), row in wide.iterrows():
        yield name, f"{epsilon:g}", *(f"{row[each]:.3f}" for each in shown)


def _naive_bayes() -> str:
    wide = _means("naive Bayes", "public")
    bars = half_widths(_fits("naive Bayes", "public"), "cross_entropy")
    figure = Figure(figsize=(16, 7.5), layout="constrained")
    for axes, name in zip(figure.subplots(2, 4).flat, NAMES, strict=True):
        draw_panel(axes, wide.loc[name], bars.loc[name], name, LOOKS)
        axes.grid(alpha=0.25)
        for none, line in ((NONE, "-"), (TEMPERED_NONE, "--")):
            axes.axhline(wide.loc[name][none].iloc[0], color=GREY, lw=1, ls=line, label=none)
        axes.set(yscale="log", ylim=(None, 1.6 * wide.loc[name][UNIFORM].iloc[0]))
    figure.supylabel("cross-entropy on the test part (nats)")
    _finish(figure, "models_naive_bayes.png")
    shown = (*_SHOWN, TEMPERED_NONE)
    return pages.table(("data set", "ε", *shown), _rows(wide, shown))


def _finish(figure: Figure, name: str) -> None:
    figure.supxlabel(
        f"ε (nats), Rényi divergence of order {ORDER:g}; unit: replace one record; "
        f"bars: 95 % confidence, {len(SPLITS)} splits"
    )
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize="small")
    pages.save(figure, pages.IMAGES / name)


def _counts() -> str:
    rows = []
    for cells, words, names in (
        ("public", "public bins", NAMES),
        ("paper", "the paper's bins", NAMES),
        ("public", "public bins, Thyroid and Shopper", UNSEEN),
    ):
        wide = _means("naive Bayes", cells).loc[list(names)]
        auto, best = wide[AUTO], wide[list(FIXED)].min(axis=1)
        total = len(wide)
        rows.append(
            (
                words,
                f"{int((auto < wide[DKL]).sum())}/{total}",
                f"{int((auto < wide[PRINTED]).sum())}/{total}",
                f"{int((auto <= 1.05 * best).sum())}/{total}",
                f"{int((auto < best).sum())}/{total}",
                f"{(auto / best).max():.3f}",
                f"{(auto / wide[UNIFORM]).max():.3f}",
                f"{int((auto < wide[NONE]).sum())}/{total}",
                f"{int((auto < wide[TEMPERED_NONE]).sum())}/{total}",
            )
        )
    return pages.table(
        (
            *("features", "below Algorithm 1", "below it as printed", "within 5 % of best fixed"),
            *("below best fixed", "largest ratio to best fixed", "largest ratio to uniform guess"),
            *("below no privacy", "below no privacy, tempered"),
        ),
        rows,
    )


def _unseen() -> str:
    found = unseen_data.errors()
    fixed = found[[f"{mechanism} {alpha}" for mechanism, alpha in unseen_data.FIXED]].min(axis=1)
    auto, bare = found["auto None"], found["bare"]
    shown = zip(found["group"], found["data"], found["epsilon"], auto, fixed, bare, strict=True)
    rows = [
        (group, name, f"{epsilon:g}", *(f"{each:.3f}" for each in (*losses, losses[0] / losses[1])))
        for group, name, epsilon, *losses in shown
    ]
    for group, _ in found.groupby("group", sort=False):
        mine = found["group"] == group
        total, ratio = int(mine.sum()), (auto / fixed)[mine]
        rows.append(
            (
                group,
                f"within 5 % of best fixed: {int((ratio <= 1.05).sum())}/{total}",
                "all",
                f"above bare by > 1 %: {int((auto > 1.01 * bare)[mine].sum())}/{total}",
                f"by up to {100 * (auto / bare - 1)[mine].max():.0f} %",
                *("", f"at most {ratio.max():.3f}"),
            )
        )
    header = ("group", "data", "ε", '`"auto"`', "best fixed", "bare frequencies", "to best fixed")
    return pages.table(header, rows)


def _steps() -> str:
    wide = _means("naive Bayes", "public")
    first, fixed = tuple(TEMPERED)
    steps = {
        DKL: "Algorithm 1",
        EXACT: "its prior, its weight by exact accounting",
        DESIGNED: "a designed prior, exact accounting",
        "Gaussian, cut at its deviation": "Gaussian noise cut at its deviation",
        first: "noise, rows shrunk together (`auto` at temperature 1)",
        fixed: "the same at the fixed temperature 0.7",
        AUTO: "`auto`: the temperature measured",
        UNIFORM: "the uniform guess",
        NONE: "no privacy",
        TEMPERED_NONE: TEMPERED_NONE,
    }
    rows = []
    for name, words in steps.items():
        logs = np.log(wide[name]).groupby(level="epsilon").mean()
        rows.append((words, *(f"{math.exp(value):.3f}" for value in logs), _geometric(wide[name])))
    return pages.table(("", *(f"ε = {e:g}" for e in EPSILONS), "all"), rows)


def _geometric(losses: "pd.Series[float]") -> str:
    return f"{math.exp(np.log(losses).mean()):.3f}"


# Networks -------------------------------------------------------------------------------------


def _networks() -> str:
    wide = _means("network", "public")
    bars = half_widths(_fits("network", "public"), "log_likelihood")
    figure = Figure(figsize=(15, 5), layout="constrained")
    names = list(networks())
    for axes, name in zip(figure.subplots(1, len(names)), names, strict=True):
        shown = wide.loc[name]
        draw_panel(axes, shown, bars.loc[name], name, LOOKS)
        axes.grid(alpha=0.25)
        top, least = shown[NONE].iloc[0], shown[UNIFORM].iloc[0]
        axes.axhline(top, color=GREY, lw=1, label=NONE)
        axes.set(ylim=(least - 0.6 * (top - least), top + 0.1 * (top - least)))
    figure.supylabel("mean log-probability of a test record (nats)")
    _finish(figure, "models_networks.png")
    shown = _SHOWN[1:]
    return pages.table(("network", "ε", *shown), _rows(wide, shown))


_FOUND = {"auto": "`auto`", "private": '`parents="private"`'}


def _rounds() -> str:
    found = network_data.likelihoods()
    rows = []
    for _, row in found.iterrows():
        shown = [f"{row[name]:.3f}" for name in ("all edges", "no edges")]
        for name in _FOUND:
            gain = f"{row[f'{name}, gain']:+.3f} ± {row[f'{name}, error']:.3f}"
            edges = row[f"{name}, edges"]
            alike = row[f"{name}, more"] == 0  # no edges, and no choice was paid for
            shown += [f"{row[name]:.3f}", f"{edges:.1f}", "alike" if alike else gain]
        rows.append((row["group"], row["data"], f"{row['epsilon']:g}", *shown))
    for group, mine in found.groupby("group"):
        last = [group, "below no edges by > 0.05", "all", "", ""]
        for name in _FOUND:
            gains = mine.loc[mine[f"{name}, more"] > 0, f"{name}, gain"]
            last += [
                f"{int((gains < -0.05).sum())}/{len(mine)}",
                "",
                f"at worst {gains.min():+.3f}",
            ]
        rows.append(last)
    header = ["group", "data", "ε", "all edges, one round", "no edges"]
    for words in _FOUND.values():
        header += [words, "edges", "above no edges"]
    return pages.table(header, rows)


# Classifiers ----------------------------------------------------------------------------------


def _tempered(parts: Any) -> float:
    """Return naive Bayes' cross-entropy without privacy, at the temperature best in training."""
    train, test = (parts.schema.encode(each) for each in (parts.train, parts.test))
    *sizes, n_classes = parts.schema.sizes
    exact = PrivateNaiveBayes(
        sizes, classes=list(range(n_classes)), target=None, mechanism="none"
    ).fit(train[:, :-1], train[:, -1])

    def loss(temperature: float, part: np.ndarray) -> float:
        logs = exact.with_temperature(temperature).predict_log_proba(part[:, :-1])
        return -float(logs[np.arange(len(part)), part[:, -1]].mean())

    best = minimize_scalar(loss, bounds=(0.01, 2), args=(train,), method="bounded").x
    return loss(float(best), test)


@cache
def _classifier_means() -> pd.DataFrame:
    """Return mean cross-entropies: a row for each data set and epsilon, a column for each model."""
    rows = []
    for name in NAMES:
        for seed in list(SPLITS)[:1]:  # a few minutes each
            parts = split(name, seed)
            train, test = (parts.schema.encode(each) for each in (parts.train, parts.test))
            *sizes, n_classes = parts.schema.sizes
            columns = list(parts.schema.columns.values())[:-1]
            # Digit's numbers 0 to 16 are ordered, whatever its schema calls them.
            ordered = tuple(isinstance(each, Bins) or name == "Digit" for each in columns)
            given = Parts(
                train[:, :-1], train[:, -1], test[:, :-1], tuple(sizes), n_classes, ordered
            )
            public = {
                "tempered": _tempered(parts),
                "no privacy": _no_privacy(given, test[:, -1]),
            }
            for epsilon in EPSILONS[1:]:
                losses = dict(_losses(given, test[:, -1], ApproxDP(epsilon, 1e-5), seed))
                rows.append({"data": name, "epsilon": epsilon, **losses, **public})
    found = pd.DataFrame(rows).groupby(["data", "epsilon"], sort=False).mean()
    return found.reset_index()


def _classifiers() -> str:
    return _compared(_classifier_means(), ("tempered", "no privacy"))


def _unseen_classifiers() -> str:
    return _compared(unseen_classifiers.errors(_losses), ())


def _compared(found: pd.DataFrame, more: tuple[str, ...]) -> str:
    best = pd.DataFrame(
        {name: found[_columns(name)].min(axis=1) for name in RIVALS} | {"naive": found["naive"]}
    )
    ratio, bare = found["ours"] / best.min(axis=1), found["ours"] / found["bare"]
    rows = []
    for k, row in found.iterrows():
        shown = [row["naive"], row["ours"], *(best[name][k] for name in RIVALS), ratio[k]]
        shown += [row["bare"], *(row[name] for name in more)]
        numbers = ("" if math.isnan(each) else f"{each:.3f}" for each in shown)
        rows.append((row["data"], f"{row['epsilon']:g}", *numbers))
    within = f"at most 1.02: {int((ratio <= 1.02).sum())}/{len(found)}"
    worst = f"{ratio.max():.3f}; to bare {bare.max():.3f}"
    blank = ("" for _ in RIVALS)
    rows.append((within, "all", "", "", *blank, f"at most {worst}", "", *("" for _ in more)))
    return pages.table(
        (
            *("data set", "ε", "naive Bayes", '`"auto"`', *RIVALS, "to the best of the others"),
            *("bare frequencies", *(_PUBLIC[name] for name in more)),
        ),
        rows,
    )


_PUBLIC = {
    "tempered": "tempered naive Bayes, no privacy",
    "no privacy": "logistic regression, no privacy",
}


def _columns(name: str) -> list[str]:
    return [f"{name} {k}" for k in range(len(RIVALS[name]))]


def _losses(
    parts: Parts, truth: np.ndarray, target: ApproxDP, seed: int
) -> Iterable[tuple[str, float]]:
    """Yield each model and its cross-entropy."""
    classes = list(range(parts.n_classes))
    private: dict[str, Any] = {"classes": classes, "target": target, "random_state": seed}
    counts = np.bincount(parts.y, minlength=parts.n_classes) + 1
    bare = np.log(counts / counts.sum())
    yield "bare", _loss(np.broadcast_to(bare, (len(truth), len(bare))), truth)
    naive = PrivateNaiveBayes(parts.sizes, **private).fit(parts.X, parts.y)
    yield "naive", _loss(naive.predict_log_proba(parts.new), truth)
    kinds = {
        str(k): Bins.even(0, size, size) if ordered else Categories(tuple(range(size)))
        for k, (size, ordered) in enumerate(zip(parts.sizes, parts.ordered, strict=True))
    }
    records, new = (pd.DataFrame(X, columns=list(kinds)) for X in (parts.X, parts.new))
    ours = PrivateClassifier(Schema(kinds), **private).fit(records, parts.y)
    yield "ours", _loss(ours.predict_log_proba(new), truth)
    for name, settings in RIVALS.items():
        for column, (rival, setting) in zip(_columns(name), settings, strict=True):
            if any(parts.ordered) or rival is not scaled_descent:
                yield column, _loss(rival(parts, target, seed, **setting), truth)


def _no_privacy(parts: Parts, truth: np.ndarray) -> float:
    ones = OneHotEncoder(categories=[list(range(size)) for size in parts.sizes])
    plain = LogisticRegression(C=1.0, max_iter=300).fit(ones.fit_transform(parts.X), parts.y)
    return _loss(plain.predict_log_proba(ones.transform(parts.new)), truth)


def _loss(log_chances: np.ndarray, truth: np.ndarray) -> float:
    return -float(log_chances[np.arange(len(truth)), truth].mean())


if __name__ == "__main__":
    main()
