"""Personalisation: a rule about what a client keeps for itself, and how it trains with it.

    parts(layout, batch_norm)                  which parameters travel, and which stay on the client
    beside(local, ...)                         local steps of a session that train only what stays
    train(request, parts, initial, solve)      the update and the client's memory after a session
    model(x, memory, parts, initial)           the client's own model, for evaluation

A client's memory is one vector. It is None until its first update was taken, is part of the request of every session,
and changes only when an update is acknowledged, like every memory of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fedpace.local.personal.parts import Parts
from fedpace.vector import Layout, Vector

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

Solve = Callable[["Request"], Vector]  # local training of the whole model


class Personal(Protocol):
    """A rule of personalisation: a frozen value.

    `own_models`: whether clients end up with models of their own, or only train the server's with a memory.
    """

    own_models: ClassVar[bool]

    def parts(self, layout: Layout, batch_norm: Sequence[str]) -> Parts:
        """The parts of a model of this layout; `batch_norm` names the parameters of such layers."""
        ...

    def memory_size(self, parts: Parts) -> int:
        """Entries of a client's memory."""
        ...

    def beside(self, steps: int, work: Callable[[Any], int]) -> int:
        """Local steps that train only what stays; `work(rule)` is how many a local rule takes in this session."""
        ...

    def train(self, request: Request, parts: Parts, initial: Vector, solve: Solve) -> tuple[Vector, Vector]:
        """The displacement of the shared parameters, and the client's memory once that is acknowledged.

        `request.start` has the shared parameters; `initial` are the private ones before the first session.
        """
        ...

    def model(self, x: Vector, memory: Vector | None, parts: Parts, initial: Vector) -> Vector:
        """The whole model that this client uses, when the shared parameters are `x`."""
        ...
