"""Figures that notebooks show."""

import io

from matplotlib.figure import Figure

from privrl.files.files import figure_writer


class Picture(Figure):
    """A figure that a notebook shows below its cell, as files have it, even without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        file = io.BytesIO()
        figure_writer(self)(file)
        return file.getvalue(), {"width": 100 * self.get_figwidth()}
