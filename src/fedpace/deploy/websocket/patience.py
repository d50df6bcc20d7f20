"""When to call a peer dead, when to try again, and when to stop letting an identity in. All given `now`."""

from __future__ import annotations

from collections import deque

import numpy as np

from fedpace.errors import require_number


class Pulse:
    """Any byte within three heartbeats is life; our own silence is broken after one."""

    def __init__(self, heartbeat_s: float, now: float) -> None:
        self._heartbeat_s = heartbeat_s
        self.heard_at = self.spoke_at = now

    def is_dead(self, now: float) -> bool:
        return now - self.heard_at > 3 * self._heartbeat_s

    def must_speak(self, now: float) -> bool:
        return now - self.spoke_at >= self._heartbeat_s


class Backoff:
    """Seconds until the next attempt: uniform in [0, min(cap, base 2^k)), k failures; for ever.

    The cap bounds how long a thousand clients need to find a server that is back, at some hundred handshakes a second.
    """

    def __init__(self, rng: np.random.Generator, base: float = 0.5, cap: float = 8.0) -> None:
        require_number(base, "backoff base", above=0, allowed="> 0")
        require_number(cap, "backoff cap", low=base, allowed=f">= its base ({base})")
        self._rng, self._base, self._cap = rng, base, cap
        self._failures = 0

    def failed(self) -> float:
        """Count a failure; how long to wait."""
        ceiling = min(self._cap, self._base * 2.0 ** min(self._failures, 64))
        self._failures += 1
        return float(self._rng.uniform(0.0, ceiling))

    def succeeded(self) -> None:
        self._failures = 0


class Occurrences:
    """How often something happened within the last minute."""

    def __init__(self, window_s: float = 60.0) -> None:
        self._window_s = window_s
        self._at: deque[float] = deque()

    def count(self, now: float) -> int:
        """With one that happens now."""
        self._at.append(now)
        while now - self._at[0] >= self._window_s:
            self._at.popleft()
        return len(self._at)
