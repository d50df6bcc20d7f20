"""How a run is watched while it is executed."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpace.sim import Observer


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What is recorded and shown of a run; none of it decides the outcome."""

    traces: bool = False  # record the client timeline
    progress: bool = False  # show a progress line
    observers: Sequence[Observer] = ()
    track: Sequence[str] = ()  # as given to --track

    @contextlib.contextmanager
    def opened(self, name: str, config: Mapping[str, str]) -> Iterator[list[Observer]]:
        """All observers, trackers included; the trackers are closed afterwards."""
        from fedpace.record.run.trackers import tracker

        with contextlib.ExitStack() as open_now:
            trackers = [tracker(where, name, config) for where in self.track]
            for each in trackers:
                open_now.callback(each.close)
            yield [*self.observers, *trackers]


def add_track_option(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    group.add_argument(
        "--track",
        action="append",
        default=[],
        metavar="WHERE",
        help="also send the history to tensorboard:FOLDER, mlflow:EXPERIMENT or wandb:PROJECT (repeatable)",
    )


def requested(args: argparse.Namespace) -> Monitoring:
    """As the options of `fedpace run` and `fedpace resume` say."""
    return Monitoring(traces=args.timeline is not None, progress=not args.quiet, track=args.track)
