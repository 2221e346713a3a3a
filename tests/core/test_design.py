"""Choosing weight and prior together: exact losses, and no better choice nearby."""

import numpy as np
import pytest

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import AddRemoveRecord, ReplaceEpisode, ReplaceRecord
from privrl.mechanisms.design import Loss, design, expected_loss, typical_loss
from privrl.mechanisms.dirichlet import DirichletMechanism

HISTOGRAM = np.array([119, 74, 618, 272, 13, 187])  # of DKL's Figure 3
LOSSES = ("kl", "l2", "l1")


@pytest.mark.few(4)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("histogram", [HISTOGRAM, np.array([0, 5, 1])], ids=str)
@pytest.mark.parametrize(("weight", "alpha"), [(0.3, 5.0), (1.0, 0.6)])
def test_expected_loss_against_simulation(loss: Loss, histogram, weight, alpha) -> None:
    """The mean of 200,000 draws lies within six standard errors."""
    p = histogram / histogram.sum()
    y = np.random.default_rng(1).dirichlet(weight * histogram + alpha, 200_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(p > 0, p * np.log(p / y), 0.0).sum(1)
    drawn = {"kl": kl, "l2": ((y - p) ** 2).sum(1), "l1": np.abs(y - p).sum(1)}[loss]
    error = 6 * drawn.std() / np.sqrt(len(drawn))
    assert expected_loss(histogram, weight, alpha, loss=loss) == pytest.approx(
        drawn.mean(), abs=error
    )


@pytest.mark.few(9)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_cells", [2, 6, 400])
def test_typical_loss_is_the_average_over_histograms(loss: Loss, n_cells: int) -> None:
    """The mean over 4,000 frequencies drawn from the simplex lies within six standard errors."""
    rng = np.random.default_rng(2)
    each = [
        expected_loss(1000 * p, 0.2, 3.0, loss=loss) for p in rng.dirichlet(np.ones(n_cells), 4000)
    ]
    typical = typical_loss(0.2, 3.0, n_records=1000, n_cells=n_cells, loss=loss)
    assert typical == pytest.approx(np.mean(each), abs=6 * np.std(each) / np.sqrt(4000))


@pytest.mark.few(12)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "target", [RenyiDP(2, 0.1), RenyiDP(5, 1.0), ApproxDP(1.0, 1e-5)], ids=repr
)
def test_no_other_prior_does_better(loss: Loss, target) -> None:
    best = design(target, n_records=1283, n_cells=6, loss=loss)
    alone = DirichletMechanism.calibrated(target, alpha=best.alpha, relation=ReplaceRecord())
    assert best.weight == pytest.approx(alone.weight, rel=1e-11)  # where a calibration may end
    for alpha in best.alpha * np.array([0.03, 0.3, 0.9, 1.1, 3.0, 30.0]):
        weight = DirichletMechanism.calibrated(target, alpha=alpha, relation=ReplaceRecord()).weight
        other = typical_loss(weight, alpha, n_records=1283, n_cells=6, loss=loss)
        assert other >= best.loss * (1 - 1e-6)


def test_a_design_beats_either_knob_alone() -> None:
    """Turning only the prior (weight 1), or only the weight (prior 1): both keep less."""
    target = RenyiDP(2, 0.01)
    best = design(target, n_records=1283, n_cells=6)
    concentrated = DirichletMechanism.calibrated(target, weight=1.0, relation=ReplaceRecord()).alpha
    diffuse = DirichletMechanism.calibrated(target, alpha=1.0, relation=ReplaceRecord()).weight
    mine = expected_loss(HISTOGRAM, best.weight, best.alpha)
    assert mine < 0.7 * expected_loss(HISTOGRAM, 1.0, concentrated)
    assert mine < 0.7 * expected_loss(HISTOGRAM, diffuse, 1.0)


@pytest.mark.parametrize("relation", [AddRemoveRecord(), ReplaceEpisode(5)], ids=str)
def test_the_target_is_met_under_any_relation(relation) -> None:
    target = RenyiDP(3, 0.5)
    best = design(target, n_records=500, n_cells=4, relation=relation, count=10)
    cost = DirichletCost(weight=best.weight, alpha=best.alpha, relation=relation)
    assert 0.499 < 10 * float(cost.rdp(3)) <= 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_records": 0}, "n_records must be"),
        ({"n_records": np.nan}, "n_records must be"),
        ({"n_cells": 1}, "n_cells must be"),
        ({"n_cells": 2.5}, "n_cells must be"),
        ({"loss": "mse"}, "loss must be one of 'kl'"),
        ({"count": 0}, "count must be"),
    ],
    ids=str,
)
def test_bad_designs(changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design(RenyiDP(2, 1), **{"n_records": 10, "n_cells": 3} | changes)


@pytest.mark.parametrize("histogram", [[1], [0, 0], [1, -1, 3], [np.nan, 1], [[1, 2], [3, 4]]])
def test_bad_histograms(histogram) -> None:
    with pytest.raises(ValueError, match="histogram must be"):
        expected_loss(histogram, 1.0, 1.0)
