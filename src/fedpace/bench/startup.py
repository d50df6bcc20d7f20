"""How long it takes until something happens."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

COMMANDS: dict[str, Sequence[str]] = {
    "--help": ("--help",),
    "first round": ("run", "fedavg", "--task", "digits", "--rounds", "1", "--quiet"),
}


def measure(repeats: int = 5) -> dict[str, float]:
    """Seconds of whole commands, the interpreter's own start included."""
    return {
        name: statistics.median(_seconds(words) for _ in range(repeats)) for name, words in COMMANDS.items()
    }


def _seconds(words: Sequence[str]) -> float:
    code = "import sys; from fedpace.cli import main; sys.exit(main(sys.argv[1:]))"
    with tempfile.TemporaryDirectory() as home:
        began = time.perf_counter()
        command = [sys.executable, "-c", code, *words]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "FEDPACE_HOME": home}
        )
        return time.perf_counter() - began
