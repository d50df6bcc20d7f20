"""Seeds on the page: one line per group with its interval, the target, clients one by one, the partition."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from fedpace.record import Run
from fedpace.record.report.page import StoredRun, page, svg
from fedpace.sim.observer import StepRecord


def learned(run: Run, seed: int, *accuracies: float) -> Run:
    history = [
        StepRecord(t, 2.0 * t, (0, 1), (0, 1), 10, 5, {"accuracy": a, "f1": a / 2})
        for t, a in enumerate(accuracies, start=1)
    ]
    known = {"client_metric": {"metric": "accuracy", "values": [0.25, 0.75, 0.5]}}
    return replace(run, seed=seed, history=history, rounds=len(history), summary=known, activities=())


@pytest.fixture
def two_seeds(run: Run) -> list[StoredRun]:
    made = [learned(run, 0, 0.2, 0.4), learned(run, 1, 0.4, 0.8)]
    partition = {"samples": [30.0, 10.0, 20.0], "labels": [[30, 0], [5, 5], [0, 20]]}
    return [
        StoredRun(f"mine, seed {each.seed}", each, 3, "done", group="mine", partition=partition)
        for each in made
    ]


def planes(text: str) -> list[dict]:
    return [json.loads(found.replace("&quot;", '"')) for found in re.findall(r"data-plane='(.*?)'", text)]


def test_seeds_are_one_line_with_an_interval(two_seeds: list[StoredRun]) -> None:
    text = page(two_seeds)
    first = planes(text)[0]
    assert [(s["label"], s["x"], s["y"]) for s in first["series"]] == [
        ("mine", [1.0, 2.0], pytest.approx([0.3, 0.6]))
    ]
    assert "2 runs (1 algorithm, 2 seeds), 3 clients" in text
    assert (
        text.count('class="s0 band"') == 6 and text.count('class="s0 line thin"') == 12
    )  # two metrics, three axes
    assert "f1 over server steps" in text
    assert text.count("<details") == 1 and "2, with seeds 0, 1; this is the first" in text


def test_seeds_that_were_evaluated_at_other_steps_are_lines_of_their_own(two_seeds: list[StoredRun]) -> None:
    other = replace(two_seeds[1], run=replace(two_seeds[1].run, history=two_seeds[1].run.history[:1]))
    assert [s["label"] for s in planes(page([two_seeds[0], other]))[0]["series"]] == [
        "mine, seed 0",
        "mine, seed 1",
    ]


def test_the_target_is_drawn_where_it_is_meant(two_seeds: list[StoredRun]) -> None:
    text = page(two_seeds, target=("accuracy", 0.9))
    assert "Target: accuracy 0.9." in text
    assert text.count('class="goal"') == 3 and text.count(">target 0.9<") == 3
    assert planes(text)[0]["y"][1] >= 0.9  # the axis reaches it


def test_the_summary_comes_first_and_every_run_below(two_seeds: list[StoredRun]) -> None:
    text = page(two_seeds, summary="<table><tr><td>means</td></tr></table>")
    assert text.index("means") < text.index("Every run") < text.index("mine, seed 1")


def test_clients_are_shown_with_what_they_get_and_what_they_have(two_seeds: list[StoredRun]) -> None:
    text = page(two_seeds)
    lines = {plane["name"]: plane for plane in planes(text) if plane["series"][0]["y"] == [0.25, 0.5, 0.75]}
    assert list(lines) == ["clients"]
    assert "mine, seed 0, client 1: 2 updates, accuracy 0.75" in text
    assert re.search(r"<td>mine</td><td>0.500</td><td>0.250</td><td>0.250</td><td>0.750</td>", text)
    assert "<h2>Partition</h2>" in text and "client 2, class 1: 20" in text
    bare = [replace(each, partition=None) for each in two_seeds]
    assert "<h2>Partition</h2>" not in page(bare)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 239.0), (0.13, 0.934), (-3.2, 7.7), (1e-6, 4e-6), (5.0, 5.0)]
)
def test_axes_end_at_round_numbers_beyond_the_data(low: float, high: float) -> None:
    chart = svg.line_chart([svg.Series("a", 0, [0.0, 1.0], [low, high])], "x", "y")
    plane = planes(chart)[0]
    assert plane["y"][0] <= low and high <= plane["y"][1]
    marks = svg.ticks(*plane["y"])
    assert marks[0] == pytest.approx(plane["y"][0], abs=1e-9) and marks[-1] == pytest.approx(
        plane["y"][1], abs=1e-9
    )


def test_a_share_has_no_axis_beyond_one() -> None:
    plane = planes(svg.line_chart([svg.Series("a", 0, [0.0, 1.0], [0.0, 1.0])], "x", "y"))[0]
    assert plane["y"] == [0.0, 1.0]
