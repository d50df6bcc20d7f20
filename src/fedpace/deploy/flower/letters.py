"""What travels between a ServerApp and a ClientApp: letters, each with exactly one answer.

A letter carries all messages that wait for its client, in order; the answer carries all that the client says to them.
A *link* lasts from the letter that opens it until either side loses count: letters are numbered, and a client that is
given another number than the next one answers `LOST`. The server then opens a new link, and both sides greet as after
any broken connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

OPENING = 0  # the number of the letter that opens a link


@dataclass(frozen=True, slots=True)
class Letter:
    link: str
    number: int
    messages: Sequence[bytes] = ()


class AnswerStatus(IntEnum):
    DONE = 0
    LOST = 1  # the client does not know this link, or not this place in it
    BUSY = 2  # an earlier letter is still being worked on
    REFUSED = 3  # the client cannot take part: `reason`


@dataclass(frozen=True, slots=True)
class LetterAnswer:
    """`client`: the number that the node claims."""

    link: str
    number: int
    status: AnswerStatus = AnswerStatus.DONE
    client: int = -1
    reason: str = ""
    messages: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Undelivered:
    """There will be no answer. `code` is Flower's."""

    code: int
    reason: str


class PostOffice(Protocol):
    """Flower's Grid, as far as it is needed. Every call may block."""

    def nodes(self) -> set[int]: ...

    def push(self, node: int, letter: Letter) -> str | None:
        """The letter's id; None if the node is not there."""
        ...

    def pull(self, letters: Iterable[str]) -> dict[str, LetterAnswer | Undelivered]:
        """What came of these letters by now."""
        ...
