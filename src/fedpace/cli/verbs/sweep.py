"""fedpace sweep ALGORITHM --grid NAME=VALUES ..."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from fedpace.cli import arguments, execution, experiment, show
from fedpace.cli.parser import LARGEST, amount, number, processes, repeats
from fedpace.cli.settings import parse_value
from fedpace.cli.trial import OnRay, OnThisMachine, Trial, TrialResult, known
from fedpace.errors import ConfigError, require, unknown
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.study.sweep import Grid, Point, Sampler, Settings

SHOWN = 10  # rows of the table
STOP_ABOVE = 100.0
MOST_VALUES = 10_000  # of one parameter
MOST_POINTS = 100_000  # of a grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    experiment.add_algorithm(parser)
    parser.add_argument(
        "--grid",
        nargs="+",
        action="extend",
        required=True,
        type=axis,
        metavar="NAME=VALUES",
        help="parameter values to try: beta=0.7,0.9 or server_lr=0.5:5.0:0.5 (from, to, step)",
    )
    experiment.add_options(parser)
    parser.set_defaults(workers=1)
    how = parser.add_argument_group("sweep")
    how.add_argument("--metric", metavar="NAME", help="metric to rank by (default: accuracy, or loss)")
    experiment.add_seeds(how, "setting")
    how.add_argument(
        "--processes", type=processes, metavar="N", help="runs at a time (default: one per core)"
    )
    how.add_argument(
        "--stop-above",
        type=amount,
        default=STOP_ABOVE,
        metavar="X",
        help="stop a run whose loss exceeds X times its minimum (default: %(default)g)",
    )
    how.add_argument(
        "--sampler",
        choices=("grid", "optuna"),
        default="grid",
        help="all settings, or Optuna's choice (default: %(default)s)",
    )
    how.add_argument(
        "--trials",
        type=repeats,
        default=30,
        metavar="N",
        help="settings optuna may try (default: %(default)s)",
    )
    arguments.add_store_options(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--plot", metavar="FILE", help="draw the metric over the grid")
    out.add_argument("--csv", metavar="FILE", help="write every point")
    out.add_argument("--quiet", action="store_true", help="print the table only")


def command(args: argparse.Namespace) -> int:
    """Run a grid of settings and rank them.

    Runs are parallel and saved: the same command resumes an interrupted sweep. A run that diverges is stopped
    early and counts as failed. With `--compute ray` runs go to a Ray cluster, one core each.
    """
    from fedpace.disk.files import require_writable
    from fedpace.record.report import plot
    from fedpace.study import sweep

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    if args.csv:
        require_writable(args.csv, "--csv")
    grid = _grid(args)
    _try_all(args, grid)
    metric = _metric(args)
    points = _points(args, _sampler(args, grid, metric), metric)
    ranked = sweep.best_first(points, metric)
    _table(ranked, list(grid), metric)
    if args.csv:
        _write_csv(ranked, metric, args.csv)
    if args.plot:
        title = f"{args.algorithm} on {args.task}, {args.clients} clients"
        plot.save(sweep.picture(points, grid, metric, title), args.plot)
    return 0


# ------------------------------------------------------------ the grid


def axis(text: str) -> tuple[str, list[Any]]:
    """`beta=0.7,0.9` -> ("beta", [0.7, 0.9]), as argparse's `type`."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUES such as beta=0.7,0.9; got {text!r}")
    try:
        return name, list(_range(values) if values.count(":") == 2 else map(parse_value, _pieces(values)))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def _range(text: str) -> Iterator[float | int]:
    """From, to and step; the end belongs to it. In decimal, so that 0.1:0.3:0.1 has three values."""
    words = text.split(":")
    try:
        first, last, step = map(Decimal, words)
        for word in words:
            number(word)
    except (InvalidOperation, argparse.ArgumentTypeError):
        allowed = f"FROM:TO:STEP in numbers of at most {LARGEST:g}"
        raise ConfigError(f"values must be {allowed}; got {brief(text)}") from None
    if float(step) <= 0 or last < first:
        raise ConfigError(f"values must be FROM:TO:STEP with FROM <= TO and STEP > 0; got {brief(text)}")
    if (last - first) / step >= MOST_VALUES:
        raise ConfigError(f"values must be at most {MOST_VALUES:,}; got more from {brief(text)}")
    whole = not any(mark in text for mark in ".eE")
    for at in range(int((last - first) / step) + 1):
        value = first + at * step
        yield int(value) if whole else float(value)


