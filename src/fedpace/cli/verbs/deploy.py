"""fedpace deploy new | try | request | enrol | revoke | renew | measure | predict | doctor"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import deployed, doctoring, predicting
from fedpace.cli.parser import add_action, count
from fedpace.cli.parser import seed as client_number
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.deploy.identity.enrolment import Identities
    from fedpace.deploy.projects.serving import ServedRun
    from fedpace.record import Run

PASSPHRASE = "FEDPACE_PASSPHRASE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, help: str, work: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = add_action(actions, name, help)
        sub.set_defaults(work=work)
        return sub

    new = action("new", "Create a study: run.toml, client.py, README.md and a certificate authority.", _new)
    new.add_argument("study", metavar="STUDY", help="folder to create")
    new.add_argument(
        "--address",
        default="127.0.0.1:7443",
        metavar="HOST:PORT",
        help="address at which clients reach the server (default: %(default)s)",
    )
    new.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="HOST",
        help="additional host name in the server's certificate (repeatable)",
    )

    new.add_argument(
        "--flower", action="store_true", help="create a Flower app, for SuperNodes and Flower's simulation"
    )

    trial = action("try", "Run a study on this machine: the server and N client processes.", _try)
    trial.add_argument("study", metavar="STUDY", help="a folder created by `fedpace deploy new`")
    trial.add_argument(
        "-n", "--clients", type=count, default=4, metavar="N", help="number of clients (default: %(default)s)"
    )
    trial.add_argument(
        "--in-order", action="store_true", help="aggregate a cohort's updates in order of client number"
    )
    deployed.add_output_options(trial)

    request = action(
        "request",
        "On a client: create its private key, which stays there, and a certificate request.",
        _request,
    )
    request.add_argument("name", metavar="NAME", help="writes NAME.key and NAME.request")

    enrol = action("enrol", "Sign a client's request and write the bundle to send back.", _enrol)
    enrol.add_argument(
        "request", metavar="REQUEST", nargs="?", help="a file written by `fedpace deploy request`"
    )
    enrol.add_argument(
        "--with-key",
        action="store_true",
        help="without a request: generate the key here and include it in the bundle",
    )
    _add_study(enrol)
    enrol.add_argument(
        "--client", type=client_number, metavar="NUMBER", help="client number (default: the next free one)"
    )

    revoke = action("revoke", "Revoke a client's certificate; a live connection is closed.", _revoke)
    revoke.add_argument("client", type=client_number, metavar="NUMBER", help="client number")
    _add_study(revoke)

    renew = action("renew", "Renew the certificate of a client, or of the server, for one year.", _renew)
    renew.add_argument(
        "client", type=client_number, metavar="NUMBER", nargs="?", help="client number (default: the server)"
    )
    renew.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="HOST",
        help="additional host name in the server's certificate (repeatable)",
    )
    _add_study(renew)

    predicting.add_actions(action)
    doctoring.add_action(action)


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--study", default=".", metavar="STUDY", help="the study's folder (default: the current one)"
    )


def command(args: argparse.Namespace) -> int:
    """Create a study for real clients, try it locally, and manage its clients.

    The passphrase of private keys is read from the environment variable FEDPACE_PASSPHRASE.
    """
    work: Callable[[argparse.Namespace], int] = args.work
    return work(args)


def _new(args: argparse.Namespace) -> int:
    if args.flower:
        return _new_app(args)
    from fedpace.deploy.projects.templates import new_study

    for path in new_study(args.study, args.address, args.also, _now()):
        print(path)
    print(f"\nfedpace deploy try {args.study} -n 4   runs it on this machine")
    return 0


def _new_app(args: argparse.Namespace) -> int:
    from fedpace.deploy.flower.templates import new_app

    for path in new_app(args.study):
        print(path)
    print(
        f'\nflwr run {args.study} --stream --federation-config "num-supernodes=4"   runs it on this machine'
    )
    return 0


def _try(args: argparse.Namespace) -> int:
    from fedpace.deploy.projects.serving import StudyFolder
    from fedpace.deploy.projects.trying import try_study

    study = StudyFolder.read(args.study).of(args.clients)
    name = args.name or _free_name(study.settings.name, study.place)
    args.plot = args.plot or str(study.settings.folder / f"{name.replace('/', '-')}.png")

    def work(which: ServedRun) -> Run:
        return try_study(study, which)

    code = deployed.run_and_show(args, study, work, "this run ends here", name)
    if not args.quiet:
        print(f"{args.plot}\nfedpace replay {name}   replays it from its journal")
    return code


def _free_name(study: str, place: Callable[[str], Path]) -> str:
    """try, try-2, ... of the study: a trial is a run of its own every time."""
    names = (f"{study}-try" + (f"-{k}" if k > 1 else "") for k in range(1, 1_000_000))
    return next(name for name in names if not place(name).exists())


def _request(args: argparse.Namespace) -> int:
    from fedpace.deploy.identity.requests import request

    key, sent = request(args.name, _passphrase())
    print(f"{key}   keep on this machine\n{sent}   send to the study's owner")
    return 0


def _enrol(args: argparse.Namespace) -> int:
    identities = _identities(args)
    if (args.request is None) != args.with_key:
        raise ConfigError("enrol must be given a REQUEST, or --with-key; got both or neither")
    client = _first_free(identities) if args.client is None else args.client
    if args.with_key:
        bundle = identities.enrol_with_key(client, _now(), _passphrase(), _passphrase())
    else:
        bundle = identities.enrol(args.request, client, _now(), _passphrase())
    print(f"{bundle}   for client {client}")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    gone = _identities(args).revoke(args.client, _now())
    print(f"client {args.client} revoked: {', '.join(mark[:16] for mark in gone)}")
    return 0


def _renew(args: argparse.Namespace) -> int:
    identities = _identities(args)
    if args.client is None:
        identities.renew_server(args.also, _now(), _passphrase())
        print(
            "the server's certificate is valid for another year; it is used from the next start of the server"
        )
    else:
        print(f"{identities.renew(args.client, _now(), _passphrase())}   for client {args.client}")
    return 0


def _identities(args: argparse.Namespace) -> Identities:
    from fedpace.deploy.identity.enrolment import AUTHORITY, Identities
    from fedpace.deploy.projects.templates import IDENTITIES

    folder = Path(args.study) / IDENTITIES
    if not (folder / AUTHORITY).is_file():
        raise ConfigError(f"--study must be a folder created by `fedpace deploy new`; got {args.study!r}")
    return Identities(folder)


def _first_free(identities: Identities) -> int:
    from fedpace.deploy.identity.enrolment import CLIENTS

    taken = {int(file.stem) for file in (identities.folder / CLIENTS).glob("*.pem") if file.stem.isdigit()}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _passphrase() -> str | None:
    return os.environ.get(PASSPHRASE)


def _now() -> datetime:
    return datetime.now(UTC)
