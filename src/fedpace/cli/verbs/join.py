"""fedpace join BUNDLE --data client.py"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from fedpace.cli.parser import amount as seconds
from fedpace.cli.parser import seed as client_number
from fedpace.errors import ConfigError

PASSPHRASE = "FEDPACE_PASSPHRASE"  # in the environment: a word on the command line is seen by everybody


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", metavar="BUNDLE", help="the bundle that `fedpace deploy enrol` wrote for this client"
    )
    parser.add_argument(
        "--data", metavar="FILE", required=True, help="client.py: model, loss and this machine's data"
    )
    parser.add_argument(
        "--state",
        metavar="FOLDER",
        help="folder for the client's state, which survives a restart (default: next to BUNDLE)",
    )
    parser.add_argument("--key", metavar="FILE", help="the client's private key (default: next to BUNDLE)")
    parser.add_argument("--expect", metavar="DIGEST", help="take part only if the plan has this digest")
    parser.add_argument(
        "--give-up-after",
        type=seconds,
        metavar="SECONDS",
        help="exit after this time without a server (default: never)",
    )
    parser.add_argument(
        "--insecure",
        type=client_number,
        metavar="NUMBER",
        help="connect without certificates as this client; BUNDLE is then the address of a server on this machine",
    )


def command(args: argparse.Namespace) -> int:
    """Join a study as a client, with this machine's own data.

    Makes outgoing connections only, trains as the plan says, and reconnects indefinitely; a client that is offline
    when the run ends needs --give-up-after to exit. The data stay on this machine: it sends updates, sums for running
    statistics, its number of samples and its training times. The passphrase of private keys is read from the
    environment variable FEDPACE_PASSPHRASE.
    """
    from fedpace.deploy.identity.bundles import read_bundle
    from fedpace.deploy.projects.joining import connecting, connecting_insecurely, join_study
    from fedpace.deploy.projects.program import Program

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    program = Program(args.data)
    if args.insecure is not None:
        client, connect = args.insecure, connecting_insecurely(args.bundle, args.insecure)
    else:
        passphrase = os.environ.get(PASSPHRASE)
        bundle = read_bundle(args.bundle, args.key, passphrase)
        client, connect = bundle.client, connecting(bundle, passphrase)
    ended = join_study(program, connect, client, _state(args, client), args.expect, args.give_up_after)
    print(f"client {client}: {ended}")
    return 0


def _state(args: argparse.Namespace, client: int) -> Path | None:
    if args.state is not None:
        return Path(args.state)
    if args.insecure is not None:
        raise ConfigError(
            "--state must be given with --insecure: a client's state survives its restarts there"
        )
    return Path(args.bundle).with_name(f"client-{client}.state")
