"""fedpace compare ALGORITHM ALGORITHM ... | FILE.toml"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedpace.cli import arguments, experiment, studies
from fedpace.cli.experiment_file import FileRow, file_text, row_of, write_file
from fedpace.cli.target import target
from fedpace.errors import require
from fedpace.untrusted import visible

if TYPE_CHECKING:
    from fedpace.study.study import Study
    from fedpace.study.trial import StudyRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "algorithms",
        metavar="ALGORITHM",
        nargs="+",
        help="names from `fedpace list`, optionally labelled (tuned=fedavg); or one experiment file",
    )
    experiment.add_options(parser)
    arguments.add_stop(parser)
    arguments.add_save_as(parser)
    parser.add_argument(
        "--target",
        type=target,
        metavar="METRIC=VALUE",
        help="report the cost of reaching this value, e.g. accuracy=0.8",
    )
    parser.add_argument(
        "--baseline", metavar="ALGORITHM", help="baseline for the differences (default: the first)"
    )
    experiment.add_seeds(parser, "algorithm")
    out = arguments.add_study_options(
        parser, plot="draw the metric over steps, time and traffic", csv="write one line per run"
    )
    out.add_argument("--report", metavar="FILE", help="write a web page (.html)")


def command(args: argparse.Namespace) -> int:
    """Run several algorithms on the same task and devices, side by side.

    With --target: server steps, virtual seconds, bytes and real seconds until it is reached. With several seeds:
    means with 95 % intervals, and differences from the first algorithm (or --baseline) with their p-values.
    `--set buffer=5` applies to every algorithm that has such a parameter, `--set fedbuff.buffer=5` to that one.
    `tuned=fedavg` is a row of its own: `--set tuned.server_lr=2`. `fedpace compare FILE.toml` reads all from a file.
    Runs already in the run store are reused.
    """
    studies.require_writable(args, "csv", "latex", "markdown", "report")
    study = _study(experiment.sized(args))
    studies.show_tables(study.tables(real_time=True))
    studies.write(study, args, "latex", "markdown", "csv", "report")
    return 0


def _study(args: argparse.Namespace) -> Study:
    from fedpace.study.compare import compare

    rows = _rows(args.algorithms)
    settings, made = experiment.settings(rows, args), experiment.make_algorithms(rows, args)
    if args.save_as:
        own = [FileRow(row, name, settings[row]) for row, name in rows.items()]
        write_file(args.save_as, file_text("compare", own, (), args), args)
    return compare(
        made,
        **studies.experiments(args),
        target=args.target,
        baseline=args.baseline,
        workers=args.workers,
        stop=dict(args.stop) or None,
        words=lambda row, seed: arguments.words(rows[row], args, seed, settings[row].items()),
        told=lambda row, found: _tell(row, found, quiet=args.quiet),
    )


def _rows(words: Sequence[str]) -> dict[str, str]:
    """Algorithms by row; a row is named once."""
    pairs = [row_of(word) for word in words]
    rows = dict(pairs)
    require(len(rows) == len(pairs), "row names", [row for row, _ in pairs], "distinct, as in tuned=fedavg")
    return rows


def _tell(row: str, found: StudyRun, *, quiet: bool) -> None:
    """A line for each run as it ends; one that failed is always told of."""
    label, name = f"{row}, seed {found.run.seed}", found.run.summary.get("name")
    if not found.completed:
        print(visible(f"fedpace compare: {label}: {found.note}"), file=sys.stderr)
    elif not quiet:
        print(f"{label}: {f'saved as {name}' if name else found.state}", file=sys.stderr)
