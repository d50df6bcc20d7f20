"""Running the cells of an experiment: in order, in processes, and only those that are not finished."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fedpace.disk.locks import is_locked
from fedpace.errors import ConfigError, DivergedError
from fedpace.experiment import simulate
from fedpace.record import Checkpoints, Run
from fedpace.record.run.progress import Progress
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Reproduction
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.outcome import Outcome, Watch
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid, GridSearch

Job = tuple[Cell, int]
Told = Callable[[Cell, int, Outcome, int], None]  # cell, seed, outcome, how many are left
Named = TypeVar("Named", Cell, Grid)
SAY_EVERY_S = 60.0
LONG_S = "120s"  # real time between two checkpoints of a cell


def pending(
    experiment: Reproduction, edition: str, seeds: int, kept: FinishedRuns, only: str | None = None
) -> list[Job]:
    """What is still to be run, as far as is known by now; with `only`, of the cells that are called so.

    Long cells of the quick edition, and those beside what is judged, are run only if `only` names them.
    """
    known = finished(experiment, edition, seeds, kept)
    tuned = {cell.name for grid in _tuned(experiment, edition, kept) for cell in grid.cells()}
    every = [cell for cell in experiment.procedure.cells(edition, known) if cell.name not in tuned]
    grids = [grid.name for grid in experiment.procedure.grids(edition)]
    cells = [cell for cell in every if not cell.by_name] if only is None else _called(only, every, grids)
    jobs = [
        (cell, seed)
        for cell in cells
        for seed in kept.seeds(cell, seeds)
        if seed not in known.outcomes.get(cell.name, {})
    ]
    return sorted(jobs, key=lambda job: (job[1], repr(job[0].task)))  # neighbours share their data


def _called(text: str, every: Sequence[Named], later: Sequence[str] = ()) -> list[Named]:
    """The one with that name; where nothing has it, those whose names contain the text.

    `later` are names that are to come: of cells that a grid has yet to choose.
    """
    whole = [each for each in every if each.name == text]
    if not whole and text in later:
        raise ConfigError(
            f"the grid {text!r} has not chosen a setting yet: choose one with --tune --only {text!r}"
        )
    return whole or [each for each in every if text in each.name]


def _tuned(experiment: Reproduction, edition: str, kept: FinishedRuns) -> list[Grid]:
    """The grids that need not be run: their choice is committed."""
    return [grid for grid in experiment.procedure.grids(edition) if grid.name in kept.choices]


def tune(
    experiment: Reproduction,
    edition: str,
    kept: FinishedRuns,
    jobs: int,
    told: Callable[[GridSearch], None],
    only: str | None = None,
    start: Callable[[Grid], GridSearch] = GridSearch,
) -> None:
    """Every grid on the seeds for tuning; `start` begins or resumes its search, `told` hears of its choice.

    The settings of all grids are run together first: one grid alone would leave processes idle at its end.
    """

    def run(todo: Sequence[Job]) -> None:
        for _ in _executed(todo, kept, jobs):
            pass

    def runner(todo: Sequence[Job]) -> Iterator[tuple[Cell, int, Outcome]]:
        run([job for job in todo if kept.get(*job) is None])
        yield from (
            (cell, seed, outcome) for cell, seed in todo if (outcome := kept.get(cell, seed)) is not None
        )

    if jobs > 1:
        run(tuning_jobs(experiment, edition, kept, only, start))
    for grid in _grids(experiment, edition, only):
        search = start(grid)
        search.run(runner)
        told(search)


def _grids(experiment: Reproduction, edition: str, only: str | None) -> list[Grid]:
    every = experiment.procedure.grids(edition)
    if only is not None:
        return _called(only, every)
    return [grid for grid in every if not any(cell.by_name for cell in grid.cells())]


def tuning_jobs(
    experiment: Reproduction,
    edition: str,
    kept: FinishedRuns,
    only: str | None = None,
    start: Callable[[Grid], GridSearch] = GridSearch,
) -> list[Job]:
    """The runs of a tuning, but for rates that it may add; each once, though grids may share it."""
    every = {
        kept.path(cell, seed): (cell, seed)
        for grid in _grids(experiment, edition, only)
        for cell in start(grid).untried().values()
        for seed in grid.seeds
    }
    return [job for job in every.values() if kept.get(*job) is None]


def finished(experiment: Reproduction, edition: str, seeds: int, kept: FinishedRuns) -> Results:
    """What has been run of this edition.

    Cells that a grid chose are known once its runs are. Runs that another process finishes meanwhile change no cell.
    """
    cells = experiment.procedure.cells(edition, kept.results((), 0))
    while True:
        found = kept.results(cells, seeds)
        later = experiment.procedure.cells(edition, found)
        if later == cells:
            return found
        cells = later


def run_all(
    experiment: Reproduction,
    edition: str,
    seeds: int,
    kept: FinishedRuns,
    jobs: int,
    told: Told,
    only: str | None = None,
) -> Results:
    """Everything that is not finished yet; `told` hears of each run as it ends.

    What another process is working on is left to it, so several may share a reproduction. A run that cells of several
    names have in common is run for one of them.
    """
    while todo := _free(pending(experiment, edition, seeds, kept, only), kept):
        todo = _not_in_common(todo, finished(experiment, edition, seeds, kept), kept)
        for left, ((cell, seed), outcome) in zip(
            _down_from(len(todo)), _executed(todo, kept, jobs), strict=False
        ):
            if outcome is not None:
                told(cell, seed, outcome, left)
    return finished(experiment, edition, seeds, kept)


def _free(jobs: Sequence[Job], kept: FinishedRuns) -> list[Job]:
    return [(cell, seed) for cell, seed in jobs if not is_locked(kept.unfinished(cell, seed))]


def _not_in_common(todo: Sequence[Job], known: Results, kept: FinishedRuns) -> list[Job]:
    """The jobs that must be run: finished runs of the same setting are taken over, and of several alike one is left."""
    settings = {name: cell.setting for name, cell in known.cells.items()}
    ran = {
        (settings[name], seed): outcome
        for name, runs in known.outcomes.items()
        for seed, outcome in runs.items()
    }
    left: dict[tuple[str, int], Job] = {}
    for cell, seed in todo:
        run = (cell.setting, seed)
        if run in ran:
            kept.put(cell, seed, replace(ran[run], real_seconds=0.0))
        else:
            left.setdefault(run, (cell, seed))
    return list(left.values())


def _down_from(count: int) -> Iterator[int]:
    return iter(range(count - 1, -1, -1))


def _executed(todo: Sequence[Job], kept: FinishedRuns, jobs: int) -> Iterator[tuple[Job, Outcome | None]]:
    if jobs == 1:
        for cell, seed in todo:
            yield (cell, seed), execute(cell, seed, kept)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_one_thread) as pool:
        waiting: dict[Future[Outcome | None], Job] = {
            pool.submit(execute, cell, seed, kept): (cell, seed) for cell, seed in todo
        }
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    """Several processes share the cores; numerical libraries read this when they are loaded."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def execute(cell: Cell, seed: int, kept: FinishedRuns) -> Outcome | None:
    """Run one cell for one seed and save its outcome; an interrupted run is resumed.

    None if another process is at it, or has finished it meanwhile.
    """
    folder = kept.unfinished(cell, seed)
    if kept.get(cell, seed) is not None or is_locked(folder):
        return None
    outcome = simulated(cell, seed, folder)
    kept.put(cell, seed, outcome)
    shutil.rmtree(folder, ignore_errors=True)
    gc.collect()  # a run that ended early is a cycle of frames around its data
    return outcome


