"""From what happens in a simulation to what a recorder wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedpace.client import Session
from fedpace.compute.protocol import Task
from fedpace.server import Step
from fedpace.sim.evaluation import Every
from fedpace.sim.recorder import Activity, Fate, Recorder, StepRecord
from fedpace.sim.simulation import Tally, Watcher
from fedpace.vector import Vector


@dataclass(slots=True)
class Reported:
    """How far the reports have come."""

    marks: tuple[int, int, int] = (0, 0, 0)  # multiples of the evaluation interval that lie behind
    bytes_up: int = 0
    bytes_down: int = 0


class Reporter(Watcher):
    """Evaluates when it is due and turns steps and sessions into records."""

    def __init__(self, recorder: Recorder, task: Task, every: Every | None, rounds: int) -> None:
        self.recorder, self.task, self.every, self.rounds = recorder, task, every, rounds
        self.state = Reported()

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        metrics = self._evaluate(step.version, step.x, now, tally.bytes_up + tally.bytes_down)
        record = StepRecord(
            version=step.version,
            virtual_seconds=now,
            clients=step.clients,
            staleness=step.staleness,
            bytes_up=tally.bytes_up - self.state.bytes_up,
            bytes_down=tally.bytes_down - self.state.bytes_down,
            metrics=metrics,
        )
        self.state.bytes_up, self.state.bytes_down = tally.bytes_up, tally.bytes_down
        self.recorder.step(record, step.x)

    def began(self, client: int, session: Session) -> None:
        if self.recorder.traces:
            kind = Activity(client, session.began_s, session.ends_s, "train", session.version, session.number)
            self.recorder.activity(kind)

    def uploading(self, client: int, session: Session, now: float, until: float) -> None:
        if self.recorder.traces and until > now:
            self.recorder.activity(Activity(client, now, until, "upload", session.version, session.number))

    def ended(self, client: int, session: Session, fate: str, version: int | None) -> None:
        if self.recorder.traces:
            self.recorder.fate(Fate(client, session.number, fate, version))

    def _evaluate(self, version: int, x: Vector, now: float, size_bytes: int) -> Mapping[str, float]:
        if self.every is None:
            return {}
        marks = self.every.marks(version, now, size_bytes)
        due = marks != self.state.marks or version == self.rounds
        self.state.marks = marks
        return dict(self.task.evaluate(x)) if due else {}
