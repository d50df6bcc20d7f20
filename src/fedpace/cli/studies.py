"""What `compare` and `sweep` share: where runs are saved, tables on the screen, files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedpace.cli import execution, experiment, show
from fedpace.cli.population import population
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.study.study import Study
    from fedpace.study.table import TextTable


def store_of(args: argparse.Namespace) -> str | bool | None:
    """What `fedpace.compare` is told about the store: a name, True for free names, or None."""
    if args.no_store and args.name is not None:
        raise ConfigError(f"--name must go with runs that are saved, without --no-store; got {args.name!r}")
    if execution.open_store(args, needed=args.name is not None) is None:
        return None
    return args.name or True


def experiments(args: argparse.Namespace) -> dict[str, Any]:
    """The options that `fedpace.compare` and `fedpace.sweep` both take."""
    return {
        "task": lambda seed: experiment.load_task(args, seed),
        "population": population(args.population),
        "seeds": range(args.seed, args.seed + args.seeds),
        "store": store_of(args),
        **{name: getattr(args, name) for name in ("rounds", "evaluate_every", "compute")},
    }


def require_writable(args: argparse.Namespace, *options: str) -> None:
    """Refuse unwritable paths before the runs, not after them."""
    from fedpace.disk import files
    from fedpace.record.report import plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    for option in options:
        if path := getattr(args, option):
            files.require_writable(path, f"--{option}")


def show_tables(tables: Sequence[TextTable]) -> None:
    for number, table in enumerate(tables):
        if number:
            print()
        show.table(table.header, table.rows, align=table.align, caption=table.caption)


def write(study: Study, args: argparse.Namespace, *options: str) -> None:
    """The files that were asked for."""
    writers: dict[str, Callable[[str], Any]] = {
        "latex": study.to_latex,
        "markdown": study.to_markdown,
        "csv": study.to_csv,
        "report": study.report,
        "plot": study.plot,
    }
    for option in (*options, "plot"):
        if path := getattr(args, option):
            writers[option](path)
