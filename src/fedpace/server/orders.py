"""Orders of the pacing rule, with versions filled in; the models they send are held as the behaviour requires."""

from __future__ import annotations

from dataclasses import dataclass

from fedpace.algorithm import Algorithm
from fedpace.errors import RemoteError
from fedpace.pace.protocol import Broadcast, Continuous, Interrupt, Interruptible, Order, Send, WakeAt
from fedpace.server.admission import shown
from fedpace.server.messages import Update
from fedpace.server.state import ServerState


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of one run, applied to the server's state."""

    algorithm: Algorithm

    def filled(self, order: Order, s: ServerState) -> Order:
        """The order with its version, which is held from now on."""
        now = s.version
        match order:
            case Send(client, past):
                version = now if past < 0 else past
                self._hold(client, version, s)
                return Send(client, version, now)
            case Broadcast():
                s.holds.announce(now, now, s.versions)
                return Broadcast(now, now)
            case Interrupt(client):
                if self._averages:
                    self._hold(client, now, s)
                return Interrupt(client, now, now)
            case WakeAt(seconds):
                s.wake_at = seconds
        return order

    def _hold(self, client: int, version: int, s: ServerState) -> None:
        if self._interrupts:
            s.holds.send_beside(client, version, s.version, self.algorithm.limits.versions, s.versions)
        else:
            s.holds.send(client, version, s.version, s.versions)

    def take(self, client: int, version: int, s: ServerState) -> None:
        """A client takes a model; RemoteError if it is not held for it."""
        order = s.holds.orders.get(client)
        if order is not None and order.version == version:
            return
        twice = self._reuses or self._interrupts  # the same version may be sent again
        again = not twice and s.holds.answered.get(client, -1) >= version
        if again or not s.holds.offers(client, version):
            raise RemoteError(f"client {client}: version {shown(version)} is not held for it")
        s.holds.take(client, version, self.algorithm.limits.versions, s.versions)

    def lost(self, client: int, s: ServerState) -> None:
        """A client's session came to nothing; models may still be on their way to one that is interrupted."""
        if not self._interrupts:
            s.holds.give_back(client, s.versions)

    def left(self, client: int, s: ServerState) -> None:
        """A client left; a polled client may still report from the version of its stored update."""
        behaviour = self.algorithm.pace.client
        if not (isinstance(behaviour, Continuous) and behaviour.polled):
            s.holds.give_back(client, s.versions)

    def overtaken(self, client: int, round: int, s: ServerState) -> bool:
        """Whether the client has been sent a newer model since; its running session is not affected."""
        order = s.holds.orders.get(client)
        return order is not None and round < order.round and not self._interrupts

    def has(self, update: Update, s: ServerState) -> bool:
        """Whether the client was given the model it says it started from."""
        return self._averages or s.holds.has(update.client, update.version, self._reuses)

    @property
    def _interrupts(self) -> bool:
        return isinstance(self.algorithm.pace.client, Interruptible)

    @property
    def _averages(self) -> bool:
        behaviour = self.algorithm.pace.client
        return isinstance(behaviour, Interruptible) and behaviour.averaging is not None

    @property
    def _reuses(self) -> bool:
        behaviour = self.algorithm.pace.client
        return isinstance(behaviour, Continuous) and behaviour.reuse_model
