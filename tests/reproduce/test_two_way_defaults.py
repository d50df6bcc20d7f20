"""The study of two_way's defaults: which rate is judged, and what a verdict takes."""

from __future__ import annotations

from dataclasses import replace

from fedpace import algorithms
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_defaults import LAZIEST, findings
from fedpace.reproduce.two_way_study import (
    ADAPTIVE,
    BASE,
    CODECS,
    LAZINESS,
    PLACES,
    RATES,
    TUNING,
    UNCOMPRESSED,
    VARIED,
    cells,
    grid_of,
    grids,
    judging,
    laziness,
    tuned,
    tuned_at,
)

PLACE = next(iter(PLACES))


def outcome(accuracy: float) -> Outcome:
    points = [Evaluation(1, 1.0, 1, 1, {"accuracy": accuracy})]
    return Outcome(
        ended="finished", steps=1, seconds=1.0, bytes_up=1, bytes_down=1, points=points, staleness={}
    )


def known(method: str, **accuracies: float) -> Results:
    """Results of the rates of a method at the first place, by rate."""
    results = Results()
    for rate, cell in zip(RATES[method], grid_of("quick", PLACE, method).cells(), strict=True):
        if (accuracy := accuracies.get(f"r{rate:g}".replace(".", "_"))) is not None:
            results.add(cell, 0, outcome(accuracy))
    return results


def names(results: Results) -> list[str]:
    return [cell.name for cell in cells("quick", results)]


def test_the_defaults_are_those_that_were_studied() -> None:
    assert algorithms.two_way() == algorithms.two_way(**BASE)


def test_a_method_is_judged_at_the_best_of_its_rates_once_all_are_known() -> None:
    assert RATES["two_way"] == RATES[ADAPTIVE] == (0.003, 0.01)
    assert judging(PLACE, "two_way") not in names(known("two_way", r0_003=0.7))
    found = known("two_way", r0_003=0.7, r0_01=0.8)
    assert judging(PLACE, "two_way") in names(found) and judging(PLACE, "FedAMS") not in names(found)
    [judged] = [cell for cell in cells("quick", found) if cell.name == judging(PLACE, "two_way")]
    assert judged.algorithm.server_opt.lr == 0.01


def test_mnist_takes_the_rate_of_its_split() -> None:
    """Not of the other split: grids are on Fashion-MNIST, one for each."""
    found = names(known("two_way", r0_003=0.8, r0_01=0.7))
    assert judging("MNIST, iid", "two_way") in found and judging("MNIST, two shards", "two_way") not in found
    assert {grid.name.split(":")[0] for grid in grids("quick")} == {tuned_at(place) for place in PLACES}


def test_no_task_is_tuned_on_and_judged() -> None:
    assert not {bed.task for bed in TUNING.values()} & {bed.task for bed in PLACES.values()}
    assert not {bed.task.name for bed in TUNING.values()} & {bed.task.name for bed in PLACES.values()}


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


def test_every_parameter_is_varied_on_every_tuning_task_and_quick_the_codecs_are() -> None:
    labels = [set(tuned("full", bed)) for bed in TUNING]
    assert labels[0] == labels[1] == labels[2] and "base" in labels[0]
    assert all(set(CODECS) <= set(tuned("quick", bed)) for bed in TUNING)
    assert set(VARIED) <= set(tuned("quick", "synthetic")) and "b1 0" not in tuned("quick", "Shakespeare")


def lazily(gap: float, skipped: float) -> Verdict:
    """Five seeds of a lazy uplink that ends so many points ahead and skips this share."""
    made, bed = Results(), next(iter(LAZINESS))
    for label, points, share in (("never", 0.8, 0.0), (LAZIEST, 0.8 + gap / 100, skipped)):
        cell = replace(cells("quick", Results())[0], name=laziness(bed, label))
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
