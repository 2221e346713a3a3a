"""A table of a paper, drawn as a picture."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Picture


def draw_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str, widths: Sequence[float]
) -> Picture:
    """Return a picture of a table of texts, with a line of small print below.

    Parameters
    ----------
    columns : sequence of str
        Heads; they may have several lines.
    rows : sequence of sequences of str
        The first text of each row is its name.
    note : str
        Units, and the privacy unit.
    widths : sequence of float
        Of the columns, in inches.
    """
    lines = 1 + max(head.count("\n") for head in columns)
    heights = [0.16 + 0.19 * lines] + [0.16 + 0.19 * (1 + max(map(_breaks, row))) for row in rows]
    below = 0.2 + 0.18 * (1 + note.count("\n"))
    picture = Picture(figsize=(sum(widths) + 0.2, sum(heights) + below + 0.1))
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, sum(widths) + 0.2), ylim=(0, sum(heights) + below + 0.1))
    axes.axis("off")
    top = sum(heights) + below
    axes.plot((0.1, sum(widths) + 0.1), (top, top), color="black", lw=1.2)
    for i, (row, height) in enumerate(zip([columns, *rows], heights, strict=True)):
        x, middle = 0.1, top - height / 2
        for j, (text, width) in enumerate(zip(row, widths, strict=True)):
            at, side = (x + 0.06, "left") if j == 0 else (x + width / 2, "center")
            weight = "bold" if i == 0 else "normal"
            axes.text(at, middle, text, ha=side, va="center", fontsize=9.5, weight=weight)
            x += width
        top -= height
        thick = 1.2 if i in (0, len(rows)) else 0.4
        axes.plot((0.1, sum(widths) + 0.1), (top, top), color="black", lw=thick)
    axes.text(0.16, top - 0.1, note, va="top", fontsize=8.5, color="0.3")
    return picture


def _breaks(text: str) -> int:
    return text.count("\n")
