"""Links within the manual lead somewhere, on a forge and in the site: pages, files, headings, generated pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import reference

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "reference" / "generated"
PAGES = [
    page
    for folder in (ROOT, ROOT / "docs", ROOT / ".github")
    for page in sorted(folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
    if GENERATED not in page.parents
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@cache
def generated() -> dict[Path, str]:
    drawn = dict.fromkeys(reference.algorithms.pictures(), "-")
    return {GENERATED / path: text for path, text in {**reference.pages(), **drawn}.items()}


def text_of(page: Path) -> str:
    return FENCED.sub("", generated().get(page) or page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """As forges and the site make them from headings."""
    headings = re.findall(r"^#+ (.+?)\s*$", text_of(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def is_broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target not in generated() and not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(text_of(page)) if is_broken(page, link)] == []


def test_links_of_the_generated_reference_lead_somewhere() -> None:
    for page, text in generated().items():
        assert [link for link in LINK.findall(FENCED.sub("", text)) if is_broken(page, link)] == [], page


def test_a_broken_link_is_seen() -> None:
    page = ROOT / "docs" / "design.md"
    assert is_broken(page, "nowhere.md") and is_broken(page, "glossary.md#nothing")
    assert not is_broken(page, "glossary.md#clients-and-participation")
    assert is_broken(page, "reference/generated/algorithms/fedaverage.md")
    assert not is_broken(page, "reference/generated/algorithms/fedavg.md")
