"""The generated part of the reference: Python interface, algorithms, command line."""

from __future__ import annotations

from pathlib import Path

from reference import algorithms, commands, python


def pages() -> dict[str, str]:
    """Every generated page: its text by its path under docs/reference/generated/."""
    return {**python.pages(), **algorithms.pages(), **commands.pages()}


def write(folder: Path) -> None:
    """Write the pages and draw their pictures; those that did not change are left alone, old ones removed."""
    wanted = {folder / path: text for path, text in pages().items()}
    for old in folder.rglob("*.md"):
        if old not in wanted:
            old.unlink()
    for file, text in wanted.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    algorithms.draw(folder)
