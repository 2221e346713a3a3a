"""What notebooks show: the facts of ``repr``, escaped, and no arrays of anything."""

import importlib
import re
from dataclasses import dataclass, field
from html import unescape
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl import costs
from privrl.accounting import RenyiDP
from privrl.agents import Policy
from privrl.costs import base, choice, dirichlet, noise, simplex
from privrl.data.schema import Categories
from privrl.experiments.training.run import TrainResult
from privrl.files.html import InHtml, table
from privrl.models.histograms.release import histogram
from privrl.numerics.randomness import secret_rng

EVIL = "<b>one & 'two'</b>"
RESULTS = {
    "audit.black_box": ("AuditResult",),
    "audit.laws": ("LawResult",),
    "audit.replay": ("ReplayResult",),
    "audit.separations": ("SeparationResult",),
    "envs": ("Released",),
    "envs.worth": ("Worth",),
    "models": ("PrivateNaiveBayes",),
    "models.bayes_net.network": ("BayesNet",),
    "models.histograms.result": ("PrivateHistogram",),
    "offline": ("LoggedPolicy", "PolicyValue", "ReleasedPolicy"),
    "offline.facts": ("Estimate", "LogFacts"),
    "experiments.suites.suite": ("SuiteResult",),
    "experiments.sweeps.sweep": ("SweepResult",),
    "experiments.training.run": ("TrainResult",),
}


def cells(html: str) -> list[str]:
    return [unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", html)]


@dataclass(frozen=True)
class Shown(InHtml):
    name: str
    size: float
    array: Any
    hidden: str = field(repr=False, default="raw counts")


def test_it_says_what_repr_does_and_of_arrays_their_size() -> None:
    shown = Shown(EVIL, 0.1, np.arange(6.0).reshape(2, 3) + 41.5)
    html = shown._repr_html_()
    assert cells(html) == ["name", EVIL, "size", "0.1", "array", "ndarray of 2 × 3"]
    assert "<b>" not in html
    assert "raw counts" not in repr(shown) + html
    assert "41.5" not in html
    assert len(cells(Shown("x" * 999, 0, None)._repr_html_())[1]) == 200


def test_a_table_escapes_its_caption_heads_and_cells() -> None:
    html = table(EVIL, [(EVIL, EVIL)], (EVIL, EVIL))
    assert "<b>" not in html
    assert html.count("&lt;b&gt;") == 5


def test_a_cost_has_the_fields_of_its_repr() -> None:
    cost = costs.GaussianCost(sigma=2.0, relation=costs.ReplaceRecord())
    shown = ["relation", "replace one record", "table", "counts", "sigma", "2.0"]
    assert cells(cost._repr_html_()) == shown


@pytest.mark.parametrize("module", [base, choice, dirichlet, noise, simplex])
def test_every_cost_is_shown(module: ModuleType) -> None:
    for name, kind in vars(module).items():
        if name.endswith("Cost") and name != "Cost":
            assert hasattr(kind, "_repr_html_")


@pytest.mark.parametrize(
    ("folder", "name"), [(f, n) for f, names in RESULTS.items() for n in names]
)
def test_every_result_and_model_is_shown(folder: str, name: str) -> None:
    try:
        kind = getattr(importlib.import_module(f"privrl.{folder}"), name)
    except ImportError as error:
        pytest.skip(f"{error}: pip install 'privrl[models]'")
    assert hasattr(kind, "_repr_html_")


def test_rewards_as_they_were_are_not_shown() -> None:
    record = pd.DataFrame({"reward": [0.73201] * 3})
    policy = Policy(actions=np.zeros((2, 3), np.intp), n_actions=1)
    result = TrainResult(policy, record, {"epsilon": 1.0}, None, None)
    html = result._repr_html_()
    assert "0.73201" not in html
    assert "DataFrame of 3 × 1" in html
    assert "Policy(horizon=2, n_states=3, n_actions=1)" in html


def test_a_histogram_shows_its_cells() -> None:
    column = Categories((EVIL, *map(str, range(60))))
    data = pd.Series([EVIL] * 30)
    made = histogram(data, column, target=RenyiDP(2, 1), mechanism="gaussian", rng=secret_rng())
    html = made._repr_html_()
    found = cells(html)
    assert found[:3] == ["cell", "probability", EVIL]
    assert float(found[3]) == pytest.approx(made.probabilities[0], abs=1e-4)
    assert "<b>" not in html
    assert repr(made).split("\n")[-1].strip() == found[-2]
