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
    parser.add_argument(
        "run", metavar="RUN", help="a deployed run: its name, its folder, or its study's folder"
    )
    parser.add_argument(
        "--retrain", action="store_true", help="also recompute every client update from the clients' data"
    )
    parser.add_argument(
        "--data", metavar="FILE", help="client.py with all clients' data (default: the study's)"
    )
    output.add_result_options(parser)


def command(args: argparse.Namespace) -> int:
    """Replay a deployed run from its journal, offline.

    The server is a deterministic function of its inputs, so the model is bit-identical. With --retrain every client
    update is recomputed as well and compared with the frame that was sent.
    """
    from fedpace.deploy.replay import replay

    output.require_writable(args)
    folder = deployed.journal_folder(args.run)
    program = deployed.program_of(args.data, folder)
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
        trained = f"; {same:,} of {again.retrained:,} updates recomputed bit-identically"
    return f"replayed {again.inputs:,} inputs{began}{trained}; model {again.run.summary['model_sha256']}"


def _clients(folder: Path, program: Program) -> int:
    from fedpace.deploy import genesis
    from fedpace.deploy.journal.files import DiskFiles

    begun = genesis.read(DiskFiles(folder), program.rules)
    assert begun is not None, "the folder has a run"
    return begun.terms.clients
