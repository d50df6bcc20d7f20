"""The history of a run as columns, which a chart takes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, entry_of, store_of

if TYPE_CHECKING:
    from fedpace.sim.observer import StepRecord

Timed = Sequence[tuple["StepRecord", float | None]]


def shown(request: Request) -> Response:
    """The steps beyond `after`, by default all."""
    after = request.query_params.get("after", "0")
    if not after.isdecimal() or len(after) > 12:
        raise HTTPException(400, "after must be a version")
    entry = entry_of(request)
    return answer(columns(store_of(request).steps_after(entry.id, int(after))))


def columns(steps: Timed) -> dict[str, Any]:
    """One list per quantity, one entry per step; metrics are None where a step was not evaluated."""
    records = [record for record, _ in steps]
    names = dict.fromkeys(name for record in records for name in record.metrics)
    spent = {"epsilon": [r.epsilon for r in records]} if any(r.epsilon is not None for r in records) else {}
    return {
        "version": [record.version for record in records],
        "virtual_seconds": [record.virtual_seconds for record in records],
        "real_seconds": [at for _, at in steps],
        "bytes_up": [record.bytes_up for record in records],
        "bytes_down": [record.bytes_down for record in records],
        "updates": [len(record.clients) for record in records],
        "staleness": [fmean(record.staleness) if record.staleness else None for record in records],
        "max_staleness": [max(record.staleness, default=None) for record in records],
        "metrics": {name: [record.metrics.get(name) for record in records] for name in names},
        **spent,
    }
