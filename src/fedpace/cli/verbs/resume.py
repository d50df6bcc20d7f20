"""fedpace resume NAME"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedpace.cli import arguments, book, execution, monitoring, output
from fedpace.cli.parser import processes
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.record import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name from `fedpace runs list`")
    parser.add_argument(
        "--previous",
        action="store_true",
        help="resume from the checkpoint before the last, if the last is damaged",
    )
    arguments.add_checkpoint_option(parser)
    parser.add_argument(
        "--workers", type=processes, metavar="N", help="worker processes (default: as before)"
    )
    monitoring.add_track_option(parser)
    output.add_options(parser)


def command(args: argparse.Namespace) -> int:
    """Resume a run from its last checkpoint.

    The result is bit-identical to that of a run never interrupted. A run that was killed before its first
    checkpoint starts over; one that is finished shows its result again.
    """
    from fedpace.record.store import artifacts
    from fedpace.record.store.store import Store

    output.require_writable(args)
    execution.check_options(args)
    store = Store()
    entry = store[args.name]
    if not entry.arguments:
        raise ConfigError(
            f"{args.name} was started by a Python program; call it again with the same checkpoint folder"
        )
    what = execution.one_experiment(arguments.parse(entry.arguments, args.workers))
    if entry.status in book.OVER:
        return output.finish_with(
            lambda: artifacts.load(store, entry, what.algorithm), what.task, args, "resume"
        )
    watch = monitoring.requested(args)

    def work() -> Run:
        return execution.carry_on(
            what, store, entry, watch, every=args.checkpoint_every, previous=args.previous
        )

    return output.finish_with(work, what.task, args, "resume")
