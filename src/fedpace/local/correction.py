"""Corrections of local gradients (control variates): a rule with a client half and a server half.

A control vector travels beside the model, and another beside the update:

    server   init -> state;  broadcast(state) -> the vector sent beside every model
    client   before(memory, control) -> what is added to each gradient of the session
             after(memory, correction, delta, ...) -> the vector sent beside the update, and the next memory
    server   fold(update, control, state), once per accepted update;  stepped(state), once per server step

A client's memory is None until it first took part, and changes only when its update is acknowledged: what the
server folded in and what the client remembers never disagree, whatever is lost or repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.aggregate.protocol import Contribution


class Correction(Protocol):
    """A correction rule: a frozen value; server state and client memories are values that calls return."""

    def init(self, x: Vector, clients: int) -> Any:
        """The server's state before the first update."""
        ...

    def broadcast(self, state: Any) -> Vector:
        """The control vector that travels with the model."""
        ...

    def before(self, memory: Vector | None, control: Vector) -> Vector | None:
        """The vector that the new session adds to each of its gradients; None: nothing."""
        ...

    def after(
        self, memory: Vector | None, correction: Vector | None, delta: Vector, a_norm1: float, lr: float
    ) -> tuple[Vector, Vector]:
        """The vector to send, and the client's memory once that is acknowledged.

        `memory` is today's; `correction` is what `before` gave when the session that made `delta` began.
        """
        ...

    def fold(self, update: Contribution, control: Vector, state: Any) -> Any:
        """An update and the vector sent beside it were accepted."""
        ...

    def stepped(self, state: Any) -> Any:
        """The server took a step: the folded updates may be broadcast."""
        ...


def mean_gradient(delta: Vector, correction: Vector | None, a_norm1: float, lr: float) -> Vector:
    """The mean of the client's own gradients over a session, weighed by a_i.

    delta = −η Σ_k a_k (g_k + correction), hence Σ_k a_k g_k / ||a||_1 = −delta / (η ||a||_1) − correction.
    """
    total = delta / (-lr * a_norm1)
    return total if correction is None else total - correction
