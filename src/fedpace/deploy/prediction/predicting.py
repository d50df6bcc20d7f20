"""A study simulated on measured devices, and compared with the run they were measured in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fedpace.client import Session
from fedpace.compute.protocol import Task
from fedpace.deploy.measures import weighted
from fedpace.deploy.prediction.comparing import TITLES, ComparedQuantity, compared, probability_within
from fedpace.deploy.prediction.measured import MeasuredPopulation
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.errors import require, require_count
from fedpace.experiment import simulate
from fedpace.pace.protocol import Continuous
from fedpace.record import Run
from fedpace.record.report.page.groups import StoredRun
from fedpace.record.report.page.groups import table as html_table
from fedpace.record.report.page.page import page
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.server import Parcel, Step
from fedpace.sim.observer import Observer, StepRecord, Tally
from fedpace.vector import Vector

REPEATS = 9  # a real run lies between the smallest and the largest of them with a probability of 80 %

Measure = Callable[[Vector], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The simulated runs, one for each order of arrival, beside the deployed one of the same study if there is one."""

    runs: tuple[Run, ...]
    real: MeasuredPopulation | None

    @property
    def first(self) -> Run:
        return self.runs[0]

    def rows(self) -> list[ComparedQuantity]:
        return compared([run.history for run in self.runs], () if self.real is None else self.real.history)

    def cells(self) -> list[list[str]]:
        """The table, as text."""
        return [row.cells for row in self.rows()]

    @property
    def about_range(self) -> str:
        """What the table's range is; empty where there is none."""
        repeats = len(self.runs)
        share = f"{100 * probability_within(repeats):.0f} %"
        what = f"mean and range of {repeats} simulated orders of arrival; it should hold {share} of real runs"
        return what if repeats > 1 else ""

    def to_json(self) -> str:
        """`history`: of the first repeat."""
        rows = {
            row.name: {"predicted": row.predicted, "low": row.low, "high": row.high, "real": row.real}
            for row in self.rows()
        }
        history = json.loads(self.first.to_json())["history"]
        real = None if self.real is None else self.real.run
        return json.dumps({"real": real, "repeats": len(self.runs), "compared": rows, "history": history})

    def to_html(self) -> str:
        """One self-contained page with all runs, the table first."""
        shown_runs = [self._stored(run, f"predicted, {k}", "predicted") for k, run in enumerate(self.runs, 1)]
        if self.real is not None:
            happened = replace(
                self.first,
                history=self.real.history,
                counters={},
                traffic={},
                summary={"real_seconds": self.real.seconds},
            )
            shown_runs.append(self._stored(happened, f"real: {self.real.run}"))
        title = f"{self.first.name}: predicted and real"
        note = f"<p><small>Predicted: {self.about_range}.</small></p>" if self.about_range else ""
        return page(shown_runs, title, None, html_table(TITLES, self.cells()) + note)

    def _stored(self, run: Run, label: str, group: str = "") -> StoredRun:
        clients = 1 + max((client for step in self.first.history for client in step.clients), default=0)
        return StoredRun(label=label, run=replace(run, activities=(), fates=()), clients=clients, group=group)


def predict(
    study: StudyFolder,
    measured: MeasuredPopulation,
    program: Program,
    real: MeasuredPopulation | None = None,
    *,
    repeats: int = REPEATS,
) -> Prediction:
    """Simulate the study's run on the measured devices, several times: sessions are drawn anew, the seed is the same.

    It is compared with `real`, else with the run they were measured in, if that had the same plan.
    `program` has all clients' data, or some in their place.
    """
    clients = study.settings.clients
    require_count(repeats, "repeats")
    task = program.whole_task(clients)
    require(task.clients == clients, "the clients of task()", task.clients, f"{clients}")
    measure = _measure(program, clients, study.settings.evaluate)
    if real is None and measured.plan == study.plan.text:
        real = measured
    runs = (_simulated(study, measured, task, measure, order) for order in range(repeats))
    return Prediction(tuple(runs), real)


def _simulated(
    study: StudyFolder, measured: MeasuredPopulation, task: Task, measure: Measure, order: int
) -> Run:
    """One order of updates; its clock starts where the measured run's did."""
    settings = study.settings
    evaluated = _Evaluated(measure, every(settings.evaluate_every), settings.rounds)
    run = simulate(
        study.algorithm,
        task,
        measured.population(settings.clients, order),
        rounds=settings.rounds,
        seed=settings.seed,
        evaluate_every=None,
        observers=[evaluated, retrieved := _Retrieved()],
    )
    continuous = isinstance(study.algorithm.pace.client, Continuous)
    history = [
        replace(
            step,
            virtual_seconds=step.virtual_seconds + measured.warm_up_s,
            metrics=evaluated.metrics.get(step.version, {}),
            bytes_down=retrieved.bytes_down[step.version] if continuous else step.bytes_down,
        )
        for step in run.history
    ]
    return replace(run, history=history)


class _Evaluated(Observer):
    """Models that are due, measured as the deployment does."""

    def __init__(self, measure: Measure, every: EvaluationInterval | None, last: int) -> None:
        self.measure, self.every, self.last = measure, every, last
        self.metrics: dict[int, Mapping[str, float]] = {}
        self._bytes = 0
        self._marks: tuple[int, int, int] | None = None

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._bytes += record.bytes_up + record.bytes_down
        if self.every is None:
            return
        before, self._marks = (
            self._marks,
            self.every.marks(record.version, record.virtual_seconds, self._bytes),
        )
        if before != self._marks or record.version == self.last:
            self.metrics[record.version] = self.measure(x)


class _Retrieved(Observer):
    """Bytes of the models that clients took: a simulation counts a broadcast to all, a server sends it to who asks."""

    def __init__(self) -> None:
        self.bytes_down: dict[int, int] = {}  # since the step before, by version
        self._size = self._since = 0

    def sent_down(self, client: int | None, parcel: Parcel, copies: int = 1) -> None:
        self._size = parcel.size_bytes

    def began(self, client: int, session: Session, now: float) -> None:
        self._since += self._size

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        self.bytes_down[step.version], self._since = self._since, 0


def _measure(program: Program, clients: int, who: str) -> Measure:
    """By the server if it does, else by every client, weighted by samples."""
    server = program.server_task()
    if who in ("auto", "server", "both") and getattr(server, "evaluate", None) is not None:
        own: Measure = server.evaluate
        return own
    local = [program.local_task(client) for client in range(clients)]
    able = [(task, data) for task, data in local if getattr(task, "evaluate", None) is not None]

    def measure(x: Vector) -> Mapping[str, float]:
        return weighted({i: (task.samples(data), task.evaluate(x)) for i, (task, data) in enumerate(able)})

    return measure
