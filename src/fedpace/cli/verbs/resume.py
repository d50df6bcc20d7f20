"""fedpace resume NAME"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.cli import arguments, execution, experiment, monitoring, output
from fedpace.cli.parser import count, processes
from fedpace.errors import require
from fedpace.plug_ins import PLACE

if TYPE_CHECKING:
    from fedpace.study.saved import SavedRun


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
    parser.add_argument(
        "--rounds", type=count, metavar="N", help="new number of server steps, larger than before"
    )
    experiment.add_modules(parser)
    monitoring.add_track_option(parser)
    output.add_options(parser)


def command(args: argparse.Namespace) -> int:
    """Resume a run from its last checkpoint.

    The result is bit-identical to that of a run never interrupted. A run that was killed before its first
    checkpoint starts over; a finished run shows its result again. --rounds extends a run: it is run
    again from the start, and equals a run of that length.
    """
    from fedpace.record.store import artifacts
    from fedpace.record.store.booked import StoreAs
    from fedpace.study.saved import OVER, runs

    output.require_writable(args)
    execution.check_options(args)
    saved = runs().open(args.name)
    what = _experiment(saved, args)
    if args.rounds is not None and args.rounds != saved.entry.rounds:
        saved = saved.extended(args.rounds, what.algorithm, what.task, what.population, what.words)
        what = replace(what, how={**what.how, "rounds": args.rounds})
    if saved.entry.status in OVER:
        return output.finish_with(
            lambda: artifacts.load(saved.store, saved.entry, what.algorithm), what.task, args, "resume"
        )
    watch = monitoring.requested(args)
    store = StoreAs(args.name, every=args.checkpoint_every, previous=args.previous, resumed=True)
    return output.finish_with(lambda: execution.simulated(what, watch, store), what.task, args, "resume")


def _experiment(saved: SavedRun, args: argparse.Namespace) -> execution.Experiment:
    """As `fedpace run` was told, or, for a run of a Python program, rebuilt from its configuration."""
    words = list(saved.entry.arguments)
    if words:
        at = words.index("--rounds") if "--rounds" in words else None
        if args.rounds is not None and at is not None:
            words[at + 1] = str(args.rounds)
        made = execution.one_experiment(_told(words, args))
        return replace(made, how={**made.how, "rounds": saved.entry.rounds})
    parent = saved.entry.about.get("parent")
    require(
        not parent,
        "a run to resume",
        saved.name,
        "one from its task's model; this one needs `initial` in Python",
    )
    parts = saved.parts()
    how = {
        "rounds": saved.entry.rounds,
        "workers": args.workers or 1,
        "evaluate_every": saved.evaluate_every,
        "stop": saved.stop,
        **saved.client_measurement,
        **saved.engine,
    }
    return execution.Experiment(**parts, seed=saved.entry.seed, how=how, words=())


def _told(words: Sequence[str], args: argparse.Namespace) -> argparse.Namespace:
    """The words of the store; where plug-ins are comes from whoever resumes the run, not from the store."""
    told = arguments.parse(words, args.workers)
    told.modules = args.modules
    own = PLACE.fullmatch(told.algorithm) and told.set
    require(
        not own,
        "a run to resume",
        told.algorithm,
        "without parameters of an own function; run its file again",
    )
    return told
