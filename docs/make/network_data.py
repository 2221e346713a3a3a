"""Networks against the network without edges: on data that constants were chosen on, and others.

Structures are public facts: those of DKL where it has one; else the class is the parent of each
column, and in generated data of related columns also the column before it.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import unseen_data
from sklearn import datasets

from privrl.accounting import ApproxDP
from privrl.data import Categories, Schema
from privrl.data.datasets import networks
from privrl.experiments.uci.data import SHARE, network_of, split
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.structure import Structure

EPSILONS = (0.01, 0.1, 1.0)
DELTA = 1e-5
N_SPLITS, N_FITS = 3, 6

Parents = Mapping[str, tuple[str, ...]]


class Data(NamedTuple):
    """Records for training and testing, and the public facts."""

    schema: Schema
    parents: Parents
    train: pd.DataFrame
    test: pd.DataFrame


def of_class(schema: Schema) -> Parents:
    """Return the network in which the last column is the parent of each other."""
    *features, target = schema.names
    return {target: (), **dict.fromkeys(features, (target,))}


def of_class_and_last(schema: Schema) -> Parents:
    """Return that network, with each column a parent of the next as well."""
    *features, target = schema.names
    pairs = zip([(), *((name,) for name in features)], features, strict=False)
    return {target: (), **{name: (target, *before) for before, name in pairs}}


def by_roots(structure: Structure) -> dict[str, float]:
    """Return the shares of a single round as `auto` divides its second; they keep every edge."""
    return {node: math.prod(structure.shape(node)) ** 0.25 for node in structure.nodes}


def uci(name: str, seed: int) -> Data:
    """Return one of the UCI sets, with DKL's network if it has one."""
    parts = split(name, seed)
    known = name in networks()
    parents = network_of(name, parts.schema) if known else of_class(parts.schema)
    return Data(parts.schema.subset(parents), parents, parts.train, parts.test)


def other(name: str, seed: int) -> Data:
    """Return one of the small and generated sets."""
    X, y, cells, classes = OTHERS[name]()
    columns = {f"x{i}": Categories(tuple(range(cells))) for i in range(X.shape[1])}
    schema = Schema({**columns, "class": Categories(tuple(range(classes)))})
    frame = pd.DataFrame(np.column_stack([X, y]), columns=schema.names)
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = np.split(order, [round(SHARE * len(frame))])
    related = name.startswith(("network", "noise"))
    parents = (of_class_and_last if related else of_class)(schema)
    return Data(schema, parents, frame.iloc[train], frame.iloc[test])


OTHERS: dict[str, Callable[[], unseen_data.Data]] = {
    "breast cancer": lambda: unseen_data.bundled(datasets.load_breast_cancer, 8),
    "wine": lambda: unseen_data.bundled(datasets.load_wine, 5),
    "network, 10 features": lambda: unseen_data.network(11, 4000, 10, 3, 2),
    "network, 20 features": lambda: unseen_data.network(12, 2000, 20, 4, 3),
    "naive Bayes, n = 3000": lambda: unseen_data.naive(13, 3000, 10, 5, 3, strength=8.0),
    "naive Bayes, n = 600": lambda: unseen_data.naive(14, 600, 15, 4, 2, strength=8.0),
    "naive Bayes, n = 85": lambda: unseen_data.naive(15, 85, 8, 3, 2, strength=3.0),
    "noise, 15 features": lambda: unseen_data.noise(16, 1500, 15, 4, 2),
}
CHOSEN_ON = ("Adult", "Bank", "Digit", "GermanCredit", "Shopper", "Thyroid")
JUDGED = ("CreditCard", "Spam")


def likelihoods() -> pd.DataFrame:
    """Return mean log-probabilities of test records: a row for each group, data set and epsilon."""
    sets: list[tuple[str, str, Callable[[str, int], Data]]] = [
        *(("chosen on", name, uci) for name in CHOSEN_ON),
        *(("others", name, uci) for name in JUDGED),
        *(("others", name, other) for name in OTHERS),
    ]
    rows = []
    for group, name, make in sets:
        splits = [make(name, seed) for seed in range(200, 200 + N_SPLITS)]
        for epsilon in EPSILONS:
            means = _means(splits, epsilon)
            rows.append({"group": group, "data": name, "epsilon": epsilon, **means})
    return pd.DataFrame(rows)


def _means(splits: list[Data], epsilon: float) -> dict[str, float]:
    """Return means over fits, and what two of them gain over no edges, with standard errors."""
    found = pd.DataFrame([_fits(splits[i % N_SPLITS], epsilon, i) for i in range(N_FITS)])
    means = found.mean().to_dict()
    for name in ("auto", "private"):
        gain = found[name] - found["no edges"]
        means[f"{name}, gain"] = float(gain.mean())
        means[f"{name}, error"] = float(gain.std() / N_FITS**0.5)
    return means


def _fits(data: Data, epsilon: float, seed: int) -> dict[str, float]:
    target, schema, parents = ApproxDP(epsilon, DELTA), data.schema, data.parents
    structure = PrivateBayesNet(parents=parents, schema=schema, target=target).structure
    specs = {
        "all edges": PrivateBayesNet(
            parents=parents, schema=schema, target=target, shares=by_roots(structure)
        ),
        "no edges": PrivateBayesNet(
            parents=dict.fromkeys(parents, ()), schema=schema, target=target
        ),
        "auto": PrivateBayesNet(parents=parents, schema=schema, target=target),
        "private": PrivateBayesNet(parents="private", schema=schema, target=target),
    }
    found = {}
    for number, (name, spec) in enumerate(specs.items()):
        net = spec.fit(data.train, np.random.default_rng((seed, number)))
        found[name] = net.log_likelihood(data.test)
        found[f"{name}, edges"] = float(sum(map(len, net.parents.values())))
        found[f"{name}, more"] = float(any(net.parents.values()) or net.choice is not None)
    return found
