"""The pages on theory: their programs run and print what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "theory.md", *sorted((DOCS / "theory").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_print_what_the_page_says(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert "".join(said) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_page_is_listed() -> None:
    listed = re.findall(r"\(theory/([\w-]+\.md)\)", (DOCS / "theory.md").read_text())
    assert sorted(listed) == sorted(page.name for page in (DOCS / "theory").glob("*.md"))
    assert "theory.md" in (DOCS / "README.md").read_text()
