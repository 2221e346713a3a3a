"""DKL, Figures 6, 7 and 11: three Bayesian networks, and their likelihoods."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from privrl.data.datasets import networks
from privrl.data.datasets.sources import SOURCES
from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.figures.dkl_fits import (
    GAUSSIAN,
    GAUSSIAN_SD,
    LAPLACE,
    LAPLACE_SD,
    budgets_axis,
    count,
    draw_panel,
    network_fits,
)
from privrl.experiments.palette import BLACK, GREY
from privrl.experiments.uci.jobs import AUTO, DELTA, DESIGNED, DKL, GOHARI, NONE, UNIFORM
from privrl.experiments.uci.run import half_widths, means
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.structure import networkx
from privrl.numerics.special import FloatArray

_BENDS = (0.0, 0.12, -0.12, 0.22, -0.22, 0.35, -0.35, 0.6, -0.6)
_INCHES = (2.0, 0.85)  # of the picture of networks, about, to a unit of either axis
_HALF_BOX = (0.42, 0.26)  # of a node, in inches, with a margin

# Figure 6 -------------------------------------------------------------------------------------


def _compute_6(quick: bool) -> pd.DataFrame:
    del quick  # it takes no time
    rows: list[tuple[str, str, str, int, int]] = []
    for name, parents in networks().items():
        spec = PrivateBayesNet(
            parents=parents, schema=SOURCES[name].schema, target=None, mechanism="none"
        )
        for node, own in parents.items():
            shape = spec.structure.shape(node)
            rows += [(name, node, parent, *shape) for parent in own or ("",)]
    return pd.DataFrame(rows, columns=["data", "node", "parent", "rows", "cells"])


def _draw_6(table: pd.DataFrame) -> Picture:
    picture, axes = panels(table.data.nunique())
    picture.set_size_inches(17.5, 7.2)
    for each, (name, edges) in zip(axes, table.groupby("data", sort=False), strict=True):
        _draw_network(each, edges)
        each.set_title(str(name))
    note(
        picture,
        "An arrow leads from a parent to a node; privacy unit: replace one record, a row of one "
        "cell for every node",
    )
    return picture


def _draw_network(axes: Axes, edges: pd.DataFrame) -> None:
    graph = networkx().DiGraph()
    graph.add_nodes_from(edges.node)
    graph.add_edges_from(edges.loc[edges.parent != "", ["parent", "node"]].to_numpy().tolist())
    at = _places(graph)
    boxes = {
        node: axes.text(
            *(x, y, node.replace("_", "\n").replace("-", "-\n")),
            ha="center",
            va="center",
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.3", "fc": "white", "ec": BLACK},
        )
        for node, (x, y) in at.items()
    }
    for parent, node in graph.edges:
        others = [at[each] for each in at if each not in (parent, node)]
        axes.annotate(
            "",
            at[node],
            at[parent],
            arrowprops={
                "arrowstyle": "-|>",
                "color": GREY,
                "patchA": boxes[parent].get_bbox_patch(),
                "patchB": boxes[node].get_bbox_patch(),
                "shrinkA": 0,
                "shrinkB": 1,
                "connectionstyle": f"arc3,rad={_bend(at[parent], at[node], others)}",
            },
        )
    xs, ys = zip(*at.values(), strict=True)
    axes.set(xlim=(min(xs) - 0.6, max(xs) + 0.6), ylim=(min(ys) - 0.5, max(ys) + 0.5))
    axes.axis("off")


def _bend(
    start: tuple[float, float], end: tuple[float, float], others: list[tuple[float, float]]
) -> float:
    """Return how much an arrow is bent so as not to run through other nodes, if that can be."""
    along: FloatArray = np.linspace(0, 1, 41)[:, None]
    ends, boxes = (np.array(each).reshape(-1, 2) * _INCHES for each in ((start, end), others))
    across = (ends[1] - ends[0])[::-1] * (1, -1)

    def hits(rad: float) -> int:
        middle = ends.mean(axis=0) + rad * across
        curve = (1 - along) ** 2 * ends[0] + 2 * along * (1 - along) * middle + along**2 * ends[1]
        inside = np.abs(curve[:, None] - boxes) < _HALF_BOX
        return int(inside.all(axis=-1).any(axis=0).sum())

    return min(_BENDS, key=lambda rad: (hits(rad), abs(rad)))


def _places(graph: Any) -> dict[str, tuple[float, float]]:
    """Return where the nodes are: in layers, roots at the top, each near its neighbours."""
    layers = [list(layer) for layer in networkx().topological_generations(graph)]
    for depth, layer in enumerate(layers):
        for node in layer:
            graph.nodes[node]["layer"] = depth
    order = {node: float(i) for layer in layers for i, node in enumerate(layer)}
    near = graph.to_undirected()
    for _ in range(8):  # sort each layer by the mean place of the neighbours
        for layer in layers:
            layer.sort(key=lambda node: np.mean([order[each] for each in near[node]] or [0.0]))
            order |= {node: i - (len(layer) - 1) / 2 for i, node in enumerate(layer)}
    # A layer of one node, or every second one of equally many, is shifted a little, so that
    # straight arrows across layers part.
    return {
        node: (order[node] + (0.4 if depth % 2 else -0.4), -float(depth))
        for depth, layer in enumerate(layers)
        for node in layer
    }


def _caption_6(table: pd.DataFrame) -> str:
    sizes = []
    for name, edges in table.groupby("data", sort=False):
        nodes = edges.drop_duplicates("node")
        sizes.append(
            f"{name} {len(nodes)} nodes, {int((edges.parent != '').sum())} edges and "
            f"{int((nodes.rows * nodes.cells).sum()):,} cells"
        )
    return told("dkl-fig6", sizes="; ".join(sizes))


DKL_FIG6 = Figure("dkl-fig6", _compute_6, _draw_6, _caption_6)


# Figures 7 and 11 -----------------------------------------------------------------------------


def _compute(quick: bool, *, delta: float) -> pd.DataFrame:
    return network_fits(delta, quick).copy()


def _draw(table: pd.DataFrame) -> Picture:
    wide = means(table, "log_likelihood")
    names = wide.index.unique("data")
    picture, axes = panels(len(names))
    bars = half_widths(table, "log_likelihood")
    for each, name in zip(axes, names, strict=True):
        shown = wide.loc[name]
        draw_panel(each, shown, bars.loc[name], name)
        top, least = shown[NONE].max(), shown[UNIFORM].min()
        each.set(ylim=(least - 1.2 * (top - least), top + 0.1 * (top - least)))
    axes[0].set_ylabel("mean log-probability of a test record (nats)")
    if len(names) > 1:
        legend(picture, axes[0], "outside upper center", ncols=5, fontsize="small")
    else:
        axes[0].legend(fontsize="x-small")
    picture.supxlabel(f"{budgets_axis(table)}; privacy unit: replace one record")
    return picture


def _caption(table: pd.DataFrame) -> str:
    wide = means(table, "log_likelihood")
    small = wide[wide.index.get_level_values("epsilon") < 1]
    cut = small[[GAUSSIAN, LAPLACE]].max(axis=1)
    raised = small[[GAUSSIAN_SD, LAPLACE_SD]].max(axis=1)
    others = wide.drop(columns=[AUTO, NONE, UNIFORM]).max(axis=1)
    middle = wide.xs(0.1, level="epsilon")
    gaps = "; ".join(
        f"{name} {row[DKL]:.2f} for Algorithm 1, {row[GAUSSIAN]:.2f} and {row[GAUSSIAN_SD]:.2f} "
        f"for Gaussian noise cut at 1e-6 and at its deviation, {row[AUTO]:.2f} for auto, "
        f"{row[UNIFORM]:.2f} for the uniform guess, {row[NONE]:.2f} without privacy"
        for name, row in middle.iterrows()
    )
    adp = table.delta.iloc[0] > 0
    text = told(
        "dkl-networks",
        splits=table.split.nunique(),
        above_cut=count(small[DKL] > cut),
        above_raised=count(small[DKL] > raised),
        designed=count(small[DESIGNED] > raised),
        gaps=gaps,
        auto=count(wide[AUTO] > others),
        auto_uniform=count(wide[AUTO] > wide[UNIFORM]),
        dkl_uniform=count(wide[DKL] > wide[UNIFORM]),
    )
    if adp:
        text += " " + told(
            "dkl-networks-gohari",
            gohari=count(wide[DKL] > wide[GOHARI]),
            laplace=count(wide[LAPLACE] > wide[GAUSSIAN]),
        )
    return text


def _figure(number: int, delta: float) -> Figure:
    return Figure(
        id=f"dkl-fig{number}", compute=partial(_compute, delta=delta), draw=_draw, caption=_caption
    )


DKL_FIG7 = _figure(7, 0.0)
DKL_FIG11 = _figure(11, DELTA)
