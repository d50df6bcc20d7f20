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
    """The orders of one run, applied to the server's state; and how its clients work, looked up once."""

    max_models: int  # models that one client may hold
    interrupts: bool  # clients work until they are interrupted
    averages: bool  # ... and send whole models (QuAFL)
    reuses: bool  # clients train on a model more than once
    stores: bool  # clients keep a finished update until it is asked for

    @classmethod
    def of(cls, algorithm: Algorithm) -> Orders:
        client = algorithm.pace.client
        return cls(
            algorithm.limits.versions,
            interrupts=isinstance(client, Interruptible),
            averages=isinstance(client, Interruptible) and client.averaging is not None,
            reuses=isinstance(client, Continuous) and client.reuse_model,
            stores=isinstance(client, Continuous) and client.polled,
        )

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
                if self.averages:
                    self._hold(client, now, s)
                return Interrupt(client, now, now)
            case WakeAt(seconds):
                s.wake_at = seconds
        return order

    def _hold(self, client: int, version: int, s: ServerState) -> None:
        if self.interrupts:
            s.holds.send_beside(client, version, s.version, self.max_models, s.versions)
        else:
            s.holds.send(client, version, s.version, s.versions)

    def take(self, client: int, version: int, s: ServerState) -> None:
        """A client takes a model; RemoteError if it is not held for it."""
        holds = s.holds
        order = holds.orders.get(client)
        if order is not None and order.version == version:
            return
        twice = self.reuses or self.interrupts  # the same version may be sent again
        again = not twice and holds.answered.get(client, -1) >= version
        if again or not holds.offers(client, version):
            raise RemoteError(f"client {client}: version {shown(version)} is not held for it")
        holds.take(client, version, self.max_models, s.versions)

    def lost(self, client: int, s: ServerState) -> None:
        """A client's session came to nothing; models may still be on their way to one that is interrupted."""
        if not self.interrupts:
            s.holds.give_back(client, s.versions)

    def left(self, client: int, s: ServerState) -> None:
        """A client left; a polled client may still report from the version of its stored update."""
        if not self.stores:
            s.holds.give_back(client, s.versions)

    def overtaken(self, client: int, round: int, s: ServerState) -> bool:
        """Whether the client has been sent a newer model since; its running session is not affected."""
        order = s.holds.orders.get(client)
        return order is not None and round < order.round and not self.interrupts

    def late(self, update: Update, s: ServerState) -> str:
        """Why an update comes too late; empty if it does not."""
        overtaken = self.overtaken(update.client, update.round, s)
        return "late: a newer model was sent to it" if overtaken else ""

    def has(self, update: Update, s: ServerState) -> bool:
        """Whether the client was given the model it says it started from."""
        return self.averages or s.holds.has(update.client, update.version, self.reuses)
