"""What pictures show of runs that end early, and of those that never reach their target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.defedavg import speedup, table1
from fedpace.reproduce.defedavg.setting import CENSORED, SCALES
from fedpace.reproduce.fedgm import large_lr
from fedpace.reproduce.fednova import objective_inconsistency
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.own import robustness_page
from fedpace.reproduce.own.robustness_cells import ATTACKS, SPLITS, cell_name, rules
from fedpace.reproduce.results import Results, mean_curve
from fedpace.reproduce.run import simulated
from fedpace.reproduce.two_way import defaults
from fedpace.reproduce.two_way.judging import PLACES, judging

from .conftest import cell, outcome, results


def late(outcome: Outcome, factor: float) -> Outcome:
    """The same run on slower clients."""
    return replace(outcome, points=[replace(p, seconds=factor * p.seconds) for p in outcome.points])


# ------------------------------------------------------------------------------------ runs of different lengths


def test_a_run_that_ended_at_its_target_keeps_its_last_value() -> None:
    runs = [outcome([0.2, 0.8]), outcome([0.4, 0.6, 0.7, 0.9])]
    xs, mean, deviation = mean_curve(runs, draw.steps, target=0.8)
    assert xs == [1, 2, 3, 4]
    assert mean == pytest.approx([0.3, 0.7, 0.75, 0.85])
    assert deviation[-1] == pytest.approx(0.1 / np.sqrt(2))


def test_a_mean_of_runs_that_all_ended_at_their_target_ends_above_it() -> None:
    runs = [outcome([0.1] * before + [0.8 + before / 100]) for before in (2, 5, 9)]
    _, mean, _ = mean_curve(runs, draw.steps, target=0.8)
    assert len(mean) == 10 and mean[-1] >= 0.8 > mean[-2]
    _, smooth, _ = mean_curve(runs, draw.steps, smooth=2, target=0.8)
    assert len(smooth) == 10


def test_past_the_end_of_a_run_time_advances_as_for_the_others() -> None:
    """Evaluations after 2 and 4 s, and after 3, 6 and 9 s: (2 + 3)/2, (4 + 6)/2, and 3 s later."""
    runs = [outcome([0.2, 0.8]), late(outcome([0.2, 0.5, 0.9]), 1.5)]
    assert mean_curve(runs, draw.seconds, target=0.8)[0] == [2.5, 5.0, 8.0]


@pytest.mark.parametrize("ended", ["settled", "diverged"])
def test_nothing_is_made_up_for_a_run_that_ended_elsewhere(ended: str) -> None:
    runs = [outcome([0.2, 0.8]), outcome([0.2, 0.3, 0.4], ended=ended), outcome([0.1] * 9 + [0.9])]
    assert mean_curve(runs, draw.steps, target=0.8)[0] == [1, 2, 3]
    assert mean_curve([*runs, outcome([], ended=ended)], draw.steps, target=0.8) == ([], [], [])


def test_runs_of_one_length_and_runs_without_a_target_have_the_curves_they_had() -> None:
    same = [outcome([0.2, 0.8, 0.9]), outcome([0.4, 0.5, 0.8])]
    assert mean_curve(same, draw.seconds, target=0.8) == mean_curve(same, draw.seconds)
    assert mean_curve([outcome([0.2, 0.8]), outcome([0.9])], draw.steps)[0] == [1]


def test_curves_take_the_target_of_their_cell() -> None:
    made = Results()
    for seed, run in enumerate((outcome([0.2, 0.8]), outcome([0.1, 0.2, 0.3, 0.9]))):
        made.add(cell("a", stop_at=0.8), seed, run)
        made.add(cell("b"), seed, run)
    _, axes = draw.sheet(1)
    draw.curves(axes[0][0], made, {"a": "a", "b": "b"})
    assert [len(line.get_xdata()) for line in axes[0][0].lines] == [4, 2]


# ---------------------------------------------------------------------------------------------- lower bounds


def costs(made: Results) -> dict[str, list]:
    """What is drawn, by marker face: (n, cost)."""
    _, axes = draw.sheet(1)
    draw.costs(axes[0][0], made, {"method": {n: f"n={n}" for n in (10, 20, 40)}}, 0.8, draw.steps)
    shown: dict[str, list] = {"filled": [], "hollow": [], "legend": axes[0][0].get_legend_handles_labels()[1]}
    for line in axes[0][0].lines:
        kind = "hollow" if line.get_markerfacecolor() == "white" else "filled"
        shown[kind] += [(x, y) for x, y in line.get_xydata() if np.isfinite(y)]
    return shown


def test_a_cost_that_some_runs_do_not_pay_off_is_a_hollow_lower_bound() -> None:
    """The run that does not get there in four steps counts with them: (2 + 4) / 2."""
    made = {
        "n=10": [outcome([0.8]), outcome([0.1, 0.1, 0.8])],
        "n=20": [outcome([0.1, 0.8]), outcome([0.1] * 4)],
    }
    assert costs(results(made)) == {
        "filled": [(10, 2)],
        "hollow": [(20, 3)],
        "legend": ["method", draw.BOUND],
    }


def test_where_all_runs_get_there_no_bound_is_explained() -> None:
    assert costs(results({"n=10": [outcome([0.8])]})) == {
        "filled": [(10, 1)],
        "hollow": [],
        "legend": ["method"],
    }


def test_a_run_that_diverged_bounds_nothing() -> None:
    gone = outcome([0.1], ended="diverged")
    assert costs(results({"n=10": [gone]}))["hollow"] == []
    assert costs(results({"n=10": [gone, outcome([0.1] * 6)]}))["hollow"] == [(10, 6)]


def test_lower_bounds_come_last_in_a_legend() -> None:
    figure, panels = draw.panels(3, columns=2)
    draw.marked(panels[0], {10: 1.0, 20: 2.0}, "one", 0, bounds=[20])
    draw.marked(panels[1], {10: 1.0}, "two", 1)
    draw.legend_below(figure, panels, 3)
    assert len(figure.axes) == 3
    assert [text.get_text() for text in figure.legends[0].texts] == ["one", "two", draw.BOUND]


def hollow(axes) -> list[float]:
    return [
        y for line in axes.lines if line.get_markerfacecolor() == "white" for y in line.get_ydata() if y > 0
    ]


def test_table_1_shows_arrivals_and_methods_that_do_not_arrive() -> None:
    target = SCALES["quick"].target["iid"]
    ends = {"FedAvg": [target, target], "AsySG": [0.1, 0.1], "DeFedAvg": [target, 0.1]}
    made = Results()
    for method, accuracies in ends.items():
        for seed, end in enumerate(accuracies):
            name = table1.name("iid", method, 10)
            made.add(cell(name, stop_at=target), seed, outcome([0.1] * (4 + 2 * seed) + [end]))
    curves, here, printed = table1.pictures("quick", made)["seconds"].axes[:3]
    fedavg = curves.lines[0]
    assert len(fedavg.get_ydata()) == 7 and fedavg.get_ydata()[-1] == pytest.approx(100 * target)
    assert hollow(here) == [pytest.approx(12), pytest.approx(12)]  # (10 + 14) / 2 s
    assert hollow(printed) == [CENSORED]


def test_speedup_marks_n_at_which_not_all_runs_get_there() -> None:
    made = results({speedup.by_n("iid", 5): [outcome([0.1, 0.9]), outcome([0.1] * 6)]})
    panel = speedup.pictures("quick", made)["speedup"].axes[1]
    assert hollow(panel) == [4.0]
    assert panel.get_title(loc="left") == "iid: server steps to 81%"


# ---------------------------------------------------------------------------------------- single experiments


def test_the_bound_of_theorem_2_is_drawn_above_every_method() -> None:
    cells = [c for c in objective_inconsistency.cells("quick", Results()) if c.name.startswith("spread")]
    made = Results()
    for each in cells:
        made.add(each, 0, simulated(each, 0, rounds=100))
    right = objective_inconsistency.pictures("quick", made)["bias"].axes[1]
    *methods, bound = (np.array(line.get_ydata(), float) for line in right.lines)
    assert len(methods) == len(objective_inconsistency.METHODS)
    assert all((left < bound).all() for left in methods)


def test_the_runs_behind_training_curves_are_not_tabulated_twice() -> None:
    made = results({name: [outcome([0.5] * 8)] for name in ("FedGM rate 1", "FedGM rate 1, training loss")})
    [table] = large_lr.tables("quick", made)
    assert [row[0] for row in table.rows] == ["FedGM rate 1"]


def test_pictures_of_many_panels_are_laid_out_in_rows() -> None:
    """At 150 dots per inch a page of 1600 pixels is 10.7 inches wide."""
    widest = 1600 / 150
    judged = results({judging(place, "two_way"): [outcome([0.5, 0.6])] for place in PLACES})
    assert defaults.pictures("quick", judged)["judging"].get_figwidth() <= widest
    plain = {cell_name(split, "buffered", rule): [outcome([0.9])] for split in SPLITS for rule in rules(10)}
    figure = robustness_page.pictures("full", results(plain))["buffered"]
    assert figure.get_figwidth() <= widest
    assert len(figure.axes) == len(SPLITS) * len(ATTACKS)


def test_every_rule_has_a_look_of_its_own() -> None:
    """Median and trimmed mean 0.4 nearly agree: the one above is broken, and its marker another."""
    looks = [robustness_page._look(at) for at, _ in enumerate(rules(10))]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == len(looks)
    assert len({look["marker"] for look in looks}) == len(looks)
    median, trimmed = (looks[list(rules(10)).index(rule)] for rule in ("median", "trimmed mean 0.4"))
    assert median["zorder"] > trimmed["zorder"] and median["linewidth"] < trimmed["linewidth"]
