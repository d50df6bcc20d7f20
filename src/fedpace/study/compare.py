"""`fedpace.compare`: several algorithms on the same task, devices and seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import replace
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.compute.processes import processes
from fedpace.errors import ConfigError, known_parameters, require, require_count, require_number
from fedpace.record.report.compare import Target
from fedpace.record.rows import NAME, NAMES
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.record.run.metrics import main_metric
from fedpace.record.run.stopping import StopLike, stop_rules
from fedpace.sim import Population
from fedpace.study.build import AlgorithmLike, places, rows_of
from fedpace.study.study import Study, require_metric
from fedpace.study.trial import Setup, StudyRun, TaskLike, TaskOfSeed, seeds_of

Told = Callable[[str, StudyRun], None]  # a row, and a run of it that has just ended
TargetLike = Mapping[str, float] | Target


@known_parameters
def compare(
    algorithms: Mapping[str, AlgorithmLike] | Sequence[AlgorithmLike],
    task: TaskLike,
    population: Population | None = None,
    *,
    rounds: int,
    seeds: int | Sequence[int] = 5,
    target: TargetLike | None = None,
    metric: str | None = None,
    baseline: str | None = None,
    workers: int = 1,
    store: str | bool | None = None,
    evaluate_every: int | str | EvaluationInterval = 1,
    compute: str = "auto",
    stop: StopLike | None = None,
    words: Callable[[str, int], Sequence[str]] | None = None,
    told: Told | None = None,
) -> Study:
    """Run every algorithm with every seed and put them side by side.

    `algorithms`: by the names of their rows (two settings of one algorithm are two rows), or a list. Each is an
    `Algorithm`, a function that makes one, the name of a built-in one, or `module:function`.
    `task`: a task, the same for all seeds; or a function of the seed that makes one (a split and an initial model per
    seed, the same in all rows), or its name as `module:function`. The same seed also has the same devices in all rows.
    `seeds`: how many, from 0 on, or which.
    `target`: {"accuracy": 0.9}; the table then shows what it takes to reach it.
    `metric`: what differences are taken in (the target's; else accuracy, else loss). `baseline`: against which row (the
    first).
    `workers`: processes, each with whole runs; results do not depend on it.
    `store`: a name. Runs are saved as NAME/row/seed; the same call resumes what was interrupted and repeats nothing.
    (True: under free names, and the same experiments are found under any.)
    `stop`: ends a run early, as in `simulate`; its last values are those of its last evaluation.
    `told(row, run)`: called as runs end. `words(row, seed)`: the arguments of `fedpace run` that make a run again.

    A run that diverges has no final values; the table counts it. (`fedpace.runs().study(NAME)` opens a saved study.)

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> rows = {"1 step": fedpace.algorithms.fedavg(steps=1), "10 steps": fedpace.algorithms.fedavg(steps=10)}
    >>> study = fedpace.compare(rows, task, rounds=20, seeds=2)
    >>> [round(each.run.final["distance"], 3) for each in study.rows["1 step"]]
    [0.365, 0.365]
    """
    chosen, tasks = seeds_of(seeds), TaskOfSeed(task)
    require_count(workers, "workers")
    if stop is not None:
        stop_rules(stop)  # refuses what is none before anything is run
    first = tasks(chosen[0])
    rows = rows_of(algorithms, clients=first.clients, rounds=rounds)
    goal = target_of(target)
    known = first.evaluate(first.initial(chosen[0]))
    if goal is not None:
        require_metric(known, goal[0], "target metric")
    ranked = require_metric(known, metric or (goal[0] if goal else main_metric(known)), "metric")
    given = algorithms if isinstance(algorithms, Mapping) else dict(zip(rows, algorithms, strict=True))
    setup = Setup(
        task=tasks,
        population=population,
        rounds=rounds,
        seeds=chosen,
        options={"evaluate_every": evaluate_every, "compute": compute, "stop": stop},
        store=store,
        words=words,
        made_by={str(row): places(algorithm=value, task=task) for row, value in given.items()},
    )
    study = Study(
        {row: () for row in rows}, ranked, goal, baseline or "", f"{first.name}, {first.clients} clients"
    )
    return replace(study, rows=all_runs(rows, setup, workers, told))


def all_runs(
    rows: Mapping[str, Algorithm], setup: Setup, workers: int, told: Told | None
) -> dict[str, list[StudyRun]]:
    """One run per row and seed, in that order, whichever ended first."""
    folders = folders_of(rows, setup)
    jobs = [(row, seed) for seed in setup.seeds for row in rows]  # neighbours share their task

    def do(job: tuple[str, int]) -> StudyRun:
        row, seed = job
        return setup.run(row, folders[row], rows[row], seed)

    found: dict[tuple[str, int], StudyRun] = {}
    with processes(do, min(workers, len(jobs)), gpu=setup.on_gpu) as pool:
        for job, bare in _answers(pool, jobs):
            found[job] = with_algorithm(bare, rows[job[0]])
            if told is not None:
                told(job[0], found[job])
    return {row: [found[row, seed] for seed in setup.seeds] for row in rows}


def with_algorithm(bare: StudyRun, algorithm: Algorithm) -> StudyRun:
    return replace(bare, run=replace(bare.run, algorithm=algorithm))


def _answers(pool: Any, jobs: Sequence[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], StudyRun]]:
    if pool.count == 1:  # each is told of before the next begins
        for job in jobs:
            yield job, pool.submit(job).result()
        return
    waiting: dict[Future[StudyRun], tuple[str, int]] = {pool.submit(job): job for job in jobs}
    for done in as_completed(waiting):
        yield waiting[done], done.result()


def folders_of(rows: Iterable[str], setup: Setup) -> dict[str, str]:
    """The rows' names as parts of names of runs; ConfigError if two are the same there."""
    folders = {row: re.sub(r"[^A-Za-z0-9._-]+", "-", row).strip("._-") or "row" for row in rows}
    if not isinstance(setup.store, str):
        return folders
    require(bool(NAME.fullmatch(setup.store)), "store", setup.store, NAMES)
    for row, folder in folders.items():
        twin = next(
            (other for other in folders if other != row and folders[other].lower() == folder.lower()), None
        )
        if twin is not None:
            raise ConfigError(f"rows must differ in letters or digits to be saved; got {twin!r} and {row!r}")
        name = f"{setup.store}/{folder}/{max(setup.seeds)}"
        require(len(name) <= 100, "names of saved runs", name, "at most 100 letters; shorten row or store")
    return folders


def target_of(target: TargetLike | None) -> Target | None:
    """`{"accuracy": 0.9}` as a pair."""
    if target is None:
        return None
    pairs = list(target.items()) if isinstance(target, Mapping) else [target]
    require(
        len(pairs) == 1 and len(pairs[0]) == 2,
        "target",
        target,
        "one metric and its value: {'accuracy': 0.9}",
    )
    name, value = pairs[0]
    require_number(value, f"target {name}", low=-1e300, high=1e300, allowed="a number")
    if name == "accuracy":
        require_number(value, "target accuracy", low=0, high=1, allowed="in [0, 1], such as 0.9")
    return str(name), float(value)
