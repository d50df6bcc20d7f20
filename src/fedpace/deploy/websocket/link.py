"""A link: one pair of processes that may lose connections but not their place."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from fedpace.deploy.transport import Buffer
from fedpace.deploy.websocket.chunks import ReceivingHalf, SendingHalf, ViolationError
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.spool import MessageBody, Spool
from fedpace.deploy.websocket.wire import (
    HEARTBEAT_FRAME,
    ID_BYTES,
    NO_LINK,
    AckFrame,
    AnyFrame,
    ChunkFrame,
    Greeting,
    HeartbeatFrame,
)


def random_id() -> bytes:
    """A name for a link that nobody guesses."""
    return secrets.token_bytes(ID_BYTES)


class Link:
    """Both halves and the two ids that name it.

    A link outlives its connections: after a cut each side tells the other how far it got. It ends when a side says
    goodbye, is a new process, or stays away too long. Sans-I/O: frames in, frames out.
    """

    def __init__(self, client: int, mine: bytes, limits: TransportLimits, spool: Spool) -> None:
        self.client, self.mine, self.yours = client, mine, NO_LINK
        self.sending = SendingHalf(limits)
        self.receiving = ReceivingHalf(client, limits, spool)
        self._limits = limits
        self._heartbeat_due = False

    @property
    def is_known(self) -> bool:
        """Whether the peer has named it, too."""
        return self.yours != NO_LINK

    def continues_with(self, greeting: Greeting) -> bool:
        """Whether the peer means this very link."""
        return self.is_known and (greeting.mine, greeting.yours) == (self.yours, self.mine)

    def resume(self, greeting: Greeting) -> None:
        """Take up a cut link where the peer stands."""
        self.receiving.resume()
        self.sending.resume(greeting.received)

    def put(self, message: Sequence[Buffer]) -> None:
        """Queue a message; ViolationError if the peer reads too slowly for what is queued already."""
        self.sending.put(message)
        if self.sending.queued_bytes > self._limits.queued_bytes:
            raise ViolationError("slow", f"more than {self._limits.queued_bytes:,} bytes wait to be sent")

    def take(self, frame: AnyFrame) -> list[MessageBody]:
        """Messages that are whole with this frame."""
        if isinstance(frame, ChunkFrame):
            return self.receiving.take(frame)
        if isinstance(frame, AckFrame):
            self.sending.acknowledge(frame.received)
        elif not isinstance(frame, HeartbeatFrame):
            raise ViolationError("frame", f"a {type(frame).__name__} in the middle of a link")
        return []

    def beat(self) -> None:
        """Have something sent, if only a heartbeat."""
        self._heartbeat_due = True

    def next_frame(self) -> bytes | None:
        """The next frame to send; None when there is none, or no credit for it."""
        due, self._heartbeat_due = self._heartbeat_due, False
        frame = self.receiving.acknowledgement(early=due) or self.sending.next_chunk()
        return HEARTBEAT_FRAME if frame is None and due else frame

    def discard(self) -> None:
        """It ended: give back all that it holds."""
        self.receiving.discard()
