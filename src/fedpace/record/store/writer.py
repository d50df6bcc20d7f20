"""An observer that puts history into the run store as it happens, about once a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fedpace.record.store.store import Store
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector

SECONDS = 1.0  # between two commits, at least


class Writer(Observer):
    def __init__(self, store: Store, run: int, clock: Callable[[], float]) -> None:
        self._store, self._run, self._clock = store, run, clock
        self._waiting: list[StepRecord] = []
        self._began = self._wrote = clock()
        self.real_seconds: list[float] = []  # when each step happened, since the run began

    def begun(self, metrics: Mapping[str, float]) -> None:
        self._began = self._clock()

    def recorded(self, record: StepRecord, x: Vector) -> None:
        now, before = self._clock(), self.real_seconds[-1] if self.real_seconds else 0.0
        self._waiting.append(record)
        self.real_seconds.append(now - self._began)
        took = (
            self.real_seconds[-1] - before
        )  # a step that would come after the second must not delay this one
        if now - self._wrote + took >= SECONDS:
            self.flush()

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        self._waiting = []
        self._store.roll_back(self._run, steps)
        self.real_seconds = self._store.real_seconds(self._run)
        self._began = self._clock() - (self.real_seconds[-1] if self.real_seconds else 0.0)

    def flush(self) -> None:
        """Commit what is waiting."""
        count = len(self._waiting)
        self._store.add(self._run, self._waiting, self.real_seconds[len(self.real_seconds) - count :])
        self._waiting = []
        self._wrote = self._clock()
