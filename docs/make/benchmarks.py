"""Measure how fast privrl is; make docs/results/benchmarks.md and the pictures that it explains.

Run with ``python docs/make/benchmarks.py`` on two idle cores. It measures in three processes, one
after the other. The page states the range of the runs' medians.
``--quick`` makes one run of a few small sizes and changes no page: it shows that everything works.
``--redraw`` measures nothing and uses the stored numbers. ``--check`` writes nothing: ratios are
compared with those of the page, and what fell by more than a quarter is named.
``-k WHAT --again`` measures a part again, in place of its stored numbers.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pages
import ratios
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from privrl.experiments.palette import BLACK, COLOURS, GREY

RUNS = 200
RLBERRY_EARLIER = 80_000
"""Steps per second of rlberry-research's PSRL on another day, on a processor of this kind."""

INKS = (BLACK, *COLOURS[1:])  # blue is a method's
MARKERS = ("o", "s", "^", "D", "v", "P")


RUNS_APART = 3  # processes, whose medians make a range
NUMBERS = pages.DOCS / "numbers" / "benchmarks.json"
PAGE = pages.DOCS / "results" / "benchmarks.md"


def main() -> None:
    """Run the suite, unless its numbers are stored, and write page and pictures."""
    parser = argparse.ArgumentParser(description="Measure, and write docs/results/benchmarks.md.")
    parser.add_argument("--quick", action="store_true", help="one run of small sizes, shown only")
    parser.add_argument("--redraw", action="store_true", help="use the stored numbers")
    parser.add_argument("--check", action="store_true", help="compare ratios with the page's")
    parser.add_argument("-k", dest="only", default="", help="only these, as pytest's -k; no page")
    parser.add_argument("--again", action="store_true", help="store these in place of those before")
    options = parser.parse_args()
    if options.redraw:
        reports = json.loads(NUMBERS.read_text())
    else:
        runs = 1 if options.quick else RUNS_APART
        reports = [measure(quick=options.quick, only=options.only) for _ in range(runs)]
    if options.again:
        reports = list(map(renewed, json.loads(NUMBERS.read_text()), reports))
    results = Results(*reports)
    if options.quick or (options.only and not options.again):
        print(_every(results))
    elif options.check:
        check(results, PAGE)
    else:
        NUMBERS.write_text(json.dumps(reports, indent=1) + "\n")
        write(results, PAGE)
        draw(results, pages.IMAGES)


def check(results: "Results", page: Path) -> None:
    """Say which ratios fell by more than a quarter of what the page says.

    Raises
    ------
    SystemExit
        If one did.
    """
    blocks = (f"<!-- {name} -->\n{make(results)}\n<!-- end of {name} -->\n"
              for name, make in BLOCKS.items())  # fmt: skip
    before, after = ratios.ratios(page), ratios.ratios("".join(blocks))
    print(_machine(results))
    print(f"{len(before.keys() & after.keys())} ratios compared, of {len(before)} on the page.")
    if worse := ratios.fallen(before, after):
        raise SystemExit("Fell by more than a quarter:\n" + "\n".join(worse))


