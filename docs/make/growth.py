"""How time and memory grow: a table of docs/results/benchmarks.md, and its picture.

Run with ``python docs/make/growth.py``; it takes some minutes. With ``--from growth.json`` nothing
is measured: the file is what ``--keep growth.json`` has written. Each point is measured in a
process of its own, whose processor time it is, and whose memory above that of what it is given.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pages
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privrl.experiments.palette import COLOURS, GREY

Task = Callable[[], object]
_LAST = 3  # points, the slope of which is the exponent


@dataclass(frozen=True)
class Curve:
    """What grows, with what.

    Parameters
    ----------
    name : str
        Of the picture and the table.
    along : str
        What there is more and more of.
    sizes : tuple of int
        How many.
    make : callable
        From one of them to what is timed; what is made beforehand is not.
    bound : str
        What bounds it where it bends upwards, and where it is worked at.
    """

    name: str
    along: str
    sizes: tuple[int, ...]
    make: Callable[[int], Task]
    bound: str = ""


def _episode(states: int = 50, actions: int = 2, horizon: int = 20) -> Task:
    from privrl.agents import PSRL, KnownRewards, TabularSetup  # noqa: PLC0415 -- a point loads its own
    from privrl.envs import Support  # noqa: PLC0415
    from privrl.samplers import Diffuse  # noqa: PLC0415

    rng = np.random.default_rng(0)
    width = min(10, states)
    first = rng.integers(0, states - width + 1, (states, actions, 1))
    support = Support(first + np.arange(width), states)
    agent = PSRL(
        TabularSetup(
            states,
            actions,
            horizon,
            sampler=Diffuse(weight=0.1),
            rewards=KnownRewards(rng.random((states, actions))),
            rng=rng,
            support=support,
        )
    )
    return lambda: [agent.begin_episode(number) for number in range(5)]


def _sparse(states: int, actions: int = 10, horizon: int = 50) -> Task:
    from privrl.agents import HatRewards, SparsePSRL, TabularSetup  # noqa: PLC0415
    from privrl.agents.schedules import Once  # noqa: PLC0415
    from privrl.costs.relations import DAMPED  # noqa: PLC0415
    from privrl.samplers import NoisyCounts, SparseCounts  # noqa: PLC0415

    rng, episodes = np.random.default_rng(0), 4 * states  # 20 visits of each row
    setup = TabularSetup(
        states,
        actions,
        horizon,
        sampler=SparseCounts(sigma=1.0, releases=[0], table=DAMPED),
        rewards=HatRewards(NoisyCounts(sigma=1.0, updates=1, table="rewards")),
        schedule=Once(1),
        rng=rng,
    )
    agent = SparsePSRL(setup, episodes=episodes)
    following = rng.integers(0, states, (states, actions, 4))
    reward = rng.random((states, actions))
    agent.begin_episode(0)
    for _ in range(50):  # parts, which take less memory than what is measured
        state = np.empty((horizon + 1, episodes // 50), np.intp)
        action = rng.integers(0, actions, (horizon, episodes // 50))
        state[0] = rng.integers(0, states, episodes // 50)
        for step in range(horizon):
            way = rng.integers(0, 4, episodes // 50)
            state[step + 1] = following[state[step], action[step], way]
        agent.observe_steps(
            state[:-1],
            action,
            reward[state[:-1], action],
            state[1:],
            observed=np.ones(action.shape, np.bool_),
            terminated=np.zeros(action.shape, np.bool_),
        )

    def run() -> None:
        agent.begin_episode(1)
        assert agent.policy.shape == (horizon, states)

    return run


def _learning(episodes: int = 30, runs: int = 20, ratio: float | None = None) -> Task:
    from privrl.agents import PSRL, Geometric, KnownRewards, TabularSetup  # noqa: PLC0415
    from privrl.agents.training import learn_counts  # noqa: PLC0415
    from privrl.envs import riverswim  # noqa: PLC0415
    from privrl.samplers import Diffuse  # noqa: PLC0415

    mdp = riverswim()
    agent = PSRL(
        TabularSetup(
            mdp.n_states,
            mdp.n_actions,
            mdp.horizon,
            sampler=Diffuse(weight=0.1),
            rewards=KnownRewards(mdp.expected_reward),
            rng=np.random.default_rng(0),
            batch_shape=(runs,),
            **({} if ratio is None else {"schedule": Geometric(ratio)}),
        )
    )
    return lambda: learn_counts(agent, mdp, episodes, np.random.default_rng(1))


def _stream(factorisation: Any, updates: int) -> Task:
    from privrl.accounting import RenyiDP  # noqa: PLC0415
    from privrl.samplers import NoisyCounts  # noqa: PLC0415

    counts, rng = np.ones((6, 2, 6)), np.random.default_rng(0)

    def run() -> None:
        stream = NoisyCounts.calibrated(RenyiDP(2, 1.0), draws=updates, factorisation=factorisation)
        for _ in range(updates):
            stream.update(counts, rng)

    return run


def _histogram(records: int = 1_000_000, bins: int = 100) -> Task:
    from privrl.accounting import ApproxDP  # noqa: PLC0415
    from privrl.models import histogram  # noqa: PLC0415

    rng = np.random.default_rng(0)
    values = rng.normal(45, 15, records)
    return lambda: histogram(values, bins, (0, 100), target=ApproxDP(1, 1e-5), rng=rng)


def _files(records: int) -> Task:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415
    from distributed import Client  # noqa: PLC0415

    from privrl.accounting import ApproxDP  # noqa: PLC0415
    from privrl.data import Categories, Schema  # noqa: PLC0415
    from privrl.models import PrivateNaiveBayes, read_partitioned_records  # noqa: PLC0415

    rng, folder = np.random.default_rng(0), tempfile.TemporaryDirectory()
    names = ("a", "b", "c", "ill")
    for start in range(0, records, 1_000_000):
        size = min(1_000_000, records - start)
        columns = {name: rng.integers(0, 2, size, np.int8) for name in names}
        pq.write_table(pa.table(columns), f"{folder.name}/{start}.parquet")
    schema = Schema({name: Categories([0, 1]) for name in names})

    def run() -> None:
        with Client(
            processes=False, threads_per_worker=1, n_workers=1, dashboard_address=None
        ) as c:
            model = PrivateNaiveBayes(schema, classes="ill", target=ApproxDP(1, 1e-5))
            model.fit(read_partitioned_records(folder.name, schema, c))
        folder.cleanup()

    return run


def _naive_bayes(features: int) -> Task:
    from privrl.accounting import ApproxDP  # noqa: PLC0415
    from privrl.models import PrivateNaiveBayes  # noqa: PLC0415

    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 10, (20_000, features)), rng.integers(0, 2, 20_000)
    model = PrivateNaiveBayes([10] * features, classes=[0, 1], target=ApproxDP(1, 1e-5))
    return lambda: model.fit(X, y)


def _sweep(cells: int) -> Task:
    from privrl.experiments import Method, SweepSpec, run_sweep  # noqa: PLC0415

    epsilons = tuple(np.geomspace(0.1, 10, cells).tolist())
    methods = (Method(sampler="diffuse", label="draws"),)
    spec = SweepSpec(
        methods=methods, epsilons=epsilons, renyi_order=2.0, episodes=1, runs=1, block=1
    )
    return lambda: run_sweep(spec, backend="sequential")


CURVES = (
    Curve("a draw and a plan, 10 next states", "states", (6, 24, 100, 400, 1500, 5000),
          lambda n: _episode(states=n)),
    Curve("a sparse draw and two plans, 10 actions", "states", (100, 300, 1000, 3000, 10_000),
          _sparse, "memory: cells that appear; a table of all transitions would have 8 GB"),
    Curve("a draw and a plan", "actions", (2, 8, 32, 128, 512), lambda n: _episode(actions=n)),
    Curve("a draw and a plan", "horizon", (10, 100, 1000, 10_000), lambda n: _episode(horizon=n)),
    Curve("PSRL, a geometric schedule", "episodes", tuple(10**k for k in range(3, 10)),
          lambda n: _learning(episodes=n, ratio=1.2)),
    Curve("PSRL, 30 episodes", "runs", (1, 10, 100, 1000, 4000), lambda n: _learning(runs=n)),
    Curve("noisy counts, buffered", "updates", (100, 1000, 10_000, 100_000),
          partial(_stream, "buffered"),
          "memory: a few numbers for each update, however large the table"),
    Curve("noisy counts, square root", "updates", (100, 300, 1000, 3000),
          partial(_stream, "square-root"),
          "its matrices, of n² numbers, made once and remembered; buffered, which has none, is the "
          "default above 1,000"),
    Curve("histogram", "records", (10_000, 100_000, 1_000_000, 10_000_000), _histogram),
    Curve("naive Bayes of a folder, by Dask", "records", (10**6, 10**7, 10**8), _files),
    Curve("histogram of 1,000,000 records", "bins", tuple(10**k for k in range(1, 7)),
          lambda n: _histogram(bins=n)),
    Curve("naive Bayes", "features", (3, 10, 30, 100, 300, 1000), _naive_bayes),
    Curve("a sweep", "cells", (3, 10, 30, 100, 300), _sweep,
          "each cell is calibrated and trained by itself"),
)  # fmt: skip


def main() -> None:
    """Measure, unless results are given, and write the part of the page and its picture."""
    parser = argparse.ArgumentParser(description="Measure how time and memory grow.")
    parser.add_argument("--from", dest="results", type=Path, help="results of an earlier run")
    parser.add_argument("--keep", type=Path, help="where to write results")
    parser.add_argument("--point", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(_here(*options.point)))
        return
    found = measured() if options.results is None else json.loads(options.results.read_text())
    if options.keep:
        options.keep.write_text(json.dumps(found))
    pages.fill(pages.DOCS / "results" / "benchmarks.md", {"growth": lambda: table(found)})
    pages.save(draw(found), pages.IMAGES / "benchmark_growth.png")


def measured() -> dict[str, Any]:
    """Measure all points, one after the other: seconds and bytes of each curve's sizes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    points, loads = [], [os.getloadavg()[0]]
    for number, curve in enumerate(CURVES):
        print(curve.name, curve.along, flush=True)
        each = []
        for size in curve.sizes:
            command = [sys.executable, __file__, "--point", str(number), str(size)]
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            each.append(json.loads(done.stdout))
        points.append(each)
        loads.append(os.getloadavg()[0])
    return {"points": points, "load": [min(loads), max(loads)]}


