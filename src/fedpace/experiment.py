"""One call runs an experiment: `sim` under the observers of `record`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.citations import papers
from fedpace.compute import Task, engine
from fedpace.compute.footprint import footprint, require_memory, spill_folder
from fedpace.compute.personal import personal_task
from fedpace.errors import DivergedError, InterruptedRun, StalledError, StorageError, require
from fedpace.interruption import interruptible
from fedpace.local import Torch
from fedpace.logs import LOG
from fedpace.record import Checkpoints, History, Run
from fedpace.record.rows import Entry
from fedpace.record.run import logged
from fedpace.record.run.client_evaluation import ClientEvaluation
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.record.run.inference import OtherTensors
from fedpace.record.run.own_models import OwnModels
from fedpace.record.run.progress import shown
from fedpace.record.run.reporter import Reporter, counts, reporter_of, under_way
from fedpace.record.run.start import InitialLike, start_of, warn_of_unknown_account
from fedpace.record.run.stopping import StopLike, Stopping, StopRules, stop_rules
from fedpace.record.store.booked import Booked, StoreAs
from fedpace.record.store.checkpointer import Checkpointer
from fedpace.record.store.identity import identity
from fedpace.record.store.partition import client_metric, partition
from fedpace.sim import Observer, Population, divergence
from fedpace.sim.distributions import ForModel
from fedpace.sim.hostile import poisoned
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
    processes = workers if compute == "pool" else 1
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
    parent = {"parent": dict(start.parent)} if start.parent else {}

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
            summary={
                "compute": solver.name,
                **times(),
                **_devices(simulation),
                **_privacy(simulation),
                **parent,
            },
            traffic=reporter.state.traffic.plain(),
            activities=[*history.activities, *under_way(simulation)] if traces else (),
            fates=history.fates,
            initial_metrics=history.initial,
            other_tensors=OtherTensors.of(task, simulation.server.model, evaluated=_evaluated(history)),
            stopped=_stopped(simulation, rounds),
        )

    def times() -> dict[str, float]:
        real = watch.seconds() if checkpointer is None else checkpointer.real_seconds
        return {"real_seconds": real, "warm_up_seconds": watch.before}

    with ExitStack() as open_now:
        open_now.callback(simulation.engine.close)
        checkpointer = None
        if checkpoint is not None:
            plan = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint)
            asked: dict[str, Any] = {"rounds": rounds, "evaluate_every": reporter.every}
            asked["keep_models"] = keep_models
            asked |= {"compute": solver.rounding} if solver.rounding else {}
            asked |= _measured(client_metrics_every)
            about = identity(algorithm, task, population, seed, simulation.server.model, **asked)
            checkpointer = open_now.enter_context(Checkpointer(plan, about, watch.seconds).opened())
        if progress:
            progress_bar = open_now.enter_context(shown(label, rounds))
            for audience in (reporter.audience, simulation.audience):
                audience.add(progress_bar)
        _drive(simulation, rounds, history, checkpointer, watch, result)
    server = simulation.server
    run = replace(result(), client_metrics=each_client.end(server.version, server.model))
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
    asked |= _measured(client_metrics_every)
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


def _measured(every: int | None) -> dict[str, Any]:
    """How often clients are measured, as far as it makes another experiment."""
    return {} if every is None else {"client_metrics_every": every}


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


class Stopwatch:
    """Real seconds of a run, from the moment when everything is compiled and set up."""

    def __init__(self) -> None:
        self._made, self._started, self.before = time.perf_counter(), 0.0, 0.0

    def start(self) -> None:
        self._started = time.perf_counter()
        self.before = self._started - self._made

    def seconds(self) -> float:
        """0 until it is started."""
        return time.perf_counter() - self._started if self._started else 0.0


def _evaluated(history: History) -> bool:
    """Whether the model was, after its last step."""
    return bool(history.steps and history.steps[-1].metrics)


def _devices(simulation: Simulation) -> dict[str, str]:
    """How long a local step takes, where that depends on the model."""
    step_s = getattr(simulation.devices.population, "step_s", None)
    return {"local_step": str(step_s)} if isinstance(step_s, ForModel) else {}


def _privacy(simulation: Simulation) -> dict[str, Any]:
    spent = simulation.server.privacy
    return {} if spent is None else {"privacy": spent.plain()}


def _stopped(simulation: Simulation, rounds: int) -> str | None:
    stop = simulation.audience.stop
    return None if stop is None or simulation.server.version >= rounds else stop.reason


def _drive(
    simulation: Simulation,
    rounds: int,
    history: History,
    checkpointer: Checkpointer | None,
    watch: Stopwatch,
    result: Callable[[], Run],
) -> None:
    """To the end; an error that ends it early carries the partial run."""
    resumed = checkpointer is not None and checkpointer.resume(simulation, history)
    simulation.audience.stop_for(simulation.server.exhausted)  # a resumed run may have spent its budget
    try:
        _begin(simulation, history, resumed)
        watch.start()
        _run(simulation, rounds, history, checkpointer)
    except DivergedError as error:
        error.run, server = result(), simulation.server
        error.advice = divergence.advice(server.algorithm, simulation.task, server.seed, error.clients)
        LOG.error("%s", error)
        raise
    except (StalledError, StorageError) as error:
        error.run = result()
        LOG.error("%s", error)
        raise
    except KeyboardInterrupt:
        raise InterruptedRun(result()) from None


def _begin(simulation: Simulation, history: History, resumed: bool) -> None:
    """Compile and set up, evaluate the initial model, and tell the observers that the run begins."""
    warm_up: Any = getattr(simulation.engine, "warm_up", None)
    if warm_up is not None:
        warm_up(simulation.server.algorithm.local)
    if resumed:
        simulation.audience.tell(Observer.resumed, history.steps)
    else:
        metrics = reporter_of(simulation).initial(simulation.server.model)
        simulation.begin()
        simulation.audience.tell(Observer.begun, metrics)


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
