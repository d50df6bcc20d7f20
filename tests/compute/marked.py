"""Tasks and requests for the tests of engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.vector import Layout, Vector

SIZE = 5
Hook = Callable[[Request], None]


class Marks:
    """A task whose deltas name their request, and whose solves do whatever a test wants first."""

    name = "marks"
    clients = 40
    layout = Layout.of({"x": (SIZE,)})

    def __init__(self, before: Hook = lambda request: None) -> None:
        self.before = before

    def initial(self, seed: int) -> Vector:
        return np.zeros(SIZE)

    def samples(self, client: int) -> float:
        return 1.0

    def solve(self, request: Request) -> Vector:
        self.before(request)
        return expected(request)

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return {"loss": float(x.sum())}


def expected(request: Request) -> Vector:
    added = 0 if request.correction is None else request.correction
    return (
        request.start * 2
        + added
        + np.array([request.client, request.session, request.steps, request.seed, request.data])
    )


def ask(client: int, session: int = 1, start: Vector | None = None, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "version": 0,
        "local": SGD(0.1, steps=3),
        "steps": 3,
        "seed": 7,
        "data": client + 100,
    }
    return Request(client, session, np.ones(SIZE) if start is None else start, **(fields | changes))
