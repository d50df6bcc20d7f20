"""fedpace replay RUN"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import deployed, output
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.deploy.projects.program import Program
    from fedpace.deploy.replay import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a deployed run: its name, its study's folder, or its own")
    parser.add_argument(
        "--retrain", action="store_true", help="also compute every update again from the clients' data"
    )
    parser.add_argument(
        "--data", metavar="FILE", help="client.py with all clients' data (default: the study's)"
    )
    output.add_result_options(parser)


def command(args: argparse.Namespace) -> int:
    """Run a deployed run again from its journal, offline.

    The server is a function of its inputs, so the model comes out bit-identical. With --retrain every update is
    computed again as well, and each frame must come out as it was sent.
    """
    from fedpace.deploy.replay import replay

    output.require_writable(args)
    folder = _folder(args.run)
    program = _program(args, folder)
    task = None
    if args.retrain:
        if program is None:
            raise ConfigError("--data must name a client.py with the data of all clients, for --retrain")
        task = program.whole_task(_clients(folder, program))
    again = replay(folder, task, rules=None if program is None else program.rules)
    deployed.show(args, again.run)
    if not args.quiet:
        print(_summary(again))
    return 2 if again.different else 0


def _summary(again: Replay) -> str:
    began = "" if again.since == 0 else f" from input {again.since:,}, where its journal begins"
    trained = ""
    if again.retrained:
        same = again.retrained - len(again.different)
        trained = f"; {same:,} of {again.retrained:,} updates trained again to the same bytes"
    return f"replayed {again.inputs:,} inputs{began}{trained}; model {again.run.summary['model_sha256']}"


def _folder(run: str) -> Path:
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
    return Path(deployment)


def _program(args: argparse.Namespace, folder: Path) -> Program | None:
    from fedpace.deploy.projects.program import Program
    from fedpace.deploy.projects.settings import CLIENT_FILE

    beside = folder.parent.parent / CLIENT_FILE
    path = Path(args.data) if args.data else beside
    return Program(path) if args.data or beside.is_file() else None


def _clients(folder: Path, program: Program) -> int:
    from fedpace.deploy import genesis
    from fedpace.deploy.journal.files import DiskFiles

    begun = genesis.read(DiskFiles(folder), program.rules)
    assert begun is not None, "the folder has a run"
    return begun.terms.clients
