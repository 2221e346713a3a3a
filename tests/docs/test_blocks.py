"""Every block of Python in the README and the docs runs as it stands, in the order of its page.

docs/audits.md, docs/environments.md and docs/howto have tests of their own, which also look at what
they show, as do the tutorials.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROSE = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
BLOCKS = {
    str(page.relative_to(ROOT)): re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    for page in PAGES
    if page.name not in ("audits.md", "environments.md") and page.parent.name != "howto"
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page, blocks in BLOCKS.items() if blocks],
)
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVRL_DATA", raising=False)
    names: dict[str, object] = {"__name__": "__page__"}
    for block in BLOCKS[page]:
        exec(compile(block, page, "exec"), names)


def test_pages_with_blocks_are_found() -> None:
    assert {page for page, blocks in BLOCKS.items() if blocks} >= {"README.md", "docs/models.md"}


LINKED = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINKED.findall(page.read_text()):
        assert (page.parent / target).exists(), target


PATHS = re.compile(
    r"`((?:privrl|envs|agents|experiments|tests|docs|benchmarks|examples)/(?![\w-]+-v\d)[\w./-]*)`"
)


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_are_named_are_there(page: Path) -> None:
    for path in PATHS.findall(page.read_text()):
        assert (ROOT / path).exists(), path
