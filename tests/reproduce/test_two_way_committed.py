"""What the committed runs of the bidirectional paper's page must hold for its verdicts to be fair."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from fedpace.reproduce import experiment
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.results import Results
from fedpace.reproduce.run import finished
from fedpace.reproduce.tuning import read_choices, seeds_of_choices
from fedpace.reproduce.two_way.bits_pictures import COLOURS, pictures
from fedpace.reproduce.two_way.budgets import COSTS, Cost, budget_of, rivals_at, seconds_on_a_link
from fedpace.reproduce.two_way.cells import BASELINES, SCALES, DataSplit
from fedpace.reproduce.two_way.firing import how_often, rarely_fired
from fedpace.reproduce.two_way.goal import SERVER_DIFFERS, best
from fedpace.reproduce.two_way.judging import PLACES, judging
from fedpace.reproduce.two_way.tuned import (
    ALL,
    EVERYWHERE,
    FEDACA,
    SHORT_RUNS,
    TIMED,
    TUNED,
    WITH_A_CNN,
    tuned,
)

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FEDBACA = "FedBACA 1/8"
WITHIN = 1.25  # of the rounds that a budget leaves: rivals are tuned for no more than so many times as many
Judged = tuple[DataSplit, str, Cost, tuple[str, ...]]


@lru_cache(maxsize=2)
def committed(name: str = "two-way-bits") -> Results:
    here = RESULTS / name
    choices, tried = read_choices(here, "quick"), seeds_of_choices(here, "quick")
    runs = here / "quick-runs.jsonl.xz"
    kept = FinishedRuns.of(name, "quick", here / "no runs", choices, tried, runs)
    return finished(experiment(name), "quick", 10, kept)


def judged() -> Iterator[Judged]:
    """Every row at a budget that has a verdict: place, method, cost and rivals."""
    places = (*EVERYWHERE, *WITH_A_CNN)
    for place in places:
        for method in ("FedNLAA", FEDACA, FEDBACA):
            if acts(place, method):
                yield from ((place, method, cost, BASELINES) for cost in COSTS.values())
        if place.network == "" and place.split == "non-iid":
            yield place, FEDBACA, COSTS["both ways"], (FEDACA,)
    seconds = seconds_on_a_link(SCALES["quick"].work["clients_per_round"])
    yield from ((place, FEDBACA, seconds, BASELINES) for place in TIMED)


def acts(place: DataSplit, method: str) -> bool:
    """Whether a row is tested: its rule fired."""
    name = tuned(place, method)
    return committed().have(name) and not rarely_fired(committed(), name)


def test_rivals_are_tuned_for_the_rounds_that_a_budget_leaves_them() -> None:
    """No fewer, and not many more: a wrong length is not chosen, or is too long."""
    used = set()
    for place, method, cost, rivals in judged():
        budget = budget_of(committed(), tuned(place, method), cost)
        found = rivals_at(committed(), place, method, budget, cost, rivals)
        assert found.rounds is not None
        for name in found.names.values():
            left = found.rounds * budget / budget_of(committed(), name, cost)
            assert left <= found.rounds <= WITHIN * left, (place, method, found)
        used.add((found.rounds, rivals))
    assert {(each.rounds, each.rivals) for each in SHORT_RUNS} <= used


def test_fednlaca_is_run_tuned_where_a_claim_is_about_it() -> None:
    """The others everywhere."""
    ran = {method: [p for p in EVERYWHERE if committed().have(tuned(p, method))] for method in TUNED}
    assert ran.pop("FedNLACA 1/8") == list(TIMED)
    assert all(places == list(EVERYWHERE) for places in ran.values())


def test_a_rule_that_fired_about_once_per_client_is_told_in_uploads() -> None:
    told = how_often(committed(), tuned(DataSplit("MNIST", "iid", ALL), FEDBACA))
    assert "20.0 ± 0.0 of 1200, no more than once per client" in told
    assert how_often(committed(), tuned(EVERYWHERE[1], FEDBACA)) == "its rule fired in 55.9% of uploads"


def test_a_method_has_one_colour_in_all_pictures() -> None:
    """And one line for two methods whose runs are the same."""
    drawn = pictures("quick", committed())
    assert set(drawn) == {"tuned", "cnn"} and len(set(COLOURS.values())) == len(COLOURS)
    for figure in drawn.values():
        for axes in figure.axes:
            colours = {line.get_label(): line.get_color() for line in axes.get_lines()}
            assert all(colours[method] == colour for method, colour in COLOURS.items() if method in colours)
            lengths = [label for label in colours if label.startswith("tuned for")]
            uneven_mlp = "non-iid" in axes.get_title(loc="left") and "CNN" not in axes.get_title(loc="left")
            assert len(lengths) == (3 if uneven_mlp else 2)
    labels = {line.get_label() for line in drawn["tuned"].axes[0].get_lines()}
    assert "FedCAMS 1/8 and FedACA 1/8: the same runs" in labels and "FedACA 1/8" not in labels


def test_what_compression_costs_is_asked_where_the_goal_does_not_answer_it() -> None:
    """Where the best uncompressed method has two_way's server optimizer, both are one comparison."""
    results = committed("two-way-defaults")

    def server(place: str, method: str) -> object:
        return results.cells[judging(place, method)].algorithm.server_opt

    differs = [place for place in PLACES if server(place, "two_way") != server(place, best(results, place))]
    assert tuple(differs) == SERVER_DIFFERS


@pytest.mark.parametrize(("place", "fires"), [(TIMED[0], "0.0%"), (TIMED[1], "16.9%")])
def test_the_row_on_fedaa_says_what_it_does_untuned(place: DataSplit, fires: str) -> None:
    found = experiment("two-way-bits").procedure.findings("quick", committed())
    [row] = [f for f in found if f.claim.startswith("FedAA") and f.claim.endswith(f", {place.split})")]
    assert f"it fires in {fires} of uploads and ends: FedAA at" in row.note
