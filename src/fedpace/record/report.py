"""From what happens in a simulation to what a recorder wants to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from fedpace.client import Session, Times
from fedpace.compute.protocol import Task
from fedpace.link.traffic import Traffic
from fedpace.pace.protocol import Interruptible
from fedpace.record.evaluation import Every
from fedpace.record.recorder import Activity, Fate, Recorder, StepRecord
from fedpace.server import Parcel, Step, Update
from fedpace.sim.simulation import Simulation
from fedpace.sim.watcher import Tally, Watcher
from fedpace.vector import Vector


@dataclass(slots=True)
class Reported:
    """How far the reports have come."""

    marks: tuple[int, int, int] = (0, 0, 0)  # multiples of the evaluation interval that lie behind
    bytes_up: int = 0
    bytes_down: int = 0
    traffic: Traffic = field(default_factory=Traffic)


class Reporter(Watcher):
    """Evaluates when it is due, keeps account of the traffic, turns steps and sessions into records."""

    def __init__(self, recorder: Recorder, task: Task, every: Every | None, rounds: int) -> None:
        self.recorder, self.task, self.every, self.rounds = recorder, task, every, rounds
        self.state, self._size = Reported(), task.layout.size

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        if self.recorder.traces:
            for client, session in dict.fromkeys(zip(step.clients, step.sessions, strict=True)):
                self.recorder.fate(Fate(client, session, "consumed", step.version))
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

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        if self.recorder.traces:
            for activity in spent(client, session, times, until):
                self.recorder.activity(activity)

    def uploading(self, client: int, session: Session, now: float, until: float) -> None:
        if self.recorder.traces and until > now:
            self.recorder.activity(Activity(client, now, until, "upload", session.version, session.number))

    def ended(self, client: int, session: Session, fate: str) -> None:
        if self.recorder.traces:
            self.recorder.fate(Fate(client, session.number, fate))

    def sent_up(self, client: int, update: Update) -> None:
        self.state.traffic.uploaded(client, update.frames, update.steps, self._size)

    def sent_down(self, client: int | None, parcel: Parcel, copies: int = 1) -> None:
        if client is None:
            self.state.traffic.broadcast(parcel.frames, self._size, copies)
        else:
            self.state.traffic.downloaded(client, parcel.frames, self._size)

    def lossy(self, direction: str, meant: Vector, used: Vector) -> None:
        lane = self.state.traffic.up if direction == "up" else self.state.traffic.down
        lane.compare(meant, used)

    def _evaluate(self, version: int, x: Vector, now: float, size_bytes: int) -> Mapping[str, float]:
        if self.every is None:
            return {}
        marks = self.every.marks(version, now, size_bytes)
        due = marks != self.state.marks or version == self.rounds
        self.state.marks = marks
        return dict(self.task.evaluate(x)) if due else {}


def reporter_of(simulation: Simulation) -> Reporter:
    """The reporter among a simulation's watchers."""
    return next(watcher for watcher in simulation.watchers if isinstance(watcher, Reporter))


def counts(simulation: Simulation) -> dict[str, int]:
    """What became of sessions and updates until now."""
    server = simulation.server.state
    in_buffer = set(zip(server.members.clients, server.members.sessions, strict=True))
    return {
        **asdict(simulation.state.tally),
        **asdict(server.counts),
        "discarded": len(in_buffer) + len(server.kept),  # in a buffer that was not full in the end
    }


def spent(client: int, session: Session, times: Times, until: float) -> Iterator[Activity]:
    """A session's time: its download and its training, as far as they came before `until`."""
    stretches = (("download", times.taken_s, times.began_s), ("train", times.began_s, times.ends_s))
    for kind, start, end in stretches:
        if start < min(end, until):
            yield Activity(client, start, min(end, until), kind, session.version, session.number)


def under_way(simulation: Simulation) -> list[Activity]:
    """What is being computed at this moment, to its planned end; who waits to be interrupted, until now."""
    until = simulation.now if isinstance(simulation.kit.behaviour, Interruptible) else float("inf")
    return [
        activity
        for number, client in sorted(simulation.clients.items())
        if client.state.running is not None
        for activity in spent(number, client.state.running, client.state.times, until)
    ]
