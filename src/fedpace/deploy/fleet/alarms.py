"""What an operator should look at: nobody online, updates refused, certificates that expire, a disk nearly full."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.journal.files import DiskFiles
from fedpace.errors import FedpaceError
from fedpace.record.fleet.status import LONGEST_TEXT, MOST_ALARMS, FleetAlarm, FleetStatus
from fedpace.untrusted import visible

WINDOW_S = 60.0  # of refused updates
RESERVES = 4  # times the journal's reserve: less than that is nearly full
CERTIFICATES_S = 600.0  # between two looks at them


def online_alarms(status: FleetStatus) -> list[FleetAlarm]:
    """While the run has steps left."""
    if status.online or status.step == status.steps:
        return []
    known = f"{len(status.clients):,} are known, {status.silent:,} of them silent"
    return [FleetAlarm("nobody_online", f"no client is connected; {known}")]


@dataclass(slots=True)
class UpdateAlarms:
    """Updates that make no sense, or more that come too late than are taken, within the last minute."""

    _seen: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)

    def look(self, counters: Mapping[str, int], now: float) -> list[FleetAlarm]:
        """`counters`: of the server, since the run began."""
        self._seen.append((now, {name: counters[name] for name in _COUNTED}))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        before, after = self._seen[0][1], self._seen[-1][1]
        new = {name: after[name] - before[name] for name in _COUNTED}
        senseless = new["malformed"] + new["not_finite"]
        if not senseless and new["refused"] <= new["taken"]:
            return []
        why = ", ".join(f"{new[name]:,} {text}" for name, text in _COUNTED.items() if text and new[name])
        return [FleetAlarm("updates_refused", f"{why}; {new['taken']:,} taken in the last minute")]


_COUNTED = {"taken": "", "refused": "too late", "malformed": "malformed", "not_finite": "not finite"}


class Surroundings:
    """Of the server's machine: its disk and its certificates. Reads files: not to be asked in an event loop."""

    def __init__(
        self,
        folder: Path,
        reserve_bytes: int,
        identities: Identities | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files, self._reserve_bytes = DiskFiles(folder), reserve_bytes
        self._identities, self._clock = identities, clock
        self._expiring: list[FleetAlarm] = []
        self._looked_s = float("-inf")

    def alarms(self) -> list[FleetAlarm]:
        if self._clock() - self._looked_s >= CERTIFICATES_S:
            self._looked_s, self._expiring = self._clock(), self._certificates()
        return [*self._disk(), *self._expiring][:MOST_ALARMS]

    def _disk(self) -> list[FleetAlarm]:
        free, low = self._files.free_bytes(), RESERVES * self._reserve_bytes
        if free >= low:
            return []
        stops = f"the server stops at {self._reserve_bytes:,}"
        return [FleetAlarm("disk_nearly_full", f"{free:,} bytes are free where the journal is; {stops}")]

    def _certificates(self) -> list[FleetAlarm]:
        if self._identities is None:
            return []
        try:
            warnings = self._identities.warnings(datetime.now(UTC))
        except (FedpaceError, OSError) as error:
            warnings = [f"certificates cannot be read: {error}"]
        return [FleetAlarm("certificate_expires", visible(line)[:LONGEST_TEXT]) for line in warnings]
