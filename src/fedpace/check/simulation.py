"""What must hold at every moment of a simulation, whatever the pacing rule, the devices and the losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from fedpace.aggregate.cached import CachedState
from fedpace.client import Delivery, Session, Times
from fedpace.pace import Buffered, Immediate
from fedpace.server import Step, Update
from fedpace.sim.simulation import Simulation
from fedpace.sim.timeline import Phase
from fedpace.sim.watcher import Tally, Watcher


class Invariants(Watcher):
    """Raises AssertionError at the first moment at which something is not as it must be.

    Pass it to `fedpace.simulate(..., watchers=[Invariants()])`. It holds that
      - time never runs back, and the version grows by one per step;
      - a client has one running session at most, and none while it is away;
      - every update is in one step at most, and then was not lost, overwritten or refused; its staleness is the
        number of steps since the model it started from;
      - buffered pacing has as many clients at work as it may, if so many are there;
      - the cache of CA2FL knows the mean of its rows;
      - a model is kept as long as somebody needs it, and no longer.
    """

    def __init__(self) -> None:
        self.now, self.version = 0.0, 0
        self.running: dict[int, int] = {}  # client -> session
        self.started: dict[
            tuple[int, int], int
        ] = {}  # (client, session) -> its start; -1: a whole model of its own
        self.over: dict[tuple[int, int], str] = {}  # (client, session) -> fate

    def began(self, client: int, session: Session, now: float) -> None:
        self._at(now)
        assert client not in self.running, f"client {client} has two running sessions"
        self.running[client] = session.number
        self.started[client, session.number] = session.version

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        self._at(until)
        assert self.running.pop(client, None) == session.number, f"client {client}: a session ended twice"
        assert times.taken_s <= times.began_s < times.ends_s, f"client {client}: {times} are out of order"

    def uploading(self, client: int, session: Session, now: float, until: float) -> None:
        self._at(now)
        assert until >= now, f"client {client}: an upload ends before it begins"

    def sent_up(self, client: int, update: Update) -> None:
        key = client, update.session
        assert update.version in (self.started[key], -1), f"client {client} claims version {update.version}"
        self.started[key] = update.version

    def ended(self, client: int, session: Session, fate: str) -> None:
        self._finish((client, session.number), fate)

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        self._at(now)
        assert step.version == self.version + 1, f"version {self.version} is followed by {step.version}"
        self.version = step.version
        members = list(zip(step.clients, step.sessions, step.staleness, strict=True))
        assert members, f"step {step.version} has no members"
        for client, session, stale in dict.fromkeys(members):
            start = self.started[client, session]
            expected = step.version - 1 - start if start >= 0 else 0
            assert stale == expected >= 0, f"client {client}: staleness {stale}, started from {start}"
            self._finish((client, session), f"step {step.version}")

    def dispatched(self, simulation: Simulation) -> None:
        self._at(simulation.now)
        absent = simulation.server.state.absent
        assert absent.isdisjoint(self.running), f"at work while away: {sorted(absent & self.running.keys())}"
        check_concurrency(simulation)
        check_cache(simulation.server.state.aggregate)
        check_versions(simulation)

    def _at(self, now: float) -> None:
        assert now >= self.now, f"time runs back from {self.now} to {now}"
        self.now = now

    def _finish(self, key: tuple[int, int], fate: str) -> None:
        assert key not in self.over, f"client {key[0]}, session {key[1]}: {self.over[key]}, then {fate}"
        self.over[key] = fate


def check_concurrency(simulation: Simulation) -> None:
    """Buffered pacing: as many clients at work as asked for, or everybody who is there."""
    pace, state = simulation.server.algorithm.pace, simulation.server.state
    if isinstance(pace, Buffered | Immediate):
        most = simulation.task.clients if pace.concurrency is None else pace.concurrency
        active, free = state.pace.active, state.pace.free
        assert len(active) + free == most, f"{len(active)} at work and {free} free places make {most}"
        idle = simulation.task.clients - len(active | state.absent)
        assert not (free and idle), f"{free} places are free and {idle} clients idle"


def check_cache(state: object, tolerance: float = 1e-6) -> None:
    """h_bar is the mean of all h_i, between steps."""
    if isinstance(state, CachedState) and state.fresh.vector is None:
        rows = [state.rows.get(client) for client in range(state.clients)]
        held = [row for row in rows if row is not None]
        if held:
            mean, largest = (
                np.sum(held, axis=0) / state.clients,
                max(float(np.abs(row).max()) for row in held),
            )
            np.testing.assert_allclose(state.mean, mean, rtol=0, atol=tolerance * largest + 1e-12)


def check_versions(simulation: Simulation) -> None:
    """The version store holds what is needed, counted, and nothing else."""
    versions = simulation.server.state.versions
    needed = Counter(needed_versions(simulation))
    assert versions.holders == needed, f"versions held {versions.holders}, needed {dict(needed)}"
    window = set(range(max(0, versions.newest - versions.keeps + 1), versions.newest + 1))
    assert set(versions.models) == window | set(needed), f"models kept: {sorted(versions.models)}"


def needed_versions(simulation: Simulation) -> Iterable[int]:
    """Every reason to keep a version, one by one."""
    yield from (entry.delivery.version for entry in simulation.state.broadcasts.entries)
    yield from (kept.header.version for kept in simulation.server.state.kept)
    for _, phase, _, _, what in simulation.state.line.heap:
        if phase is Phase.DOWNLINK:
            yield what.version
    for client in simulation.clients.values():
        s = client.state
        holders: tuple[Delivery | Session | None, ...] = (s.inbox, s.running, s.outbox, s.upload)
        yield from (holder.version for holder in holders if holder is not None and holder.version >= 0)
