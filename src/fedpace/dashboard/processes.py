"""Commands that the page starts: `fedpace` in a process of its own, which outlives the page."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fedpace.dashboard.log import ActionLog

FOLDER = "ui"  # of what they print, beside the run store
LAST_WORDS = 500


def start(
    words: Sequence[str], home: Path, log: ActionLog, *, subject: str, folder: Path | None = None
) -> int:
    """`fedpace WORDS`; how it ended is written down once it has."""
    place = home / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{time.time_ns()}.log"
    with open(path, "xb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedpace", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ending = threading.Thread(target=_wait, args=(process, words[0], subject, path, log), daemon=True)
    ending.start()
    return process.pid


def _wait(process: subprocess.Popen[bytes], verb: str, subject: str, path: Path, log: ActionLog) -> None:
    code = process.wait()
    lines = path.read_bytes().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")[:LAST_WORDS]
    log.write(f"{verb} ended", subject, f"exit code {code}" + (f": {last}" if code else ""))
    if not code:
        path.unlink(missing_ok=True)
