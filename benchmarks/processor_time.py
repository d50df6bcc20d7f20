"""Processor time per round of fedpace and of the bare loop, two processes each, in turns: `W6 W7`, or other workloads.

Where other work runs on a machine, seconds say more about that work. Only on Linux: /proc has the times.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from fedpace.bench.comparison import Contender, command, ready
from fedpace.bench.workloads import WORKLOADS, Workload

WHO, TURNS = ("bare 2", "fedpace 2"), 6


def used_s(process: int) -> float:
    """By a process, its children, theirs, and those that have ended."""
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        number = int(file.parent.name)
        ticks[number] = sum(map(int, fields[11:15]))
        children[int(fields[1])].append(number)
    family = [process]
    for member in family:
        family += children[member]
    return sum(ticks.get(member, 0) for member in family) / os.sysconf("SC_CLK_TCK")


def turn(contender: Contender, workload: Workload) -> tuple[float, float]:
    """Processor time and seconds, per round."""
    before = used_s(contender.process.pid)
    seconds = contender.turn(workload.rounds)
    return (used_s(contender.process.pid) - before) / workload.rounds, seconds


def main() -> None:
    for workload in [WORKLOADS[name] for name in sys.argv[1:] or ("W6", "W7")]:
        with ExitStack() as stack:
            contenders = [stack.enter_context(ready(command(workload, who))) for who in WHO]
            turns = [[turn(contender, workload) for contender in contenders] for _ in range(TURNS)]
        for k, what in enumerate(("processor time", "seconds")):
            bare, ours = (statistics.median(each[who][k] for each in turns) for who in range(2))
            ratio = statistics.median(each[1][k] / each[0][k] for each in turns)
            print(f"{workload.name} {what}: bare {bare:.3f}, fedpace {ours:.3f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
