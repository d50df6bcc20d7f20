"""Contenders taking turns."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

from fedpace.bench.workloads import Workload
from fedpace.errors import FedpaceError

YARDSTICK = "bare 2"
PATIENCE_S = 900.0  # a contender that says nothing for so long hangs


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender on one workload."""

    workload: str
    who: str
    seconds: float  # per round, the median turn
    ratio: float  # to the yardstick in the same turn, the median
    peak_bytes: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Failure:
    """One contender that failed."""

    workload: str
    who: str
    reason: str

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Contender:
    """A process that is ready and waits for its turn."""

    def __init__(self, process: subprocess.Popen[str], aside: IO[str]) -> None:
        self.process, self.aside, self.peak_bytes = process, aside, 0

    def turn(self, rounds: int) -> float:
        """Seconds per round."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write(f"{rounds}\n")
            self.process.stdin.flush()
        said = self.hear()
        self.peak_bytes = int(said["peak_bytes"])
        return float(said["seconds"]) / rounds

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        with self._patience() as lost:
            line = self.process.stdout.readline()
        if lost.is_set():
            raise FedpaceError(f"no output for {PATIENCE_S:g} s")
        if not line:
            raise FedpaceError(f"ended early: {self.last_words()}")
        said: dict[str, Any] = json.loads(line)
        return said

    @contextmanager
    def _patience(self) -> Iterator[threading.Event]:
        """A process that takes too long inside is killed, and the event set."""
        lost = threading.Event()

        def lose() -> None:
            lost.set()
            self.process.kill()

        timer = threading.Timer(PATIENCE_S, lose)
        timer.start()
        try:
            yield lost
        finally:
            timer.cancel()

    def last_words(self) -> str:
        """The last exception it printed, or else the last line."""
        code = self.process.wait()
        self.aside.seek(0)
        lines = [line.strip() for line in self.aside if line.strip()]
        exceptions = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        return (exceptions or lines or [f"exit code {code}"])[-1]


@contextmanager
def ready(command: Sequence[str]) -> Iterator[Contender]:
    """A contender that has warmed up; it ends when its input does. Its other output is kept aside."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as aside:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=aside, text=True
        )
        try:
            contender = Contender(process, aside)
            contender.hear()
            yield contender
        finally:
            process.communicate()


@contextmanager
def noting(failures: dict[str, str], who: str) -> Iterator[None]:
    """What befalls one contender does not end the comparison, unless it is the yardstick."""
    try:
        yield
    except FedpaceError as error:
        if who == YARDSTICK:
            raise FedpaceError(f"{who} {error}") from error
        failures[who] = str(error)


def measure(
    workload: Workload, commands: Mapping[str, Sequence[str]], repeats: int
) -> list[Measurement | Failure]:
    """All contenders, one turn each, `repeats` times."""
    turns: dict[str, list[float]] = {who: [] for who in commands}
    contenders: dict[str, Contender] = {}
    failures: dict[str, str] = {}
    with ExitStack() as stack:
        for who, command in commands.items():
            with noting(failures, who):
                contenders[who] = stack.enter_context(ready(command))
        for _ in range(repeats):
            for who in [who for who in contenders if who not in failures]:
                with noting(failures, who):
                    turns[who].append(contenders[who].turn(workload.rounds))
    return [
        Failure(workload.name, who, failures[who])
        if who in failures
        else _result(workload, contenders[who], who, turns)
        for who in commands
    ]


def _result(workload: Workload, contender: Contender, who: str, turns: dict[str, list[float]]) -> Measurement:
    ratios = [mine / bare for mine, bare in zip(turns[who], turns[YARDSTICK], strict=True)]
    return Measurement(
        workload.name, who, statistics.median(turns[who]), statistics.median(ratios), contender.peak_bytes
    )


def command(workload: Workload, who: str) -> list[str]:
    return [sys.executable, "-m", "fedpace.bench.contender", workload.name, who]
