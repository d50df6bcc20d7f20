"""The bidirectional paper's claims with a small CNN: what its grids take over from the MLP's, and what is judged."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedpace.pace import Rounds
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way import bits, cnn
from fedpace.reproduce.two_way.cells import BASELINES, CNN, DATA, PARTITION, DataSplit, where
from fedpace.reproduce.two_way.tuned import ALL, FIGURES, WITH_A_CNN, short, tuned

from .conftest import outcome, results
from .test_two_way_firing import of_twenty_clients

COMMITTED = Path(__file__).parents[2] / "docs/results/two-way-bits/tuning.json"
CHOICES = {grid.name: (grid.rates[0], grid.others[0]) for grid in cnn.grids()}
SEVEN = 7  # rounds of rivals for FedBACA's bytes


@pytest.mark.parametrize(
    ("split", "method"), [(split, method) for split in cnn.TUNED_AT for method in cnn.METHODS[split]]
)
def test_b1_and_the_threshold_of_nla_are_what_the_mlp_chose(split: str, method: str) -> None:
    choices = json.loads(COMMITTED.read_text())["quick"]
    chosen = choices[tuned(DataSplit("Fashion-MNIST", split), method)]["other"]
    [grid] = [g for g in cnn.grids() if g.name == tuned(cnn.TUNED_AT[split], method)]
    parts = [part for part in chosen.split(", ") if part.startswith("b1")]
    parts += [part for part in chosen.split(", ") if part.startswith("tau") and method == "FedNLAA"]
    assert all(part in other.split(", ") for other in grid.others for part in parts)
    assert len(grid.others) == {"FedAvg": 1, "FedACA 1/8": 6, "FedBACA 1/8": 6}.get(method, 2)


def test_its_cells_have_a_cnn_and_run_only_by_name() -> None:
    cells = {cell.name: cell for cell in cnn.cells(Results(choices=CHOICES))}
    assert {cell.task.model for cell in cells.values()} == {"cnn:8"}
    assert all(cell.by_name for cell in cells.values())
    non_iid = cnn.TUNED_AT["non-iid"]
    judged = [cells[tuned(non_iid, method)] for method in cnn.METHODS["non-iid"]]
    assert {(cell.rounds, cell.seeds) for cell in judged} == {(40, None)}
    assert {cells[short(non_iid, method, SEVEN)].rounds for method in BASELINES} == {7}
    assert cells[tuned(non_iid, "FedBACA 1/8")].algorithm.up.tau == 0.3
    assert set(cells) <= {cell.name for cell in bits.cells("quick", Results(choices=CHOICES))}
    assert not any("CNN" in cell.name for cell in bits.cells("full", Results(choices=CHOICES)))


@pytest.mark.parametrize("place", WITH_A_CNN, ids=where)
def test_uncompressed_methods_take_the_settings_of_their_split_in_whole_runs(place: DataSplit) -> None:
    cells = {cell.name: cell for cell in cnn.cells(Results(choices=CHOICES))}
    for method in set(cnn.METHODS[place.split]) - set(cnn.WITH_AA):
        chosen = cells[tuned(cnn.TUNED_AT[place.split], method)].algorithm
        made = cells[tuned(place, method)]
        assert made.algorithm == replace(chosen, pace=Rounds() if place.participation else chosen.pace)
        assert (made.task.name, made.rounds) == (DATA[place.data], 40)
        assert (tuned(place, method) in CHOICES) == (place in cnn.TUNED_AT.values())


@pytest.mark.parametrize("place", WITH_A_CNN, ids=where)
def test_what_is_compared_with_fedbaca_is_tuned_at_every_place(place: DataSplit) -> None:
    """FedBACA and FedACA in short runs first; their rivals for FedBACA's bytes."""
    every = {grid.name: grid for grid in cnn.grids()}
    begun = [every[tuned(place, m)] for m in cnn.METHODS[place.split] if m in cnn.WITH_AA]
    few = [every[short(place, m, SEVEN)] for m in BASELINES]
    for cell in (cell for grid in (*begun, *few) for cell in grid.cells()):
        assert (cell.task.name, cell.task.partition) == (DATA[place.data], PARTITION[place.split])
        assert cell.algorithm.pace == (Rounds() if place.participation else Rounds(10))
    whole = (40, None) if place in cnn.UNSTABLE else (12, 40)  # FedBACA, the last
    lengths = [{(cell.rounds, grid.judged_rounds) for cell in grid.cells()} for grid in begun]
    assert lengths[-1] == {whole} and all(length == {(12, 40)} for length in lengths[:-1])
    assert [len(grid.cells()) for grid in few] == [2, 6, 6] and {len(grid.cells()) for grid in begun} == {18}


