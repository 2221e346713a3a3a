"""Make docs/results/exact-accounting.md and the picture of docs/exact-accounting.md.

Run with ``python docs/make/exact_accounting.py``; it needs the extra ``pld`` and a minute.
"""

import numpy as np
import pages
from matplotlib.figure import Figure

from privrl.accounting import ApproxDP, PldAccountant, RdpAccountant
from privrl.audit import audit_dirichlet
from privrl.costs import DirichletCost, ReplaceRecord
from privrl.costs.conversion import rdp_to_epsilon
from privrl.costs.dirichlet import Bound
from privrl.costs.simplex import SimplexCost
from privrl.experiments.palette import colour
from privrl.mechanisms import DirichletMechanism, design
from privrl.mechanisms.design import expected_loss
from privrl.mechanisms.papers import dkl_approximate_dp
from privrl.samplers import Diffuse

DELTA = 1e-5
#: Gohari et al.'s example: the average of 100 vectors of the unit simplex.
SIMPLEX = SimplexCost(weight=24, eta=0.05, eta_bar=0.05, n_components=2, n_vectors=100)
HISTOGRAM = (119, 74, 618, 272, 13, 187)  # of Figure 3 of the KL paper


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    pages.main(
        "results/exact-accounting.md",
        {"numbers": lambda: f"{_accounting()}\n{_simplex()}\n{_designs()}"},
    )
    pages.save(_picture(), pages.IMAGES / "exact_accounting.png")


def _accounting() -> str:
    rows = [
        "| prior | weight | releases | exact, loss distributions | exact, Rényi "
        "| Ponnoprat, best order | Ponnoprat, order 2 |",
        "|---|---|---|---|---|---|---|",
    ]
    for alpha, weight, count in ((5, 1.0, 1), (10, 0.2, 65), (10, 0.089, 3000)):
        exact = DirichletCost(weight=weight, alpha=alpha, relation=ReplaceRecord())
        paper = DirichletCost(weight=weight, alpha=alpha, relation=ReplaceRecord(), bound="dps")
        losses = PldAccountant()
        losses.compose(exact, count)
        tight = exact.epsilon(DELTA) if count == 1 else losses.epsilon(DELTA)
        by_order, published = RdpAccountant(), RdpAccountant()
        by_order.compose(exact, count)
        published.compose(paper, count)
        renyi = rdp_to_epsilon(by_order.orders, by_order.rdp, DELTA)
        second = rdp_to_epsilon(np.array([2.0]), count * paper.rdp([2.0]), DELTA)
        cells = (
            alpha,
            weight,
            count,
            *(f"{e:.2f}" for e in (tight, renyi, published.epsilon(DELTA), second)),
        )
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return f"Epsilon at delta = {DELTA:g}, under `ReplaceRecord()`:\n\n" + "\n".join(rows) + "\n"


def _simplex() -> str:
    exact = SIMPLEX.exact
    return (
        "The unit-simplex example of Gohari et al. (k = 24, 100 vectors, η = η̄ = 0.05) at delta = "
        f"0.05: epsilon is {float(SIMPLEX.epsilon(0.05)):.4f} by their theorem (they print 1.18), "
        f"and {float(exact.epsilon(0.05)):.4f} exactly. At epsilon = 1.18 delta is "
        f"{float(exact.delta(1.18)):.1e}, not 0.05.\n"
    )


