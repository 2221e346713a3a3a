"""A valid call of each public name, with one or two arguments changed.

`names` lists what the public folders export; each has a call here, or a reason in `LEFT_OUT`. A
test holds the two against each other: a new name is fuzzed, or left out on purpose.
"""

import importlib
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, get_origin

import damage
import numpy as np
import pandas as pd
from judge import CANARY, CANARY_NUMBER, Call

FOLDERS = (
    "accounting", "agents", "audit", "costs", "data", "data.datasets", "data.logs", "data.schema",
    "envs", "experiments", "experiments.suites", "experiments.sweeps", "experiments.training",
    "mechanisms", "models", "offline", "samplers", "continuous",
)  # fmt: skip
FOLDERS_LEFT_OUT = {
    "": "secret_rng takes no arguments",
}

_PROTOCOL = "a protocol, a base class, a type or a constant: nothing to call"
_RESULT = "what other calls return; users do not make it"
_LONG = "long work, or processes elsewhere, is what it is for; its spec is a kind of its own"
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "Accountant", "Cost", "Mechanism", "Sampler", "TabularAgent", "Target",
        ),
        _PROTOCOL,
    ),
    **dict.fromkeys(
        (
            "BudgetExceeded", "LedgerError", "LoggedPolicy", "PolicyValue", "ReleasedPolicy",
            "Log", "Transition", "ContinuousLog", "ContinuousModel", "ContinuousPolicy",
        ),
        _RESULT,
    ),
    **dict.fromkeys(
        ("read_partitions", "read_partitioned_records", "run_suite",
         "train", "from_minari", "audit_replay",
         "TabularVectorEnv"), _LONG,
    ),
    "load": "fetches files from other machines",
    "networks": "takes no arguments",
}  # fmt: skip


class Valid(NamedTuple):
    """A function, and arguments that it takes; they are made anew for each case."""

    function: Callable[..., Any]
    given: Callable[[], dict[str, Any]]


def names() -> Iterator[tuple[str, Any]]:
    """Return all that public folders export and that can be called, by name."""
    seen = set()
    for folder in FOLDERS:
        module = importlib.import_module(f"privrl.{folder}")
        for name in module.__all__:
            found = getattr(module, name)
            is_literal = get_origin(found) is Literal  # of which equal ones may be one object
            if callable(found) and not is_literal and id(found) not in seen:
                seen.add(id(found))
                yield (name if folder != "experiments.suites" else f"suites.{name}"), found


def _names_in(folder: str, *modules: str) -> SimpleNamespace:
    """Return the names of some modules of a folder, also those that it does not export."""
    found: dict[str, Any] = {}
    for module in modules:
        found |= vars(importlib.import_module(f"privrl.{folder}.{module}"))
    return SimpleNamespace(**found)


