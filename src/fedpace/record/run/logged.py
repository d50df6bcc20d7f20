"""A run in the log of the program that executes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fedpace.logs import LOG
from fedpace.record.run.units import format_seconds
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector


class Logged(Observer):
    """Evaluated steps at level INFO, all others at DEBUG."""

    def __init__(self, label: str, rounds: int) -> None:
        self._label, self._rounds = label, rounds

    def begun(self, metrics: Mapping[str, float]) -> None:
        LOG.info("%s: begun%s", self._label, _text(metrics))

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        LOG.info("%s: resumed after step %d of %d", self._label, len(steps), self._rounds)

    def recorded(self, record: StepRecord, x: Vector) -> None:
        level = logging.INFO if record.metrics else logging.DEBUG
        at, step = format_seconds(record.virtual_seconds), record.version
        LOG.log(level, "%s: step %d of %d, %s%s", self._label, step, self._rounds, at, _text(record.metrics))


def observers(label: str, rounds: int) -> tuple[Observer, ...]:
    """One, if anybody listens."""
    return (Logged(label, rounds),) if LOG.isEnabledFor(logging.INFO) else ()


def _text(metrics: Mapping[str, float]) -> str:
    return "".join(f", {name} {value:.4g}" for name, value in metrics.items())
