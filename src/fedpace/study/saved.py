"""`fedpace.runs()`: the saved runs, to open, resume and delete."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedpace.algorithm import Algorithm
from fedpace.compute import Task
from fedpace.errors import ConfigError, require, require_count
from fedpace.experiment import simulate
from fedpace.record import Run, rows
from fedpace.record.rows import Entry
from fedpace.record.run.live import LivePage, live_page
from fedpace.record.run.metrics import main_metric
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
from fedpace.study.rebuild import (
    algorithm_from,
    evaluation_from,
    number_from,
    population_from,
    stop_from,
    task_from,
)
from fedpace.study.study import Study
from fedpace.study.trial import StudyRun, TaskLike, TaskOfSeed

MEASUREMENT = ("client_metrics_every", "personalise")  # of its clients

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["OVER", "SavedRun", "SavedRuns", "runs"]


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
        """The runs that `compare(..., store=name)` saved."""
        return self.among([name], target=target, metric=metric, baseline=baseline, title=name)

    def among(
        self,
        names: Sequence[str],
        *,
        target: TargetLike | None = None,
        metric: str | None = None,
        baseline: str = "",
        title: str = "",
    ) -> Study:
        """These runs, and the runs of these studies, side by side; those that differ in their seed only are one row."""
        entries = [entry for name in names for entry in self._in_order(name)]
        found: dict[str, list[StudyRun]] = {}
        for label, entry in zip(_labels(entries), entries, strict=True):
            found.setdefault(label, []).append(study_run(self.store, entry))
        goal = target_of(target)
        known = next((each.run.metrics for own in found.values() for each in own if each.run.metrics), {})
        chosen = metric or (goal[0] if goal else main_metric(known or {"loss": 0.0}))
        in_order = {row: sorted(own, key=lambda each: each.run.seed) for row, own in found.items()}
        return Study(in_order, chosen, goal, baseline, title)

    def _in_order(self, name: str) -> list[Entry]:
        """A study's runs in the order of its rows, whichever began first."""
        entries = [self.store[each] for each in self.store.names(name)]
        return sorted(entries, key=lambda entry: entry.about.get("study", {}).get("place", 0))

    def delete(self, name: str) -> None:
        """Forget a run, or all runs of a study, and their files."""
        for each in self.store.names(name):
            self.store.delete(each)

    def to_pandas(self) -> DataFrame:
        """One line per run: name, configuration and how far it is."""
        import pandas

        shown = ("name", "algorithm", "task", "seed", "rounds", "steps")
        lines = [
            {**{name: getattr(run, name) for name in shown}, "state": run.status, **run.metrics}
            for run in self.store.listing()
        ]
        return pandas.DataFrame(lines)


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
        return self.store.state(self.entry)

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

        Fedpace's own algorithms, tasks and devices are rebuilt from their text, and functions `module:function` from
        their names; others must be given and must match.
        `rounds`: more steps than before make the run longer: it is run again from the start, and equals a run of
        that length. `options`: `workers`, `progress`, `observers` and others of `simulate` that do not decide the
        outcome.
        """
        parts = self.parts(algorithm, task, population)
        steps = self.entry.rounds if rounds is None else rounds
        if steps != self.entry.rounds:
            self.extended(steps, **parts)
        asked = {
            "rounds": steps,
            "seed": self.entry.seed,
            "evaluate_every": self.evaluate_every,
            "stop": self.stop,
            **self.client_measurement,
        }
        return simulate(**parts, **asked, **{**self.engine, **options}, store=StoreAs(self.name))

    def delete(self) -> None:
        self.store.delete(self.name)

    def live(self) -> LivePage:
        """Its page in a notebook, where it grows while another process trains it (`pip install 'fedpace[ui]'`)."""
        return live_page(self.name)

    def __repr__(self) -> str:
        return (
            f"{self.name}: {self.entry.algorithm} on {self.entry.task}, seed {self.entry.seed}, {self.state}"
        )

    # ------------------------------------------------------------ its configuration

    def parts(
        self,
        algorithm: AlgorithmLike | None = None,
        task: TaskLike | None = None,
        population: Population | None = None,
    ) -> dict[str, Any]:
        """Algorithm, task and population as they were: given, or rebuilt from their names or their text."""
        text, places = self.entry.experiment, self.entry.about.get("made_by", {})
        source: TaskLike = task if task is not None else places.get("task") or task_from(text["task"])
        made_task = TaskOfSeed(source)(self.entry.seed)
        given = (
            places.get("algorithm") or algorithm_from(text["algorithm"]) if algorithm is None else algorithm
        )
        made = algorithm_of(given, made_task.clients, self.entry.rounds)
        devices = population if population is not None else _devices(text["population"])
        found = {"algorithm": made, "task": made_task, "population": devices}
        for name, value in found.items():
            same = described(value) == text[name]
            require(same, f"{name} of {self.name}", value, f"the one it was begun with, {text[name][:150]}")
        return found

    @property
    def evaluate_every(self) -> Any:
        return evaluation_from(self.entry.experiment.get("evaluate every", "None"))

    @property
    def client_measurement(self) -> dict[str, int]:
        """How its clients are measured, as `simulate` takes it."""
        text = self.entry.experiment
        found = {name: number_from(text.get(name.replace("_", " "), "None")) for name in MEASUREMENT}
        return {name: number for name, number in found.items() if isinstance(number, int)}

    @property
    def engine(self) -> dict[str, str]:
        """The engine, as `simulate` takes it, where another would give other bits."""
        text = self.entry.experiment
        return {"compute": text["compute"].strip("'")} if "compute" in text else {}

    @property
    def stop(self) -> Any:
        """The rules that end it early, as `simulate` takes them."""
        return stop_from(self.entry.experiment.get("stop", "None"))

    def extended(
        self,
        rounds: int,
        algorithm: Algorithm,
        task: Task,
        population: Population | None,
        arguments: Sequence[str] = (),
    ) -> SavedRun:
        """The run with more steps than it was begun with, to be run from the start."""
        require_count(rounds, "rounds", low=self.entry.rounds)
        parent = self.entry.about.get("parent")
        require(not parent, "a run to extend", self.name, "one that started from its task's model")
        scheduled = isinstance(algorithm.server_opt, Stages)
        require(not scheduled, "rounds", rounds, "as before: the server's stages depend on them")
        require(not self.store.is_alive(self.entry), "a run to extend", self.name, "one that is not running")
        options = {"rounds": rounds, "evaluate_every": self.evaluate_every, "keep_models": False}
        options |= {} if self.stop is None else {"stop": self.stop}
        options |= self.client_measurement | self.engine
        about = identity(algorithm, task, population, self.entry.seed, None, **options)
        clear(self.store.folder(self.name))
        self.store.set(self.entry.id, "interrupted", note=f"extended to {rounds} steps")
        self.store.extend(self.entry.id, rounds, about, fingerprint(about), arguments)
        return SavedRun(self.store, self.store[self.name])


def study_run(store: Store, entry: Entry) -> StudyRun:
    """A saved run as a study has it."""
    run, state = SavedRun(store, entry).load(), store.state(entry)
    return StudyRun(run, state, rows.clients(entry), entry.note, rows.facts(entry), entry.about)


def _labels(entries: Sequence[Entry]) -> list[str]:
    """The rows of these runs: a study's own; of others, one for those that differ in their seed only."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_without_seed(entry), []).append(entry)
    return [_label(entry, groups[_without_seed(entry)]) for entry in entries]


def _label(entry: Entry, group: Sequence[Entry]) -> str:
    if "study" in entry.about:
        return str(entry.about["study"]["row"])
    repeated = len(group) > 1 and len({each.seed for each in group}) == len(group)
    return f"{entry.algorithm} ({group[0].name} ...)" if repeated else entry.name


def _without_seed(entry: Entry) -> tuple[str, ...]:
    """What decides the outcome, but the seed and what it decides."""
    kept = (text for name, text in entry.experiment.items() if name not in ("seed", "initial model"))
    return tuple(re.sub(r"\bseed=\d+|sha256 [0-9a-f]+", "", text) for text in kept)


def _devices(text: str) -> Population | None:
    return None if text == "None" else population_from(text)
