"""A device fitted to the sessions that were observed of it: speed, link, and how much both vary.

    seconds of a session = steps * step_s * slowdown + extra_s + 2 * latency_s + bytes / bytes_per_s

Slowdown and extra seconds are kept session by session, so that every observed one comes out as it was. A mean and a
deviation would not do: who comes before whom is decided by rare delays, and an asynchronous run by who comes when.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedpace.deploy.prediction.sessions import ObservedSession

SMALL_BYTES = 64 << 10  # messages of one size: less than that is latency, more is rate
SPREAD = 2.0  # largest by smallest message from which on the two can be told apart
MOST_SESSIONS = 256  # that are kept of a client, evenly over the run
SHORTEST_S = 1e-9  # of local training: a clock may not have moved


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """`slowdown` and `extra_s`: of every session; the rest holds for all.

    Extra seconds are negative where a transfer was faster than the mean rate.
    """

    steps: float  # mean over sessions, like train_s
    train_s: float
    step_s: float
    latency_s: float  # one way
    s_per_byte: float
    slowdown: tuple[float, ...]
    extra_s: tuple[float, ...]


def warm_up_s(clients: Iterable[Sequence[ObservedSession]]) -> float:
    """How much longer a machine's first session takes than its others: compilers, caches, libraries being loaded."""
    longer = [
        _round_trip_s(sessions[0]) - statistics.fmean(map(_round_trip_s, sessions[1:]))
        for sessions in clients
        if len(sessions) > 1
    ]
    return max(0.0, statistics.median(longer)) if longer else 0.0


def warm(sessions: Sequence[ObservedSession], warm_up_s: float) -> Sequence[ObservedSession]:
    """Sessions of a machine that is warm; of a single one, without that time, or a tenth of it if that were nothing."""
    if len(sessions) > 1:
        return sessions[1:]
    only = sessions[0]
    took = _round_trip_s(only)
    left = max(took - warm_up_s, took / 10)
    train_s = None if only.train_s is None else max(0.0, only.train_s - (took - left))
    return [replace(only, arrived_s=only.sent_s + left, train_s=train_s)]


def _round_trip_s(session: ObservedSession) -> float:
    return session.arrived_s - session.sent_s


def fit(sessions: Sequence[ObservedSession], *, waits: bool) -> DeviceTimes:
    """`waits`: an update is kept until the server asks for it, so that only the fastest answer tells of the link."""
    sessions = sessions[:: -(-len(sessions) // MOST_SESSIONS)]
    training = [max(_train_s(session), SHORTEST_S) for session in sessions]
    transfers = [_transfer_s(session, waits) for session in sessions]
    if waits:
        transfers = [min(transfers)] * len(transfers)
    sizes = [each.bytes_down + each.bytes_up for each in sessions]
    s_per_byte = _s_per_byte(sizes, transfers)
    fixed = [took - s_per_byte * size for took, size in zip(transfers, sizes, strict=True)]
    both_ways_s = max(0.0, min(fixed))
    steps = [session.steps for session in sessions]
    step_s = sum(training) / sum(steps)
    return DeviceTimes(
        steps=statistics.fmean(steps),
        train_s=statistics.fmean(training),
        step_s=step_s,
        latency_s=both_ways_s / 2,
        s_per_byte=s_per_byte,
        slowdown=tuple(took / (k * step_s) for took, k in zip(training, steps, strict=True)),
        extra_s=tuple(each - both_ways_s for each in fixed),
    )


def _train_s(session: ObservedSession) -> float:
    """As the client says; all of it where it does not say."""
    return _round_trip_s(session) if session.train_s is None else session.train_s


def _transfer_s(session: ObservedSession, waits: bool) -> float:
    """What local training does not explain."""
    if waits and session.train_s is not None:
        return max(0.0, session.arrived_s - session.asked_s)
    return max(0.0, _round_trip_s(session) - _train_s(session))


def _s_per_byte(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """By least squares where sizes differ enough; else all of it for large messages, and none for small ones."""
    mean_size, mean_s = statistics.fmean(sizes), statistics.fmean(seconds)
    if max(sizes) >= SPREAD * max(min(sizes), 1):
        slope = float(np.cov(sizes, seconds, bias=True)[0, 1] / np.var(sizes))
        return min(max(slope, 0.0), mean_s / mean_size)
    return 0.0 if mean_size < SMALL_BYTES else mean_s / mean_size
