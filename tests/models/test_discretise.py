"""Private quantile bins: near the quantiles, within public bounds, and paid for."""

import numpy as np
import pandas as pd
import pytest

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.models import discretise

BOUNDS = {"age": (0, 100), "income": (0, 1000)}


def frame(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"income": rng.exponential(100, n), "age": rng.normal(40, 12, n)})


def cut(table=None, bounds=BOUNDS, target=None, seed=0, **more):
    table = frame() if table is None else table
    target = RenyiDP(5, 1.0) if target is None else target
    return discretise(table, bounds, target=target, rng=np.random.default_rng(seed), **more)


@pytest.mark.few(9)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1e6])
def test_bins_hold_about_equally_many_records(epsilon):
    """Of 20,000 records in 10 bins: 2000 each, within the grid's steps and the noise."""
    table = frame()
    found = cut(table, target=RenyiDP(5, epsilon))
    assert list(found) == ["age", "income"]
    for name, bins in found.items():
        assert (bins.edges[0], bins.edges[-1]) == BOUNDS[name]
        held = np.bincount(bins.encode(table[name]), minlength=bins.size)
        assert bins.size == 10
        assert 1000 < held.min() <= held.max() < 3500


def test_without_noise_edges_are_the_quantiles_on_the_grid():
    table = frame()
    edges = cut(table, target=RenyiDP(5, 1e9), bins=4, grid=1000)["age"].edges
    np.testing.assert_allclose(edges[1:-1], np.quantile(table["age"], [0.25, 0.5, 0.75]), atol=0.2)


def test_one_value_leaves_few_bins():
    table = pd.DataFrame({"age": np.full(1000, 33.0)})
    bins = cut(table, {"age": (0, 100)}, target=RenyiDP(5, 1e6))["age"]
    assert 2 <= bins.size <= 3


@pytest.mark.few(6)
@pytest.mark.parametrize("target", [RenyiDP(5, 1.0), ApproxDP(1.0, 1e-5)], ids=str)
def test_the_target_covers_all_columns(target):
    accountant = RdpAccountant(budget=target)
    cut(target=target, accountant=accountant)
    if isinstance(target, RenyiDP):
        assert float(accountant.spent(5.0)) == pytest.approx(1.0)
    else:
        assert float(accountant.delta(1.0)) == pytest.approx(1e-5, rel=1e-3)
    with pytest.raises(BudgetExceeded):
        cut(target=target, accountant=accountant)


def test_outliers_and_missing_values_change_no_bounds():
    table = frame(2000)
    table.loc[0, "age"] = 1e12
    table.loc[1:50, "age"] = np.nan
    bins = cut(table, missing=True)["age"]
    assert (bins.edges[0], bins.edges[-1], bins.missing) == (0, 100, True)
    assert bins.encode(table["age"])[1] == bins.size - 1
    empty = cut(table.assign(age=np.nan), missing=True)["age"]
    assert empty.size >= 2


def test_one_record():
    assert cut(frame(1))["age"].size >= 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 1}, "bins must be"),
        ({"grid": 9}, "grid must be a whole number >= 10"),
        ({"bounds": {}}, "at least one"),
        ({"bounds": {"age": (5, 1)}}, "edges"),
        ({"bounds": {"height": (0, 1)}}, "height"),
        ({"target": 1.0}, "target must be"),
        ({"table": frame(0)}, "at least one record"),
        ({"table": frame().assign(age="secret")}, "'age'"),
        ({"table": frame().assign(age=np.nan)}, "'age'"),
        ({"table": [1, 2]}, "frame must be"),
        ({"bounds": {"age": (0, 50, 100)}}, r"bounds must map columns to \(low, high\)"),
        ({"bounds": {"age": 5}}, "bounds must map"),
        ({"bounds": (0, 100)}, "bounds must map"),
    ],
)
def test_bad_arguments_cost_nothing_and_show_no_value(change, message):
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=message) as caught:
        cut(**change, accountant=accountant)
    assert "secret" not in str(caught.value)
    assert accountant.relation is None


def test_a_number_below_0_is_no_seed():
    with pytest.raises(ValueError, match="rng must be"):
        discretise(frame(), BOUNDS, target=RenyiDP(5, 1.0), rng=-3)