def table() -> dict[str, Valid]:
    """Return a valid call of each name, and of what else users call."""
    from privrl import (
        accounting,
        agents,
        audit,
        continuous,
        data,
        envs,
        experiments,
        mechanisms,
        models,
        offline,
        samplers,
    )
    from privrl.audit import laws
    from privrl.data import logs, records, schema
    from privrl.data.logs import episodes
    from privrl.data.schema import documentation, templates
    from privrl.envs import blackjack, exploration, operations, planning, random_tables
    from privrl.envs.bins import CARTPOLE_BINS
    from privrl.envs.facts import PublicFacts
    from privrl.envs.labels import grid_of
    from privrl.envs.released import privacy_statement
    from privrl.envs.riverswim import RiverSwimEnv
    from privrl.envs.worth import worth
    from privrl.envs.wrappers import Discretised
    from privrl.experiments import sweeps
    from privrl.mechanisms import errors
    from privrl.mechanisms.additive import normalise
    from privrl.mechanisms.design import expected_loss, typical_loss
    from privrl.mechanisms.dirichlet import synthetic_counts
    from privrl.mechanisms.noisy_posterior import laplace_l1_bound
    from privrl.mechanisms.posteriors import hellinger_sensitivity, smooth_beta
    from privrl.mechanisms.tables import least_noise_shares
    from privrl.models.bayes_net.network import BayesNet
    from privrl.models.estimates import tables as estimates
    from privrl.models.histograms import choice
    from privrl.models.histograms.release import count_cells
    from privrl.models.histograms.result import PrivateHistogram
    from privrl.models.logistic_regression.choice import load_classifier
    from privrl.offline.persons import PersonStream, person_cost
    from privrl.samplers.base import stack
    from privrl.samplers.factorisations import LocalNoise

    costs = _names_in(
        "costs", "base", "choice", "dirichlet", "noise", "relations", "selection", "simplex"
    )
    ledger = _names_in("accounting", "amounts", "budgets", "journal", "ledger", "ledger_file")
    record, step, person = costs.ReplaceRecord(), costs.ReplaceStep(), costs.AddRemovePerson()
    target, rdp = accounting.ApproxDP(1.0, 1e-5), accounting.RenyiDP(2.0, 1.0)
    noise = costs.GaussianCost(sigma=3.0, relation=record)
    draw = costs.DirichletCost(weight=0.5, alpha=3.0, relation=record)
    counts = np.array([3.0, 5.0, 0.0, 8.0])
    columns = data.Schema(
        {
            "age": data.Bins((0, 20, 60)),
            "job": data.Categories(("a", "b"), True),
            "y": data.Categories((0, 1)),
        }
    )
    frame = pd.DataFrame(
        {"age": [3, 30, 50, int(CANARY_NUMBER)], "job": ["a", "b", CANARY, "a"], "y": [0, 1, 0, 1]}
    )
    steps = logs.LogSchema(
        person="p",
        state=data.Schema({"s": data.Categories((0, 1))}),
        most_steps=3,
        action=data.Schema({"a": data.Categories((0, 1))}),
        reward="r",
        reward_bounds=(0.0, 1.0),
    )
    rows = pd.DataFrame(
        {
            "p": [1, 1, 2, 2, 3],
            "s": [0, 1, 0, 1, 0],
            "a": [0, 1, 1, 0, 1],
            "r": [0.0, 1.0, 0.5, 0.0, 1.0],
        }
    )
    log, mdp = logs.read_log(rows, steps), envs.riverswim(4, 5)
    model = offline.fit_model(log, epsilon=1.0, rng=np.random.default_rng(0))
    shapes = ((1, 2), (2, 3))
    tables = (np.array([[3.0, 4.0]]), np.array([[1.0, 0, 2], [1, 1, 1]]))
    sparse = {"n_states": 2, "n_actions": 2, "horizon": 3}

    def rng() -> np.random.Generator:
        return np.random.default_rng(0)

    def paid() -> accounting.RdpAccountant:
        return accounting.RdpAccountant()

    def both(**more: Any) -> dict[str, Any]:
        return {"rng": rng(), "accountant": paid(), **more}

    def agent(**more: Any) -> dict[str, Any]:
        sampler = samplers.Diffuse(relation=step, table="transitions")
        rewards = agents.KnownRewards(np.zeros((2, 2)))
        return {**sparse, "sampler": sampler, "rewards": rewards, **both(), **more}

    def counting() -> Any:
        return samplers.NoisyCounts(sigma=3.0, updates=3, relation=step, table="transitions")

    def beta() -> dict[str, Any]:
        return {
            "sampler": samplers.Diffuse(relation=step, table="rewards"),
            "low": 0.0,
            "high": 1.0,
        }

    def hat() -> Any:
        sampler = samplers.NoisyCounts(sigma=3.0, updates=3, relation=step, table="rewards")
        return agents.HatRewards(sampler)

    common = {"relation": record, "table": None}
    mechanism = {"relation": record}
    made: dict[str, Valid] = {}

    def add(name: str, function: Callable[..., Any], given: Any = None, /, **more: Any) -> None:
        built = given if callable(given) else lambda: dict(given or {}, **more)
        made[name] = Valid(function, built)

    # accounting, costs
    add("ApproxDP", accounting.ApproxDP, epsilon=1.0, delta=1e-5)
    add("RenyiDP", accounting.RenyiDP, order=2.0, epsilon=1.0)
    add("PureDP", accounting.PureDP, epsilon=1.0)
    add("ZeroConcentratedDP", accounting.ZeroConcentratedDP, rho=0.5)
    add("target_of", accounting.target_of, epsilon=1.0, delta=1e-5, renyi_order=None)
    add("Journal", accounting.Journal, entries=())
    for kind, own in (
        (accounting.RdpAccountant, {"orders": [2.0, 4.0], "budget": rdp}),
        (accounting.PldAccountant, {"budget": accounting.ApproxDP(9, 1e-5)}),
    ):
        name = kind.__name__
        add(name, kind, own | {"plan": [(noise, 1)]})
        add(f"{name}.compose", _asked(kind, "compose"), cost=noise, count=2)
        add(f"{name}.epsilon", _asked(kind, "epsilon", noise), delta=1e-5)
    add("RdpAccountant.delta", _asked(accounting.RdpAccountant, "delta", draw), epsilon=1.0)
    add("RdpAccountant.spent", _asked(accounting.RdpAccountant, "spent", draw), order=2.0)
    add(
        "calibrate",
        accounting.calibrate,
        target=target,
        rises=False,
        count=2,
        least=0.0,
        cost=lambda sigma: costs.GaussianCost(sigma=sigma, relation=record),
    )
    add(
        "Relation",
        costs.Relation,
        name="mine",
        tables={"counts": [(1.0, -1.0)]},
        covers_arrival=True,
        norm_only=(),
        convex_from=None,
        sum_only=(),
    )
    for name in (
        "AddRemovePerson",
        "AddRemoveRecord",
        "PaperStep",
        "ReplacePerson",
        "ReplaceRecord",
    ):
        add(name, getattr(costs, name))
    add("ReplaceEpisode", costs.ReplaceEpisode, horizon=3)
    add("ReplaceStep", costs.ReplaceStep, arrival_rewards=True)
    add("ReplaceTransition", costs.ReplaceTransition, arrival_rewards=True)
    add("Relation.changes", step.changes, table="rewards")
    add("NoPrivacy", costs.NoPrivacy, relation=record)
    add("DirichletCost", costs.DirichletCost, weight=1.0, alpha=2.0, bound="exact", **common)
    add("GaussianCost", costs.GaussianCost, sigma=2.0, **common)
    add("LaplaceCost", costs.LaplaceCost, scale=2.0, **common)
    add("ChoiceCost", costs.ChoiceCost, scale=20.0, sensitivity=1.0, relation=record)
    add("DiscreteGaussianCost", costs.DiscreteGaussianCost, sigma=2.0, **common)
    add("DiscreteLaplaceCost", costs.DiscreteLaplaceCost, scale=2.0, **common)
    simplex = {"weight": 20.0, "eta": 0.1, "eta_bar": 0.1, "distance": 0.5, "n_vectors": 1}
    add("SimplexCost", costs.SimplexCost, **simplex, n_components=2)
    several = {"parts": [noise, draw]}
    add("Together", costs.Together, several)
    add("together", costs.together, several)
    add("BatchCost", costs.BatchCost, rows=[noise, noise])
    for kind, cost in {
        "gauss": noise,
        "draw": draw,
        "laplace": costs.LaplaceCost(scale=2.0, relation=record),
        "discrete": costs.DiscreteGaussianCost(sigma=2.0, relation=record),
        "dlaplace": costs.DiscreteLaplaceCost(scale=2.0, relation=record),
        "choice": costs.ChoiceCost(scale=20.0, sensitivity=1.0, relation=record),
        "selection": costs.SelectionCost(trial=noise, trials=5),
        "concentrated": costs.ConcentratedCost(rho=0.1, relation=record),
        "pure": costs.PureCost(epsilon_pure=0.1, relation=record),
        "together": costs.Together([noise, draw]),
        "batch": costs.BatchCost([noise, noise]),
        "simplex": costs.SimplexCost(weight=20.0, eta=0.1, eta_bar=0.1),
    }.items():
        add(f"{kind}.rdp", cost.rdp, orders=[2.0, 3.0])
        add(f"{kind}.delta", cost.delta, epsilon=1.0)
        add(f"{kind}.epsilon", cost.epsilon, delta=1e-5)

    # accuracy of draws
    cells = {"weight": 0.5, "alpha": 2.0}
    add(
        "design",
        mechanisms.design,
        target=target,
        n_records=100.0,
        n_cells=4,
        loss="kl",
        relation=record,
        count=1,
    )
    add("typical_loss", typical_loss, **cells, n_records=100.0, n_cells=4, loss="kl")
    add("expected_loss", expected_loss, histogram=counts, **cells, loss="kl")
    sized = {"total_weight": 50.0, "alpha": 2.0, "n_cells": 4}
    add("kl_tail", errors.kl_tail, eta=0.1, **sized, bound="vertex")
    add("kl_quantile", errors.kl_quantile, failure=0.1, **sized, bound="vertex")
    add(
        "kl_sample_size",
        errors.kl_sample_size,
        **cells,
        n_cells=4,
        eta=0.1,
        failure=0.1,
        bound="vertex",
    )
    add("l2_quantile", errors.l2_quantile, failure=0.1, **sized)
    _from_signature(
        add, errors, "gaussian_l2_quantile", failure=0.1, sigma=2.0, n_cells=4, n_records=100.0
    )
    _from_signature(add, errors, "dirichlet_kl", u=[2.0, 3.0], v=[1.0, 4.0])
    _from_signature(
        add,
        errors,
        "expected_posterior_kl",
        p=[0.5, 0.5],
        weight=2.0,
        alpha=1.0,
        alpha_new=1.0,
        n_records=9,
        total_weight=9.0,
    )
    _from_signature(add, errors, "simplex_variance", p=[0.5, 0.5], weight=2.0, alpha=1.0)

    # mechanisms
    add(
        "DirichletMechanism",
        mechanisms.DirichletMechanism,
        weight=1.0,
        alpha=2.0,
        relation=record,
        table=None,
        bound="exact",
        lower_bound=0.0,
    )
    add("GaussianMechanism", mechanisms.GaussianMechanism, sigma=2.0, **common)
    add("LaplaceMechanism", mechanisms.LaplaceMechanism, scale=2.0, **common)
    add("SumsMechanism", mechanisms.SumsMechanism, sigma=2.0, **common)
    add("DiscreteGaussianMechanism", mechanisms.DiscreteGaussianMechanism, sigma=2.0, **common)
    add("DiscreteLaplaceMechanism", mechanisms.DiscreteLaplaceMechanism, scale=2.0, **common)
    add(
        "SimplexMechanism",
        mechanisms.SimplexMechanism,
        **simplex,
        sensitive=(0, 1),
        bound="exact",
    )
    add(
        "NoisyPosteriorMechanism",
        mechanisms.NoisyPosteriorMechanism,
        alpha=1.0,
        n=16,
        noise=mechanisms.GaussianMechanism(sigma=2.0),
    )
    add(
        "PosteriorExponentialMechanism",
        mechanisms.PosteriorExponentialMechanism,
        prior=(1.0, 1.0),
        n=5,
        epsilon=1.0,
        sensitivity="certified",
        delta=None,
    )
    add(
        "ExponentialMechanism",
        mechanisms.ExponentialMechanism,
        scale=20.0,
        sensitivity=1.0,
        relation=record,
    )
    chooses = mechanisms.ExponentialMechanism(scale=20.0, sensitivity=1.0)
    add("choice.release", chooses.release, lambda: both(data=counts.copy()))
    add("choice.check", chooses.check, data=counts)
    add(
        "choice.calibrated",
        mechanisms.ExponentialMechanism.calibrated,
        target=target,
        sensitivity=1.0,
        count=1,
        relation=record,
    )
    add(
        "select_private",
        mechanisms.select_private,
        lambda: both(
            candidates={"table": lambda trial: (trial.noisy(counts, 0.5), 0.0)},
            target=accounting.PureDP(1.0),
            trials=1,  # changed numbers are a thousand times as large, and each trial calibrates
            relation=record,
        ),
    )
    add(
        "TablesMechanism",
        mechanisms.TablesMechanism,
        shapes=shapes,
        mechanism="laplace",
        sizes=(1.0, 1.0),
        alpha=1.0,
        relation=record,
    )
    release = {
        "dirichlet": mechanisms.DirichletMechanism(weight=1.0, alpha=2.0),
        "gaussian": mechanisms.GaussianMechanism(sigma=2.0),
        "laplace": mechanisms.LaplaceMechanism(scale=2.0),
        "discrete_gaussian": mechanisms.DiscreteGaussianMechanism(sigma=2.0),
        "discrete_laplace": mechanisms.DiscreteLaplaceMechanism(scale=2.0),
        "noisy_posterior": mechanisms.NoisyPosteriorMechanism(
            noise=mechanisms.GaussianMechanism(sigma=2.0), alpha=1.0, n=16
        ),
    }
    sums = mechanisms.SumsMechanism(sigma=2.0)
    add("sums.release", sums.release, lambda: both(data=counts.copy()))
    for name, one in release.items():
        add(f"{name}.release", one.release, lambda: both(data=counts.copy()))
        add(f"{name}.check", one.check, data=counts)
        if name != "noisy_posterior":
            fixed = {"alpha": 2.0} if name == "dirichlet" else {}
            add(
                f"{name}.calibrated",
                type(one).calibrated,
                target=target,
                count=1,
                **fixed,
                **mechanism,
            )
    add(
        "simplex.release",
        mechanisms.SimplexMechanism(weight=20.0, eta=0.1, sensitive=(0, 1), eta_bar=0.1).release,
        lambda: both(data=np.array([0.3, 0.3, 0.4])),
    )
    add(
        "exponential.release",
        mechanisms.PosteriorExponentialMechanism((1.0, 1.0), 5, 1.0).release,
        lambda: both(data=np.array([2, 3])),
    )
    add(
        "tables.release",
        mechanisms.TablesMechanism(shapes=shapes, mechanism="laplace", sizes=(1.0, 1.0)).release,
        lambda: both(data=tables),
    )
    add(
        "tables.calibrated",
        mechanisms.TablesMechanism.calibrated,
        target=rdp,
        shapes=shapes,
        n_records=9.0,
        mechanism="auto",
        relation=record,
    )
    add("hellinger_sensitivity", hellinger_sensitivity, prior=(1.0, 1.0), n=5)
    add("laplace_l1_bound", laplace_l1_bound, n_cells=4, gamma=0.1, epsilon=1.0)
    add("least_noise_shares", least_noise_shares, shapes=shapes)
    add("normalise", normalise, noisy=[3.0, -1.0], floor=0.1)
    add("smooth_beta", smooth_beta, epsilon=1.0, delta=1e-5, n_candidates=6)
    add(
        "synthetic_counts",
        synthetic_counts,
        lambda: {"probabilities": [0.5, 0.5], "n_records": 9, "rng": rng()},
    )

    # samplers
    window = {
        "weight": 1.0,
        "alpha": 10.0,
        "relation": step,
        "table": "transitions",
        "bound": "exact",
        "window": 3,
    }
    for name in ("Concentrated", "Diffuse"):
        add(name, getattr(samplers, name), window)
    add(
        "NoisyCounts",
        samplers.NoisyCounts,
        sigma=3.0,
        updates=4,
        alpha=1.0,
        relation=step,
        table="transitions",
        factorisation="square-root",
        loops=None,
        threshold=1.5,
    )
    add(
        "SparseCounts",
        samplers.SparseCounts,
        sigma=3.0,
        releases=(0, 2),
        alpha=1.0,
        relation=step,
        table="transitions",
    )
    add(
        "SparseCounts.calibrated",
        samplers.SparseCounts.calibrated,
        target=rdp,
        draws=3,
        alpha=1.0,
        relation=step,
        table="transitions",
        users=(1, 2, 3),
    )
    add(
        "SparseCounts.update",
        lambda **k: samplers.SparseCounts(sigma=3.0, releases=[0], relation=step).update(**k),
        lambda: {"counts": np.ones((2, 2)), "rng": rng()},
    )
    add("NonPrivate", samplers.NonPrivate, alpha=1.0, relation=step)
    add("LocalNoise", LocalNoise, users=[1, 2])
    own: dict[str, Any]
    for name, alpha, own in (("Diffuse", 10.0, {"window": 3}), ("NoisyCounts", 1.0, {})):
        call = getattr(samplers, name).calibrated
        shared = {"target": rdp, "draws": 4, "alpha": alpha, "relation": step}
        add(f"{name}.calibrated", call, {**shared, "table": "transitions", **own})
    add(
        "Diffuse.update",
        lambda **k: samplers.Diffuse(relation=step, table="transitions").update(**k),
        lambda: {"counts": np.ones((2, 2)), "rng": rng()},
    )
    add(
        "NoisyCounts.update",
        lambda **k: samplers.NoisyCounts(sigma=3.0, updates=2, relation=step).update(**k),
        lambda: {"counts": np.ones((2, 2)), "rng": rng()},
    )
    add(
        "draw",
        samplers.draw,
        lambda: both(
            updates=[(samplers.Diffuse(relation=step, table="transitions"), np.ones((2, 2)))]
        ),
    )
    add(
        "stack",
        stack,
        lambda: {"samplers": [samplers.Diffuse(relation=step), samplers.Diffuse(relation=step)]},
    )

    # data
    add("Bins", data.Bins, edges=(0, 1, 2), missing=True, whole=True)
    add("Bins.even", data.Bins.even, low=0.0, high=1.0, count=4, missing=False, whole=False)
    add("Bins.encode", data.Bins((0, 20, 60)).encode, series=frame["age"])
    add("Bins.decode", data.Bins((0, 20, 60)).decode, codes=[0, 1])
    add("Categories", data.Categories, values=("a", 1, 2), other=True)
    add("Categories.encode", data.Categories(("a", "b"), True).encode, series=frame["job"])
    add("Categories.decode", data.Categories(("a", "b")).decode, codes=[0, 1])
    add(
        "Schema", data.Schema, columns={"a": data.Bins((0, 1, 2)), "b": data.Categories(("x", "y"))}
    )
    add("Schema.encode", columns.encode, frame=frame)
    add("Schema.decode", columns.decode, codes=np.zeros((2, 3), int))
    add("Schema.subset", columns.subset, names=["age"])
    add("Schema.from_dict", data.Schema.from_dict, data=columns.to_dict())
    add(
        "read_records",
        records.read_records,
        lambda: {
            "path": _file("r.csv", f"age,job,y\n3,a,0\n{CANARY_NUMBER},{CANARY},1\n"),
            "schema": columns,
            "separator": ",",
            "optional": "y",
        },
    )
    add("parse_bounds", templates.parse_bounds, texts=["age=0:100"])
    add(
        "read_header",
        schema.read_header,
        lambda: {"path": _file("h.csv", "a,b\n1,2\n"), "separator": ","},
    )
    filled = {"numeric": {"a": (0, 1)}, "categories": {"b": ("x", "y")}, "rest": ["b"], "bins": 4}
    add("template", templates.template, names=["a", "b"], **filled)
    add("parse_categories", documentation.parse_categories, texts=["job=clerk,smith"])
    add(
        "read_documentation",
        schema.read_documentation,
        lambda: {"path": _file("d.names", "yes, no.\na: continuous.\nb: x, y.\n")},
    )
    add(
        "write_template",
        schema.write_template,
        lambda: {"path": Path("t.toml"), "names": ["a", "b"], **filled},
    )
    add(
        "LogSchema",
        logs.LogSchema,
        person="p",
        action=steps.action,
        state=steps.state,
        most_steps=3,
        most_episodes=2,
        episode="e",
        order="o",
        consecutive=True,
        reward="r",
        reward_bounds=(0.0, 1.0),
        outcome="x",
        outcomes=("well",),
        outcome_rewards=(1.0,),
    )
    add("LogSchema.from_dict", logs.LogSchema.from_dict, data=steps.to_dict())
    add("read_log", logs.read_log, source=rows, schema=steps, separator=",", progress=None)
    add(
        "from_buffer",
        episodes.from_buffer,
        lambda: {
            "episodes": [_episode()],
            "n_states": 2,
            "n_actions": 2,
            "reward_bounds": (0.0, 1.0),
            "most_steps": 3,
            "most_episodes": 2,
            "person": None,
        },
    )

    # models
    values = [3.0, 30.0, 50.0, float(CANARY_NUMBER)]
    add(
        "histogram",
        models.histogram,
        lambda: both(
            values=values,
            bins=4,
            range=(0.0, 80.0),
            target=target,
            mechanism="auto",
            loss="kl",
            relation=record,
            n_records=None,
        ),
    )
    add(
        "value_counts",
        models.value_counts,
        lambda: both(
            values=frame["y"],
            categories=[0, 1],
            target=target,
            mechanism="auto",
            loss="kl",
            relation=record,
            n_records=None,
        ),
    )
    _from_signature(
        add,
        models,
        "discretise",
        lambda: both(
            frame=frame, bounds={"age": (0, 80)}, target=target, bins=3, grid=20, missing=False
        ),
    )
    add(
        "PrivateNaiveBayes",
        models.PrivateNaiveBayes,
        schema=columns,
        classes="y",
        target=rdp,
        mechanism="auto",
        shares="optimised",
        alpha=1.0,
        temperature=None,
        random_state=0,
    )
    add(
        "PrivateNaiveBayes.fit",
        lambda **k: models.PrivateNaiveBayes(columns, classes="y", target=rdp, random_state=0).fit(
            **k
        ),
        lambda: {"X": frame[["age", "job"]], "y": frame["y"], "accountant": paid()},
    )
    add(
        "PrivateNaiveBayes.predict",
        models.PrivateNaiveBayes(columns, classes="y", target=rdp, random_state=0)
        .fit(frame[["age", "job"]], frame["y"])
        .predict,
        X=frame[["age", "job"]],
    )
    for name in ("PrivateLogisticRegression", "PrivateClassifier"):
        model_of = getattr(models, name)
        more = {"model": "auto"} if name == "PrivateClassifier" else {}
        add(name, model_of, schema=columns, classes="y", target=rdp, random_state=0, **more)
        add(
            f"{name}.fit",
            lambda model_of=model_of, **k: model_of(
                columns, classes="y", target=rdp, random_state=0
            ).fit(**k),
            lambda: {"X": frame[["age", "job"]], "y": frame["y"], "accountant": paid()},
        )
    begun = models.PrivateNaiveBayes(columns, classes="y", target=rdp, random_state=0)
    begun.fit(frame[["age", "job"]], frame["y"])
    linear = models.PrivateLogisticRegression(columns, classes="y", target=rdp, random_state=0)
    add(
        "PrivateLogisticRegression.fit, begun",
        lambda **k: models.PrivateLogisticRegression(
            columns, classes="y", target=rdp, random_state=0
        ).fit(**k),
        lambda: {
            "X": frame[["age", "job"]], "y": frame["y"], "accountant": paid(),
            "naive_bayes": begun,
        },
    )  # fmt: skip
    linear.fit(frame[["age", "job"]], frame["y"])
    for name in ("predict", "predict_proba", "predict_log_proba"):
        add(f"PrivateLogisticRegression.{name}", getattr(linear, name), X=frame[["age", "job"]])
    add(
        "PrivateLogisticRegression.from_dict",
        models.PrivateLogisticRegression.from_dict,
        data=linear.to_dict(),
    )
    add(
        "load_classifier",
        load_classifier,
        lambda: {"path": _model("m.json", linear)},
    )
    parents = {"age": [], "job": ["age"], "y": ["age", "job"]}
    add(
        "PrivateBayesNet",
        models.PrivateBayesNet,
        parents=parents,
        schema=columns,
        target=rdp,
        mechanism="auto",
        shares={"age": 0.2, "job": 0.3, "y": 0.5},
    )
    add(
        "PrivateBayesNet.fit",
        models.PrivateBayesNet(parents=parents, schema=columns, target=rdp).fit,
        lambda: both(frame=frame),
    )
    chosen = models.PrivateBayesNet(
        parents="private", schema=columns, target=accounting.RenyiDP(2.0, 500.0)
    )
    add("PrivateBayesNet.fit, parents chosen", chosen.fit, lambda: both(frame=frame))
    net = models.PrivateBayesNet(parents=parents, schema=columns, target=rdp).fit(frame, rng())
    add("BayesNet.query", net.query, variables=["y"], evidence={"job": "a"})
    add("BayesNet.sample", net.sample, lambda: {"n": 5, "rng": rng()})
    add("BayesNet.log_likelihood", net.log_likelihood, frame=frame)
    add("BayesNet.from_dict", BayesNet.from_dict, data=net.to_dict())
    own = chosen.fit(pd.concat([frame] * 20), rng())
    add("BayesNet.from_dict, parents chosen", BayesNet.from_dict, data=own.to_dict())
    found = models.histogram(values, 4, (0, 80), target=target, rng=rng())
    add("PrivateHistogram", PrivateHistogram.from_dict, data=found.to_dict())
    faint = models.histogram(values, 40, (0, 80), target=target, rng=rng(), mechanism="blocks")
    add("PrivateHistogram, blocks", PrivateHistogram.from_dict, data=faint.to_dict())
    add("PrivateHistogram.intervals", found.intervals, confidence=0.9)
    add("PrivateHistogram.sample", found.sample, lambda: {"n": 5, "rng": rng()})
    _from_signature(
        add,
        choice,
        "choose_mechanism",
        target=target,
        mechanism="auto",
        loss="kl",
        relation=record,
        n_records=9.0,
        n_cells=4,
        is_ordered=True,
    )
    add("count_cells", count_cells, values=frame["job"], column=columns.columns["job"])
    tabled = mechanisms.TablesMechanism(shapes=((2, 2),), mechanism="laplace", sizes=(1.0,))
    (small,) = tabled.release((np.array([[3.0, 4.0], [1.0, 2.0]]),), rng())
    add("row_probabilities", estimates.row_probabilities, table=small, totals=[7.0, 3.0])
    add("row_totals", estimates.row_totals, tables=[small], n_records=10.0)
    add("clipped_rows", estimates.clipped_rows, table=small, floor=0.5)

    # offline
    budget = {"epsilon": 1.0, "delta": 1e-5, "order": None, "relation": person}
    support = {"admissible": np.ones((2, 2), bool), "behaviour": "uniform"}
    add("person_cost", person_cost, **budget)
    add(
        "fit_model",
        offline.fit_model,
        lambda: both(log=log, **budget, **support, state_names=["x", "y"], action_names=["l", "r"]),
    )
    add("fit_policy", offline.fit_policy, lambda: both(log=log, **budget, **support, discount=0.9))
    add(
        "evaluate_policy",
        offline.evaluate_policy,
        lambda: both(
            log=log,
            action=np.array([0, 1]),
            epsilon=1.0,
            **support,
            relation=person,
            discount=1.0,
            confidence=0.9,
            method=None,
        ),
    )
    add("plan_for", offline.plan_for, released=model, discount=0.9)
    add(
        "sample_log",
        offline.sample_log,
        lambda: {"model": model, "schema": steps, "persons": 3, "rng": rng()},
    )
    add("PersonStream", PersonStream, lambda: both(log=log, cost=person_cost(1.0)))
    saved = offline.ReleasedPolicy.of_model(model, discount=1.0)
    add("ReleasedPolicy.from_dict", offline.ReleasedPolicy.from_dict, data=saved.to_dict())
    add("save_policy", offline.save_policy, lambda: {"path": Path("p.json"), "policy": saved})
    add("load_policy", offline.load_policy, lambda: {"path": _saved("p.json", saved)})

    # continuous
    number = continuous.Number(low=0, high=1, levels=2)
    add("Number", continuous.Number, low=0.0, high=1.0, periodic=False, levels=3)
    add("Choice", continuous.Choice, values=("a", "b"))
    numeric = continuous.ContinuousSchema(
        state={"s": number}, action={"a": number}, reward=number, person="p", reward_column="r"
    )
    add(
        "ContinuousSchema",
        continuous.ContinuousSchema,
        **{name: getattr(numeric, name) for name in ("state", "action", "reward", "person")},
    )
    add("ContinuousSchema.from_dict", continuous.ContinuousSchema.from_dict, data=numeric.to_dict())
    add("read_continuous_log", continuous.read_continuous_log, source=rows, schema=numeric)
    numbers = continuous.read_continuous_log(rows, numeric)
    add(
        "ContinuousLog.from_buffer",
        continuous.ContinuousLog.from_buffer,
        lambda: {"episodes": [_episode()], "schema": numeric, "person": None},
    )
    of_log = {"log": numbers, "epsilon": 1.0, "delta": 1e-5, "order": 2}
    add("fit_continuous_model", continuous.fit_continuous_model, lambda: both(**of_log))
    smooth = continuous.fit_continuous_model(numbers, epsilon=1.0, rng=0, order=2)
    add("plan_continuous", continuous.plan_continuous, model=smooth, discount=0.9, caution=0.5)
    add("ReleasedContinuousEnv", continuous.ReleasedContinuousEnv, released=smooth, horizon=5)

    # ledger
    add("Budget", ledger.Budget, epsilon=1.0, delta=1e-5)
    add("DataSet", ledger.DataSet, name="people", content=None)
    add("Ledger", lambda **k: ledger.Ledger(**k).is_there, path=Path("l.sqlite"))
    add(
        "Ledger.set_budget",
        lambda **k: ledger.Ledger("l.sqlite").set_budget(**k),
        dataset="people",
        budget=ledger.Budget(1.0, 1e-5),
        relation=record,
    )
    add(
        "Ledger.spend",
        lambda **k: ledger.Ledger("l.sqlite").spend(**k),
        dataset=ledger.DataSet("people"),
        cost=costs.GaussianCost(sigma=30.0, relation=record),
        count=1,
        delta=1e-5,
    )
    add(
        "Ledger.accountant",
        lambda **k: ledger.Ledger("l.sqlite").accountant(**k),
        dataset="people",
        relation=record,
        delta=1e-5,
        source=Path("people.csv"),
    )
    add(
        "Ledger.dataset",
        lambda **k: ledger.Ledger("l.sqlite").dataset(**k),
        lambda: {"data": _file("d.csv", "a\n1\n"), "name": "people"},
    )
    add(
        "Ledger.amounts",
        lambda **k: ledger.Ledger("l.sqlite").amounts(**k),
        lambda: _entered(ledger, dataset="people"),
    )
    add(
        "Ledger.forget",
        lambda **k: ledger.Ledger("l.sqlite").forget(**k),
        lambda: _entered(ledger, dataset="people"),
    )
    add(
        "Ledger.verify",
        lambda **k: ledger.Ledger("l.sqlite").verify(**k),
        lambda: _entered(ledger, against=None),
    )

    # audit
    scores = np.linspace(0, 1, 200)
    add(
        "audit_scores",
        audit.audit_scores,
        first=scores,
        second=scores + 0.1,
        delta=0.01,
        claimed=1.0,
        confidence=0.9,
    )
    add(
        "audit_mechanism",
        audit.audit_mechanism,
        lambda: {
            "mechanism": _laplace,
            "data": [3.0, 4.0],
            "neighbour": [4.0, 3.0],
            "rng": rng(),
            "claimed": 1.0,
            "delta": 0.01,
            "draws": 200,
            "confidence": 0.9,
            "batched": False,
        },
    )
    add(
        "audit_dirichlet",
        audit.audit_dirichlet,
        lambda: {
            "sampler": samplers.Diffuse(relation=record),
            "rng": rng(),
            "relation": record,
            "delta": 0.01,
            "draws": 200,
            "confidence": 0.9,
        },
    )
    law = laws.GaussianLaw(sigma=2.0, centre=[0.0, 1.0])
    add("GaussianLaw", laws.GaussianLaw, sigma=2.0, centre=[0.0, 1.0], covariance=np.eye(2))
    add("DiscreteGaussianLaw", laws.DiscreteGaussianLaw, sigma=2.0, centre=[0.0, 1.0])
    for name in ("LaplaceLaw", "DiscreteLaplaceLaw"):
        add(name, getattr(laws, name), scale=2.0, centre=[0.0, 1.0])
    _from_signature(add, laws, "DirichletLaw", weight=1.0, counts=[3.0, 4.0], alpha=2.0)
    add(
        "law_test",
        audit.law_test,
        lambda: {
            "draws": rng().normal((0, 1), 2, (4000, 2)),
            "law": law,
            "error": 0.2,
            "power": 0.9,
            "false_alarm": 1e-3,
        },
    )
    add("draws_needed", laws.draws_needed, law=law, error=0.2, power=0.9, false_alarm=1e-3)
    add(
        "separation",
        audit.separation,
        lambda: {
            "first": rng().normal(0, 1, 4000),
            "second": rng().normal(1, 1, 4000),
            "claimed": 1.0,
            "error": 0.2,
            "power": 0.9,
            "false_alarm": 1e-3,
        },
    )

    # envs
    add("riverswim", envs.riverswim, n_states=4, horizon=5, variant="osband")
    add("RiverSwimEnv", RiverSwimEnv, n_states=4, horizon=5, variant="osband", render_mode=None)
    add(
        "TabularMDP",
        envs.TabularMDP,
        transition=mdp.transition,
        reward=mdp.reward,
        start=mdp.start,
        horizon=5,
    )
    add("TabularEnv", envs.TabularEnv, mdp=mdp, path=None)
    add("TabularEnv.step", lambda **k: _begun(envs.TabularEnv(mdp)).step(**k), action=0)
    add("TabularEnv.reset", lambda **k: envs.TabularEnv(mdp).reset(**k), seed=0, options=None)
    makers = vars(blackjack) | vars(exploration) | vars(operations) | vars(random_tables)
    for name, given in {
        "blackjack": {},
        "deep_sea": {"size": 4},
        "double_chain": {"n_states": 5, "horizon": 3},
        "dense": {"n_states": 4, "n_actions": 2, "horizon": 3, "seed": 0},
        "six_arms": {"horizon": 4},
        "garnet": {"n_states": 4, "n_actions": 2, "branching": 2, "horizon": 3, "seed": 0},
        "key_and_door": {"size": 4},
        "inventory": {"demand": (0.5, 0.5), "capacity": 3, "horizon": 3},
        "machine_replacement": {"n_states": 5},
        "queue": {"capacity": 4},
    }.items():
        add(name, makers[name], given)
    add("benchmark", lambda **k: envs.benchmark(**k).name, name="DeepSea5")
    add("plan", envs.plan, transition=mdp.transition, reward=mdp.reward, horizon=5)
    _from_signature(
        add,
        planning,
        "evaluate",
        transition=mdp.transition,
        reward=mdp.reward,
        policy=np.zeros((5, 4), int),
        horizon=5,
        start=mdp.start,
    )
    add(
        "Support",
        envs.Support,
        next_states=np.array([[[0, 1], [0, 1]], [[0, 1], [0, 1]]]),
        n_next=2,
    )
    add("Support.from_mask", envs.Support.from_mask, mask=np.ones((2, 2, 2), bool))
    full = envs.Support.from_mask(np.ones((2, 2, 2), bool))
    add(
        "plan_support",
        planning.plan_support,
        rows=np.full((2, 2, 2), 0.5),
        support=full,
        reward=np.zeros((2, 2)),
        horizon=3,
    )
    add(
        "PublicFacts",
        PublicFacts,
        n_states=2,
        n_actions=2,
        horizon=3,
        reward_range=(0.0, 1.0),
        terminates=False,
        arrival_rewards=True,
    )
    add(
        "public_facts",
        envs.public_facts,
        lambda: {"env": envs.TabularEnv(mdp), "horizon": 5, "reward_range": (0.0, 1.0)},
    )
    add(
        "privacy_statement",
        privacy_statement,
        unit="a person",
        relation="replace",
        epsilon=1.0,
        released="counts",
        delta=1e-5,
        order=None,
        randomness=None,
        caveats=(),
        details={"a": 1},
    )
    add(
        "Released",
        envs.Released,
        mdp=model.mdp,
        statement=model.statement,
        outcomes=model.outcomes,
        state_names=model.state_names,
        action_names=model.action_names,
        admissible=model.admissible,
        deviations=model.deviations,
    )
    add("ReleasedEnv", envs.ReleasedEnv, path=None, released=model, render_mode=None)
    add("save_released", envs.save_released, lambda: {"path": Path("out"), "released": model})
    add("load_released", envs.load_released, lambda: {"path": _kept(envs, model)})
    add("save_tables", envs.save_tables, lambda: {"path": Path("t.npz"), "mdp": mdp})
    add("load_tables", envs.load_tables, lambda: {"path": _tables(envs, mdp)})
    add("Discretised", Discretised, lambda: {"env": _cartpole(), "bins": CARTPOLE_BINS})
    add(
        "numbered",
        envs.numbered,
        lambda: {"env": _cartpole(), "bins": "-2/0/2,-1:1:2,-1:1:2,-1:1:2"},
    )
    add("Ranged", envs.Ranged, lambda: {"env": _cartpole(), "ranges": "-2:2,-3:3,-1:1,-3:3"})
    add("grid_of", grid_of, lambda: {"env": envs.TabularEnv(mdp)})
    add("worth", worth, lambda: {"env": envs.TabularEnv(mdp), "policy": np.zeros((5, 4), int)})

    # agents
    add(
        "PSRL",
        _made(agents, "PSRL"),
        lambda: agent(
            schedule=agents.EveryEpisode(),
            batch_shape=(),
            terminates=False,
            resamples=None,
            support=None,
            known_rows=None,
        ),
    )
    add("UCBVI", _made(agents, "UCBVI"), lambda: agent(sampler=counting(), bonus=1.0))
    add("DPUCBVI", _made(agents, "DPUCBVI"), lambda: agent(sampler=counting(), bonus_scale=1.0))
    add("RLSVI", _made(agents, "RLSVI"), lambda: agent(sampler=counting(), variance_scale=1.0))
    add(
        "ExploreThenPlan",
        _made(agents, "ExploreThenPlan"),
        lambda: agent(sampler=counting(), schedule=agents.EveryEpisode()),
    )
    add("QLearning", _made(agents, "QLearning"), lambda: {**sparse, "episodes": 5, "rng": rng()})
    add(
        "SparsePSRL",
        _made(agents, "SparsePSRL"),
        lambda: {
            **agent(
                sampler=samplers.NoisyCounts(
                    sigma=3.0, updates=3, relation=step, table="transitions"
                ),
                rewards=hat(),
            ),
            "episodes": 5,
        },
    )
    add("TabularSetup", agents.TabularSetup, agent)
    add(
        "PSRL.private",
        agents.PSRL.private,
        lambda: {
            "env": envs.TabularEnv(mdp),
            "epsilon": 1.0,
            "delta": 1e-5,
            "episodes": 3,
            "relation": step,
            "support": None,
            "accountant": paid(),
            "rng": rng(),
        },
    )
    add(
        "Policy",
        agents.Policy,
        lambda: {
            "actions": np.zeros((3, 2), int), "n_actions": 2, "first_state": 0, "first_action": 1,
            "action_names": ("left", "right"), "env": "Env-v0", "guarantee": None,
        },
    )  # fmt: skip
    add(
        "Policy.predict",
        agents.Policy(actions=np.zeros((3, 2), int), n_actions=2).predict,
        lambda: {"observation": 0, "state": 1, "episode_start": False},
    )
    add("PSRL.act", lambda **k: _ready(agents, agent()).act(**k), state=0, step=0)
    add(
        "PSRL.begin_episode",
        lambda **k: agents.PSRL(agents.TabularSetup(**agent())).begin_episode(**k),
        episode=0,
    )
    add(
        "PSRL.observe",
        lambda seen: _ready(agents, agent()).observe(seen),
        seen=agents.Transition(0, 1, 0.5, 1, False),
    )
    add(
        "PSRL.observe_steps",
        lambda **k: _ready(agents, agent()).observe_steps(**k),
        lambda: {
            "state": np.array([[0, 1], [1, 0]]), "action": np.array([[0, 1], [1, 1]]),
            "reward": np.array([[0.5, 0.0], [1.0, 0.0]]), "next_state": np.array([[1, 0], [0, 1]]),
            "observed": np.array([[True, True], [True, False]]),
            "terminated": np.zeros((2, 2), bool),
        },
    )  # fmt: skip
    add(
        "PSRL.observe_counts",
        lambda **k: _ready(agents, agent()).observe_counts(**k),
        lambda: {
            "counts": np.ones((2, 2, 2), int), "reward": np.full((2, 2, 1), 0.5), "ends": None,
        },
    )  # fmt: skip
    add("BetaRewards", agents.BetaRewards, beta)
    add(
        "NoisyRewards",
        agents.NoisyRewards,
        lambda: {
            "low": 0.0,
            "high": 1.0,
            "sampler": samplers.NoisyCounts(sigma=3.0, updates=3, relation=step, table="rewards"),
        },
    )
    add(
        "HatRewards",
        agents.HatRewards,
        lambda: {
            "low": 0.0,
            "high": 1.0,
            "points": 5,
            "sampler": samplers.NoisyCounts(sigma=3.0, updates=3, relation=step, table="rewards"),
        },
    )
    add("KnownRewards", agents.KnownRewards, reward=np.zeros((2, 2)))
    add("EveryEpisode", agents.EveryEpisode)
    add("Geometric", agents.Geometric, ratio=1.2, first=0)

    # experiments
    method = {
        "agent": "psrl",
        "sampler": "noisy-counts",
        "schedule": "geometric:1.05",
        "alpha": 1.0,
        "rewards": "auto",
        "reward_share": 0.3,
        "threshold": 1.5,
        "support": False,
        "resamples": None,
        "window": None,
        "reward_alpha": 1.0,
        "reward_epsilon": None,
        "label": "mine",
    }
    one = (experiments.Method(),)
    add("Method", experiments.Method, method)
    add(
        "SweepSpec",
        experiments.SweepSpec,
        env="privrl/RiverSwim-v0",
        methods=one,
        epsilons=(1.0,),
        renyi_order=2.0,
        relation="replace-step",
        episodes=3,
        horizon=4,
        runs=1,
        seed=0,
        delta=1e-5,
        block=2,
    )
    add(
        "SuiteSpec",
        experiments.SuiteSpec,
        tasks=("DeepSea5",),
        methods=one,
        epsilons=(1.0, None),
        renyi_order=2.0,
        relation="replace-step",
        episodes=(3,),
        runs=1,
        seed=0,
        delta=1e-5,
        block=2,
    )
    add(
        "Checkpoint",
        agents.Checkpoint,
        path="c.private",
        episodes=3,
        minutes=1.0,
        run="",
        ledger=None,
    )
    add(
        "TrainSpec",
        experiments.TrainSpec,
        env="privrl/RiverSwim-v0",
        method=experiments.Method(),
        env_args=("n_states=4",),
        bins=None,
        episodes=3,
        horizon=4,
        epsilon=1.0,
        delta=1e-5,
        renyi_order=2.0,
        relation="replace-step",
        reward_range=(0.0, 1.0),
        seed=0,
    )
    add("preset", sweeps.preset, name="quick", spec={"runs": 1})
    sweep = experiments.SweepSpec(epsilons=(1.0,), episodes=3, horizon=4, runs=1)
    add(
        "run_sweep",
        experiments.run_sweep,
        spec=sweep,
        mdp=None,
        backend="sequential",
        workers=None,
        address=None,
        database=None,
    )
    add(
        "run_training",
        experiments.run_training,
        spec=experiments.TrainSpec(env="privrl/RiverSwim-v0", episodes=2),
    )
    return made


