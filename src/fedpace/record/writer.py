"""A recorder that puts history into the run store as it happens, about once a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedpace.record.store import Store
from fedpace.sim.recorder import Activity, Fate, StepRecord
from fedpace.vector import Vector

SECONDS = 1.0  # between two commits, at least


class Writer:
    traces = False

    def __init__(self, store: Store, run: int, clock: Callable[[], float]) -> None:
        self._store, self._run, self._clock = store, run, clock
        self._waiting: list[StepRecord] = []
        self._wrote = clock()

    def step(self, record: StepRecord, x: Vector) -> None:
        self._waiting.append(record)
        if self._clock() - self._wrote >= SECONDS:
            self.flush()

    def resume(self, steps: Sequence[StepRecord]) -> None:
        self._waiting = []
        self._store.roll_back(self._run, steps)

    def flush(self) -> None:
        """Commit what is waiting."""
        self._store.add(self._run, self._waiting)
        self._waiting = []
        self._wrote = self._clock()

    def activity(self, activity: Activity) -> None: ...

    def fate(self, fate: Fate) -> None: ...
