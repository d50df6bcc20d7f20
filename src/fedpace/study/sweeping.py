"""`fedpace.sweep`: one algorithm over a grid of settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.algorithm import Algorithm
from fedpace.compute.processes import processes
from fedpace.errors import known_parameters, require, require_count, require_number, unknown
from fedpace.record.report import plot
from fedpace.record.run.evaluation import EvaluationInterval
from fedpace.record.run.metrics import main_metric
from fedpace.record.run.units import format_seconds
from fedpace.sim import Population
from fedpace.study import STOP_ABOVE
from fedpace.study.build import call
from fedpace.study.compare import folders_of, with_algorithm
from fedpace.study.study import Study, require_metric
from fedpace.study.sweep import (
    Everything,
    Grid,
    Hopeless,
    Point,
    Sampler,
    Settings,
    best_first,
    picture,
)
from fedpace.study.table import TextTable
from fedpace.study.trial import Setup, StudyRun, TaskLike, TaskOfSeed, seeds_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

MOST_POINTS = 100_000  # of a grid
SEARCHES = ("grid", "tpe")

PointTold = Callable[[Point, int, int], None]  # a point, how many are done, how many there will be


@dataclass(frozen=True, eq=False, repr=False)
class SweepStudy(Study):
    """A study whose rows are the points of a grid."""

    grid: Grid = field(default_factory=dict)
    points: Sequence[Point] = ()  # in the order they were asked for

    @property
    def ranked(self) -> list[Point]:
        """The best first; those of which a seed failed last."""
        return best_first(self.points, self.metric)

    @property
    def best(self) -> Settings:
        """The settings with the best mean."""
        return self.ranked[0].settings

    def cells(self, *, real_time: bool = False) -> TextTable:
        header = [*self.grid, self.metric, "seeds", *(["real time"] if real_time else [])]
        rows = [
            [
                *(str(point.settings[name]) for name in self.grid),
                outcome(point),
                str(len(point.states)),
                *([format_seconds(point.real_seconds)] if real_time else []),
            ]
            for point in self.ranked
        ]
        repeated = any(point.spread is not None for point in self.ranked)
        caption = "± standard deviation over seeds" if repeated else ""
        return TextTable(header, rows, "r" * len(header), caption)

    def to_pandas(self) -> DataFrame:
        """One line per point, the best first: its settings, mean, standard deviation, state and real seconds."""
        import pandas

        lines = [
            {
                **point.settings,
                self.metric: point.mean,
                "spread": point.spread,
                "state": point.states[-1],
                "real_seconds": point.real_seconds,
            }
            for point in self.ranked
        ]
        return pandas.DataFrame(lines)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The metric over the grid: a line, a heat map, or one map for each value of a third setting."""
        figure = picture(self.points, self.grid, self.metric, self.title)
        if path is not None:
            plot.save(figure, path)
        return figure


@known_parameters
def sweep(
    function: Callable[..., Algorithm],
    task: TaskLike,
    population: Population | None = None,
    *,
    grid: Grid,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    search: str = "grid",
    trials: int = 30,
    fixed: Settings | None = None,
    metric: str | None = None,
    workers: int | None = 1,
    store: str | bool | None = None,
    evaluate_every: int | str | EvaluationInterval = 1,
    compute: str = "auto",
    stop_above: float = STOP_ABOVE,
    words: Callable[[Settings, int], Sequence[str]] | None = None,
    told: PointTold | None = None,
) -> SweepStudy:
    """Run `function(**settings)` for the settings of a grid, and rank them by a metric.

    `grid`: values by parameter, {"beta": [0.7, 0.9]}; `fixed`: other parameters. Every value is tried when the
    algorithm is built, before anything runs.
    `search`: "grid" is every combination; "tpe" is `trials` of them, sampled near the best so far (extra `optuna`).
    `metric`: to rank by (accuracy, else loss). `stop_above`: a run whose loss exceeds so many times its minimum is
    stopped and counts as failed, and so does a point of which one seed failed.
    `task`, `seeds`, `workers` (None: one per core), `store`: as for `fedpace.compare`. `compute="ray"`: on a Ray
    cluster.

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> found = fedpace.sweep(fedpace.algorithms.fedavg, task, grid={"client_lr": [0.01, 0.1]}, rounds=20)
    >>> found.best
    {'client_lr': 0.1}
    """
    chosen, tasks, settled = seeds_of(seeds), TaskOfSeed(task), dict(fixed or {})
    first = tasks(chosen[0])
    build = _builder(function, settled, first.clients, rounds)
    _require_grid(grid, settled, build)
    require_number(stop_above, "stop_above", above=0, allowed="> 0")
    known = first.evaluate(first.initial(chosen[0]))
    ranked = require_metric(known, metric or main_metric(known), "metric")
    sampler = _sampler(search, grid, ranked, trials, chosen[0])
    ray = compute == "ray"
    setup = Setup(
        task=tasks,
        population=population,
        rounds=rounds,
        seeds=chosen,
        options={"evaluate_every": evaluate_every, "compute": "auto" if ray else compute},
        store=store,
        watch=lambda: [Hopeless(stop_above)],
        stopped_is_over=True,
    )
    job = _Job(setup, build, words)
    title = f"{getattr(function, '__name__', 'algorithm')} on {first.name}, {first.clients} clients"
    points, rows = _all_points(job, sampler, ranked, workers, ray, told)
    return SweepStudy(rows, ranked, None, "", title, grid, points)


