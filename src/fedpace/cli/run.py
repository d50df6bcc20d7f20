"""fedpace run ALGORITHM"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fedpace.cli import experiment, show
from fedpace.cli.population import population
from fedpace.cli.remarks import remarks
from fedpace.errors import DivergedError, FedpaceError, InterruptedRun, StalledError

if TYPE_CHECKING:
    from fedpace.compute import Task
    from fedpace.record import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithm", metavar="ALGORITHM", help="a name from `fedpace list`")
    experiment.add_options(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--json", metavar="FILE", help="write result and history")
    out.add_argument("--plot", metavar="FILE", help="draw accuracy and loss (.png, .svg, .pdf)")
    out.add_argument("--timeline", metavar="FILE", help="write who did what when (.csv, .json)")
    out.add_argument("--save", metavar="FOLDER", help="write result, history and model")
    out.add_argument("--quiet", action="store_true", help="say nothing unless something is wrong")


def command(args: argparse.Namespace) -> int:
    """Simulate one algorithm and show what came out.

    Every client works at its own pace under a virtual clock; the same seed gives the same bits.
    """
    _require_writable(args)
    [algorithm] = experiment.make_algorithms([args.algorithm], args).values()
    devices = population(args.population)
    task = experiment.load_task(args, args.seed)

    from fedpace import simulate

    try:
        run = simulate(
            algorithm,
            task,
            devices,
            seed=args.seed,
            **experiment.execution(args),
            traces=args.timeline is not None,
            progress=not args.quiet,
        )
    except (DivergedError, StalledError, InterruptedRun) as error:
        _finish(error.run, task, args)
        return _ended_early(error)
    _finish(run, task, args)
    return 0


def _require_writable(args: argparse.Namespace) -> None:
    """Find out before the run, not after it."""
    from fedpace.record import files, plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    for option in ("json", "timeline"):
        if path := getattr(args, option):
            files.require_writable(path, f"--{option}")
    if args.save:
        files.require_folder(args.save, "--save")


def _finish(run: Run, task: Task, args: argparse.Namespace) -> None:
    """Write what was asked for, then show the result."""
    from fedpace.record import files, timeline

    if args.json:
        files.write(args.json, run.to_json().encode())
    if args.timeline:
        timeline.write(run.timeline(), args.timeline)
    if args.save:
        run.save(args.save)
    if args.plot:
        run.plot(args.plot)
    if not args.quiet:
        show.result(run)
        for remark in remarks(run, task):
            print(f"note: {remark}")


def _ended_early(error: FedpaceError | InterruptedRun) -> int:
    print(f"fedpace run: {error}", file=sys.stderr)
    return 3 if isinstance(error, DivergedError) else 130 if isinstance(error, InterruptedRun) else 2
