"""Everything that can happen to a server, as records: the journal keeps them, the coordinator is a function of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from fedpace.deploy.messages import Envelope, Message, MessageKind
from fedpace.deploy.transport import Buffer
from fedpace.errors import StorageError

_HEAD = struct.Struct("<Bid")


class InputKind(IntEnum):
    START = 1  # the server process began: no client is connected
    MESSAGE = 2  # a client's, as it came
    AWAY = 3  # a client's connection ended; with a body, for good
    WAKE = 4  # the time that was asked for has come
    DISPATCH = 5  # everything that happened at this instant has happened
    EVALUATED = 6  # the server measured a model
    POOLED = 7  # no further sums are waited for: those of these clients make a model's running statistics


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that happened, at `now` seconds of the run's own clock."""

    kind: InputKind
    now: float
    client: int = -1
    body: Buffer = b""
    message: Message | None = field(
        default=None, compare=False, repr=False
    )  # `body`, where it was read already

    def parts(self) -> tuple[bytes, Buffer]:
        """As the journal keeps it."""
        return _HEAD.pack(self.kind, self.client, self.now), self.body

    @classmethod
    def read(cls, record: Buffer) -> Input:
        """A record of the journal; StorageError if it is none."""
        try:
            kind, client, now = _HEAD.unpack_from(record)
            return cls(InputKind(kind), now, client, bytes(record[_HEAD.size :]))
        except (struct.error, ValueError) as error:
            raise StorageError(f"the journal has a record of another kind ({error})") from None

    def read_message(self, envelope: Envelope) -> Message:
        return envelope.unpack(self.body) if self.message is None else self.message


def started(now: float, incarnation: int) -> Input:
    return Input(InputKind.START, now, body=incarnation.to_bytes(8, "little"))


def away(now: float, client: int, gone: bool) -> Input:
    return Input(InputKind.AWAY, now, client, b"gone" if gone else b"")


def evaluated(now: float, version: int, metrics: Mapping[str, float]) -> Input:
    body = json.dumps({"version": version, "metrics": dict(metrics)}, allow_nan=False).encode()
    return Input(InputKind.EVALUATED, now, body=body)


def pooled(now: float, version: int, clients: Iterable[int]) -> Input:
    body = json.dumps({"version": version, "clients": sorted(clients)}).encode()
    return Input(InputKind.POOLED, now, body=body)


def with_dispatches(happened: Sequence[Input], now: float) -> list[Input]:
    """A batch, and a dispatch after it; also between an update and a request for a model that comes with it.

    The update may have made a step, and the request is then answered with the new model, as under a virtual clock.
    """
    batch, updated = [], False
    for each in happened:
        kind = None if each.message is None else each.message.kind
        if kind is MessageKind.WANT and updated:
            batch.append(Input(InputKind.DISPATCH, now))
            updated = False
        updated = updated or kind is MessageKind.UPDATE
        batch.append(each)
    return [*batch, Input(InputKind.DISPATCH, now)]
