"""What a client's machine trains."""

from __future__ import annotations

from typing import Protocol

from fedpace.compute.protocol import Request
from fedpace.vector import Layout, Vector


class ModelAndSamples(Protocol):
    """What a client tells and holds before it computes anything."""

    @property
    def layout(self) -> Layout: ...

    def initial(self, seed: int) -> Vector: ...

    def samples(self, client: int) -> float: ...


class LocalTask(ModelAndSamples, Protocol):
    """What a client's machine has: the model and its own data. Any `Task`; `train_until` where it may be stopped."""

    def solve(self, request: Request) -> Vector: ...
