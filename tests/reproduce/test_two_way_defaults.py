"""The study of two_way's defaults: which rate is judged, and what a verdict takes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from fedpace import algorithms
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import read_choices
from fedpace.reproduce.two_way.defaults import tables
from fedpace.reproduce.two_way.goal import LAZIEST, findings
from fedpace.reproduce.two_way.judging import (
    JUDGED_FROM,
    ONE_WAY_ROUNDS,
    PLACES,
    PUBLISHED,
    SERVERS,
    TUNED_ON,
    UNCOMPRESSED,
    UNTUNED,
    UPLINK_ON,
    grid_of,
    grids,
    judging,
    tuned_at,
)
from fedpace.reproduce.two_way.study import (
    CHOSEN,
    CODECS,
    DEFAULTS,
    EVERYWHERE,
    LAZINESS,
    TUNING,
    VARIED,
    cells,
    laziness,
    tuned,
    tuning,
)

PLACE = next(iter(PLACES))
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def outcome(accuracy: float) -> Outcome:
    points = [Evaluation(1, 1.0, 1, 1, {"accuracy": accuracy})]
    return Outcome(
        ended="finished", steps=1, seconds=1.0, bytes_up=1, bytes_down=1, points=points, staleness={}
    )


def known(method: str, *accuracies: float) -> Results:
    """Results of the settings of a method at the first place, in the order of its grid."""
    results = Results()
    for accuracy, cell in zip(accuracies, grid_of("quick", PLACE, method).cells(), strict=False):
        results.add(cell, 0, outcome(accuracy))
    return results


@lru_cache(maxsize=1)
def some_cell() -> Cell:
    """To be renamed: making all of them takes a second."""
    return cells("quick", Results())[0]


def judged_cells(results: Results) -> dict[str, Cell]:
    """Those that wait for a choice."""
    return {
        cell.name: cell
        for cell in cells("quick", results)
        if cell.name.startswith("judging") and not cell.name.endswith(UNTUNED)
    }


def test_the_defaults_are_those_that_were_studied() -> None:
    assert algorithms.two_way() == algorithms.two_way(**DEFAULTS)
    assert set(CHOSEN) <= set(EVERYWHERE)


def test_a_method_is_judged_at_the_best_of_its_settings_once_all_are_known() -> None:
    assert not judged_cells(known("FedAMS", 0.7, 0.8))
    found = judged_cells(known("FedAMS", 0.7, 0.8, 0.6))
    assert set(found) == {judging(PLACE, "FedAMS"), judging("MNIST, iid", "FedAMS")}
    assert {cell.algorithm.server_opt.lr for cell in found.values()} == {0.1}


def test_two_way_takes_the_server_of_the_best_uncompressed_run_of_its_split() -> None:
    """The committed choice among all uncompressed runs is what its uplinks are tried, and it is judged, with."""
    choices = read_choices(RESULTS / "two-way-defaults", "quick")
    for split, (rate, method) in SERVERS.items():
        place = f"Fashion-MNIST, {split}"
        grid = grid_of("quick", place, "two_way")
        assert {cell.algorithm.name for cell in grid.cells()} == {"fedavg", "fedams", "fedadam", "fedyogi"}
        assert choices[grid.name] == (rate, method)
        chosen = grid.cell(rate, method)
        assert chosen is not None
        for cell in grid_of("quick", place, "uplink").cells():
            assert cell.algorithm.server_opt == chosen.algorithm.server_opt


def test_two_way_is_judged_with_the_better_of_its_uplinks() -> None:
    found = judged_cells(known("uplink", 0.7, 0.8))
    assert set(found) == {judging(PLACE, "two_way"), judging("MNIST, iid", "two_way")}
    assert {cell.algorithm.up for cell in found.values()} == {algorithms.two_way().up}
    other = judged_cells(known("uplink", 0.8, 0.7)).values()
    assert {cell.algorithm.up for cell in other} == {algorithms.two_way(codec="entropy:1.59").up}


def test_settings_are_chosen_on_fashion_mnist_alone_and_on_no_judged_seed() -> None:
    assert {grid.name.split(":")[0] for grid in grids("quick")} == {tuned_at(place) for place in PLACES}
    tried = {seed for grid in grids("quick") for seed in grid.seeds}
    assert tried == {*TUNED_ON["two shards"], *UPLINK_ON} and len(TUNED_ON["two shards"]) >= 4
    judged = judged_cells(known("FedAMS", 0.7, 0.8, 0.6)).values()
    kept = FinishedRuns.of("two-way-defaults", "quick", tuned_on=frozenset(tried))
    for cell in judged:
        seeds = kept.seeds(cell, 5)
        assert seeds == list(range(JUDGED_FROM, JUDGED_FROM + 5)) and not tried & set(seeds)


def test_no_task_is_tuned_on_and_judged() -> None:
    assert not {bed.task for bed in TUNING.values()} & {bed.task for bed in PLACES.values()}
    assert not {bed.task.name for bed in TUNING.values()} & {bed.task.name for bed in PLACES.values()}


def judging_results(gap: float, cheaper: float, best: str = "FedAdam", noise: float = 0.0) -> Results:
    """Five seeds: two_way so many points ahead of the best rival, which sends so many times as much."""
    made = Results()
    for method in ("two_way", *UNCOMPRESSED, *PUBLISHED):
        scale = 1 if method == "two_way" else cheaper
        cell = replace(some_cell(), name=judging(PLACE, method))
        for seed in range(5):
            ahead = (
                gap / 100 if method == "two_way" else 0.0 if method == best else -0.1 + noise * (-1) ** seed
            )
            points = 0.8 + seed / 1000 + ahead + (method == "two_way") * seed / 1e5
            sent = int(scale * 100)
            made.add(cell, seed, replace(outcome(points), bytes_up=sent, bytes_down=sent, traffic=NEVER))
    return made


NEVER = {"up": {"firing_rate": 0.0}}


def judged(gap: float, cheaper: float, noise: float = 0.0) -> Verdict:
    found = findings("quick", judging_results(gap, cheaper, noise=noise))
    return settled("quick", found)[0].verdict


def test_a_twentieth_of_the_bytes_within_half_a_point_takes_both() -> None:
    assert judged(gap=-0.3, cheaper=21) is Verdict.REPRODUCED
    assert judged(gap=-0.7, cheaper=21) is Verdict.CONTRADICTED
    assert judged(gap=-0.3, cheaper=19) is Verdict.CONTRADICTED


def test_the_best_rival_is_what_counts_whatever_the_others_do() -> None:
    assert judged(gap=-0.3, cheaper=21, noise=0.09) is Verdict.REPRODUCED
    rows = tables("quick", judging_results(-0.3, 21, best="FedYogi"))[0].rows
    assert [row[1] for row in rows] == ["FedYogi"]


@pytest.mark.parametrize(
    ("gap", "cheaper", "said"), [(-0.3, 21, "met"), (-0.7, 21, "missed"), (-0.3, 19, "missed")]
)
def test_the_goal_by_its_own_interval(gap, cheaper, said) -> None:
    [row] = tables("quick", judging_results(gap, cheaper))[0].rows
    assert row[0] == PLACE and row[-1] == said and row[2] == f"{gap:+.2f}"


def test_methods_with_a_dense_direction_have_the_rounds_that_their_bytes_allow() -> None:
    """Of the 12.0 MB that two_way sends in 60 rounds of ten clients: dense frames have 0.2036 MB, 1/24 a twentieth."""
    for method, rounds in ONE_WAY_ROUNDS.items():
        [cell] = {(cell.rounds, cell.evaluate_every) for cell in grid_of("quick", PLACE, method).cells()}
        assert cell == (rounds, rounds)
        per_round = 10 * 0.2036 * (1 + (1 / 20 if "1/24" in method else 1))
        assert (rounds - 1) * per_round < 12.0 < rounds * per_round


def test_points_ahead_of_the_base_are_those_of_the_seeds_that_both_have() -> None:
    made = Results()
    for at, bed in enumerate(TUNING):
        for label in EVERYWHERE:
            cell = replace(some_cell(), name=tuning(bed, label))
            for seed in range(3 if label == "base" else 1):
                ahead = 0.01 * at if label == "b1 0" else 0.0
                made.add(cell, seed, replace(outcome(0.5 + 0.1 * seed + ahead), traffic=NEVER))
    [table] = [each for each in tables("quick", made) if each.title.startswith("Points ahead")]
    [row] = [row for row in table.rows if row[0] == "b1 0"]
    assert list(row[1:]) == ["+0.00", "+1.00", "+2.00", "+3.00", "+1.50"]


def test_every_parameter_is_varied_on_every_tuning_task_and_quick_servers_and_memories_are() -> None:
    labels = [set(tuned("full", bed)) for bed in TUNING]
    assert all(each == labels[0] for each in labels) and set(CODECS) <= set(VARIED) <= labels[0]
    assert all(set(EVERYWHERE) <= set(tuned("quick", bed)) for bed in TUNING)
    assert set(VARIED) <= set(tuned("quick", "synthetic")) and "flat" not in tuned("quick", "Shakespeare")


def lazily(gap: float, skipped: float) -> Verdict:
    """Five seeds of a lazy uplink that ends so many points ahead and skips this share."""
    made, bed = Results(), next(iter(LAZINESS))
    for label, points, share in (("never", 0.8, 0.0), (LAZIEST, 0.8 + gap / 100, skipped)):
        cell = replace(some_cell(), name=laziness(bed, label))
        for seed in range(5):
            traffic = {"up": {"firing_rate": share + seed / 1e4}}
            made.add(cell, seed, replace(outcome(points + seed / 1e4), traffic=traffic))
    [found] = [
        each
        for each in settled("quick", findings("quick", made))
        if bed in each.claim and "lazy" in each.claim
    ]
    return found.verdict


def test_a_lazy_uplink_has_to_skip_a_fifth_and_to_lose_next_to_nothing() -> None:
    assert lazily(gap=-0.2, skipped=0.3) is Verdict.REPRODUCED
    assert lazily(gap=-0.9, skipped=0.3) is Verdict.CONTRADICTED
    assert lazily(gap=0.2, skipped=0.1) is Verdict.CONTRADICTED
