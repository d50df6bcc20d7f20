"""Stop 4: one update -> the next model."""

from __future__ import annotations

from typing import Any, Protocol

from fedpace.vector import Vector


class ServerOpt(Protocol):
    """A server optimizer: a frozen value of hyper-parameters; its state is a value that calls return."""

    def init(self, x: Vector) -> Any:
        """The state before the first step from model `x`."""
        ...

    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        """The next model, as a new vector, and the next state. `delta` is a displacement: it is added.

        `x` and `delta` are never written to. The state's own buffers may be reused: the state that
        went in is spent.
        """
        ...
