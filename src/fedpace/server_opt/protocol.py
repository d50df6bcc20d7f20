"""Server optimizers: one update -> the next model."""

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

        Nothing that went in is written to, the state included: a step that is not taken leaves it as it was.
        A rule with `checks_itself = True` raises NotFiniteError where the model or its state would not be
        finite; for any other the server looks. One with `counts(state)` adds these counters to a run's.

        One that has `spend`, too, is asked for the same by that name where `delta` and the state are the caller's
        own and not needed any more: the next model may then be written over `delta`, and the next state over the
        state. If it raises, the state is as it was, and `delta` is lost. Read-only vectors are not the caller's own.
        """
        ...
