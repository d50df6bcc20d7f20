from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from fedpace import algorithms
from fedpace.disk.locks import locked
from fedpace.errors import ConfigError
from fedpace.reproduce import estimate as costs
from fedpace.reproduce import experiment
from fedpace.reproduce.cell import Cell, Exact, NamedTask
from fedpace.reproduce.estimate import duration, estimate
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.run import execute, finished, pending, run_all, simulated, tuning_jobs
from fedpace.reproduce.tuning import Grid, final_accuracy

from .conftest import cell, outcome


def test_every_cell_is_run_once_and_later_cells_see_the_earlier_ones(halves, kept) -> None:
    heard = []
    run_all(
        halves, "quick", 2, kept, 1, lambda cell, seed, outcome, left: heard.append((cell.name, seed, left))
    )
    assert heard == [("first", 0, 0), ("second", 0, 1), ("second", 1, 0)]
    run_all(halves, "quick", 2, kept, 1, lambda *_: pytest.fail("nothing is left to run"))


def test_what_is_finished_is_found_again(halves, kept, nobody) -> None:
    run_all(halves, "quick", 1, kept, 1, nobody)
    known = finished(halves, "quick", 1, kept)
    assert known.of("second")[0].model == (2 - 2.0**-4,)


def test_an_interrupted_reproduction_goes_on(halves, kept, nobody) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(halves, "quick", 1, kept, 1, stop)
    assert [job[0].name for job in pending(halves, "quick", 1, kept)] == ["second"]


def test_runs_that_another_process_finishes_meanwhile_do_not_keep_it_looking(
    halves, kept, monkeypatch
) -> None:
    """Looking ends when the cells are known, though every look finds one more run."""
    done = iter(range(100))
    looked = FinishedRuns.results

    def look(own: FinishedRuns, cells: Iterable[Cell], seeds: int) -> Results:
        found = looked(own, cells, seeds)
        found.add(cell("first"), next(done), outcome([0.5]))
        return found

    monkeypatch.setattr(FinishedRuns, "results", look)
    assert "second" in {job[0].name for job in pending(halves, "quick", 1, kept)}
    assert next(done) < 5


def test_only_cells_of_that_name(halves, kept, nobody) -> None:
    run_all(halves, "quick", 2, kept, 1, nobody, only="first")
    assert set(finished(halves, "quick", 2, kept).outcomes) == {"first"}


def test_a_whole_name_picks_one_cell_and_a_part_all_that_have_it(halves, kept) -> None:
    both = [cell("iid n=80"), cell("noniid n=80")]
    wanted = replace(halves, procedure=replace(halves.procedure, cells=lambda edition, known: both))
    assert [job[0].name for job in pending(wanted, "quick", 1, kept, only="iid n=80")] == ["iid n=80"]
    assert len(pending(wanted, "quick", 1, kept, only="n=80")) == 2


def test_the_name_of_a_grid_that_has_not_chosen_picks_nothing_else_and_says_why(halves, kept) -> None:
    grid = Grid("best to 80%", (0.1,), lambda rate, others: cell(f"rate {rate}"), merit=final_accuracy(1))
    procedure = replace(
        halves.procedure,
        cells=lambda edition, known: [cell("no best to 80% yet")],
        grids=lambda edition: [grid],
    )
    wanted = replace(halves, procedure=procedure)
    with pytest.raises(ConfigError, match="has not chosen a setting yet: choose one with --tune"):
        pending(wanted, "quick", 1, kept, only="best to 80%")
    assert len(pending(wanted, "quick", 1, kept, only="80% yet")) == 1


def test_a_long_cell_is_run_only_by_name_and_keeps_its_key(halves, kept) -> None:
    slow = cell("slow", by_name=True)
    wanted = replace(halves, procedure=replace(halves.procedure, cells=lambda edition, known: [cell(), slow]))
    assert [job[0].name for job in pending(wanted, "quick", 1, kept)] == ["a cell"]
    assert [job[0].name for job in pending(wanted, "quick", 1, kept, only="slow")] == ["slow"]
    assert slow.key == cell("slow").key


def test_the_quick_edition_of_all_has_no_cnn_and_no_vgg(kept) -> None:
    names = ("ca2fl-accuracy", "fedgm-family")
    models = {job[0].task.model for name in names for job in pending(experiment(name), "quick", 1, kept)}
    assert models == {"mlp:32"}
    for name, only in zip(names, ("CNN", "small VGG"), strict=True):
        assert pending(experiment(name), "quick", 1, kept, only)
    assert all("VGG" not in job[0].name for job in tuning_jobs(experiment("fedgm-family"), "quick", kept))


def test_processes_change_no_result(halves, kept, nobody, tmp_path) -> None:
    from fedpace.reproduce.finished_runs import FinishedRuns

    alone = run_all(halves, "quick", 2, kept, 1, nobody)
    together = run_all(halves, "quick", 2, FinishedRuns(tmp_path / "other"), 2, nobody)
    assert [run.model for run in alone.of("second")] == [run.model for run in together.of("second")]
    assert set(alone.outcomes) == set(together.outcomes)


def test_another_setting_is_another_run(kept) -> None:
    execute(cell(), 0, kept)
    assert kept.get(cell(), 0) is not None
    assert kept.get(cell(rounds=4), 0) is None
    assert kept.get(cell(), 1) is None
    assert cell().key != cell(rounds=4).key


