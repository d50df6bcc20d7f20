"""One call runs an experiment: `sim` under the observers of `record`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.citations import papers
from fedpace.compute import Task, engine, processes_of, rounding_of
from fedpace.compute.footprint import footprint, require_memory, spill_folder
from fedpace.compute.personal import personal_task
from fedpace.errors import InterruptedRun, known_parameters, require
from fedpace.execution import Execution, Stopwatch
from fedpace.interruption import interruptible
from fedpace.local import Torch
from fedpace.logs import LOG
from fedpace.record import Checkpoints, History, Run
from fedpace.record.rows import Entry
from fedpace.record.run import logged
from fedpace.record.run.client_evaluation import ClientEvaluation
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.record.run.own_models import OwnModels
from fedpace.record.run.progress import shown
from fedpace.record.run.reporter import Reporter
from fedpace.record.run.start import InitialLike, start_of, warn_of_unknown_account
from fedpace.record.run.stopping import StopLike, Stopping, StopRules, stop_rules
from fedpace.record.store.booked import Booked, StoreAs
from fedpace.record.store.identity import identity
from fedpace.record.store.partition import client_metric, partition
from fedpace.sim import Observer, Population
from fedpace.sim.hostile import poisoned
from fedpace.sim.prepare import prepare


@known_parameters
def simulate(
    algorithm: Algorithm,
    task: Task,
    population: Population | None = None,
    *,
    rounds: int,
    seed: int = 0,
    workers: int = 1,
    compute: str = "auto",
    keep_models: bool = False,
    evaluate_every: int | str | EvaluationInterval | None = 1,
    checkpoint: str | Path | Checkpoints | None = None,
    eager: bool = False,
    spill: str | None = None,
    progress: bool = False,
    traces: bool = True,
    observers: Iterable[Observer] = (),
    store: str | StoreAs | None = None,
    stop: StopLike | None = None,
    initial: InitialLike | None = None,
    client_metrics_every: int | None = None,
    personalise: int | None = None,
) -> Run:
    """Run `rounds` server steps of `algorithm` on `task` under a virtual clock.

    `population`: the devices; None means one second of local training per session and free transfer.
    `workers`, `compute`: the engine of local training. Results are bit-identical; only "vectorised" rounds differently.
    `keep_models`: `Run.models[t]` is the model after step t+1.
    `evaluate_every`: steps (10), virtual seconds ("30s"), traffic ("5MB"), or None: never.
    `checkpoint`: a folder, or `Checkpoints(folder, every)`: killed at any moment, the same call resumes from the last
    checkpoint in it, bit-identically; of a finished run it returns the result at once.
    `eager`: also compute updates that are never used; same result, more work.
    `spill`: a folder for what clients remember (control variates, error memories) instead of main memory.
    `progress`: show a progress line. `traces`: record the client timeline, for `Run.timeline()`.
    `observers`: told what happens as it happens (trackers, `fedpace.check.Invariants`, any `fedpace.sim.Observer`);
    one that raises `fedpace.Stop(reason)` ends the run: it is returned with `run.stopped`, and can be resumed.
    `store`: the run's name in the run store, where it is saved from its first moment on. The same call resumes it if it
    was interrupted, and reads it back if it is over; `fedpace.runs()` has all of them.
    `stop`: ends the run early, at the first of {"accuracy": 0.9, "patience": 10, "traffic": "5MB",
    "virtual_seconds": 300, "real_seconds": 60}: a metric's target is reached, so many evaluations bring nothing better,
    or a budget is spent. The run is returned with `run.stopped`.
    `initial`: the model to start from, instead of the task's: a `Run`, a state_dict, or a file (safetensors, or the
    folder of a `Run.save`). `run.parent` says which.
    `client_metrics_every`: steps between measurements of every client (`run.client_metrics[version]`: values, mean,
    quartiles, worst tenth), and after the last; None: after the last step, where clients have their own test data.
    Where the algorithm leaves clients with models of their own (fedper, ditto), these are measured.
    `personalise`: local steps that each client takes on its own data before it is measured; nothing else depends on it.

    A run that fails raises DivergedError, StalledError, StorageError or InterruptedRun, whose `run` is the partial
    run.

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> run = fedpace.simulate(fedpace.algorithms.fedavg(client_lr=0.1, steps=5), task, rounds=50)
    >>> round(float(run.model[0]), 6), len(run.history), run.virtual_seconds
    (3.0, 50, 50.0)
    """
    asked_for = dict(locals())  # every argument, by name
    _require_parts(algorithm, task, population)
    task = asked_for["task"] = personal_task(task, algorithm, seed)
    if asked_for.pop("store") is not None:
        return _saved(StoreAs(store) if isinstance(store, str) else store, **asked_for)  # type: ignore[arg-type]
    task = poisoned(task, None if population is None else population.hostile, seed)
    watch, start = Stopwatch(), start_of(initial, task, seed)
    if algorithm.privacy is not None:
        warn_of_unknown_account(start)
    history = History(keep_models=keep_models, traces=traces)
    stopping = Stopping(_rules(stop, evaluate_every), watch.seconds)
    own_models = OwnModels(task, algorithm.local, seed, personalise)
    each_client = ClientEvaluation(own_models, client_metrics_every, history.client_metrics)
    label = f"{algorithm.name or 'custom'} on {task.name}, {task.clients} clients"
    told = (history, *observers, stopping, each_client, *logged.observers(f"{label}, seed {seed}", rounds))
    reporter = Reporter(told, task, every(evaluate_every), rounds, algorithm.per_tensor, stopping.spent)
    processes = processes_of(compute, task, workers, algorithm.local)
    needed = footprint(algorithm, task, rounds, processes, alike=population is None)
    spill = spill_folder(needed, spill)
    require_memory(needed, spilled=spill is not None)
    solver = engine(compute, task, workers, algorithm.local)
    options: dict[str, Any] = {"rounds": rounds, "seed": seed, "eager": eager, "spill": spill, "x": start.x}
    options["spent"] = start.spent
    try:
        simulation = prepare(algorithm, task, population, solver, reporter, *told, **options)
    except BaseException:
        solver.close()
        raise

    each_client.clients = simulation.clients
    execution = Execution(simulation, algorithm, history, reporter, watch, rounds, start.parent)
    with ExitStack() as open_now:
        open_now.callback(simulation.engine.close)
        if checkpoint is not None:
            asked: dict[str, Any] = {"rounds": rounds, "evaluate_every": reporter.every}
            asked["keep_models"] = keep_models
            asked |= {"compute": solver.rounding} if solver.rounding else {}
            asked |= _measured(client_metrics_every, personalise)
            about = identity(algorithm, task, population, seed, simulation.server.model, **asked)
            plan = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint)
            open_now.enter_context(execution.checkpointed(plan, about))
        if progress:
            progress_bar = open_now.enter_context(shown(label, rounds))
            for audience in (reporter.audience, simulation.audience):
                audience.add(progress_bar)
        execution.run()
    server = simulation.server
    run = replace(execution.result(), client_metrics=each_client.end(server.version, server.model))
    LOG.info("%s", f"{run} ({run.stopped})" if run.stopped else run)
    return run


def _saved(store: StoreAs, **asked_for: Any) -> Run:
    """`simulate` with these arguments, under a name in the run store."""
    from fedpace.record.store.booking import obtain
    from fedpace.record.store.store import Store

    require(asked_for["checkpoint"] is None, "checkpoint", asked_for["checkpoint"], "None for a saved run")
    require(not asked_for["keep_models"], "keep_models", True, "False for a saved run")
    rules = _rules(asked_for["stop"], asked_for["evaluate_every"])
    if rules.repeatable and rules.real_seconds == math.inf:
        store = replace(store, stopped_is_over=True)
    database, what = Store(), booked(store, **asked_for)

    def work(writer: Observer, entry: Entry) -> Run:
        plan = Checkpoints(database.folder(entry.name), store.every, store.previous, at_end=False)
        opened = store.opened or (lambda *_: nullcontext(()))
        with opened(entry.name, entry.experiment) as others:
            watching = [writer, *asked_for["observers"], *others, interruption]
            run = simulate(**{**asked_for, "checkpoint": plan, "observers": watching})
        if interruption.signal is not None and run.stopped is not None:
            raise InterruptedRun(run, interruption.signal)
        return with_client_metric(run, asked_for["task"])

    try:
        with interruptible() as interruption:
            return obtain(database, what, time.monotonic, work)
    finally:
        database.close()


def booked(
    store: StoreAs,
    algorithm: Algorithm,
    task: Task,
    population: Population | None,
    seed: int,
    rounds: int,
    evaluate_every: int | str | EvaluationInterval | None,
    stop: StopLike | None = None,
    initial: InitialLike | None = None,
    client_metrics_every: int | None = None,
    personalise: int | None = None,
    compute: str = "auto",
    workers: int = 1,
    **_: object,
) -> Booked:
    """What the run store is told of a run with these arguments."""
    asked: dict[str, Any] = {
        "rounds": rounds,
        "evaluate_every": every(evaluate_every),
        "keep_models": False,
    }
    if rules := _rules(stop, evaluate_every).repeatable:
        asked["stop"] = rules
    if differs := rounding_of(compute, personal_task(task, algorithm, seed), workers, algorithm.local):
        asked["compute"] = differs
    asked |= _measured(client_metrics_every, personalise)
    start = start_of(initial, task, seed)
    known = {"papers": [paper.key for paper in papers(algorithm)], "partition": partition(task)}
    known |= {"parent": dict(start.parent)} if start.parent else {}
    return Booked(
        name=store.name,
        algorithm=algorithm,
        task=task.name,
        seed=seed,
        rounds=rounds,
        experiment=identity(algorithm, task, population, seed, start.x, **asked),
        arguments=store.arguments,
        about={**known, **store.about},
        settings=store.settings,
        stopped_is_over=store.stopped_is_over,
        new=store.new,
        resumed=store.resumed,
    )


def _measured(every: int | None, personalise: int | None) -> dict[str, Any]:
    """How clients are measured, as far as it makes another experiment."""
    asked = {"client_metrics_every": every, "personalise": personalise}
    return {name: number for name, number in asked.items() if number is not None}


def _rules(stop: StopLike | None, evaluate_every: object) -> StopRules:
    rules = StopRules() if stop is None else stop_rules(stop)
    possible = evaluate_every not in (None, "never") or not rules.evaluates
    require(possible, "stop", stop, "without metrics in a run that is never evaluated")
    return rules


def with_client_metric(run: Run, task: Task) -> Run:
    """The run with what its model achieves on each client, where that is known cheaply."""
    version = len(run.history)
    found = run.client_metrics.get(version) or client_metric(task, run.model)
    if found is None or not np.isfinite(found.values).all():
        return run
    facts = {"metric": found.name, "values": [float(value) for value in found.values]}
    known = {**run.client_metrics, version: found}
    return replace(run, summary={**run.summary, "client_metric": facts}, client_metrics=known)


def _require_parts(algorithm: object, task: object, population: object) -> None:
    """Refuse arguments in each other's place, with the likely intention."""
    made = "a value such as fedpace.algorithms.fedavg(), called"
    require(isinstance(algorithm, Algorithm), "algorithm", algorithm, made)
    loaded = "a value such as fedpace.tasks.load('digits', clients=100)"
    require(hasattr(task, "solve") and hasattr(task, "layout"), "task", task, loaded)
    needs_torch = isinstance(algorithm.local, Torch) and not hasattr(task, "network")  # type: ignore[attr-defined]
    require(not needs_torch, "task", task, f"one with a torch module, for {algorithm.local}")  # type: ignore[attr-defined]
    devices = population is None or hasattr(population, "bind")
    require(devices, "population", population, "None or a fedpace.sim.Population")
