"""How a client comes by its first model."""

from __future__ import annotations

from fedpace.vector import Vector


class FirstModelSent:
    """A downlink whose clients do not make the initial model themselves: the first one is sent."""

    __slots__ = ()

    def seeds(self, client: int, state: object) -> bool:
        return False

    def seeded(self, x: Vector) -> None:
        return None
