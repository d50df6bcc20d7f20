"""A device fitted to the sessions that were observed of it: speed, link and availability.

    seconds of a session = steps * step_s + noise + 2 * latency_s + bytes / bytes_per_s

The mean and the variance of a client's sessions are those that were observed. Noise is half-normal, or exponential
where sessions vary more than that allows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedpace.deploy.prediction.sessions import ObservedSession

MEAN_OF_HALF_NORMAL = math.sqrt(2 / math.pi)  # of |N(0, 1)|, and its standard deviation
DEVIATION_OF_HALF_NORMAL = math.sqrt(1 - 2 / math.pi)
SMALL_BYTES = 64 << 10  # messages of one size: less than that is latency, more is rate
SPREAD = 2.0  # largest by smallest message from which on the two can be told apart


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Means over sessions; `varies`: by more than half-normal noise can."""

    train_s: float
    train_deviation_s: float
    link_s: float  # both ways
    link_deviation_s: float
    steps: float
    s_per_byte: float
    size: float  # bytes, both ways

    @property
    def deviation_s(self) -> float:
        return math.hypot(self.train_deviation_s, self.link_deviation_s)

    @property
    def varies(self) -> bool:
        return self.train_s + self.link_s < self.deviation_s * MEAN_OF_HALF_NORMAL / DEVIATION_OF_HALF_NORMAL

    def parts(self, noise: str) -> DeviceParts:
        """With this mean and deviation. Noise is never negative: its mean is part of what varies, as far as it goes."""
        exponential = noise == "exponential"
        mean, deviation = (1.0, 1.0) if exponential else (MEAN_OF_HALF_NORMAL, DEVIATION_OF_HALF_NORMAL)
        fixed_link_s = max(0.0, self.link_s - self.s_per_byte * self.size)
        scale = min(self.deviation_s / deviation, (self.train_s + fixed_link_s) / mean)
        share = self.link_deviation_s**2 / self.deviation_s**2 if self.deviation_s else 0.0
        of_link = min(mean * scale * share, fixed_link_s)
        of_train = min(mean * scale - of_link, self.train_s)
        of_link = mean * scale - of_train
        step_s, latency_s = (self.train_s - of_train) / self.steps, (fixed_link_s - of_link) / 2
        return DeviceParts(
            max(0.0, step_s), scale, max(0.0, latency_s)
        )  # rounding may leave less than nothing


@dataclass(frozen=True, slots=True)
class DeviceParts:
    step_s: float
    noise_s: float
    latency_s: float  # one way


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
    transfers = [_transfer_s(session, waits) for session in sessions]
    if waits:
        transfers = [min(transfers)] * len(transfers)
    training = [_train_s(session) for session in sessions]
    sizes = [each.bytes_down + each.bytes_up for each in sessions]
    return DeviceTimes(
        train_s=max(statistics.fmean(training), 1e-9),
        train_deviation_s=statistics.pstdev(training),
        link_s=statistics.fmean(transfers),
        link_deviation_s=statistics.pstdev(transfers),
        steps=statistics.fmean(session.steps for session in sessions),
        s_per_byte=_s_per_byte(sizes, transfers),
        size=statistics.fmean(sizes),
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
