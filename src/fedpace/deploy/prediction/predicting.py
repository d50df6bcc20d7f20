"""A study simulated on measured devices, and compared with the run they were measured in."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from fedpace.client import Session
from fedpace.deploy.measures import weighted
from fedpace.deploy.prediction.measured import MeasuredPopulation
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.errors import require
from fedpace.experiment import simulate
from fedpace.pace.protocol import Continuous, OnDemand
from fedpace.record import Run
from fedpace.record.report.page.groups import StoredRun
from fedpace.record.report.page.groups import table as html_table
from fedpace.record.report.page.page import page
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.server import Parcel, Step
from fedpace.sim.observer import Observer, StepRecord, Tally
from fedpace.vector import Vector

FIFTH = 5

Measure = Callable[[Vector], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """One row: what was predicted, and what happened; None: not known."""

    name: str
    predicted: float | None
    real: float | None

    @property
    def difference(self) -> float | None:
        """Relative to what happened."""
        if self.predicted is None or self.real is None:
            return None
        if self.real == 0:
            return 0.0 if self.predicted == 0 else None
        return (self.predicted - self.real) / abs(self.real)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The simulated run, beside the deployed one where there is one of the same study."""

    run: Run
    real: MeasuredPopulation | None

    @property
    def on_demand(self) -> bool:
        """Clients train when they are sent a model; other orders take no time in a simulation."""
        return isinstance(self.run.algorithm.pace.client, OnDemand)

    def rows(self) -> list[ComparedQuantity]:
        return compared(self.run.history, () if self.real is None else self.real.history)

    def cells(self) -> list[list[str]]:
        """The table, as text."""
        return [
            [row.name, shown(row.predicted), shown(row.real), percent(row.difference)] for row in self.rows()
        ]

    def to_json(self) -> str:
        rows = {row.name: {"predicted": row.predicted, "real": row.real} for row in self.rows()}
        history = json.loads(self.run.to_json())["history"]
        real = None if self.real is None else self.real.run
        return json.dumps({"real": real, "compared": rows, "history": history})

    def to_html(self) -> str:
        """One self-contained page with both runs, the table first."""
        table = html_table(("", "predicted", "real", "difference"), self.cells())
        clients = 1 + max((client for step in self.run.history for client in step.clients), default=0)
        runs = {"predicted": self.run}
        if self.real is not None:
            runs[f"real: {self.real.run}"] = replace(
                self.run,
                history=self.real.history,
                counters={},
                traffic={},
                summary={"real_seconds": self.real.seconds},
            )
        shown_runs = [
            StoredRun(label=label, run=replace(run, activities=(), fates=()), clients=clients)
            for label, run in runs.items()
        ]
        return page(shown_runs, f"{self.run.name}: predicted and real", None, table)


def predict(
    study: StudyFolder, measured: MeasuredPopulation, program: Program, real: MeasuredPopulation | None = None
) -> Prediction:
    """Simulate the study's run on the measured devices.

    It is compared with `real`, else with the run they were measured in, if that had the same plan.
    `program` has all clients' data, or some in their place.
    """
    settings = study.settings
    task = program.whole_task(settings.clients)
    require(task.clients == settings.clients, "the clients of task()", task.clients, f"{settings.clients}")
    evaluated = _Evaluated(
        _measure(program, settings.clients, settings.evaluate),
        every(settings.evaluate_every),
        settings.rounds,
    )
    run = simulate(
        study.algorithm,
        task,
        measured.population(settings.clients),
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
    if real is None and measured.plan == study.plan.text:
        real = measured
    return Prediction(replace(run, history=history), real)


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


# ------------------------------------------------------------ side by side


def compared(predicted: Sequence[StepRecord], real: Sequence[StepRecord]) -> list[ComparedQuantity]:
    """Rates, staleness, bytes and the last metrics over as many steps as both have; over all without a real one."""
    steps = min(len(predicted), len(real) or len(predicted))
    one, other = predicted[:steps], real[:steps]
    return [
        ComparedQuantity("server steps", len(predicted), len(real) if real else None),
        *(
            ComparedQuantity(f"{name}, {steps:,} steps", of(one), of(other) if other else None)
            for name, of in _QUANTITIES.items()
            if steps
        ),
        *_metrics(one, other or [replace(step, metrics={}) for step in one]),
    ]


def _staleness(history: Sequence[StepRecord]) -> list[int]:
    return list(chain.from_iterable(step.staleness for step in history))


_QUANTITIES: dict[str, Callable[[Sequence[StepRecord]], float]] = {
    "seconds": lambda history: history[-1].virtual_seconds,
    "steps per minute": lambda history: 60 * len(history) / max(history[-1].virtual_seconds, 1e-9),
    "mean staleness": lambda history: statistics.fmean(_staleness(history) or [0]),
    "largest staleness": lambda history: max(_staleness(history), default=0),
    "bytes up": lambda history: sum(step.bytes_up for step in history),
    "bytes down": lambda history: sum(step.bytes_down for step in history),
}


def _metrics(predicted: Sequence[StepRecord], real: Sequence[StepRecord]) -> list[ComparedQuantity]:
    """The mean over the last fifth of the steps that were measured: a single one depends on who came last."""
    known = any(step.metrics for step in real)
    both = [
        pair
        for pair in zip(predicted, real, strict=True)
        if pair[0].metrics and (pair[1].metrics or not known)
    ]
    last = both[-max(1, len(both) // FIFTH) :]
    if not last:
        return []
    where = f"steps {last[0][0].version:,} to {last[-1][0].version:,}"
    names = [name for name in last[-1][0].metrics if not known or name in last[-1][1].metrics]
    return [
        ComparedQuantity(f"{name}, {where}", *(_mean([pair[side] for pair in last], name) for side in (0, 1)))
        for name in names
    ]


def _mean(steps: Sequence[StepRecord], name: str) -> float | None:
    found = [step.metrics[name] for step in steps if name in step.metrics]
    return statistics.fmean(found) if found else None


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"
