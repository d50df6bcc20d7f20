"""fedpace compare ALGORITHM ALGORITHM ..."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fedpace.cli import arguments, experiment, studies
from fedpace.cli.population import population
from fedpace.cli.target import target
from fedpace.untrusted import visible

if TYPE_CHECKING:
    from fedpace.study.study import Study
    from fedpace.study.trial import StudyRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithms", metavar="ALGORITHM", nargs="+", help="names from `fedpace list`")
    experiment.add_options(parser)
    parser.add_argument(
        "--target", type=target, metavar="METRIC=VALUE", help="show the cost of reaching it: accuracy=0.8"
    )
    parser.add_argument(
        "--baseline", metavar="ALGORITHM", help="take differences from it (default: the first)"
    )
    experiment.add_seeds(parser, "algorithm")
    arguments.add_store_options(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--plot", metavar="FILE", help="draw the metric over steps, time and traffic")
    out.add_argument("--csv", metavar="FILE", help="write one line per run")
    arguments.add_table_options(out)
    out.add_argument("--report", metavar="FILE", help="write a web page (.html)")
    out.add_argument("--quiet", action="store_true", help="print the table only")


def command(args: argparse.Namespace) -> int:
    """Run several algorithms on the same task and devices, side by side.

    With --target: the server steps, virtual seconds, bytes and real seconds each needs to reach it. With several seeds:
    means with 95 % intervals, and differences from the first algorithm (or --baseline) with their p-values.
    `--set buffer=5` applies to every algorithm that has such a parameter, `--set fedbuff.buffer=5` to that one.
    Runs already in the run store are reused.
    """
    studies.require_writable(args, "csv", "latex", "markdown", "report")
    study = _study(args)
    studies.show_tables(study.tables(real_time=True))
    studies.write(study, args, "latex", "markdown", "csv", "report")
    return 0


def _study(args: argparse.Namespace) -> Study:
    from fedpace.study.compare import compare

    settings = experiment.settings(args.algorithms, args)
    return compare(
        experiment.make_algorithms(args.algorithms, args),
        lambda seed: experiment.load_task(args, seed),
        population(args.population),
        rounds=args.rounds,
        seeds=range(args.seed, args.seed + args.seeds),
        target=args.target,
        baseline=args.baseline,
        workers=args.workers,
        store=studies.store_of(args),
        evaluate_every=args.evaluate_every,
        compute=args.compute,
        words=lambda row, seed: arguments.words(row, args, seed, settings[row].items()),
        told=lambda row, found: _tell(row, found, quiet=args.quiet),
    )


def _tell(row: str, found: StudyRun, *, quiet: bool) -> None:
    """A line for each run as it ends; one that failed is always told of."""
    label, name = f"{row}, seed {found.run.seed}", found.run.summary.get("name")
    if not found.completed:
        print(visible(f"fedpace compare: {label}: {found.note}"), file=sys.stderr)
    elif not quiet:
        print(f"{label}: {f'saved as {name}' if name else found.state}", file=sys.stderr)
