"""`fedpace.runs()`: the saved runs, to open, resume and delete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, StorageError, require, require_count, unknown
from fedpace.experiment import simulate
from fedpace.record import Run
from fedpace.record.rows import Entry, Listed
from fedpace.record.run.evaluation import every
from fedpace.record.store import artifacts
from fedpace.record.store.booked import StoreAs
from fedpace.record.store.booking import OVER
from fedpace.record.store.checkpointer import clear
from fedpace.record.store.identity import described, fingerprint, identity
from fedpace.record.store.store import Store
from fedpace.server_opt import Stages
from fedpace.sim import Population
from fedpace.study.build import AlgorithmLike, algorithm_of
from fedpace.study.compare import TargetLike, target_of
from fedpace.study.rebuild import algorithm_from, evaluation_from, population_from, task_from
from fedpace.study.study import Study, main_metric
from fedpace.study.trial import StudyRun, TaskLike, TaskOfSeed
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from pandas import DataFrame


def runs() -> SavedRuns:
    """The runs in the run store (FEDPACE_HOME, FEDPACE_STORE)."""
    return SavedRuns(Store())


@dataclass(frozen=True, slots=True, repr=False)
class SavedRuns:
    """All saved runs, the oldest first."""

    store: Store

    def __iter__(self) -> Iterator[SavedRun]:
        return (SavedRun(self.store, entry) for entry in self.store.entries())

    def __len__(self) -> int:
        return len(self.store.listing())

    def __repr__(self) -> str:
        return f"{len(self)} runs in {self.store.home}"

    def names(self) -> list[str]:
        return [run.name for run in self.store.listing()]

    def open(self, name: str) -> SavedRun:
        """The run of this name."""
        return SavedRun(self.store, self.store[name])

    def study(
        self, name: str, *, target: TargetLike | None = None, metric: str | None = None, baseline: str = ""
    ) -> Study:
        """The runs that `compare(..., store=name)` saved, as far as they are over."""
        entries = [entry for entry in self.store.study(name) if entry.status in (*OVER, "stopped")]
        if not entries:
            raise unknown("study", name, {run.partition("/")[0] for run in self.names() if "/" in run})
        rows: dict[str, list[StudyRun]] = {}
        for entry in entries:
            rows.setdefault(row_of(entry), []).append(study_run(self.store, entry))
        goal = target_of(target)
        known = next(
            (each.run.metrics for own in rows.values() for each in own if each.run.metrics), {"loss": 0.0}
        )
        return Study(rows, metric or (goal[0] if goal else main_metric(known)), goal, baseline, name)

    def delete(self, name: str) -> None:
        """Forget a run, or all runs of a study, and their files."""
        inside = [entry.name for entry in self.store.study(name)]
        for each in inside or [name]:
            self.store.delete(each)

    def to_pandas(self) -> DataFrame:
        """One line per run: name, configuration and how far it is."""
        import pandas

        rows = [
            {
                "name": run.name,
                "algorithm": run.algorithm,
                "task": run.task,
                "seed": run.seed,
                "rounds": run.rounds,
                "steps": run.steps,
                "state": run.status,
                **run.metrics,
            }
            for run in self.store.listing()
        ]
        return pandas.DataFrame(rows)


@dataclass(frozen=True, slots=True, repr=False)
class SavedRun:
    """One saved run."""

    store: Store
    entry: Entry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def state(self) -> str:
        """done | stopped | diverged | stalled | interrupted | failed | running, or died: no process works on it."""
        return state(self.store, self.entry)

    def load(self) -> Run:
        """The run as it is: its history, its model once it is over. The algorithm is its text if it is not ours."""
        try:
            algorithm = algorithm_from(self.entry.experiment.get("algorithm", ""))
        except ConfigError:
            algorithm = None
        return artifacts.load(self.store, self.entry, algorithm)

    def resume(
        self,
        rounds: int | None = None,
        algorithm: AlgorithmLike | None = None,
        task: TaskLike | None = None,
        population: Population | None = None,
        **options: Any,
    ) -> Run:
        """Go on to the end; of a run that is over, its result.

        Fedpace's own algorithms, tasks and devices are rebuilt from their text, others must be given and must match.
        `rounds`: as many steps instead; more than before make the run longer: it is run again from the start, and
        equals a run of that length. `options`: `workers`, `progress`, `observers` and others of `simulate` that do
        not decide the outcome.
        """
        parts = self._parts(algorithm, task, population)
        asked = self._asked(self.entry.rounds if rounds is None else rounds)
        if asked["rounds"] != self.entry.rounds:
            self._extend(asked, parts)
        return simulate(**parts, **asked, **options, store=StoreAs(self.name))

    def delete(self) -> None:
        self.store.delete(self.name)

    def __repr__(self) -> str:
        return (
            f"{self.name}: {self.entry.algorithm} on {self.entry.task}, seed {self.entry.seed}, {self.state}"
        )

    # ------------------------------------------------------------ what it was

    def _parts(
        self, algorithm: AlgorithmLike | None, task: TaskLike | None, population: Population | None
    ) -> dict[str, Any]:
        """The experiment's parts, as they were: given, or rebuilt from their text."""
        text = self.entry.experiment
        places = self.entry.about.get("made_by", {})
        source: TaskLike = task if task is not None else places.get("task") or task_from(text["task"])
        made_task = TaskOfSeed(source)(self.entry.seed)
        rebuilt = (
            places.get("algorithm") or algorithm_from(text["algorithm"]) if algorithm is None else algorithm
        )
        given: AlgorithmLike = rebuilt
        made = algorithm_of(given, made_task.clients, self.entry.rounds)
        devices = population if population is not None else _devices(text["population"])
        parts = {"algorithm": made, "task": made_task, "population": devices}
        for name, value in parts.items():
            same = described(value) == text[name]
            require(same, f"{name} of {self.name}", value, f"the one it was begun with, {text[name][:150]}")
        return parts

    def _asked(self, rounds: int) -> dict[str, Any]:
        require_count(rounds, "rounds", low=max(1, self.entry.rounds))
        interval = evaluation_from(self.entry.experiment.get("evaluate every", "None"))
        return {"rounds": rounds, "seed": self.entry.seed, "evaluate_every": interval}

    def _extend(self, asked: dict[str, Any], parts: dict[str, Any]) -> None:
        algorithm: Algorithm = parts["algorithm"]
        scheduled = isinstance(algorithm.server_opt, Stages)
        require(not scheduled, "rounds", asked["rounds"], "as before: the server's stages depend on them")
        require(not self.store.is_alive(self.entry), "a run to extend", self.name, "one nobody is working on")
        options = {**asked, "evaluate_every": every(asked["evaluate_every"]), "keep_models": False}
        about = identity(**{**parts, **options})
        clear(self.store.folder(self.name))
        self.store.set(self.entry.id, "interrupted", note=f"extended to {asked['rounds']} steps")
        self.store.extend(self.entry.id, asked["rounds"], about, fingerprint(about))


