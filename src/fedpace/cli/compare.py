"""fedpace compare ALGORITHM ALGORITHM ..."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedpace.cli import experiment, show
from fedpace.cli.parser import count
from fedpace.cli.population import population
from fedpace.errors import DivergedError, StalledError, unknown

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute.protocol import Task
    from fedpace.record import Run
    from fedpace.sim import Population

Target = tuple[str, float]
HEADER = ("", "accuracy", "loss", "steps", "virtual time", "up", "down")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithms", metavar="ALGORITHM", nargs="+", help="names from `fedpace list`")
    experiment.add_options(parser)
    parser.add_argument(
        "--target", type=target, metavar="METRIC=VALUE", help="show what it takes to get there: accuracy=0.8"
    )
    parser.add_argument(
        "--seeds",
        type=count,
        default=1,
        metavar="K",
        help="runs of each, from --seed on (default: %(default)s)",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--plot", metavar="FILE", help="one picture of all, the first seed of each")
    out.add_argument("--quiet", action="store_true", help="no progress, only the table")


def command(args: argparse.Namespace) -> int:
    """Run several algorithms on the same task and devices, side by side.

    With --target: the steps, virtual seconds and bytes that each needs to get there. `--set buffer=5` goes to
    every algorithm that has such a parameter, `--set fedbuff.buffer=5` to that one.
    """
    from fedpace.record import plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    algorithms = experiment.make_algorithms(args.algorithms, args)
    runs = _all_runs(algorithms, population(args.population), args)
    cost = "" if args.target is None else "steps, time and traffic until {} {:g}".format(*args.target)
    rows = [(name, *_row(own, args.target)) for name, own in runs.items()]
    show.table(HEADER, rows, align="lrrrrrr", caption=cost)
    if args.plot:
        title = f"{args.task}, {args.clients} clients"
        plot.save(plot.curves({name: own[0] for name, own in runs.items()}, title), args.plot)
    return 0


def target(text: str) -> Target:
    """`accuracy=0.8`, as argparse's `type`."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be METRIC=VALUE such as accuracy=0.8; got {text!r}") from None


def reached(run: Run, goal: Target) -> Run | None:
    """The run up to its first step at the goal; accuracy is to rise, every other metric to fall."""
    from dataclasses import replace

    metric, value = goal
    rises = metric.startswith("accuracy")
    for at, record in enumerate(run.history, start=1):
        found = record.metrics.get(metric)
        if found is not None and (found >= value if rises else found <= value):
            return replace(run, history=run.history[:at])
    return None


def _all_runs(
    algorithms: Mapping[str, Algorithm], devices: Population | None, args: argparse.Namespace
) -> dict[str, list[Run]]:
    """One run per algorithm and seed, each the same as `fedpace run` would make it."""
    runs: dict[str, list[Run]] = {name: [] for name in algorithms}
    for seed in range(args.seed, args.seed + args.seeds):
        task = experiment.load_task(args, seed)
        if args.target is not None:
            _require_metric(task, seed, args.target[0])
        for name, algorithm in algorithms.items():
            runs[name].append(_one_run(algorithm, task, devices, seed, args))
    return runs


def _require_metric(task: Task, seed: int, metric: str) -> None:
    known = task.evaluate(task.initial(seed))
    if metric not in known:
        raise unknown("metric of --target", metric, known)


def _one_run(
    algorithm: Algorithm, task: Task, devices: Population | None, seed: int, args: argparse.Namespace
) -> Run:
    """A run that ended early counts as far as it came."""
    from fedpace import simulate

    how = experiment.execution(args)
    try:
        return simulate(algorithm, task, devices, seed=seed, traces=False, progress=not args.quiet, **how)
    except (DivergedError, StalledError) as error:
        print(f"fedpace compare: {algorithm.name}, seed {seed}: {error}", file=sys.stderr)
        run: Run = error.run
        return run


def _row(runs: Sequence[Run], goal: Target | None) -> Sequence[str]:
    """Means over seeds, with the standard deviation where there is one."""
    from fedpace.record.units import format_bytes, format_seconds

    learned = [
        _spread([run.metrics[name] for run in runs if name in run.metrics]) for name in ("accuracy", "loss")
    ]
    there = runs if goal is None else [found for run in runs if (found := reached(run, goal))]
    if not there:
        return (*learned, "not reached", "", "", "")
    share = "" if len(there) == len(runs) else f" ({len(there)} of {len(runs)})"
    return (
        *learned,
        f"{statistics.mean(len(run.history) for run in there):.4g}{share}",
        format_seconds(statistics.mean(run.virtual_seconds for run in there)),
        format_bytes(statistics.mean(run.bytes_up for run in there)),
        format_bytes(statistics.mean(run.bytes_down for run in there)),
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"
