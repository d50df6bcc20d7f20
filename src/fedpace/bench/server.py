"""A whole server step against streaming the same bytes.

Aggregating M updates and stepping has to read and write a certain number of vectors. The baseline moves the same
number with the cheapest numpy operations into memory that is there already. Both run on one thread, in turns,
and are measured in processor seconds; the median of the ratios counts. What else runs on the machine then
matters through the memory bus only, which slows both.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from fedpace.aggregate import Aggregator, Contribution, Mean, Normalised, Weighted
from fedpace.bench.timing import seconds
from fedpace.server_opt import Adam, AMSGrad, Momentum, ServerOpt
from fedpace.vector import Vector

RULES: dict[str, tuple[Aggregator, ServerOpt, int]] = {  # and how many vectors the optimizer keeps
    "mean, fedavg": (Mean(), Momentum(), 0),
    "mean, fedgm": (Mean(), Momentum(1.0, 0.9, 0.7), 1),
    "weighted, fedgm": (Weighted(), Momentum(1.0, 0.9, 0.7), 1),
    "normalised, fedgm": (Normalised(), Momentum(1.0, 0.9, 0.7), 1),
    "mean, fedadam": (Mean(), Adam(0.1), 2),
    "mean, fedams": (Mean(), AMSGrad(0.1), 3),
}


def server_step(
    aggregate: Aggregator, opt: ServerOpt, x: Vector, delta: Vector, updates: int, state: Any
) -> Any:
    total = aggregate.init(x, updates)
    for client in range(updates):
        work = 1 + client % 3
        contribution = Contribution(client, delta, samples=10.0 + client, steps=work, a_norm1=float(work))
        total = aggregate.add(contribution, x, x, total)
    mean, _ = aggregate.result(total)
    return opt.apply(x, mean, state)[1]


def stream(x: Vector, delta: Vector, total: Vector, out: Vector, kept: list[Vector], updates: int) -> None:
    """The same reads and writes: fold the updates in, divide, then x, the mean and what is kept -> out and kept."""
    np.copyto(total, delta)
    for _ in range(updates - 1):
        np.add(total, delta, out=total)
    np.multiply(total, 1.0, out=total)
    if kept:
        np.add(kept[0], total, out=kept[0])
        np.copyto(out, x)
    else:
        np.add(x, total, out=out)
    for vector in kept[1:]:
        np.multiply(vector, 1.0, out=vector)


@dataclass(frozen=True, slots=True)
class StepCost:
    """One rule: seconds of a step, seconds of streaming the same bytes, and the median of their ratios."""

    rule: str
    seconds: float
    streaming: float
    ratio: float


def measure(size: int = 100_000_000, updates: int = 10, repeats: int = 5) -> Iterator[StepCost]:
    rng = np.random.default_rng(0)
    x, delta = (rng.standard_normal(size, dtype=np.float32) for _ in range(2))
    total, out = np.zeros_like(x), np.zeros_like(x)
    for name, (aggregate, opt, keeps) in RULES.items():
        kept, state = [np.zeros_like(x) for _ in range(keeps)], opt.init(x)
        state = server_step(aggregate, opt, x, delta, 2, state)  # compiles, and touches what is kept
        streamed = partial(stream, x, delta, total, out, kept, updates)
        stepped = partial(server_step, aggregate, opt, x, delta, updates, state)
        turns = [
            (seconds(stepped, clock=process_time), seconds(streamed, clock=process_time))
            for _ in range(repeats)
        ]
        ours, theirs = (statistics.median(column) for column in zip(*turns, strict=True))
        yield StepCost(name, ours, theirs, statistics.median(a / b for a, b in turns))
