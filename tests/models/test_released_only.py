"""A model is a function of what was released: with that held fixed, records make no difference."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl.accounting.targets import RenyiDP
from privrl.costs.relations import AddRemoveRecord
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms import TablesMechanism
from privrl.mechanisms.tables import ReleasedTable
from privrl.models import discretise
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.histograms.release import histogram, value_counts

SCHEMA = Schema({"age": Bins.even(0, 100, 4), "kind": Categories(("a", "b", "c"))})
PARENTS: dict[str, tuple[str, ...]] = {"age": (), "kind": ("age",)}
TARGET = RenyiDP(2, 1.0)


def naive_bayes(frame: pd.DataFrame) -> Any:
    sklearn = pytest.importorskip("privrl.models.naive_bayes.classifier", reason="an extra")
    model = sklearn.PrivateNaiveBayes(
        SCHEMA, classes="kind", target=RenyiDP(2, 50.0), random_state=0
    )
    return model.fit(frame[["age"]], frame["kind"]).to_dict()


def bayes_net(frame: pd.DataFrame) -> Any:
    pytest.importorskip("networkx", reason="an extra: privrl[models]")
    spec = PrivateBayesNet(parents=PARENTS, schema=SCHEMA, target=TARGET)
    fitted = spec.fit(frame, np.random.default_rng(0))
    return {name: table.tolist() for name, table in fitted.probabilities.items()}


def bins(frame: pd.DataFrame) -> Any:
    bounds = {"age": (0.0, 100.0)}
    made = discretise(frame, bounds, target=TARGET, rng=np.random.default_rng(0))
    return made["age"].edges


def ages(frame: pd.DataFrame, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    released = histogram(frame["age"], 4, (0, 100), target=TARGET, rng=rng, **options)
    return released.to_dict()


def many_ages(frame: pd.DataFrame) -> Any:
    """With sums of blocks beside the counts."""
    rng = np.random.default_rng(0)
    released = histogram(
        frame["age"], 50, (0, 100), target=TARGET, rng=rng, mechanism="blocks"
    )  # fmt: skip
    return released.to_dict()


def kinds(frame: pd.DataFrame) -> Any:
    rng = np.random.default_rng(0)
    return value_counts(frame["kind"], ("a", "b", "c"), target=TARGET, rng=rng).to_dict()


def crowd(frame: pd.DataFrame) -> Any:
    """Where the number of records is private too."""
    return ages(frame.iloc[: 200 + 100 * int(frame["age"].iloc[0])], relation=AddRemoveRecord())


@pytest.mark.few(9)
@pytest.mark.parametrize("make", [naive_bayes, bayes_net, bins, ages, many_ages, kinds, crowd])
def test_models_are_functions_of_what_was_released(
    make: Callable[[pd.DataFrame], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def values(size: int) -> Any:
        return 10.0 + np.arange(size) ** 2 * 70 % 310  # rows that differ, so that all of it matters

    def tables(self: TablesMechanism, data: Any, rng: Any) -> tuple[ReleasedTable, ...]:
        return tuple(
            ReleasedTable(values(np.prod(shape)).reshape(shape), self.mechanism, size)
            for shape, size in zip(self.shapes, self.deviations, strict=True)
        )

    def cells(self: Any, data: Any, rng: Any) -> Any:
        return values(data.size).reshape(data.shape)

    monkeypatch.setattr(TablesMechanism, "_draw", tables)
    for kind in ("_Continuous", "_Discrete"):
        monkeypatch.setattr(f"privrl.mechanisms.additive.{kind}._draw", cells)
    one = pd.DataFrame({"age": np.full(500, 1.0), "kind": ["a"] * 500})
    # Released rows predict these classes, and not those of the others: so is the temperature told.
    other = pd.DataFrame({"age": [60.0, 2.0] * 250, "kind": ["a", "b"] * 250})
    first, second = (json.dumps(make(frame)) for frame in (one, other))
    assert first == second
