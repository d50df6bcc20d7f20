"""Counters of single clients, entered as messages pass; they begin with the server process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedpace.deploy.dispatching import Outgoing
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.messages import Message, MessageKind


@dataclass(slots=True)
class ClientAccount:
    """One client's."""

    bytes_up: int = 0
    bytes_down: int = 0
    updates: int = 0  # taken
    refused: int = 0
    sent_s: float | None = None  # when its last model was
    round_trip: float | None = None
    heard_s: float | None = None


class Ledger:
    def __init__(self) -> None:
        self.accounts: dict[int, ClientAccount] = {}

    def of(self, client: int) -> ClientAccount:
        return self.accounts.setdefault(client, ClientAccount())

    def enter(self, happened: Iterable[Input], out: Iterable[Outgoing], now: float) -> None:
        """A batch that was handled, and what is sent for it."""
        for what in happened:
            if what.kind is InputKind.MESSAGE and what.message is not None:
                self._arrived(self.of(what.client), what.message, what.now)
        for client, message in out:
            self._sent(self.of(client), message, now)

    def _arrived(self, account: ClientAccount, message: Message, now: float) -> None:
        account.heard_s = now
        if message.kind is not MessageKind.UPDATE:
            return
        account.bytes_up += _size(message)
        if account.sent_s is not None:
            account.round_trip, account.sent_s = now - account.sent_s, None

    def _sent(self, account: ClientAccount, message: Message, now: float) -> None:
        match message.kind:
            case MessageKind.MODEL | MessageKind.INTERRUPT:
                account.bytes_down += _size(message)
                account.sent_s = now
            case MessageKind.RECEIPT if message.header["accepted"]:
                account.updates += 1
            case MessageKind.RECEIPT:
                account.refused += 1


def _size(message: Message) -> int:
    return sum(map(len, message.frames.values()))
