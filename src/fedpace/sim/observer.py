"""The observer protocol: what a run reports, with do-nothing defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedpace.client import Session, Times
from fedpace.server import Parcel, Step, Update
from fedpace.vector import Vector

if TYPE_CHECKING:
    from fedpace.sim.simulation import Simulation


@dataclass(slots=True)
class Tally:
    """Counters of a run."""

    bytes_up: int = 0
    bytes_down: int = 0
    sessions: int = 0
    solved: int = 0  # sessions whose result was computed
    overwritten: int = 0
    dropped: int = 0
    uploads: int = 0


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The state after one server step. Bytes are those since the previous record."""

    version: int
    virtual_seconds: float
    clients: tuple[int, ...]  # in order of arrival, with multiplicity
    staleness: tuple[int, ...]  # aligned with `clients`
    bytes_up: int
    bytes_down: int
    metrics: Mapping[str, float] = field(default_factory=dict)  # empty when not evaluated
    clipped: int = 0  # updates that were scaled down
    epsilon: float | None = None  # spent until then, in a private run


@dataclass(frozen=True, slots=True)
class Activity:
    """A stretch of one client's time."""

    client: int
    start: float
    end: float
    kind: str  # train | upload | download
    version: int
    session: int


@dataclass(frozen=True, slots=True)
class Fate:
    """The outcome of a session: consumed | overwritten | dropped | refused, and by which step."""

    client: int
    session: int
    fate: str
    version: int | None = None  # the step that consumed it


class Observer:
    """Does nothing. Recorders, progress, trackers and invariant checks override the hooks they need.

    Raising `fedpace.Stop(reason)` in any of these ends the run on purpose, once the event under way is over.
    """

    # ------------------------------------------------------------ what a run reports

    def begun(self, metrics: Mapping[str, float]) -> None:
        """A new run begins, everything is compiled and set up; these are the metrics of the initial model."""

    def recorded(self, record: StepRecord, x: Vector) -> None:
        """The server took a step: with its metrics, where it was evaluated, and the model after it."""

    def activity(self, activity: Activity) -> None:
        """A client has spent a stretch of time."""

    def fate(self, fate: Fate) -> None:
        """The outcome of a session is known."""

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        """The run resumes from a checkpoint: these steps are done, everything reported after them is void."""

    # ------------------------------------------------------------ every detail of it

    def began(self, client: int, session: Session, now: float) -> None:
        """A client took a model out of its receive buffer."""

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        """A session is done, interrupted or lost; `times` are overwritten by its client's next session."""

    def uploading(self, client: int, update: Update, now: float, until: float) -> None:
        """An update is on its way."""

    def ended(self, client: int, session: int, fate: str) -> None:
        """A session came to nothing: overwritten, dropped or refused. Those in a step are told by `stepped`."""

    def sent_up(self, client: int, update: Update) -> None:
        """These bytes have reached the server."""

    def sent_down(self, client: int | None, parcel: Parcel, copies: int = 1) -> None:
        """These bytes are sent to a client, or to `copies` of them at once."""

    def lossy(self, direction: str, meant: Vector, used: Vector) -> None:
        """A lossy link delivered `used` in place of `meant`."""

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        """The server took a step."""

    def dispatched(self, simulation: Simulation) -> None:
        """The server has sent what it had to send at this instant."""

    def wants(self, hook: str) -> bool:
        """Whether to call this hook: by default, if it is overridden."""
        return getattr(type(self), hook) is not getattr(Observer, hook)


HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_") and name != "wants")
