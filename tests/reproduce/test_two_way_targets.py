"""What a target costs the bidirectional paper's methods and their rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fedpace import algorithms
from fedpace.reproduce.experiment import Finding, Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way.budgets import COSTS
from fedpace.reproduce.two_way.cells import BASELINES, PLACES, DataSplit
from fedpace.reproduce.two_way.findings import SAID
from fedpace.reproduce.two_way.targets import TARGETS, read_alike, to_target
from fedpace.reproduce.two_way.tuned import short, tuned

from .conftest import outcome, results
from .test_two_way_firing import of_twenty_clients

IID = DataSplit("Fashion-MNIST", "iid")
TEN = 10
OTHER = algorithms.fedavg(client_lr=0.25, steps=1, batch_size=None)
FIRED = {"up": {"firing_rate": 0.5, "frames": 600}}


def judged(figures: Mapping[str, Sequence[Outcome]], others: Sequence[str] = ()) -> Finding:
    """FedBACA's row; these cells have other settings than the rest."""
    made = of_twenty_clients(results(figures))
    for name in others:
        made.cells[name] = replace(made.cells[name], algorithm=OTHER)
    return settled("quick", [to_target(made, IID, "FedBACA 1/8", "Figure 2")])[0]


def runs(steps: int, missed: int = 0) -> list[Outcome]:
    """At the target after so many steps; the first seeds do not get there in ten."""
    found = [outcome([0.1] * steps + [0.9] * (10 + seed), traffic=FIRED) for seed in range(5)]
    return [outcome([0.1] * 10, traffic=FIRED)] * missed + found[missed:]


@pytest.mark.parametrize(("ours", "verdict"), [(10, Verdict.REPRODUCED), (80, Verdict.CONTRADICTED)])
def test_fewer_bytes_to_the_target_are_a_ratio_of_costs(ours: int, verdict: Verdict) -> None:
    def later(steps: int) -> list[Outcome]:
        return [outcome([0.1] * (steps + seed) + [0.9] * 20, traffic=FIRED) for seed in range(5)]

    made = {f"Fashion-MNIST iid {method}": later(40) for method in BASELINES}
    assert judged(made | {"Fashion-MNIST iid FedBACA 1/8": later(ours)}).verdict is verdict


@pytest.mark.parametrize(
    ("missed", "verdict"), [(0, Verdict.CONTRADICTED), (1, Verdict.UNDECIDED), (5, Verdict.REPRODUCED)]
)
def test_a_rival_of_short_runs_counts_if_any_of_them_gets_to_the_target(
    missed: int, verdict: Verdict
) -> None:
    """It is there after 3 rounds, FedBACA after 10; one seed of five does not get there and counts with 10."""
    made = {tuned(IID, method): runs(40) for method in BASELINES} | {tuned(IID, "FedBACA 1/8"): runs(10)}
    fast = [short(IID, method, TEN) for method in BASELINES]
    assert judged(made | {name: runs(3, missed) for name in fast}, others=fast).verdict is verdict


def test_a_setting_that_was_chosen_for_several_lengths_counts_once_and_the_best_is_shown() -> None:
    made = {tuned(IID, method): runs(40) for method in BASELINES} | {tuned(IID, "FedBACA 1/8"): runs(10)}
    made |= {short(IID, method, rounds): runs(30) for method in BASELINES for rounds in (10, 22)}
    other = [short(IID, method, 22) for method in BASELINES]
    alike, apart = judged(made), judged(made, others=other)
    assert [len(found.comparisons) for found in (alike, apart)] == [2 * 3, 2 * 6]
    assert {one.what for one in alike.comparisons if "FedAMS" in one.what} == {
        f"FedBACA 1/8 before FedAMS in 10 rounds, bytes {side}" for side in COSTS
    }
    assert alike.ours.count("FedAMS") == apart.ours.count("FedAMS") == 2


OFTEN = outcome([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
SELDOM = replace(OFTEN, points=OFTEN.points[3::4])
CHEAP = replace(OFTEN, points=[replace(point, bytes_up=point.bytes_up // 5) for point in OFTEN.points])
ALL_OF_THEM = list(range(1, 11))


@pytest.mark.parametrize(
    ("one", "other", "read"),
    [
        (OFTEN, SELDOM, ([4, 8, 10], [4, 8])),
        (SELDOM, OFTEN, ([4, 8], [4, 8, 10])),
        (OFTEN, OFTEN, (ALL_OF_THEM, ALL_OF_THEM)),
        (CHEAP, OFTEN, ([5, 10], ALL_OF_THEM)),
        (OFTEN, CHEAP, (ALL_OF_THEM, [5, 10])),
    ],
)
def test_both_sides_are_read_as_far_apart_as_the_one_that_is_evaluated_less_often(
    one: Outcome, other: Outcome, read: tuple[list[int], list[int]]
) -> None:
    """In bytes: in every fourth round, or in every fifth where a round costs a fifth."""
    alike = read_alike(results({"one": [one], "other": [other]}), "one", "other", COSTS["up"])
    assert tuple([point.version for point in alike.of(name)[0].points] for name in ("one", "other")) == read


def of_megabytes(run: Outcome) -> Outcome:
    """15 megabytes a step."""
    millions = [replace(p, bytes_up=10**6 * p.bytes_up, bytes_down=10**6 * p.bytes_down) for p in run.points]
    return replace(run, points=millions)


def test_a_method_is_shown_as_it_is_read_beside_each_rival() -> None:
    """Evaluated in every round it is there after 10; beside a rival that is evaluated in every fourth after 12."""
    made = {tuned(IID, method): runs(40) for method in BASELINES} | {tuned(IID, "FedBACA 1/8"): runs(9)}
    made[tuned(IID, "FedAMS")] = [replace(run, points=run.points[3::4]) for run in runs(40)]
    found = judged({name: [of_megabytes(run) for run in cell] for name, cell in made.items()})
    assert found.ours.split("; up: ")[1] == (
        "FedBACA 1/8 100.0 ± 0.0, FedAvg 410.0 ± 0.0, FedAdam 410.0 ± 0.0 and "
        "FedBACA 1/8 120.0 ± 0.0, FedAMS 440.0 ± 0.0 MB"
    )
    by_rival = {one.what: set(one.smaller) for one in found.comparisons if one.what.endswith("bytes up")}
    assert by_rival == {
        "FedBACA 1/8 before FedAvg, bytes up": {100e6},
        "FedBACA 1/8 before FedAdam, bytes up": {100e6},
        "FedBACA 1/8 before FedAMS, bytes up": {120e6},
    }


def test_every_method_has_a_target_where_half_of_the_clients_take_part() -> None:
    """Ten points more on MNIST, iid, fifteen on the non-iid split."""
    assert {place: TARGETS[place.data][place.split] for place in PLACES} == {
        DataSplit("Fashion-MNIST", "iid"): 0.8,
        DataSplit("Fashion-MNIST", "non-iid"): 0.65,
        DataSplit("MNIST", "iid"): 0.9,
        DataSplit("MNIST", "non-iid"): 0.8,
    }
    found = [to_target(Results(), place, method, "") for place in PLACES for method in SAID]
    assert {finding.verdict for finding in found} == {Verdict.NOT_RUN} and len(found) == 12
