"""The server driven by hand: updates made of plain numbers, no client and no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.link import Dense
from fedpace.link.wire.frame import sealed
from fedpace.local import SGD
from fedpace.pace.protocol import Pace
from fedpace.server import Answer, Server, Skipped, Step, Update
from fedpace.vector import Vector

RNG = np.random.default_rng(0)  # dense frames draw nothing


def server(
    pace: Pace, clients: int = 3, *, last: int | None = None, x: Any = (0.0, 0.0), **rules: Any
) -> Server:
    samples, noise = rules.pop("samples", None), rules.pop("noise", None)
    algorithm = Algorithm(pace=pace, local=rules.pop("local", SGD(lr=0.5, steps=2)), **rules)
    return Server(algorithm, np.array(x), clients, last=last, samples=samples, noise=noise)


def begun(pace: Pace, clients: int = 3, **more: Any) -> Server:
    """A server that has sent its first orders."""
    s = server(pace, clients, **more)
    s.dispatch(0.0)
    return s


def frame(*values: float, kind: Any = np.float64) -> bytes:
    return packed(np.array(values, kind))


def packed(v: Vector) -> bytes:
    return Dense().encode(v, RNG)


def update(client: int, value: float = 1.0, session: int = 1, version: int = 0, **changes: Any) -> Update:
    frames = {"update": frame(value, value)}
    return replace(Update(client, session, version, max(version, 0), 2, 2.0, 1.0, frames), **changes)


def deliver(to: Server, *updates: Update) -> list[Answer]:
    return [to.receive(each, 0.0) for each in updates]


def step_of(answer: Answer) -> Step:
    [step] = answer.steps
    assert isinstance(step, Step)
    return step


def skipped(answer: Answer) -> Skipped:
    [step] = answer.steps
    assert isinstance(step, Skipped)
    return step


def not_finite_frame() -> bytes:
    """What no sender of ours makes: a dense frame with NaN in it."""
    return sealed(frame(1.5, 2.5).replace(np.float64(1.5).tobytes(), np.float64("nan").tobytes()))
