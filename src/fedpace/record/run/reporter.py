"""From the events of a simulation to the records its observers get."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Concatenate, ParamSpec

from fedpace.client import Session, Times
from fedpace.compute.protocol import Task
from fedpace.link.codecs import groups
from fedpace.link.wire.traffic import Traffic, VectorShape
from fedpace.pace.protocol import Interruptible
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.server import Parcel, Step, Update
from fedpace.sim.audience import Audience
from fedpace.sim.observer import Activity, Fate, Observer, StepRecord, Tally
from fedpace.sim.simulation import Simulation
from fedpace.vector import Vector

P = ParamSpec("P")
# What is told of every session, and the hook it is passed on to: often nobody has it.
PASSED_ON = {"trained": "activity", "uploading": "activity", "ended": "fate"}


@dataclass(slots=True)
class Reported:
    """State of the reports."""

    marks: tuple[int, int, int] = (0, 0, 0)  # multiples of the evaluation interval that lie behind
    bytes_up: int = 0
    bytes_down: int = 0
    traffic: Traffic = field(default_factory=Traffic)


class Reporter(Observer):
    """Evaluates when it is due, keeps account of the traffic, and tells `others` of steps, activities and fates.

    `spent(virtual seconds, bytes)`: why the run ends here, which makes an evaluation due; empty if it goes on.
    """

    def __init__(
        self,
        others: Iterable[Observer],
        task: Task,
        every: EvaluationInterval | None,
        rounds: int,
        per_tensor: bool = False,
        spent: Callable[[float, int], str] | None = None,
    ) -> None:
        self.audience, self.task, self.every, self.rounds = Audience(others), task, every, rounds
        self.state, self._spent = Reported(), spent
        self._shape = VectorShape(task.layout.size, len(groups.of(task.layout)) if per_tensor else 1)

    def wants(self, hook: str) -> bool:
        passed_on = PASSED_ON.get(hook)
        return super().wants(hook) and (passed_on is None or self.audience.wants(passed_on))

    def initial(self, x: Vector) -> Mapping[str, float]:
        """Metrics of the initial model, unless nothing is to be evaluated."""
        return {} if self.every is None else _without_nan(self.task.evaluate(x))

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        if self.audience.wants("fate"):
            for client, session in dict.fromkeys(zip(step.clients, step.sessions, strict=True)):
                self._tell(Observer.fate, Fate(client, session, "consumed", step.version))
        metrics = self._evaluate(step.version, step.x, now, tally.bytes_up + tally.bytes_down)
        record = StepRecord(
            version=step.version,
            virtual_seconds=now,
            clients=step.clients,
            staleness=step.staleness,
            bytes_up=tally.bytes_up - self.state.bytes_up,
            bytes_down=tally.bytes_down - self.state.bytes_down,
            metrics=metrics,
            clipped=step.clipped,
            epsilon=step.epsilon,
        )
        self.state.bytes_up, self.state.bytes_down = tally.bytes_up, tally.bytes_down
        self._tell(Observer.recorded, record, step.x)
        self._pass_back()

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        for activity in spent(client, session, times, until):
            self._tell(Observer.activity, activity)
        self._pass_back()

    def uploading(self, client: int, update: Update, now: float, until: float) -> None:
        if until > now:
            upload = Activity(client, now, until, "upload", update.version, update.session)
            self._tell(Observer.activity, upload)
        self._pass_back()

    def ended(self, client: int, session: int, fate: str) -> None:
        self._tell(Observer.fate, Fate(client, session, fate))
        self._pass_back()

    def sent_up(self, client: int, update: Update) -> None:
        self.state.traffic.uploaded(client, update.frames, update.steps, self._shape)

    def sent_down(self, client: int | None, parcel: Parcel, copies: int = 1) -> None:
        if client is None:
            self.state.traffic.broadcast(parcel.frames, self._shape, copies)
        else:
            self.state.traffic.downloaded(client, parcel.frames, self._shape)

    def lossy(self, direction: str, meant: Vector, used: Vector) -> None:
        lane = self.state.traffic.up if direction == "up" else self.state.traffic.down
        lane.compare(meant, used)

    def _evaluate(self, version: int, x: Vector, now: float, size_bytes: int) -> Mapping[str, float]:
        if self.every is None:
            return {}
        marks = self.every.marks(version, now, size_bytes)
        last = version == self.rounds or bool(self._spent and self._spent(now, size_bytes))
        due = marks != self.state.marks or last
        self.state.marks = marks
        return _without_nan(self.task.evaluate(x)) if due else {}

    def _tell(self, what: Callable[Concatenate[Any, P], None], *about: P.args, **more: P.kwargs) -> None:
        self.audience.tell(what, *about, **more)

    def _pass_back(self) -> None:
        """An observer's request to stop, once all of them have been notified."""
        if self.audience.stop is not None:
            raise self.audience.stop


def _without_nan(metrics: Mapping[str, float]) -> dict[str, float]:
    """A metric that is not finite is left out."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def reporter_of(simulation: Simulation) -> Reporter:
    """The reporter among a simulation's observers."""
    return next(each for each in simulation.audience.observers if isinstance(each, Reporter))


def counts(simulation: Simulation) -> dict[str, int]:
    """Outcomes of sessions and updates until now."""
    server = simulation.server
    return {
        **asdict(simulation.state.tally),
        **asdict(server.counts),
        "discarded": server.unused,  # in a buffer that was not full in the end
        **server.optimizer_counts,
    }


def spent(client: int, session: Session, times: Times, until: float) -> Iterator[Activity]:
    """A session's time: its download and its training, as far as they came before `until`."""
    stretches = (("download", times.taken_s, times.began_s), ("train", times.began_s, times.ends_s))
    for kind, start, end in stretches:
        if start < min(end, until):
            yield Activity(client, start, min(end, until), kind, session.version, session.number)


def under_way(simulation: Simulation) -> list[Activity]:
    """Local training in progress, to its planned end; until now where it waits to be interrupted."""
    until = simulation.now if isinstance(simulation.config.behaviour, Interruptible) else float("inf")
    return [
        activity
        for number, client in sorted(simulation.clients.items())
        if client.state.running is not None
        for activity in spent(number, client.state.running, client.state.times, until)
    ]
