"""Sessions that take as long as observed ones did."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fedpace.random import stream


@dataclass(frozen=True, slots=True)
class Resampled:
    """Every session takes after one that was observed of its client, drawn anew.

    Its local steps take `slowdown` times step_s each, and all of it `extra_s` longer; both are those of one observed
    session. `order` names the draws: another one gives another order of updates under the same seed, which decides
    everything else.
    """

    slowdown: tuple[tuple[float, ...], ...]  # by client, then by observed session
    extra_s: tuple[tuple[float, ...], ...]
    order: int = 0

    @property
    def clients(self) -> int:
        return len(self.slowdown)

    def drawn(self, seed: int, client: int, session: int) -> tuple[float, float]:
        """Slowdown and extra seconds of a session."""
        own = self.slowdown[client]
        at = int(stream(seed, "delay", client, session, self.order).integers(len(own)))
        return own[at], self.extra_s[client][at]

    def mean(self, client: int) -> tuple[float, float]:
        return statistics.fmean(self.slowdown[client]), statistics.fmean(self.extra_s[client])
