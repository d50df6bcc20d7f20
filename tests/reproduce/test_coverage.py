"""The page that lists the papers' tables and figures: none is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "results" / "coverage.md").read_text(encoding="utf-8")
FATES = ("done", "small", "not run", "none", "no experiment", "as Figure", "the same")

# paper -> numbers of its tables, of its figures
PAPERS = {
    "FedGM": (range(1, 2), range(1, 10)),
    "DeFedAvg": (range(1, 3), range(1, 8)),
    "CA2FL": (range(1, 8), range(1, 7)),
    "FedNova": (range(1, 2), range(1, 8)),
    "Bidirectional": (range(0), range(1, 22)),
}


def rows(paper: str) -> list[tuple[str, str]]:
    """Item and fate of every line of a paper's list."""
    [section] = [part for part in PAGE.split("\n## ") if part.startswith(f"{paper}:")]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(first.strip(), fate.strip()) for first, _, fate in cells[1:]]


def numbers(kind: str, items: list[str]) -> set[int]:
    """Of "Figures 13 to 16" or "Figure 1 (c), 3 (a)"; what stands in brackets names panels."""
    found: set[int] = set()
    for item in items:
        if not item.startswith(kind):
            continue
        plain = re.sub(r"\(.*?\)", "", item)
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", plain.split("CIFAR")[0].split("ResNet")[0]):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_of_a_paper_is_listed(paper: str) -> None:
    items = [item for item, _ in rows(paper)]
    tables, figures = PAPERS[paper]
    assert numbers("Table", items) == set(tables)
    assert numbers("Figure", items) == set(figures)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_has_a_fate(paper: str) -> None:
    assert [fate for _, fate in rows(paper) if not fate.startswith(FATES)] == []