def _from_signature(add: Any, module: Any, name: str, given: Any = None, /, **more: Any) -> None:
    """Add a call with those of the arguments that the function has."""
    import inspect

    function = getattr(module, name)
    has = inspect.signature(function).parameters
    made = given or (lambda: more)
    add(name, function, lambda: {k: v for k, v in made().items() if k in has})


def _laplace(data: Any, rng: np.random.Generator) -> Any:
    return data + rng.laplace(size=data.shape)


def _asked(kind: Any, method: str, *costs: Any) -> Callable[..., Any]:
    """Return a function that calls a method of a new accountant, charged with costs."""

    def call(**given: Any) -> Any:
        accountant = kind()
        for cost in costs:
            accountant.compose(cost)
        return getattr(accountant, method)(**given)

    return call


def _file(name: str, content: str) -> Path:
    Path(name).write_text(content, encoding="utf-8")
    return Path(name)


def _saved(name: str, policy: Any) -> Path:
    from privrl.offline import save_policy

    save_policy(name, policy)
    return Path(name)


def _model(name: str, model: Any) -> Path:
    model.save(name)
    return Path(name)


def _kept(envs: Any, model: Any) -> Path:
    envs.save_released("kept", model)
    return Path("kept")


def _tables(envs: Any, mdp: Any) -> Path:
    envs.save_tables("m.npz", mdp)
    return Path("m.npz")