def measure(*, quick: bool, only: str = "") -> dict[str, Any]:
    """Run all benchmarks in a process of its own, on one core, and return what was measured."""
    if importlib.util.find_spec("pytest_benchmark") is None:
        raise SystemExit("pytest-benchmark is not installed; pip install 'privrl[bench]' has it.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [sys.executable, "-m", "pytest", pages.DOCS.parent / "benchmarks", "-q", "-rs"]
        command += ["-p", "no:cacheprovider", f"--benchmark-json={path}", "-k", only]
        command += ["--benchmark-min-rounds=3", "--benchmark-max-time=0.2"]
        if quick:
            command += ["--quick", "--benchmark-max-time=0.01", "--benchmark-min-rounds=1"]
        one_core = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        subprocess.run(command, env={**os.environ, **dict.fromkeys(one_core, "1")}, check=True)
        return kept(json.loads(path.read_text()))


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """Return of a report of pytest-benchmark's what the page is made of."""
    return {
        "about": report["about"],
        "machine_info": report["machine_info"],
        "benchmarks": [
            {"extra_info": each["extra_info"], "stats": {"median": each["stats"]["median"]}}
            for each in report["benchmarks"]
        ],
    }


def renewed(report: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the numbers of a part in place of those before."""
    new = {_key(each): each for each in part["benchmarks"]}
    benchmarks = [new.pop(_key(each), each) for each in report["benchmarks"]]
    return {**report, "benchmarks": [*benchmarks, *new.values()]}


#: A number of each run; None where something was not measured in all of them.
Measured = NDArray[np.float64] | None


class Results:
    """What was measured.

    Parameters
    ----------
    *reports : dict
        Of each run pytest-benchmark's report, with the entry ``about`` that
        ``benchmarks/conftest.py`` adds.
    """

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.about, self.machine = reports[0]["about"], reports[0]["machine_info"]
        self.loads = [report["about"]["load"] for report in reports]
        self._times: dict[tuple[str, str, float | None], tuple[Measured, float]] = {}
        self._peaks: dict[tuple[str, str, float | None], float | None] = {}
        runs = [{_key(each): each for each in report["benchmarks"]} for report in reports]
        for key, first in runs[0].items():
            found = [run[key] for run in runs if key in run]
            if len(found) == len(runs):
                medians = np.array([each["stats"]["median"] for each in found], np.float64)
                self._times[key] = medians, first["extra_info"]["work"]
                peaks = [each["extra_info"].get("peak") for each in found]
                self._peaks[key] = max((peak for peak in peaks if peak is not None), default=None)

    def seconds(self, group: str, what: str, at: float | None = None) -> Measured:
        """Return each run's median time of a call; None if it was not measured."""
        return self._times.get((group, what, at), (None, 0.0))[0]

    def rate(self, group: str, what: str, at: float | None = None) -> Measured:
        """Return how many units of work each run did in a second; None if not measured."""
        seconds, work = self._times.get((group, what, at), (None, 0.0))
        return None if seconds is None else work / seconds

    def peak(self, group: str, what: str, at: float | None = None) -> float | None:
        """Return the most memory of a call in bytes; None if it was not measured."""
        return self._peaks.get((group, what, at))

    def all(self) -> list[tuple[str, str, float | None]]:
        """Return all that was measured: groups, what, and at which places."""
        return list(self._times)

    def places(self, group: str, what: str) -> list[float]:
        """Return at which places something was measured, ascending."""
        return sorted(at for g, w, at in self._times if (g, w) == (group, what) and at is not None)

    def names(self, group: str, start: str) -> list[str]:
        """Return what begins like that, without its beginning."""
        known = dict.fromkeys(what for g, what, _ in self._times if g == group)
        return [what.removeprefix(start) for what in known if what.startswith(start)]

    def missing(self, peer: str) -> str:
        """Return in words why there is no number of a peer."""
        if self.about["versions"].get(peer) == "not installed":
            return "not installed"
        reason = self.about["peers"].get(peer, {}).get("missing", "")
        return f"not installed: {reason}" if reason else "not measured"


def _key(each: dict[str, Any]) -> tuple[str, str, float | None]:
    info = each["extra_info"]
    return info["group"], info["what"], info["at"]


def write(results: Results, page: Path) -> None:
    """Write the tables between the markers of the page."""
    pages.fill(page, {name: partial(make, results) for name, make in BLOCKS.items()})


def draw(results: Results, folder: Path) -> None:
    """Write the pictures of the page."""
    for name, make in PICTURES.items():
        pages.save(make(results), folder / f"benchmark_{name}.png")


def _machine(results: Results) -> str:
    about, cpu = results.about, results.machine["cpu"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    rows = [
        f"- Processor: {cpu.get('brand_raw', 'unknown')}, {cpu.get('count', '?')} cores, "
        f"{results.machine.get('machine', '')}; all but the sweeps use one core.",
        f"- Python {about['python']} on {results.machine.get('system', '')}; {versions}.",
    ]
    for name, told in about["peers"].items():
        if told["missing"]:
            rows.append(f"- {name}: not installed ({told['missing']}; see `{told['variable']}`).")
        else:
            there = ", ".join(f"{k} {v}" for k, v in told["versions"].items())
            rows.append(f"- {name} has a separate Python: {there}.")
    loads = [f"{start:.1f} and {end:.1f}" for start, end in filter(None, results.loads)]
    if loads:
        rows.append(
            "- Processes that wanted a core when each run started and ended: "
            f"{'; '.join(loads)}. On a quiet machine it is 0 and 1."
        )
    rows.append(f"- Separate runs: {len(results.loads)}.")
    return "\n".join(rows)


def _summary(results: Results) -> str:
    compose = _faster(
        results.rate("accounting", "Gaussian", 1000),
        results.rate("accounting", "dp-accounting", 1000),
    )
    psrl = results.rate("psrl", "known rewards", RUNS)
    rows = [
        _aim(
            "64 RiverSwim environments in step",
            8e6,
            results.rate("vector", "native", 64),
            _million_steps,
        ),
        _aim("4096 of them", 20e6, results.rate("vector", "native", 4096), _million_steps),
        _aim(f"PSRL, {RUNS} runs, a draw before every episode", 5e6, psrl, _million_steps),
        _aim(
            "10⁹ episodes in each of 200 runs, the slowest of six ways",
            3.0,
            _worst(results.seconds("long", way, 10**9) for way in _ways()),
            _seconds,
            most=True,
        ),
        _aim(
            f"`train` on FrozenLake, {_long_training(results):,} episodes, to its own stepping",
            1.5,
            _worst(
                _training_ratio(results, kind, _long_training(results)) for kind in _KINDS_OF_TRAIN
            ),
            _times_as_long,
            most=True,
        ),
        _aim("1000 Gaussian releases composed, to dp-accounting", 1.0, compose, _times_as_fast),
    ]
    return pages.table(["what", "target", "measured", "met"], rows)


def _peers(results: Results) -> str:
    def ours(group: str, what: str, at: float | None = None) -> float | None:
        return results.rate(group, what, at)

    steps, records, values = "steps", "records", "values"
    psrl = results.rate("psrl", "rlberry")
    pairs = [
        ("64 environments", steps, ours("vector", "native", 64), "Gymnasium's `SyncVectorEnv`",
         ours("vector", "RiverSwim one by one", 64), ""),
        ("4096 environments", steps, ours("vector", "native", 4096), "Gymnasium's `SyncVectorEnv`",
         ours("vector", "RiverSwim one by one", 4096), ""),
        (f"PSRL, {RUNS} runs, private rewards", steps, ours("psrl", "private rewards", RUNS),
         "rlberry-research, a run by itself", psrl, "rlberry"),
        ("PSRL, one run, private rewards", steps, ours("psrl", "private rewards", 1),
         "rlberry-research", psrl, "rlberry"),
        ("1000 Gaussian releases", "releases", ours("accounting", "Gaussian", 1000),
         "dp-accounting", ours("accounting", "dp-accounting", 1000), "dp-accounting"),
        ("loss distributions, Gaussian", "releases",
         _any_place(results, "loss distributions, Gaussian"), "dp-accounting",
         _any_place(results, "loss distributions, dp-accounting"), "dp-accounting"),
        ("naive Bayes, fit", records, ours("models", "fit, privrl auto"),
         "scikit-learn's `CategoricalNB`", ours("models", "fit, scikit-learn"), "scikit-learn"),
        ("naive Bayes, fit", records, ours("models", "fit, privrl auto"),
         "diffprivlib's `GaussianNB`", ours("models", "fit, diffprivlib"), "diffprivlib"),
        ("naive Bayes, predict", records, ours("models", "predict, privrl auto"),
         "scikit-learn's `CategoricalNB`", ours("models", "predict, scikit-learn"), "scikit-learn"),
        ("naive Bayes, predict", records, ours("models", "predict, privrl auto"),
         "diffprivlib's `GaussianNB`", ours("models", "predict, diffprivlib"), "diffprivlib"),
        ("histogram of 10⁶ values", values, ours("models", "histogram, privrl", 10**6),
         "`numpy.histogram`", ours("models", "histogram, numpy", 10**6), ""),
        ("histogram of 10⁶ values", values, ours("models", "histogram, privrl", 10**6),
         "diffprivlib", ours("models", "histogram, diffprivlib", 10**6), "diffprivlib"),
    ]  # fmt: skip
    rows = [
        [
            what,
            _per_second(mine, unit),
            name,
            results.missing(peer) if peer and other is None else _per_second(other, unit),
            _ratio(_faster(mine, other)),
        ]
        for what, unit, mine, name, other, peer in pairs
    ]
    return pages.table(["what", "privrl", "the other", "its speed", "privrl is faster by"], rows)


def _vector(results: Results) -> str:
    names = {
        "RiverSwim, privrl": "native",
        "RiverSwim, `SyncVectorEnv`": "RiverSwim one by one",
        "FrozenLake, `SyncVectorEnv`": "FrozenLake one by one",
        "CartPole, Gymnasium's native": "CartPole native",
        "the ceiling": "floor",
    }
    places = results.places("vector", "native")
    rows = [
        [label, *(_millions(results.rate("vector", what, at)) for at in places)]
        for label, what in names.items()
    ]
    to_floor = [
        _ratio(_faster(results.rate("vector", "floor", at), results.rate("vector", "native", at)))
        for at in places
    ]
    rows.append(["ours takes, to the ceiling", *to_floor])
    return pages.table(["million steps/s; environments:", *(f"{at:,}" for at in places)], rows)


def _psrl(results: Results) -> str:
    places = results.places("psrl", "known rewards")
    rows = []
    for kind in ("known rewards", "private rewards"):
        rates = [results.rate("psrl", kind, at) for at in places]
        floors = [results.rate("psrl", f"floor of {kind}", at) for at in places]
        rows.append([f"{kind}, million steps/s", *map(_millions, rates)])
        rows.append(["its ceiling, million steps/s", *map(_millions, floors)])
        rows.append(["takes, to its ceiling", *map(_ratio, map(_faster, floors, rates))])
        draws = [results.rate("psrl", f"draws of {kind}", at) for at in places]
        rows.append(["takes, to its exact draws", *map(_ratio, map(_faster, draws, rates))])
    kind = "private rewards, without numba"
    rows.append(
        [f"{kind}, million steps/s", *(_millions(results.rate("psrl", kind, at)) for at in places)]
    )
    table = pages.table(["runs:", *(f"{at:,}" for at in places)], rows)
    rate = results.rate("psrl", "rlberry")
    there = results.missing("rlberry") if rate is None else f"{_digits(rate)} steps/s in these runs"
    return (
        f"{table}\n\nrlberry-research's PSRL, one run: {there}; an earlier measurement, which is "
        f"not of this run, found {RLBERRY_EARLIER:,} steps/s."
    )


def _profile(results: Results) -> str:
    parts = (
        "drawing transitions",
        "drawing rewards",
        "planning",
        "simulating",
        "counting",
        "accounting",
    )
    whole = results.seconds("psrl", "one episode")
    times = [results.seconds("psrl", part) for part in parts]
    rest = None
    if whole is not None and all(t is not None for t in times):
        rest = whole - sum(t for t in times if t is not None)
    rows = [
        [part, _micro(time), _percent(_over(time, whole))]
        for part, time in zip(
            (*parts, "all else", "**one episode of all runs**"), (*times, rest, whole), strict=True
        )
    ]
    floor = results.seconds("psrl", "floor of private rewards", RUNS)
    rows.append(["the floor: gamma draws alone", _micro(floor), _percent(_over(floor, whole))])
    return pages.table(["part", "µs", "share"], rows)


def _planner(results: Results) -> str:
    places = results.places("psrl", "einsum")
    rows = [
        [label, *(_milli(results.seconds("psrl", what, at)) for at in places)]
        for label, what in (
            ("one einsum along the runs", "einsum"),
            ("a matrix product for each run", "matmul"),
            ("known support", "support"),
        )
    ]
    return pages.table(["ms; states:", *(f"{at}" for at in places)], rows)


def _long(results: Results) -> str:
    rows = [
        [kind, *(_seconds(results.seconds("long", f"{kind}, {r}", 10**9)) for r in (1.05, 1.2))]
        for kind in _KINDS_OF_LONG
    ]
    return pages.table(["10⁹ episodes", "`Geometric(1.05)`", "`Geometric(1.2)`"], rows)


def _single(results: Results) -> str:
    rows = []
    for kind in _KINDS_OF_TRAIN:
        for at in results.places("single", f"train, {kind}"):
            pair = [results.rate("single", f"{way}, {kind}", at) for way in ("own", "train")]
            own, train = (None if rate is None else 1 / rate for rate in pair)
            rows.append([kind, f"{at:,}", _micro(own), _micro(train), _ratio(_faster(*pair))])
    header = ["agent", "episodes", "the environment's own, µs a step", "`train`, µs a step"]
    return pages.table([*header, "ratio"], rows)


def _accounting(results: Results) -> str:
    rows = []
    for name in results.names("accounting", "Dirichlet, "):
        for at in results.places("accounting", f"Dirichlet, {name}"):
            rows.append(_compose_row(results, f"Dirichlet, {name}", at))
    for what in ("Gaussian", "Gaussian, orders of dp-accounting", "dp-accounting"):
        for at in results.places("accounting", what)[-1:]:
            rows.append(_compose_row(results, what, at))
        if not results.places("accounting", what):
            rows.append([what, "", results.missing("dp-accounting"), ""])
    for kind in ("Dirichlet", "Gaussian", "dp-accounting"):
        what = f"loss distributions, {kind}"
        for at in results.places("accounting", what):
            rows.append(_compose_row(results, what, at))
        if not results.places("accounting", what):
            rows.append([what, "", results.missing("dp-accounting"), ""])
    return pages.table(["releases", "how many", "seconds", "µs each"], rows)


def _compose_row(results: Results, what: str, at: float) -> list[str]:
    seconds = results.seconds("accounting", what, at)
    label = f"{what}, Gaussian" if what.endswith("dp-accounting") and "," not in what else what
    return [label, f"{at:,}", _seconds(seconds), _micro(_over(seconds, at))]


def _calibration(results: Results) -> str:
    rows = []
    for what in ("weight", "prior", "noisy counts", "weight by loss distributions"):
        row = [what]
        for target in ("Rényi", "(ε, δ)"):
            for count in (1, 100):
                none = "loss" in what and target == "Rényi"
                time = results.seconds("accounting", f"{what}, {target}", count)
                row.append("none" if none else _milli(time))
        rows.append(row)
    columns = ["Rényi, 1 release", "Rényi, 100", "(ε, δ), 1 release", "(ε, δ), 100"]
    return pages.table(["ms for", *columns], rows)


def _models(results: Results) -> str:
    rows = []
    for name in ("privrl auto", "privrl gaussian", "privrl dirichlet", "privrl none",
                 "scikit-learn", "diffprivlib"):  # fmt: skip
        times = [results.seconds("models", f"{verb}, {name}") for verb in ("fit", "predict")]
        peer = results.missing(name)
        rows.append([name, *(peer if time is None else _milli(time) for time in times)])
    bayes = pages.table(["naive Bayes", "fit, ms", "predict_proba, ms"], rows)
    rows = []
    for name in ("privrl", "privrl with estimates", "numpy", "diffprivlib"):
        times = [results.seconds("models", f"histogram, {name}", at) for at in (10**4, 10**6)]
        peer = results.missing(name)
        rows.append([name, *(peer if time is None else _milli(time) for time in times)])
    return f"{bayes}\n\n{pages.table(['histogram', '10⁴ values, ms', '10⁶ values, ms'], rows)}"


def _sweep(results: Results) -> str:
    alone = results.rate("sweep", "sequential")
    loop = results.rate("sweep", "processors, 1")
    rows = []
    for label, what, at_best in (
        ("in this process", "sequential", None),
        ("loky, 1 worker", "loky, 1", None),
        ("loky, 2 workers", "loky, 2", "processors, 2"),
    ):
        rate = results.rate("sweep", what)
        best = None if at_best is None else _faster(results.rate("sweep", at_best), loop)
        jobs = "not measured" if rate is None else _digits(rate)
        rows.append([label, jobs, _ratio(_faster(rate, alone)), _ratio(best) if at_best else ""])
    header = ["workers", "jobs/s", "to one process", "a loop that needs only a core"]
    return pages.table(header, rows)


def _start(results: Results) -> str:
    goals = {
        "import numpy": None,
        "import privrl.agents": 0.5,
        "privrl --help": 0.3,
        "privrl account": 0.8,
        "privrl sweep, 1 worker": 10.0,
        "privrl sweep, 2 workers": 10.0,
    }
    rows = []
    for what, goal in goals.items():
        seconds = results.seconds("start", what)
        wanted = "" if goal is None else f"≤ {_seconds(goal)}"
        memory = _megabytes(results.peak("start", what))
        rows.append([f"`{what}`", wanted, _seconds(seconds), memory])
    header = ["process", "target", "processor time", "largest process, MB"]
    return pages.table(header, rows)


def _every(results: Results) -> str:
    rows = []
    for group, what, at in sorted(results.all(), key=lambda key: (key[0], key[1], key[2] or 0)):
        seconds, peak = results.seconds(group, what, at), results.peak(group, what, at)
        place = "" if at is None else f"{at:,}"
        rows.append([group, what, place, _milli(seconds), _megabytes(peak)])
    return pages.table(["group", "what", "at", "a call, ms", "peak memory, MB"], rows)


def _draw_vector(results: Results) -> Figure:
    figure, axes = _axes("environments in step", "environment steps per second")
    lines = {
        "RiverSwim, privrl": "native",
        "CartPole, Gymnasium's native": "CartPole native",
        "RiverSwim, Gymnasium's SyncVectorEnv": "RiverSwim one by one",
        "FrozenLake, Gymnasium's SyncVectorEnv": "FrozenLake one by one",
    }
    _lines(axes, results, "vector", lines)
    _ceiling(axes, results, "vector", "floor", "ceiling: draws and look-ups alone")
    _finish(axes, "Stepping vector environments")
    return figure


def _draw_runs(results: Results) -> Figure:
    figure, axes = _axes("runs side by side", "environment steps per second")
    lines = {"PSRL, known rewards": "known rewards", "PSRL, private rewards": "private rewards"}
    _lines(axes, results, "psrl", lines)
    _ceiling(axes, results, "psrl", "floor of private rewards", "ceiling: gamma draws alone")
    rate = results.rate("psrl", "rlberry")
    if rate is None:
        label = "rlberry-research, one run (earlier measurement)"
        axes.axhline(RLBERRY_EARLIER, color=GREY, ls=":", lw=1, label=label)
    else:
        axes.axhline(_middle(rate), color=GREY, ls=":", lw=1, label="rlberry-research, one run")
    _finish(axes, "A draw and a plan before every episode, RiverSwim 6 × 30")
    return figure


def _draw_states(results: Results) -> Figure:
    figure, axes = _axes("states", "milliseconds to plan 30 steps of 200 runs")
    lines = {
        "einsum along the runs": "einsum",
        "matrix product for each run": "matmul",
        "known support": "support",
    }
    _lines(axes, results, "psrl", lines, value=lambda r, *key: _scaled(r.seconds(*key), 1e3))
    places = [int(at) for at in results.places("psrl", "einsum")]
    axes.set_xticks(places, [str(at) for at in places], minor=False)
    axes.set_xticks([], minor=True)
    _finish(axes, "Planning, 2 actions; privrl takes the faster of the first two")
    return figure


def _draw_episodes(results: Results) -> Figure:
    figure, axes = _axes("episodes in each of 200 runs", "seconds")
    lines = {kind: f"{kind} by episodes" for kind in ("known rewards", "noisy counts")}
    _lines(axes, results, "long", lines, value=Results.seconds)
    axes.axhline(3.0, color=GREY, ls=":", lw=1, label="target for 10⁹ episodes")
    axes.set_ylim(0.01, 10)
    _finish(axes, "Whole trainings on RiverSwim 6 × 30, Geometric(1.2)")
    return figure


def _draw_accounting(results: Results) -> Figure:
    figure, axes = _axes("different releases", "seconds to compose them and read ε")
    lines = {
        "privrl, Dirichlet (one step replaced)": "Dirichlet",
        "privrl, Gaussian": "Gaussian",
        "dp-accounting, Gaussian": "dp-accounting",
    }
    _lines(axes, results, "accounting", lines, value=Results.seconds)
    _finish(axes, "Rényi accounting")
    return figure


BLOCKS: dict[str, Callable[[Results], str]] = {
    "machine": _machine,
    "summary": _summary,
    "peers": _peers,
    "vector": _vector,
    "psrl": _psrl,
    "profile": _profile,
    "planner": _planner,
    "long": _long,
    "single": _single,
    "accounting": _accounting,
    "calibration": _calibration,
    "models": _models,
    "sweep": _sweep,
    "start": _start,
    "every": _every,
}
PICTURES: dict[str, Callable[[Results], Figure]] = {
    "vector": _draw_vector,
    "runs": _draw_runs,
    "states": _draw_states,
    "episodes": _draw_episodes,
    "accounting": _draw_accounting,
}
_KINDS_OF_LONG = ("known rewards", "private rewards", "noisy counts")
_KINDS_OF_TRAIN = ("noisy counts", "Dirichlet draws")


def _ways() -> list[str]:
    return [f"{kind}, {ratio}" for kind in _KINDS_OF_LONG for ratio in (1.05, 1.2)]


def _long_training(results: Results) -> int:
    places = [at for kind in _KINDS_OF_TRAIN for at in results.places("single", f"train, {kind}")]
    return int(max(places, default=0))


def _training_ratio(results: Results, kind: str, at: float) -> float | None:
    own, train = (results.rate("single", f"{way}, {kind}", at) for way in ("own", "train"))
    return _faster(own, train)


def _any_place(results: Results, what: str) -> float | None:
    places = results.places("accounting", what)
    return results.rate("accounting", what, places[-1]) if places else None


def _aim(
    what: str,
    target: float,
    measured: Measured,
    say: Callable[[Measured], str],
    *,
    most: bool = False,
) -> list[str]:
    """Return a row of the summary; the target is the least, or the most, that it may be."""
    if measured is None:
        met = ""
    else:  # by every run
        met = "yes" if np.all(measured <= target if most else measured >= target) else "**no**"
    return [what, f"{'≤' if most else '≥'} {say(target)}", say(measured), met]


def _worst(values: Any) -> float | None:
    """Return the largest; None if one was not measured."""
    values = list(values)
    return None if any(value is None for value in values) else np.max(values, axis=0)


def _faster(ours: float | None, other: float | None) -> float | None:
    """Return the ratio of two speeds."""
    return None if ours is None or other is None else ours / other


_over = _faster


def _scaled(value: Measured, factor: float) -> float | None:
    return None if value is None else value * factor


def _say(value: Measured, factor: float, unit: str) -> str:
    return "not measured" if value is None else f"{_digits(value * factor)}{unit}"


def _digits(value: float) -> str:
    """Return three digits, without an exponent; of several runs the least and the largest."""
    ends = (float(np.min(value)), float(np.max(value)))
    texts = [f"{end:,.0f}" if end >= 100 else f"{end:.3g}" for end in ends]
    return "–".join(dict.fromkeys(texts))


_million_steps = partial(_say, factor=1e-6, unit=" M steps/s")
_seconds = partial(_say, factor=1.0, unit=" s")
_times_as_long = partial(_say, factor=1.0, unit=" × the time")
_times_as_fast = partial(_say, factor=1.0, unit=" × the speed")
_milli, _micro = partial(_say, factor=1e3, unit=""), partial(_say, factor=1e6, unit="")


def _millions(value: Measured) -> str:
    return "" if value is None else _digits(value / 1e6)


_megabytes = _millions


def _percent(value: Measured) -> str:
    return "" if value is None else f"{_digits(100 * value)} %"


def _ratio(value: Measured) -> str:
    return "" if value is None else f"{_digits(value)} ×"


def _per_second(value: Measured, unit: str) -> str:
    if value is None:
        return "not measured"
    for factor, letter in ((1e6, " M"), (1e3, " k")):
        if np.max(value) >= factor:
            return f"{_digits(value / factor)}{letter} {unit}/s"
    return f"{_digits(value)} {unit}/s"


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _lines(
    axes: Axes,
    results: Results,
    group: str,
    lines: dict[str, str],
    value: Callable[..., float | None] = Results.rate,
) -> None:
    for (label, what), colour, marker in zip(lines.items(), INKS, MARKERS, strict=False):
        places = results.places(group, what)
        values = [_middle(value(results, group, what, at)) for at in places]
        axes.plot(places, values, color=colour, marker=marker, ms=5, label=label)


def _ceiling(axes: Axes, results: Results, group: str, what: str, label: str) -> None:
    places = results.places(group, what)
    values = [_middle(results.rate(group, what, at)) for at in places]
    axes.plot(places, values, color=GREY, ls="--", lw=1.2, label=label)


def _middle(value: Measured) -> float | None:
    """Return the median of the runs, which pictures show."""
    return None if value is None else float(np.median(value))


def _finish(axes: Axes, title: str) -> None:
    axes.grid(alpha=0.25, which="major")
    axes.set_title(title, loc="left", fontsize="medium")
    axes.legend(frameon=False, fontsize="small")


if __name__ == "__main__":
    main()
