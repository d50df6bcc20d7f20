"""Who is told what happens in a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedpace.client import Session, Times
from fedpace.server import Parcel, Step, Update
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.sim.simulation import Simulation


@dataclass(slots=True)
class Tally:
    """What the run did, counted."""

    bytes_up: int = 0
    bytes_down: int = 0
    sessions: int = 0
    solved: int = 0  # sessions whose result was computed
    overwritten: int = 0
    dropped: int = 0
    uploads: int = 0


class Watcher:
    """Does nothing. Recorders and invariant checks override what they care for."""

    def began(self, client: int, session: Session, now: float) -> None:
        """A client took a model out of its receive buffer."""

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        """A session is done, interrupted or lost."""

    def uploading(self, client: int, session: Session, now: float, until: float) -> None:
        """An update is on its way."""

    def ended(self, client: int, session: Session, fate: str) -> None:
        """A session came to nothing: overwritten, dropped or refused. Those in a step are told by `stepped`."""

    def sent_up(self, client: int, update: Update) -> None:
        """These bytes have reached the server."""

    def sent_down(self, client: int | None, parcel: Parcel, copies: int = 1) -> None:
        """These bytes are sent to a client, or to `copies` of them at once."""

    def lossy(self, direction: str, meant: Vector, used: Vector) -> None:
        """A link made `used` of `meant`."""

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        """The server took a step."""

    def dispatched(self, simulation: Simulation) -> None:
        """The server has sent what it had to send at this instant."""


HOOKS = [name for name in vars(Watcher) if not name.startswith("_")]


def overrides(watcher: Watcher, hook: str) -> bool:
    """Whether it wants to be told."""
    return getattr(type(watcher), hook) is not getattr(Watcher, hook)
