"""Tuned cells in the place of others: all of them or none, and named in the evidence."""

from __future__ import annotations

from dataclasses import replace

from fedpace.reproduce.comparison import above, final_accuracy
from fedpace.reproduce.tuned_cells import at_tuned_rates, tuned

from .conftest import outcome, results


def runs(accuracy: float, seeds: int) -> list:
    return [outcome([accuracy + seed / 1000]) for seed in range(seeds)]


def test_tuned_cells_stand_in_only_once_all_have_as_many_seeds() -> None:
    plain = {"one": runs(0.5, 3), "other": runs(0.4, 3)}
    some = results(plain | {tuned("one"): runs(0.7, 3)})
    few = results(plain | {tuned("one"): runs(0.7, 3), tuned("other"): runs(0.6, 2)})
    whole = results(plain | {tuned("one"): runs(0.7, 3), tuned("other"): runs(0.6, 3)})
    assert at_tuned_rates(some, plain) is some
    assert at_tuned_rates(few, plain) is few
    assert at_tuned_rates(whole, plain).final("other").mean == whole.final(tuned("other")).mean


def test_a_tuned_cell_that_has_so_many_seeds_is_not_asked_for_more() -> None:
    known = results({"one": runs(0.5, 4), tuned("one"): runs(0.7, 3)})
    assert at_tuned_rates(known, ["one"]) is known
    known.cells[tuned("one")] = replace(known.cells[tuned("one")], seeds=3)
    assert len(at_tuned_rates(known, ["one"]).of("one")) == 3


def test_a_comparison_names_the_cells_that_were_run() -> None:
    known = results({"one": runs(0.5, 2), tuned("one"): runs(0.7, 3), tuned("other"): runs(0.6, 3)})
    judged = at_tuned_rates(known, ("one", "other"))
    comparison = above(judged, "one", "other", final_accuracy(1))
    assert comparison.what == "tuned one above tuned other"
    assert comparison.larger[0] == 70.0
    assert judged.cells["one"].name == "tuned one"
    assert above(known, "one", tuned("other"), final_accuracy(1)).what == "one above tuned other"
