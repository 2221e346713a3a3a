"""Accounting: composing very many different releases, loss distributions, calibration."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privrl.accounting import ApproxDP, PldAccountant, RdpAccountant, RenyiDP
from privrl.costs import (
    AddRemoveRecord,
    DirichletCost,
    GaussianCost,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
)
from privrl.costs.relations import ReplaceTransition
from privrl.mechanisms import DirichletMechanism
from privrl.samplers import NoisyCounts

_DELTA = 1e-5
_RELATIONS = {
    "replace record": ReplaceRecord(),
    "add or remove record": AddRemoveRecord(),
    "replace transition": ReplaceTransition(),
    "replace step": ReplaceStep(),
    "replace episode of 30": ReplaceEpisode(30),
}
_MANY = 100_000
_COUNTS = (10, 100, 1000, 10_000, _MANY)
_PEERS_COUNTS = (10, 100, 1000)


class _Fresh:
    """Makes releases that differ from each other and from those of all rounds before.

    So nothing that is remembered of one round helps the next. Costs in all stay the same.
    """

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def dirichlet(self, relation, n):
        largest = 30.0 if relation.convex_from else 1.0  # whole episodes cost that much more
        weights = self._rng.uniform(0.5, 1.0, n) / largest / math.sqrt(n)
        return [DirichletCost(weight=s, alpha=10.0, relation=relation) for s in weights.tolist()]

    def sigmas(self, n):
        return (self._rng.uniform(4.0, 8.0, n) * math.sqrt(n)).tolist()

    def gaussian(self, n):
        return [GaussianCost(sigma=s, relation=ReplaceRecord()) for s in self.sigmas(n)]

    def target(self, like):
        return replace(like, epsilon=like.epsilon * self._rng.uniform(0.99, 1.0))


_fresh = _Fresh()


def _needs_dp_accounting(module=""):
    name = f"dp_accounting.{module}".rstrip(".")
    return pytest.importorskip(name, reason="no dp-accounting: pip install 'privrl[bench]'")


def _epsilon(accountant, releases):
    for cost in releases:
        accountant.compose(cost)
    return accountant.epsilon(_DELTA)


@pytest.mark.parametrize("name", _RELATIONS)
def test_compose_many(measure, quick, name):
    n = _MANY // 10 if quick else _MANY
    measure(
        f"Dirichlet, {name}",
        lambda releases: _epsilon(RdpAccountant(), releases),
        at=n,
        work=n,
        setup=lambda: _fresh.dirichlet(_RELATIONS[name], n),
        rounds=2,
    )


@pytest.mark.parametrize("n", _COUNTS)
@pytest.mark.parametrize("kind", ["Dirichlet", "Gaussian"])
def test_compose(measure, quick, kind, n):
    if quick and n == _MANY:
        pytest.skip("a quick run composes fewer")
    measure(
        kind,
        lambda releases: _epsilon(RdpAccountant(), releases),
        at=n,
        work=n,
        setup=lambda: (
            _fresh.gaussian(n) if kind == "Gaussian" else _fresh.dirichlet(ReplaceStep(), n)
        ),
        rounds=3,
    )


@pytest.mark.parametrize("n", _PEERS_COUNTS)
def test_dp_accounting(measure, n):
    package, rdp = _needs_dp_accounting(), _needs_dp_accounting("rdp")

    def compose(sigmas) -> float:
        accountant = rdp.RdpAccountant(neighboring_relation=package.NeighboringRelation.REPLACE_ONE)
        for sigma in sigmas:
            accountant.compose(package.GaussianDpEvent(sigma))
        return accountant.get_epsilon(_DELTA)

    measure("dp-accounting", compose, at=n, work=n, setup=lambda: _fresh.sigmas(n), rounds=3)


@pytest.mark.parametrize("n", _PEERS_COUNTS)
def test_orders_of_dp_accounting(measure, n):
    """Ours, at as many orders as theirs are by default."""
    rdp = _needs_dp_accounting("rdp")
    orders = rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    measure(
        "Gaussian, orders of dp-accounting",
        lambda releases: _epsilon(RdpAccountant(orders=orders), releases),
        at=n,
        work=n,
        setup=lambda: _fresh.gaussian(n),
        rounds=3,
    )


@pytest.mark.parametrize("kind", ["Dirichlet", "Gaussian"])
def test_loss_distributions(measure, quick, kind):
    _needs_dp_accounting("pld")
    n = 20 if quick else 100
    measure(
        f"loss distributions, {kind}",
        lambda releases: _epsilon(PldAccountant(), releases),
        at=n,
        work=n,
        setup=lambda: (
            _fresh.gaussian(n) if kind == "Gaussian" else _fresh.dirichlet(ReplaceRecord(), n)
        ),
        rounds=1,
    )


def test_dp_accounting_loss_distributions(measure, quick):
    package, pld = _needs_dp_accounting(), _needs_dp_accounting("pld")
    n = 20 if quick else 100

    def compose(sigmas) -> float:
        accountant = pld.PLDAccountant()
        for sigma in sigmas:
            accountant.compose(package.GaussianDpEvent(sigma))
        return accountant.get_epsilon(_DELTA)

    measure(
        "loss distributions, dp-accounting",
        compose,
        at=n,
        work=n,
        setup=lambda: _fresh.sigmas(n),
        rounds=1,
    )


_TARGETS = {"Rényi": RenyiDP(2.0, 1.0), "(ε, δ)": ApproxDP(1.0, _DELTA)}


@pytest.mark.parametrize("target", _TARGETS)
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("what", ["weight", "prior", "weight by loss distributions"])
def test_calibration(measure, what, count, target):
    options = {"relation": ReplaceStep(), "count": count}
    if what == "weight":

        def calibrate(aim):
            return DirichletMechanism.calibrated(aim, alpha=10.0, **options).weight

    elif what == "prior":

        def calibrate(aim):
            return DirichletMechanism.calibrated(aim, weight=0.5, **options).alpha

    else:
        if target == "Rényi":
            pytest.skip("loss distributions know no Rényi orders")
        _needs_dp_accounting("pld")

        def calibrate(aim):
            return DirichletMechanism.calibrated(
                aim, alpha=10.0, accountant=PldAccountant, **options
            ).weight

    rounds = 2 if "loss" in what else None
    measure(
        f"{what}, {target}",
        calibrate,
        at=count,
        setup=lambda: _fresh.target(_TARGETS[target]),
        rounds=rounds,
    )


@pytest.mark.parametrize("target", _TARGETS)
@pytest.mark.parametrize("count", [1, 100])
def test_noisy_counts(measure, count, target):
    measure(
        f"noisy counts, {target}",
        lambda aim: NoisyCounts.calibrated(aim, draws=count),
        at=count,
        setup=lambda: _fresh.target(_TARGETS[target]),
    )
