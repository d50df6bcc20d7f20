"""A client for the length of one letter: from its disk, through the letter's messages, back to its disk.

No process of a client lives longer, and any may serve any client: what one knows is in the client's folder, the place
in the link included. That file is taken away while a letter is worked on, so that one whose process died is not
continued: the client answers `LOST` and greets again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from fedpace.deploy import messages
from fedpace.deploy.flower.brief import BriefParticipant, Standing
from fedpace.deploy.flower.letters import OPENING, AnswerStatus, Letter, LetterAnswer
from fedpace.deploy.local_task import LocalTask
from fedpace.deploy.memory import ClientMemory
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.reaction import Reaction
from fedpace.deploy.working import add_up, measure, train
from fedpace.disk import files
from fedpace.disk.locks import locked
from fedpace.errors import ConfigError, RemoteError
from fedpace.untrusted import Whole, fits
from fedpace.vector import Vector

LINK = "link.json"
LOCK = "letter"
_LINK = {"link": str, "number": Whole, "standing": dict}
_STANDING = {
    "greetings": Whole,
    "welcomed": bool,
    "client": Whole,
    "rounds": Whole,
    "wants": bool,
    "paused": bool,
}


class Answering:
    """One client's answers. `participant` knows what its memory told it; `task` is made when something is computed."""

    def __init__(
        self, participant: BriefParticipant, memory: ClientMemory, task: Callable[[], LocalTask]
    ) -> None:
        self.participant, self.memory, self._task = participant, memory, task
        self._link = memory.path.parent / LINK
        self._said: list[Message] = []

    def answer(self, letter: Letter, client: int) -> LetterAnswer:
        """All that this client says to a letter; its state is on the disk by then."""
        lost = LetterAnswer(letter.link, letter.number, AnswerStatus.LOST, client)
        standing = self._standing(letter)
        if standing is None:
            return lost
        self._link.unlink(missing_ok=True)
        self.memory.load(self.participant)
        if letter.number == OPENING:
            self._do(self.participant.connected())
        else:
            if standing.welcomed and not self.participant.plan_text:
                return lost
            self.participant.stand(standing)
            self._read(letter.messages)
        if self._is_unfinished():
            return lost
        self._save(letter)
        said = [b"".join(self.participant.envelope.pack(message)) for message in self._said]
        return LetterAnswer(letter.link, letter.number, AnswerStatus.DONE, client, messages=said)

    # ------------------------------------------------------------ the place in the link

    def _standing(self, letter: Letter) -> Standing | None:
        """Where this client stands; None if this letter is not the next one of its link."""
        if letter.number == OPENING:
            return Standing(0)
        try:
            known = json.loads(self._link.read_bytes())
        except (OSError, ValueError):
            return None
        if not fits(known, _LINK) or not fits(known["standing"], _STANDING):
            return None
        is_next = (known["link"], known["number"] + 1) == (letter.link, letter.number)
        return Standing(**known["standing"]) if is_next else None

    def _save(self, letter: Letter) -> None:
        if self.participant.plan_text:
            self.memory.save(self.participant)
        standing = asdict(self.participant.standing)
        place = {"link": letter.link, "number": letter.number, "standing": standing}
        files.write(self._link, json.dumps(place).encode())

    def _is_unfinished(self) -> bool:
        """An update that could not be sent: the server did not answer the one before. Greeting again settles both."""
        client = self.participant.client
        return client is not None and (client.state.outbox is not None or client.state.running is not None)

    # ------------------------------------------------------------ messages

    def _read(self, carried: Iterable[bytes]) -> None:
        self._do(self.participant.looked_up())
        for data in carried:
            try:
                self._do(self._reaction(data))
            except RemoteError:
                continue  # what it said will be repeated when it is missed

    def _reaction(self, data: bytes) -> Reaction:
        kind = messages.peek(data)[0]
        if kind in messages.ANSWERS_TO_HELLO:
            return self.participant.welcome(*messages.welcomed(data))
        message = self.participant.envelope.unpack(data)
        if kind is MessageKind.INITIAL:
            return self.participant.given_initial(message)
        return self.participant.receive(message)

    def _do(self, reaction: Reaction) -> None:
        """Nothing leaves before the state is saved: what is said goes into the answer."""
        if reaction.error is not None:
            raise reaction.error
        self._said += reaction.send
        if reaction.train is not None:
            delta, steps = train(self._as_trained(), reaction.train, lambda: False)
            self._do(self.participant.trained(reaction.train.session, delta, steps))
        if reaction.evaluate is not None:
            self._said.append(self._found(reaction.adds_up, *reaction.evaluate))

    def _as_trained(self) -> LocalTask:
        return self.participant.as_trained(self._task())

    def _found(self, adds_up: bool, version: int, x: Vector, statistics: Vector | None) -> Message:
        samples = self.participant.samples
        if adds_up:
            return messages.of_sums(version, samples, add_up(self._as_trained(), x, self.participant.data))
        kept = self.participant.memory.client.kept
        return messages.of_metrics(version, samples, measure(self._as_trained(), x, statistics, kept))


def answered(
    letter: Letter, client: int, folder: Path, make: Callable[[ClientMemory], Answering]
) -> LetterAnswer:
    """The answer to a letter, with the client's folder to itself; one line says why it takes no part."""
    try:
        memory = ClientMemory(folder)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(memory.path.parent, LOCK))
            except ConfigError:
                return LetterAnswer(letter.link, letter.number, AnswerStatus.BUSY, client)
            return make(memory).answer(letter, client)
    except ConfigError as error:
        return LetterAnswer(letter.link, letter.number, AnswerStatus.REFUSED, client, str(error))