def test_cells_that_differ_in_name_alone_share_their_runs(halves, kept) -> None:
    """The first is run; the second has its outcome, which took no time of its own."""
    alike = [cell("tuned"), cell("best"), cell("longer", rounds=4)]
    wanted = replace(halves, procedure=replace(halves.procedure, cells=lambda edition, known: alike))
    heard = []
    run_all(wanted, "quick", 2, kept, 1, lambda cell, seed, *_: heard.append((cell.name, seed)))
    assert heard == [("tuned", 0), ("longer", 0), ("tuned", 1), ("longer", 1)]
    for seed in range(2):
        first, second = kept.get(alike[0], seed), kept.get(alike[1], seed)
        assert first is not None and first.real_seconds > 0
        assert second == replace(first, real_seconds=0.0)


def test_no_checkpoints_are_left_behind(kept) -> None:
    execute(cell(), 0, kept)
    assert not kept.unfinished(cell(), 0).exists()


def test_the_estimate_counts_runs_and_steps_and_stops_at_the_clock() -> None:
    cost = estimate([(cell(), 0), (cell(), 1), (cell(rounds=1_000_000, stop_s=10.0), 0)])
    assert (cost.runs, cost.steps) == (3, 3 + 3 + 11)
    assert cost.core_seconds >= 0


def test_the_estimate_counts_runs_that_cells_share_once() -> None:
    assert estimate([(cell("tuned"), 0), (cell("best"), 0), (cell("tuned"), 1)]).runs == 2


@pytest.mark.parametrize(("enough_s", "lengths"), [(0.0, [2]), (10.0, [2, 6])])
def test_a_probe_that_takes_long_is_enough(monkeypatch, enough_s: float, lengths: list[int]) -> None:
    """A server step of a CNN may take half a minute: six more would say nothing new."""
    probes = []

    def counted(cell, seed, rounds):
        probes.append(rounds)
        return simulated(cell, seed, rounds=rounds)

    monkeypatch.setattr(costs, "simulated", counted)
    monkeypatch.setattr(costs, "ENOUGH_S", enough_s)
    assert estimate([(cell(rounds=1_000_000, stop_s=10.0), 0)]).steps == 11
    assert probes == lengths


def test_data_sets_that_differ_in_their_seed_are_timed_once(monkeypatch) -> None:
    probed = []

    def probe(cell: Cell, seed: int, rounds: int) -> Outcome:
        probed.append(cell.task)
        return outcome([0.5] * rounds)

    monkeypatch.setattr(costs, "simulated", probe)
    drawn = [NamedTask("digits", "iid", "softmax", clients=2, data_seed=seed) for seed in (1, 2)]
    other = NamedTask("digits", "iid", "softmax", clients=3, data_seed=1)
    estimate([(cell(task=task), 0) for task in (*drawn, other)])
    assert set(probed) == {drawn[0], other}


def test_the_estimate_counts_work_and_not_the_time_that_others_took() -> None:
    class Waiting:
        def __init__(self) -> None:
            self.task = Exact((1.0, 3.0))(0)

        def __getattr__(self, name: str) -> object:
            return getattr(self.task, name)

        def solve(self, request: object) -> object:
            time.sleep(0.02)
            return self.task.solve(request)  # type: ignore[arg-type]

    cost = estimate([(cell(rounds=100, task=lambda seed: Waiting()), 0)])
    assert cost.core_seconds < 1.0  # two clients, 100 steps: 4 s by the clock


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (600, "10 min"), (12_600, "3.5 h")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_another_process_works_on_is_left_to_it(halves, kept, nobody) -> None:
    first = halves.procedure.cells("quick", finished(halves, "quick", 1, kept))[0]
    kept.unfinished(first, 0).mkdir(parents=True)
    with locked(kept.unfinished(first, 0)):
        run_all(halves, "quick", 1, kept, 1, lambda *_: pytest.fail("it is somebody else's"))
        assert execute(first, 0, kept) is None
    run_all(halves, "quick", 1, kept, 1, nobody)
    assert kept.get(first, 0) is not None


def test_what_is_finished_is_not_run_again(kept) -> None:
    assert execute(cell(), 0, kept) is not None
    assert execute(cell(), 0, kept) is None


def test_a_long_cell_says_how_far_it_is(kept, monkeypatch, capsys) -> None:
    monkeypatch.setattr("fedpace.reproduce.run.SAY_EVERY_S", 0.0)
    execute(cell(rounds=3), 0, kept)
    said = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[1] for line in said] == [f"{cell().name}, seed 0: step {k}" for k in (1, 2, 3)]


def test_a_cell_with_an_algorithm_for_each_seed_runs_each_with_its_own(kept) -> None:
    rules = tuple(algorithms.fedavg(client_lr=rate, steps=1, batch_size=None) for rate in (0.5, 0.25))
    by_seed = cell(algorithm=rules[0], by_seed=rules, seeds=2)
    models = [simulated(by_seed, seed).points[-1].metrics["distance"] for seed in (0, 1)]
    assert models == [simulated(cell(algorithm=rule), 0).points[-1].metrics["distance"] for rule in rules]
    assert models[0] != models[1] and by_seed.key != cell(algorithm=rules[0], seeds=2).key
    later = replace(by_seed, first_seed=10)
    assert [later.algorithm_of(seed) for seed in (10, 11)] == list(rules)
    assert kept.seeds(later, 5) == [10, 11] and later.key != by_seed.key
    with pytest.raises(ConfigError, match="a Cell with by_seed must have its first as algorithm"):
        cell(algorithm=rules[1], by_seed=rules, seeds=2)
    with pytest.raises(ConfigError, match="as many seeds"):
        cell(algorithm=rules[0], by_seed=rules)