def test_every_figure_from_5_to_20_has_a_place() -> None:
    """Those from 13 on have a CNN, one to four are figures of it, too."""
    numbers = {place: [int(number) for number in re.findall(r"\d+", told)] for place, told in FIGURES.items()}
    assert sorted(sum(numbers.values(), [])) == list(range(1, 21))
    assert all((min(own) > 12 or min(own) < 5) == (place.network == CNN) for place, own in numbers.items())
    assert numbers[DataSplit("MNIST", "non-iid", ALL, CNN)] == [16]
    assert numbers[DataSplit("Fashion-MNIST", "iid", ALL, CNN)] == [18]


def test_on_iid_data_only_the_method_is_judged_whose_rule_fires_with_the_mlp() -> None:
    assert cnn.judged("iid") == ["FedBACA 1/8"]
    assert cnn.judged("non-iid") == ["FedNLAA", "FedACA 1/8", "FedBACA 1/8"]


def test_rivals_at_the_budget_of_compressed_uploads_are_those_of_short_runs() -> None:
    """They are ahead at the settings of a whole run and behind at those of short ones, which decide here."""
    place = cnn.TUNED_AT["iid"]
    fired = {"up": {"firing_rate": 0.1, "frames": 400}, "down": {}}
    ends = {
        tuned(place, "FedBACA 1/8"): [outcome([0.5, 0.7 + seed / 100], traffic=fired) for seed in range(5)]
    }
    for method in BASELINES:
        ends[tuned(place, method)] = [outcome([0.9, 0.9]) for _ in range(5)]
        ends[short(place, method, SEVEN)] = [outcome([0.4, 0.6]) for _ in range(5)]
    found = settled("quick", bits.findings("quick", of_twenty_clients(results(ends))))
    [row] = [f for f in found if f.claim.endswith("(Fashion-MNIST, iid, CNN)") and "FedBACA" in f.claim]
    assert row.verdict is Verdict.REPRODUCED and "rivals tuned for 7 rounds" in row.ours
    assert row.family == "Figures 1, 2, 17"


@pytest.mark.parametrize("data", ["MNIST", "Fashion-MNIST"])
def test_a_method_near_chance_counts_where_it_was_tuned(data: str) -> None:
    place = DataSplit(data, "non-iid", network=CNN)
    fired = {"up": {"firing_rate": 0.1, "frames": 400}, "down": {}}
    ends = {method: 0.9 for method in BASELINES} | {"FedBACA 1/8": 0.1}
    made = {
        tuned(place, method): [outcome([least + seed / 1000] * 4, traffic=fired) for seed in range(5)]
        for method, least in ends.items()
    }
    found = settled("quick", bits.findings("quick", of_twenty_clients(results(made))))
    rows = [f for f in found if f.claim.endswith(f"up and both ways ({data}, non-iid, CNN)")]
    [row] = [f for f in rows if f.claim.startswith("FedBACA")]
    assert row.verdict is Verdict.CONTRADICTED


@pytest.mark.parametrize(("worst", "verdict"), [(0.3, Verdict.REPRODUCED), (0.5, Verdict.CONTRADICTED)])
def test_fedavg_is_the_least_accurate_if_it_is_behind_every_other(worst: float, verdict: Verdict) -> None:
    """FedAMS has 40 %, the others 60."""
    place = cnn.TUNED_AT["non-iid"]
    ends = {"FedAvg": worst, "FedAdam": 0.6, "FedAMS": 0.4, "FedNLAA": 0.6}
    made = {
        tuned(place, method): [
            outcome([end + seed**power / 1000] * 4, traffic={"up": {"firing_rate": 0.1, "frames": 400}})
            for seed in range(5)
        ]
        for power, (method, end) in enumerate(ends.items())
    }
    found = settled("quick", bits.findings("quick", of_twenty_clients(results(made))))
    [row] = [f for f in found if f.claim.startswith("FedAvg is the least accurate")]
    assert (row.verdict, row.family) == (verdict, "Figures 3, 4, 19")
    assert len(row.comparisons) == 2 * 3 and "FedNLAA: its rule fired in 10.0%" in row.note
    assert "added after the first runs" in row.note
