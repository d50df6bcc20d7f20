"""What a client keeps, and what it is to do next."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.client import ClientState
from fedpace.compute.protocol import Request
from fedpace.deploy.messages import Message
from fedpace.errors import ConfigError
from fedpace.vector import Vector

ORIGINS = 4  # sessions that may wait for an answer, and some more


@dataclass(slots=True)
class Remembered:
    """What a client keeps on its disk."""

    client: ClientState = field(default_factory=ClientState)
    acknowledged: int = 0  # its last session that it knows was taken: its memories are those after that one
    stamp: tuple[int, int] = (0, 0)  # the latest server it heard from
    initial: Vector | None = None  # the server's, where this machine made another one
    origins: dict[int, int] = field(default_factory=dict)  # session -> where its model is in the journal

    def began(self, session: int, origin: int) -> None:
        """A session began from the model of this origin, which need not be what came last."""
        recent = list(self.origins.items())[1 - ORIGINS :]
        self.origins = {**dict(recent), session: origin}


@dataclass(slots=True)
class Reaction:
    save: bool = False
    send: list[Message] = field(default_factory=list)
    stop: bool = False
    train: Request | None = None
    evaluate: tuple[int, Vector, Vector | None] | None = None  # version, model, its running statistics
    adds_up: bool = False  # what statistics need, instead of measuring
    bye: str | None = None  # the run is over; why
    error: ConfigError | None = None  # it cannot take part
