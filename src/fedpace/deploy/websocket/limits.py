"""How much a connection may use: size, rate and memory, decided before anything is parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from fedpace.deploy.websocket.wire import OVERHEAD_BYTES
from fedpace.errors import require, require_count, require_number

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MESSAGE_OVERHEAD = 512  # memory of an arrived message besides its bytes
CHUNK_COST = 512  # credit of a chunk besides its bytes: bounds how many tiny ones are under way


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Numbers of the transport; both ends must agree on the first two."""

    chunk_bytes: int = 256 * KIB
    credit_bytes: int = MIB  # unacknowledged, per connection and direction
    message_bytes: int = GIB
    memory_each: int = 32 * MIB  # arrived or arriving, not yet released, per client
    memory_total: int = 2 * GIB
    spool_above: int = 8 * MIB  # larger messages go to disk
    spool_total: int = 16 * GIB
    queued_bytes: int = 4 * GIB  # waiting to be sent to one client
    bytes_per_second: float = 256.0 * MIB
    frames_per_second: float = 20_000.0
    burst_seconds: float = 2.0
    heartbeat_s: float = 10.0
    resume_seconds: float = 30.0  # how long a cut link can be resumed
    stall_seconds: float = 120.0  # a transfer without progress gives its space back
    takeovers_a_minute: int = 3
    joins_a_minute: int = 60  # new links of one identity
    suspension_seconds: float = 3600.0
    opening_seconds: float = 30.0  # until the handshakes are done; a thousand at once share a slow processor
    closing_seconds: float = 10.0  # for queued messages and the closing handshake
    pending_handshakes: int = 1024

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value, what = getattr(self, name), f"TransportLimits.{name}"
            if self.__dataclass_fields__[name].type == "int":
                require_count(value, what)
            else:
                require_number(value, what, above=0, allowed="> 0")
        require(self.chunk_bytes <= 256 * KIB, "chunk_bytes", self.chunk_bytes, "at most 256 KiB")
        require(self.chunk_bytes > CHUNK_COST, "chunk_bytes", self.chunk_bytes, f"> {CHUNK_COST}")
        enough = 2 * self.chunk_bytes  # else a small message could block a large one until the next heartbeat
        require(self.credit_bytes >= enough, "credit_bytes", self.credit_bytes, f">= two chunks ({enough})")
        fits = self.spool_above + MESSAGE_OVERHEAD <= min(self.memory_each, self.memory_total)
        require(fits, "spool_above", self.spool_above, "less than memory_each and memory_total")
        most = self.spool_total
        require(self.message_bytes <= most, "message_bytes", self.message_bytes, f"<= spool_total ({most})")

    @property
    def silence_s(self) -> float:
        """Alive = any byte within three heartbeats."""
        return 3 * self.heartbeat_s

    @property
    def payload_bytes(self) -> int:
        """Bytes of a message in a full chunk; four of them use up a credit of four chunks."""
        return self.chunk_bytes - CHUNK_COST

    @property
    def unread_frames(self) -> int:
        """Frames that a peer within its credit can have under way, and some acknowledgements and heartbeats."""
        return self.credit_bytes // CHUNK_COST + 64

    @property
    def frame_bytes(self) -> int:
        """The longest WebSocket message that is read at all."""
        return self.chunk_bytes + OVERHEAD_BYTES


class Budget:
    """Bytes that are lent: so many in total, and at most so many to each borrower."""

    def __init__(self, total: int, each: int) -> None:
        self.total, self.each = total, each
        self.lent = 0
        self._of: Counter[Hashable] = Counter()

    def take(self, borrower: Hashable, size: int) -> bool:
        """Whether the bytes are free; they then belong to the borrower."""
        if self.lent + size > self.total or self._of[borrower] + size > self.each:
            return False
        self.lent += size
        self._of[borrower] += size
        return True

    def give_back(self, borrower: Hashable, size: int) -> None:
        self.lent -= size
        self._of[borrower] -= size
        if not self._of[borrower]:
            del self._of[borrower]


class TokenBucket:
    """At most `rate` units a second, after a burst; a caller that took more waits until the debt is paid."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._at = burst, now

    def take(self, amount: float, now: float) -> float:
        """Take the amount; the seconds to wait before the next one."""
        grown = self._level + (now - self._at) * self._rate
        self._level, self._at = min(self._burst, grown) - amount, now
        return max(0.0, -self._level / self._rate)


class Meter:
    """Rate of one connection, in bytes and in frames."""

    def __init__(self, limits: TransportLimits, now: float) -> None:
        burst = limits.burst_seconds
        rates = (limits.bytes_per_second, limits.frames_per_second)
        self._bytes, self._frames = (TokenBucket(rate, rate * burst, now) for rate in rates)

    def take(self, size: int, now: float) -> float:
        """Seconds for which nothing more may be read."""
        return max(self._bytes.take(size, now), self._frames.take(1, now))