def simulated(cell: Cell, seed: int, folder: Path | None = None, rounds: int | None = None) -> Outcome:
    """One run of a cell; diverging and reaching the target are ways to end, not errors."""
    checkpoint = None if folder is None else Checkpoints(folder, LONG_S, at_end=False)
    task = cell.task(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of an algorithm are the subject of the experiment
        try:
            run = _simulate(cell, task, seed, checkpoint, rounds)
            ended = "finished" if run.stopped is None else "settled"
        except DivergedError as early:
            run, ended = early.run, "diverged"
    return Outcome.of(run, ended, _training_loss(cell, task, run, ended))


def _said_now_and_then(label: str) -> Progress:
    """A line on stderr every minute: one cell of a full edition may take hours."""
    last = time.monotonic()

    def show(step: int, status: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SAY_EVERY_S:
            last = time.monotonic()
            print(f"  {label}: step {step}  {status}", file=sys.stderr, flush=True)

    return Progress(show)


def _simulate(cell: Cell, task: object, seed: int, checkpoint: Checkpoints | None, rounds: int | None) -> Run:
    return simulate(
        cell.algorithm_of(seed),
        task,  # type: ignore[arg-type]
        cell.population,
        rounds=rounds or cell.rounds,
        seed=seed,
        evaluate_every=cell.evaluate_every,
        checkpoint=checkpoint,
        traces=False,
        observers=[Watch(cell.stop_at, cell.stop_s), _said_now_and_then(f"{cell.name}, seed {seed}")],
    )


def _training_loss(cell: Cell, task: object, run: Run, ended: str) -> float | None:
    if not cell.training_loss or ended == "diverged":
        return None
    return float(task.training_loss(run.model))  # type: ignore[attr-defined]
