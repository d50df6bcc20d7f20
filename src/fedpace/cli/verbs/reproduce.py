"""fedpace reproduce NAME"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli.parser import processes, repeats

if TYPE_CHECKING:
    from fedpace.reproduce.cell import Cell
    from fedpace.reproduce.estimate import TimeEstimate
    from fedpace.reproduce.experiment import Finding, Reproduction
    from fedpace.reproduce.finished_runs import FinishedRuns
    from fedpace.reproduce.outcome import Outcome
    from fedpace.reproduce.results import Results
    from fedpace.reproduce.tuning import Grid, GridSearch

PAGES = "docs/results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help="experiments to run, `all`, or `list` to list them"
    )
    parser.add_argument(
        "--edition", choices=("quick", "full"), default="quick", help="scale (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=repeats, default=5, metavar="K", help="seeds per setting (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        type=processes,
        default=1,
        metavar="J",
        help="parallel runs, one process each (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        default=PAGES,
        metavar="FOLDER",
        help="folder for the result pages (default: %(default)s)",
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", help="folder for finished runs (default: next to the run store)"
    )
    parser.add_argument(
        "--only",
        metavar="TEXT",
        help="run only the cell (with --tune, the grid) named TEXT; if there is none, all whose names contain TEXT",
    )
    parser.add_argument("--estimate", action="store_true", help="only estimate the cost")
    parser.add_argument(
        "--tune",
        action="store_true",
        help="only tune: choose settings on separate seeds and write tuning.json",
    )
    parser.add_argument(
        "--verdicts",
        action="store_true",
        help="run nothing: recompute the verdicts of existing pages from their CSV files",
    )
    parser.add_argument(
        "--report", action="store_true", help="run nothing: write pages from finished and committed runs"
    )
    parser.add_argument(
        "--extend",
        action="store_true",
        help="reuse the runs committed with the existing page, with --tune the settings already tried; run only "
        "those that are missing",
    )


def command(args: argparse.Namespace) -> int:
    """Reproduce tables and figures of the papers, next to the published numbers.

    Finished runs are saved, so an interrupted reproduction is resumed by the same command. `quick` takes minutes
    on two cores and its page lists the reductions; `full` is the papers' own setting.
    """
    from fedpace import reproduce

    if args.names == ["list"]:
        return _list()
    names = list(reproduce.NAMES) if args.names == ["all"] else args.names
    experiments = [reproduce.experiment(name) for name in names]
    if args.estimate:
        return _estimate(experiments, args)
    for experiment in experiments:
        if args.verdicts:
            _rejudge(experiment, args)
        else:
            _one(experiment, args)
    return 0


def _list() -> int:
    from fedpace import reproduce
    from fedpace.cli import show

    show.table(("experiment", "description"), list(reproduce.NAMES.items()), align="ll")
    return 0


def _estimate(experiments: Sequence[Reproduction], args: argparse.Namespace) -> int:
    """The cost of each and of all; an experiment whose data are missing is named, the others are timed."""
    from fedpace.reproduce.estimate import total

    costs = [_say_cost(experiment, _kept(experiment, args), args) for experiment in experiments]
    if len(experiments) > 1:
        _say(f"together: {total(costs)}")
    return 0


def _kept(experiment: Reproduction, args: argparse.Namespace) -> FinishedRuns:
    from fedpace.reproduce.archive import archive_name
    from fedpace.reproduce.finished_runs import FinishedRuns
    from fedpace.reproduce.tuning import CHOICES, read_choices, seeds_of_choices

    root, here = Path(args.keep) if args.keep else None, _page_folder(experiment, args)
    tuned = here if (here / CHOICES).exists() else Path(PAGES) / experiment.name
    choices, tuned_on = read_choices(tuned, args.edition), seeds_of_choices(tuned, args.edition)
    runs = here / archive_name(args.edition) if args.extend else None
    return FinishedRuns.of(experiment.name, args.edition, root, choices, tuned_on, runs)


def _page_folder(experiment: Reproduction, args: argparse.Namespace) -> Path:
    return Path(args.out) / experiment.name


def _one(experiment: Reproduction, args: argparse.Namespace) -> None:
    kept = _kept(experiment, args)
    if not args.tune:
        _say_what_stays(experiment, kept, args)
    if not args.report:
        _say_cost(experiment, kept, args)
    if args.tune:
        _tune(experiment, kept, args)
        return
    if not args.report:
        _run(experiment, kept, args)
    _write(experiment, _on_page(experiment, kept, args), args)


def _say_what_stays(experiment: Reproduction, kept: FinishedRuns, args: argparse.Namespace) -> None:
    """Before anything is run: which runs of the page to replace it will keep; ConfigError if it would lose some."""
    from fedpace.reproduce.page_runs import lost, made_from, require_no_fewer
    from fedpace.reproduce.run import finished, pending

    here, folder = _page_folder(experiment, args), Path(args.out)
    if not made_from(here, args.edition):
        return
    known = _on_page(experiment, kept, args)
    todo = [] if args.report else pending(experiment, args.edition, args.seeds, kept, args.only)
    require_no_fewer(experiment, args.edition, known, folder, todo)
    own = finished(experiment, args.edition, _seeds_on_page(experiment, args), kept)
    stay = _runs(known) - _runs(own) - {(cell.name, seed) for cell, seed in todo}
    what = f"{experiment.name} ({args.edition})"
    if stay:
        _say(f"{what}: {len(stay)} committed runs stay on the page, which this command does not run")
    if gone := lost(experiment, args.edition, known, folder, todo):
        names = ", ".join([*gone][:3]) + (", ..." if len(gone) > 3 else "")
        _say(
            f"{what}: {gone.total()} runs leave the page, of cells that the experiment does not have: {names}"
        )


def _on_page(experiment: Reproduction, kept: FinishedRuns, args: argparse.Namespace) -> Results:
    """The finished runs, and beside them those that are committed with the page."""
    from fedpace.reproduce.archive import archive_name
    from fedpace.reproduce.run import finished

    committed = _page_folder(experiment, args) / archive_name(args.edition)
    every = replace(kept, committed=committed)
    return finished(experiment, args.edition, _seeds_on_page(experiment, args), every)


def _seeds_on_page(experiment: Reproduction, args: argparse.Namespace) -> int:
    from fedpace.reproduce.page_runs import made_from

    seeds: int = args.seeds
    return max(seeds, *made_from(_page_folder(experiment, args), args.edition).values(), 0)


def _runs(results: Results) -> set[tuple[str, int]]:
    return {(name, seed) for name, own in results.outcomes.items() for seed in own}


def _tune(experiment: Reproduction, kept: FinishedRuns, args: argparse.Namespace) -> None:
    from fedpace.reproduce.run import tune
    from fedpace.reproduce.tuning import write_choice

    def told(search: GridSearch) -> None:
        path = write_choice(Path(args.out) / experiment.name, args.edition, search)
        rate, other = search.best
        print(f"{search.grid.name}: rate {rate:g}{', ' + other if other else ''} ({path})")

    tune(experiment, args.edition, kept, args.jobs, told, args.only, _start(experiment, args))


def _start(experiment: Reproduction, args: argparse.Namespace) -> Callable[[Grid], GridSearch]:
    """How the search of a grid starts: anew, or from what is committed of it."""
    from fedpace.reproduce.tuning import GridSearch, resumed

    if not args.extend:
        return GridSearch
    return partial(resumed, folder=Path(args.out) / experiment.name, edition=args.edition)


def _say_cost(experiment: Reproduction, kept: FinishedRuns, args: argparse.Namespace) -> TimeEstimate:
    from fedpace.reproduce.estimate import estimate
    from fedpace.reproduce.run import pending, tuning_jobs

    what = f"{experiment.name} ({args.edition}){', tuning' if args.tune else ''}"
    todo = (
        tuning_jobs(experiment, args.edition, kept, args.only, _start(experiment, args))
        if args.tune
        else pending(experiment, args.edition, args.seeds, kept, args.only)
    )
    if todo:
        _say(f"{what}: timing a few steps of each kind of run ...")
    cost = estimate(todo)
    nothing = "nothing to run" if args.tune else "all runs are finished"
    _say(f"{what}: {cost if todo else nothing}")
    return cost


def _run(experiment: Reproduction, kept: FinishedRuns, args: argparse.Namespace) -> None:
    from fedpace.reproduce.run import run_all

    def told(cell: Cell, seed: int, outcome: Outcome, left: int) -> None:
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in _last(outcome).items())
        _say(
            f"  {cell.name}, seed {seed}: {outcome.ended} after {outcome.steps} steps"
            f"{', ' + metrics if metrics else ''}; {outcome.real_seconds:.1f} s, {left} left"
        )

    run_all(experiment, args.edition, args.seeds, kept, args.jobs, told, args.only)


def _last(outcome: Outcome) -> dict[str, float]:
    return dict(outcome.points[-1].metrics) if outcome.points else {}


def _write(experiment: Reproduction, results: Results, args: argparse.Namespace) -> None:
    from fedpace import reproduce
    from fedpace.reproduce import page
    from fedpace.reproduce.evidence import read_verdicts
    from fedpace.reproduce.page_runs import commands

    folder = Path(args.out)
    lines = "\n".join(commands(experiment, args.edition, results))
    written = page.write(experiment, args.edition, results, folder, lines)
    page.write_index([reproduce.experiment(name) for name in reproduce.NAMES], folder)
    _print(read_verdicts(folder / experiment.name)[args.edition])
    _say(f"page: {written}")


def _rejudge(experiment: Reproduction, args: argparse.Namespace) -> None:
    """Verdicts from what is committed: no runs, no finished runs."""
    from fedpace import reproduce
    from fedpace.reproduce import page
    from fedpace.reproduce.evidence import table_name

    folder = Path(args.out)
    here = folder / experiment.name
    if not (here / table_name(args.edition)).exists():
        _say(f"{experiment.name} ({args.edition}): no results to compute verdicts from")
        return
    _print(page.rejudge(here, args.edition, experiment))
    page.write_index([reproduce.experiment(name) for name in reproduce.NAMES], folder)


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        p = "" if finding.p is None else f", p {finding.p:.2g}"
        plural = "s" if finding.seeds > 1 else ""
        seeds = f" ({finding.seeds} seed{plural}{p})" if finding.seeds else ""
        print(f"{finding.verdict:<13} {finding.claim}: {finding.ours}{seeds}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