def _here(number: int, size: int) -> list[float]:
    """Return the seconds and bytes of one point, once the modules that it needs are loaded."""
    curve = CURVES[number]
    curve.make(curve.sizes[0] + 1)()  # of which nothing is remembered that helps
    task = curve.make(size)
    before = _most()
    begin = time.process_time()
    task()
    return [time.process_time() - begin, max(_most() - before, 0)]


def _most() -> int:
    """Return the most bytes that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the power of the size with which the last values grow."""
    x, y = np.log(sizes[-_LAST:]), np.log(np.maximum(values[-_LAST:], 1e-9))
    return float(np.polyfit(x, y, 1)[0])


def table(found: dict[str, Any]) -> str:
    """Return the table of the page."""
    rows = []
    for curve, points in zip(CURVES, found["points"], strict=True):
        seconds, memory = np.array(points).T
        rows.append(
            [
                curve.name,
                f"{curve.along}: {curve.sizes[0]:,} to {curve.sizes[-1]:,}",
                f"{_time(seconds[0])} to {_time(seconds[-1])}",
                f"{exponent(curve.sizes, seconds):.2f}",
                f"{memory[0] / 1e6:.0f} to {memory[-1] / 1e6:.0f}",
                curve.bound,
            ]
        )
    low, high = found["load"]
    header = "what | along | processor time | exponent | memory, MB | what bounds it"
    return (
        f"{pages.table(header, rows)}\n\nProcesses that wanted a core meanwhile: {low:.1f} to "
        f"{high:.1f}, on {os.cpu_count()} cores."
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def draw(found: dict[str, Any]) -> Figure:
    """Return small multiples of time against size, with the exponent at each line's end."""
    figure = Figure(figsize=(8.0, 11.0), layout="constrained")
    grid = figure.subplots(5, 2)
    alongs = list(dict.fromkeys(curve.along for curve in CURVES))
    for axes, along in zip(grid.flat, alongs, strict=True):
        there = [
            (curve, points)
            for curve, points in zip(CURVES, found["points"], strict=True)
            if curve.along == along
        ]
        _panel(axes, along, there)
    for axes in grid[:, 0]:
        axes.set_ylabel("processor seconds")
    return figure


def _panel(axes: Axes, along: str, there: Sequence[tuple[Curve, Any]]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for (curve, points), colour in zip(there, COLOURS, strict=False):
        seconds = [point[0] for point in points]
        axes.plot(curve.sizes, seconds, color=colour, marker="o", ms=4, label=curve.name)
        axes.annotate(
            f"$n^{{{exponent(curve.sizes, seconds):.2f}}}$",
            (curve.sizes[-1], seconds[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )
    axes.margins(x=0.08, y=0.12)
    axes.set_xlim(right=8 * axes.get_xlim()[1])
    axes.set_ylim(top=6 * axes.get_ylim()[1])
    axes.set_title(along, loc="left", fontsize="medium")
    axes.grid(alpha=0.25, which="major")
    axes.legend(frameon=False, fontsize="small", loc="upper left", labelcolor=GREY)


if __name__ == "__main__":
    main()
