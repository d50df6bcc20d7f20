"""A study's server: settings, program and identities joined, its run saved in the run store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fedpace.algorithm import Algorithm
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.fleet.alarms import Surroundings
from fedpace.deploy.fleet.page import MetricsPage
from fedpace.deploy.fleet.reporting import FleetReports, Sink
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.settings import CLIENT_FILE, Settings, read_settings
from fedpace.deploy.projects.templates import IDENTITIES
from fedpace.deploy.running import serve
from fedpace.deploy.transport import ServerTransport
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.errors import ConfigError
from fedpace.record import Run, fleet
from fedpace.record.store import booking
from fedpace.record.store.booked import Booked
from fedpace.record.store.store import Entry, Store
from fedpace.record.store.writer import Writer
from fedpace.server import Step
from fedpace.sim.observer import Observer

RUNS = "runs"


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """A study's folder, read."""

    settings: Settings
    program: Program
    algorithm: Algorithm

    @classmethod
    def read(cls, folder: str | Path) -> StudyFolder:
        settings = read_settings(folder)
        program = Program(settings.folder / CLIENT_FILE)
        return cls(settings, program, settings.built(program.rules))

    def of(self, clients: int) -> StudyFolder:
        """The same for a run of this many clients, all of which take part."""
        return replace(self, settings=replace(self.settings, clients=clients, wait_for=clients)).possible()

    def possible(self) -> StudyFolder:
        """Itself, if its pacing can run with its clients; refused before anything is listened at or started."""
        self.algorithm.pace.init(self.settings.clients)
        return self

    @property
    def plan(self) -> RunPlan:
        return RunPlan.of(self.algorithm, self.program.rules)

    @property
    def identities(self) -> Identities:
        return Identities(self.settings.folder / IDENTITIES)

    def place(self, name: str) -> Path:
        """The server's folder for a run of this name."""
        return self.settings.folder / RUNS / name

    def listening(
        self, identities: Identities | None, where: tuple[str, int] | None = None
    ) -> Callable[[], Awaitable[WebsocketServer]]:
        """Opens the transport; without identities on this machine only."""

        async def listen() -> WebsocketServer:
            spool = self.settings.folder / RUNS / "spool"
            spool.mkdir(parents=True, exist_ok=True)
            transport = WebsocketServer(self.settings.clients, identities=identities, spool_folder=spool)
            await transport.start(*(where or self.settings.listen))
            return transport

        return listen


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun:
    """Which run of a study: saved in the store, if there is one, from its beginning on."""

    name: str
    store: Store | None
    in_order: bool = False  # a cohort's updates by client number
    observers: Sequence[Observer] = ()


Listen = Callable[[], Awaitable[ServerTransport]]


def serve_study(
    study: StudyFolder,
    listen: Listen,
    which: ServedRun,
    *,
    identities: Identities | None = None,
    metrics: MetricsPage | None = None,
) -> Run:
    """Serve a run of the study to its end.

    `identities`: watched for certificates that expire. `metrics`: where the fleet's status is shown.
    """
    name = which.name
    with _saved(study, name, which.store) as saving:
        watching = [*which.observers, *saving.observers]
        reports = _reports(
            study, name, identities, [*saving.sinks, *([] if metrics is None else [metrics.take])]
        )
        run = serve(
            study.algorithm,
            study.program.server_task(),
            listen,
            study.place(name),
            **study.settings.for_server(),
            in_order=which.in_order,
            rules=study.program.rules,
            told=[_telling(watching)],
            beside=[*([] if metrics is None else [metrics.beside]), reports.beside],
        )
        known = {"name": name, "fleet_reports_failed": reports.failed}
        return saving.finished(replace(run, summary={**run.summary, **known}))


def _reports(
    study: StudyFolder, name: str, identities: Identities | None, sinks: Sequence[Sink]
) -> FleetReports:
    place, reserve = study.settings.folder, study.settings.journal.reserve_bytes
    return FleetReports(name, sinks, Surroundings(place, reserve, identities).alarms)


def _telling(observers: Sequence[Observer]) -> Callable[[Step, Coordinator], None]:
    def tell(step: Step, coordinator: Coordinator) -> None:
        record = coordinator.state.steps[step.version - 1]
        known = replace(record, metrics=coordinator.metrics_of(step.version))
        for observer in observers:
            observer.recorded(known, step.x)

    return tell


class _Unsaved:
    """A run that no store is told of."""

    observers: Sequence[Observer] = ()
    sinks: Sequence[Sink] = ()

    def finished(self, run: Run) -> Run:
        return run


@dataclass(slots=True)
class _Saving:
    """A run in the store while it is served."""

    store: Store
    entry: Entry
    writer: Writer

    @property
    def observers(self) -> Sequence[Observer]:
        return [self.writer]

    @property
    def sinks(self) -> Sequence[Sink]:
        return [partial(fleet.write, self.store, self.entry.id)]

    def finished(self, run: Run) -> Run:
        """The history as it is in the end: metrics come later than the steps they belong to."""
        self.store.roll_back(self.entry.id, [])
        self.store.add(self.entry.id, run.history, [record.virtual_seconds for record in run.history])
        state = "done" if run.stopped is None else "interrupted"
        self.writer = Writer(self.store, self.entry.id, time.monotonic)
        booking.end(self.store, self.entry, run, self.writer, state, run.stopped or "")
        return run


@contextlib.contextmanager
def _saved(study: StudyFolder, name: str, store: Store | None) -> Iterator[_Unsaved | _Saving]:
    if store is None:
        yield _Unsaved()
        return
    entry = _entry(study, name, store)
    with store.working_on(entry):
        store.roll_back(entry.id, [])
        store.set(entry.id, "running")
        yield _Saving(store, entry, Writer(store, entry.id, time.monotonic))


def _entry(study: StudyFolder, name: str, store: Store) -> Entry:
    """This deployment in the store: the one that was begun, or a new one."""
    settings, place = study.settings, str(study.place(name).resolve())
    what = Booked(
        name=name,
        algorithm=study.algorithm,
        task=study.program.server_task().name,
        seed=settings.seed,
        rounds=settings.rounds,
        experiment={"algorithm": study.plan.text, "clients": str(settings.clients), "deployment": place},
        about={"deployment": place},
    )
    known = store.find(name)
    if known is None:
        return booking.begin(store, what)
    if known.about.get("deployment") != place:
        raise ConfigError(f"--name must be one that no other run has; {name!r} is taken (`fedpace runs`)")
    return known
