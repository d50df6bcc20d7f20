"""How well the model serves each client, after some steps and after the last one."""

from __future__ import annotations

from typing import Any

from fedpace.client_spread import ClientSpread
from fedpace.compute.protocol import Task
from fedpace.errors import require, require_count
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector


class ClientEvaluation(Observer):
    """Measures clients every so many steps; None: after the last step, where they have test data of their own."""

    def __init__(self, task: Task, every: int | None) -> None:
        self._evaluate: Any = getattr(task, "evaluate_clients", None)
        self._every = every
        self.found: dict[int, ClientSpread] = {}
        if every is not None:
            require_count(every, "client_metrics_every")
            require(
                self._evaluate is not None,
                "client_metrics_every",
                every,
                f"None: {task.name} measures no clients",
            )
        self._at_end = every is not None or getattr(task, "client_tests", None) is not None

    def recorded(self, record: StepRecord, x: Vector) -> None:
        if self._every is not None and record.version % self._every == 0:
            self.found[record.version] = self._evaluate(x)

    def end(self, version: int, x: Vector) -> dict[int, ClientSpread]:
        """All that was measured, the last model included."""
        if self._at_end and version and version not in self.found:
            self.found[version] = self._evaluate(x)
        return self.found
