"""What must hold at every moment of a simulation, whatever the pacing rule, the devices and the losses."""

from __future__ import annotations

from collections.abc import Iterable

from fedpace.client import Session, Times
from fedpace.server import Step, Update
from fedpace.server.invariants import assert_sound
from fedpace.sim.observer import Observer, Tally
from fedpace.sim.simulation import Simulation


class Invariants(Observer):
    """Raises AssertionError at the first moment at which something is not as it must be.

    Pass it to `fedpace.simulate(..., observers=[Invariants()])`. It holds that
      - time never runs back, and the version grows by one per step;
      - a client has one running session at most, and none while it is away;
      - every update is in one step at most, and then was not lost, overwritten or refused; its staleness is the
        number of steps since the model it started from;
      - buffered pacing has as many active clients as it may, if so many are available;
      - the cache of CA2FL knows the mean of its rows;
      - a model is held as long as a client may report from it, and the server's books on that add up.
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

    def uploading(self, client: int, update: Update, now: float, until: float) -> None:
        self._at(now)
        assert until >= now, f"client {client}: an upload ends before it begins"

    def sent_up(self, client: int, update: Update) -> None:
        key = client, update.session
        assert update.version in (self.started[key], -1), f"client {client} claims version {update.version}"
        self.started[key] = update.version

    def ended(self, client: int, session: int, fate: str) -> None:
        self._finish((client, session), fate)

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
        absent = [client for client in self.running if not simulation.server.is_present(client)]
        assert not absent, f"training while away: {sorted(absent)}"
        assert_sound(simulation.server, models_in_use(simulation))

    def _at(self, now: float) -> None:
        assert now >= self.now, f"time runs back from {self.now} to {now}"
        self.now = now

    def _finish(self, key: tuple[int, int], fate: str) -> None:
        assert key not in self.over, f"client {key[0]}, session {key[1]}: {self.over[key]}, then {fate}"
        self.over[key] = fate


def models_in_use(simulation: Simulation) -> Iterable[tuple[int, int]]:
    """(client, version) of the model behind every session not yet answered.

    A model under way or in a receive buffer may be void: its client left meanwhile, or was sent a newer one.
    """
    for number, client in simulation.clients.items():
        sessions = (client.state.running, client.state.outbox, client.state.upload)
        yield from ((number, one.version) for one in sessions if one is not None and one.version >= 0)
