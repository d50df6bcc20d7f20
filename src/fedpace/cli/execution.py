"""Runs that are kept: one experiment as words, executed under the eyes of the run store."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpace.cli import book, experiment
from fedpace.cli.book import OVER
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
    from fedpace.record import Run
    from fedpace.record.store.store import Entry, Store
    from fedpace.sim import Observer, Population

EVERY = "60s"
MOST_SESSIONS = 200_000
MOST_CLIENTS = 10_000
_WORDS = (
    "task",
    "clients",
    "partition",
    "model",
    "population",
    "rounds",
    "compute",
    "workers",
    "evaluate_every",
)


def add_store_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("keeping")
    group.add_argument("--no-store", action="store_true", help="do not keep this in the run store")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("keeping")
    group.add_argument("--name", metavar="NAME", help="the run's name in the store (default: a new one)")
    group.add_argument(
        "--checkpoint-every",
        default=EVERY,
        metavar="N",
        help="server steps (100) or real seconds (30s) between checkpoints (default: %(default)s)",
    )
    group.add_argument("--no-store", action="store_true", help="do not keep this run")
    add_track_option(group)


def add_track_option(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    group.add_argument(
        "--track",
        action="append",
        default=[],
        metavar="WHERE",
        help="also send the history to tensorboard:FOLDER, mlflow:EXPERIMENT or wandb:PROJECT",
    )


@contextlib.contextmanager
def tracked(where: Sequence[str], name: str, config: Mapping[str, str]) -> Iterator[list[Any]]:
    """The trackers that were asked for, closed afterwards."""
    from fedpace.record.run.trackers import tracker

    with contextlib.ExitStack() as open_now:
        trackers = [tracker(text, name, config) for text in where]
        for each in trackers:
            open_now.callback(each.close)
        yield trackers


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


def words(
    algorithm: str, args: argparse.Namespace, seed: int, settings: Iterable[tuple[str, Any]]
) -> tuple[str, ...]:
    """Arguments of `fedpace run` for one algorithm and one seed."""
    values = {name: getattr(args, name) for name in _WORDS}
    if values["population"] is not None and Path(values["population"]).is_file():
        values["population"] = str(Path(values["population"]).resolve())
    options = [
        (f"--{name.replace('_', '-')}", str(value)) for name, value in values.items() if value is not None
    ]
    chosen = [("--set", f"{name}={value!r}") for name, value in settings]
    return (algorithm, *(word for pair in [*options, ("--seed", str(seed)), *chosen] for word in pair))


def check_options(args: argparse.Namespace) -> None:
    """Refuse what cannot be meant before anything is loaded."""
    from fedpace.record import Checkpoints
    from fedpace.record.run import trackers

    Checkpoints("", args.checkpoint_every)
    for where in args.track:
        trackers.require(where)
    if getattr(args, "no_store", False) and args.name is not None:
        raise ConfigError(f"--name must go with a run that is kept, without --no-store; got {args.name!r}")


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
        print(f"fedpace: note: {error}; the run is not kept", file=sys.stderr)
        return None


def obtain(
    what: Experiment, store: Store | None, *, stopped: bool = False, **options: Any
) -> tuple[Run, Entry | None]:
    """The same experiment from the store, with its entry; gone on with if it was interrupted, new if it is not there.

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
            options["traces"] = options.get("traces", False) or few_sessions(what)
            return carry_on(what, store, entry, **options), None
    return execute(what, store, **options), None


def execute(
    what: Experiment,
    store: Store | None,
    *,
    name: str | None = None,
    every: int | str = EVERY,
    traces: bool = True,
    progress: bool = False,
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
) -> Run:
    """Run it; in the store, if there is one, from the first moment on."""
    from fedpace.record.store import checkpoint

    if store is not None:
        entry, traces = book.begin(what, store, name), traces or few_sessions(what)
        options: dict[str, Any] = {
            "traces": traces,
            "progress": progress,
            "observers": observers,
            "track": track,
        }
        try:
            return carry_on(what, store, entry, every=every, **options)
        except ConfigError:
            if not checkpoint.exists(store.folder(entry.name)):
                store.delete(entry.name)  # what was refused at once is no run
            raise
    with tracked(track, what.algorithm.name, what.about()) as trackers:
        return _simulate(what, [*observers, *trackers], traces=traces, progress=progress)


def carry_on(
    what: Experiment,
    store: Store,
    entry: Entry,
    *,
    every: int | str = EVERY,
    previous: bool = False,
    traces: bool = True,
    progress: bool = False,
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
) -> Run:
    """Run it to its end from wherever it is. From the first moment to the last it is seen to be alive."""
    from fedpace.cli.signals import interruptible
    from fedpace.record import Checkpoints

    plan = Checkpoints(store.folder(entry.name), every, previous=previous, at_end=False)
    options: dict[str, Any] = {"traces": traces, "progress": progress, "checkpoint": plan}
    with interruptible(), store.working_on(entry):
        return _carry_on(what, store, entry, observers, track, options)


def _carry_on(
    what: Experiment,
    store: Store,
    entry: Entry,
    observers: Sequence[Observer],
    track: Sequence[str],
    options: Mapping[str, Any],
) -> Run:
    from fedpace.record.store import checkpoint
    from fedpace.record.store.writer import Writer

    if not checkpoint.exists(store.folder(entry.name)):
        store.roll_back(entry.id, [])  # it starts over
    store.set(entry.id, "running")
    writer = Writer(store, entry.id, time.monotonic)
    try:
        with tracked(track, entry.name, entry.experiment) as trackers:
            run = _simulate(what, [writer, *observers, *trackers], **options)
    except (DivergedError, StalledError, StorageError, InterruptedRun) as error:
        error.run = book.completed(error.run, entry, writer)
        full = isinstance(error, StorageError)  # then less is kept, and the first error is the one to tell
        with contextlib.suppress(StorageError, OSError) if full else contextlib.nullcontext():
            book.end(store, entry, error.run, writer, book.status(error), str(error))
        raise
    book.end(store, entry, run, writer, "done" if run.stopped is None else "stopped", run.stopped or "")
    return book.completed(run, entry, writer)


def few_sessions(what: Experiment) -> bool:
    """Whether who did what when is small enough to be kept without being asked for."""
    per_step = what.algorithm.pace.per_step or what.task.clients
    return what.how["rounds"] * per_step <= MOST_SESSIONS and what.task.clients <= MOST_CLIENTS


def _simulate(what: Experiment, observers: Sequence[Observer], **options: Any) -> Run:
    """To the end, or to the event at which a signal comes: InterruptedRun then, and the checkpoint is written."""
    from fedpace import simulate
    from fedpace.cli.signals import interruptible

    with interruptible() as interruption:
        how = {**what.how, **options, "observers": [*observers, interruption]}
        run = simulate(what.algorithm, what.task, what.population, seed=what.seed, **how)
        if interruption.signal is not None and run.stopped is not None:
            raise InterruptedRun(run, interruption.signal)
        return run
