"""Every check names the argument and shows the value, and NaN never gets through."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.base import BatchCost, NoPrivacy, Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import Relation, ReplaceEpisode, ReplaceRecord
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.special import bregman_lgamma

NAN, INF = math.nan, math.inf
RECORD = ReplaceRecord()
NOT_POSITIVE = [0, 0.0, -1, -1e-300, NAN, INF, -INF]
NOT_AN_ORDER = [1, 1.0, 0.5, 0, -2, NAN]
NOT_AN_EPSILON = [-1, -1e-300, NAN, INF, -INF]
NOT_A_DELTA = [0, 1, 1.5, -0.1, NAN, INF]
NOT_A_COUNT = [0, -1, 1.5, 2.0, NAN, INF, True, "3"]
NOT_A_NUMBER = ["1", None, True]

GOOD = DirichletCost(weight=1, alpha=2, relation=RECORD)
EXPENSIVE = DirichletCost(weight=1, alpha=2, relation=RECORD, bound="dps")
TOGETHER = Together([GOOD, GOOD])
BATCH = BatchCost([GOOD, GOOD])
NOTHING = NoPrivacy(RECORD)
EVERY_KIND = [GOOD, EXPENSIVE, TOGETHER, BATCH, NOTHING]
TARGETS = [RenyiDP(2, 1), ApproxDP(1, 1e-5)]


def refused(name: str, value: object, call: Callable[[], object]) -> None:
    """`call` must raise a ValueError whose text has the argument's name and the value."""
    with pytest.raises(ValueError, match=rf"\b{name}\b") as error:
        call()
    text = str(error.value)
    shown = {repr(value), str(value)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown |= {repr(float(value)), f"{value:g}"}
    assert any(re.search(re.escape(s) + r"(?![\w])", text) for s in shown), text


# Releases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_A_NUMBER)
@pytest.mark.parametrize("bound", ["exact", "dps"])
def test_weight_and_alpha_of_a_release(value: object, bound: str) -> None:
    common = {"relation": RECORD, "bound": bound}
    refused("weight", value, lambda: DirichletCost(weight=value, alpha=1, **common))
    refused("alpha", value, lambda: DirichletCost(weight=1, alpha=value, **common))


@pytest.mark.parametrize("value", ["", "Exact", "gsc", None, 3])
def test_bound_of_a_release(value: object) -> None:
    refused("bound", value, lambda: DirichletCost(weight=1, alpha=1, relation=RECORD, bound=value))


@pytest.mark.parametrize("value", ["", "count", "transitions"])
def test_table_of_a_release(value: str) -> None:
    refused("table", value, lambda: DirichletCost(weight=1, alpha=1, relation=RECORD, table=value))


@pytest.mark.parametrize("cost", EVERY_KIND, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("value", NOT_AN_ORDER)
def test_orders_of_rdp(cost: object, value: float) -> None:
    refused("orders", value, lambda: cost.rdp(value))
    refused("orders", value, lambda: cost.rdp([2.0, value, 3.0]))


@pytest.mark.parametrize("cost", EVERY_KIND, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("value", NOT_AN_EPSILON)
def test_epsilon_of_delta(cost: object, value: float) -> None:
    refused("epsilon", value, lambda: cost.delta(value))
    refused("epsilon", value, lambda: cost.delta([0.0, value]))


@pytest.mark.parametrize("cost", EVERY_KIND, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("value", NOT_A_DELTA)
def test_delta_of_epsilon(cost: object, value: float) -> None:
    refused("delta", value, lambda: cost.epsilon(value))


# Relations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", NOT_A_COUNT)
def test_horizon(value: object) -> None:
    refused("horizon", value, lambda: ReplaceEpisode(value))


@pytest.mark.parametrize("value", [0, 0.0, NAN, INF, -INF])
def test_amounts_of_a_relation(value: float) -> None:
    refused("counts", value, lambda: Relation("mine", {"counts": [(1, -1), (value,)]}))


def test_an_empty_change_vector() -> None:
    refused("counts", (), lambda: Relation("mine", {"counts": [()]}))


def test_a_relation_without_tables() -> None:
    with pytest.raises(ValueError, match="tables"):
        Relation("mine", {})


# Accountant ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*NOT_AN_ORDER, INF])
def test_orders_of_an_accountant(value: float) -> None:
    refused("orders", value, lambda: RdpAccountant(orders=[2.0, value]))
    refused("orders", value, lambda: RdpAccountant(orders=np.array([value])))


def test_no_orders() -> None:
    with pytest.raises(ValueError, match="orders"):
        RdpAccountant(orders=[])


@pytest.mark.parametrize(
    ("given", "asked", "value"),
    [
        *(("delta", "epsilon", value) for value in NOT_A_DELTA),
        *(("epsilon", "delta", value) for value in NOT_AN_EPSILON),
    ],
)
@pytest.mark.parametrize("used", [0, 1, 2])
def test_a_loss_asked_of_an_accountant(given: str, asked: str, value: float, used: int) -> None:
    accountant = RdpAccountant()
    if used:
        accountant.compose(GOOD, used)
    refused(given, value, lambda: getattr(accountant, asked)(value))


@pytest.mark.parametrize("value", [1.0, 0.3, -2, NAN, INF, 2.000001])
def test_order_asked_of_an_accountant(value: float) -> None:
    refused("order", value, lambda: RdpAccountant(orders=[2.0]).spent(value))


# Targets and calibration --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*NOT_AN_ORDER, INF, *NOT_A_NUMBER])
def test_order_of_a_target(value: object) -> None:
    refused("order", value, lambda: RenyiDP(value, 1))


@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_A_NUMBER)
def test_epsilon_of_a_target(value: object) -> None:
    refused("epsilon", value, lambda: RenyiDP(2, value))
    refused("epsilon", value, lambda: ApproxDP(value, 1e-5))


@pytest.mark.parametrize("value", NOT_A_DELTA + NOT_A_NUMBER)
def test_delta_of_a_target(value: object) -> None:
    refused("delta", value, lambda: ApproxDP(1, value))


@pytest.mark.parametrize("target", TARGETS, ids=repr)
@pytest.mark.parametrize("value", NOT_POSITIVE + NOT_A_NUMBER)
def test_what_calibration_is_told(target: RenyiDP | ApproxDP, value: object) -> None:
    refused(
        "alpha",
        value,
        lambda: DirichletMechanism.calibrated(target, alpha=value, relation=RECORD).weight,
    )
    refused(
        "weight",
        value,
        lambda: DirichletMechanism.calibrated(target, weight=value, relation=RECORD).alpha,
    )


@pytest.mark.parametrize("target", TARGETS, ids=repr)
@pytest.mark.parametrize("value", NOT_A_COUNT)
def test_count_of_a_calibration(target: RenyiDP | ApproxDP, value: object) -> None:
    common = {"relation": RECORD, "count": value}
    refused("count", value, lambda: DirichletMechanism.calibrated(target, alpha=1, **common).weight)
    refused("count", value, lambda: DirichletMechanism.calibrated(target, weight=1, **common).alpha)


@pytest.mark.parametrize("name", ["bound", "table"])
def test_names_of_a_calibration(name: str) -> None:
    common = {"relation": RECORD, name: "nonesuch"}
    refused(
        name,
        "nonesuch",
        lambda: DirichletMechanism.calibrated(RenyiDP(2, 1), alpha=1, **common).weight,
    )
    refused(
        name,
        "nonesuch",
        lambda: DirichletMechanism.calibrated(RenyiDP(2, 1), weight=1, **common).alpha,
    )


# Arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_concentrations(value: float) -> None:
    rng = np.random.default_rng(0)
    refused("alpha", value, lambda: dirichlet_rows([[1.0, 2.0], [value, 1.0]], rng))
    refused("alpha", value, lambda: dirichlet_rows([1.0, value], rng))


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
def test_base_of_bregman_lgamma(value: float) -> None:
    refused("a", value, lambda: bregman_lgamma(value, 0.1))
    refused("a", value, lambda: bregman_lgamma([1.0, value], 0.1))


@pytest.mark.parametrize("value", [-1.0, -2.0, NAN, INF])
def test_move_of_bregman_lgamma(value: float) -> None:
    refused("t", value, lambda: bregman_lgamma(1.0, value))
