"""The manual names what exists: files, modules and imports."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "theory").glob("*.md")),
]
MADE = "site/"  # by ./scripts/docs
EXTRAS = ("fedpace.record.run.trackers",)  # its classes need libraries that are optional


def resolved(name: str) -> Any:
    """The object of a dotted name: the longest module in it, then its attributes."""
    parts = name.split(".")
    for at in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[at:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def imported(text: str) -> list[str]:
    """Dotted names that the Python blocks of a page import from fedpace."""
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    lines = re.findall(r"^(?:>>> )?((?:from|import) fedpace.*)$", "\n".join(blocks), re.MULTILINE)
    return [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_exist(page: Path) -> None:
    files = re.findall(r"`((?:\w+/)+\w+\.(?:py|json))`", page.read_text())
    roots = (ROOT, ROOT / "src", ROOT / "src" / "fedpace")
    assert [file for file in files if not any((root / file).exists() for root in roots)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_folders_named_exist(page: Path) -> None:
    folders = re.findall(r"`((?:[a-z_]+/)+)`", page.read_text())
    roots = (ROOT, ROOT / "src" / "fedpace", *(ROOT / "src" / "fedpace").iterdir())
    missing = {folder for folder in folders if not any((root / folder).is_dir() for root in roots)}
    assert missing - {MADE} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_and_imports_resolve(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`(fedpace(?:\.[A-Za-z_]\w*)+)", text)
    for name in [*named, *imported(text)]:
        if not name.startswith(EXTRAS):
            resolved(name)


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md", "index.md"}
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", contents))
