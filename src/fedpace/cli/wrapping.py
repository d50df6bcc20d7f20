"""Text for people, wrapped between words."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap

WIDEST = 120  # columns of running text


def filled(text: str, width: int | None = None, indent: str = "") -> str:
    """Paragraphs no wider than the terminal; those with indented lines keep their lines."""
    room = min(width or shutil.get_terminal_size().columns, WIDEST)
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_filled(paragraph, room, indent) for paragraph in paragraphs)


def _filled(paragraph: str, width: int, indent: str) -> str:
    if re.search(r"^\s", paragraph, re.MULTILINE):
        return "\n".join(part for line in paragraph.splitlines() for part in _hanging(indent + line, width))
    return "\n".join(wrapped(paragraph, width, indent, indent))


def _hanging(line: str, width: int) -> list[str]:
    """A line of a list or an example; what does not fit goes on below its text."""
    mark = re.match(r"\s*(?:\S.*?\s{2,})?", line)
    label = mark[0] if mark else ""
    return wrapped(line[len(label) :], width, label, " " * len(label))


def wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Lines broken at spaces only: an option or a name is never cut at its hyphens."""
    return textwrap.wrap(
        " ".join(text.split()),
        max(width, 20),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


class WrappedHelp(argparse.HelpFormatter):
    """argparse's help, wrapped like all other text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return filled(text, width, indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width)
