"""fedpace compare ALGORITHM ALGORITHM ..."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedpace.cli import arguments, execution, experiment, show
from fedpace.cli.monitoring import Monitoring
from fedpace.cli.parser import number
from fedpace.cli.population import population
from fedpace.errors import DivergedError, StalledError, unknown
from fedpace.untrusted import brief, visible

if TYPE_CHECKING:
    from fedpace.compute.protocol import Task
    from fedpace.record import Run
    from fedpace.record.report.compare import Target
    from fedpace.record.store.store import Store

HEADER = ("", "accuracy", "loss", "steps", "virtual time", "uploaded", "downloaded", "real time")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithms", metavar="ALGORITHM", nargs="+", help="names from `fedpace list`")
    experiment.add_options(parser)
    parser.add_argument(
        "--target", type=target, metavar="METRIC=VALUE", help="show the cost of reaching it: accuracy=0.8"
    )
    experiment.add_seeds(parser, "algorithm")
    arguments.add_store_options(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--plot", metavar="FILE", help="draw the metric over steps, time and traffic")
    out.add_argument("--quiet", action="store_true", help="print the table only")


def command(args: argparse.Namespace) -> int:
    """Run several algorithms on the same task and devices, side by side.

    With --target: the server steps, virtual seconds, bytes and real seconds each needs to reach it.
    `--set buffer=5` applies to every algorithm that has such a parameter, `--set fedbuff.buffer=5` to that one.
    Runs already in the run store are reused.
    """
    from fedpace.record.report import compare, plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    runs = _all_runs(args)
    caption = (
        "" if args.target is None else "server steps, time and traffic to reach {} {:g}".format(*args.target)
    )
    rows = [(name, *_row(own, args.target)) for name, own in runs.items()]
    show.table(HEADER, rows, align="lrrrrrrr", caption=caption)
    if args.plot:
        plot.save(compare.picture(runs, args.target, f"{args.task}, {args.clients} clients"), args.plot)
    return 0


def target(text: str) -> Target:
    """`accuracy=0.8`, as argparse's `type`."""
    name, _, value = text.partition("=")
    try:
        goal = number(value)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be METRIC=VALUE such as accuracy=0.8; got {brief(text)}"
        ) from None
    if name == "accuracy" and not 0 <= goal <= 1:
        raise argparse.ArgumentTypeError(f"accuracy must be a share in [0, 1], such as 0.9; got {value}")
    return name, goal


def _all_runs(args: argparse.Namespace) -> dict[str, list[Run]]:
    """One run per algorithm and seed, identical to that of `fedpace run`."""
    algorithms = experiment.make_algorithms(args.algorithms, args)
    settings = experiment.settings(args.algorithms, args)
    devices, how, store = population(args.population), experiment.execution(args), execution.open_store(args)
    runs: dict[str, list[Run]] = {name: [] for name in algorithms}
    for seed in range(args.seed, args.seed + args.seeds):
        task = experiment.load_task(args, seed)
        if args.target is not None:
            _require_metric(task, seed, args.target[0])
        for name, algorithm in algorithms.items():
            words = arguments.words(name, args, seed, settings[name].items())
            what = execution.Experiment(algorithm, task, devices, seed, how, words)
            runs[name].append(_one_run(what, store, quiet=args.quiet))
    return runs


def _require_metric(task: Task, seed: int, metric: str) -> None:
    known = task.evaluate(task.initial(seed))
    if metric not in known:
        raise unknown("metric of --target", metric, known)


def _one_run(what: execution.Experiment, store: Store | None, *, quiet: bool) -> Run:
    """From the store, or new; the partial run if it ended early."""
    label = f"{what.algorithm.name}, seed {what.seed}"
    try:
        run, entry = execution.obtain(what, store, Monitoring(progress=not quiet))
    except (DivergedError, StalledError) as error:
        print(f"fedpace compare: {label}: {error}", file=sys.stderr)
        return error.run  # type: ignore[no-any-return]
    if entry is not None and not quiet:
        print(f"{label}: saved as {entry.name}", file=sys.stderr)
    if entry is not None and entry.note:
        print(visible(f"fedpace compare: {label}: {entry.note}"), file=sys.stderr)
    return run


def _row(runs: Sequence[Run], goal: Target | None) -> Sequence[str]:
    """Means over seeds, with the standard deviation where there is one."""
    from fedpace.record.report import compare
    from fedpace.record.run.units import format_bytes, format_seconds

    metrics = [_spread(compare.final(runs, name)) for name in ("accuracy", "loss")]
    cost = compare.cost(runs, goal)
    if cost is None:
        return (*metrics, "not reached", "", "", "", "")
    share = "" if cost.runs == len(runs) else f" ({cost.runs} of {len(runs)})"
    return (
        *metrics,
        f"{cost.steps:.4g}{share}",
        format_seconds(cost.virtual_seconds),
        format_bytes(cost.bytes_up),
        format_bytes(cost.bytes_down),
        "" if cost.real_seconds is None else format_seconds(cost.real_seconds),
    )


def _spread(value: tuple[float, float | None] | None) -> str:
    if value is None:
        return ""
    mean, deviation = value
    return f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"
