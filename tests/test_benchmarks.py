"""The benchmarks are collected, and their page is made; nothing is timed here."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "benchmarks.md"
SCRIPTS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


def _load(path):
    spec = importlib.util.spec_from_file_location(f"{path.stem}_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(ROOT / "docs" / "make"))  # where its own modules are
maker = _load(ROOT / "docs" / "make" / "benchmarks.py")


ratios = _load(ROOT / "docs" / "make" / "ratios.py")
growth = _load(ROOT / "docs" / "make" / "growth.py")


@pytest.mark.needs("pytest_benchmark")
@pytest.mark.slow
def test_the_suite_is_collected() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "--collect-only", "-q"]
    command += ["-p", "no:cacheprovider"]
    # Were this one of several test processes, the other one would take itself for such.
    alone = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    told = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert len(SCRIPTS) > 5
    for script in SCRIPTS:
        assert f"{script.name}::test_" in told.stdout


def test_no_benchmark_looks_like_a_test() -> None:
    assert not [p for p in (ROOT / "benchmarks").rglob("*.py") if p.name.startswith("test_")]


def _entry(group, what, at, work, seconds):
    return {
        "extra_info": {"group": group, "what": what, "at": at, "work": work},
        "stats": {"median": seconds},
    }


def _report(*entries, versions=None, peers=None):
    return {
        "machine_info": {"cpu": {"brand_raw": "A processor", "count": 3}, "machine": "x86_64"},
        "about": {
            "quick": False,
            "python": "3.11.0",
            "versions": versions or {"numpy": "2.0.0"},
            "load": [0.25, 1.0],
            "peers": peers or {},
        },
        "benchmarks": list(entries),
    }


@pytest.fixture
def page(tmp_path):
    """Return a copy of the page."""
    copy = tmp_path / "benchmarks.md"
    copy.write_text(PAGE.read_text())
    return copy


def _write(page, report):
    maker.write(maker.Results(report), page)
    return page.read_text()


def _block(text, name):
    return text.split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0]


def test_page_of_a_tiny_report(page) -> None:
    before = page.read_text()
    text = _write(
        page,
        _report(
            _entry("vector", "native", 64, 1000, 1e-4),  # 10 M a second, over the target of 8
            _entry("vector", "native", 4096, 1000, 1e-4),  # and under that of 20
            _entry("vector", "RiverSwim one by one", 64, 1000, 1e-2),
            _entry("vector", "floor", 64, 1000, 4e-5),
            _entry("single", "train, noisy counts", 1000, 500, 3.0),
            _entry("single", "own, noisy counts", 1000, 500, 2.0),
            _entry("models", "fit, scikit-learn", None, 100, 0.25),
        ),
    )
    summary = _block(text, "summary").splitlines()
    assert summary[2] == (
        "| 64 RiverSwim environments in step | ≥ 8 M steps/s | 10 M steps/s | yes |"
    )
    assert summary[3] == "| 4096 of them | ≥ 20 M steps/s | 10 M steps/s | **no** |"
    assert summary[4].endswith("| not measured |  |")
    assert "| 10 M steps/s | Gymnasium's `SyncVectorEnv` | 100 k steps/s | 100 × |" in _block(
        text, "peers"
    )
    assert "| ours takes, to the ceiling | 2.5 × |  |" in _block(text, "vector")
    assert "| noisy counts | 1,000 | 4,000 | 6,000 | 1.5 × |" in _block(text, "single")
    assert "| scikit-learn | 250 | not measured |" in _block(text, "models")
    assert "A processor, 3 cores" in _block(text, "machine")
    for name in maker.BLOCKS:  # nothing else has changed
        before, text = (
            before.replace(_block(before, name), ""),
            text.replace(_block(text, name), ""),
        )
    assert text == before


def test_a_target_is_met_at_the_limit_and_not_beyond(page) -> None:
    ways = [_entry("long", way, 10**9, 1, 3.0) for way in maker._ways()]
    assert "| 3 s | yes |" in _block(_write(page, _report(*ways)), "summary")
    ways[2] = _entry("long", maker._ways()[2], 10**9, 1, 3.001)
    assert "| 3 s | **no** |" in _block(_write(page, _report(*ways)), "summary")
    text = _write(page, _report(*ways[1:]))  # where one is missing, nothing is claimed
    assert "the slowest of six ways | ≤ 3 s | not measured |  |" in _block(text, "summary")


def test_missing_peers_are_named(page) -> None:
    report = _report(
        versions={"dp-accounting": "not installed", "scikit-learn": "not installed"},
        peers={
            "rlberry": {"variable": "RLBERRY", "versions": {}, "missing": "No module 'rlberry'"},
            "diffprivlib": {"variable": "DIFFPRIVLIB", "versions": {}, "missing": "none here"},
        },
    )
    text = _write(page, report)
    assert "- rlberry: not installed (No module 'rlberry'; see `RLBERRY`)." in text
    assert "rlberry-research's PSRL, one run: not installed: No module 'rlberry'" in text
    peers = _block(text, "peers")
    for name, reason in (
        ("rlberry-research", "not installed: No module 'rlberry'"),
        ("dp-accounting", "not installed"),
        ("scikit-learn's `CategoricalNB`", "not installed"),
        ("diffprivlib", "not installed: none here"),
    ):
        assert f"| {name} | {reason} |" in peers
    assert "| dp-accounting |  | not installed |  |" in _block(text, "accounting")


def test_a_page_without_its_markers_is_refused(page) -> None:
    page.write_text(page.read_text().replace("<!-- end of long -->", ""))
    with pytest.raises(SystemExit, match="markers of 'long'"):
        _write(page, _report())


def test_the_page_in_the_repository_is_complete() -> None:
    assert "not measured" not in PAGE.read_text()


@pytest.mark.slow
def test_pictures_have_labelled_axes(tmp_path) -> None:
    results = maker.Results(_report(_entry("vector", "native", 64, 1000, 1e-4)))
    maker.draw(results, tmp_path)
    drawn = {p.name for p in tmp_path.iterdir()}
    assert drawn == {f"benchmark_{name}.png" for name in maker.PICTURES}
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert all(f"(images/{name})" in text for name in drawn)
    for draw in maker.PICTURES.values():
        figure = draw(results)
        assert isinstance(figure, Figure)
        for axes in figure.axes:
            assert axes.get_xlabel()
            assert axes.get_ylabel()
            assert axes.get_xscale() == "log"


@pytest.fixture
def peers(monkeypatch, tmp_path):
    """Return the module, with diffprivlib's variable set to a folder with what the test writes."""
    monkeypatch.setenv("PRIVRL_BENCH_DIFFPRIVLIB", f"{sys.executable}:{tmp_path}")
    (tmp_path / "diffprivlib").mkdir()
    return _load(ROOT / "benchmarks" / "peers.py")


