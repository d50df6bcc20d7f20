"""What crossed a client's link in which time, by its sessions: a model and its update, or an order and its answer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpace.deploy.prediction.sessions import ObservedSession

SMALL_BYTES = 64 << 10  # messages of one size: less than that is latency, more is rate
SPREAD = 2.0  # largest by smallest message from which on the two can be told apart


@dataclass(frozen=True, slots=True)
class Crossing:
    """Both ways."""

    seconds: float
    bytes: int


def crossings(sessions: Sequence[ObservedSession], *, waits: bool) -> list[Crossing]:
    """One per session; where updates wait for the server (`waits`), of those that tell, if any do."""
    if not waits:
        return list(map(_round_trip, sessions))
    direct = [_round_trip(each) for each in sessions if _waited_s(each) < 0]
    kept = [_answer(each) for each in sessions if _waited_s(each) >= _answer(each).seconds]
    return direct + kept or [min(map(_answer, sessions), key=lambda each: each.seconds)]


def _round_trip(session: ObservedSession) -> Crossing:
    """What local training does not explain, between a model and its update."""
    trained_s = session.round_trip_s if session.train_s is None else session.train_s
    return Crossing(max(0.0, session.round_trip_s - trained_s), session.bytes_down + session.bytes_up)


def _answer(session: ObservedSession) -> Crossing:
    """Between a poll or an interruption and the update."""
    return Crossing(max(0.0, session.arrived_s - session.asked_s), session.asked_bytes + session.bytes_up)


def _waited_s(session: ObservedSession) -> float:
    """How long the update was kept for the order, and what the model took longer than that on its way.

    Below zero the order came while it trained, and the update was sent at the end. As long as the whole answer took:
    it was kept. What lies between may be either.
    """
    return session.asked_s - session.sent_s - (session.train_s or 0.0)


def s_per_byte(crossed: Sequence[Crossing]) -> float:
    """By least squares where sizes differ enough; else all of it for large messages, and none for small ones."""
    sizes, seconds = [each.bytes for each in crossed], [each.seconds for each in crossed]
    mean_size, mean_s = statistics.fmean(sizes), statistics.fmean(seconds)
    if max(sizes) >= SPREAD * max(min(sizes), 1):
        slope = float(np.cov(sizes, seconds, bias=True)[0, 1] / np.var(sizes))
        return min(max(slope, 0.0), mean_s / mean_size)
    return 0.0 if mean_size < SMALL_BYTES else mean_s / mean_size
