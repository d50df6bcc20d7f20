"""Docstrings as Markdown: paragraphs stay, indented lines are equations or code, examples are highlighted."""

from __future__ import annotations

import inspect
import re
from itertools import groupby

LABELLED = re.compile(r"\n(?=(?:Sign|Departures|Variance|Wire|State|Cost): )")
ARGUMENT = re.compile(r"`[^`]+`(?:(?:,| and) `[^`]+`)*: ")  # at the start of a line that explains it
CODE_SPAN = re.compile(r"(`+[^`]*`+)")


def markdown(docstring: str | None) -> str:
    """A docstring's text for a page."""
    blocks = re.split(r"\n{2,}", LABELLED.sub("\n\n", inspect.cleandoc(docstring or "")))
    merged: list[str] = []
    for block in blocks:
        kind = _kind(block)
        if merged and kind == "text" == _kind(merged[-1]):  # an equation may have an empty line in it
            merged[-1] += f"\n\n{block}"
        else:
            merged.append(block)
    return "\n\n".join(_shown(block) for block in merged)


def _kind(block: str) -> str:
    if block.startswith(">>> "):
        return "pycon"
    return "text" if block.startswith("    ") else "prose"


def _shown(block: str) -> str:
    kind = _kind(block)
    if kind == "pycon":
        return _fenced(block, "pycon")
    if kind == "text":
        plain = inspect.cleandoc("\n" + block)
        return _fenced(plain, "python" if plain.startswith(("import ", "from ")) else "text")
    return _prose(block)


def _prose(block: str) -> str:
    """Lines, and below some of them others that are further in: those keep their columns."""
    lines = block.split("\n")
    if sum(bool(ARGUMENT.match(line)) for line in lines) > 1:
        return escaped("\n".join(f"\n- {line}" if ARGUMENT.match(line) else line for line in lines)).strip()
    parts = []
    further_in = "    " if block.startswith("- ") else "  "
    for inside, some in groupby(lines, key=lambda line: line.startswith(further_in)):
        text = "\n".join(some)
        parts.append(_fenced(inspect.cleandoc("\n" + text), "text") if inside else escaped(text))
    return "\n\n".join(parts)


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def escaped(text: str) -> str:
    """Characters that Markdown would read as markup, outside of `code`."""
    parts = CODE_SPAN.split(text)
    return "".join(part if part.startswith("`") else re.sub(r"([<$|\[\]])", r"\\\1", part) for part in parts)


def cell(text: str) -> str:
    """For a cell of a table."""
    parts = CODE_SPAN.split(" ".join(text.split()))
    return "".join(part.replace("|", r"\|") if part.startswith("`") else escaped(part) for part in parts)


def code(text: str) -> str:
    """A code span of any text, also in a table."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{' '.join(text.split())}{fence}".replace("|", r"\|")


def summary(docstring: str | None) -> str:
    """The first sentence or line."""
    return inspect.cleandoc(docstring or "").split("\n\n")[0].replace("\n", " ")
