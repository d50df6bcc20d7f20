"""Figures that a notebook displays, whether or not pyplot is in use."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

DOTS_PER_INCH = 100


class DisplayedFigure(Figure):
    """matplotlib's own prints `<Figure size ...>` where nobody has told the notebook how to show it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        return buffer.getvalue()
