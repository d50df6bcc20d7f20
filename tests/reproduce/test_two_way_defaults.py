"""The study of two_way's defaults: which rate is judged, and what a verdict takes."""

from __future__ import annotations

from dataclasses import replace

from fedpace import algorithms
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_defaults import findings
from fedpace.reproduce.two_way_study import (
    BASE,
    PLACES,
    RATES,
    TUNING,
    UNCOMPRESSED,
    cells,
    chosen_rate,
    judging,
    tuned,
)

PLACE = next(iter(PLACES))


def outcome(accuracy: float) -> Outcome:
    points = [Evaluation(1, 1.0, 1, 1, {"accuracy": accuracy})]
    return Outcome(
        ended="finished", steps=1, seconds=1.0, bytes_up=1, bytes_down=1, points=points, staleness={}
    )


def known(**accuracies: float) -> Results:
    """Results of the rate cells of the first place whose names end so."""
    results = Results()
    for cell in cells("quick", Results()):
        for end, accuracy in accuracies.items():
            if cell.name == f"rate {PLACE}: two_way {end[1:].replace('_', '.')}":
                results.add(cell, 0, outcome(accuracy))
    return results


def test_the_defaults_are_those_that_were_studied() -> None:
    assert algorithms.two_way() == algorithms.two_way(**BASE)


def test_a_method_is_judged_at_the_best_of_its_rates_once_all_are_known() -> None:
    assert RATES["two_way"] == (0.005, 0.01)
    assert chosen_rate(known(r0_005=0.7), PLACE, "two_way") is None
    assert chosen_rate(known(r0_005=0.7, r0_01=0.8), PLACE, "two_way") == 0.01
    names = [cell.name for cell in cells("quick", known(r0_005=0.8, r0_01=0.7))]
    assert judging(PLACE, "two_way") in names and judging(PLACE, "FedAMS") not in names


def test_rates_are_chosen_on_other_splits_than_are_judged() -> None:
    every = cells("quick", known(r0_005=0.8, r0_01=0.7))
    tasks = {cell.name.split()[0]: repr(cell.task) for cell in every if PLACE in cell.name}
    assert "OtherSplit" in tasks["rate"] and "OtherSplit" not in tasks["judging"]
    assert not {bed.task for bed in TUNING.values()} & {bed.task for bed in PLACES.values()}


def judged(gap: float, cheaper: float) -> Verdict:
    """Five seeds: two_way so many points ahead of both rivals, which send so many times as much."""
    made = Results()
    for method in ("two_way", *UNCOMPRESSED):
        scale = 1 if method == "two_way" else cheaper
        cell = replace(cells("quick", Results())[0], name=judging(PLACE, method))
        for seed in range(5):
            points = 0.8 + seed / 1000 + (gap / 100 if method == "two_way" else 0.0)
            made.add(
                cell, seed, replace(outcome(points), bytes_up=int(scale * 100), bytes_down=int(scale * 100))
            )
    return settled("quick", findings("quick", made))[0].verdict


def test_a_twentieth_of_the_bytes_within_half_a_point_takes_both() -> None:
    assert judged(gap=-0.3, cheaper=21) is Verdict.REPRODUCED
    assert judged(gap=-0.7, cheaper=21) is Verdict.CONTRADICTED
    assert judged(gap=-0.3, cheaper=19) is Verdict.CONTRADICTED


def test_every_parameter_is_varied_on_every_tuning_task() -> None:
    labels = [set(tuned("quick", bed)) for bed in TUNING]
    assert labels[0] == labels[1] and "base" in labels[0]
