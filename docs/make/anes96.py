"""Networks on the American National Election Study of 1996, which nothing was chosen on.

Run with ``python docs/make/anes96.py FILE``, where FILE is the ``anes96.csv`` of statsmodels (in
its folder ``datasets/anes96``). It takes a minute.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import network_data
import numpy as np
import pages
import pandas as pd

from privrl.accounting import ApproxDP
from privrl.data import Bins, Categories, Schema
from privrl.models.bayes_net.fit import PrivateBayesNet

EPSILONS = (1.0, 3.0)
N_SPLITS, N_FITS = 6, 12
#: By the study's codes; age and population (in thousands) in bins that no record decided.
SCHEMA = Schema(
    {
        "popul": Bins((0, 1, 10, 100, 1000, 10000)),
        "TVnews": Categories(tuple(range(8))),
        **{name: Categories(tuple(range(1, 8))) for name in ("selfLR", "ClinLR", "DoleLR")},
        "PID": Categories(tuple(range(7))),
        "age": Bins((18, 25, 35, 45, 55, 65, 75, 100)),
        "educ": Categories(tuple(range(1, 8))),
        "income": Categories(tuple(range(1, 25))),
        "vote": Categories((0, 1)),
    }
)


def main() -> None:
    """Measure, and write the table between the markers of the page."""
    parser = argparse.ArgumentParser(description="Measure networks on anes96.")
    parser.add_argument("file", type=Path, help="the anes96.csv of statsmodels")
    frame = pd.read_csv(parser.parse_args().file, sep="\t", quotechar="'")
    pages.fill(pages.DOCS / "results" / "networks.md", {"anes96": lambda: _anes96(frame)})


def _anes96(frame: pd.DataFrame) -> str:
    rows = []
    for epsilon in EPSILONS:
        found = pd.DataFrame([_fits(frame, epsilon, seed) for seed in range(N_FITS)])
        gain = found["private"] - found["no edges"]
        error = gain.std() / N_FITS**0.5
        shown = (f"{found[name].mean():.3f}" for name in ("no privacy", "no edges", "auto"))
        private = (f"{found['private'].mean():.3f}", f"{found['edges'].mean():.1f}")
        rows.append((f"{epsilon:g}", *shown, *private, f"{gain.mean():+.3f} ± {error:.3f}"))
    header = ("ε", "no edges, no privacy", "no edges", "`auto`, of the vote")
    return pages.table((*header, '`parents="private"`', "edges", "above no edges"), rows)


def _fits(frame: pd.DataFrame, epsilon: float, seed: int) -> dict[str, float]:
    """Return log-probabilities of a test record, and how many edges the private network has."""
    order = np.random.default_rng(200 + seed % N_SPLITS).permutation(len(frame))
    train, test = np.split(order, [round(network_data.SHARE * len(frame))])
    target, none = ApproxDP(epsilon, network_data.DELTA), dict.fromkeys(SCHEMA.names, ())
    specs: Mapping[str, dict[str, Any]] = {
        "no privacy": {"parents": none, "mechanism": "none"},
        "no edges": {"parents": none, "target": target},
        "auto": {"parents": network_data.of_class(SCHEMA), "target": target},
        "private": {"parents": "private", "target": target},
    }
    found = {}
    for number, (name, options) in enumerate(specs.items()):
        model = PrivateBayesNet(schema=SCHEMA, **options)
        net = model.fit(frame.iloc[train], np.random.default_rng((seed, number)))
        found[name] = net.log_likelihood(frame.iloc[test])
    return found | {"edges": float(sum(map(len, net.parents.values())))}


if __name__ == "__main__":
    main()
