"""Compare networks with graphical-model estimation (mbi), AIM and MST; two tables of docs/results.

Run with ``python docs/make/network_rivals.py PYTHON MECHANISMS``: the Python that has mbi 2 (with
pandas and matplotlib, which AIM and MST import), and the folder ``mechanisms`` of its repository.
It takes most of an hour, nearly all of it AIM's.
"""

import argparse
import itertools
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import network_data
import numpy as np
import pages
from scipy.special import logsumexp

from privrl.accounting import ApproxDP
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.network import BayesNet

PEER = Path(__file__).with_name("peer_mbi.py")
SETS = ("Adult", "GermanCredit", "Thyroid")
EPSILONS = (0.01, 0.1, 1.0, 10.0)
SEED = 200  # of the one split and the noise
FITS = 8  # whose means are shown of privrl beside AIM and MST, which are run once
#: Of the uniform law that a rival's model is mixed with; the best afterwards is taken.
MIXED = (1e-12, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)

#: Of rho that AIM and MST have. They are for one record added or removed. Where one is replaced,
#: their noise may have half of it at the same guarantee, and their choices a quarter, but get half.
PARTS = {"one record added or removed": 1.0, "one record replaced": 0.5}

Released = list[tuple[TablesMechanism, Sequence[ReleasedTable]]]


def main() -> None:
    """Measure, and write the two tables between the markers of the page."""
    parser = argparse.ArgumentParser(description="Compare networks with mbi's models.")
    parser.add_argument("python", help="the Python that has mbi")
    parser.add_argument("mechanisms", type=Path, help="the folder of aim.py and mst.py")
    options = parser.parse_args()
    rival = Rival(options.python, options.mechanisms.resolve())
    blocks = {"estimation": lambda: _estimation(rival), "synthesis": lambda: _synthesis(rival)}
    pages.fill(pages.DOCS / "results" / "networks.md", blocks)


class Rival:
    """The results of `peer_mbi`, which runs in a separate Python."""

    def __init__(self, python: str, mechanisms: Path) -> None:
        self._python, self._mechanisms = python, mechanisms

    def __call__(self, task: str, data: network_data.Data, seed: int, **more: Any) -> "Found":
        """Return what a task finds; tables are given as arrays, all else as plain data."""
        tables = more.pop("tables", [])
        train, test = (data.schema.encode(part) for part in (data.train, data.test))
        asked = {
            "task": task,
            "seed": seed,
            "names": list(data.schema.names),
            "sizes": list(data.schema.sizes),
            "errors": task != "estimate",
            "mechanisms": str(self._mechanisms),
            **more,
        }
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
            arrays = {f"table{i}": table for i, table in enumerate(tables)}
            np.savez(given, asked=json.dumps(asked), train=train, test=test, **arrays)
            command = [self._python, "-W", "ignore", PEER, given, found]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with np.load(found) as held:
                logs, error = held["logs"], float(held["error"])
        uniform = -float(np.log(data.schema.sizes).sum())
        return Found(_mixed(logs, uniform), error)


class Found:
    """The mean log-probability of a test record, and the mean error of 3-way marginals."""

    def __init__(self, likelihood: float, error: float) -> None:
        self.likelihood, self.error = likelihood, error


def _mixed(logs: np.ndarray, uniform: float) -> float:
    """Return the mean after mixing with the uniform law, with the weight that suits the test."""
    both = np.stack([logs, np.full_like(logs, uniform)])
    return max(
        float(logsumexp(both, axis=0, b=np.array([[1 - weight], [weight]])).mean())
        for weight in MIXED
    )


# The same noisy marginals ----------------------------------------------------------------------


