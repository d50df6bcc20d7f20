"""The server's links by client: who is here, who is away for a moment, who is gone. No sockets; `now` is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedpace.deploy.identity.peers import PeerCertificate
from fedpace.deploy.transport import Arrived, Connected, Disconnected, Presence, TransportEvent
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.conversation import Conversation
from fedpace.deploy.websocket.gate import Gate
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.link import Link
from fedpace.deploy.websocket.spool import MessageBody, Spool
from fedpace.deploy.websocket.wire import HelloFrame, Place
from fedpace.errors import StorageError

REPLACED = "replaced"  # no refusal: the link went on with a newer connection, or has ended


@dataclass
class Seat:
    """The link of one client, and the connection that serves it now."""

    link: Link
    certificate: PeerCertificate | None
    conversation: Conversation | None = None
    away_since: float = 0.0
    progress: Place | None = None  # of the arriving message, and since when it is there
    progress_at: float = 0.0


class Seats:
    """One link per client; a newer connection wins."""

    def __init__(
        self,
        gate: Gate,
        limits: TransportLimits,
        spool: Spool,
        new_id: Callable[[], bytes],
        tell: Callable[[TransportEvent], None],
    ) -> None:
        self._gate, self._limits, self._spool = gate, limits, spool
        self._new_id, self._tell = new_id, tell
        self._seats: dict[int, Seat] = {}

    def __iter__(self) -> Iterator[Seat]:
        return iter(list(self._seats.values()))

    def get(self, client: int) -> Seat | None:
        return self._seats.get(client)

    def sit(self, hello: HelloFrame, certificate: PeerCertificate | None, now: float) -> Seat:
        """The seat for a client that says hello: its own, taken up again, or a new one."""
        seat = self._seats.get(hello.client)
        if seat is not None and seat.link.continues_with(hello):
            _drop_connection(seat)
            seat.link.resume(hello)
            seat.certificate = certificate
            return seat
        return self._new_seat(seat, hello, certificate, now)

    def _new_seat(
        self, old: Seat | None, hello: HelloFrame, certificate: PeerCertificate | None, now: float
    ) -> Seat:
        client = hello.client
        try:
            self._gate.joins(client, now, takes_over=old is not None and old.conversation is not None)
        except ViolationError as error:
            if error.reason == "suspended":
                self.forget(client, str(error))
            raise
        self.forget(client, "it came back as a new process")
        link = Link(client, self._new_id(), self._limits, self._spool)
        link.yours = hello.mine
        self._seats[client] = seat = Seat(link, certificate)
        self._tell(Connected(client))
        return seat

    def leave(self, seat: Seat, conversation: Conversation, now: float) -> None:
        """The connection was lost; its link waits, unless a newer connection has it."""
        if seat.conversation is conversation:
            seat.conversation, seat.away_since = None, now

    def forget(self, client: int, reason: str) -> None:
        """The link has ended, and its connection with it."""
        seat = self._pop(client, reason)
        if seat is not None:
            _drop_connection(seat)

    def dismiss(self, client: int, reason: str) -> None:
        """The link has ended; the client is told what was queued, and why."""
        seat = self._pop(client, reason)
        if seat is not None and seat.conversation is not None:
            seat.conversation.leave(reason, self._limits.closing_seconds)

    def _pop(self, client: int, reason: str) -> Seat | None:
        seat = self._seats.pop(client, None)
        if seat is not None:
            seat.link.discard()
            self._tell(Disconnected(client, reason))
        return seat

    def housekeep(self, now: float, wall_now: float) -> None:
        """Heartbeats, links that stay away or stall, certificates that are revoked or expired by now."""
        for seat in self:
            try:
                self._check(seat, now, wall_now)
            except ViolationError as error:
                self._gate.rejected[error.reason] += 1
                self.forget(seat.link.client, str(error))

    def _check(self, seat: Seat, now: float, wall_now: float) -> None:
        if seat.certificate is not None:
            self._gate.check(seat.certificate, wall_now)
        if seat.conversation is not None:
            seat.conversation.housekeep(now)
            self._check_progress(seat, now)
        elif now - seat.away_since > self._limits.resume_seconds:
            self.forget(seat.link.client, f"away for more than {self._limits.resume_seconds:g} s")

    def _check_progress(self, seat: Seat, now: float) -> None:
        """A transfer that holds space must advance."""
        place = seat.link.receiving.place
        if not seat.link.receiving.is_arriving or place != seat.progress:
            seat.progress, seat.progress_at = place, now
        elif now - seat.progress_at > self._limits.stall_seconds:
            raise ViolationError("stalled", "an upload made no progress")

    def presences(self, now: float) -> dict[int, Presence]:
        """Who has a link; silent: it has no connection, or did not say a word for two heartbeats."""
        return {client: self._presence(seat, now) for client, seat in self._seats.items()}

    def _presence(self, seat: Seat, now: float) -> Presence:
        if seat.conversation is None:
            return Presence(now - seat.away_since, is_silent=True)
        heard_s_ago = now - seat.conversation.channel.pulse.heard_at
        return Presence(heard_s_ago, is_silent=heard_s_ago > 2 * self._limits.heartbeat_s)

    def deliver(self, link: Link, body: MessageBody) -> None:
        """A whole message for the driver, unless its link has ended meanwhile."""
        seat = self._seats.get(link.client)
        if seat is None or seat.link is not link:
            body.discard()
            return
        self._tell(Arrived(link.client, body.whole(), body.release))

    def admit_waiting(self) -> None:
        """Space has come back: chunks that waited for it, oldest client number first."""
        for seat in self:
            if seat.link.receiving.is_waiting:
                self._admit(seat)

    def _admit(self, seat: Seat) -> None:
        try:
            for body in seat.link.receiving.admit():
                self.deliver(seat.link, body)
        except StorageError as error:
            self._gate.rejected["storage"] += 1
            self.forget(seat.link.client, str(error))
        if seat.conversation is not None:
            seat.conversation.wake()


def _drop_connection(seat: Seat) -> None:
    conversation, seat.conversation = seat.conversation, None
    if conversation is not None:
        conversation.channel.refuse(REPLACED)
