"""How a server measures models: by itself, by its clients, and with running statistics that clients add up before."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedpace.deploy import inputs, messages
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.inputs import Input
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.transport import ServerTransport
from fedpace.link.codecs.dense import encode_dense
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.server import Step
from fedpace.vector import Vector

ESTIMATE_S = 30.0  # for clients to add up; those that take longer are left out

Evaluate = Callable[[Vector, Vector | None], Mapping[str, float]]  # model, its running statistics


@dataclass(slots=True)
class _Estimate:
    """A model whose running statistics are being added up."""

    step: Step
    is_due: bool  # and measured afterwards
    until_s: float
    asked: set[int] = field(default_factory=set)


class Measuring:
    """Measures every model that is due. What it finds becomes an input, given to `report`."""

    def __init__(
        self,
        coordinator: Coordinator,
        transport: ServerTransport,
        report: Callable[[Input], None],
        *,
        evaluate: Evaluate | None,
        by_clients: bool,
        every: EvaluationInterval | None,
        clock: Callable[[], float],
    ) -> None:
        self.coordinator, self.transport, self.report = coordinator, transport, report
        self.evaluate, self.by_clients, self.every = evaluate, by_clients, every
        self._clock = clock
        self._estimates: dict[int, _Estimate] = {}  # by version
        self._task_is_free = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()
        self._marks: tuple[int, int, int] | None = None
        self._stepped = 0  # the newest model that this process was told of

    def stepped(self, step: Step) -> None:
        """Another model is there."""
        self._stepped = step.version
        due = self._is_due(step)
        if self.coordinator.terms.normalisers and (due or self._is_last(step)):
            self._ask_for_sums(step, due)
        elif due:
            self._measure(step, None)

    @property
    def asks_clients(self) -> bool:
        """Whether clients are needed to say anything about a model."""
        return self.by_clients or bool(self.coordinator.terms.normalisers)

    @property
    def missed_last(self) -> bool:
        """Whether the last step was another process's, which ended before all was said about its model."""
        s, last = self.coordinator.state, self.coordinator.server.version
        statistics = bool(self.coordinator.terms.normalisers) and last not in s.statistics
        own = self.evaluate is not None and last not in s.metrics
        theirs = self.by_clients and last not in s.client_metrics
        return self._stepped < last and (statistics or (self.every is not None and (own or theirs)))

    def make_up(self) -> None:
        """Ask now what is missing about the last model; its members are in the history."""
        server = self.coordinator.server
        self.stepped(Step(server.version, server.model, clients=(), sessions=(), staleness=()))

    def disconnected(self, client: int) -> None:
        """It does not answer any more."""
        for estimate in self._estimates.values():
            estimate.asked.discard(client)

    @property
    def wait_s(self) -> float | None:
        """Until it waits no longer for one of its clients."""
        times = [estimate.until_s for estimate in self._estimates.values()]
        return max(0.0, min(times) - self._clock()) if times else None

    def complete(self, now: float) -> list[tuple[Input, Step, bool]]:
        """Models whose statistics are waited for no longer: the input that says so, the step, whether to measure."""
        sums, found = self.coordinator.state.sums, []
        for version, estimate in list(self._estimates.items()):
            answered = set(sums.get(version, ()))
            if estimate.asked <= answered or self._clock() >= estimate.until_s:
                del self._estimates[version]
                found.append((inputs.pooled(now, version, answered), estimate.step, estimate.is_due))
        return found

    def pooled(self, step: Step) -> None:
        """Measure a model with its statistics; not at all if nobody could add up any."""
        statistics = self.coordinator.state.statistics.get(step.version)
        if statistics is not None:
            self._measure(step, statistics)

    @property
    def lacks_last(self) -> bool:
        """Whether anything about the last model is still to come."""
        s, last = self.coordinator.state, self.coordinator.server.version
        own = self.evaluate is not None and last not in s.metrics
        theirs = self.by_clients and not s.connected <= set(s.client_metrics.get(last, {}))
        return bool(self._estimates) or (self.every is not None and (own or theirs))

    def cancel(self) -> None:
        for task in self._under_way:
            task.cancel()

    # ------------------------------------------------------------ one model

    def _is_due(self, step: Step) -> bool:
        if self.every is None:
            return False
        tally = self.coordinator.state.tally
        marks = self.every.marks(step.version, self.coordinator.state.now, tally.bytes_up + tally.bytes_down)
        due = marks != self._marks or self._is_last(step)
        self._marks = marks
        return due

    def _is_last(self, step: Step) -> bool:
        return self.coordinator.finished and step.version == self.coordinator.server.version

    def _ask_for_sums(self, step: Step, due: bool) -> None:
        asked = set(self.coordinator.state.connected)
        self._estimates[step.version] = _Estimate(step, due, self._clock() + ESTIMATE_S, asked)
        model = {"model": encode_dense(step.x)}
        self._tell_all(Message(MessageKind.ESTIMATE, {"version": step.version}, model))

    def _measure(self, step: Step, statistics: Vector | None) -> None:
        if self.evaluate is not None:
            measuring = asyncio.ensure_future(self._measured(self.evaluate, step, statistics))
            self._under_way.add(measuring)
            measuring.add_done_callback(self._under_way.discard)
        if self.by_clients:
            self._tell_all(messages.to_evaluate(step.version, step.x, statistics))

    async def _measured(self, evaluate: Evaluate, step: Step, statistics: Vector | None) -> None:
        """One at a time: a task has one module, and torch one random generator."""
        async with self._task_is_free:
            metrics = await asyncio.to_thread(evaluate, step.x, statistics)
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        self.report(inputs.evaluated(0.0, step.version, finite))  # the time is that of its batch

    def _tell_all(self, message: Message) -> None:
        parts = self.coordinator.envelope.pack(message)
        for client in sorted(self.coordinator.state.connected):
            self.transport.send(client, parts)