def _estimation(rival: Rival) -> str:
    rows = []
    for name in SETS:
        data = network_data.uci(name, SEED)
        for epsilon in EPSILONS:
            net, released = _fitted(data, data.parents, epsilon)
            ours = net.log_likelihood(data.test)
            theirs = _of_the_same(rival, data, net, released)
            chosen = _fitted(data, "private", epsilon)[0].log_likelihood(data.test)
            shown = (f"{ours:.3f}", f"{theirs:.3f}", f"{ours - theirs:+.3f}", f"{chosen:.3f}")
            rows.append((name, f"{epsilon:g}", *shown))
    header = ("network", "ε", "`auto`", "mbi, of the same tables", "difference")
    return pages.table((*header, '`parents="private"`'), rows)


def _fitted(data: network_data.Data, parents: Any, epsilon: float) -> tuple[BayesNet, Released]:
    """Return a network, and the tables that were released for it."""
    target = ApproxDP(epsilon, network_data.DELTA)
    spec = PrivateBayesNet(parents=parents, schema=data.schema, target=target)
    with _noted() as released:
        return spec.fit(data.train, np.random.default_rng(SEED)), released


def _of_the_same(rival: Rival, data: network_data.Data, net: BayesNet, released: Released) -> float:
    """Return the log-likelihood of mbi's model of the tables that a network was made of."""
    measured = list(_measured(net, released))
    return rival(
        "estimate",
        data,
        SEED,
        measured=[(clique, deviation) for clique, deviation, _ in measured],
        tables=[table for _, _, table in measured],
    ).likelihood


@contextmanager
def _noted() -> Iterator[Released]:
    """Note what is released in the meantime, which a network does not keep."""
    noted: Released = []
    release = TablesMechanism.release

    def noting(self: TablesMechanism, *args: Any, **options: Any) -> Sequence[ReleasedTable]:
        tables = release(self, *args, **options)
        noted.append((self, tables))
        return tables

    with mock.patch.object(TablesMechanism, "release", noting):
        yield noted


def _measured(net: BayesNet, released: Released) -> Iterable[tuple[list[str], float, np.ndarray]]:
    """Yield the columns, deviation and values of each noisy table; in a first round, of nodes."""
    for number, (_, tables) in enumerate(released):
        alone = number < len(released) - 1
        for node, table in zip(net.nodes, tables, strict=True):
            own = () if alone else net.parents[node]
            yield [*own, node], table.deviation, table.values


# Beside what chooses its own marginals -----------------------------------------------------------


def _synthesis(rival: Rival) -> str:
    data, target = network_data.uci("Adult", SEED), ApproxDP(1, network_data.DELTA)
    found = {}
    for words, parents in {
        "`auto`, the public structure": data.parents,
        '`parents="private"`': "private",
    }.items():
        spec = PrivateBayesNet(parents=parents, schema=data.schema, target=target)
        nets = [spec.fit(data.train, np.random.default_rng(SEED + i)) for i in range(FITS)]
        found[f"{words}, one record replaced"] = Found(
            float(np.mean([net.log_likelihood(data.test) for net in nets])),
            float(np.mean([_error(net, data) for net in nets])),
        )
    for task, (words, part) in itertools.product(("mst", "aim"), PARTS.items()):
        budget = {"epsilon": 1.0, "delta": network_data.DELTA, "part": part}
        found[f"{task.upper()}, {words}"] = rival(task, data, SEED, **budget)
    rows = [(name, f"{each.likelihood:.3f}", f"{each.error:.4f}") for name, each in found.items()]
    return pages.table(("model", "held-out log-likelihood", "mean 3-way marginal error"), rows)


def _error(net: BayesNet, data: network_data.Data) -> float:
    """Return half the L1 distance of 3-way marginals from the training part's, on average."""
    codes = data.schema.encode(data.train)
    place = {name: i for i, name in enumerate(data.schema.names)}
    errors = []
    for three in itertools.combinations(data.schema.names, 3):
        sizes = [data.schema.sizes[place[name]] for name in three]
        cell = np.ravel_multi_index([codes[:, place[name]] for name in three], sizes)
        counts = np.bincount(cell, minlength=int(np.prod(sizes)))
        ours = net.query(list(three)).to_numpy()
        errors.append(0.5 * abs(counts / len(codes) - ours).sum())
    return float(np.mean(errors))


if __name__ == "__main__":
    main()
