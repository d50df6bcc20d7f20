"""One call runs an experiment: `sim` under the observers of `record`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.compute import Task, engine
from fedpace.errors import DivergedError, InterruptedRun, StalledError, StorageError, require
from fedpace.record import Checkpoints, History, Run
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.record.run.progress import shown
from fedpace.record.run.reporter import Reporter, counts, under_way
from fedpace.record.store.checkpointer import Checkpointer
from fedpace.record.store.identity import identity
from fedpace.sim import Observer, Population
from fedpace.sim.prepare import prepare
from fedpace.sim.simulation import Simulation


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

    A run that fails raises DivergedError, StalledError, StorageError or InterruptedRun, whose `run` is the partial
    run.
    """
    _require_parts(algorithm, task, population)
    began = time.perf_counter()
    history = History(keep_models=keep_models, traces=traces)
    told = (history, *observers)
    reporter = Reporter(told, task, every(evaluate_every), rounds)
    solver = engine(compute, task, workers, algorithm.local)
    options: dict[str, Any] = {"rounds": rounds, "seed": seed, "eager": eager, "spill": spill}
    try:
        simulation = prepare(algorithm, task, population, solver, reporter, *told, **options)
    except BaseException:
        solver.close()
        raise

    def result() -> Run:
        known = counts(simulation)
        return Run(
            algorithm=algorithm,
            task=task.name,
            seed=seed,
            rounds=rounds,
            history=history.steps,
            model=simulation.server.model,
            layout=task.layout,
            models=history.models,
            counters={name: n for name, n in known.items() if name not in ("bytes_up", "bytes_down")},
            summary={"compute": solver.name, "real_seconds": spent()},
            traffic=reporter.state.traffic.plain(),
            activities=[*history.activities, *under_way(simulation)] if traces else (),
            fates=history.fates,
            stopped=_stopped(simulation, rounds),
        )

    def spent() -> float:
        return time.perf_counter() - began if checkpointer is None else checkpointer.real_seconds

    with ExitStack() as open_now:
        open_now.callback(simulation.engine.close)
        checkpointer = None
        if checkpoint is not None:
            plan = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint)
            asked = {"rounds": rounds, "evaluate_every": reporter.every, "keep_models": keep_models}
            rounding = {"compute": solver.rounding} if solver.rounding else {}
            about = identity(algorithm, task, population, seed, simulation.server.model, **asked, **rounding)
            checkpointer = open_now.enter_context(Checkpointer(plan, about, time.perf_counter).opened())
        if progress:
            label = f"{algorithm.name or 'custom'} on {task.name}, {task.clients} clients"
            progress_bar = open_now.enter_context(shown(label, rounds))
            for audience in (reporter.audience, simulation.audience):
                audience.add(progress_bar)
        _drive(simulation, rounds, history, checkpointer, result)
    return result()


def _require_parts(algorithm: object, task: object, population: object) -> None:
    """Refuse arguments in each other's place, with the likely intention."""
    made = "a value such as fedpace.algorithms.fedavg(), called"
    require(isinstance(algorithm, Algorithm), "algorithm", algorithm, made)
    loaded = "a value such as fedpace.tasks.load('digits', clients=100)"
    require(hasattr(task, "solve") and hasattr(task, "layout"), "task", task, loaded)
    devices = population is None or hasattr(population, "bind")
    require(devices, "population", population, "None or a fedpace.sim.Population")


def _stopped(simulation: Simulation, rounds: int) -> str | None:
    stop = simulation.audience.stop
    return None if stop is None or simulation.server.version >= rounds else stop.reason


def _drive(
    simulation: Simulation,
    rounds: int,
    history: History,
    checkpointer: Checkpointer | None,
    result: Callable[[], Run],
) -> None:
    """To the end; an error that ends it early carries the partial run."""
    if checkpointer is not None and checkpointer.resume(simulation, history):
        simulation.audience.tell(Observer.resumed, history.steps)
    else:
        simulation.begin()
    try:
        _run(simulation, rounds, history, checkpointer)
    except (DivergedError, StalledError, StorageError) as error:
        error.run = result()
        raise
    except KeyboardInterrupt:
        raise InterruptedRun(result()) from None


def _run(simulation: Simulation, rounds: int, history: History, checkpointer: Checkpointer | None) -> None:
    if checkpointer is None:
        simulation.run(rounds)
        return
    server, audience = simulation.server, simulation.audience
    while server.version < rounds and audience.stop is None:
        simulation.run(rounds, pause=checkpointer.next_look(server.version))
        if server.version < rounds and audience.stop is None:
            checkpointer.save_if_due(simulation, history)
    checkpointer.save_the_end(simulation, history, stopped=server.version < rounds)
