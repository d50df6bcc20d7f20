"""One run of a study, in whichever process: an algorithm and a seed on the study's task and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.compute import Task
from fedpace.compute.protocol import on_gpu
from fedpace.errors import DivergedError, StalledError, require, require_count
from fedpace.experiment import booked, simulate, with_client_metric
from fedpace.plug_ins import PLACE
from fedpace.record import Run
from fedpace.record.store.booked import StoreAs
from fedpace.sim import Observer, Population
from fedpace.study.build import imported

MOST_SESSIONS = 200_000
MOST_CLIENTS = 10_000

TaskLike = Task | Callable[[int], Task] | str


@dataclass(frozen=True, slots=True)
class StudyRun:
    """A run and how it ended; its seed is the run's."""

    run: Run
    state: str  # done | stopped | diverged | stalled
    clients: int
    note: str = ""  # why it ended early
    facts: Mapping[str, str] = field(default_factory=dict)  # what decides its outcome, by name
    about: Mapping[str, Any] = field(default_factory=dict)  # papers, partition

    @property
    def completed(self) -> bool:
        """Whether its last values are those of a whole run, or of one that was stopped on purpose."""
        return self.state in ("done", "stopped")


class TaskOfSeed:
    """The task for a seed: one for all, or what a function of the seed makes; the last one is kept."""

    def __init__(self, task: TaskLike) -> None:
        self._given = task
        self._last: tuple[int, Task] | None = None

    def __call__(self, seed: int) -> Task:
        if self._last is None or self._last[0] != seed:
            self._last = seed, self._made(seed)
        return self._last[1]

    def _made(self, seed: int) -> Task:
        given: Any = self._given
        if hasattr(given, "solve"):
            return given  # type: ignore[no-any-return]
        if isinstance(given, str) and not PLACE.fullmatch(given):
            from fedpace import tasks

            return tasks.load(given, seed=seed)
        make = imported(given) if isinstance(given, str) else given
        require(callable(make), "task", given, "a task, a function of the seed that makes one, or its name")
        made = make(seed)
        require(
            hasattr(made, "solve") and hasattr(made, "layout"), "the task made for a seed", made, "a task"
        )
        return made  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that the runs of a study share."""

    task: TaskOfSeed
    population: Population | None
    rounds: int
    seeds: Sequence[int]
    options: Mapping[str, Any]  # of `simulate`
    store: str | bool | None = None  # a name; True: saved under free names
    words: Callable[[str, int], Sequence[str]] | None = None  # of `fedpace run`, for a row and a seed
    watch: Callable[[], Sequence[Observer]] = tuple  # observers, new for each run
    stopped_is_over: bool = False
    made_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # places of own functions, by row

    @property
    def on_gpu(self) -> bool:
        return on_gpu(self.task(self.seeds[0]))

    def run(self, row: str, folder: str, algorithm: Algorithm, seed: int) -> StudyRun:
        """From the store, or new; the partial run if it diverged or stalled.."""
        task, note = self.task(seed), ""
        asked = {"rounds": self.rounds, "seed": seed, **self.options}
        traces = seed == self.seeds[0] and few_sessions(algorithm, task, self.rounds)
        store = self._store_as(row, folder, seed, settings=row if row != algorithm.name else "")
        try:
            run = simulate(
                algorithm, task, self.population, **asked, traces=traces, observers=self.watch(), store=store
            )
            state = "done" if run.stopped is None else "stopped"
        except (DivergedError, StalledError) as error:
            run, note = error.run, str(error)
            state = "diverged" if isinstance(error, DivergedError) else "stalled"
        if store is None and state == "done":
            run = with_client_metric(run, task)
        described = booked(store or StoreAs(row), algorithm, task, self.population, **asked)
        bare: Any = None  # the caller has the algorithm, which may be of a class that cannot be sent
        return StudyRun(
            replace(run, algorithm=bare), state, task.clients, note, described.experiment, described.about
        )

    def _store_as(self, row: str, folder: str, seed: int, settings: str) -> StoreAs | None:
        if not self.store:
            return None
        words = () if self.words is None else self.words(row, seed)
        about: dict[str, Any] = {"made_by": dict(self.made_by.get(row, {}))}
        if self.store is True:
            return StoreAs(None, about, self.stopped_is_over, words, settings=settings)
        place = list(self.made_by).index(row) if row in self.made_by else 0
        about["study"] = {"name": self.store, "row": row, "place": place}
        name = f"{self.store}/{folder}/{seed}"
        return StoreAs(name, about, self.stopped_is_over, words, settings=settings)


def few_sessions(algorithm: Algorithm, task: Task, rounds: int) -> bool:
    """Whether the client timeline is small enough to be saved without being asked for."""
    per_step = algorithm.pace.per_step or task.clients
    return rounds * per_step <= MOST_SESSIONS and task.clients <= MOST_CLIENTS


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """`5` is 0 to 4."""
    if isinstance(seeds, int):
        require_count(seeds, "seeds")
        return tuple(range(seeds))
    chosen = tuple(seeds)
    for seed in chosen:
        require_count(seed, "seed", low=0)
    require(len(set(chosen)) == len(chosen) > 0, "seeds", chosen, "a number of them, or different ones")
    return chosen
