"""The fastest engine for a user's own experiment, measured."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import fedpace
from fedpace.algorithm import Algorithm
from fedpace.compute.pins import Pin
from fedpace.compute.protocol import Task


@dataclass(frozen=True, slots=True)
class Timed:
    pin: Pin
    seconds: float  # per round


def candidates(task: Task, workers: int) -> list[Pin]:
    """What there is to choose from; `vectorised` only where clients can share a computation."""
    pins = [Pin("inline", 1)] + [Pin("pool", workers)] * (workers > 1)
    if getattr(task, "lanes", 1) > 1:
        pins += [Pin("vectorised", 1)] + [Pin("vectorised", workers)] * (workers > 1)
    return pins


def timed(algorithm: Algorithm, task: Task, workers: int, rounds: int, repeats: int) -> list[Timed]:
    """All candidates, in turns, the fastest first."""
    pins = candidates(task, workers)
    turns: dict[Pin, list[float]] = {pin: [] for pin in pins}
    for turn in range(repeats + 1):
        for pin in pins:
            _run(algorithm, task, pin, 1)  # workers, compiled code and data are there when the clock starts
            began = time.perf_counter()
            _run(algorithm, task, pin, rounds)
            if turn:
                turns[pin].append((time.perf_counter() - began) / rounds)
    results = [Timed(pin, statistics.median(seconds)) for pin, seconds in turns.items()]
    return sorted(results, key=lambda result: result.seconds)


def _run(algorithm: Algorithm, task: Task, pin: Pin, rounds: int) -> None:
    fedpace.simulate(
        algorithm,
        task,
        rounds=rounds,
        compute=pin.engine,
        workers=pin.workers,
        evaluate_every=None,
        traces=False,
    )
