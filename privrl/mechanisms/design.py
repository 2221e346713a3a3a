"""Choosing weight and prior together, from public facts alone.

A target leaves one degree of freedom: a larger prior admits a larger weight. `design` spends it
on accuracy, averaged over all histograms with the same numbers of records and cells. It does not
read the table, so the choice costs no privacy.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.numerics.checks import as_floats, check_among, check_count, check_positive
from privrl.numerics.scipy_lazily import optimize, special
from privrl.numerics.special import FloatArray

Loss = Literal["kl", "l2", "l1"]

_PRIORS = np.geomspace(0.05, 1e5, 19)  # a coarse search; refined around the best


@dataclass(frozen=True)
class Design:
    """A choice of weight and prior.

    Attributes
    ----------
    weight, alpha : float
        For `privrl.costs.DirichletCost`: with them the target is met.
    loss : float
        Expected loss of one release, averaged over histograms (`typical_loss`).
    """

    weight: float
    alpha: float
    loss: float


def design(
    target: Target,
    *,
    n_records: float,
    n_cells: int,
    loss: Loss = "kl",
    relation: Relation | None = None,
    count: int = 1,
) -> Design:
    """Choose the weight and prior that meet a target with the least expected loss.

    The pair has three digits of the prior.

    Parameters
    ----------
    target, count
        As for `privrl.accounting.calibrate`.
    n_records : float
        Public number of records in the row, > 0; a guess will do.
    n_cells : int
        Number of cells of the row, >= 2.
    loss : {"kl", "l2", "l1"}
        How a draw y is compared with the row's true frequencies p: expected ``KL(p || y)``
        (nats), expected squared Euclidean distance, expected sum of absolute differences.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceRecord`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    n_records = check_positive("n_records", n_records, "a public guess will do")
    n_cells = check_count("n_cells", n_cells, least=2)
    _check_loss(loss)
    relation = check_relation(relation, ReplaceRecord())
    least = relation.convex_from or 0.0

    def weight_for(alpha: float) -> float:
        def cost(weight: float) -> DirichletCost:
            return DirichletCost(weight=weight, alpha=alpha, relation=relation)

        return calibrate(target, cost, rises=True, count=count)

    def average(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        return typical_loss(
            weight_for(alpha), alpha, n_records=n_records, n_cells=n_cells, loss=loss
        )

    grid = np.log(_PRIORS[least <= _PRIORS])
    best = int(np.argmin([average(point) for point in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(
        average, bounds=bracket, method="bounded", options={"xatol": 1e-3}
    )
    alpha = float(np.exp(found.x))
    return Design(weight_for(alpha), alpha, float(found.fun))


def typical_loss(
    weight: float, alpha: float, *, n_records: float, n_cells: int, loss: Loss = "kl"
) -> float:
    """Return the loss of a draw, averaged over all histograms as equally likely.

    The true frequencies are taken to be uniform on the simplex; the arguments are those of
    `design`. Each frequency then follows Beta(1, n_cells − 1), and the average over it is a
    Gauss-Jacobi sum.
    """
    weight, alpha = check_positive("weight", weight), check_positive("alpha", alpha)
    n_records = check_positive("n_records", n_records)
    n_cells = check_count("n_cells", n_cells, least=2)
    nodes, weights = special.roots_jacobi(128, n_cells - 2, 0)
    p = (1 + nodes) / 2
    each = _cell_losses(p, n_records, weight, alpha, _check_loss(loss), n_cells=n_cells)
    return float(n_cells * (weights @ each) / weights.sum())


def expected_loss(histogram: ArrayLike, weight: float, alpha: float, *, loss: Loss = "kl") -> float:
    """Return the expected loss of a draw from ``Dirichlet(weight * histogram + alpha)``, exactly.

    Parameters
    ----------
    histogram : array_like, shape (K,)
        The true counts, >= 0, not all zero. The result is about them, and not private.
    weight, alpha : float
        Of the release, > 0.
    loss : {"kl", "l2", "l1"}
        As for `design`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    counts = as_floats("histogram", histogram)
    total = counts.sum()
    if counts.ndim != 1 or counts.size < 2 or not (counts >= 0).all() or not 0 < total < np.inf:
        raise ValueError(
            "histogram must be counts >= 0 of at least two cells, not all zero; it is not shown."
        )
    weight, alpha = check_positive("weight", weight), check_positive("alpha", alpha)
    p, total = counts / total, float(total)
    return float(_cell_losses(p, total, weight, alpha, _check_loss(loss), n_cells=p.size).sum())


def _cell_losses(
    p: FloatArray, n_records: float, weight: float, alpha: float, loss: Loss, *, n_cells: int
) -> FloatArray:
    """Return the part of each cell, of frequency p, in the expected loss of its row."""
    with np.errstate(all="ignore"):  # what floats do not hold is refused
        each = _beta_losses(p, weight * n_records, alpha, n_cells, loss)
    if not np.isfinite(each).all():
        raise ValueError(
            "weight and alpha must be such that floats hold the loss, got "
            f"{weight:g} and {alpha:g}."
        )
    return each


def _beta_losses(
    p: FloatArray, total_weight: float, alpha: float, n_cells: int, loss: Loss
) -> FloatArray:
    """Return the losses of cells whose probabilities follow Beta(b, c).

    ``b = total_weight p + alpha``, and ``b + c`` is the row's total.
    """
    total = total_weight + n_cells * alpha
    b = total_weight * p + alpha
    mean = b / total
    if loss == "kl":
        held = np.where(p > 0, b, total)  # an empty cell adds nothing, however small its prior
        return special.xlogy(p, p) - p * (special.digamma(held) - special.digamma(total))
    if loss == "l2":
        return mean * (1 - mean) / (total + 1) + (mean - p) ** 2
    below = p * special.betainc(b, total - b, p) - mean * special.betainc(b + 1, total - b, p)
    return 2 * below + mean - p


def _check_loss(loss: Loss) -> Loss:
    check_among("loss", loss, get_args(Loss))
    return loss
