"""The bidirectional paper's methods at their own best, judged by what they spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fedpace import simulate, tasks
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way import bits as two_way_bits
from fedpace.reproduce.two_way.budgets import (
    COSTS,
    Spending,
    at_budget,
    by_bytes,
    bytes_budgets,
    rivals_at,
    seconds_on_a_link,
    told,
)
from fedpace.reproduce.two_way.cells import BASELINES, METHODS, DataSplit
from fedpace.reproduce.two_way.tuned import (
    ALL,
    EVERYWHERE,
    FIGURES,
    NOT_EVERYWHERE,
    TUNED,
    cells,
    grids,
    ran,
    short,
    short_lengths,
    tuned,
)

from . import conftest
from .conftest import outcome
from .test_two_way_firing import of_twenty_clients

IID = DataSplit("Fashion-MNIST", "iid")
TEN = 10
CHOICES = {grid.name: (grid.rates[0], grid.others[-1]) for grid in grids("quick")}


def results(figures: Mapping[str, Sequence[Outcome]]) -> Results:
    return of_twenty_clients(conftest.results(figures))


def test_a_choice_serves_every_place_of_its_split() -> None:
    names = {cell.name: cell for cell in cells("quick", Results(choices=CHOICES))}
    judged = [names[tuned(place, m)] for m in TUNED for place in NOT_EVERYWHERE.get(m, EVERYWHERE)]
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


def test_a_tuned_cell_is_not_compared_with_one_that_is_not() -> None:
    made = results({tuned(IID, method): [outcome([0.5])] for method in ("FedAMS", "FedCAMS 1/8")})
    assert ran(made, IID, "FedAMS", "FedCAMS 1/8") == {m: tuned(IID, m) for m in ("FedAMS", "FedCAMS 1/8")}
    assert ran(made, IID, "FedAMS", "two_way 1/8") == {
        m: f"Fashion-MNIST iid {m}" for m in ("FedAMS", "two_way 1/8")
    }


def test_every_method_of_a_comparison_is_tuned_with_the_same_grid() -> None:
    sizes = {
        method: [
            len(grid.others) * len(grid.rates) for grid in grids("quick") if grid.name == tuned(IID, method)
        ]
        for method in TUNED
    }
    assert sizes["FedCAMS 1/8"] == sizes["two_way 1/8"] == sizes["FedAMS"] == [12]
    names = {cell.name: cell for cell in cells("quick", Results(choices=CHOICES))}
    ours = names[tuned(IID, "two_way 1/8")].algorithm
    assert (ours.down.codec.ratio, ours.up.codec.ratio, ours.per_tensor) == (1 / 8, 1 / 8, False)
    assert {names[tuned(IID, m)].algorithm.up.tau for m in ("FedACA 1/8", "FedBACA 1/8")} == {1.5}
    assert tuned(DataSplit("MNIST", "iid", ALL), "FedAvg") in names


def test_baselines_are_tuned_for_few_rounds_too_by_what_they_reach_in_them() -> None:
    made = {grid.name: grid for grid in grids("quick") if grid.name.endswith(f", {TEN} rounds")}
    assert list(made) == [
        short(DataSplit("Fashion-MNIST", s), m, TEN) for s in ("iid", "non-iid") for m in BASELINES
    ]
    assert {(cell.rounds, cell.evaluate_every) for grid in made.values() for cell in grid.cells()} == {
        (10, 1)
    }
    judged = {cell.name: cell for cell in cells("quick", Results(choices=CHOICES))}
    assert all(judged[short(place, m, TEN)].rounds == TEN for place in EVERYWHERE for m in BASELINES)


def test_short_runs_are_those_that_are_tuned_and_run() -> None:
    """Rivals of FedACA are tuned on non-iid data, where its rule fires; for seconds on Fashion-MNIST alone."""
    uneven = DataSplit("MNIST", "non-iid", ALL)
    assert short_lengths(uneven, "FedAdam") == (10, 36)
    assert short_lengths(uneven, "FedACA 1/8") == (18,)
    assert short_lengths(IID, "FedAdam") == (10, 22)
    assert short_lengths(IID, "FedACA 1/8") == short_lengths(uneven, "FedBACA 1/8") == ()
    names = {cell.name: cell.rounds for cell in cells("quick", Results(choices=CHOICES))}
    for place in EVERYWHERE:
        for method in TUNED:
            for rounds in short_lengths(place, method):
                assert names[short(place, method, rounds)] == rounds
    assert not any(grid.name.endswith("36 rounds") for grid in grids("full"))


def test_first_models_are_sent_whole_by_all_methods_or_none() -> None:
    known = Results(
        choices={grid.name: (grid.rates[0], grid.others[-1]) for grid in two_way_bits.grids("quick")}
    )
    links = [cell.algorithm.down for cell in two_way_bits.cells("quick", known)]
    assert {link.first for link in links if hasattr(link, "first")} == {"dense"}


def test_the_downlinks_rule_fires_where_it_has_a_threshold() -> None:
    """Algorithm 2, line 7: by NLA the client keeps its model, by AA two models are added."""
    task = tasks.load("digits", 10, "iid", "mlp:16", 0)
    work = {"client_lr": 0.05, "steps": 5, "batch_size": 32, "clients_per_round": 5}
    for method in ("FedBNLACA 1/8, tau_down 0.9", "FedBACA 1/8, tau_down 0.9"):
        made = simulate(METHODS[method](0.03, work), task, rounds=8, seed=0)
        assert made.traffic["down"]["firing_rate"] > 0.05


# ------------------------------------------------------------------------------------ claims at equal bytes


def at_place(place: DataSplit, rate: float) -> dict[str, list[Outcome]]:
    """All methods of a place; the paper's are better, and their rules fire in this share of uploads."""

    def runs(accuracy: float, fired: float) -> list[Outcome]:
        traffic = {side: {"firing_rate": fired, "frames": 600} for side in ("up", "down")}
        return [outcome([accuracy + seed / 1000] * 6, traffic=traffic) for seed in range(5)]

    rivals = {tuned(place, method): runs(0.5, 0.0) for method in BASELINES}
    methods = ("FedNLAA", "FedACA 1/8", "FedBACA 1/8")
    return rivals | {tuned(place, method): runs(0.6, rate) for method in methods}


