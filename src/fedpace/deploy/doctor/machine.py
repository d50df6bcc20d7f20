"""What server and clients have in common: library versions, clock and disk."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cryptography import x509

from fedpace import __version__
from fedpace.deploy.doctor.diagnosis import FAILED, WARNING, Diagnosis, good
from fedpace.deploy.fleet.alarms import RESERVES
from fedpace.deploy.identity.authority import CLOCK_SKEW

NEEDED: Mapping[str, int] = {"websockets": 15, "cryptography": 44, "numpy": 1, "torch": 2}  # major, at least
CLOCKS_DIFFER = timedelta(seconds=60)


def versions(find: Callable[[str], str] = version) -> Diagnosis:
    """Python and the libraries that a deployment uses."""
    found, wrong = [f"fedpace {__version__}", f"Python {sys.version.split()[0]}"], []
    for name, least in NEEDED.items():
        try:
            there = find(name)
        except PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        found.append(f"{name} {there}")
        major = re.match(r"\d+", there)
        if major is None or int(major[0]) < least:
            wrong.append(f"{name} must be {least} or newer; got {there}")
    if wrong:
        return Diagnosis("versions", FAILED, "; ".join(wrong), 'pip install --upgrade "fedpace[deploy]"')
    return good("versions", ", ".join(found))


def clock(certificate: x509.Certificate, now: datetime, other: datetime | None = None) -> Diagnosis:
    """Against the certificate, which was signed in the past, and against the server's clock where it is known."""
    advice = "set this machine's clock (chrony, systemd-timesyncd)"
    signed = certificate.not_valid_before_utc + CLOCK_SKEW
    if now < signed - CLOCK_SKEW:
        return Diagnosis(
            "clock", FAILED, f"{now:%Y-%m-%d %H:%M} UTC is before {signed:%Y-%m-%d %H:%M}", advice
        )
    if now < signed - CLOCKS_DIFFER:
        text = f"{now:%H:%M:%S} UTC, and the certificate was signed at {signed:%H:%M:%S}"
        return Diagnosis("clock", WARNING, text, advice)
    if other is None:
        return good("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, after the certificates were signed")
    apart = abs(now - other)
    text = f"{apart.total_seconds():.0f} s from the server's"
    if apart > CLOCK_SKEW:
        return Diagnosis("clock", FAILED, text, advice)
    return Diagnosis("clock", WARNING, text, advice) if apart > CLOCKS_DIFFER else good("clock", text)


def disk(folder: Path, reserve_bytes: int, free: Callable[[Path], int] | None = None) -> Diagnosis:
    """Whether there is room, and it can be written."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    with tempfile.NamedTemporaryFile(dir=there) as file:
        file.write(b"fedpace")
        file.flush()
    room = shutil.disk_usage(there).free if free is None else free(there)
    text = f"{room / 2**30:,.1f} GiB free at {folder}"
    if room < reserve_bytes:
        return Diagnosis("disk", FAILED, text, f"the server stops below {reserve_bytes:,} bytes: make room")
    if room < RESERVES * reserve_bytes:
        return Diagnosis("disk", WARNING, text, "make room, or lower [journal] reserve_bytes")
    return good("disk", text)
