"""The repository's Markdown as pages of the site.

People also read the pages in the repository, where links lead to files. On the site a link to a
page leads to the page, and a link to another file to a copy of that file. Each Markdown file of
the top folder has a page on the site.
"""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
#: Files of the top folder, and the page that each becomes.
PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
#: Pages whose text is that of a file in the top folder.
TEXTS = {page: name for name, page in PAGES.items() if page != "index"}
#: A link to a file; code is found first, and left as it is.
LINK = re.compile(
    r"(?P<code>^(?P<fence>`{3,})(?s:.*?)^(?P=fence)|`[^`\n]+`)"
    r"|\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]"
    r"\((?!https?:|mailto:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)",
    re.MULTILINE,
)
#: Pages that list those beside them, whose menu is that list.
LISTS = ("howto/index", "tutorials/index")
BESIDE = re.compile(r"\]\(([\w-]+)\.md\)")
TREE = "\n```{{toctree}}\n:hidden:\n\n{}\n```\n"
FRAME = '<iframe class="slider" src="{}" title="Move epsilon" loading="lazy"></iframe>'


def _up(docname: str) -> str:
    return "../" * docname.count("/")


def _lead(match: re.Match[str], folder: Path, docname: str) -> str:
    """Return a link as it is on the site."""
    if match["code"]:
        return match["code"]
    text, anchor = match["text"], match["anchor"] or ""
    path = (folder / match["target"]).resolve()
    if (path / "README.md").is_file() and path != ROOT:
        path /= "README.md"
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    if place == "docs/epsilon.html":
        return f'<a href="{_up(docname)}slider.html">{text}</a>'
    if page := PAGES.get(place):
        return f"[{text}](/{page}.md{anchor})"
    if path.is_relative_to(DOCS):
        return f"[{text}](/{path.relative_to(DOCS).as_posix()}{anchor})"
    copied = f"{{download}}`{text.replace('`', '')} </../{place}>`"
    return copied if path.is_file() else text  # a folder of the repository


def translated(text: str, folder: Path, docname: str) -> str:
    """Return Markdown of the repository with links that lead somewhere on the site."""
    made = LINK.sub(lambda match: _lead(match, folder, docname), text)
    return made.replace("<!-- slider -->", FRAME.format(f"{_up(docname)}slider.html"))


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    if docname in TEXTS:
        path = ROOT / TEXTS[docname]
        app.env.note_dependency(str(path))
        source[0] = translated(path.read_text(encoding="utf-8"), ROOT, docname)
    else:
        below = dict.fromkeys(BESIDE.findall(source[0])) if docname in LISTS else {}
        menu = TREE.format("\n".join(below)) if below else ""
        source[0] = translated(source[0], path.parent, docname) + menu


def _slider(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        shutil.copyfile(DOCS / "epsilon.html", Path(app.outdir) / "slider.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Translate each page that is read, and put the slider beside them."""
    app.connect("source-read", _read)
    app.connect("build-finished", _slider)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
