"""Grids, the choice among them, and what is committed of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.run import pending, run_all, tune, tuning_jobs
from fedpace.reproduce.tuning import (
    CHOICES,
    SEEDS,
    Grid,
    GridSearch,
    final_accuracy,
    read_choices,
    resumed,
    seeds_of_choices,
    soonest,
    write_choice,
)

from .conftest import cell, outcome, results


def grid(rates: tuple[float, ...] = (0.5, 1.0, 2.0), largest: float = 1000.0) -> Grid:
    def made(rate: float, other: str) -> Cell | None:
        return cell(f"rate {rate:g}{other}", seeds=1) if rate <= largest else None

    return Grid("a method", rates, made, final_accuracy(1), ("", " beta"))


def runner(best: float):
    """Accuracy falls with the distance from a rate; the settings called beta are a little better."""

    def run(todo: Sequence[tuple[Cell, int]]) -> Iterator[tuple[Cell, int, Outcome]]:
        for each, seed in todo:
            rate = float(each.name.split()[1])
            accuracy = 0.9 - abs(rate - best) / 100 + 0.001 * ("beta" in each.name)
            yield each, seed, outcome([accuracy], real_seconds=1.0)

    return run


def test_the_best_setting_inside_the_grid_is_taken() -> None:
    search = GridSearch(grid())
    assert search.run(runner(1.0)) == (1.0, " beta")
    assert len(search.merits) == 6
    assert search.real_seconds == 6 * len(SEEDS)


def test_a_grid_may_have_seeds_of_its_own() -> None:
    search = GridSearch(replace(grid(), seeds=(7, 8, 9)))
    search.run(runner(1.0))
    assert search.real_seconds == 6 * 3 and search.record()["seeds"] == [7, 8, 9]


def test_an_optimum_at_the_edge_extends_the_grid() -> None:
    search = GridSearch(grid())
    assert search.run(runner(8.0)) == (8.0, " beta")
    assert sorted({rate for rate, _ in search.merits}) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert search.record()["at_the_edge"] is False
    small = GridSearch(grid())
    assert small.run(runner(0.25)) == (0.25, " beta")


def test_a_committed_search_is_resumed_with_the_settings_it_lacks(tmp_path) -> None:
    """Rates 4 and beyond were tried before: only those of the third other, and those past the new edge, are run."""
    before = GridSearch(grid())
    before.run(runner(8.0))
    write_choice(tmp_path, "quick", before)
    wider = replace(grid(), others=("", " beta", " gamma"))
    asked: list[str] = []

    def run(todo: Sequence[tuple[Cell, int]]) -> Iterator[tuple[Cell, int, Outcome]]:
        asked.extend(each.name for each, _ in todo)
        return runner(8.0)(todo)

    search = resumed(wider, tmp_path, "quick")
    assert search.run(run) == (8.0, " beta")
    assert sorted(set(asked)) == [f"rate {rate} gamma" for rate in ("0.5", "1", "16", "2", "4", "8")]
    assert search.real_seconds == before.real_seconds + 6 * len(SEEDS)
    anew = resumed(replace(wider, seeds=(7,)), tmp_path, "quick")
    assert not anew.merits and not resumed(wider, tmp_path, "full").merits


def test_a_setting_that_changed_or_went_is_tried_again_or_dropped(tmp_path) -> None:
    before = GridSearch(grid())
    before.run(runner(1.0))
    write_choice(tmp_path, "quick", before)
    fewer = resumed(replace(grid(), others=("",)), tmp_path, "quick")
    assert {other for _, other in fewer.merits} == {""}
    longer = replace(grid(), cell=lambda rate, other: replace(grid().cell(rate, other), rounds=7))
    assert not resumed(longer, tmp_path, "quick").merits


def test_a_setting_that_was_tried_before_settings_had_keys_is_tried_again_and_the_choice_counts(
    tmp_path,
) -> None:
    before = GridSearch(grid())
    before.run(runner(1.0))
    write_choice(tmp_path, "quick", before)
    known = json.loads((tmp_path / CHOICES).read_text())
    rows = known["quick"]["a method"]["grid"]
    for row in rows[:4]:
        del row["key"]
    (tmp_path / CHOICES).write_text(json.dumps(known))
    again = resumed(grid(), tmp_path, "quick")
    assert list(again.merits) == [(row["rate"], row["other"]) for row in rows[4:]]
    assert set(again.untried()) == {(row["rate"], row["other"]) for row in rows[:4]}
    assert read_choices(tmp_path, "quick") == {"a method": (1.0, " beta")}


def test_a_target_that_was_missed_is_missed_when_the_search_is_resumed(tmp_path) -> None:
    def missed(todo: Sequence[tuple[Cell, int]]) -> Iterator[tuple[Cell, int, Outcome]]:
        yield from ((each, seed, outcome([0.1])) for each, seed in todo)

    aimed = replace(grid((1.0,)), merit=soonest(0.5, lambda point: point.version))
    before = GridSearch(aimed)
    before.run(missed)
    write_choice(tmp_path, "quick", before)
    assert resumed(aimed, tmp_path, "quick").merits == before.merits


def test_a_rule_may_end_the_extension() -> None:
    search = GridSearch(grid(largest=2.0))
    assert search.run(runner(8.0)) == (2.0, " beta")
    assert search.record()["at_the_edge"] is True


def test_where_the_grid_is_of_shorter_runs_the_best_three_are_run_at_the_judged_length() -> None:
    """The order turns round at full length: the smallest rate of the three is best there, and is taken."""
    asked: list[tuple[str, int]] = []

    def run(todo: Sequence[tuple[Cell, int]]) -> Iterator[tuple[Cell, int, Outcome]]:
        for each, seed in todo:
            asked.append((each.name, each.rounds))
            rate = float(each.name.split("rate ")[1].split()[0])
            far = 0.1 * rate if each.rounds == 50 else 0.2 * abs(rate - 1.4)
            yield each, seed, outcome([0.9 - far - 0.01 * ("beta" in each.name)])

    short = replace(grid((0.5, 1.0, 1.5, 2.0)), judged_rounds=50)
    search = GridSearch(short)
    assert search.run(run) == (1.0, "")
    finals = [name for name, rounds in asked if rounds == 50]
    assert sorted(set(finals)) == ["final rate 1", "final rate 1.5", "final rate 1.5 beta"]
    assert len(finals) == 3 * len(SEEDS)
    record = search.record()
    assert (record["rate"], record["other"]) == (1.0, "")
    assert [row["rate"] for row in record["finals"]] == [1.5, 1.5, 1.0]
    assert len(record["grid"]) == 8


def test_a_final_at_the_edge_tries_the_next_rate_at_the_judged_length() -> None:
    def run(todo: Sequence[tuple[Cell, int]]) -> Iterator[tuple[Cell, int, Outcome]]:
        for each, seed in todo:
            rate = float(each.name.split("rate ")[1].split()[0])
            best = 0.3 if each.rounds == 50 else 1.0
            yield each, seed, outcome([0.9 - 0.1 * abs(rate - best) - 0.01 * ("beta" in each.name)])

    search = GridSearch(replace(grid(), judged_rounds=50))
    assert search.run(run) == (0.25, "")
    assert {rate for rate, _ in search.merits} == {0.5, 1.0, 2.0}
    assert sorted(search.finals) == [(0.125, ""), (0.25, ""), (0.5, ""), (1.0, ""), (1.0, " beta")]
    assert search.record()["at_the_edge"] is False


def test_without_a_committed_choice_the_first_seed_decides() -> None:
    known = results({each.name: [outcome([0.5 + 0.1 * at])] for at, each in enumerate(grid().cells())})
    assert grid().chosen(known).name == "rate 2 beta"
    assert grid().chosen(Results()) is None


def test_a_committed_choice_wins_and_may_lie_beyond_the_grid(tmp_path) -> None:
    search = GridSearch(grid())
    search.run(runner(8.0))
    write_choice(tmp_path, "quick", search)
    choices = read_choices(tmp_path, "quick")
    assert choices == {"a method": (8.0, " beta")}
    assert read_choices(tmp_path, "full") == {}
    assert grid().chosen(Results(choices=choices)).name == "rate 8 beta"
    assert json.loads((tmp_path / CHOICES).read_text())["quick"]["a method"]["seeds"] == list(SEEDS)


def test_tuning_runs_on_seeds_of_its_own_and_judging_skips_its_cells(halves, kept, nobody, tmp_path) -> None:
    small = Grid("first", (1.0,), lambda rate, other: cell("first", seeds=1) if rate == 1 else None, _rounds)
    tuned = replace(halves, procedure=replace(halves.procedure, grids=lambda edition: [small]))
    assert [seed for _, seed in tuning_jobs(tuned, "quick", kept)] == list(SEEDS)
    assert tuning_jobs(tuned, "quick", kept, only="another grid") == []
    tune(tuned, "quick", kept, 1, lambda search: write_choice(tmp_path, "quick", search))
    assert [kept.get(cell("first", seeds=1), seed) is not None for seed in (0, *SEEDS)] == [False, True, True]
    judging = FinishedRuns(kept.folder, read_choices(tmp_path, "quick"))
    assert pending(tuned, "quick", 1, judging) == []
    assert run_all(tuned, "quick", 1, judging, 1, nobody).outcomes == {}


def test_a_seed_that_chose_a_setting_is_not_judged(halves, kept, nobody, tmp_path) -> None:
    search = GridSearch(grid())
    search.run(runner(1.0))
    write_choice(tmp_path, "quick", search)
    known = json.loads((tmp_path / CHOICES).read_text())
    known["quick"]["a method"]["seeds"] = [0, 2]
    (tmp_path / CHOICES).write_text(json.dumps(known))
    assert seeds_of_choices(tmp_path, "quick") == {0, 2}
    assert seeds_of_choices(tmp_path, "full") == frozenset()
    judging = FinishedRuns(kept.folder, read_choices(tmp_path, "quick"), seeds_of_choices(tmp_path, "quick"))
    assert judging.seeds(cell(), 3) == [1, 3, 4]
    assert judging.seeds(cell(seeds=1), 3) == [0]
    found = run_all(halves, "quick", 2, judging, 1, nobody)
    assert {name: set(runs) for name, runs in found.outcomes.items()} == {"first": {0}, "second": {1, 3}}


def _rounds(made: Outcome) -> tuple[float, ...]:
    return (float(made.steps),)


def test_a_run_that_two_grids_share_is_run_and_counted_once(kept) -> None:
    """two_way's server is chosen among the runs of the other methods' grids."""
    from fedpace.reproduce import experiment

    jobs = tuning_jobs(experiment("two-way-defaults"), "quick", kept)
    shared = [
        grid for grid in experiment("two-way-defaults").procedure.grids("quick") if "two_way" in grid.name
    ]
    assert shared and len({kept.path(*job) for job in jobs}) == len(jobs)
