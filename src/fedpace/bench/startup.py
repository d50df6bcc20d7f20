"""Seconds from a command to its first output."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

HELP = ("--help",)
SMALL = ("run", "fedavg", "--task", "digits", "--rounds", "1")


def measure(repeats: int = 5) -> dict[str, float]:
    """Seconds since a command was given, the interpreter's own start included; medians."""
    helped = [_seconds(HELP)[-1] for _ in range(repeats)]
    shown, ended = zip(*(_seconds(SMALL, until="step 1/1") for _ in range(repeats)), strict=True)
    return {
        "--help": statistics.median(helped),
        "first round of a small run": statistics.median(shown),
        "the whole run, stored": statistics.median(ended),
    }


def _seconds(words: Sequence[str], until: str = "") -> tuple[float, float]:
    """Until the command said `until` on its error stream, and until it had ended."""
    code = "import sys; from fedpace.cli import main; sys.exit(main(sys.argv[1:]))"
    began, shown = time.perf_counter(), 0.0
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FEDPACE_HOME": home},
        ) as process,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            if until and until in line:
                shown = time.perf_counter() - began
        process.wait()
        return shown, time.perf_counter() - began
