"""Nothing that privrl reads from disk is run: no line of it unpickles, evaluates or executes."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("privrl", "envs", "agents", "experiments")
# Whatever these modules offer reads by running what it reads.
MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "jsonpickle", "shelve", "marshal"}
MODULES |= {"joblib.memory", "torch", "yaml", "runpy"}
JOBLIB = {"Parallel", "cpu_count", "delayed"}  # what may be taken from joblib
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "load_module", "exec_module"}


def sources() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(part.is_symlink() for part in (path, *path.parents))
    ]
    assert len(found) > 150
    return found


def wrong(text: str) -> list[str]:
    """Return what in a source could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
            if node.module == "joblib" and not {alias.name for alias in node.names} <= JOBLIB:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        else:
            names = []
        if any(name == bad or name.startswith(f"{bad}.") for name in names for bad in MODULES):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if any(name == "joblib" for name in names) and isinstance(node, ast.Import):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.Constant) and node.value in MODULES:  # to be imported by name
            found.append(f"{node.lineno}: {node.value!r}")
        if isinstance(node, ast.Call):
            found += _wrong_call(node)
    return found


def _wrong_call(node: ast.Call) -> list[str]:
    function, said = node.func, f"{node.lineno}: {ast.unparse(node)}"
    pickles = {key.arg: ast.unparse(key.value) for key in node.keywords}.get("allow_pickle")
    if pickles not in {None, "False"}:
        return [said]
    if isinstance(function, ast.Name):
        return [said] if function.id in CALLS else []
    if not isinstance(function, ast.Attribute):
        return []
    if function.attr in METHODS:
        return [said]
    of_numpy = function.attr in {"load", "save", "read_array", "write_array"} and (
        ast.unparse(function.value) in {"np", "numpy", "np.lib.format", "numpy.lib.format"}
    )
    return [said] if of_numpy and pickles != "False" else []


@pytest.mark.slow
def test_no_line_runs_what_it_reads() -> None:
    found = {path: wrong(path.read_text(encoding="utf-8")) for path in sources()}
    assert {str(path.relative_to(ROOT)): lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import cloudpickle as c",
        "from joblib import Memory",
        "from joblib import load",
        "import joblib",
        "from joblib.memory import Memory",
        "import_module('pickle')",
        "numpy.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=allowed)",
        "np.save(file, array)",
        "read(file, allow_pickle=True)",
        "pd.read_pickle(path)",
        "yaml.unsafe_load(text)",
        "import yaml",
        "import torch",
        "eval(text)",
        "exec(text)",
    ],
)
def test_it_would_be_seen(line: str) -> None:
    assert wrong(line)


def test_what_is_allowed() -> None:
    assert not wrong("np.load(path, allow_pickle=False); json.loads(text); re.compile(text)")
