"""What the check word costs: python benchmarks/check_word.py [W1 W3 W4 ...]

Frames without the word, with it, and with zlib's CRC-32 in place of isal's take turns. Without arguments: one
dense vector sent and received, shortest time of many. With workloads: whole rounds in one process, processor time
against the run without the word beside it; the median over turns is good to about one percent.
"""

from __future__ import annotations

import statistics
import sys
import time
import zlib
from collections.abc import Callable

import numpy as np

import fedpace
from fedpace.bench.workloads import WORKLOADS
from fedpace.compute.memory import keep_freed
from fedpace.link import Context, Plain
from fedpace.link.wire import frame as wire

PARTS = (wire._word, wire.check, wire.crc32)
WAYS = {
    "no check word": (lambda fields, *payload: 0, wire._refuse_foreign, wire.crc32),
    "isal": PARTS,
    "zlib": (*PARTS[:2], zlib.crc32),
}
SIZES = (7_850, 159_010)  # softmax on MNIST: 31 kB; MLP: 636 kB
ROUNDS = {"W1": 30, "W2": 1}


def choose(way: str) -> None:
    wire._word, wire.check, wire.crc32 = WAYS[way]


def in_turns(turns: int, measure: Callable[[], float]) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(turns + 1):
        for way in sorted(WAYS, reverse=bool(turn % 2)):
            choose(way)
            taken[way].append(measure())
    return {way: each[1:] for way, each in taken.items()}  # the first one warms up


def frames(size: int) -> None:
    link, v, rng = Plain(), np.ones(size, np.float32), np.random.default_rng(0)

    def once() -> float:
        began = time.perf_counter()
        for _ in range(20):
            frame, _ = link.send(v, None, Context(1), rng)
            link.receive(frame, None, size)
        return (time.perf_counter() - began) / 20

    for way, taken in in_turns(400, once).items():
        print(f"{4 * size / 1e3:6.0f} kB  {way:<14}{1e6 * min(taken):8.2f} us")


def rounds(name: str) -> None:
    task, algorithm = WORKLOADS[name].make_task(), WORKLOADS[name].make_algorithm()

    def once() -> float:
        began = time.process_time()
        fedpace.simulate(algorithm, task, rounds=ROUNDS.get(name, 3), evaluate_every=None, traces=False)
        return (time.process_time() - began) / ROUNDS.get(name, 3)

    taken = in_turns(60, once)
    for way, each in taken.items():
        more = [one / without - 1 for one, without in zip(each, taken["no check word"], strict=True)]
        print(f"{name}  {way:<14}{1e3 * statistics.median(each):8.3f} ms  {statistics.median(more):+.1%}")


if __name__ == "__main__":
    keep_freed()
    for each in sys.argv[1:]:
        rounds(each)
    for size in () if sys.argv[1:] else SIZES:
        frames(size)
