"""What the run store is told of a run at its beginning and at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.errors import DivergedError, FedpaceError, InterruptedRun, StalledError, StorageError

if TYPE_CHECKING:
    from fedpace.cli.execution import Experiment
    from fedpace.record import Run
    from fedpace.record.store.store import Entry, Store
    from fedpace.record.store.writer import Writer

OVER = ("done", "diverged", "stalled")  # nothing is left to resume


def begin(what: Experiment, store: Store, name: str | None) -> Entry:
    from fedpace.citations import papers
    from fedpace.record.store.environment import described
    from fedpace.record.store.identity import fingerprint

    about = what.about()
    return store.begin(
        name=name,
        algorithm=what.algorithm.name or "custom",
        task=what.task.name,
        seed=what.seed,
        rounds=what.how["rounds"],
        fingerprint=fingerprint(about),
        experiment=about,
        arguments=what.words,
        about={**described(), "papers": [paper.key for paper in papers(what.algorithm)]},
    )


def end(store: Store, entry: Entry, run: Run, writer: Writer, state: str, note: str) -> None:
    """Everything known is written before the checkpoints, which are no longer needed then, go."""
    from fedpace.record.store import artifacts, checkpointer

    writer.flush()
    folder = store.folder(entry.name)
    artifacts.write(folder, run)
    facts = ("compute", "real_seconds", "warm_up_seconds", "local_step")
    summary = {name: run.summary[name] for name in facts if name in run.summary}
    summary["initial_metrics"] = dict(run.initial_metrics)
    known = {"counters": run.counters, "summary": summary, "traffic": run.traffic, "note": note}
    store.set(entry.id, state, **known)
    if state in OVER:
        checkpointer.clear(folder)


def status(error: FedpaceError | InterruptedRun) -> str:
    kinds = {
        DivergedError: "diverged",
        StalledError: "stalled",
        InterruptedRun: "interrupted",
        StorageError: "failed",
    }
    return next(status for kind, status in kinds.items() if isinstance(error, kind))


def completed(run: Run, entry: Entry, writer: Writer) -> Run:
    """What the store knows beside the result, as facts about this execution."""
    known = {"name": entry.name, "step_seconds": writer.real_seconds}
    return replace(run, summary={**run.summary, **known})