@pytest.mark.parametrize(("rate", "verdict"), [(0.5, Verdict.REPRODUCED), (0.001, Verdict.NOT_TESTED)])
def test_a_method_whose_rule_never_fired_was_not_tested(rate: float, verdict: Verdict) -> None:
    """FedNLAA is FedAMS then, FedACA is FedCAMS, FedBACA error feedback both ways."""
    found = settled("quick", two_way_bits.findings("quick", results(at_place(IID, rate))))
    rows = [f for f in found if f.claim.endswith("(Fashion-MNIST, iid)") and "up and both ways (" in f.claim]
    assert {f.claim.split()[0]: f.verdict for f in rows} == dict.fromkeys(
        ("FedNLAA", "FedACA", "FedBACA"), verdict
    )


def test_accuracy_at_a_budget_is_on_the_line_between_two_evaluations() -> None:
    """15 bytes a step: after 22.5 a run is half way from its first evaluation to its second."""
    run = outcome([0.2, 0.4, 0.8])
    spent = [float(point.bytes) for point in run.points]
    halfway = at_budget((spent[0] + spent[1]) / 2, COSTS["both ways"])
    assert halfway(run) == pytest.approx(30.0)
    assert at_budget(10 * spent[-1], COSTS["both ways"])(run) == pytest.approx(80.0)
    assert at_budget(spent[0] / 2, COSTS["both ways"])(run) is None


def test_a_rival_is_the_one_tuned_for_about_the_budget() -> None:
    """Evaluations are 15 bytes apart: two of them are within what the short runs of three spend, six are not."""
    made = at_place(IID, 0.5)
    made |= {short(IID, m, TEN): [outcome([0.7 + seed / 1000] * 3) for seed in range(5)] for m in BASELINES}
    known = results(made)
    cost = COSTS["both ways"]
    spent = [point.bytes for point in outcome([0.5] * 6).points]
    few, usual = (rivals_at(known, IID, "FedBACA 1/8", spent[at], cost) for at in (1, 5))
    assert few == ({m: short(IID, m, TEN) for m in BASELINES}, TEN)
    assert usual == ({m: tuned(IID, m) for m in BASELINES}, known.cells[tuned(IID, "FedAvg")].rounds)
    made |= {short(IID, m, 22): [outcome([0.7 + seed / 1000] * 6) for seed in range(5)] for m in BASELINES}
    lengthened = [rivals_at(results(made), IID, "FedBACA 1/8", spent[at], cost).rounds for at in (1, 5)]
    assert lengthened == [TEN, 22]
    own = tuned(IID, "FedBACA 1/8")
    made[own] = [outcome([0.6 + seed / 1000] * 2, traffic=made[own][0].traffic) for seed in range(5)]
    [found] = settled("quick", [by_bytes(results(made), IID, "FedBACA 1/8", "a figure")])
    assert found.verdict is Verdict.CONTRADICTED
    assert found.ours.count("rivals tuned for 10 rounds") == 1


