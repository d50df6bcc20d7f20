"""fedpace resume NAME"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedpace.cli import book, execution
from fedpace.cli.parser import Parser, processes
from fedpace.cli.verbs import run
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.record import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name from `fedpace runs list`")
    parser.add_argument(
        "--previous",
        action="store_true",
        help="go on from the checkpoint before the last, if that is damaged",
    )
    parser.add_argument(
        "--checkpoint-every",
        default=execution.EVERY,
        metavar="N",
        help="as for `fedpace run` (default: %(default)s)",
    )
    parser.add_argument("--workers", type=processes, metavar="N", help="processes (default: as before)")
    execution.add_track_option(parser)
    run.add_output(parser)


def command(args: argparse.Namespace) -> int:
    """Go on with a run from its last checkpoint.

    It ends with the same bits as if it had never been interrupted. A run that was killed before its first
    checkpoint starts over; one that is finished shows its result again.
    """
    from fedpace.record.store import artifacts
    from fedpace.record.store.store import Store

    run.require_writable(args)
    execution.check_options(args)
    store = Store()
    entry = store[args.name]
    if not entry.arguments:
        raise ConfigError(
            f"{args.name} was started by a Python program; call it again with the same checkpoint folder"
        )
    what = execution.one_experiment(as_it_was(entry.arguments, args.workers))
    if entry.status in book.OVER:
        return run.finish_with(
            lambda: artifacts.load(store, entry, what.algorithm), what.task, args, "resume"
        )

    def work() -> Run:
        return execution.carry_on(
            what,
            store,
            entry,
            every=args.checkpoint_every,
            previous=args.previous,
            traces=args.timeline is not None or execution.few_sessions(what),
            progress=not args.quiet,
            track=args.track,
        )

    return run.finish_with(work, what.task, args, "resume")


def as_it_was(words: Sequence[str], workers: int | None = None) -> argparse.Namespace:
    """The arguments of the `fedpace run` that began it."""
    parser = Parser(prog="fedpace run")
    run.add_arguments(parser)
    known: argparse.Namespace = parser.parse_args(words)
    if workers is not None:
        known.workers = workers
    return known
