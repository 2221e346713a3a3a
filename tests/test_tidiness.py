"""No dead code or long duplicates, few public names, and a simple graph of imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _run(command: str, *arguments: str) -> str:
    path = Path(sys.executable).with_name(command)
    done = subprocess.run([path, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def _sources(*tops: str) -> list[str]:
    """Return the files of Python below some folders, but for links to folders beside them."""
    names = (
        path.relative_to(ROOT).as_posix()
        for top in tops
        for path in sorted((ROOT / top).rglob("*.py"))
    )
    return [name for name in names if not re.match(r"privrl/(envs|agents|experiments)/", name)]


LIBRARY = ("privrl", "envs", "agents", "experiments")


@pytest.mark.needs("vulture")
def test_nothing_is_dead() -> None:
    """What only tests use is; what is left out, such as fields for users, is in pyproject.toml."""
    assert not (found := _run("vulture", *_sources(*LIBRARY, "docs/make"))), found


_NO_DATA = re.compile(r"str\(.*\)|.*__name__|(.*\.)?[A-Z_]+")  # texts of known types, and constants


def test_errors_quote_arguments_through_shown() -> None:
    """``{value!r}`` would show a frame of private data that was given for a setting.

    The name of an attribute is a text.
    """
    found = [
        f"{name}:{part.lineno}: {ast.unparse(part.value)}"
        for name in _sources(*LIBRARY)
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and "AttributeError" not in ast.unparse(node)
        for part in ast.walk(node)
        if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
        if not _NO_DATA.fullmatch(ast.unparse(part.value))
    ]
    assert not found, "\n".join(found)


#: Places that share six lines of code or more, docstrings left out. Lower it when there are fewer.
MOST = 2


@pytest.mark.slow
@pytest.mark.needs("pylint")
def test_little_is_said_twice() -> None:
    files = _sources(*LIBRARY, "tests", "docs/make", "benchmarks")
    options = ("--duplicates=6", "--ignore-imports", "--ignore-docstrings", "--ignore-signatures")
    found = _run("symilar", *options, *files)
    places = re.findall(r"^\d+ similar lines in .*(?:\n==.*)+", found, re.M)
    assert len(places) <= MOST, "\n\n".join(places)


MOST_PUBLIC_NAMES = 150


def test_public_names_are_few() -> None:
    """Names in ``__all__`` are documented and stable; everything else is private."""
    names = []
    for name in _sources(*LIBRARY):
        if name.endswith("__init__.py"):
            for node in ast.parse((ROOT / name).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    names += ast.literal_eval(node.value)
    assert 100 < len(names) <= MOST_PUBLIC_NAMES


#: Folders of the library, the longest chain of imports among them, and pairs of folders of which
#: one imports the other.
MOST_FOLDERS, MOST_LAYERS, MOST_IMPORTS = 15, 10, 75


def _folder_of(module: str) -> str:
    """Return the folder of a module, ``"privrl.costs"`` of ``"privrl.costs.base"``."""
    return ".".join(module.split(".")[:2])


def _imports() -> dict[str, set[str]]:
    """Return the folders that each folder imports."""
    found: dict[str, set[str]] = {}
    for name in _sources(*LIBRARY):
        path = name if name.startswith("privrl/") else f"privrl/{name}"
        if path.count("/") < 2:
            continue  # a module beside the folders
        own = found.setdefault(_folder_of(path.removesuffix(".py").replace("/", ".")), set())
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privrl."):
                own.add(_folder_of(node.module or ""))
    return {folder: others & set(found) - {folder} for folder, others in found.items()}


def test_folders_form_few_layers_without_a_circle() -> None:
    imports = _imports()
    layers: dict[str, int] = {}
    while len(layers) < len(imports):
        free = {f for f, others in imports.items() if f not in layers and others <= set(layers)}
        assert free, f"a circle: {sorted(set(imports) - set(layers))}"
        layers |= {f: 1 + max((layers[o] for o in imports[f]), default=0) for f in free}
    assert len(imports) <= MOST_FOLDERS
    assert max(layers.values()) <= MOST_LAYERS
    assert sum(map(len, imports.values())) <= MOST_IMPORTS
