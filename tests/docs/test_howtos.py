"""Every page of docs/howto does what it says: its files, programs and commands, in one folder.

Fences of ``text`` are of what needs a cluster; those of ``bash`` run, in order with all others.
"""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privrl.cli import app

FOLDER = Path(__file__).parents[2] / "docs" / "howto"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
FENCE = re.compile(r"^```(python|bash|toml)\n(.*?)^```", re.M | re.S)


def run(page: Path) -> dict[str, object]:
    """Do what a page says, in this folder; return the names that its programs leave."""
    names: dict[str, object] = {"__name__": "__page__"}
    for kind, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "toml":
            first, _, _ = block.partition("\n")
            Path(first.removeprefix("# ")).write_text(block, encoding="utf-8")
        elif kind == "python":
            exec(compile(block, page.name, "exec"), names)
        else:
            for line in block.replace("\\\n", " ").splitlines():
                program, *arguments = shlex.split(line)
                assert program == "privrl"
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, (line, result.output)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(page)
    # What each page claims beside running.
    if page.stem == "own-mechanism":
        assert not names["found"].violated  # type: ignore[attr-defined] # an audit
    if page.stem == "ledger":
        assert 1 < int(str(names["released"])) < 5
    if page.stem == "logs-to-policy":
        assert Path("policy/policy.json").is_file()
    if page.stem == "histogram-of-a-csv":
        assert Path("public/histogram.json").is_file()


def test_all_pages_are_listed() -> None:
    listed = re.findall(r"\(([\w-]+)\.md\)", (FOLDER / "index.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.stem for page in PAGES]
    assert len(PAGES) >= 6