def test_a_peer_that_cannot_be_imported_says_why_without_paths(peers, tmp_path) -> None:
    init = tmp_path / "diffprivlib" / "__init__.py"
    init.write_text("raise ImportError(\"cannot import name 'A' from 'b' (/home/somebody/b.py)\")")
    peer = peers.Peer("diffprivlib")
    peer.close()
    assert peer.missing == "cannot import name 'A' from 'b'"
    assert peer.versions == {}


def test_a_peer_is_asked_for_a_time(peers, tmp_path) -> None:
    package = tmp_path / "diffprivlib"
    (package / "__init__.py").write_text("__version__ = '9.9'\nprint('hello')\n")
    (package / "tools.py").write_text("def histogram(values, **options): print(values.sum())\n")
    (package / "models.py").write_text(
        "class GaussianNB:\n"
        "    def __init__(self, epsilon, bounds): pass\n"
        "    def fit(self, X, y): return self\n"
    )
    (tmp_path / "sklearn.py").write_text("__version__ = '1.1'\n")
    peer = peers.Peer("diffprivlib")
    assert not peer.missing
    assert peer.versions["diffprivlib"] == "9.9"
    times = [peer.seconds("histogram", n_values=1000, bins=3) for _ in range(2)]
    peer.close()
    assert min(times) > 0


def test_the_clock_moves_by_what_it_is_told(peers) -> None:
    clock = peers.Clock()
    before = clock()
    clock.add(0.5)
    assert (before, clock()) == (0.0, 0.5)


