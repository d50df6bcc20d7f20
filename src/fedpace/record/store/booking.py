"""A run in the store from its beginning to its end: begun, worked on, finished, or found there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.errors import (
    ConfigError,
    DivergedError,
    InterruptedRun,
    StalledError,
    StorageError,
)
from fedpace.record.run.run import Run
from fedpace.record.store import artifacts, checkpoint, checkpointer
from fedpace.record.store.booked import Booked
from fedpace.record.store.environment import described
from fedpace.record.store.identity import fingerprint
from fedpace.record.store.store import Entry, Store
from fedpace.record.store.writer import Writer
from fedpace.untrusted import brief

OVER = ("done", "diverged", "stalled")  # nothing is left to resume
_FACTS = ("compute", "real_seconds", "warm_up_seconds", "local_step", "client_metric", "privacy", "parent")
_STATES: dict[type[BaseException], str] = {
    DivergedError: "diverged",
    StalledError: "stalled",
    InterruptedRun: "interrupted",
    StorageError: "failed",
}

Work = Callable[[Writer, Entry], Run]  # does the run, with the observer that writes its history


def begin(store: Store, what: Booked) -> Entry:
    """A new run; ConfigError if its name is taken."""
    return store.begin(
        name=what.name,
        algorithm=what.algorithm.name or "custom",
        task=what.task,
        seed=what.seed,
        rounds=what.rounds,
        fingerprint=fingerprint(dict(what.experiment)),
        experiment=what.experiment,
        arguments=what.arguments,
        about={**described(), **what.about},
        settings=what.settings,
    )


def obtain(store: Store, what: Booked, clock: Callable[[], float], work: Work) -> Run:
    """The run of this name as it is in the store if it is over there, resumed if it was begun, else new.

    Raises what the run raises, also where that is read from the store.
    """
    entry = None if what.new else _found(store, what)
    if entry is None:
        return _new(store, what, clock, work)
    _require_same(entry, what)
    if entry.status in _over(what):
        return _finished(store, entry, what.algorithm)
    return carry_on(store, entry, clock, work)


def _over(what: Booked) -> Sequence[str]:
    return (*OVER, *["stopped"] * what.stopped_is_over)


def _found(store: Store, what: Booked) -> Entry | None:
    """The run of this name; without one the same experiment: one that is over, or that nobody is working on."""
    if what.name is not None:
        return store.find(what.name)
    same = store.same(fingerprint(dict(what.experiment)))
    over = [entry for entry in same if entry.status in _over(what)]
    left = [entry for entry in same if entry.status != "stopped" and not store.is_alive(entry)]
    return next(iter([*over, *left]), None)


def carry_on(store: Store, entry: Entry, clock: Callable[[], float], work: Work) -> Run:
    """Do the work on a run, which is seen to be alive meanwhile, and write down its end, however it ends."""
    with store.working_on(entry):
        if not checkpoint.exists(store.folder(entry.name)):
            store.roll_back(entry.id, [])  # it starts over
        store.set(entry.id, "running")
        writer = Writer(store, entry.id, clock)
        try:
            run = work(writer, entry)
        except tuple(_STATES) as error:
            _ended_early(store, entry, writer, error)
            raise
        end(store, entry, run, writer, "done" if run.stopped is None else "stopped", run.stopped or "")
        return completed(run, entry, writer)


def end(store: Store, entry: Entry, run: Run, writer: Writer, state: str, note: str) -> None:
    """Everything known is written before the checkpoints, which are no longer needed then, go."""
    writer.flush()
    folder = store.folder(entry.name)
    artifacts.write(folder, run)
    summary = {name: run.summary[name] for name in _FACTS if name in run.summary}
    summary["initial_metrics"] = dict(run.initial_metrics)
    known = {"counters": run.counters, "summary": summary, "traffic": run.traffic, "note": note}
    store.set(entry.id, state, **known)
    if state in OVER:
        checkpointer.clear(folder)


def status(error: BaseException) -> str:
    """How a run is that ended with this error."""
    return next(state for kind, state in _STATES.items() if isinstance(error, kind))


def completed(run: Run, entry: Entry, writer: Writer) -> Run:
    """What the store knows beside the result, as facts about this execution."""
    known = {"name": entry.name, "step_seconds": writer.real_seconds}
    return replace(run, summary={**run.summary, **known})


def _new(store: Store, what: Booked, clock: Callable[[], float], work: Work) -> Run:
    entry = begin(store, what)
    try:
        return carry_on(store, entry, clock, work)
    except ConfigError:
        if not checkpoint.exists(store.folder(entry.name)):
            store.delete(entry.name)  # what was refused at once is no run
        raise


def _require_same(entry: Entry, what: Booked) -> None:
    """Two experiments under one name would overwrite each other."""
    if what.resumed or entry.fingerprint == fingerprint(dict(what.experiment)):
        return
    here, there = what.experiment, entry.experiment
    names = (name for name in {**here, **there} if here.get(name) != there.get(name))
    unlike = next(names, "configuration")
    raise ConfigError(
        f"store must be a name that no other experiment has; {entry.name!r} has another {unlike}: "
        f"{brief(there.get(unlike, ''))}; here it is {brief(here.get(unlike, ''))}"
    )


def _finished(store: Store, entry: Entry, algorithm: Algorithm) -> Run:
    run = artifacts.load(store, entry, algorithm)
    for kind in (DivergedError, StalledError):
        if entry.status == _STATES[kind]:
            error: Any = kind(entry.note)
            error.run = run
            raise error
    return run


def _ended_early(store: Store, entry: Entry, writer: Writer, error: Any) -> None:
    if error.run is None:  # it had not begun
        store.set(entry.id, status(error), note=str(error))
        return
    error.run = completed(error.run, entry, writer)
    full = isinstance(error, StorageError)  # then less is saved, and the first error is the one to tell
    with contextlib.suppress(StorageError, OSError) if full else contextlib.nullcontext():
        end(store, entry, error.run, writer, status(error), str(error))
