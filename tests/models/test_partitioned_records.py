"""Records in many files on a cluster give the model of one table, bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import Made

from privrl.accounting import ApproxDP, BudgetExceeded, RdpAccountant
from privrl.data import Bins, Categories, Schema
from privrl.models import (
    PrivateBayesNet,
    PrivateNaiveBayes,
    histogram,
    partitions,
    read_partitioned_records,
)

cloudpickle = pytest.importorskip("cloudpickle", reason="no Dask: pip install 'privrl[dask]'")
pytestmark = pytest.mark.needs("cloudpickle", "pyarrow")

AGE = Bins.even(0, 100, 10, missing=True)
SCHEMA = Schema(
    {
        "age": AGE,
        "sex": Categories(("f", "m")),
        "ill": Categories(("yes", "no"), other=False),
        "ward": Categories((1, 2, 3), other=True),
    }
)
TARGET = ApproxDP(2.0, 1e-5)


class Elsewhere:
    """Does as a cluster: all that it is given is sent to it, and so copied."""

    def __init__(self) -> None:
        self.shown = ""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Made:
        assert not pure  # else what was made would be named by what is private
        there = [each.result() if isinstance(each, Made) else each for each in given]
        self.shown += repr([each.result() for each in given if isinstance(each, Made)])
        function, _ = cloudpickle.loads(cloudpickle.dumps((function, [])))
        return Made(function(*there))


def people(n: int = 900, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    age = rng.normal(np.where(ill, 60, 40), 15)
    age[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "other": np.arange(n),
            "ward": rng.integers(1, 6, n),
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture
def records(tmp_path: Path) -> Any:
    frame = people()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 7)):
        frame.iloc[part].to_parquet(tmp_path / f"part-{number}.parquet", index=False)
    frame.iloc[:0].astype({"sex": str, "ill": str}).to_parquet(tmp_path / "part-none.parquet")
    return read_partitioned_records(tmp_path, SCHEMA, Elsewhere())


def test_histogram(records: Any) -> None:
    options: dict[str, Any] = {"target": TARGET}
    one = histogram(people()["age"], AGE, rng=np.random.default_rng(3), **options)
    alone = records.of(Schema({"age": AGE}))
    other = histogram(alone, AGE, rng=np.random.default_rng(3), **options)
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize("mechanism", ["auto", "gaussian"])
def test_naive_bayes(records: Any, mechanism: Any) -> None:
    def model() -> PrivateNaiveBayes:
        return PrivateNaiveBayes(
            SCHEMA, classes="ill", target=TARGET, mechanism=mechanism, random_state=4
        )

    frame = people()[[*SCHEMA.names]]
    one, other = model().fit(frame, frame["ill"]), model().fit(records)
    assert one.to_dict() == other.to_dict()
    assert list(other.feature_names_in_) == ["age", "sex", "ward"]
    assert (one.temperature_ != 1) == (mechanism == "auto")  # the second release of the cluster


@pytest.mark.parametrize("mechanism", ["auto", "laplace"])
def test_bayes_net(records: Any, mechanism: Any) -> None:
    net = PrivateBayesNet(
        parents={"age": (), "ill": ("age", "sex"), "sex": ()},
        schema=SCHEMA,
        target=TARGET,
        mechanism=mechanism,
    )
    one, other = (net.fit(each, np.random.default_rng(5)) for each in (people(), records))
    assert one.to_dict() == other.to_dict()


def test_edges_are_not_chosen_on_a_cluster(records: Any) -> None:
    accountant = RdpAccountant(budget=TARGET)
    net = PrivateBayesNet(parents="private", schema=SCHEMA, target=TARGET)
    with pytest.raises(ValueError, match="parents must be given for records on a cluster"):
        net.fit(records, np.random.default_rng(5), accountant=accountant)
    assert float(accountant.epsilon(1e-5)) == 0


def test_no_cell_is_shown_where_parts_go(records: Any) -> None:
    shown = repr(records) + records.client.shown
    assert "_Cells object" in shown
    assert "array" not in shown


def test_budgets_are_kept(records: Any) -> None:
    accountant = RdpAccountant(budget=ApproxDP(1.0, 1e-5))
    alone = records.of(Schema({"age": AGE}))
    with pytest.raises(BudgetExceeded):
        histogram(alone, AGE, target=TARGET, rng=np.random.default_rng(0), accountant=accountant)


def test_what_does_not_fit_is_refused(records: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a schema of one column"):
        histogram(records, AGE, target=TARGET, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="same columns as are asked for"):
        records.of(Schema({"age": Bins.even(0, 100, 5)}))
    with pytest.raises(ValueError, match="y=None"):
        PrivateNaiveBayes(SCHEMA, classes="ill", target=TARGET).fit(records, ["yes"])
    folder = tmp_path / "wrong"
    folder.mkdir()
    people().assign(sex="SECRET").to_parquet(folder / "a.parquet")
    with pytest.raises(ValueError, match="'sex' must hold nothing but its categories") as caught:
        read_partitioned_records(folder, SCHEMA, Elsewhere())
    assert "SECRET" not in str(caught.value)


class Dying(Elsewhere):
    """A cluster whose workers die when they are to count."""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Made:
        if function is partitions._tables and given[1] is not partitions._length:
            raise ChildProcessError("workers died again and again")
        return super().submit(function, *given, pure=pure)


@pytest.mark.parametrize("kind", ["histogram", "naive Bayes", "network", "network in two rounds"])
def test_workers_that_die_while_they_count_cost_nothing(kind: str, records: Any) -> None:
    """Naive Bayes was charged before its records were counted."""
    records, accountant = replace(records, client=Dying()), RdpAccountant()
    parents = {"sex": (), "ill": ("sex",) if kind == "network in two rounds" else ()}
    fits: dict[str, Callable[[], Any]] = {
        "histogram": lambda: histogram(
            records.of(SCHEMA.subset(["age"])), AGE, target=TARGET, accountant=accountant
        ),
        "naive Bayes": lambda: PrivateNaiveBayes(SCHEMA, classes="ill", target=TARGET).fit(
            records, accountant=accountant
        ),
    }
    network = PrivateBayesNet(parents=parents, schema=SCHEMA, target=TARGET)
    with pytest.raises(ChildProcessError) as died:
        fits.get(kind, lambda: network.fit(records, accountant=accountant))()
    assert accountant.epsilon(1e-5) == 0
    assert not getattr(died.value, "__notes__", [])
