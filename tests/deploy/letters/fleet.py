"""A fleet that obeys the rules of Flower's Grid, within one process: a node takes one letter at a time, answers come in
any order, and no process of a client outlives a letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tests.deploy.deployed import CLIENTS, ROUNDS, SAMPLES, SEED, TASK

from fedpace import Algorithm, Run
from fedpace.deploy import Owner, serve_async
from fedpace.deploy.flower.answering import Answering, answered
from fedpace.deploy.flower.brief import BriefParticipant
from fedpace.deploy.flower.letters import Letter, LetterAnswer, Undelivered
from fedpace.deploy.flower.transport import NODE_UNAVAILABLE, GridServer
from fedpace.deploy.memory import ClientMemory
from fedpace.pace.protocol import Continuous

FIRST_NODE = 1000
Answers = Callable[[Letter], LetterAnswer | Undelivered]


class Fleet:
    """Nodes and their letters. One letter is answered at every look, chosen by chance; its order is the seed's."""

    def __init__(self, folder: Path, seed: int = 0, task: Any = TASK) -> None:
        self.folder, self.rng, self.task = folder, np.random.default_rng(seed), task
        self.owners: dict[int, Owner] = {}
        self.answers: dict[int, Answers] = {
            FIRST_NODE + number: self.client(number) for number in range(CLIENTS)
        }
        self.under_way: dict[str, tuple[int, Letter]] = {}
        self.sent = 0
        self.before_pull: Callable[[], None] = lambda: None

    def client(self, number: int) -> Answers:
        return lambda letter: self.answer(number, letter)

    def answer(self, number: int, letter: Letter) -> LetterAnswer:
        def make(memory: ClientMemory) -> Answering:
            owner = self.owners.get(number, Owner())
            participant = BriefParticipant(self.task, number, owner)
            return Answering(participant, memory, lambda: self.task)

        return answered(letter, number, self.folder / f"client-{number}", make)

    def nodes(self) -> set[int]:
        return set(self.answers)

    def push(self, node: int, letter: Letter) -> str | None:
        if node not in self.answers:
            return None
        assert node not in [busy for busy, _ in self.under_way.values()], "one letter at a time"
        self.sent += 1
        self.under_way[str(self.sent)] = (node, letter)
        return str(self.sent)

    def pull(self, letters: Iterable[str]) -> dict[str, LetterAnswer | Undelivered]:
        self.before_pull()
        known = sorted(set(letters) & set(self.under_way), key=int)
        gone = [name for name in known if self.under_way[name][0] not in self.answers]
        if gone or not known:
            lost = {name: Undelivered(NODE_UNAVAILABLE, "gone") for name in gone}
            self.under_way = {name: each for name, each in self.under_way.items() if name not in lost}
            return dict(lost)
        name = known[int(self.rng.integers(len(known)))]
        node, letter = self.under_way.pop(name)
        return {name: self.answers[node](letter)}


def serve_fleet(algorithm: Algorithm, fleet: Fleet, place: Path, **more: Any) -> Run:
    """A run over this fleet, as a ServerApp serves it."""

    async def served() -> Run:
        eager = isinstance(algorithm.pace.client, Continuous)
        transport = GridServer(fleet, CLIENTS, welcomes_at_once=eager, poll_s=0.001, look_s=0.001)
        transport.start()
        options = {"clients": CLIENTS, "rounds": ROUNDS, "seed": SEED, "samples": SAMPLES}
        options |= {"wait_for": CLIENTS, "evaluate_every": None} | more
        async with asyncio.timeout(120):
            return await serve_async(algorithm, fleet.task, transport, place, **options)

    return asyncio.run(served())
