"""The bidirectional paper's methods at their own best, judged by what they spend."""

from __future__ import annotations

import pytest

from fedpace.reproduce import two_way_bits
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_budgets import seconds_on_a_link, to_target
from fedpace.reproduce.two_way_cells import BASELINES, DataSplit
from fedpace.reproduce.two_way_tuned import ALL, EVERYWHERE, TUNED, cells, grids, ran, tuned

from .conftest import outcome, results

IID = DataSplit("Fashion-MNIST", "iid")
CHOICES = {grid.name: (grid.rates[0], grid.others[-1]) for grid in grids("quick")}


def test_a_choice_serves_every_place_of_its_split() -> None:
    names = {cell.name: cell for cell in cells("quick", Results(choices=CHOICES))}
    judged = [names[tuned(place, method)] for place in EVERYWHERE for method in TUNED]
    assert all(cell.seeds is None for cell in judged)
    full = names[tuned(DataSplit("Fashion-MNIST", "iid", ALL), "FedBACA 1/8")]
    half = names[tuned(IID, "FedBACA 1/8")]
    assert (full.algorithm.pace.clients_per_round, half.algorithm.pace.clients_per_round) == (None, 10)
    assert full.algorithm.server_opt == half.algorithm.server_opt


def test_server_rates_are_smaller_where_steps_adapt() -> None:
    grid = next(grid for grid in grids("quick") if grid.name == tuned(IID, "FedAMS"))
    rates = {other: grid.cell(0.1, other).algorithm.server_opt.lr for other in grid.others}
    assert rates[", eps 0.001, b1 0.9"] == 0.1
    assert rates[", eps 1e-07, b1 0"] == pytest.approx(0.01)


def test_tuned_cells_are_judged_once_all_of_a_place_are_there() -> None:
    made = results({tuned(IID, method): [outcome([0.5])] for method in TUNED})
    assert ran(made, IID, "FedAMS") == tuned(IID, "FedAMS")
    assert ran(Results(), IID, "FedAMS") == "Fashion-MNIST iid FedAMS"


def test_fewer_bytes_to_the_target_are_a_ratio_of_costs() -> None:
    def runs(steps: int) -> list[Outcome]:
        return [outcome([0.1] * (steps + seed) + [0.9] * 20) for seed in range(5)]

    def verdict(ours: int) -> Verdict:
        made = {f"Fashion-MNIST iid {method}": runs(40) for method in BASELINES}
        made["Fashion-MNIST iid FedBACA 1/8"] = runs(ours)
        return settled("quick", [to_target(results(made), IID, "FedBACA 1/8", "both ways", "Figure 2")])[
            0
        ].verdict

    assert verdict(10) is Verdict.REPRODUCED
    assert verdict(80) is Verdict.CONTRADICTED


def test_seconds_on_a_link_are_training_and_one_clients_share_of_the_bytes() -> None:
    """Two steps of 15 bytes for three clients: 2 s, and 10 bytes at 125,000 bytes a second."""
    assert seconds_on_a_link(3)(outcome([0.1, 0.2]).points[-1]) == pytest.approx(2 + 10 / 125_000)


def test_the_page_has_a_table_for_full_participation_when_it_was_run() -> None:
    place = DataSplit("Fashion-MNIST", "iid", ALL)
    traffic = {side: {"value_bits": 1.0, "index_bits": 0.0, "firing_rate": 0.0} for side in ("up", "down")}
    made = results({tuned(place, "FedAvg"): [outcome([0.5], traffic=traffic)]})
    [table] = two_way_bits.tables("quick", made)
    assert table.title == "Fashion-MNIST, iid, all clients"
    assert [row[0] for row in table.rows] == ["FedAvg, tuned"]
