"""A table as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from fedpace.untrusted import visible

GAP = "  "
_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "−": r"$-$",
    "∞": r"$\infty$",
}


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells, how each column is aligned, l(eft) or r(ight), and what is said below them."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    caption: str = ""

    def text(self) -> str:
        cells = [[visible(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        first, *others = [self._line(row, widths) for row in cells]
        rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
        return "\n".join([first, rule, *others, *self._said()])

    def _said(self) -> list[str]:
        return [visible(line) for line in self.caption.split("\n")] if self.caption else []

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        sides = zip(row, widths, self.align, strict=True)
        fitted = (cell.rjust(width) if side == "r" else cell.ljust(width) for cell, width, side in sides)
        return GAP.join(fitted).rstrip()

    def markdown(self) -> str:
        marks = ["---:" if side == "r" else ":---" for side in self.align]
        lines = [self._piped(row) for row in (self.header, marks, *self.rows)]
        return "\n".join([*lines, *(["", "  \n".join(self._said())] if self.caption else [])]) + "\n"

    def _piped(self, row: Sequence[str]) -> str:
        return "| " + " | ".join(visible(cell).replace("|", r"\|") for cell in row) + " |"

    def latex(self) -> str:
        """A `tabular` in the style of booktabs; the caption is a comment above it."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows)]
        above = [f"% {line}" for line in self._said()]
        begin, end = rf"\begin{{tabular}}{{{self.align}}}", r"\end{tabular}"
        return "\n".join(
            [*above, begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", end, ""]
        )

    def html(self) -> str:
        top = "".join(f"<th>{_html(cell)}</th>" for cell in self.header)
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{"right" if side == "r" else "left"}">{_html(cell)}</td>'
                for cell, side in zip(row, self.align, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        below = "".join(f"<p><small>{html.escape(line)}</small></p>" for line in self._said())
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in visible(text))


def _html(text: str) -> str:
    return html.escape(visible(text))