def test_synthetic_records_are_of_the_shape_they_say() -> None:
    synthetic = _load(ROOT / "benchmarks" / "synthetic.py")
    X, y = synthetic.adult_like()
    assert X.shape == (synthetic.ADULT_RECORDS, 14)
    assert (X.min(axis=0) >= 0).all()
    assert (X.max(axis=0) < np.array(synthetic.ADULT_SIZES)).all()
    # 48842 draws, expected share 0.25: six standard errors are 0.0118, false alarm 2e-9.
    assert abs(y.mean() - 0.25) < 0.0118
    assert set(y) == {0, 1}


# Checked against the page ------------------------------------------------------------------------


def test_what_fell_by_more_than_a_quarter_is_named(page, capsys) -> None:
    def report(own, train, floor):
        return _report(
            _entry("vector", "native", 64, 1000, own),
            _entry("vector", "floor", 64, 1000, floor),
            _entry("vector", "RiverSwim one by one", 64, 1000, 1e-2),
            _entry("single", "train, noisy counts", 1000, 500, train),
            _entry("single", "own, noisy counts", 1000, 500, 2.0),
        )

    _write(page, report(1e-4, 3.0, 4e-5))
    known = ratios.ratios(page)
    assert known["single", "noisy counts, 1,000", "ratio"] == pytest.approx(1 / 1.5)
    maker.check(maker.Results(report(1.3e-4, 3.9, 5e-5)), page)  # 0.77 of what they were
    assert f"{len(known)} ratios compared, of {len(known)} on the page" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        maker.check(maker.Results(report(1e-4, 4.1, 2.9e-5)), page)
    told = str(caught.value).splitlines()
    assert told[1:] == [
        "vector: ours takes, to the ceiling (64): 0.29 × instead of 0.4 ×",
        "single: noisy counts, 1,000 (ratio): 0.488 × instead of 0.667 ×",
    ]


def test_the_page_in_the_repository_has_ratios() -> None:
    known = ratios.ratios(PAGE)
    assert len(known) > 30
    assert all(value > 0 for value in known.values())
    assert not ratios.fallen(known, known)


def test_the_page_states_the_range_over_separate_runs(page) -> None:
    """Ratios are of each run; a target is met where every run meets it."""
    runs = [
        _report(
            _entry("vector", "native", 64, 1000, ours),
            _entry("vector", "RiverSwim one by one", 64, 1000, other),
        )
        for ours, other in ((1e-4, 1e-2), (1.25e-4, 1e-2), (2e-4, 1e-2))
    ]
    runs[1]["benchmarks"].append(_entry("models", "fit, scikit-learn", None, 100, 0.25))
    maker.write(maker.Results(*runs), page)
    text = page.read_text()
    assert "| ≥ 8 M steps/s | 5–10 M steps/s | **no** |" in _block(text, "summary")
    assert "| 100 k steps/s | 50–100 × |" in _block(text, "peers")
    assert "| scikit-learn | not measured | not measured |" in _block(text, "models")
    assert "- Separate runs: 3." in _block(text, "machine")
    (ratio,) = [value for key, value in ratios.ratios(page).items() if key[0] == "peers"]
    assert ratio == pytest.approx(np.sqrt(50 * 100))


# How it grows -------------------------------------------------------------------------------------


def test_the_exponent_is_that_of_the_last_points() -> None:
    sizes = [1, 10, 100, 1000]
    assert growth.exponent(sizes, [5.0, *(n**1.5 for n in sizes[1:])]) == pytest.approx(1.5)


def test_growth_is_drawn_and_told() -> None:
    points = [[[n / 1e3, 2e6] for n in curve.sizes] for curve in growth.CURVES]
    found = {"points": points, "load": [0.0, 1.0]}
    assert growth.table(found).count("| 1.00 | 2 to 2 |") == len(growth.CURVES)
    figure = growth.draw(found)
    assert len(figure.axes) == 10
    assert all(axes.get_title(loc="left") and axes.lines for axes in figure.axes)


DASK = pytest.mark.needs("distributed", "pyarrow")


@pytest.mark.few(15)
@pytest.mark.parametrize(
    "curve",
    [
        pytest.param(curve, marks=DASK if "Dask" in curve.name else (), id=str(number))
        for number, curve in enumerate(growth.CURVES)
    ],
)
def test_each_curve_can_be_measured(curve) -> None:
    if "cells" not in curve.along:  # whose jobs other tests run
        curve.make(curve.sizes[0])()
