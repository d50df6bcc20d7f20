"""The runs of a page that is written again, and the commands that it prints."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedpace.cli import main
from fedpace.errors import ConfigError
from fedpace.reproduce import archive, experiment, page
from fedpace.reproduce.experiment import Reproduction
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.page_runs import commands, lost, made_from, require_no_fewer
from fedpace.reproduce.run import finished, pending, run_all
from fedpace.reproduce.tuning import (
    Grid,
    GridSearch,
    final_accuracy,
    read_choices,
    seeds_of_choices,
    write_choice,
)

from .conftest import cell, outcome, results

RESULTS = Path(__file__).parents[2] / "docs" / "results"
Command = Callable[..., int]


def test_a_page_is_not_replaced_by_one_with_fewer_runs_of_a_cell(halves, kept, nobody, tmp_path) -> None:
    """Though another cell has more: page.write refuses, too."""
    known = run_all(halves, "quick", 2, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    require_no_fewer(halves, "quick", known, tmp_path)
    runs = known.outcomes["second"]
    fewer = replace(known, outcomes={"first": {**runs, 7: runs[0]}, "second": {0: runs[0]}})
    with pytest.raises(
        ConfigError, match="got 1 fewer of 'second'.*run them too .--seeds 2., or give another"
    ):
        page.write(halves, "quick", fewer, tmp_path, "")
    require_no_fewer(halves, "quick", fewer, tmp_path, [(cell("second"), 1)])


def test_runs_that_chose_a_setting_are_not_missed_once_the_choice_is_committed(
    halves, kept, nobody, tmp_path
) -> None:
    known = run_all(halves, "quick", 2, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    tuned = replace(known, outcomes={"second": known.outcomes["second"]})
    with pytest.raises(ConfigError):
        require_no_fewer(halves, "quick", tuned, tmp_path)
    grid = Grid("first", (1.0,), lambda rate, other: cell("first"), final_accuracy(1))
    chosen = replace(halves, procedure=replace(halves.procedure, grids=lambda edition: [grid]))
    require_no_fewer(chosen, "quick", tuned, tmp_path)
    fewer = replace(tuned, outcomes={"second": dict(list(known.outcomes["second"].items())[:1])})
    with pytest.raises(ConfigError):
        require_no_fewer(chosen, "quick", fewer, tmp_path)


def test_cells_that_the_experiment_no_longer_has_are_lost_but_not_held_against_a_page(
    halves, tmp_path
) -> None:
    page.write(halves, "quick", results({"former": [outcome([0.5])] * 3}), tmp_path, "")
    now = results({"first": [outcome([0.5])]})
    require_no_fewer(halves, "quick", now, tmp_path)
    assert lost(halves, "quick", now, tmp_path) == {"former": 3}


# ------------------------------------------------------------------------------------------ the verb


@pytest.fixture
def parts(halves, monkeypatch, tmp_path) -> Reproduction:
    """Two plain cells, two that are run only by name, and one of these that no page has."""
    plain = [cell("one"), cell("two", rounds=4)]
    named = [
        cell(f"slow {name}", rounds=at, by_name=True) for at, name in enumerate(("a", "b", "c"), start=5)
    ]
    procedure = replace(
        halves.procedure, cells=lambda edition, known: [*plain, *named], findings=lambda edition, known: []
    )
    made = replace(halves, name="parts", procedure=procedure)
    monkeypatch.setattr("fedpace.reproduce.experiment", lambda name: made)
    monkeypatch.setattr("fedpace.reproduce.NAMES", {"parts": "two plain cells, three run by name"})
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def reproduce(parts, capsys) -> Command:
    """`fedpace reproduce parts` with finished runs of its own; what it said is `said`."""

    def command(*words: str, keep: str = "kept") -> tuple[int, str]:
        code = main(["reproduce", "parts", *words, "--keep", keep])
        return code, capsys.readouterr().err

    return command


@pytest.fixture
def committed(reproduce) -> Path:
    """A page of two seeds of the plain cells, and of one and two of those run by name."""
    for words in (
        ("--seeds", "2"),
        ("--seeds", "2", "--only", "slow a"),
        ("--only", "slow b", "--seeds", "1"),
    ):
        assert reproduce(*words)[0] == 0
    here = Path("docs/results/parts")
    assert made_from(here, "quick") == {"one": 2, "two": 2, "slow a": 2, "slow b": 1}
    return here


@pytest.mark.parametrize("asked", [("--seeds", "2"), ("--seeds", "1"), ("--seeds", "3", "--only", "slow a")])
def test_what_a_command_does_not_run_stays_on_the_page(committed, reproduce, asked) -> None:
    """In another checkout: what it runs it runs anew, though it is committed."""
    before = made_from(committed, "quick")
    code, said = reproduce(*asked, keep="other")
    after = made_from(committed, "quick")
    assert code == 0 and after >= before
    ran = len(list(Path("other/parts/quick").glob("*.json")))
    assert ran == {"2": 4, "1": 2, "3": 3}[asked[1]]
    stay = after.total() - ran
    assert f"parts (quick): {stay} committed runs stay on the page" in said.splitlines()[0]


def test_runs_that_would_be_lost_are_said_before_anything_is_run(committed, reproduce) -> None:
    """A page without an archive, as those of the first version."""
    (committed / archive.archive_name("quick")).unlink()
    for words in (("--seeds", "2"), ("--seeds", "2", "--report"), ("--seeds", "1")):
        code, said = reproduce(*words, keep="other")
        assert code == 2 and len(said.splitlines()) == 1 and "or give another folder with --out" in said
        assert not Path("other").exists()
    said = reproduce("--seeds", "2", keep="other")[1]
    assert "got 2 fewer of 'slow a' (and fewer of 1 other cells)" in said
    assert 'run them too (--only "slow a" --seeds 2)' in said


def test_runs_of_cells_that_are_gone_are_said_to_leave_the_page(
    committed, reproduce, parts, monkeypatch
) -> None:
    every = parts.procedure.cells
    fewer = replace(parts.procedure, cells=lambda *asked: every(*asked)[1:])
    monkeypatch.setattr("fedpace.reproduce.experiment", lambda name: replace(parts, procedure=fewer))
    code, said = reproduce("--seeds", "2", "--extend")
    assert code == 0
    assert "parts (quick): 2 runs leave the page, of cells that the experiment does not have: one" in said


@pytest.mark.parametrize("where", ["docs/results", "elsewhere"])
def test_following_the_commands_of_a_page_makes_its_runs(committed, reproduce, where) -> None:
    printed = (committed / "README.md").read_text().split("```")[1].strip().splitlines()
    start = "fedpace reproduce parts --edition quick --seeds"
    assert printed == [f"{start} 2", f'{start} 2 --only "slow a"', f'{start} 1 --only "slow b"']
    before = made_from(committed, "quick")
    for line in printed:
        words = shlex.split(line)[3:]
        assert reproduce(*words, "--out", where, keep="other")[0] == 0
    assert made_from(Path(where) / "parts", "quick") == before
    assert len(list(Path("other/parts/quick").glob("*.json"))) == before.total()
    assert printed == (Path(where) / "parts" / "README.md").read_text().split("```")[1].strip().splitlines()


def test_a_page_in_another_folder_is_made_with_the_committed_choices(parts, reproduce, monkeypatch) -> None:
    """Unless tuning.json is there, too."""

    def search(best: float) -> GridSearch:
        made = Grid("rates", (best,), lambda rate, other: cell(f"rate {rate:g}"), final_accuracy(1))
        return GridSearch(made, merits={(best, ""): (0.5,)})

    grid = search(1.0).grid
    procedure = replace(
        parts.procedure,
        cells=lambda edition, known: [grid.chosen(known) or cell("untuned")],
        grids=lambda _: [grid],
    )
    monkeypatch.setattr("fedpace.reproduce.experiment", lambda name: replace(parts, procedure=procedure))
    assert reproduce("--seeds", "1", "--out", "a")[0] == 0
    write_choice(Path("docs/results/parts"), "quick", search(0.3))
    assert reproduce("--seeds", "1", "--out", "b")[0] == 0
    write_choice(Path("c/parts"), "quick", search(0.1))
    assert reproduce("--seeds", "1", "--out", "c")[0] == 0
    made = [made_from(Path(folder) / "parts", "quick") for folder in "abc"]
    assert made == [{"untuned": 1}, {"rate 0.3": 1}, {"rate 0.1": 1}]


# ---------------------------------------------------------------------------------------- the commands


def test_the_plain_command_is_left_out_where_it_would_run_more_than_the_page_has(parts) -> None:
    known = results({"two": [outcome([0.5])]})
    assert commands(parts, "quick", known) == [
        'fedpace reproduce parts --edition quick --seeds 1 --only "two"'
    ]


@pytest.mark.parametrize(
    "name", ["fednova-heterogeneous", "ca2fl-accuracy", "defedavg-table1", "two-way-defaults"]
)
def test_the_commands_of_a_committed_page_run_what_it_was_made_from_and_nothing_else(name, tmp_path) -> None:
    here = RESULTS / name
    choices, tuned_on = read_choices(here, "quick"), seeds_of_choices(here, "quick")
    empty = FinishedRuns(tmp_path, choices, tuned_on)
    known = finished(
        experiment(name), "quick", 10, replace(empty, committed=here / archive.archive_name("quick"))
    )
    asked = set()
    for line in commands(experiment(name), "quick", known):
        words = shlex.split(line)
        only = words[words.index("--only") + 1] if "--only" in words else None
        jobs = pending(experiment(name), "quick", int(words[words.index("--seeds") + 1]), empty, only)
        asked |= {(cell.name, seed) for cell, seed in jobs}
    assert asked == {(name, seed) for name, runs in known.outcomes.items() for seed in runs}
