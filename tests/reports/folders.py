"""Folders as commands write them, with texts in them that would like to be more."""

from pathlib import Path

import numpy as np
import pandas as pd

from privrl import _files
from privrl._sharing import SECRET, SEEDED
from privrl.accounting import Rdp
from privrl.cli.released import guarantee_of, plain_writer
from privrl.data.schema import Categories
from privrl.experiments.methods import Method
from privrl.experiments.sweeps import SweepSpec, run_sweep
from privrl.experiments.training import TrainSpec
from privrl.models.histograms import PrivateHistogram, histogram
from privrl.numerics.randomness import secret_rng

EVIL = '</script><script>document.title = "run"</script><b> $$x^2$$ @y{safe} &amp;'


def evil_histogram(out: Path, *, seeded: bool = False) -> PrivateHistogram:
    """Write a histogram whose first cell has such a name."""
    column = Categories((EVIL, "two", "three"))
    data = pd.Series([EVIL] * 30 + ["two"] * 60 + ["three"] * 10)
    target = Rdp(2, 1)
    rng = np.random.default_rng(3) if seeded else secret_rng()
    made = histogram(data, column, target=target, mechanism="gaussian", rng=rng)
    guarantee = guarantee_of(made.cost, target, 1e-5, 3 if seeded else None)
    _files.save_all(
        out,
        {
            "histogram.csv": _files.table_writer(made.to_frame().reset_index()),
            "histogram.json": plain_writer(made.to_dict()),
        },
        ("release.json", {"command": f"privrl histogram {EVIL}", "guarantee": guarantee}),
    )
    return made


def evil_training(out: Path, *, secret: str = "secret.npz") -> None:
    """Write what training leaves: of an environment with such a name, made of a secret file."""
    spec = TrainSpec(env=EVIL, env_args=(f"path={secret}",), method=Method(), episodes=40)
    rewards = np.sin(np.arange(40)) + 0.1
    rewards[:10] = 0.73201
    record = pd.DataFrame(
        {"run": 0, "episode": range(40), "episodes": 1, "reward": rewards, "draws": 1}
    )
    policy = np.array([[0, 1, 2], [0, 0, 2], [1, 0, 2], [1, 0, 2]])
    guarantee = {
        "relation": "replace one step", "order": 2.0, "epsilon": 1.0, "delta": 1e-5,
        "epsilon_delta": 4.377178, "draws": 3, "randomness": SECRET, "caveats": [],
    }  # fmt: skip
    _files.save_all(
        out,
        {
            "policy.npy": _files.array_writer(policy),
            "record.csv": _files.table_writer(record),
        },
        (
            "train.json",
            {
                "command": f"privrl train --env-arg=path={secret}",
                "spec": spec.to_dict(),
                "guarantee": guarantee,
                "worth": {"policy": 1.5, "optimum": 2.0, "random": 0.5, "share": 2 / 3},
            },
        ),
    )


def saved_sweep(out: Path) -> pd.DataFrame:
    """Write a small sweep; return its results."""
    methods = (Method(sampler="non-private"), Method(sampler="noisy-counts"))
    spec = SweepSpec(methods=methods, epsilons=(0.1, 10.0), episodes=30, horizon=8, runs=3)
    result = run_sweep(spec, backend="sequential")
    _files.save_all(
        out,
        {
            "results.csv": _files.table_writer(result.results),
            "curves.csv": _files.table_writer(result.curves),
        },
        (
            "sweep.json",
            {
                "command": "privrl sweep",
                "spec": spec.to_dict(),
                "optimal_value": result.optimal_value,
                "randomness": SEEDED,
            },
        ),
    )
    return result.results
