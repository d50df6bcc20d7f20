"""How well the model serves each client, after some steps and after the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedpace.client import Client
from fedpace.client_spread import ClientSpread
from fedpace.errors import require, require_count
from fedpace.record.run.own_models import OwnModels
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector


class ClientEvaluation(Observer):
    """Measures clients every so many steps; None: after the last step, where they have test data of their own.

    With models of their own, or local steps before (`own.steps`), each client's model is measured, else the server's.
    `found`: what was measured, by version. `clients` are those of the simulation, for what they keep.
    """

    def __init__(self, own: OwnModels, every: int | None, found: dict[int, ClientSpread]) -> None:
        self._own, self._every, self.found = own, every, found
        self.clients: Mapping[int, Client] = {}
        task: Any = own.task
        self._personal = own.able and (own.are_personal or own.steps is not None)
        measures = self._personal or hasattr(task, "evaluate_clients")
        for name, number in (("client_metrics_every", every), ("personalise", own.steps)):
            if number is not None:
                require_count(number, name)
                require(measures, name, number, f"None: {task.name} measures no clients")
        asked = every is not None or own.steps is not None or getattr(task, "client_tests", None) is not None
        self._at_end = asked or (self._personal and own.are_cheap)

    def recorded(self, record: StepRecord, x: Vector) -> None:
        if self._every is not None and record.version % self._every == 0:
            self.found[record.version] = self._measured(x, record.version)

    def end(self, version: int, x: Vector) -> dict[int, ClientSpread]:
        """All that was measured, the last model included."""
        if self._at_end and version and version not in self.found:
            self.found[version] = self._measured(x, version)
        return self.found

    def _measured(self, x: Vector, version: int) -> ClientSpread:
        if self._personal:
            return self._own.spread(x, version, self.clients)
        task: Any = self._own.task
        found: ClientSpread = task.evaluate_clients(x)
        return found
