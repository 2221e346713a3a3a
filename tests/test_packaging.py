"""The wheel holds just what the tree holds, and the folders keep their floors."""

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "privrl": "privrl",
    "privrl/audit": "privrl/audit",
    "privrl/mechanisms": "privrl/mechanisms",
    "privrl/schema": "privrl/schema",
    "privrl/datasets": "privrl/datasets",
    "privrl/estimates": "privrl/estimates",
    "privrl/histogram": "privrl/histogram",
    "privrl/naive_bayes": "privrl/naive_bayes",
    "privrl/bayes_net": "privrl/bayes_net",
    "privrl/cli": "privrl/cli",
    "envs": "privrl/envs",
    "agents": "privrl/agents",
    "experiments": "privrl/experiments",
    "experiments/figures": "privrl/experiments/figures",
}


def _modules() -> dict[str, Path]:
    """Every module of the library: its place in the wheel, and in the tree."""
    return {
        f"{target}/{path.name}": path
        for folder, target in FOLDERS.items()
        for path in sorted((ROOT / folder).glob("*.py"))
    }


@pytest.mark.slow
def test_wheel_holds_the_tree(tmp_path: Path) -> None:
    copy = tmp_path / "copy"  # building leaves files behind
    copy.mkdir()
    for name in ("privrl", "envs", "agents", "experiments"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    done = subprocess.run([*build, str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == {*_modules(), "privrl/py.typed"}


@pytest.mark.parametrize("name", ["envs", "agents", "experiments"])
def test_links_lead_to_the_folders(name: str) -> None:
    link = ROOT / "privrl" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


#: Each floor may import the ones before it, and itself. Only the command line, and the package
#: itself when it registers environments, reach up.
FLOORS = (
    {"privrl"},
    {"privrl.mechanisms"},
    {"privrl.audit"},
    {"privrl.schema", "privrl.envs"},
    {"privrl.datasets", "privrl.estimates"},
    {"privrl.bayes_net", "privrl.histogram", "privrl.naive_bayes", "privrl.discretise"},
    {"privrl.agents"},
    {"privrl.experiments"},
)
#: What the core does without, so that it stays small.
OUTSIDE = {
    "privrl": {"gymnasium", "pandas", "matplotlib", "sklearn"},
    "privrl.mechanisms": {"gymnasium", "pandas", "matplotlib", "sklearn"},
    "privrl.audit": {"gymnasium", "pandas", "matplotlib", "sklearn"},
    "privrl.estimates": {"gymnasium", "pandas", "matplotlib", "sklearn"},
    "privrl.bayes_net": {"gymnasium", "matplotlib"},
}


def _reaches_up(place: str) -> bool:
    return place == "privrl/__init__.py" or place.startswith("privrl/cli/")


def _package(module: str) -> str:
    known = [p for floor in FLOORS for p in floor if module == p or module.startswith(p + ".")]
    return max(known, key=len)


def _floor(package: str) -> int:
    return next(i for i, floor in enumerate(FLOORS) if package in floor)


@pytest.mark.parametrize("place", sorted(p for p in _modules() if not _reaches_up(p)))
def test_imports_point_down(place: str) -> None:
    own = _package(place.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for node in ast.walk(ast.parse(_modules()[place].read_text())):
        names = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )  # fmt: skip
        for name in names:
            if name.split(".")[0] == "privrl":
                other = _package(name)
                assert other == own or _floor(other) < _floor(own), f"{place} imports {name}"
            assert name.split(".")[0] not in OUTSIDE.get(own, set()), f"{place} imports {name}"
