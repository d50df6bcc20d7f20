"""fedpace serve STUDY"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from fedpace.cli import deployed
from fedpace.cli.parser import address
from fedpace.disk import files

if TYPE_CHECKING:
    from fedpace.deploy.projects.serving import ServedRun
    from fedpace.record import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a folder created by `fedpace deploy new`")
    parser.add_argument(
        "--in-order",
        action="store_true",
        help="aggregate a cohort's updates in order of client number, for audits",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="run without certificates, on the loopback interface only"
    )
    parser.add_argument(
        "--log", metavar="FILE", help="append connections, disconnections and server steps to this file"
    )
    parser.add_argument(
        "--metrics",
        type=address,
        metavar="[HOST:]PORT",
        help="expose the fleet's status at /metrics in the Prometheus format (default host: 127.0.0.1)",
    )
    deployed.add_output_options(parser)


def command(args: argparse.Namespace) -> int:
    """Serve a study to real clients.

    Runs until all server steps are taken. Every message is written to a journal before it is acknowledged: after
    a crash or an interrupt, the same command resumes the run.
    """
    from fedpace.deploy.fleet.page import MetricsPage
    from fedpace.deploy.projects.serving import StudyFolder, serve_study

    if args.log:
        files.require_writable(args.log, "--log")
        logging.basicConfig(filename=args.log, format="%(asctime)s %(message)s", level=logging.INFO)
    study = StudyFolder.read(args.study).possible()
    identities = None if args.insecure else study.identities
    host, port = study.settings.listen
    if identities is not None:
        deployed.warn_of_expiry(identities)
    what = f"{study.algorithm.name} at {host}:{port}, plan {study.plan.digest.hex()}"
    print(f"{study.settings.name}: {what}", file=sys.stderr)
    listen, metrics = study.listening(identities), None
    if args.metrics:
        its_host, its_port = args.metrics
        metrics = MetricsPage(its_host, its_port, lambda where: print(f"metrics: {where}", file=sys.stderr))

    def work(which: ServedRun) -> Run:
        return serve_study(study, listen, which, identities=identities, metrics=metrics)

    return deployed.run_and_show(args, study, work, f"to continue: fedpace serve {args.study}")
