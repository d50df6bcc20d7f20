"""What `run` and `resume` write and show: files, table, notes, and how a run that ended early can be resumed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedpace.cli import show
from fedpace.cli.notes import notes
from fedpace.cli.wrapping import filled
from fedpace.errors import DivergedError, FedpaceError, InterruptedRun, StalledError, StorageError
from fedpace.logs import LOG

if TYPE_CHECKING:
    from fedpace.compute import Task
    from fedpace.record import Run


def add_options(parser: argparse.ArgumentParser) -> None:
    out = add_result_options(parser)
    out.add_argument("--timeline", metavar="FILE", help="write the client timeline (.csv, .json)")
    out.add_argument("--save", metavar="FOLDER", help="write result, history and model")


def add_result_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Those of every verb that ends with a run."""
    out = parser.add_argument_group("output")
    out.add_argument("--json", metavar="FILE", help="write result and history")
    out.add_argument("--plot", metavar="FILE", help="draw accuracy and loss (.png, .svg, .pdf)")
    out.add_argument("--quiet", action="store_true", help="print errors and warnings only")
    return out


def require_writable(args: argparse.Namespace) -> None:
    """Refuse unwritable paths before the run, not after it."""
    from fedpace.disk import files
    from fedpace.record.report import plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    for option in ("json", "timeline"):
        if path := getattr(args, option, None):
            files.require_writable(path, f"--{option}")
    if getattr(args, "save", None):
        files.require_folder(args.save, "--save")


def finish_with(work: Callable[[], Run], task: Task, args: argparse.Namespace, verb: str) -> int:
    """Do the work, then write and show the run, or the partial run if it ended early."""
    from fedpace.interruption import interruptible

    with interruptible():
        try:
            run = work()
        except (DivergedError, StalledError, StorageError, InterruptedRun) as error:
            if error.run is not None:
                _finish(error.run, task, args)
            return _ended_early(error, verb)
        _finish(run, task, args)
    if run.stopped is not None:
        print(f"fedpace {verb}: stopped after step {len(run.history)}: {run.stopped}", file=sys.stderr)
    return 0


def _finish(run: Run, task: Task, args: argparse.Namespace) -> None:
    """Write the requested files, then show the result."""
    from fedpace.disk import files
    from fedpace.record.run import timeline

    if args.json:
        files.write(args.json, run.to_json(named=True).encode())
    if args.timeline:
        timeline.write(run.timeline(), args.timeline)
    if args.save:
        run.save(args.save)
    if args.plot:
        run.plot(args.plot)
    if not args.quiet:
        show.result(run)
        for note in notes(run, task):
            tell(note)


def tell(note: str) -> None:
    """A note on the screen, wrapped where it is one, and in the log."""
    LOG.warning("%s", note)
    line = f"note: {note}"
    print(filled(line) if sys.stdout.isatty() else line)


def _ended_early(error: FedpaceError | InterruptedRun, verb: str) -> int:
    print(f"fedpace {verb}: {error}{_how_to_continue(error)}", file=sys.stderr)
    if isinstance(error, InterruptedRun):
        return 128 + error.signal
    return 3 if isinstance(error, DivergedError) else 2


def _how_to_continue(error: FedpaceError | InterruptedRun) -> str:
    if not isinstance(error, InterruptedRun) or "name" not in error.run.summary:
        return ""
    return f" after step {len(error.run.history)}; to continue: fedpace resume {error.run.summary['name']}"
