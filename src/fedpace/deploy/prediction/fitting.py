"""A device fitted to the sessions that were observed of it: speed, link, and how much both vary.

    seconds of a session = steps * step_s * slowdown + extra_s + 2 * latency_s + bytes / bytes_per_s

Slowdown and extra seconds are kept session by session, so that every observed one comes out as it was. A mean and a
deviation would not do: who comes before whom is decided by rare delays, and an asynchronous run by who comes when.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fedpace.deploy.prediction.links import crossings, s_per_byte
from fedpace.deploy.prediction.sessions import ObservedSession

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


def warm_up_s(clients: Iterable[Sequence[ObservedSession]], *, waits: bool) -> float:
    """How much longer a machine's first session takes than its others: compilers, caches, libraries being loaded."""
    longer = [
        _longer_training_s(sessions) if waits else _longer_round_trip_s(sessions)
        for sessions in clients
        if len(sessions) > 1 and sessions[0].first
    ]
    return max(0.0, statistics.median(longer)) if longer else 0.0


def _longer_round_trip_s(sessions: Sequence[ObservedSession]) -> float:
    return sessions[0].round_trip_s - statistics.fmean(each.round_trip_s for each in sessions[1:])


def _longer_training_s(sessions: Sequence[ObservedSession]) -> float:
    """Than as many steps of the others: where updates wait, round trips tell nothing, and steps may differ."""
    first, others = sessions[0], sessions[1:]
    return _train_s(first) - first.steps * sum(map(_train_s, others)) / sum(each.steps for each in others)


def warm(sessions: Sequence[ObservedSession], warm_up_s: float) -> Sequence[ObservedSession]:
    """Sessions of a machine that is warm; of a single one, without that time, or a tenth of it if that were nothing."""
    if len(sessions) > 1:
        return sessions[1:]
    only = sessions[0]
    if not only.first:
        return sessions
    took = only.round_trip_s
    left = max(took - warm_up_s, took / 10)
    train_s = None if only.train_s is None else max(0.0, only.train_s - (took - left))
    return [replace(only, sent_s=only.arrived_s - left, train_s=train_s)]


def fit(
    sessions: Sequence[ObservedSession], *, waits: bool, unstarted: Sequence[ObservedSession] = ()
) -> DeviceTimes:
    """`waits`: an update is kept until the server asks for it; by how much its transfers differ is then not known.

    `unstarted`: without local steps, of which only the link can be learnt.
    """
    sessions = sessions[:: -(-len(sessions) // MOST_SESSIONS)]
    training = [max(_train_s(session), SHORTEST_S) for session in sessions]
    crossed = crossings([*sessions, *unstarted], waits=waits)
    rate = s_per_byte(crossed)
    fixed = [each.seconds - rate * each.bytes for each in crossed]
    if waits:
        fixed = [statistics.fmean(fixed)] * len(sessions)
    both_ways_s = max(0.0, min(fixed))
    steps = [session.steps for session in sessions]
    step_s = sum(training) / sum(steps)
    return DeviceTimes(
        steps=statistics.fmean(steps),
        train_s=statistics.fmean(training),
        step_s=step_s,
        latency_s=both_ways_s / 2,
        s_per_byte=rate,
        slowdown=tuple(took / (k * step_s) for took, k in zip(training, steps, strict=True)),
        extra_s=tuple(each - both_ways_s for each in fixed),
    )


def _train_s(session: ObservedSession) -> float:
    """As the client says; all of it where it does not say."""
    return session.round_trip_s if session.train_s is None else session.train_s
