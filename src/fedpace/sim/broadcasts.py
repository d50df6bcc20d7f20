"""Models put into every client's receive buffer, stored once rather than once per client."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedpace.client import Client, Delivery
from fedpace.server import Server
from fedpace.sim.population import Devices


@dataclass(frozen=True, slots=True)
class Announced:
    sent_s: float
    delivery: Delivery
    size_bytes: int  # 0: it takes no time of its own, but that of the client that takes it out


# A model out of a receive buffer, and whether it was broadcast: its bytes were counted when it was sent to all.
Taken = tuple[Delivery, bool]


@dataclass(slots=True)
class Broadcasts:
    """The broadcasts that some client may still find newest. Each client looks up what has reached it by now."""

    entries: list[Announced] = field(default_factory=list)
    back_s: dict[int, float] = field(default_factory=dict)  # when clients that were away came (back)

    def add(self, entry: Announced, server: Server, devices: Devices) -> None:
        """A new broadcast, held until all clients have one that was sent later."""
        server.keep(entry.delivery.version)
        self.entries.append(entry)
        while len(self.entries) > 1 and self._everywhere(self.entries[1], entry.sent_s, devices):
            server.release(self.entries.pop(0).delivery.version)

    def take(self, client: Client, now: float, devices: Devices) -> Taken | None:
        """Empty a client's receive buffer: the newest broadcast, or what was sent to it alone."""
        s, own, last = client.state, client.take(), self.entries[-1] if self.entries else None
        if last is None or last.size_bytes or self.back_s:
            newest = self.newest(client.number, now, devices)
        else:
            newest = last.delivery  # it is there at once, and nobody was away
        known = s.seen if own is None else max(s.seen, own.version)
        if newest is None or (newest.version <= known and not (own is None and client.config.reuses)):
            return None if own is None else (own, False)
        s.seen = newest.version
        return newest, True

    def newest(self, client: int, now: float, devices: Devices) -> Delivery | None:
        """The newest broadcast in this client's receive buffer at this time."""
        back_s = self.back_s.get(client, 0.0) if self.back_s else 0.0
        for entry in reversed(self.entries):
            if entry.sent_s < back_s:
                return replace(entry.delivery, missed=True)
            if not entry.size_bytes or self.reaches_s(entry, client, devices) <= now:
                return entry.delivery
        return None

    def next_arrival_s(self, client: int, now: float, devices: Devices) -> float | None:
        """When the next broadcast under way reaches this client."""
        times = [self.reaches_s(entry, client, devices) for entry in self.entries]
        return min((time for time in times if time > now), default=None)

    def reaches_s(self, entry: Announced, client: int, devices: Devices) -> float:
        if not entry.size_bytes or self._missed(entry, client):
            return entry.sent_s
        return entry.sent_s + devices.download_s(client, entry.size_bytes)

    def _missed(self, entry: Announced, client: int) -> bool:
        return entry.sent_s < self.back_s.get(client, 0.0)

    @staticmethod
    def _everywhere(entry: Announced, now: float, devices: Devices) -> bool:
        slowest = devices.slowest_download_s(entry.size_bytes) if entry.size_bytes else 0.0
        return entry.sent_s + slowest <= now
