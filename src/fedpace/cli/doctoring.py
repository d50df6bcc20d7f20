"""`fedpace deploy doctor`: a study, or a client's machine, looked over before a run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fedpace.errors import ConfigError

Action = Callable[[str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]

PASSPHRASE = "FEDPACE_PASSPHRASE"


def add_action(action: Action) -> None:
    doctor = action(
        "doctor", "Check a study, or a client's machine, before a run; exit code 1 if a check fails.", _doctor
    )
    doctor.add_argument(
        "what",
        metavar="STUDY|BUNDLE",
        nargs="?",
        default=".",
        help="the study on the server, or the bundle on a client (default: .)",
    )
    doctor.add_argument("--data", metavar="FILE", help="on a client: client.py, as for `fedpace join`")
    doctor.add_argument(
        "--key", metavar="FILE", help="on a client: its private key (default: next to BUNDLE)"
    )


def _doctor(args: argparse.Namespace) -> int:
    from fedpace.deploy.doctor.client import client_diagnoses
    from fedpace.deploy.doctor.diagnosis import FAILED
    from fedpace.deploy.doctor.study import study_diagnoses
    from fedpace.deploy.projects.settings import RUN_FILE

    what, now = Path(args.what), datetime.now(UTC)
    if what.name == RUN_FILE and what.is_file():
        what = what.parent
    if what.is_dir():
        if not (what / RUN_FILE).is_file():
            raise ConfigError(
                f"STUDY|BUNDLE must be a folder with {RUN_FILE}, or a bundle; got {args.what!r}"
            )
        diagnoses = study_diagnoses(what, now)
    else:
        passphrase = os.environ.get(PASSPHRASE)
        diagnoses = client_diagnoses(what, now, data=args.data, key=args.key, passphrase=passphrase)
    failed = False
    for diagnosis in diagnoses:
        print(diagnosis.line(), flush=True)
        failed = failed or diagnosis.state == FAILED
    return int(failed)
