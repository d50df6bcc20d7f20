"""Which process works on a run: its number, and when it began, so that no other process of that number is meant."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from pathlib import Path

from fedpace.disk import files
from fedpace.untrusted import Whole, fits, read_regular

FILE = "process"
MOST_BYTES = 1000
_SHAPE = {"pid": Whole, "host": str, "began": (str, None)}


def sign(folder: Path) -> None:
    """Write down that this process works in the folder, whose lock it holds."""
    about = {"pid": os.getpid(), "host": platform.node(), "began": _began(os.getpid())}
    files.write(folder / FILE, json.dumps(about).encode(), durable=False, through=False)


def leave(folder: Path) -> None:
    """The work is over."""
    with contextlib.suppress(OSError):
        (folder / FILE).unlink()


def of(folder: Path) -> int | None:
    """The process that signed, if it is still the one; the caller knows that the folder is locked."""
    try:
        known = json.loads(read_regular(folder / FILE, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not fits(known, _SHAPE) or known["host"] != platform.node():
        return None
    pid: int = known["pid"]
    return pid if pid > 1 and known["began"] == _began(pid) else None


def _began(pid: int) -> str | None:
    """When a process began, in the system's own words; None where the system does not tell."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return words[19]
