"""A run again from its journal, offline: the same function of the same inputs, hence the same bits.

With `retrain`, every update is computed again as well, from data, in the order of the journal; each frame must come
out as it was sent, byte for byte.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedpace.client import Client, ClientConfig, ClientState
from fedpace.compute.personal import personal_task
from fedpace.compute.protocol import Task
from fedpace.deploy import genesis, messages
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.genesis import Genesis
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.journal.disk_journal import inputs_from, read_segments, restore
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind, SentModel
from fedpace.deploy.running import outcome
from fedpace.errors import ConfigError, DivergedError, RemoteError
from fedpace.pace.protocol import Interruptible
from fedpace.record import Run
from fedpace.server import Receipt, Update
from fedpace.sim.training import request


@dataclass(frozen=True, slots=True)
class Replay:
    """`since`: the input it started after, 0 where the whole journal is there.

    `retrained`: updates computed again, all but those that an old backup held and later ones have overtaken;
    `different`: (client, session) of those whose bytes came out otherwise; `clients`: what each client remembers in the
    end.
    """

    run: Run
    coordinator: Coordinator
    inputs: int
    since: int
    retrained: int = 0
    different: tuple[tuple[int, int], ...] = ()
    clients: Mapping[int, ClientState] = field(default_factory=dict)


def replay(
    folder: str | Path,
    task: Task | None = None,
    *,
    rules: Mapping[str, Callable[..., Any]] | None = None,
) -> Replay:
    """The run in a server's folder, from its journal. With a `task` that holds all clients' data every update is
    trained again.
    """
    files = DiskFiles(Path(folder))
    begun = genesis.read(files, rules) if Path(folder).is_dir() else None
    if begun is None:
        raise ConfigError(f"folder must hold a deployed run, with its journal; got {str(folder)!r}")
    coordinator, found = begun.coordinator(), read_segments(files, begun.run)
    whole = not found or found[0][1].first == 0
    since = 0 if whole else restore(files, coordinator)
    if task is not None and not whole:
        raise ConfigError(
            "journal must be kept whole to train again (journal=keep); its beginning was deleted"
        )
    again = None if task is None else Retraining(begun, task)
    with contextlib.suppress(DivergedError):  # as the run itself ended
        for what in inputs_from(found, since):
            _repeat(what, coordinator, again)
    run, count = outcome(begun, coordinator), coordinator.state.position - since
    return Replay(run, coordinator, count, since) if again is None else again.result(run, coordinator)


def _repeat(what: Input, coordinator: Coordinator, again: Retraining | None) -> None:
    if again is None:
        coordinator.handle(what)
        return
    if what.kind is InputKind.MESSAGE:
        again.arrived(what.client, what.read_message(coordinator.envelope))
    for client, message in coordinator.handle(what):
        again.sent(client, message)


@dataclass(slots=True)
class _Again:
    """One client, computed again."""

    machine: Client
    models: deque[SentModel] = field(default_factory=deque)  # sent to it, not begun yet
    restarted: bool = False  # and an upload from before is still to come
    sent: int = 0  # the last session it sent
    compared: set[tuple[int, int]] = field(default_factory=set)  # session and origin
    newest: int = -1  # of those origins
    refusal: Receipt | None = (
        None  # of that one, which counts once it sends another: it may not have heard it
    )

    def forget(self) -> None:
        self.machine.forget()
        self.models.clear()
        self.sent, self.restarted, self.refusal = 0, False, None

    def answered(self, session: int, receipt: Receipt) -> None:
        """The server answered. A client that did not hear a refusal sends the same again, and it may be taken then."""
        upload = self.machine.state.upload
        if upload is None or upload.session != session:
            return
        if receipt.taken < session:
            self.refusal = receipt
        else:
            self.machine.acknowledged(receipt)
            self.refusal = None

    def accept_refusal(self) -> None:
        if self.refusal is not None:
            self.machine.acknowledged(self.refusal)
            self.refusal = None


class Retraining:
    """The clients of a run, as far as their updates tell what they did."""

    def __init__(self, begun: Genesis, task: Task) -> None:
        self.task, self.compared = personal_task(task, begun.terms.plan.algorithm, begun.terms.seed), 0
        self.different: list[tuple[int, int]] = []
        algorithm = begun.terms.plan.algorithm.bound(begun.layout)
        self._config = ClientConfig.of(algorithm, begun.initial, begun.terms.seed)
        self._clients: dict[int, _Again] = {}

    def result(self, run: Run, coordinator: Coordinator) -> Replay:
        clients = {number: each.machine.state for number, each in self._clients.items()}
        compared = (self.compared, tuple(self.different), clients)
        return Replay(run, coordinator, coordinator.state.position, 0, *compared)

    def sent(self, client: int, message: Message) -> None:
        """The server sent this: models wait until the client begins, receipts count at once."""
        header, known = message.header, self._clients.get(client)
        match message.kind:
            case MessageKind.WELCOME if header["forget"] and known is not None:
                known.forget()
            case MessageKind.MODEL | MessageKind.INTERRUPT:
                if (model := messages.to_sent_model(message)) is not None:
                    self._of(client).models.append(model)
            case MessageKind.RECEIPT if known is not None:
                known.answered(header["session"], messages.to_receipt(header))

    def arrived(self, client: int, message: Message) -> None:
        """A client sent this."""
        if message.kind is MessageKind.HELLO:
            self._greeted(client, message)
        elif message.kind is MessageKind.UPDATE:
            update = messages.to_update(client, message)
            if "resync" in update.frames:
                self._of(client).machine.state.held = None
                self._of(client).models.clear()
            else:
                self._compare(self._of(client), update, message.header["origin"])

    def _of(self, client: int) -> _Again:
        if client not in self._clients:
            machine = Client(self._config, client, self.task.samples(client), 0.0)
            self._clients[client] = _Again(machine)
        return self._clients[client]

    def _greeted(self, client: int, message: Message) -> None:
        """One that restarted gave up what it was doing, but for an upload that did not arrive before."""
        known = self._clients.get(client)
        if known is not None and message.header["restarted"]:
            known.restarted = message.header["upload"] > known.sent
            if not known.restarted:
                known.machine.recovered()

    def _compare(self, client: _Again, update: Update, origin: int) -> None:
        if (update.session, origin) in client.compared:
            return  # it was sent twice; a client with an old disk uses a number again, for another model
        if origin < client.newest:
            return  # an old disk kept it, and the client has gone on from later models since
        client.compared.add((update.session, origin))
        client.newest = origin
        client.accept_refusal()
        given_up = update.session - client.sent > 1
        client.sent = update.session
        self.compared += 1
        began = self._begin(client, update, origin, given_up)
        if not began or self._encoded(client.machine, update).frames != update.frames:
            self.different.append((update.client, update.session))
        if client.restarted:
            client.restarted = False
            client.machine.recovered()

    def _begin(self, client: _Again, update: Update, origin: int, given_up: bool) -> bool:
        """Read the models sent to it until the one this update started from.

        A client that averages puts its own model into the session it begins next. It is gone if that one was given up,
        which a gap in the session numbers tells; a model that was never begun took nothing.
        """
        machine = client.machine
        while client.models:
            model = client.models.popleft()
            machine.state.sessions, own = update.session - 1, machine.state.own
            try:
                machine.begin(model.parcel)
            except RemoteError:
                continue  # it could not read this one either
            if model.origin == origin:
                return True
            machine.lose()
            machine.state.own = None if given_up else own
        return False

    def _encoded(self, machine: Client, update: Update) -> Update:
        session = machine.state.running
        assert session is not None, "it has just begun"
        machine.state.running = session = replace(session, steps=update.steps)
        if isinstance(self._config.behaviour, Interruptible):
            machine.interrupt(update.steps)
        else:
            machine.finish()
        return machine.encode(self.task.solve(request(machine, session)))
