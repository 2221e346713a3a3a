"""No dead code, and little that is said twice."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _run(command: str, *arguments: str) -> str:
    path = Path(sys.executable).with_name(command)
    if not path.exists():
        pytest.skip(f"no {command}: pip install 'privrl[dev]'")
    done = subprocess.run([path, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def test_nothing_is_dead() -> None:
    """Where it looks and what it leaves out: ``tool.vulture`` in pyproject.toml."""
    assert not (found := _run("vulture")), found


#: Places that share six lines of code or more, docstrings left out. Lower it when there are fewer.
MOST = 5


def test_little_is_said_twice() -> None:
    files = [
        str(path.relative_to(ROOT))
        for top in ("privrl", "envs", "agents", "experiments", "tests", "docs/make", "benchmarks")
        for path in sorted((ROOT / top).rglob("*.py"))
        if not path.is_relative_to(ROOT / "build")
    ]
    files = [name for name in files if not re.match(r"privrl/(envs|agents|experiments)/", name)]
    options = ("--duplicates=6", "--ignore-imports", "--ignore-docstrings", "--ignore-signatures")
    found = _run("symilar", *options, *files)
    places = re.findall(r"^\d+ similar lines in .*(?:\n==.*)+", found, re.M)
    assert len(places) <= MOST, "\n\n".join(places)
