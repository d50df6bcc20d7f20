"""fedpace sweep ALGORITHM --grid NAME=VALUES ..."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from fedpace.cli import arguments, experiment, studies
from fedpace.cli.parser import LARGEST, amount, number, processes, repeats
from fedpace.cli.privacy import private_function
from fedpace.cli.settings import parse_value
from fedpace.errors import ConfigError
from fedpace.study import STOP_ABOVE
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.study.sweep import Grid, Point, Settings
    from fedpace.study.sweeping import SweepStudy

SHOWN = 10  # rows of the table
MOST_VALUES = 10_000  # of one parameter


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
    parser.set_defaults(workers=1, stop=[])
    how = parser.add_argument_group("sweep")
    how.add_argument("--metric", metavar="NAME", help="metric to rank by (default: accuracy, or loss)")
    experiment.add_seeds(how, "setting")
    how.add_argument("--processes", type=processes, metavar="N", help="parallel runs (default: one per core)")
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
        help="all settings, or those that Optuna samples (default: %(default)s)",
    )
    how.add_argument(
        "--trials",
        type=repeats,
        default=30,
        metavar="N",
        help="number of settings that Optuna tries (default: %(default)s)",
    )
    arguments.add_study_options(parser, plot="draw the metric over the grid", csv="write every point")


def command(args: argparse.Namespace) -> int:
    """Run a grid of settings and rank them.

    Runs are parallel and saved: the same command resumes an interrupted sweep. A run that diverges is stopped
    early and counts as failed. With `--compute ray` runs go to a Ray cluster, one core each.
    """
    studies.require_writable(args, "csv", "latex", "markdown")
    study = _study(experiment.sized(args))
    whole = study.cells(real_time=True)
    more = [f"the best {SHOWN} of {len(whole.rows)}"] if len(whole.rows) > SHOWN else []
    said = "\n".join([*more, *filter(None, [whole.caption]), *map(str, study.privacy)])
    studies.show_tables([replace(whole, rows=whole.rows[:SHOWN], caption=said)])
    studies.write(study, args, "latex", "markdown", "csv")
    return 0


def _study(args: argparse.Namespace) -> SweepStudy:
    from fedpace.study.sweeping import sweep

    fixed = experiment.settings([args.algorithm], args)[args.algorithm]
    grid: dict[str, list[Any]] = dict(args.grid)
    _require_apart(args, grid, fixed)

    def words(settings: Settings, seed: int) -> Sequence[str]:
        alone = {"compute": "auto", "workers": 1} if args.compute == "ray" else {}
        each = argparse.Namespace(**{**vars(args), **alone})
        return arguments.words(args.algorithm, each, seed, [*fixed.items(), *settings.items()])

    return sweep(
        private_function(experiment.algorithm_function(args.algorithm, args), args),
        **studies.experiments(args),
        grid=grid,
        fixed=fixed,
        search="tpe" if args.sampler == "optuna" else "grid",
        trials=args.trials,
        metric=args.metric,
        workers=args.processes,
        stop_above=args.stop_above,
        words=words,
        told=None if args.quiet else _say,
    )


def _require_apart(args: argparse.Namespace, grid: Grid, fixed: Settings) -> None:
    for name, values in grid.items():
        if name in fixed:
            raise ConfigError(f"{name} must be in --grid or in --set; got both")
        tried = argparse.Namespace(**{**vars(args), "set": [(name, values[0])]})
        experiment.settings([args.algorithm], tried)  # refuses parameters that it does not have


def _say(point: Point, done: int, trials: int) -> None:
    from fedpace.study.sweeping import outcome

    what = " ".join(f"{name}={value}" for name, value in point.settings.items())
    print(f"  {done:{len(str(trials))}}/{trials}  {what}  {outcome(point)}", file=sys.stderr)


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
