"""A run in the run store: its beginning, its end, its state and its facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.errors import DivergedError, FedpaceError, InterruptedRun, StalledError, StorageError

if TYPE_CHECKING:
    from fedpace.cli.execution import Experiment
    from fedpace.record import Run
    from fedpace.record.rows import Listed
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
    facts = ("compute", "real_seconds", "warm_up_seconds", "local_step", "privacy")
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


def state(store: Store, entry: Entry | Listed) -> str:
    """Its status; a run that no process works on any more has died. The others need not be asked about."""
    if entry.status == "running" and not store.is_alive(entry):
        return "died"
    return entry.status


def facts(entry: Entry) -> dict[str, str]:
    """Configuration, command, versions and machine, as text."""
    command = " ".join(["fedpace run", *entry.arguments]) if entry.arguments else ""
    groups = {
        group: ", ".join(f"{name} {value}" for name, value in entry.about.get(group, {}).items())
        for group in ("versions", "machine")
    }
    return {**entry.experiment, "command": command, **groups}
