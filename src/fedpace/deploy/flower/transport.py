"""The server's transport over Flower's Grid: at most one letter per node is under way, all else waits for its answer.

A node joins when it answers the letter that opens its link. A node whose letter Flower cannot deliver has left, at
once. Receipts, and greetings that ask for nothing, wait for the next model: a letter costs seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fedpace.deploy import messages
from fedpace.deploy.flower.letters import OPENING, AnswerStatus, Letter, LetterAnswer, PostOffice, Undelivered
from fedpace.deploy.messages import MessageKind
from fedpace.deploy.threads import to_the_end
from fedpace.deploy.transport import Arrived, Buffer, Connected, Disconnected, TransportEvent
from fedpace.errors import RemoteError
from fedpace.untrusted import visible

LOG = logging.getLogger("fedpace.deploy")
POLL_S = 0.25  # between two looks for answers
LOOK_S = 2.0  # between two looks for nodes
MISSING_S = 30.0  # after so long the log says who has not come
ASK_AGAIN_S = 60.0  # a client that takes no work now is asked again
LONGEST_PAUSE_S = 60.0  # between two attempts at a node whose ClientApp fails
MOST_CRASHES = 5  # of a ClientApp in a row, then its node is not tried again
NODE_UNAVAILABLE = 5  # Flower's code: the SuperNode is gone


@dataclass(slots=True)
class _Node:
    """A SuperNode; `client` is its number once its link stands."""

    id: int
    link: str = ""
    number: int = OPENING
    client: int | None = None
    waiting: list[bytes] = field(default_factory=list)
    is_urgent: bool = False  # something in `waiting` wants an answer
    under_way: str | None = None  # the letter without an answer
    not_before_s: float = 0.0
    failures: int = 0  # since its last answer
    crashes: int = 0  # of them, those of its ClientApp
    refused: str = ""  # why it is not asked again
    is_paused: bool = False  # its client takes no work now
    asked_s: float = 0.0  # when it answered that last

    def end_link(self) -> None:
        self.link, self.client, self.waiting, self.is_urgent, self.is_paused = "", None, [], False, False


class GridServer:
    """Made, and used, inside one event loop. `run`: what all links of this Flower run begin with.

    `wait_for`: so many clients a new run waits for; the log says so if fewer come.
    """

    def __init__(
        self,
        post: PostOffice,
        clients: int,
        *,
        run: str = "",
        wait_for: int = 1,
        welcomes_at_once: bool = False,
        poll_s: float = POLL_S,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.post, self.clients, self.run, self.wait_for = post, clients, run, wait_for
        self.poll_s, self.look_s = poll_s, look_s
        self._refusals: Counter[str] = Counter()
        self.rejected: Mapping[str, int] = self._refusals
        self._waits = (
            {MessageKind.RECEIPT} if welcomes_at_once else {MessageKind.RECEIPT, MessageKind.WELCOME}
        )
        self._clock = clock
        self._events: asyncio.Queue[TransportEvent | RemoteError] = asyncio.Queue()
        self._nodes: dict[int, _Node] = {}
        self._seats: dict[int, _Node] = {}  # by client
        self._resending: set[int] = set()  # clients whose greeting told of an upload without a receipt
        self._look_at_s = 0.0
        self._missing_at_s = clock() + MISSING_S
        self._wake = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._polling = asyncio.ensure_future(self._poll())

    # ------------------------------------------------------------ what a driver calls

    async def next(self) -> TransportEvent:
        """RemoteError if no node can take part, or Flower itself is gone."""
        event = await self._events.get()
        if isinstance(event, RemoteError):
            raise event
        return event

    def send(self, client: int, message: Sequence[Buffer]) -> None:
        if (node := self._seats.get(client)) is not None:
            whole = b"".join(message)
            node.waiting.append(whole)
            node.is_urgent = node.is_urgent or self._wants_answer(client, whole)
            self._wake.set()

    def disconnect(self, client: int, reason: str) -> None:
        if (node := self._seats.get(client)) is not None:
            self._part(node, reason, gone=False)
            self._retry(node)

    async def close(self) -> None:
        """What is queued is of no use any more: with the ServerApp its Flower run ends, and every letter with it."""
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling

    def _wants_answer(self, client: int, message: bytes) -> bool:
        kind, header = messages.own(message)
        if kind is MessageKind.WELCOME and (client in self._resending or header["forget"]):
            return True
        refused = kind is MessageKind.RECEIPT and not header["accepted"]
        return refused or kind not in self._waits

    # ------------------------------------------------------------ the loop

    async def _poll(self) -> None:
        try:
            while True:
                self._wake.clear()
                await self._look()
                await self._push()
                await self._pull()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.poll_s):
                        await self._wake.wait()
        except Exception as error:  # Flower has tried again for long by itself
            LOG.exception("the Grid failed")
            self._fail(f"the Grid failed: {type(error).__name__}: {error}")

    async def _look(self) -> None:
        """Who is there: new nodes are written to, nodes that went are taken off."""
        if self._clock() < self._look_at_s:
            return
        self._look_at_s = self._clock() + self.look_s
        self._tell_of_missing()
        there = await to_the_end(self.post.nodes)
        for name in there - set(self._nodes):
            self._nodes[name] = _Node(name)
        for node in [node for name, node in self._nodes.items() if name not in there]:
            if node.under_way is None:  # else Flower answers for it
                self._part(node, "its SuperNode is gone", gone=True)
                del self._nodes[node.id]

    def _tell_of_missing(self) -> None:
        """Once: a federation that is smaller than a run waits for would be silent."""
        if self._clock() < self._missing_at_s:
            return
        self._missing_at_s = math.inf
        if len(self._seats) < self.wait_for:
            come = f"{len(self._seats)} of {len(self._nodes)} SuperNodes have joined so far"
            needed = f'in a simulation --federation-config "num-supernodes={self.wait_for}"'
            LOG.warning("%s; a new run waits for %d (wait_for in run.toml, %s)", come, self.wait_for, needed)

    async def _push(self) -> None:
        for node in list(self._nodes.values()):
            letter = self._letter(node)
            if letter is None:
                continue
            node.under_way = await to_the_end(self.post.push, node.id, letter)
            if node.under_way is None:
                self._undelivered(node, Undelivered(NODE_UNAVAILABLE, "it is not there"))

    def _letter(self, node: _Node) -> Letter | None:
        """What to write to a node now."""
        now = self._clock()
        if node.under_way is not None or node.refused or now < node.not_before_s:
            return None
        if not node.link:
            node.link, node.number = f"{self.run}-{os.urandom(8).hex()}", OPENING
            return Letter(node.link, OPENING)
        asks_again = node.is_paused and now >= node.asked_s + ASK_AGAIN_S
        if not node.is_urgent and not asks_again:
            return None
        sent, node.waiting, node.is_urgent = node.waiting, [], False
        node.number += 1
        return Letter(node.link, node.number, sent)

    async def _pull(self) -> None:
        under_way = {node.under_way: node for node in self._nodes.values() if node.under_way is not None}
        if not under_way:
            return
        for letter, outcome in (await to_the_end(self.post.pull, list(under_way))).items():
            if (node := under_way.get(letter)) is None:
                continue
            node.under_way = None
            if isinstance(outcome, Undelivered):
                self._undelivered(node, outcome)
            else:
                self._answered(node, outcome)

    # ------------------------------------------------------------ what came of a letter

    def _undelivered(self, node: _Node, outcome: Undelivered) -> None:
        """Whatever the client was doing is lost: it does not come back with it."""
        LOG.warning("node %d: error %d: %s", node.id, outcome.code, visible(outcome.reason))
        self._part(node, f"error {outcome.code}", gone=True)
        self._refusals[f"Flower's error {outcome.code}"] += 1
        if outcome.code == NODE_UNAVAILABLE:
            self._nodes.pop(node.id, None)
            return
        self._retry(node)
        node.crashes += 1
        if node.crashes >= MOST_CRASHES:
            self._refuse(node, f"its ClientApp failed {node.crashes} times in a row: {outcome.reason}")

    def _answered(self, node: _Node, answer: LetterAnswer) -> None:
        in_turn = (answer.link, answer.number) == (node.link, node.number)
        match answer.status:
            case AnswerStatus.REFUSED:
                self._part(node, answer.reason, gone=True)
                self._refuse(node, answer.reason)
            case AnswerStatus.BUSY:
                self._part(node, "it is still at an earlier letter", gone=False)
                self._retry(node)
            case AnswerStatus.DONE if in_turn and (node.client is not None or self._seat(node, answer)):
                if answer.number != OPENING:
                    node.failures = node.crashes = 0
                self._deliver(node, answer)
            case _:
                self._part(node, "it lost count", gone=False)
                self._retry(node)

    def _deliver(self, node: _Node, answer: LetterAnswer) -> None:
        assert node.client is not None
        node.asked_s = self._clock()
        for message in answer.messages:
            self._note(node, message)
            self._events.put_nowait(Arrived(node.client, message))

    def _note(self, node: _Node, message: bytes) -> None:
        """What the transport must know of a client's message; whether it is sound, its reader says."""
        with contextlib.suppress(RemoteError):
            kind, header = messages.own(message)
            assert node.client is not None
            if kind in (MessageKind.PAUSE, MessageKind.READY):
                node.is_paused = kind is MessageKind.PAUSE
            elif kind is MessageKind.HELLO:
                self._resending.discard(node.client)
                if header["upload"] > header["acknowledged"]:
                    self._resending.add(node.client)

    def _seat(self, node: _Node, answer: LetterAnswer) -> bool:
        """Give a node its number, if it is free."""
        client = answer.client
        if not 0 <= client < self.clients:
            self._refuse(node, f"client must be in 0..{self.clients - 1}; got {client}")
            return False
        if client in self._seats:
            self._refusals["a client number that another node has"] += 1
            return False
        node.client = client
        self._seats[client] = node
        self._events.put_nowait(Connected(client))
        return True

    # ------------------------------------------------------------ ends

    def _part(self, node: _Node, reason: str, *, gone: bool) -> None:
        if node.client is not None:
            del self._seats[node.client]
            self._events.put_nowait(Disconnected(node.client, reason, gone))
        node.end_link()

    def _retry(self, node: _Node) -> None:
        """A new link, at once the first time, later and later as long as it fails."""
        pause = 0.0 if node.failures == 0 else min(LONGEST_PAUSE_S, 2.0**node.failures)
        node.failures += 1
        node.not_before_s = self._clock() + pause

    def _refuse(self, node: _Node, reason: str) -> None:
        """Not asked again in this run; with the last node the run ends, rather than wait for ever."""
        node.refused = reason
        node.end_link()
        self._refusals[reason] += 1
        LOG.warning("node %d takes no part: %s", node.id, visible(reason))
        if all(each.refused for each in self._nodes.values()):
            self._fail(f"no node can take part: {visible(reason)}")

    def _fail(self, reason: str) -> None:
        self._events.put_nowait(RemoteError(reason))
