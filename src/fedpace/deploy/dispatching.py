"""Orders of the machine, carried out: models, polls and interruptions as messages, and what is expected in return."""

from __future__ import annotations

from fedpace.deploy import messages
from fedpace.deploy.expectations import Awaited
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.state import CoordinatorState
from fedpace.deploy.terms import Terms
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.privacy import NoiseSource
from fedpace.server import Broadcast, Interrupt, Order, Parcel, Poll, Send, Server
from fedpace.vector import Layout, Vector

Outgoing = tuple[int, Message]  # to which client


class Dispatcher:
    """A server, what its driver knows, and the messages that follow from its orders."""

    def __init__(
        self, terms: Terms, initial: Vector, layout: Layout, noise: NoiseSource | None = None
    ) -> None:
        self.terms, self.state = terms, CoordinatorState()
        self.server = Server(
            terms.bound(layout),
            initial,
            terms.clients,
            seed=terms.seed,
            last=terms.rounds,
            samples=terms.samples,
            present=(),
            noise=noise,
        )
        self._out: list[Outgoing] = []

    def resume(self, state: CoordinatorState) -> None:
        """Continue from a checkpoint, whose server has its state already."""
        self.state = state
        if state.population:
            self._settle()

    def _settle(self) -> None:
        """Fix the constants of the aggregation by the samples of the clients that joined before the run began."""
        samples = {client: self.state.samples[client] for client in self.state.population}
        self.server.settle(self.terms.settled(samples))

    @property
    def stamp(self) -> tuple[int, int]:
        """This server at this moment: a client that saw a later one than it ever was tells that it is an old copy."""
        return self.state.incarnations[-1][0], self.state.position

    def _carry_out(self, order: Order) -> None:
        match order:
            case Send(client, version, round):
                self._expect(client, Awaited.TRAINING, version, round)
                self._send_model(client, version, round)
            case Broadcast(version, round):
                self._broadcast(version, round)
            case Poll(client):
                self._expect(client, Awaited.POLL)
                self._send(client, self._stamped(MessageKind.POLL))
            case Interrupt(client, version, round):
                self._expect(client, Awaited.INTERRUPT, version, round)
                self._interrupt(client, version, round)

    def _broadcast(self, version: int, round: int) -> None:
        """To the clients that wait for it; to all where they train until they are interrupted."""
        s = self.state
        s.broadcast = (version, round)
        if isinstance(self.terms.behaviour, Interruptible):
            ready = [client for client in sorted(s.connected) if self.server.is_present(client)]
        else:
            ready = [client for client, newer_than in sorted(s.wanting.items()) if version > newer_than]
        for client in ready:
            s.wanting.pop(client, None)
            self._offer(client)

    def _offer(self, client: int) -> None:
        """Send the newest broadcast to a client that is ready for it."""
        assert self.state.broadcast is not None
        version, round = self.state.broadcast
        if isinstance(self.terms.behaviour, Continuous) and client not in self.state.expected.clients:
            self._expect(client, Awaited.TRAINING, version, round)
        self._send_model(client, version, round)

    def _interrupt(self, client: int, version: int, round: int) -> None:
        if client not in self.state.connected:
            return
        averages = getattr(self.terms.behaviour, "averaging", None) is not None
        parcel = self._retrieve(client, version, round) if averages else None
        header = {
            "round": round,
            "model": None if parcel is None else messages.model_header(parcel),
            "stamp": list(self.stamp),
        }
        self._send(client, Message(MessageKind.INTERRUPT, header, {} if parcel is None else parcel.frames))

    def _send_model(self, client: int, version: int, round: int) -> None:
        """Nothing for a client without a connection: it says what it lacks when it is back."""
        if client in self.state.connected:
            parcel = self._retrieve(client, version, round)
            header = {**messages.model_header(parcel), "stamp": list(self.stamp)}
            self._send(client, Message(MessageKind.MODEL, header, parcel.frames))

    def _retrieve(self, client: int, version: int, round: int) -> Parcel:
        parcel = self.server.retrieve(client, version, round)
        self.state.sent[client] = (version, round)
        self.state.tally.bytes_down += parcel.size_bytes
        return parcel

    def _expect(self, client: int, what: Awaited, version: int = -1, round: int = -1) -> None:
        self.state.expected.expect(client, what, version, round, self.state.now, self.terms.patience)

    def _stamped(self, kind: MessageKind) -> Message:
        return Message(kind, {"stamp": list(self.stamp)})

    def _send(self, client: int, message: Message) -> None:
        self._out.append((client, message))
