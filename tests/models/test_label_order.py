"""Labels may be given in any order: each keeps its own number, in memory, in files and queries."""

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl.data.schema import Categories, Schema
from privrl.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from privrl.models import PrivateBayesNet, histogram, value_counts
from privrl.models.bayes_net.network import BayesNet
from privrl.models.histograms.result import PrivateHistogram

LABELS = ("zebra", "ant", "bee")
ORDERS = list(permutations(LABELS))
RECORDS = pd.DataFrame(
    {
        "animal": ["zebra"] * 50 + ["ant"] * 20 + ["bee"] * 30,
        "size": ["large"] * 45 + ["small"] * 50 + ["large"] * 5,
    }
)


@pytest.fixture
def _no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of its own for each place would differ by the order."""
    for kind in (GaussianMechanism, LaplaceMechanism):
        monkeypatch.setattr(kind, "_draw", lambda self, data, rng: data + 0.25)


@pytest.mark.usefixtures("_no_noise")
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("other", [False, True])
def test_histograms(order: tuple[str, ...], other: bool) -> None:
    def released(labels: tuple[str, ...]) -> PrivateHistogram:
        column = Categories(labels, other=other)
        return histogram(RECORDS.animal, column, epsilon=1, rng=0, mechanism="gaussian")

    ours, theirs = released(order), released(LABELS)
    for model in (ours, PrivateHistogram.from_dict(ours.to_dict())):
        noisy = pd.Series(model.noisy, model.labels)[list(theirs.labels)]
        np.testing.assert_array_equal(noisy, theirs.noisy)
        # Chains are among the priors: they take neighbouring cells for alike, and move a little.
        found = model.to_series()[list(theirs.labels)]
        np.testing.assert_allclose(found, theirs.to_series(), atol=0.005)
        ends = model.to_frame().loc[list(theirs.labels), ["lower", "upper"]]
        np.testing.assert_allclose(ends, theirs.to_frame()[["lower", "upper"]], atol=0.5)
        assert model.to_series().idxmax() == "zebra"
        drawn = model.sample(2000, 0).value_counts()
        assert drawn.idxmax() == "zebra"
        assert drawn["bee"] > drawn["ant"]


@pytest.mark.usefixtures("_no_noise")
def test_value_counts() -> None:
    counts = [
        value_counts(RECORDS.animal, order, epsilon=1, rng=0, mechanism="gaussian").to_series()
        for order in ORDERS
    ]
    for each, order in zip(counts, ORDERS, strict=True):
        assert tuple(each.index) == order
        np.testing.assert_allclose(each[list(LABELS)], counts[0], atol=0.005)


@pytest.mark.few(12)
@pytest.mark.needs("networkx", "opt_einsum")
@pytest.mark.usefixtures("_no_noise")
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize(
    ("mechanism", "epsilon"), [("none", None), ("auto", 1.0), ("auto", 50.0), ("laplace", 1.0)]
)
def test_networks(order: tuple[str, ...], mechanism: Any, epsilon: float | None) -> None:
    def fitted(labels: tuple[str, ...], sizes: tuple[str, ...]) -> BayesNet:
        columns = {"animal": Categories(labels), "size": Categories(sizes)}
        names = ("animal", "size") if sizes[0] == "large" else ("size", "animal")
        return PrivateBayesNet(
            parents={"animal": (), "size": ("animal",)},
            schema=Schema({name: columns[name] for name in names}),
            epsilon=epsilon,
            mechanism=mechanism,
        ).fit(RECORDS, 0)

    theirs = fitted(LABELS, ("large", "small"))
    for sizes in (("large", "small"), ("small", "large")):
        ours = fitted(order, sizes)
        for net in (ours, BayesNet.from_dict(ours.to_dict())):
            for asked, evidence in (("animal", {}), ("size", {"animal": "bee"})):
                found, wanted = net.query(asked, evidence), theirs.query(asked, evidence)
                np.testing.assert_allclose(found[wanted.index], wanted, rtol=1e-9)
            assert net.log_likelihood(RECORDS) == pytest.approx(theirs.log_likelihood(RECORDS))
