"""A participant whose process lives for one letter, and tells the next one where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from fedpace.algorithm import Algorithm
from fedpace.compute.personal import personal_task
from fedpace.deploy.messages import Message
from fedpace.deploy.participant import Participant
from fedpace.deploy.reaction import Reaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Standing:
    """A client between two messages, where no process of it lives that long; the rest is in `Remembered`."""

    greetings: int  # said so far
    welcomed: bool = False  # the last one was answered
    client: int = -1
    rounds: int = 0
    wants: bool = False
    paused: bool = False


class BriefParticipant(Participant):
    """One client of a run, for the length of one letter."""

    _adopted: tuple[Algorithm, int] | None = None

    def adopt(self, algorithm: Algorithm, seed: int) -> None:
        super().adopt(algorithm, seed)
        self._adopted = algorithm, seed

    def as_trained(self, task: T) -> T:
        """A task with data, as the run's algorithm trains it; what this client is made with may have none."""
        return task if self._adopted is None else personal_task(task, *self._adopted)

    @property
    def standing(self) -> Standing:
        """What the next process must be told to continue here."""
        if self._greeting or self.client is None:
            return Standing(self._greetings)
        return Standing(self._greetings, True, self.client.number, self.rounds, self._wants, self._paused)

    def stand(self, at: Standing) -> None:
        """Continue where another process of this client stopped, with its memory."""
        self._greetings = at.greetings
        if at.welcomed:
            seen, self.rounds = self.memory.client.seen, at.rounds
            self._start(self.owner.read(self.plan_text), at.client, self._made_initial())
            self._client.state.seen = seen
            self._greeting, self._wants, self._paused = False, at.wants, at.paused

    def given_initial(self, message: Message) -> Reaction:
        """The server's initial model came to a process that did not ask for it: greet again, and start from it."""
        self.memory.initial = self._decoded_initial(message)
        return self._reacting(self._say_hello)
