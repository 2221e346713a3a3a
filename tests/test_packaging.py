"""The wheel holds just what the tree holds, the folders keep their floors, and load little."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import privrl

ROOT = Path(__file__).parents[1]
APART = ("envs", "agents", "experiments")  # folders of their own beside ``privrl``

#: From the ground up: a folder may import those below, and what lies in it. Only a folder's face,
#: its ``__init__``, hands on what lies in folders within it.
FLOORS = (
    ("privrl",),
    ("privrl.files",),
    ("privrl.numerics",),
    ("privrl.data.schema",),
    ("privrl.data.datasets",),
    ("privrl.data", "privrl.envs"),
    ("privrl.data.logs",),
    ("privrl.costs",),
    ("privrl.accounting",),
    ("privrl.mechanisms", "privrl.continuous"),
    ("privrl.samplers",),
    ("privrl.audit",),
    ("privrl.models.estimates",),
    ("privrl.models", "privrl.agents"),
    (
        "privrl.offline",
        "privrl.models.histograms",
        "privrl.models.naive_bayes",
        "privrl.models.bayes_net",
    ),
    ("privrl.models.logistic_regression",),
    ("privrl.experiments",),
    ("privrl.experiments.training",),
    ("privrl.experiments.sweeps", "privrl.experiments.uci"),
    ("privrl.experiments.suites", "privrl.experiments.figures"),
    ("privrl.experiments.reports",),
    ("privrl.cli",),
)
#: Files of the wheel that are not modules.
DATA = {
    "privrl/py.typed",
    "privrl/data/datasets/sources.toml",
    *(f"privrl/experiments/figures/{kind}.toml" for kind in ("captions", "figures")),
    "privrl/experiments/sweeps/tables.sql",
    *(f"privrl/data/{folder}/head.toml" for folder in ("logs", "schema")),
    *(f"privrl/experiments/{kind}/presets.toml" for kind in ("suites", "sweeps")),
    *(f"privrl/experiments/reports/page.{kind}" for kind in ("css", "html", "js")),
}
FLOOR = {package: number for number, floor in enumerate(FLOORS) for package in floor}


def _folder(package: str) -> Path:
    parts = package.split(".")
    return ROOT.joinpath(*parts[1:] if parts[1:2] and parts[1] in APART else parts)


def _modules() -> dict[str, Path]:
    """Every module of the library: its place in the wheel, and in the tree."""
    return {
        f"{package.replace('.', '/')}/{path.name}": path
        for package in FLOOR
        for path in sorted(_folder(package).glob("*.py"))
    }


def _wheel(folder: Path, date: int) -> Path:
    """Return the wheel of a copy of the tree, in a folder of its own, as of a date."""
    copy = folder / "copy"  # building leaves files behind
    copy.mkdir(parents=True)
    for name in ("privrl", *APART):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, copy_function=shutil.copyfile)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    dated = os.environ | {"SOURCE_DATE_EPOCH": str(date)}
    done = subprocess.run(
        [*build, str(copy)], capture_output=True, text=True, check=False, env=dated, umask=0o022
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
@pytest.mark.needs("build")
def test_wheel_holds_the_tree_and_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    first = _wheel(tmp_path / "here", 1_700_000_000)
    names = {n for n in zipfile.ZipFile(first).namelist() if ".dist-info/" not in n}
    assert names == {*_modules(), *DATA}
    (about,) = (n for n in zipfile.ZipFile(first).namelist() if n.endswith("/METADATA"))
    said = zipfile.ZipFile(first).read(about).decode()
    assert "\n# privrl\n" in said
    again = _wheel(tmp_path / "else" / "where", 1_700_000_000)  # files are younger by a build
    assert again.read_bytes() == first.read_bytes()
    assert _wheel(tmp_path / "another day", 1_800_000_000).read_bytes() != first.read_bytes()


@pytest.mark.parametrize("name", APART)
def test_links_lead_to_the_folders(name: str) -> None:
    link = ROOT / "privrl" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_every_folder_has_its_floor_and_is_in_the_wheel() -> None:
    links = {ROOT / "privrl" / name for name in APART}
    found = {
        path.parent
        for top in ("privrl", *APART)
        for path in (ROOT / top).rglob("*.py")
        if links.isdisjoint(path.parents)
    }
    assert found == {_folder(package) for package in FLOOR}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(FLOOR)


def _package(module: str) -> str:
    return max((p for p in FLOOR if module == p or module.startswith(p + ".")), key=len)


def test_imports_point_down() -> None:
    places = sorted(set(_modules()) - {"privrl/__main__.py"})  # it starts the command line
    assert not [wrong for place in places for wrong in _upwards(place)]


def _upwards(place: str) -> Iterator[str]:
    """Yield what a module imports from a floor above its own."""
    own = _package(place.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for node in ast.walk(ast.parse(_modules()[place].read_text())):
        names = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )  # fmt: skip
        for name in names:
            if name.split(".")[0] != "privrl":
                continue
            other = _package(name)
            within = place.endswith("__init__.py") and other.startswith(own + ".")
            if not (other == own or within or FLOOR[other] < FLOOR[own]):
                yield f"{place} imports {name}"


#: What may be loaded, beside the standard library and what NumPy and these load themselves, by
#: importing a folder and all that lies in it. Extras are not: they load when they are used.
CORE = {"numpy"}
TABLES = CORE | {"pandas", "tomli_w"}
LOADS = {
    "privrl": set[str](),
    "privrl.numerics": CORE,
    "privrl.costs": CORE,
    "privrl.accounting": CORE,
    "privrl.mechanisms": CORE,
    "privrl.samplers": CORE,
    "privrl.audit": CORE,
    "privrl.envs": CORE | {"gymnasium"},
    "privrl.agents": CORE | {"gymnasium"},
    "privrl.data": TABLES,
    "privrl.data.logs": TABLES,
    "privrl.models": TABLES,
    "privrl.continuous": TABLES | {"gymnasium"},
    "privrl.offline": TABLES | {"gymnasium"},
    "privrl.experiments": set[str](),
    "privrl.experiments.training": TABLES | {"gymnasium"},
    "privrl.experiments.sweeps": CORE | {"gymnasium", "joblib"},
    "privrl.experiments.suites": TABLES | {"gymnasium", "joblib", "matplotlib"},
    "privrl.experiments.reports": TABLES | {"gymnasium", "joblib", "matplotlib"},
    "privrl.cli": {"rich", "typer"},
}
#: Heavy or about something else: named one by one, so that what NumPy and the others bring along
#: need not be.
HEAVY = {
    "bokeh", "dask", "distributed", "dp_accounting", "gymnasium", "joblib", "matplotlib",
    "networkx", "numba", "opt_einsum", "pandas", "pooch", "ray", "rich", "scipy", "sklearn",
    "tomli_w", "typer",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("folder", LOADS)
def test_a_folder_loads_little(folder: str) -> None:
    code = f"import {folder}, sys; print(*sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    loaded = set(made.stdout.split())
    if "numpy" not in LOADS[folder]:
        assert "numpy" not in loaded
    heavy = sorted(loaded & (HEAVY - LOADS[folder]))
    assert not heavy


@pytest.mark.needs("setuptools")
def test_the_index_shows_no_link_that_leads_nowhere() -> None:
    described = runpy.run_path(str(ROOT / "setup.py"))["described"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = described(readme)
    assert not re.search(r"\]\((?!https?:|mailto:|#)", shown)
    assert "[Gymnasium](https://gymnasium.farama.org)" in shown
    assert "[Mechanisms](https://there/docs/mechanisms.md)" in described(readme, "https://there/")
    assert "![" not in shown


#: What commands load beyond what their module does: none of these.
SPARED = {
    "--help": HEAVY - {"rich", "typer"} | {"numpy"},
    "account --weight 1 --alpha 5": {"gymnasium", "pandas", "joblib", "matplotlib", "tomli_w"}
    | {"scipy", "numpy.ma", "rich.markdown"},
    "account --weight 1 --epsilon 1": {"gymnasium", "pandas", "scipy.optimize"},
}


@pytest.mark.slow
@pytest.mark.parametrize("command", SPARED)
def test_a_command_loads_little(command: str) -> None:
    code = f"""
import sys
from privrl.cli import main
sys.argv[1:] = {command.split()!r}
try:
    main()
except SystemExit:
    pass
print(*sys.modules)
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert not SPARED[command] & set(made.stdout.splitlines()[-1].split())


def test_one_version_is_said_everywhere() -> None:
    said = (ROOT / "CITATION.cff").read_text().count(f"version: {privrl.__version__}\n")
    assert said == 2
    assert f"\n## {privrl.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_all_is_all_but_what_is_large_or_for_developers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = extras["all"][0].removeprefix("privrl[").removesuffix("]").split(",")
    assert set(named) == extras.keys() - {"all", "bench", "dev", "docs", "ray", "test"}


@pytest.mark.parametrize("name", ["PrivateClassifier", "PrivateNaiveBayes"])
def test_without_scikit_learn_the_error_says_what_to_install(name: str) -> None:
    code = f"import sys; sys.modules['sklearn'] = None; from privrl.models import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'privrl[models]'" in done.stderr.splitlines()[-1]


def test_the_package_is_run_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privrl", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == (privrl.__version__, 0)
