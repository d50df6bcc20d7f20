"""A server's fleet, told every second to whoever is interested, without ever holding up the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from fedpace.deploy.fleet.alarms import UpdateAlarms, online_alarms
from fedpace.deploy.fleet.observing import FleetObserver
from fedpace.deploy.serving import Serving
from fedpace.deploy.threads import to_the_end
from fedpace.record.fleet.status import MOST_ALARMS, FleetAlarm, FleetStatus

LOG = logging.getLogger("fedpace.deploy")
EVERY_S = 1.0

Sink = Callable[[FleetStatus], None]


class FleetReports:
    """Gives every status to `sinks`, in a thread; one that fails is counted and said once, and tried again.

    `surroundings`: further alarms, asked for in the same thread.
    """

    def __init__(
        self,
        run: str,
        sinks: Sequence[Sink],
        surroundings: Callable[[], Sequence[FleetAlarm]] = tuple,
        *,
        every_s: float = EVERY_S,
        wall_clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = LOG.warning,
    ) -> None:
        self.run, self.sinks, self.surroundings = run, sinks, surroundings
        self.failed = 0  # statuses that a sink did not take
        self._every_s, self._wall_clock, self._say = every_s, wall_clock, say
        self._updates = UpdateAlarms()

    @contextlib.asynccontextmanager
    async def beside(self, serving: Serving) -> AsyncIterator[None]:
        """Reports as long as the server runs, and once more when it has ended."""
        observer = FleetObserver(serving, self.run)
        reporting = asyncio.ensure_future(self._report_for_ever(observer))
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            await self._report(observer, over=True)

    async def _report_for_ever(self, observer: FleetObserver) -> None:
        while True:
            await self._report(observer)
            await asyncio.sleep(self._every_s)

    async def _report(self, observer: FleetObserver, *, over: bool = False) -> None:
        serving = observer.serving
        async with serving.settled:
            status = observer.status(self._wall_clock(), over=over)
            alarms = self._updates.look(serving.coordinator.counters(), serving.now)
        if not over:
            alarms += online_alarms(status)
        await to_the_end(self._tell, replace(status, alarms=tuple(alarms)))

    def _tell(self, status: FleetStatus) -> None:
        self._guarded(lambda: self._tell_all(self._with_surroundings(status)))

    def _with_surroundings(self, status: FleetStatus) -> FleetStatus:
        alarms = (*status.alarms, *self.surroundings())[:MOST_ALARMS]
        return replace(status, alarms=alarms)

    def _tell_all(self, status: FleetStatus) -> None:
        for sink in self.sinks:
            self._guarded(lambda sink=sink: sink(status))  # type: ignore[misc]

    def _guarded(self, work: Callable[[], None]) -> None:
        """Whatever a database or a disk does, the run continues."""
        try:
            work()
        except Exception as error:
            self.failed += 1
            if self.failed == 1:
                self._say(f"the fleet's status could not be written: {error}; further failures are counted")
