"""Make the numbers of docs/results/mechanisms.md, and the picture of docs/mechanisms.md.

Run with ``python docs/make/mechanisms.py``; it needs less than a minute.
"""

import math
from collections.abc import Iterator
from functools import cache
from itertools import count

import numpy as np
import pages
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.special import betaln, xlogy
from scipy.stats import beta

from privrl.accounting import ApproxDP, RenyiDP, Target
from privrl.costs.simplex import SimplexCost
from privrl.experiments.palette import LOOKS, colour, look
from privrl.mechanisms import (
    DirichletMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    NoisyPosteriorMechanism,
    PosteriorExponentialMechanism,
    SimplexMechanism,
)
from privrl.mechanisms.additive import normalise
from privrl.mechanisms.design import expected_loss
from privrl.mechanisms.errors import KlBound, kl_quantile, kl_sample_size
from privrl.mechanisms.posterior_exponential import Sensitivity
from privrl.mechanisms.posteriors import hellinger_sensitivity
from privrl.numerics.special import FloatArray

DELTA = 1e-5
EPSILONS = (0.01, 0.1, 1.0, 10.0)  # of the comparison
DRAWS = 50_000
HISTOGRAM = np.array((119, 74, 618, 272, 13, 187))  # of Figure 3 of the KL paper
N_RECORDS, N_CELLS = int(HISTOGRAM.sum()), HISTOGRAM.size
PRIOR, N = (7, 4), 500  # of Figure 2 of the Bayesian notes
MIDDLE = (N // 2, N // 2)
KINDS: tuple[Sensitivity, ...] = ("global", "local", "smooth", "constant", "certified")
ADDITIVE = {
    "Gaussian": GaussianMechanism,
    "Laplace": LaplaceMechanism,
    "discrete Gaussian": DiscreteGaussianMechanism,
    "discrete Laplace": DiscreteLaplaceMechanism,
}


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    pages.main(
        "results/mechanisms.md",
        {
            "simplex": _simplex,
            "posteriors": _posteriors,
            "error bars": _error_bars,
            "comparison": _comparison,
            "mistakes": _mistakes,
        },
    )
    pages.save(_picture(), pages.IMAGES / "mechanisms.png")


def _up(epsilon: ArrayLike) -> str:
    """Return five decimals, rounded up, as a guarantee must be."""
    return f"{math.ceil(float(np.asarray(epsilon)) * 1e5) / 1e5:.5f}"


# The unit simplex -----------------------------------------------------------------------------


def _simplex() -> str:
    public = {"eta": 0.05, "eta_bar": 0.05, "sensitive": (0, 1), "n_vectors": 100}
    cost = SimplexMechanism(weight=24, bound="sim", **public).cost
    assert isinstance(cost, SimplexCost)
    epsilon = cost.epsilon(0.05)
    costs = [
        ("printed in the paper", "1.18"),
        (f"its Theorem 2, at its best gamma = {float(cost.gamma(epsilon)):.5f}", _up(epsilon)),
        ("the same with its Lemma 5", _up(cost.lemma_5(0.05))),
        ("exact", _up(cost.exact.epsilon(0.05))),
    ]
    buys = []
    for bound, words in (("sim", "Theorem 2"), ("exact", "exact")):
        weight = SimplexMechanism.calibrated(ApproxDP(1, 0.05), bound=bound, **public).weight
        buys.append((words, f"{weight:.1f}", f"{math.sqrt(1 / (4 * (weight + 1))):.3f}"))
    return "\n".join(
        (
            "What k = 24 costs at δ = 0.05, rounded up:",
            "",
            pages.table("by | ε", costs),
            "",
            "What (ε, δ) = (1, 0.05) buys:",
            "",
            pages.table("by | largest k | standard deviation of a component, at the most", buys),
        )
    )


# Posteriors -----------------------------------------------------------------------------------


def _posteriors() -> str:
    def rows(
        prior: tuple[int, ...], n: int, epsilon: float, data: list[tuple[int, ...]]
    ) -> Iterator[tuple[object, ...]]:
        says = {
            "global": f"{epsilon:g}-DP",
            "local": "not private",
            "smooth": f"({epsilon:g}, 0.8)-DP",
        }
        for kind in KINDS:
            made = _exponential(kind, epsilon, prior, n)
            errors = (f"{float(made.expected_error(x)):.3f}" for x in data)
            yield f'`"{kind}"`', says.get(kind, ""), _up(made.cost.pure_epsilon), *errors
        laplace = NoisyPosteriorMechanism.pure(epsilon, alpha=prior, n=n)
        errors = (f"{_laplace_error(laplace, x):.3f}" for x in data)
        yield "`NoisyPosteriorMechanism.pure`", "", _up(laplace.cost.pure_epsilon), *errors

    header = "sensitivity | the notes say | certified ε₀ | error at {} | error at {}"
    two, three = [MIDDLE, (N, 0)], [(67, 67, 66), (200, 0, 0)]
    return "\n".join(
        (
            f"Prior Beta{PRIOR}, n = {N}, ε = 0.5:",
            "",
            pages.table(header.format(*two), rows(PRIOR, N, 0.5, two)),
            "",
            "Prior DL(7, 4, 5), n = 200, ε = 0.8:",
            "",
            pages.table(header.format(*three), rows((7, 4, 5), 200, 0.8, three)),
        )
    )


def _exponential(
    kind: Sensitivity, epsilon: float, prior: tuple[int, ...] = PRIOR, n: int = N
) -> PosteriorExponentialMechanism:
    delta = 0.8 if kind == "smooth" else None
    return PosteriorExponentialMechanism(prior, n, epsilon, sensitivity=kind, delta=delta)


def _laplace_error(mechanism: NoisyPosteriorMechanism, data: tuple[int, ...]) -> float:
    """Return the mean Hellinger distance from the released to the true posterior."""
    noisy = mechanism.release(np.tile(data, (DRAWS, 1)), np.random.default_rng(0)).concentrations
    true = np.broadcast_to(np.add(data, mechanism.alpha), noisy.shape)

    def log_beta(u: FloatArray) -> FloatArray:
        return np.sum([betaln(u[:, i], u[:, :i].sum(1)) for i in range(1, u.shape[1])], axis=0)

    exponent = log_beta((noisy + true) / 2) - (log_beta(noisy) + log_beta(true)) / 2
    return float(np.sqrt(np.maximum(-np.expm1(exponent), 0)).mean())


# Error bars -----------------------------------------------------------------------------------


def _error_bars() -> str:
    bounds: tuple[KlBound, ...] = ("vertex", "lambert", "dkl")

    def rows() -> Iterator[tuple[object, ...]]:
        for epsilon in (0.01, 0.1, 1.0):
            for name in ("Algorithm 1", "designed"):
                made = _dirichlet(name, RenyiDP(2, epsilon))
                assert isinstance(made.alpha, float)
                row = {"alpha": made.alpha, "n_cells": N_CELLS}
                total_weight = made.weight * N_RECORDS
                bars = [
                    float(kl_quantile(0.05, total_weight=total_weight, **row, bound=b))
                    for b in bounds
                ]
                sizes = [
                    kl_sample_size(weight=made.weight, eta=0.1, failure=0.05, **row, bound=b)
                    for b in bounds
                ]
                drawn = made.release(np.tile(HISTOGRAM, (DRAWS, 1)), np.random.default_rng(0))
                seen = float(np.quantile(_kl(drawn), 0.95))
                yield (
                    f"{epsilon:g}",
                    name,
                    *(f"{bar:.3f}" for bar in (seen, *bars)),
                    *(f"{size:,}" for size in sizes),
                )

    return pages.table(
        "ε at order 2 | chosen by | seen here | bar, vertex | bar, (21) | bar, Theorem 2 "
        "| records, vertex | records, (21) | records, Theorem 2",
        rows(),
    )


# Comparison -----------------------------------------------------------------------------------


def _kl(released: FloatArray) -> FloatArray:
    """Return ``KL(p || y)`` (nats) of the histogram's frequencies, for each released row."""
    p = HISTOGRAM / N_RECORDS
    return (xlogy(p, p) - p * np.log(released)).sum(-1)


UNIFORM = float(_kl(np.full(N_CELLS, 1 / N_CELLS)))  # what is lost without any data


def _dirichlet(name: str, target: Target) -> DirichletMechanism:
    if name == "designed":
        return DirichletMechanism.designed(target, n_records=N_RECORDS, n_cells=N_CELLS)
    return DirichletMechanism.algorithm_1(target)


@cache
def _dirichlet_loss(name: str, epsilon: float) -> float:
    """Return the mean loss of a Dirichlet draw, exactly."""
    made = _dirichlet(name, ApproxDP(epsilon, DELTA))
    assert isinstance(made.alpha, float)
    return expected_loss(HISTOGRAM, made.weight, made.alpha)


@cache
def _noise_losses(name: str, epsilon: float) -> dict[str, float]:
    """Return mean losses of noisy counts turned into frequencies, and of their posteriors."""
    noise = ADDITIVE[name].calibrated(ApproxDP(epsilon, DELTA))
    size = noise.sigma if "Gaussian" in name else noise.scale
    data, rng = np.tile(HISTOGRAM, (DRAWS, 1)), np.random.default_rng(0)
    noisy = noise.release(data, rng)
    usual, wide = (
        NoisyPosteriorMechanism(noise=noise, alpha=alpha, n=N_RECORDS).release(data, rng)
        for alpha in (1, size)
    )
    released = {
        "floor 1": normalise(noisy, floor=1),
        "floor of its size": normalise(noisy, floor=size),
        "prior 1, mean": usual.mean,
        "prior of its size, mean": wide.mean,
        "prior of its size, one draw": wide.sample(rng),
    }
    return {words: float(_kl(rows).mean()) for words, rows in released.items()}


def _comparison() -> str:
    ways = [(name, words) for name in ADDITIVE for words in ("floor 1", "floor of its size")]
    posteriors = ("prior 1, mean", "prior of its size, mean", "prior of its size, one draw")

    def rows() -> Iterator[tuple[object, ...]]:
        for words in ("designed", "Algorithm 1"):
            yield f"Dirichlet, {words}", *(f"{_dirichlet_loss(words, e):#.2g}" for e in EPSILONS)
        for name, words in ways:
            yield f"{name}, {words}", *(f"{_noise_losses(name, e)[words]:#.2g}" for e in EPSILONS)
        for words in posteriors:
            losses = (f"{_noise_losses('Laplace', e)[words]:#.2g}" for e in EPSILONS)
            yield f"noisy posterior (Laplace), {words}", *losses

    header = "released by | " + " | ".join(f"ε = {e:g}" for e in EPSILONS)
    turns = ", ".join(f"{_gaussian_from(e)} at ε = {e:g}" for e in EPSILONS)
    return "\n".join(
        (
            f"Mean KL loss in nats at δ = 10⁻⁵. The uniform distribution loses {UNIFORM:.2f}:",
            "",
            pages.table(header, rows()),
            "",
            "The number of releases from which Gaussian noise has the smaller standard deviation: "
            f"{turns}.",
        )
    )


def _gaussian_from(epsilon: float) -> int:
    target = ApproxDP(epsilon, DELTA)
    for releases in count(1):
        gaussian = GaussianMechanism.calibrated(target, count=releases).sigma
        if gaussian < math.sqrt(2) * LaplaceMechanism.calibrated(target, count=releases).scale:
            break
    return releases


# Mistakes -------------------------------------------------------------------------------------


def _mistakes() -> str:
    cells, alpha, total_weight = 1000, 0.2, 1000
    eta = 2 * math.log1p(cells * alpha / total_weight)
    claim = math.exp(-total_weight * eta**2 / (2 * (2 + eta) * (4 + 3 * eta)))
    gammas = np.random.default_rng(0).gamma(total_weight / cells + alpha, size=(1000, cells))
    kl = np.log(gammas.sum(1)) - np.log(gammas).mean(1) - math.log(cells)

    n, rate = 1e6, 1e-12
    printed = math.sqrt((3 * math.log(1 / rate) + 4) / (4 * (n + 3))) + 4 / (n + 2)
    often = 2 * beta(n / 2 + 1, n / 2 + 1).cdf(0.5 - printed / math.sqrt(2)) / rate

    right = hellinger_sensitivity((7, 4, 5), 150)
    wrong = math.sqrt(-math.expm1(betaln(3.5, 7.5) - (betaln(4, 7) + betaln(3, 8)) / 2))
    return "\n".join(
        (
            f"- Theorem 2 of DKL, with {cells} even cells, prior {alpha:g} and total weight "
            f"{total_weight:g}: the loss is above {eta:.3f} in {(kl > eta).sum()} of {kl.size} "
            f"draws; the theorem allows {claim * kl.size:.0f} on average.",
            "- Theorem 5 of DPS, with two even cells, prior 1 and a million records: its distance "
            f"for β = 10⁻¹² is exceeded {often:.0f} times as often as that.",
            "- The global sensitivity of BAY for the prior DL(7, 4, 5): "
            f"{right:.4f}, not {wrong:.4f}.",
        )
    )


# The picture ----------------------------------------------------------------------------------


def _picture() -> Figure:
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_losses(left)
    _draw_posteriors(right)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_losses(axes: Axes) -> None:
    posterior = look("noisy posterior")
    fine = [10.0 ** (k / 4) for k in range(-10, 5)]
    coarse = fine[::2]
    axes.axhline(UNIFORM, color="0.6", lw=1.2, label="uniform: no data at all")
    for name, line in (("Algorithm 1", "--"), ("designed", "-")):
        losses = [_dirichlet_loss(name, e) for e in coarse]
        axes.plot(
            coarse, losses, line, color=colour(name.lower()), label=f"Dirichlet, {name}", lw=2
        )
    for name in ("Gaussian", "Laplace"):
        ink, marker, _ = LOOKS[name.lower()]
        for words, line in (("floor 1", ":"), ("floor of its size", "-")):
            losses = [_noise_losses(name, e)[words] for e in fine]
            axes.plot(fine, losses, line, color=ink, lw=2, label=f"{name}, {words}")
        label = f"discrete {name}"
        losses = [_noise_losses(label, e)["floor of its size"] for e in coarse]
        axes.plot(coarse, losses, marker, color=ink, mfc="white", label=f"{label}, likewise")
    losses = [_noise_losses("Laplace", e)["prior of its size, one draw"] for e in fine]
    axes.plot(fine, losses, lw=2, markevery=4, label="noisy posterior, one draw", **posterior)
    axes.set(xscale="log", yscale="log", ylim=(3e-7, 5))
    axes.set_xlabel("ε (nats) at δ = 10⁻⁵")
    axes.set_ylabel("mean loss KL(p ‖ y) (nats)")
    axes.set_title(
        f"{N_RECORDS} records in {N_CELLS} cells; unit: replace one record", fontsize="medium"
    )
    axes.legend(frameon=False, fontsize="small", loc="lower left")


def _draw_posteriors(axes: Axes) -> None:
    asked = np.geomspace(0.02, 8, 32)
    for kind, label in (
        ("global", "global, at the ε it claims"),
        ("constant", "one constant c, as in global"),
        ("local", "local"),
        ("smooth", "smooth, δ = 0.8"),
        ("certified", "certified"),
    ):
        made = [_exponential(kind, e) for e in asked]
        paid = asked if kind == "global" else [m.cost.pure_epsilon for m in made]
        errors = [float(m.expected_error(MIDDLE)) for m in made]
        axes.plot(paid, errors, lw=2, markevery=4, label=label, **look(kind))
    noisy = [NoisyPosteriorMechanism.pure(e, alpha=PRIOR, n=N) for e in asked]
    errors = [_laplace_error(m, MIDDLE) for m in noisy]
    axes.plot(
        asked, errors, lw=2, markevery=4, label="noisy posterior (Laplace)",
        **look("noisy posterior"),
    )  # fmt: skip
    axes.set(xscale="log", xlim=(0.02, 8), ylim=(0, 1.15), yticks=np.linspace(0, 1, 6))
    axes.set_xlabel("ε (nats) at δ = 0, certified unless claimed")
    axes.set_ylabel("mean Hellinger distance to the true posterior")
    axes.set_title(
        f"Prior Beta{PRIOR}, counts {MIDDLE}; unit: replace one record", fontsize="medium"
    )
    axes.legend(frameon=False, fontsize="small", loc="upper right")


if __name__ == "__main__":
    main()