def state(store: Store, entry: Entry | Listed) -> str:
    """Its status; a run that no process works on any more has died. The others need not be asked about."""
    if entry.status == "running" and not store.is_alive(entry):
        return "died"
    return entry.status


def row_of(entry: Entry) -> str:
    """Its row in a study; for a run that is in none, its own name."""
    return str(entry.about.get("study", {}).get("row", entry.name))


def study_run(store: Store, entry: Entry) -> StudyRun:
    """A saved run as a study has it."""
    run = SavedRun(store, entry).load()
    return StudyRun(run, state(store, entry), clients_of(entry), entry.note, facts_of(entry), entry.about)


def clients_of(entry: Entry) -> int:
    text = entry.experiment.get("clients", "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise StorageError(f"the run store has a damaged run, {entry.name!r}: its clients are {brief(text)}")
    return int(text)


def facts_of(entry: Entry) -> dict[str, str]:
    """Configuration, command, versions and machine, as text."""
    facts = dict(entry.experiment)
    if entry.arguments:
        facts["command"] = " ".join(["fedpace run", *entry.arguments])
    for group in ("versions", "machine"):
        facts[group] = ", ".join(f"{name} {value}" for name, value in entry.about.get(group, {}).items())
    return facts


def _devices(text: str) -> Population | None:
    return None if text == "None" else population_from(text)
