"""What the verbs of a deployment share: output options, the run store, and the result."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fedpace.cli import show as tables
from fedpace.untrusted import visible

if TYPE_CHECKING:
    from fedpace.deploy.identity.enrolment import Identities
    from fedpace.deploy.projects.serving import StudyFolder
    from fedpace.record import Run


def add_output_options(parser: argparse.ArgumentParser, *, store: bool = True) -> None:
    out = parser.add_argument_group("output")
    if store:
        out.add_argument("--name", metavar="NAME", help="the run's name in the store (default: the study's)")
        out.add_argument("--no-store", action="store_true", help="do not save this run in the run store")
    out.add_argument("--json", metavar="FILE", help="write result and history")
    out.add_argument("--plot", metavar="FILE", help="draw accuracy and loss (.png, .svg, .pdf)")
    out.add_argument("--quiet", action="store_true", help="print errors and warnings only")


def require_writable(args: argparse.Namespace) -> None:
    from fedpace.disk import files
    from fedpace.record.report import plot

    if args.plot:
        plot.require_picture(args.plot, "--plot")
    if args.json:
        files.require_writable(args.json, "--json")


def warn_of_expiry(identities: Identities) -> None:
    for line in identities.warnings(datetime.now(UTC)):
        print(f"note: {line}", file=sys.stderr)


def run_and_show(
    args: argparse.Namespace,
    study: StudyFolder,
    work: Callable[..., Run],
    how_to_continue: str,
    name: str | None = None,
) -> int:
    """Do the work under progress and in the store, show the result; 130-style where a signal ended it."""
    from fedpace.cli.execution import open_store
    from fedpace.record.run.progress import shown

    require_writable(args)
    label = f"{study.algorithm.name} on real clients, {study.settings.clients} at most"
    watched: dict[str, Any] = {"name": args.name or name or study.settings.name, "store": open_store(args)}
    if args.quiet:
        run = work(**watched)
    else:
        with shown(label, study.settings.rounds) as progress:
            run = work(**watched, observers=[progress])
    show(args, run)
    _tell_of_refusals(run)
    if run.stopped is None:
        return 0
    print(f"{run.stopped} after step {len(run.history)}; {how_to_continue}", file=sys.stderr)
    return 128 + signal.Signals[run.stopped].value if run.stopped in signal.Signals.__members__ else 0


def _tell_of_refusals(run: Run) -> None:
    refused = run.summary.get("refused")
    if refused:
        counts = ", ".join(f"{visible(reason)} {count:,}" for reason, count in refused.items())
        print(f"refused: {counts}", file=sys.stderr)


def show(args: argparse.Namespace, run: Run) -> None:
    """Write the requested files, then show the result."""
    from fedpace.disk import files

    if args.json:
        files.write(args.json, run.to_json(named=True).encode())
    if args.plot:
        run.plot(args.plot)
    if not args.quiet:
        tables.result(run)