# ------------------------------------------------------------ one point


@dataclass(frozen=True, slots=True)
class _Job:
    """What a process does with settings: a run per seed, until one fails."""

    setup: Setup
    build: Callable[[Settings], Algorithm]
    words: Callable[[Settings, int], Sequence[str]] | None

    def __call__(self, settings: Settings) -> list[StudyRun]:
        row, words = label(settings), self.words
        folder = folders_of([row], self.setup)[row]
        setup = (
            self.setup if words is None else replace(self.setup, words=lambda _, seed: words(settings, seed))
        )
        found: list[StudyRun] = []
        for seed in setup.seeds:
            found.append(setup.run(row, folder, self.build(settings), seed))
            if found[-1].state != "done":
                break
        return found


def label(settings: Settings) -> str:
    """`beta=0.9, server_lr=3`: the name of a point's row."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def outcome(point: Point) -> str:
    """Mean and standard deviation, or how it failed."""
    if math.isnan(point.mean):
        return point.states[-1]
    return f"{point.mean:.4f}" + (f" ± {point.spread:.4f}" if point.spread is not None else "")


def _builder(
    function: Callable[..., Algorithm], fixed: Settings, clients: int, rounds: int
) -> Callable[[Settings], Algorithm]:
    def build(settings: Settings) -> Algorithm:
        made = call(function, {**fixed, **settings}, clients=clients, rounds=rounds)
        made.pace.init(clients)
        return made

    return build


def _require_grid(grid: Grid, fixed: Settings, build: Callable[[Settings], Algorithm]) -> None:
    """Every value once, so that an invalid one is refused before anything runs."""
    require(
        len(grid) > 0 and all(len(values) for values in grid.values()), "grid", grid, "values by parameter"
    )
    for name in grid:
        require(name not in fixed, name, "both", "in the grid or fixed")
    points = math.prod(map(len, grid.values()))
    require(points <= MOST_POINTS, "grid", points, f"at most {MOST_POINTS:,} combinations")
    first = {name: values[0] for name, values in grid.items()}
    for name, values in grid.items():
        for value in values:
            build({**first, name: value})


def _sampler(search: str, grid: Grid, metric: str, trials: int, seed: int) -> Sampler:
    if search not in SEARCHES:
        raise unknown("search", search, SEARCHES)
    if search == "grid":
        return Everything(grid)
    from fedpace.study.search import Search

    require_count(trials, "trials")
    return Search(grid, metric, trials, seed)


# ------------------------------------------------------------ all of them


def _all_points(
    job: _Job, sampler: Sampler, metric: str, workers: int | None, ray: bool, told: PointTold | None
) -> tuple[list[Point], dict[str, list[StudyRun]]]:
    """All points, in the order they were asked for; at any time as many as there are processes."""
    points: list[Point] = []
    rows: dict[str, list[StudyRun]] = {}
    running: dict[Future[list[StudyRun]], Point] = {}

    def finish(done: Future[list[StudyRun]]) -> None:
        point = running.pop(done)
        algorithm = job.build(point.settings)
        rows[label(point.settings)] = [with_algorithm(each, algorithm) for each in done.result()]
        _fill(point, rows[label(point.settings)], metric)
        sampler.tell(point.settings, point.mean)
        if told is not None:
            told(point, len(points) - len(running), sampler.trials)

    with processes(job, workers, ray=ray, gpu=job.setup.on_gpu) as pool:
        while True:
            for settings in _asked(sampler, pool.count - len(running)):
                points.append(Point(settings))
                running[pool.submit(settings)] = points[-1]
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                finish(done)
    return points, {label(point.settings): rows[label(point.settings)] for point in points}


def _asked(sampler: Sampler, room: int) -> Iterator[Settings]:
    for _ in range(room):
        settings = sampler.ask()
        if settings is None:
            return
        yield settings


def _fill(point: Point, runs: Sequence[StudyRun], metric: str) -> None:
    done = [each.run.metrics for each in runs if each.state == "done"]
    point.values += [metrics[metric] for metrics in done if metric in metrics]
    point.states += [each.state for each in runs]
    point.real_seconds += sum(each.run.summary.get("real_seconds", 0.0) for each in runs)