def _pieces(text: str) -> list[str]:
    """Between the commas that are not inside brackets."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return pieces


def _grid(args: argparse.Namespace) -> Grid:
    grid: dict[str, list[Any]] = dict(args.grid)
    chosen = experiment.settings([args.algorithm], args)[args.algorithm]
    for name in grid:
        if name in chosen:
            raise ConfigError(f"{name} must be in --grid or in --set; got both")
    points = math.prod(map(len, grid.values()))
    require(points <= MOST_POINTS, "--grid", points, f"at most {MOST_POINTS:,} combinations")
    return grid


def _try_all(args: argparse.Namespace, grid: Grid) -> None:
    """Build the algorithm with every value once, so that an invalid value is refused before anything runs."""
    first = {name: values[0] for name, values in grid.items()}
    for name, value in ((name, value) for name, values in grid.items() for value in values):
        chosen = [*args.set, *{**first, name: value}.items()]
        experiment.make_algorithms([args.algorithm], argparse.Namespace(**{**vars(args), "set": chosen}))


def _metric(args: argparse.Namespace) -> str:
    task = experiment.load_task(args, args.seed)
    known = task.evaluate(task.initial(args.seed))
    metric: str = args.metric or ("accuracy" if "accuracy" in known else "loss")
    if metric not in known:
        raise unknown("--metric", metric, known)
    return metric


def _sampler(args: argparse.Namespace, grid: Grid, metric: str) -> Sampler:
    from fedpace.study.sweep import Everything

    if args.sampler == "grid":
        return Everything(grid)
    from fedpace.study.search import Search

    return Search(grid, metric, args.trials, args.seed)


# ------------------------------------------------------------ the runs


def _points(args: argparse.Namespace, sampler: Sampler, metric: str) -> list[Point]:
    """All points, in the order they were asked for; at any time as many runs as there are processes."""
    from fedpace.study.sweep import Point

    points: list[Point] = []
    running: dict[Future[list[TrialResult]], Point] = {}
    store = execution.open_store(args)

    def finish(point: Point, answers: Sequence[TrialResult]) -> None:
        _fill(point, answers)
        sampler.tell(point.settings, point.mean)
        if not args.quiet:
            _say(point, len(points) - len(running), sampler.trials, metric)

    with OnRay(args.processes) if args.compute == "ray" else OnThisMachine(args.processes) as pool:
        while True:
            while len(running) < pool.processes and (settings := sampler.ask()) is not None:
                points.append(Point(settings))
                jobs = _jobs(args, settings, metric, stored=store is not None)
                if answers := known(jobs, store):
                    finish(points[-1], answers)
                else:
                    running[pool.submit(jobs)] = points[-1]
            if not running:
                return points
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                finish(running.pop(done), done.result())


def _jobs(args: argparse.Namespace, settings: Settings, metric: str, *, stored: bool) -> list[Trial]:
    chosen = [*experiment.settings([args.algorithm], args)[args.algorithm].items(), *settings.items()]
    alone = {"compute": "auto", "workers": 1} if args.compute == "ray" else {}
    each = argparse.Namespace(**{**vars(args), **alone})
    return [
        Trial(arguments.words(args.algorithm, each, seed, chosen), metric, args.stop_above, stored)
        for seed in range(args.seed, args.seed + args.seeds)
    ]


def _fill(point: Point, answers: Sequence[TrialResult]) -> None:
    point.values += [answer.value for answer in answers if not math.isnan(answer.value)]
    point.states += [answer.state for answer in answers]
    point.real_seconds += sum(answer.real_seconds for answer in answers)


# ------------------------------------------------------------ the results


def _say(point: Point, done: int, trials: int, metric: str) -> None:
    what = " ".join(f"{name}={value}" for name, value in point.settings.items())
    outcome = point.states[-1] if math.isnan(point.mean) else f"{metric} {point.mean:.4f}"
    print(f"  {done:{len(str(trials))}}/{trials}  {what}  {outcome}", file=sys.stderr)


def _table(ranked: Sequence[Point], names: Sequence[str], metric: str) -> None:
    from fedpace.record.run.units import format_seconds

    rows = [
        (*(str(point.settings[name]) for name in names), _outcome(point), format_seconds(point.real_seconds))
        for point in ranked[:SHOWN]
    ]
    more = f"the best {SHOWN} of {len(ranked)}" if len(ranked) > SHOWN else ""
    show.table((*names, metric, "real time"), rows, align="r" * (len(names) + 2), caption=more)


def _outcome(point: Point) -> str:
    if math.isnan(point.mean):
        return point.states[-1]
    return f"{point.mean:.4f}" + (f" ± {point.spread:.4f}" if point.spread is not None else "")


def _write_csv(ranked: Sequence[Point], metric: str, path: str) -> None:
    import csv
    import io

    from fedpace.disk import files

    text = io.StringIO()
    names = list(ranked[0].settings)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, metric, "spread", "state", "real_seconds"])
    for point in ranked:
        values = [
            "" if math.isnan(point.mean) else point.mean,
            point.spread,
            point.states[-1],
            point.real_seconds,
        ]
        writer.writerow([*(point.settings[name] for name in names), *values])
    files.write(path, text.getvalue().encode())
