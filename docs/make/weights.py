"""Measure the size of each package of a base installation, for docs/results/weights.md.

Run with ``python docs/make/weights.py``, where privrl is installed. Bytecode is left out.
"""

from importlib.metadata import PackageNotFoundError, distribution

import pages
from packaging.requirements import Requirement

#: What is loaded only when it is used, and by what.
LOADED_BY = {
    "cycler": "pictures", "contourpy": "pictures", "fonttools": "pictures",
    "gymnasium": "environments and agents", "joblib": "sweeps, suites, studies",
    "kiwisolver": "pictures", "matplotlib": "pictures", "numpy": "all but help",
    "pandas": "tables of records and results", "pillow": "pictures, animations",
    "pyparsing": "pictures", "randomgen": "secret noise", "rich": "commands",
    "scipy": "costs of Dirichlet draws, some estimates", "tomli-w": "schemas that are written",
    "typer": "commands",
}  # fmt: skip


def weights() -> dict[str, tuple[int, str]]:
    """Return how many bytes each package has, and which one brings it first."""
    found: dict[str, tuple[int, str]] = {}
    waiting = [("privrl", "")]
    while waiting:
        name, by = waiting.pop(0)
        try:
            there = distribution(name)
        except PackageNotFoundError:  # not for this machine
            continue
        name = there.metadata["Name"].lower().replace("_", "-")
        if name in found:
            continue
        files = (each.locate() for each in there.files or () if each.suffix != ".pyc")
        found[name] = sum(path.stat().st_size for path in files if path.is_file()), by
        needs = map(Requirement, there.requires or ())
        waiting += [(n.name, name) for n in needs if n.marker is None or n.marker.evaluate()]
    del found["privrl"]
    return found


def table() -> str:
    """Return the packages, the largest first."""
    found = weights()
    rows = [
        [name, f"{size / 1e6:,.1f}", by if by != "privrl" else "", LOADED_BY.get(name, "")]
        for name, (size, by) in sorted(found.items(), key=lambda each: -each[1][0])
    ]
    total = sum(size for size, _ in found.values()) / 1e6
    rows.append([f"**all {len(found)}**", f"**{total:,.0f}**", "", ""])
    return pages.table(["package", "MB", "brought by", "loaded by"], rows)


if __name__ == "__main__":
    pages.main("results/weights.md", {"weights": table})
