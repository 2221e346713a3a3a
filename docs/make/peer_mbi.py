"""Graphical models of mbi, of AIM and of MST, in the Python that has mbi (see network_rivals.py).

Run with the names of a file of arguments and of a file for results; other arguments are none. The
folder ``mechanisms`` of mbi's repository, where AIM and MST are, is among the arguments. They are
written for an earlier mbi, in which two names were others: those are given to them here.
"""

import importlib
import itertools
import json
import sys

import jax

jax.config.update("jax_enable_x64", True)

import mbi  # noqa: E402
import numpy as np  # noqa: E402
from mbi import junction_tree  # noqa: E402

ITERATIONS = 1000  # the default, of mirror descent, where the marginals are given


def main() -> None:
    """Estimate, and write the log-probabilities of the test records and the marginals' error."""
    given = np.load(sys.argv[1])
    asked = json.loads(str(given["asked"]))
    domain = mbi.Domain(asked["names"], asked["sizes"])
    train, test = given["train"], given["test"]
    np.random.seed(asked["seed"])  # noqa: NPY002 -- AIM and MST draw from it
    run = {"estimate": _estimate, "aim": _aim, "mst": _mst}[asked["task"]]
    model, cells = run(asked, given, domain, train)
    threes = list(itertools.combinations(asked["names"], 3)) if asked["errors"] else []
    frequencies = _marginals(mbi.Dataset(dict(zip(asked["names"], train.T, strict=True)), domain))
    errors = [
        0.5 * abs(frequencies(three) - _uncut(model, cells, three, domain)).sum()
        for three in threes
    ]
    logs = _log_probabilities(model, cells, domain, test)
    np.savez(sys.argv[2], logs=logs, error=np.mean(errors) if errors else np.nan)


# What is estimated: a model, and for columns whose cells it merged which of its cells each is in --


def _estimate(asked, given, domain, _):
    measured = [
        mbi.LinearMeasurement(given[f"table{i}"].ravel(), tuple(clique), deviation)
        for i, (clique, deviation) in enumerate(asked["measured"])
    ]
    total = float(len(given["train"]))  # public, as it is for privrl
    model = mbi.estimation.MirrorDescent().estimate(
        domain, measured, known_total=total, iters=ITERATIONS
    )
    return model, {}


def _aim(asked, _, domain, train):
    aim = _module("aim", asked)
    data = mbi.Dataset(dict(zip(asked["names"], train.T, strict=True)), domain)
    workload = [(three, 1.0) for three in itertools.combinations(asked["names"], 3)]
    model, _ = aim.AIM(asked["epsilon"], asked["delta"]).run(data, workload)
    return model, {}


def _mst(asked, _, domain, train):
    mst = _module("mst", asked)
    supports, models = [], []
    transform, estimate = mst.transform_data, mbi.estimation.MirrorDescent.estimate

    def noting_supports(data, kept):
        supports.append(kept)
        return transform(data, kept)

    def noting_models(self, *args, **options):
        models.append(estimate(self, *args, **options))
        return models[-1]

    mst.transform_data = noting_supports
    mbi.estimation.MirrorDescent.estimate = noting_models
    data = mbi.Dataset(dict(zip(asked["names"], train.T, strict=True)), domain)
    mst.MST(data, asked["epsilon"], asked["delta"])
    cells = {
        name: np.where(kept, np.cumsum(kept) - 1, kept.sum()) for name, kept in supports[0].items()
    }
    return models[-1], cells


def _module(name, asked):
    """Import a mechanism, with a part of its budget, and two things by earlier names."""
    setattr(mbi.Domain, "attrs", property(lambda domain: domain.attributes))  # noqa: B010 # unread here
    estimate = mbi.estimation.MirrorDescent.estimate

    def by_earlier_name(self, *args, potentials=None, **options):
        return estimate(self, *args, warm_start=potentials, **options)

    mbi.estimation.MirrorDescent.estimate = by_earlier_name
    sys.path.insert(0, asked["mechanisms"])
    conversion = importlib.import_module("cdp2adp")
    rho = conversion.cdp_rho
    conversion.cdp_rho = lambda epsilon, delta: asked["part"] * rho(epsilon, delta)
    return importlib.import_module(name)


# What it says ------------------------------------------------------------------------------------


def _marginals(model):
    """Return what gives the probabilities of some columns, an axis for each."""

    def probabilities(names):
        table = np.asarray(model.project(names).values, np.float64)
        return table / table.sum()

    return probabilities


def _uncut(model, cells, names, domain):
    """Return the probabilities of some columns in all their own cells."""
    table = _marginals(model)(names)
    for axis, name in enumerate(names):
        if name in cells:
            share = 1 / np.bincount(cells[name])[cells[name]]
            shape = [-1 if i == axis else 1 for i in range(len(names))]
            table = np.take(table, cells[name], axis=axis) * share.reshape(shape)
    assert table.shape == tuple(domain.size(name) for name in names)
    return table


def _log_probabilities(model, cells, domain, records):
    """Return the log-probability of each record: cliques of a junction tree over separators."""
    codes = dict(zip(domain.attributes, records.T, strict=True))
    tree, _ = junction_tree.make_junction_tree(model.domain, list(model.cliques))
    cliques = [tuple(clique) for clique in tree.nodes]
    separators = [tuple(set(one) & set(two)) for one, two in tree.edges]
    logs = np.zeros(len(records))
    with np.errstate(divide="ignore"):
        for sign, names in [*((1, c) for c in cliques), *((-1, s) for s in separators if s)]:
            own = tuple(cells.get(n, np.arange(domain.size(n)))[codes[n]] for n in names)
            table = np.log(_marginals(model)(names))[own]
            logs += sign * np.maximum(table, -700)
        for name, merged in cells.items():
            logs -= np.log(np.bincount(merged)[merged][codes[name]])
    return logs


if __name__ == "__main__":
    main()
