"""How well clients are served by the models that they would use themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.client import Client
from fedpace.client_spread import ClientSpread
from fedpace.compute.inline import solve
from fedpace.compute.personal import PersonalTask
from fedpace.compute.protocol import Request, Task
from fedpace.local import at_step
from fedpace.vector import Vector, freeze

CHEAP_SAMPLES = 500_000  # evaluated in all: more is measured when asked for


@dataclass(frozen=True, slots=True)
class OwnModels:
    """A client's own model: the algorithm's personal one, else the server's; after some local steps on its own data.

    The steps are those of the algorithm's local rule, and belong to no session: nothing of the run depends on them.
    """

    task: Task
    local: Any
    seed: int
    steps: int | None = None

    @property
    def whole(self) -> Any:
        """The task of whole models."""
        return self.task.whole if isinstance(self.task, PersonalTask) else self.task

    @property
    def are_personal(self) -> bool:
        """Whether the algorithm leaves clients with models of their own."""
        return isinstance(self.task, PersonalTask) and self.task.rule.own_models

    @property
    def able(self) -> bool:
        return hasattr(self.whole, "evaluate_client")

    @property
    def are_cheap(self) -> bool:
        """Whether it takes little time to measure them; a named task measures each client on all its test data."""
        if hasattr(self.whole, "parts"):
            return bool(len(self.whole.test) * self.task.clients <= CHEAP_SAMPLES)
        return sum(self.task.samples(client) for client in range(self.task.clients)) <= CHEAP_SAMPLES

    def spread(self, x: Vector, version: int, clients: Mapping[int, Client]) -> ClientSpread:
        """One metric of every client, when the server's model is `x`."""
        rows = [
            self.whole.evaluate_client(self._model(number, x, version, clients.get(number)), number)
            for number in range(self.task.clients)
        ]
        name = "accuracy" if "accuracy" in rows[0] else "loss"
        return ClientSpread(name, np.array([row[name] for row in rows]), higher_is_better=name == "accuracy")

    def _model(self, number: int, x: Vector, version: int, client: Client | None) -> Vector:
        if isinstance(self.task, PersonalTask):
            x = self.task.personal(x, None if client is None else client.state.kept)
        if self.steps is None:
            return x
        rule = at_step(self.local, version)
        request = Request(number, 0, freeze(x), -1, rule, self.steps, self.seed, data=number)
        return x + solve(self.whole, request)[: x.size]