def _designs() -> str:
    rows = [
        f"Expected KL divergence (nats) of a draw from the histogram {HISTOGRAM}, at delta = "
        f"{DELTA:g}. Algorithm 1 at its best order, and with the best g of its Remark 1 for this "
        "very histogram; the design sees the number of records and cells only; knowing the "
        "histogram would buy no more than the last column:",
        "",
        "| epsilon | Algorithm 1 | Remark 1, best g | Algorithm 1's prior, exact weight | designed "
        "| best there is |",
        "|---|---|---|---|---|---|",
    ]
    total, cells = sum(HISTOGRAM), len(HISTOGRAM)
    for epsilon in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):
        target = ApproxDP(epsilon, DELTA)
        paper = dkl_approximate_dp(target, relation=ReplaceRecord())
        mine = design(target, n_records=total, n_cells=cells)
        best = min(_loss(target, alpha) for alpha in [*np.geomspace(0.1, 1e4, 60), mine.alpha])
        losses = (
            expected_loss(HISTOGRAM, paper.weight, paper.alpha),
            min(_loss(target, alpha, "dkl") for alpha in np.geomspace(1.01, 1e4, 40)),
            _loss(target, paper.alpha),
            expected_loss(HISTOGRAM, mine.weight, mine.alpha),
            best,
        )
        rows.append(f"| {epsilon:g} | " + " | ".join(f"{loss:.3g}" for loss in losses) + " |")
    return "\n".join(rows) + "\n"


def _loss(target: ApproxDP, alpha: float, bound: Bound = "exact") -> float:
    """Return the loss on the histogram with this prior and the largest weight that it admits."""
    weight = DirichletMechanism.calibrated(
        target, alpha=alpha, relation=ReplaceRecord(), bound=bound
    ).weight
    return expected_loss(HISTOGRAM, weight, alpha)


def _picture() -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines = {
        "exact": ("exact (this page)", colour("exact"), "-"),
        "dps": ("Ponnoprat", colour("concentrated"), "--"),
        "dkl": ("the KL paper, Algorithm 1", colour("algorithm 1"), "-."),
        "geumlek": ("Geumlek et al.", colour("geumlek"), ":"),
    }
    priors = np.geomspace(1.02, 100, 200)
    for bound in ("geumlek", "dps", "exact"):
        label, ink, style = lines[bound]
        curve = [
            float(DirichletCost(weight=1, alpha=a, relation=ReplaceRecord(), bound=bound).rdp(2.0))
            for a in priors
        ]
        left.loglog(priors, curve, color=ink, linestyle=style, label=label)
    left.set_ylim(1e-2, 1e2)
    left.set_xlabel("prior pseudo-count of every cell")
    left.set_ylabel("ε (nats), Rényi order 2")
    left.set_title("One draw at weight 1; unit: replace one record", fontsize="medium")

    exact = SIMPLEX.exact
    epsilons = np.linspace(0, 2, 81)
    for bound in ("dkl", "dps", "exact"):
        label, ink, style = lines[bound]
        cost = DirichletCost(
            weight=exact.weight, alpha=exact.alpha, relation=exact.relation, bound=bound
        )
        right.semilogy(epsilons, cost.delta(epsilons), color=ink, linestyle=style, label=label)
    some = epsilons[epsilons > 0.9]
    right.semilogy(some, SIMPLEX.delta(some), color=colour("gohari"), lw=1.5, label="Gohari et al.")
    # Counts that a sampler takes are sums of whole amounts: a change of one, and a smaller weight.
    ((change, _),) = exact.relation.changes(exact.table)
    sampler = Diffuse(weight=exact.weight * change, alpha=exact.alpha, relation=ReplaceRecord())
    found = [
        audit_dirichlet(sampler, np.random.default_rng(i), delta=delta)
        for i, delta in enumerate((0.03, 0.01, 3e-3, 1e-3, 3e-4))
    ]
    right.semilogy(
        [r.epsilon_lower for r in found], [r.delta for r in found],
        "^", color=colour("exact"), ms=6, label="seen in a million draws (99 %)",
    )  # fmt: skip
    right.set_ylim(1e-7, 1.5)
    right.set_xlabel("ε (nats)")
    right.set_ylabel("δ")
    right.set_title("Average of 100 unit vectors; unit: replace one vector", fontsize="medium")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize="small")
    return figure


if __name__ == "__main__":
    main()
