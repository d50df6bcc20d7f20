"""The two halves of a link: messages cut into chunks within the credit, and put together again.

Neither half knows sockets or clocks. A `Place` counts in whole messages and bytes of the next one, so both sides can
agree after a cut where to go on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate

from fedpace.deploy.transport import Buffer
from fedpace.deploy.websocket.limits import CHUNK_COST, TransportLimits
from fedpace.deploy.websocket.spool import MessageBody, Spool
from fedpace.deploy.websocket.wire import (
    START,
    ChunkFrame,
    Place,
    ack_bytes,
    chunk_header,
    place_after,
)
from fedpace.errors import RemoteError


class ViolationError(RemoteError):
    """A peer broke a rule of the transport; `reason` is the one under which it is counted."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Gathered:
    """Several buffers read as one message, without joining them."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        self._views = [view for view in views if len(view)]
        self._ends = list(accumulate(len(view) for view in self._views))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        """The views of which [begin, end) is made."""
        at = bisect_right(self._ends, begin)
        while begin < end:
            view, starts = self._views[at], self._ends[at] - len(self._views[at])
            piece = view[begin - starts : end - starts]
            yield piece
            begin, at = begin + len(piece), at + 1


class SendingHalf:
    """Queued messages, and those that the peer has not acknowledged."""

    def __init__(self, limits: TransportLimits) -> None:
        self._limits = limits
        self._messages: deque[Gathered] = deque()
        self._sent = self._acknowledged = START
        self._in_flight: deque[tuple[Place, int]] = deque()  # where a chunk ends, and its bytes
        self._unacknowledged = 0
        self.queued_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether everything was sent, though perhaps not received."""
        return self._sent.number == self._acknowledged.number + len(self._messages)

    def put(self, message: Sequence[Buffer]) -> None:
        gathered = Gathered(message)
        self._messages.append(gathered)
        self.queued_bytes += len(gathered)

    def next_chunk(self) -> bytes | None:
        """The next chunk as a frame; None when all is sent or the credit is used up."""
        if self.is_empty:
            return None
        message = self._messages[self._sent.number - self._acknowledged.number]
        size = min(self._limits.payload_bytes, len(message) - self._sent.offset)
        cost = size + CHUNK_COST
        if self._unacknowledged + cost > self._limits.credit_bytes:
            return None
        return self._cut(message, size, cost)

    def _cut(self, message: Gathered, size: int, cost: int) -> bytes:
        at, total = self._sent, len(message)
        self._sent = place_after(at, size, total)
        self._in_flight.append((self._sent, cost))
        self._unacknowledged += cost
        return b"".join([chunk_header(at, total), *message.pieces(at.offset, at.offset + size)])

    def acknowledge(self, received: Place) -> None:
        """The peer has everything before `received`."""
        if not self._acknowledged <= received <= self._sent:
            raise ViolationError("position", f"acknowledged {received}, sent until {self._sent}")
        while self._in_flight and self._in_flight[0][0] <= received:
            self._unacknowledged -= self._in_flight.popleft()[1]
        self._forget_until(received)

    def resume(self, received: Place) -> None:
        """After a cut: go on where the peer stands."""
        if not self._acknowledged <= received <= self._sent:
            raise ViolationError("position", f"resumes at {received}, sent until {self._sent}")
        self._in_flight.clear()
        self._unacknowledged = 0
        self._forget_until(received)
        self._sent = received

    def _forget_until(self, received: Place) -> None:
        for _ in range(received.number - self._acknowledged.number):
            self.queued_bytes -= len(self._messages.popleft())
        self._acknowledged = received


class ReceivingHalf:
    """The message that is arriving, and chunks for which there is no space yet.

    A chunk is acknowledged once it has a place in memory or on disk. While there is none, the peer's credit runs out:
    at most that much waits here.
    """

    def __init__(self, client: int, limits: TransportLimits, spool: Spool) -> None:
        self._client, self._limits, self._spool = client, limits, spool
        self._expected = START  # the next byte from the wire
        self._admitted = START  # everything before it has a place
        self._body: MessageBody | None = None
        self._total = 0
        self._waiting: deque[ChunkFrame] = deque()
        self._unacknowledged = 0  # bytes that came
        self._to_acknowledge = 0  # ... and have a place

    @property
    def place(self) -> Place:
        """Where the peer goes on after a cut."""
        return self._admitted

    @property
    def is_waiting(self) -> bool:
        """Whether chunks wait for space."""
        return bool(self._waiting)

    @property
    def is_arriving(self) -> bool:
        """Whether a part of a message holds space."""
        return self._body is not None

    def take(self, chunk: ChunkFrame) -> list[MessageBody]:
        """Messages that are whole with this chunk; ViolationError if it is out of turn, too large or over credit."""
        self._check(chunk)
        self._expected = chunk.after
        self._unacknowledged += len(chunk.payload) + CHUNK_COST
        self._waiting.append(chunk)
        return self.admit()

    def admit(self) -> list[MessageBody]:
        """Give waiting chunks a place as far as there is space; messages that are whole then."""
        done = []
        while self._waiting and self._has_place(self._waiting[0]):
            chunk = self._waiting.popleft()
            assert self._body is not None
            self._body.append(chunk.payload)
            self._admitted = chunk.after
            self._to_acknowledge += len(chunk.payload) + CHUNK_COST
            if self._admitted.offset == 0:
                done.append(self._body)
                self._body = None
        return done

    def acknowledgement(self, *, early: bool = False) -> bytes | None:
        """An ACK when a quarter of the credit can be given back, or `early` when there is anything."""
        least = 1 if early else self._limits.credit_bytes // 4
        if self._to_acknowledge < least:
            return None
        self._unacknowledged -= self._to_acknowledge
        self._to_acknowledge = 0
        return ack_bytes(self._admitted)

    def resume(self) -> None:
        """After a cut: the peer sends again what found no place."""
        self._waiting.clear()
        self._expected = self._admitted
        self._unacknowledged = self._to_acknowledge = 0

    def discard(self) -> None:
        """The link is gone: give back the space of the part that came."""
        self._waiting.clear()
        if self._body is not None:
            self._body.discard()
            self._body = None

    def _check(self, chunk: ChunkFrame) -> None:
        if chunk.at != self._expected:
            raise ViolationError("order", f"a chunk at {chunk.at}; expected one at {self._expected}")
        if chunk.total > self._limits.message_bytes:
            limit = self._limits.message_bytes
            raise ViolationError("size", f"a message of {chunk.total:,} bytes; at most {limit:,}")
        if chunk.at.offset and chunk.total != self._total:
            raise ViolationError("order", f"a message of {self._total} bytes became one of {chunk.total}")
        cost = len(chunk.payload) + CHUNK_COST
        if self._unacknowledged + cost > self._limits.credit_bytes:
            raise ViolationError("credit", f"more than {self._limits.credit_bytes:,} bytes unacknowledged")
        self._total = chunk.total

    def _has_place(self, chunk: ChunkFrame) -> bool:
        if self._body is None:
            self._body = self._spool.open(self._client, chunk.total)
        return self._body is not None
