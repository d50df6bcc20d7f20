"""Experiments as the command line describes them, executed and saved in the run store."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedpace.cli import book, experiment
from fedpace.cli.arguments import EVERY, words
from fedpace.cli.book import OVER
from fedpace.cli.monitoring import Monitoring
from fedpace.cli.population import population
from fedpace.errors import (
    ConfigError,
    DivergedError,
    InterruptedRun,
    StalledError,
    StorageError,
)

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute.protocol import Task
    from fedpace.record import Checkpoints, Run
    from fedpace.record.store.store import Entry, Store
    from fedpace.sim import Population

MOST_SESSIONS = 200_000
MOST_CLIENTS = 10_000


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that `fedpace run` is told about one run, built and ready."""

    algorithm: Algorithm
    task: Task
    population: Population | None
    seed: int
    how: dict[str, Any]  # rounds, workers, compute, evaluate_every
    words: tuple[str, ...]  # what `fedpace run` must be told to do it again

    def about(self) -> dict[str, str]:
        """What decides the outcome."""
        from fedpace.record.run.evaluation import every
        from fedpace.record.store.identity import identity

        options = {"rounds": self.how["rounds"], "evaluate_every": every(self.how["evaluate_every"])}
        options |= {"compute": "vectorised"} if self.how["compute"] == "vectorised" else {}
        return identity(self.algorithm, self.task, self.population, self.seed, **options, keep_models=False)


def one_experiment(args: argparse.Namespace, task: Task | None = None) -> Experiment:
    """What the arguments of `fedpace run` ask for; `task` if it is loaded already."""
    [algorithm] = experiment.make_algorithms([args.algorithm], args).values()
    return Experiment(
        algorithm,
        task or experiment.load_task(args, args.seed),
        population(args.population),
        args.seed,
        experiment.execution(args),
        words(args.algorithm, args, args.seed, args.set),
    )


def check_options(args: argparse.Namespace) -> None:
    """Refuse what cannot be meant before anything is loaded."""
    from fedpace.record import Checkpoints
    from fedpace.record.run import trackers

    Checkpoints("", args.checkpoint_every)
    for where in args.track:
        trackers.require(where)
    if getattr(args, "no_store", False) and args.name is not None:
        raise ConfigError(f"--name must go with a run that is saved, without --no-store; got {args.name!r}")


def open_store(args: argparse.Namespace, *, needed: bool = False) -> Store | None:
    """The run store; None where it is not wanted, or cannot be had and is not needed."""
    if getattr(args, "no_store", False):
        return None
    from fedpace.record.store.store import Store

    try:
        return Store()
    except StorageError as error:
        if needed:
            raise
        print(f"fedpace: note: {error}; the run is not saved", file=sys.stderr)
        return None


def obtain(
    what: Experiment, store: Store | None, watch: Monitoring, *, stopped: bool = False
) -> tuple[Run, Entry | None]:
    """The same experiment from the store, with its entry; resumed if it was interrupted, new if it is not there.

    `stopped`: a run that a sweep gave up counts as finished. Raises what `execute` raises.
    """
    from fedpace.record.store import artifacts
    from fedpace.record.store.identity import fingerprint

    known = [] if store is None else store.same(fingerprint(what.about()))
    for entry in known:
        if store is not None and entry.status in (*OVER, *["stopped"] * stopped):
            return artifacts.load(store, entry, what.algorithm), entry
    for entry in known:
        if store is not None and not store.is_alive(entry) and entry.status != "stopped":
            return carry_on(what, store, entry, watch), None
    return execute(what, store, watch), None


def execute(
    what: Experiment,
    store: Store | None,
    watch: Monitoring,
    *,
    name: str | None = None,
    every: int | str = EVERY,
) -> Run:
    """Run it; in the store, if there is one, from the first moment on."""
    from fedpace.record.store import checkpoint

    if store is None:
        return _simulate(what, watch, what.algorithm.name, what.about())
    entry = book.begin(what, store, name)
    try:
        return carry_on(what, store, entry, watch, every=every)
    except ConfigError:
        if not checkpoint.exists(store.folder(entry.name)):
            store.delete(entry.name)  # what was refused at once is no run
        raise


def carry_on(
    what: Experiment,
    store: Store,
    entry: Entry,
    watch: Monitoring,
    *,
    every: int | str = EVERY,
    previous: bool = False,
) -> Run:
    """Run it to its end from wherever it is. From the first moment to the last it is seen to be alive."""
    from fedpace.cli.signals import interruptible
    from fedpace.record import Checkpoints

    plan = Checkpoints(store.folder(entry.name), every, previous=previous, at_end=False)
    watch = replace(watch, traces=watch.traces or _few_sessions(what))
    with interruptible(), store.working_on(entry):
        return _carry_on(what, store, entry, watch, plan)


def _carry_on(what: Experiment, store: Store, entry: Entry, watch: Monitoring, plan: Checkpoints) -> Run:
    from fedpace.record.store import checkpoint
    from fedpace.record.store.writer import Writer

    if not checkpoint.exists(store.folder(entry.name)):
        store.roll_back(entry.id, [])  # it starts over
    store.set(entry.id, "running")
    writer = Writer(store, entry.id, time.monotonic)
    watch = replace(watch, observers=[writer, *watch.observers])
    try:
        run = _simulate(what, watch, entry.name, entry.experiment, plan)
    except (DivergedError, StalledError, StorageError, InterruptedRun) as error:
        error.run = book.completed(error.run, entry, writer)
        full = isinstance(error, StorageError)  # then less is saved, and the first error is the one to tell
        with contextlib.suppress(StorageError, OSError) if full else contextlib.nullcontext():
            book.end(store, entry, error.run, writer, book.status(error), str(error))
        raise
    book.end(store, entry, run, writer, "done" if run.stopped is None else "stopped", run.stopped or "")
    return book.completed(run, entry, writer)


def _few_sessions(what: Experiment) -> bool:
    """Whether the client timeline is small enough to be saved without being asked for."""
    per_step = what.algorithm.pace.per_step or what.task.clients
    return what.how["rounds"] * per_step <= MOST_SESSIONS and what.task.clients <= MOST_CLIENTS


def _simulate(
    what: Experiment,
    watch: Monitoring,
    name: str,
    config: Mapping[str, str],
    checkpoint: Checkpoints | None = None,
) -> Run:
    """To the end, or to the event at which a signal comes: InterruptedRun then, and the checkpoint is written.

    `name` and `config` are the run's for trackers.
    """
    from fedpace import simulate
    from fedpace.cli.signals import interruptible

    with interruptible() as interruption, watch.opened(name, config) as observers:
        run = simulate(
            what.algorithm,
            what.task,
            what.population,
            seed=what.seed,
            **what.how,
            checkpoint=checkpoint,
            traces=watch.traces,
            progress=watch.progress,
            observers=[*observers, interruption],
        )
        if interruption.signal is not None and run.stopped is not None:
            raise InterruptedRun(run, interruption.signal)
        return run
