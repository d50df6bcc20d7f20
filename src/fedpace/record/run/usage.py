"""Usage per client: time spent, and the outcome of its updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fedpace.record.run.timeline import SERVER, UNUSED, Stretch


@dataclass(frozen=True, slots=True)
class Usage:
    """One client, from the start to the server's last step."""

    client: int
    busy: float  # share of the time spent on training
    sending: float  # share of the time with a transfer under way
    used: int  # updates aggregated in a step
    wasted: int  # overwritten, lost or refused
    pending: int  # in progress, or not yet polled, at the end
    staleness: Mapping[int, int]  # of the updates used: staleness -> count

    @property
    def mean_staleness(self) -> float:
        return sum(tau * n for tau, n in self.staleness.items()) / self.used if self.used else 0.0

    @property
    def max_staleness(self) -> int:
        return max(self.staleness, default=0)


def usage(rows: Sequence[Stretch]) -> list[Usage]:
    """One line per client that participated, from a timeline."""
    end = max((row.end for row in rows if row.kind in ("step", "idle")), default=0.0)
    own = [row for row in rows if row.client != SERVER]
    return [_of(client, list(those), end) for client, those in groupby(own, key=lambda row: row.client)]


def staleness_of_all(lines: Iterable[Usage]) -> Mapping[int, int]:
    """The histogram of staleness over all clients."""
    return dict(sorted(sum((Counter(line.staleness) for line in lines), Counter[int]()).items()))


def _of(client: int, rows: Sequence[Stretch], end: float) -> Usage:
    trained = [row for row in rows if row.kind == "train"]
    fates = Counter(row.fate for row in trained)
    stale = Counter(row.staleness for row in trained if row.staleness is not None)
    return Usage(
        client=client,
        busy=_share(trained, end),
        sending=_share([row for row in rows if row.kind in ("upload", "download")], end),
        used=fates["consumed"],
        wasted=sum(fates[fate] for fate in UNUSED),
        pending=fates["pending"],
        staleness=dict(sorted(stale.items())),
    )


def _share(rows: Iterable[Stretch], end: float) -> float:
    return sum(max(0.0, min(row.end, end) - row.start) for row in rows) / end if end else 0.0
