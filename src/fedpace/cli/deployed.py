"""What the verbs of a deployment share: output options, the run store, and the result."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import show as tables
from fedpace.cli.output import add_result_options, require_writable
from fedpace.errors import ConfigError
from fedpace.untrusted import visible

if TYPE_CHECKING:
    from fedpace.deploy.identity.enrolment import Identities
    from fedpace.deploy.projects.program import Program
    from fedpace.deploy.projects.serving import ServedRun, StudyFolder
    from fedpace.record import Run


def add_output_options(parser: argparse.ArgumentParser) -> None:
    out = add_result_options(parser)
    out.add_argument("--name", metavar="NAME", help="the run's name in the store (default: the study's)")
    out.add_argument("--no-store", action="store_true", help="do not save this run in the run store")


def warn_of_expiry(identities: Identities) -> None:
    for line in identities.warnings(datetime.now(UTC)):
        print(f"note: {line}", file=sys.stderr)


def run_and_show(
    args: argparse.Namespace,
    study: StudyFolder,
    work: Callable[[ServedRun], Run],
    how_to_continue: str,
    name: str | None = None,
) -> int:
    """Do the work under progress and in the store, show the result; 130-style where a signal ended it."""
    from fedpace.cli.execution import open_store
    from fedpace.deploy.projects.serving import ServedRun
    from fedpace.record.run.progress import shown

    require_writable(args)
    label = f"{study.algorithm.name} on real clients, {study.settings.clients} at most"
    known = args.name or name or study.settings.name
    which = ServedRun(name=known, store=open_store(args), in_order=args.in_order)
    if args.quiet:
        run = work(which)
    else:
        with shown(label, study.settings.rounds) as progress:
            run = work(replace(which, observers=[progress]))
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


def journal_folder(run: str) -> Path:
    """The server's folder: RUN itself, the only run in a study, or what the store knows under that name."""
    from fedpace.deploy.genesis import NAME
    from fedpace.deploy.projects.serving import RUNS
    from fedpace.record.store.store import Store

    place = Path(run)
    if (place / NAME).is_file():
        return place
    found = sorted(path.parent for path in (place / RUNS).glob(f"*/{NAME}"))
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"RUN must be one of {', '.join(map(str, found))}; got {run!r}")
    known = Store().find(run) if "\0" not in run else None
    deployment = None if known is None else known.about.get("deployment")
    if not isinstance(deployment, str):
        raise ConfigError(f"RUN must be a deployed run, by name or folder; got {run!r}")
    if not (Path(deployment) / NAME).is_file():
        raise ConfigError(f"RUN must be a deployed run with its journal; {deployment} has none")
    return Path(deployment)


def program_of(data: str | None, folder: Path) -> Program | None:
    """The client.py that was given, else the one of the study that a server's folder is in, if there is one."""
    from fedpace.deploy.projects.program import Program
    from fedpace.deploy.projects.settings import CLIENT_FILE

    beside = folder.parent.parent / CLIENT_FILE
    path = Path(data) if data else beside
    return Program(path) if data or beside.is_file() else None
