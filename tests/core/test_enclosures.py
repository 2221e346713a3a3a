"""Some of the random parameters of `enclosures.py`, and that it sees a number that is off."""

import pytest

flint = pytest.importorskip("flint", reason="no flint: pip install python-flint")

from enclosures import COSTS, hold  # noqa: E402 # it needs flint

from privrl.costs.noise import LaplaceCost  # noqa: E402 # as above


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTS)
def test_no_number_is_below_the_truth_nor_far_above(name: str) -> None:
    tally = hold(name, 50, seed=1)
    assert tally.checked >= 50
    assert not tally.below
    assert not tally.above


@pytest.mark.parametrize("factor", [1 - 1e-12, 1 + 2e-9])
def test_a_number_that_is_off_is_seen(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = LaplaceCost.rdp
    monkeypatch.setattr(LaplaceCost, "rdp", lambda self, orders: factor * whole(self, orders))
    tally = hold("laplace rdp", 50, seed=1)
    assert len(tally.below if factor < 1 else tally.above) > 40