def _entered(ledger: Any, **given: Any) -> dict[str, Any]:
    ledger.Ledger("l.sqlite").set_budget("people", ledger.Budget(1.0))
    return given


def _begun(env: Any) -> Any:
    env.reset(seed=0)
    return env


def _made(agents: Any, name: str) -> Callable[..., Any]:
    """Return what makes an agent from a setup's options and its own."""
    kind = getattr(agents, name)
    known = signature(kind).parameters

    def make(**given: Any) -> Any:
        own = {each: given.pop(each) for each in known if each in given}
        return kind(agents.TabularSetup(**given), **own)

    return make


def _ready(agents: Any, given: dict[str, Any]) -> Any:
    agent = agents.PSRL(agents.TabularSetup(**given))
    agent.begin_episode(0)
    return agent


def _cartpole() -> Any:
    import gymnasium

    return gymnasium.make("CartPole-v1")


def _episode() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(
        observations=np.array([0, 1, 0]),
        actions=np.array([0, 1]),
        rewards=np.array([0.0, 1.0]),
        terminations=np.array([False, True]),
        truncations=np.array([False, False]),
    )


class Something:
    """A value that no function takes."""


def wrong(r: Random, right: Any, pool: list[Any]) -> Any:
    """Return something in place of an argument: of another type, size or shape."""
    chance = r.random()
    if chance < 0.3:
        return damage.number(r)
    if chance < 0.4:
        return damage.text(r)
    if chance < 0.5:
        return r.choice(
            (None, (), [], {}, b"x", 1j, Something(), Something, len, iter([1]), {1, 2}, range(3))
        )
    if chance < 0.6:
        return r.choice(pool)
    if chance < 0.7:
        return _array(r)
    return _changed(r, right)


