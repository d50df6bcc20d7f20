"""The state of a client, and its transitions. Every legal transition is a row of `TABLE`.

Four small machines run side by side, and an event moves all of them at once:

    work    what it computes                        IDLE, TRAINING, RESTING (until polled)
    store   its send buffer, one slot               EMPTY, STORED
    line    its upload, one at a time               FREE, SENDING (until the server has answered)
    asked   whether the server wants what it has    NO, YES

Rules that protect the table: an event that does not list a machine leaves it as it is; an event that comes in a state
without an arrow is a mistake of the driver and raises `ProtocolError`, before anything has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any

from fedpace.errors import ProtocolError


class Member(Enum):
    __hash__ = object.__hash__  # four times as fast, and members are single


class TrainingState(Member):
    IDLE = "idle"
    TRAINING = "training"
    RESTING = "resting"


class SendBuffer(Member):
    EMPTY = "empty"
    STORED = "stored"


class UploadState(Member):
    FREE = "free"
    SENDING = "sending"


class PollState(Member):
    NO = "not asked"
    YES = "asked"


class Event(Member):
    BEGIN = "a session begins"
    FINISH = "the session is done"
    REST = "the session is done, and the client rests until polled"
    INTERRUPT = "the session is cut short"
    LOSE = "the session comes to nothing"
    POLL = "the server asks"
    ENCODE = "the stored update is encoded and sent"
    ANSWER = "the server has answered"
    LEAVE = "the client goes away"
    LEAVE_STORED = "the client goes away and keeps its stored update"
    RECOVER = "the client restarts from its disk"


IDLE, TRAINING, RESTING = TrainingState
EMPTY, STORED = SendBuffer
FREE, SENDING = UploadState
NO, YES = PollState

# event -> machine -> {from: to}
TABLE: dict[Event, dict[str, dict[Enum, Enum]]] = {
    Event.BEGIN: {"work": {IDLE: TRAINING}},
    Event.FINISH: {"work": {TRAINING: IDLE}, "store": {EMPTY: STORED, STORED: STORED}},
    Event.REST: {"work": {TRAINING: RESTING}, "store": {EMPTY: STORED, STORED: STORED}},
    Event.INTERRUPT: {"work": {TRAINING: IDLE}, "store": {EMPTY: STORED}},
    Event.LOSE: {"work": {TRAINING: IDLE}},
    Event.POLL: {"asked": {NO: YES, YES: YES}},
    Event.ENCODE: {
        "work": {IDLE: IDLE, TRAINING: TRAINING, RESTING: IDLE},
        "store": {STORED: EMPTY},
        "line": {FREE: SENDING},
        "asked": {NO: NO, YES: NO},
    },
    Event.ANSWER: {"line": {SENDING: FREE, FREE: FREE}},  # answers may be repeated
    Event.LEAVE: {
        "work": {IDLE: IDLE, TRAINING: IDLE, RESTING: RESTING},
        "store": {EMPTY: EMPTY, STORED: EMPTY},
        "line": {FREE: FREE, SENDING: FREE},
        "asked": {NO: NO, YES: NO},
    },
    Event.LEAVE_STORED: {
        "work": {IDLE: IDLE, TRAINING: IDLE, RESTING: RESTING},
        "line": {FREE: FREE, SENDING: FREE},
        "asked": {NO: NO, YES: NO},
    },
    Event.RECOVER: {
        "work": {IDLE: IDLE, TRAINING: IDLE, RESTING: IDLE},
        "store": {EMPTY: EMPTY, STORED: EMPTY},
        "asked": {NO: NO, YES: NO},
    },
}


def _after(event: Event, states: tuple[Enum, ...]) -> tuple[Enum, ...] | None:
    """Where an event leads from these states of the four machines; None if it cannot happen then."""
    rows = TABLE[event]
    moved = tuple(
        rows[machine].get(state) if machine in rows else state
        for machine, state in zip(MACHINES, states, strict=True)
    )
    return None if None in moved else moved  # type: ignore[return-value]


MACHINES = {"work": TrainingState, "store": SendBuffer, "line": UploadState, "asked": PollState}
# every move there is, looked up once per event instead of four times
_MOVES = {
    (event, *states): _after(event, states) for event in Event for states in product(*MACHINES.values())
}


@dataclass(slots=True)
class Life:
    """The state of a client."""

    work: TrainingState = TrainingState.IDLE
    store: SendBuffer = SendBuffer.EMPTY
    line: UploadState = UploadState.FREE
    asked: PollState = PollState.NO

    def allows(self, event: Event) -> bool:
        return _MOVES[event, self.work, self.store, self.line, self.asked] is not None

    def move(self, event: Event) -> None:
        """Let it happen; ProtocolError if it cannot happen now."""
        moved: Any = _MOVES[event, self.work, self.store, self.line, self.asked]
        if moved is None:
            raise ProtocolError(f"{event.value!r} cannot happen to a client that is {self}")
        self.work, self.store, self.line, self.asked = moved

    def __str__(self) -> str:
        return ", ".join(state.value for state in (self.work, self.store, self.line, self.asked))


def diagram() -> str:
    """The table as one Mermaid state diagram per machine, for the manual."""
    return "\n".join(_machine(name) for name in MACHINES)


def _machine(name: str) -> str:
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", f"    state {name} {{"]
    for event, rows in TABLE.items():
        for before, after in rows.get(name, {}).items():
            if before is not after:
                lines.append(f"        {before.name} --> {after.name}: {event.name}")
    return "\n".join([*lines, "    }", "```", ""])
