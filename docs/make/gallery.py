"""Make docs/results/gallery.md: every figure and table of the papers, reproduced, with captions.

Run with ``python docs/make/gallery.py``; it needs less than half an hour on two cores. A second
run makes only what has changed. UCI data are read as `privrl.data.datasets` says.
"""

import shutil
from itertools import groupby

import pages
from rich.console import Console

from privrl.experiments.figures.reproduce import Reproduced, reproduce

RESULTS = pages.DOCS.parent / "results" / "gallery"
PICTURES = pages.IMAGES / "gallery"
PAPERS = {
    "dps": "Differential privacy of Dirichlet posterior sampling",
    "dkl": "Dirichlet mechanism for differentially private KL divergence minimization",
    "sim": "The Dirichlet mechanism for differential privacy on the unit simplex",
    "bay": "Notes on differential privacy and Bayesian inference",
    "ours": "Results that none of the papers has",
}


def main() -> None:
    """Make all figures, and the page of those that could be made."""
    console = Console()
    made, failed = reproduce(
        ["all"],
        RESULTS,
        on_progress=lambda name, done, total: console.print(done, "of", total, name),
    )
    PICTURES.mkdir(parents=True, exist_ok=True)
    for each in made:
        shutil.copy(RESULTS / f"{each.id}.png", PICTURES)
    sections = [
        f"## {PAPERS[paper]}\n\n" + "\n".join(map(_entry, figures))
        for paper, figures in groupby(made, key=lambda each: each.id.split("-")[0])
    ]
    (pages.DOCS / "results" / "gallery.md").write_text(_INTRODUCTION + "\n".join(sections))
    for name, why in failed.items():
        console.print(f"not made: {name}: {why}")


_INTRODUCTION = """# Gallery: all figures and captions

Every figure and table of the papers behind privrl, reproduced, and some that none of them has.
Each caption says what the paper shows, what privrl finds, and where the paper is wrong. `privrl
reproduce ID` makes one of them, with its numbers as CSV, `privrl reproduce list` lists them, and
`python docs/make/gallery.py` makes this page.

"""


def _entry(each: Reproduced) -> str:
    return (
        f"### `{each.id}`: {each.title}\n\n"
        f"![{each.title}](../images/gallery/{each.id}.png)\n\n{each.source}. {each.caption}\n"
    )


if __name__ == "__main__":
    main()
