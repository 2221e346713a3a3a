"""Fits of each mechanism in DKL's experiments, and their results on the test part."""

import importlib
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.base import Cost
from privrl.costs.simplex import SimplexCost
from privrl.data.schema import Categories, Schema
from privrl.experiments.uci import jobs as uci
from privrl.experiments.uci.data import Split, network_of
from privrl.mechanisms.tables import Rows, TablesMechanism
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.network import BayesNet
from privrl.models.estimates.tables import clipped_rows

# Naive Bayes ------------------------------------------------------------------------------------


def fit_naive_bayes(jobs: Sequence[uci.Job], parts: Split) -> list[uci.Found]:
    """Return the results of naive Bayes with the mechanism of each job."""
    # Imported here because it needs the extra privrl[models].
    made = importlib.import_module("privrl.models.naive_bayes.classifier")
    schema = parts.schema
    train, test = schema.encode(parts.train), schema.encode(parts.test)
    X, y = train[:, :-1], train[:, -1]
    X_test, y_test = test[:, :-1], test[:, -1]
    *sizes, n_classes = schema.sizes
    shapes = ((1, n_classes), *((n_classes, size) for size in sizes))
    found = []
    for job in jobs:
        if job.mechanism == uci.UNIFORM:
            found.append(uci.Found(math.log(n_classes), 1 / n_classes))
            continue
        is_printed = job.mechanism == uci.PRINTED
        model = (made.PrintedNaiveBayes if is_printed else made.PrivateNaiveBayes)(
            sizes,
            classes=Categories(tuple(range(n_classes))),
            random_state=int(job.rng().integers(2**63)),
            **_options(job, shapes, len(y)),
        ).fit(X, y)
        logs = model.predict_log_proba(X_test)
        loss = -float(logs[np.arange(len(y_test)), y_test].mean())
        found.append(uci.Found(loss, float((logs.argmax(axis=1) == y_test).mean())))
    return found


def _options(job: uci.Job, shapes: tuple[Rows, ...], n_records: int) -> dict[str, Any]:
    """Return the parameters of `PrivateNaiveBayes` for a mechanism."""
    if job.mechanism == uci.NONE:
        return {"mechanism": "none", "target": None}
    if job.mechanism == uci.GOHARI:
        draws = gohari(shapes, n_records, job.epsilon, job.delta)
        spent = RenyiDP(2.0, float(draws.cost.rdp(2.0)))  # the same draws, by what they really cost
        return _draws(draws.alpha) | {"target": spent}
    if job.mechanism == uci.EXACT:
        made = TablesMechanism.algorithm_1(job.target, shapes=shapes)
        return _draws(made.alpha) | {"target": job.target}
    options: dict[str, dict[str, Any]] = {
        uci.PRINTED: {"mechanism": "dkl"},
        uci.DKL: {"mechanism": "dkl"},
        uci.DESIGNED: {"mechanism": "dirichlet"},
        uci.AUTO: {"mechanism": "auto"},
    }
    for label, temperature in uci.TEMPERED.items():
        options[label] = {"mechanism": "auto", "temperature": temperature}
    for label, (name, floor) in uci.FLOORS.items():
        shares = "optimised" if floor is None else "uniform"
        options[label] = {"mechanism": name, "alpha": floor, "shares": shares}
    return options[job.mechanism] | {"target": job.target}


def _draws(alpha: float) -> dict[str, Any]:
    return {"mechanism": "dirichlet", "alpha": alpha, "shares": "uniform"}


# Networks ---------------------------------------------------------------------------------------


def fit_networks(jobs: Sequence[uci.Job], parts: Split) -> list[uci.Found]:
    """Return the results of the data set's network with the mechanism of each job."""
    parents = network_of(jobs[0].data, parts.schema)
    schema = parts.schema.subset(parents)
    return [uci.Found(log_likelihood=_log_likelihood(job, parents, schema, parts)) for job in jobs]


def _log_likelihood(
    job: uci.Job, parents: dict[str, tuple[str, ...]], schema: Schema, parts: Split
) -> float:
    """Return the mean log-probability of a test record (nats)."""
    if job.mechanism == uci.UNIFORM:
        return -sum(map(math.log, schema.sizes))
    names = {uci.NONE: "none", uci.DKL: "dkl", uci.DESIGNED: "dirichlet", uci.AUTO: "auto"}
    if job.mechanism in names:
        target = None if job.mechanism == uci.NONE else job.target
        spec = PrivateBayesNet(
            parents=parents,
            schema=schema,
            target=target,
            mechanism=names[job.mechanism],  # type: ignore[arg-type] # one of its names
        )
        return spec.fit(parts.train, job.rng()).log_likelihood(parts.test)
    return _with_equal_parts(job, parents, schema, parts).log_likelihood(parts.test)


def _with_equal_parts(
    job: uci.Job, parents: dict[str, tuple[str, ...]], schema: Schema, parts: Split
) -> BayesNet:
    """Return a network whose tables have equal parts of the budget, noisy counts cut at a floor."""
    structure = PrivateBayesNet(
        parents=parents, schema=schema, target=None, mechanism="none"
    ).structure
    shapes = tuple(map(structure.shape, structure.nodes))
    codes = schema.subset(structure.nodes).encode(parts.train)
    counts = structure.counts({node: codes[:, i] for i, node in enumerate(structure.nodes)})
    floor: float | None = None
    if job.mechanism == uci.GOHARI:
        made = gohari(shapes, len(codes), job.epsilon, job.delta)
    else:
        name, floor = uci.FLOORS[job.mechanism]
        made = TablesMechanism.calibrated(
            job.target,
            shapes=shapes,
            n_records=len(codes),
            mechanism=name,  # type: ignore[arg-type] # one of its names
        )
    released = made.release(counts, job.rng())
    rows = [clipped_rows(table, floor) for table in released]
    return BayesNet(parents, schema, dict(zip(structure.nodes, rows, strict=True)), made)


# Gohari et al. ----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def gohari(
    shapes: tuple[Rows, ...], n_records: int, epsilon: float, delta: float
) -> TablesMechanism:
    """Return Dirichlet draws as the bound of Gohari et al. sets them.

    As in the paper's published code: the prior is Algorithm 1's at order 5, a row is taken for
    one vector that sums to the number of records, and each table gets an equal part of delta,
    and here of epsilon. All rows have as many cells as the longest, and at least three.

    Parameters
    ----------
    shapes : tuple of pairs of int
        Rows and cells to a row of each table.
    n_records : int
        The number of records.
    epsilon, delta : float
        Of the budget of all tables together.

    Notes
    -----
    This is for comparison, and not a guarantee: the bound is for vectors whose sum is public, and a
    row's sum is not. (Neither is a row's change one within the row.)
    """
    parts, cells = len(shapes), max(3, *(size for _, size in shapes))

    def cost(weight: float) -> Cost:
        alpha = _prior(weight)
        total = weight * n_records + cells * alpha
        return SimplexCost(
            weight=total,
            eta=alpha / total,
            eta_bar=(cells - 2) * alpha / total,
            distance=2 * weight / total,
        )

    part = ApproxDP(epsilon / parts, delta / parts)
    weight = calibrate(part, cost, rises=True)
    return TablesMechanism(
        shapes=shapes, mechanism="dirichlet", sizes=(weight,) * parts, alpha=_prior(weight)
    )


def _prior(weight: float) -> float:
    return 1 + 4 * (uci.ORDER - 1) * weight