def _array(r: Random) -> Any:
    shape = r.choice(((), (0,), (1,), (3,), (2, 2), (0, 2), (2, 2, 2), (1, 1, 1, 1)))
    dtype: Any = r.choice(("f8", "f4", "i8", "u1", "?", "c16", "O", "U2", "M8[s]", "f2"))
    array = np.full(shape, r.choice((0, 1, 2)), "f8").astype(dtype)
    if dtype in ("f8", "f4") and array.size:
        array.flat[r.randrange(array.size)] = r.choice((np.nan, np.inf, -1.0, 1e30, 0.5))
    return r.choice(
        (array, array, array.tolist(), np.ma.masked_array(array), pd.Series(array.ravel()))
    )


def _changed(r: Random, right: Any) -> Any:
    """Return an argument that is nearly what it was."""
    if isinstance(right, np.ndarray):
        array = right.copy()
        match r.randrange(7):
            case 0:
                return array[..., :-1] if array.ndim else array
            case 1:
                return array[None]
            case 2:
                try:
                    return array.astype(r.choice(("f4", "O", "U8", "c16", "?")))
                except (ValueError, RuntimeError):  # a text that is no number, a date too long
                    return array.astype("O")
            case 3:
                return array.tolist()
            case 4 if array.dtype.kind in "iufc":
                return array * r.choice((-1.0, 1e300, 0.0))
            case 5 if array.dtype.kind == "f" and array.size:
                array.flat[r.randrange(array.size)] = r.choice((np.nan, np.inf, -1.0, 1e308))
                return array
            case _:
                return array.T
    if isinstance(right, pd.DataFrame | pd.Series):
        return _other_frame(r, right)
    if isinstance(right, dict | list):
        return damage.plain(r, right)
    if isinstance(right, tuple):
        changed = damage.plain(r, list(right))
        return tuple(changed) if isinstance(changed, list) else changed
    if isinstance(right, bool):
        return r.choice((not right, 1, 0, "true", None, np.bool_(right)))
    if isinstance(right, int | float) and abs(right) < 1e300:
        return r.choice(
            (right + 1, -right, right * 1000, str(right), np.float32(right), [right], right - 1)
        )
    if isinstance(right, str):
        return r.choice((right.upper(), right + " ", right[:-1], [right], right.encode()))
    if isinstance(right, Path):
        return r.choice(
            (str(right), Path("nowhere"), Path("."), Path("c.d"), "", "\0", right / "x")
        )
    return r.choice((type(right), [right], repr(right)))


