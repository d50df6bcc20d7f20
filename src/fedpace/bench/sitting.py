"""Contenders taking turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from fedpace.bench.workloads import Workload
from fedpace.errors import FedpaceError

YARDSTICK = "bare 2"


@dataclass(frozen=True, slots=True)
class Result:
    """One contender on one workload."""

    workload: str
    who: str
    seconds: float  # per round, the median turn
    ratio: float  # to the yardstick in the same turn, the median
    peak_bytes: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Contender:
    """A process that is ready and waits for its turn."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.peak_bytes = process, 0

    def turn(self, rounds: int) -> float:
        """Seconds per round."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        said = self.hear()
        self.peak_bytes = int(said["peak_bytes"])
        return float(said["seconds"]) / rounds

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise FedpaceError(f"a contender ended early: {self.process.args!r}")
        said: dict[str, Any] = json.loads(line)
        return said


@contextmanager
def ready(command: Sequence[str]) -> Iterator[Contender]:
    """A contender that has warmed up; it ends when its input does."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        contender = Contender(process)
        contender.hear()
        yield contender
    finally:
        process.communicate()


def measure(workload: Workload, commands: Mapping[str, Sequence[str]], repeats: int) -> list[Result]:
    """All contenders, one turn each, `repeats` times."""
    turns: dict[str, list[float]] = {who: [] for who in commands}
    with ExitStack() as stack:
        contenders = {who: stack.enter_context(ready(command)) for who, command in commands.items()}
        for _ in range(repeats):
            for who, contender in contenders.items():
                turns[who].append(contender.turn(workload.rounds))
    return [
        Result(
            workload.name,
            who,
            statistics.median(seconds),
            statistics.median(a / b for a, b in zip(seconds, turns[YARDSTICK], strict=True)),
            contenders[who].peak_bytes,
        )
        for who, seconds in turns.items()
    ]


def command(workload: Workload, who: str) -> list[str]:
    return [sys.executable, "-m", "fedpace.bench.contender", workload.name, who]
