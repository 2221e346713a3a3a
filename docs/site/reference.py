"""A page for each package of the library: all names of its ``__all__``, from their docstrings."""

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

FOLDER = Path(__file__).parents[1] / "reference"
#: From what is met first to what lies below.
PACKAGES = (
    "privrl",
    "privrl.agents",
    "privrl.envs",
    "privrl.offline",
    "privrl.continuous",
    "privrl.models",
    "privrl.models.histograms.result",
    "privrl.models.bayes_net.network",
    "privrl.mechanisms",
    "privrl.samplers",
    "privrl.accounting",
    "privrl.costs",
    "privrl.audit",
    "privrl.data",
    "privrl.data.schema",
    "privrl.data.datasets",
    "privrl.data.logs",
    "privrl.experiments",
    "privrl.experiments.training",
    "privrl.experiments.callbacks",
    "privrl.experiments.sweeps",
    "privrl.experiments.suites",
    "privrl.experiments.uci",
)

#: Names that users need first; a page begins with them, and has the others as ``__all__`` does.
OFTEN = (
    *("PSRL", "Policy", "TabularMDP", "fit_policy", "fit_model", "evaluate_policy", "histogram"),
    *("PrivateClassifier", "PrivateNaiveBayes", "PrivateLogisticRegression", "PrivateBayesNet"),
    *("GaussianMechanism", "LaplaceMechanism", "DirichletMechanism", "NoisyCounts", "Diffuse"),
    *("ApproxDP", "PureDP", "RenyiDP", "ZeroConcentratedDP", "RdpAccountant", "Ledger", "Schema"),
)

SHORT = 80  # characters of a value that is shown


def _names(module: ModuleType) -> list[str]:
    """Return the public names: those of ``__all__``, or what a module without one defines."""
    named = getattr(module, "__all__", None)
    if named is None:
        return sorted(
            name
            for name, what in vars(module).items()
            if not name.startswith("_") and getattr(what, "__module__", "") == module.__name__
        )
    public = [name for name in named if not name.startswith("__")]
    return sorted(public, key=lambda name: OFTEN.index(name) if name in OFTEN else len(OFTEN))


def _is_code(what: Any) -> bool:
    return inspect.isclass(what) or inspect.isroutine(what)


def _described(module: ModuleType, name: str) -> str:
    """Return what the source says of a value: its comment ``#:``, there or where it comes from."""
    source = inspect.getsource(module)
    home = module.__name__
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            home = node.module or home
    if home == module.__name__:
        lines = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
        return " ".join(lines).strip()
    return _described(importlib.import_module(home), name)


def _data(module: ModuleType, name: str) -> str:
    shown = repr(getattr(module, name))
    value = f"   :value: {shown}\n" if len(shown) <= SHORT else ""
    return f".. py:data:: {name}\n{value}\n   {_described(module, name)}\n"


def _directive(module: ModuleType, name: str) -> str:
    what = getattr(module, name)
    if inspect.isclass(what):
        return f".. autoclass:: {name}\n   :members:\n   :inherited-members:\n"
    if inspect.isroutine(what):
        return f".. autofunction:: {name}\n"
    return _data(module, name)


def _page(package: str, elsewhere: dict[int, str]) -> str:
    """Return the page of a package; what earlier ones describe is named only."""
    module = importlib.import_module(package)
    own, others = [], []
    for name in _names(module):
        what = getattr(module, name)
        if _is_code(what) and id(what) in elsewhere:
            others.append(f":py:obj:`{elsewhere[id(what)]}.{name}`")
            continue
        elsewhere[id(what)] = package
        own.append(name)
    table = "".join(f"   {name}\n" for name in own if _is_code(getattr(module, name)))
    blocks = "\n".join(_directive(module, name) for name in own)
    also = f"\nAlso exported here: {', '.join(others)}.\n" if others else ""
    return (
        f"{package}\n{'=' * len(package)}\n\n.. automodule:: {package}\n   :no-members:\n\n"
        f".. currentmodule:: {package}\n\n.. autosummary::\n   :nosignatures:\n\n{table}"
        f"{also}\n{blocks}"
    )


def _write(app: Sphinx, config: Any) -> None:
    FOLDER.mkdir(exist_ok=True)
    elsewhere: dict[int, str] = {}
    for package in PACKAGES:
        path, text = FOLDER / f"{package}.rst", _page(package, elsewhere)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _skip(*event: Any) -> bool | None:
    """Leave out what a class has from Gymnasium, scikit-learn or Python."""
    _, kind, _, member, *_ = event
    target = member.fget if isinstance(member, property) else member
    module = getattr(inspect.unwrap(target) if callable(target) else target, "__module__", None)
    return True if kind == "class" and module and not module.startswith("privrl") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before they are looked for."""
    app.connect("config-inited", _write)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