def _other_frame(r: Random, right: Any) -> Any:
    if isinstance(right, pd.Series):
        return r.choice(
            (
                right.iloc[:0],
                right.astype(object),
                list(right),
                right.to_frame(),
                pd.Series([None] * len(right)),
                pd.concat([right, right]),
            )
        )
    match r.randrange(8):
        case 0:
            return right.iloc[:0]
        case 1:
            return right.drop(columns=r.choice(list(right.columns)))
        case 2:
            return pd.concat([right, right], axis=1)
        case 3:
            return right.to_dict("list")
        case 4:
            return right.to_numpy()
        case 5:
            return right.rename(
                columns={r.choice(list(right.columns)): r.choice((1, None, ("a", "b")))}
            )
        case 6:
            return right.set_axis([0] * len(right))
        case _:
            column = r.choice(list(right.columns))
            values: list[Any] = [
                r.choice((None, CANARY, 1, 0.5, True, float("nan"), [1])) for _ in range(len(right))
            ]
            changed = right.copy()
            changed[column] = pd.Series(values, dtype=object)  # whose name may be no text
            return changed


#: Numbers that are work or memory: large ones are what was asked for, and are not tried.
SIZES = {
    "n_states",
    "n_actions",
    "size",
    "draws",
    "persons",
    "updates",
    "window",
    "points",
    "episodes",
    "horizon",
    "steps",
    "runs",
    "capacity",
    "n_cells",
    "n",
    "n_records",
    "batch_shape",
    "users",
    "most_steps",
    "most_episodes",
    "bins",
    "branching",
    "n_next",
    "n_components",
    "n_candidates",
    "backend",
    "workers",
    "address",
    "block",
    "tasks",
    "env",
}
_SMALL = (
    0,
    1,
    2,
    3,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    True,
    None,
    "3",
    10**400,
    [2],
    np.int8(3),
    -(2**63),
    "",
)


def call(r: Random, at: Path, valid: dict[str, Valid]) -> Call:
    """Return a call of a public name, with one or two arguments changed, absent or unknown."""
    name = r.choice(sorted(valid))
    function, make = valid[name]
    given = make()
    pool = list(given.values())
    for _ in range(r.choice((1, 1, 1, 2)) if given else 0):
        key = r.choice(list(given))
        given[key] = r.choice(_SMALL) if key in SIZES else wrong(r, given[key], pool)
    if r.random() < 0.02:
        given[r.choice(("nonesuch", "", "self"))] = 1
    accountants = [one for one in pool if hasattr(one, "journal") and hasattr(one, "compose")]
    said = ", ".join(f"{key}={_said(value)}" for key, value in given.items())
    return Call(f"{name}({said})", lambda: function(**given), at, accountants)


def _said(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}, {error}>"
    return text if len(text) < 200 else f"{text[:200]}…"
