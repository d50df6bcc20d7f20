"""The values every tracker gets for a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fedpace.sim.observer import StepRecord


class Values:
    """Metrics, and running totals of traffic."""

    def __init__(self) -> None:
        self._bytes_up = self._bytes_down = 0

    def initial(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Those of step 0: the metrics of the initial model."""
        return {**metrics, "virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}

    def of(self, record: StepRecord) -> dict[str, float]:
        self._bytes_up += record.bytes_up
        self._bytes_down += record.bytes_down
        stale = record.staleness
        return {
            **record.metrics,
            **({} if record.epsilon is None else {"epsilon": record.epsilon}),
            "virtual_seconds": record.virtual_seconds,
            "bytes_up": self._bytes_up,
            "bytes_down": self._bytes_down,
            "staleness": sum(stale) / len(stale) if stale else 0.0,
        }

    def resume(self, steps: Sequence[StepRecord]) -> None:
        self._bytes_up = sum(record.bytes_up for record in steps)
        self._bytes_down = sum(record.bytes_down for record in steps)


def now() -> float:
    """Seconds since 1970: trackers show when a value was sent."""
    return datetime.now(UTC).timestamp()
