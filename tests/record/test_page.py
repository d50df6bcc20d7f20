"""The page about runs: what is on it, and that it needs nothing from anywhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fedpace.citations import papers
from fedpace.record import Run
from fedpace.record.report.page import StoredRun, page, shares, svg
from fedpace.sim.observer import StepRecord


class Reader(HTMLParser):
    """Tags and text; an error for a tag that is closed but was not opened."""

    VOID = {"meta", "br", "line", "rect", "circle"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture
def kept(run: Run) -> StoredRun:
    facts = {
        "algorithm": "Algorithm(local=SGD(lr=0.1, steps=(1, 2)), pace=Rounds())",
        "command": "fedpace run <x>",
    }
    return StoredRun("night <1>", run, clients=3, state="done", facts=facts, papers=papers("fedgm"))


def test_the_page_is_well_formed_and_loads_nothing(kept: StoredRun) -> None:
    text = page([kept, replace(kept, label="other")])
    reader = Reader(text)
    assert reader.open == []
    assert "night &lt;1&gt;" in text and "<1>" not in text
    sources = [
        value for _, attrs in reader.tags for name, value in attrs.items() if name in ("src", "srcset")
    ]
    links = [attrs for tag, attrs in reader.tags if tag in ("link", "img", "iframe", "object", "embed")]
    assert sources == [] and links == []
    assert "@import" not in text and "url(" not in text and "fetch(" not in text


def test_every_part_is_there(kept: StoredRun) -> None:
    text = page([kept])
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "Results",
        "Curves",
        "Client timeline",
        "Staleness and participation",
        "Traffic",
        "Configuration",
        "Papers to cite",
    ]
    assert text.count("<svg") == 6 + 1 + 2 + 1  # curves, timeline, staleness and participation, traffic
    assert "local=SGD(lr=0.1, steps=(1, 2))<br>pace=Rounds()" in text
    assert "On the Role of Server Momentum in Federated Learning" in text and "@misc{sun2024" in text
    assert "fedgm on digits" in text


def test_runs_that_are_unlike_are_marked_as_such(kept: StoredRun) -> None:
    assert "Warning" not in page([kept, replace(kept, label="other")])
    other = replace(kept, label="other", clients=4, facts={**kept.facts, "population": "Population(...)"})
    assert "Warning: they differ in number of clients and devices." in page([kept, other])


def test_a_run_without_measurements_or_traces_has_a_page_too(kept: StoredRun) -> None:
    bare = replace(kept.run, history=[], activities=[], fates=[], summary={})
    text = page([replace(kept, run=bare, papers=())])
    assert Reader(text).open == []
    assert "Not evaluated" in text and "Papers to cite" not in text


def test_the_script_gets_the_points_of_the_curves(kept: StoredRun) -> None:
    planes = [
        json.loads(attrs["data-plane"] or "")
        for tag, attrs in Reader(page([kept])).tags
        if "data-plane" in attrs
    ]
    first = planes[0]["series"][0]
    assert (first["x"], first["y"]) == ([1.0, 3.0], [0.25, 0.5])  # step 2 was not evaluated
    traffic = planes[2]
    assert traffic["series"][0]["x"] == [140.0, 420.0] and traffic["name"] == "B sent, up and down"


def test_a_timeline_names_what_became_of_the_work(kept: StoredRun) -> None:
    text = page([kept])
    assert '<rect class="wasted"' in text and ", overwritten</title>" in text
    assert "upload 3 to 4 s" in text


# ------------------------------------------------------------ numbers


def records(*groups: tuple[int, ...]) -> list[StepRecord]:
    return [
        StepRecord(t, 0.0, group, tuple(range(len(group))), 0, 0) for t, group in enumerate(groups, start=1)
    ]


def test_participation_counts_with_multiplicity_busiest_first() -> None:
    history = records((0, 1, 1), (1, 2))
    assert shares.participation(history) == [3, 1, 1]
    assert shares.staleness(history) == {0: 2, 1: 2, 2: 1}


@pytest.mark.parametrize(
    ("counts", "jain", "gini"),
    [([5, 5, 5], 1.0, 0.0), ([9, 0, 0], 1 / 3, 2 / 3), ([3, 1], 16 / 20, 0.25), ([0, 0], 1.0, 0.0)],
)
def test_fairness_of_counts(counts: list[int], jain: float, gini: float) -> None:
    assert shares.jain(counts) == pytest.approx(jain)
    assert shares.gini(counts) == pytest.approx(gini)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 110, [0, 25, 50, 75, 100]),
        (-0.3, 0.3, [-0.2, 0, 0.2]),
        (5, 5, [5]),
        (0, 3e-5, [0, 1e-5, 2e-5, 3e-5]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert svg.ticks(low, high) == pytest.approx(expected)


def test_a_line_goes_where_its_points_are() -> None:
    """The smallest x is at the left border, the largest at the right; larger is higher."""
    chart = svg.line_chart([svg.Series("a", 0, [0.0, 10.0], [1.0, 2.0])], "x", "y")
    [points] = re.findall(r'<polyline class="s0 line" points="(.*?)"', chart)
    (left, bottom), (right, top) = [tuple(map(float, pair.split(","))) for pair in points.split()]
    assert (left, right) == (svg.LEFT, svg.WIDTH - svg.RIGHT)
    assert svg.TOP < top < bottom < svg.HEIGHT - svg.BOTTOM


def test_bars_are_as_high_as_their_values() -> None:
    chart = svg.bar_chart([("a", [1.0, 2.0]), ("b", [4.0, 0.0])], "x", "y")
    heights = [float(h) for h in re.findall(r'<rect .*?height="(.*?)"', chart)]
    assert heights == pytest.approx([heights[2] / 4, heights[2] / 2, heights[2], 0.0], abs=0.1)