def test_accuracies_are_told_once_where_both_budgets_have_the_same() -> None:
    """Each with the length that rivals were tuned for, as soon as these differ."""
    place = DataSplit("Fashion-MNIST", "non-iid")
    known = results(at_place(place, 0.5))
    budgets = bytes_budgets(known, place, "FedNLAA")
    assert told(known, list(budgets.values())) == (
        "after 0.0 MB both ways or 0.0 MB up, rivals tuned for 3 rounds: "
        "FedNLAA 60.2 ± 0.2, FedAvg 50.2 ± 0.2, FedAdam 50.2 ± 0.2, FedAMS 50.2 ± 0.2 %"
    )
    both, up = budgets.values()
    other = up._replace(rivals=up.rivals._replace(rounds=TEN))
    assert told(known, [both, other]).count("rivals tuned for") == 2
    later = up._replace(measure=lambda run: 1.0)
    assert told(known, [both, later]).startswith("rivals tuned for 3 rounds; after")
    cost = COSTS["up"]
    untuned = results({f"Fashion-MNIST iid {m}": [outcome([0.5])] for m in (*BASELINES, "FedNLAA")})
    assert str(Spending.of(untuned, IID, "FedNLAA", cost, "{}").rivals) == "rivals not tuned"


def test_bytes_up_and_both_ways_are_one_claim_of_one_figure() -> None:
    [found] = [
        f
        for f in two_way_bits.findings("quick", results(at_place(IID, 0.5)))
        if f.claim.startswith("FedBACA 1/8 is more accurate than FedAvg")
        and f.comparisons
        and "bytes" in f.claim
    ]
    assert len({one.what for one in found.comparisons}) == 2 * len(BASELINES)
    assert found.family == "Figure 9"
    assert FIGURES[DataSplit("MNIST", "non-iid", ALL)] == "Figure 8"


def test_a_tiny_ratio_is_judged_at_what_it_sends() -> None:
    """It ends at 30 % after a third of the bytes, when the other ratio has 20 of its 70."""
    accuracies = {"1/8": [0.1, 0.2, 0.4, 0.6, 0.65, 0.7], "1/128": [0.2, 0.3]}
    made = {}
    for method in ("FedBACA", "FedBNLACA"):
        for power, (ratio, values) in enumerate(accuracies.items(), start=1):
            made[f"Fashion-MNIST iid {method} {ratio}"] = [
                outcome([each + seed**power / 1000 for each in values], traffic={"up": {"firing_rate": 0.0}})
                for seed in range(5)
            ]
    [found] = [
        f
        for f in settled("quick", two_way_bits.findings("quick", results(made)))
        if "1/128" in f.claim and f.comparisons
    ]
    assert (found.verdict, found.source) == (Verdict.REPRODUCED, "own")
    assert found.interval is not None and 9 < found.interval[0] < found.interval[1] < 12
    assert "every evaluation on 5 of 5 seeds" in found.note and len(found.comparisons) == 1


def test_rivals_are_tuned_for_few_rounds_all_of_them_or_none() -> None:
    made = at_place(IID, 0.5) | {short(IID, "FedAvg", TEN): [outcome([0.7] * 3)] * 5}
    found = rivals_at(results(made), IID, "FedBACA 1/8", 15.0, COSTS["both ways"])
    assert found.names == {m: tuned(IID, m) for m in BASELINES}


def test_fedaca_is_tuned_for_what_fedbaca_sends() -> None:
    """It has 60 % in its usual run and 70 % in a short one, which is the one that counts: FedBACA has 60 %."""
    place = DataSplit("Fashion-MNIST", "non-iid")
    made = at_place(place, 0.5)
    fired = made[tuned(place, "FedACA 1/8")][0].traffic
    made[short(place, "FedACA 1/8", 18)] = [
        outcome([0.7 + seed**2 / 1000] * 6, traffic=fired) for seed in range(5)
    ]
    found = settled("quick", two_way_bits.findings("quick", results(made)))
    [row] = [f for f in found if "than FedACA 1/8 at equal bytes" in f.claim and f.comparisons]
    assert row.verdict is Verdict.CONTRADICTED
    assert "both ways, rivals tuned for 18 rounds: FedBACA 1/8 60" in row.ours


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
