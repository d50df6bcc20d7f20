"""The only clock of a simulation: events in order of (time, phase, client, order of scheduling)."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Sequence
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


# The last is what a handler is given; training under way is a session of its client, never a result.
Event = tuple[float, Phase, int, int, bool | int | float | Delivery | None]
Turn = tuple[float, Phase]


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
        self._turns: list[Turn] = []  # of every list, as a heap
        self._lists: dict[Turn, list[Event]] = {}
        self._sorted: set[Turn] = set()  # whose lists are sorted, the next event last
        for event in events:
            self._add(event)

    def __bool__(self) -> bool:
        """Whether anything can happen."""
        return bool(self._turns)

    def __len__(self) -> int:
        return sum(map(len, self._lists.values()))

    def all(self) -> list[Event]:
        """In order."""
        return sorted(chain.from_iterable(self._lists.values()))

    def at(self, when: float, phase: Phase, client: int = SERVER, what: Any = None) -> None:
        if when < self.now:
            raise ValueError(f"an event must not lie in the past: {when} < {self.now}")
        self.serial += 1
        self._add((when, phase, client, self.serial, what))

    def _add(self, event: Event) -> None:
        turn = event[:2]
        events = self._lists.get(turn)
        if events is None:
            self._lists[turn] = [event]
            heapq.heappush(self._turns, turn)
        elif turn in self._sorted:
            insort(events, event, key=_last_first)
        else:
            events.append(event)

    def pop(self) -> Event:
        """The next event; the clock moves to it."""
        turn = self._turns[0]
        events = self._lists[turn]
        if len(events) == 1:
            heapq.heappop(self._turns)
            del self._lists[turn]
            self._sorted.discard(turn)
        elif turn not in self._sorted:
            events.sort(reverse=True)
            self._sorted.add(turn)
        event = events.pop()
        self.now = event[0]
        return event


def _last_first(event: Event) -> tuple[int, int]:
    return -event[2], -event[3]
