"""The only clock of a simulation: events in order of (time, phase, client, order of scheduling)."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

from fedpace.client import Delivery

SERVER = 1 << 62  # sorts after every client at the same instant and phase


class Phase(IntEnum):
    """The order of events at one instant, so that a client that finishes when the server steps gets the new model."""

    CHANGE = 0  # a client leaves or joins
    COMPUTED = 1  # a session ends
    UPLINK = 2  # an update reaches the server
    WAKE = 3  # a timer of the server
    DISPATCH = 4  # the server sends, reading the version that is current now
    DOWNLINK = 5  # a model reaches a receive buffer
    START = 6  # an idle client with a model begins a session
    ORDER = 7  # a poll or an interruption reaches its client, where that takes time


# The last is what a handler is given; training under way is a session of its client, never a result.
Event = tuple[float, Phase, int, int, bool | int | float | Delivery | None]
Turn = tuple[float, Phase]
# The rest of an event: mostly numbers alone, in which the garbage collector need not look for cycles.
Entry = tuple[int, int, Any]
NO_TURN: Turn = (-1.0, Phase.CHANGE)  # before every turn there is


class AllEvents:
    """Every event as one list, as a checkpoint keeps them: a field that is made when it is read."""

    def __get__(self, line: Timeline | None, owner: type) -> Sequence[Event]:
        return () if line is None else line.all()  # its default, and its value

    def __set__(self, line: Timeline, events: Iterable[Event]) -> None:
        line.put(events)


@dataclass
class Timeline:
    """Events of one instant and phase are one list, sorted when its turn comes.

    Where a million clients work in step, a heap of all events would cost more than what happens at them.
    """

    now: float = 0.0
    serial: int = 0
    heap: list[Event] = AllEvents()  # type: ignore[assignment]

    def put(self, events: Iterable[Event]) -> None:
        """These and no others."""
        self._turn: Turn = NO_TURN  # the one under way
        self._left: list[Entry] = []  # what is left of it, sorted, the next event last
        self._lists: dict[Turn, list[Entry]] = {}  # the events of all others, not sorted
        for event in events:
            self._lists.setdefault(event[:2], []).append(event[2:])
        self._turns: list[Turn] = sorted(self._lists)  # as a heap

    def __bool__(self) -> bool:
        """Whether anything can happen."""
        return bool(self._left or self._turns)

    def __len__(self) -> int:
        return len(self._left) + sum(map(len, self._lists.values()))

    def all(self) -> list[Event]:
        """In order."""
        turns = chain([(self._turn, self._left)], self._lists.items())
        return sorted(turn + entry for turn, entries in turns for entry in entries)

    def at(self, when: float, phase: Phase, client: int = SERVER, what: Any = None) -> None:
        if when < self.now:
            raise ValueError(f"an event must not lie in the past: {when} < {self.now}")
        self.serial += 1
        turn, entry = (when, phase), (client, self.serial, what)
        entries = self._lists.get(turn)
        if entries is not None:
            entries.append(entry)
        else:
            self._add_turn(turn, entry)

    def _add_turn(self, turn: Turn, entry: Entry) -> None:
        if turn == self._turn:
            insort(self._left, entry, key=_last_first)
        else:
            self._lists[turn] = [entry]
            heapq.heappush(self._turns, turn)
            if turn < self._turn:
                self._put_back()

    def _put_back(self) -> None:
        """An event comes before what is left of the turn under way."""
        if self._left:
            self._lists[self._turn] = self._left
            heapq.heappush(self._turns, self._turn)
        self._turn, self._left = NO_TURN, []

    def events(self) -> Iterator[tuple[Phase, int, Any]]:
        """Phase, client and what it is given, of one event after another; the clock moves along with them.

        Events may be added meanwhile; and stopping between two of them loses nothing.
        """
        while self:
            if not self._left:
                self._begin_turn()
            phase, entries = self._turn[1], self._left
            while entries:
                client, _, what = entries.pop()
                yield phase, client, what
                entries = self._left

    def _begin_turn(self) -> None:
        self._turn = heapq.heappop(self._turns)
        self._left = self._lists.pop(self._turn)
        self._left.sort(reverse=True)
        self.now = self._turn[0]


def _last_first(entry: Entry) -> tuple[int, int]:
    return -entry[0], -entry[1]
