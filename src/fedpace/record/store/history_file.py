"""The history of a run beside its checkpoints: only ever appended to, and cut back to where a checkpoint stands.

`history.jsonl` has one line for each step, measurement of clients, activity and fate; `models.bin` the models one
after another, where they are kept. A checkpoint says how many bytes of each belong to it, and their checksums.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.client_spread import ClientSpread
from fedpace.errors import CheckpointError
from fedpace.record import rows
from fedpace.record.run.history import History
from fedpace.sim.observer import Activity, Fate, StepRecord
from fedpace.untrusted import Number, Whole, fits, open_regular
from fedpace.vector import Vector, freeze

_KINDS: dict[str, dict[str, Any]] = {
    "initial": {"metrics": {str: Number}},
    "step": rows.STEP,
    "activity": {
        "client": Whole,
        "start": Number,
        "end": Number,
        "kind": str,
        "version": Whole,
        "session": Whole,
    },
    "fate": {"client": Whole, "session": Whole, "fate": str, "version": (Whole, None)},
    "clients": {"version": Whole, "metric": str, "higher_is_better": bool, "values": [(Number, None)]},
}
_NOWHERE_ELSE = getattr(os, "O_NOFOLLOW", 0) | getattr(
    os, "O_NONBLOCK", 0
)  # no link, and no pipe to wait for
LINES = "history.jsonl"
MODELS = "models.bin"


@dataclass(slots=True)
class Position:
    """How much of a history is in the files."""

    bytes: int = 0
    crc32: int = 0
    steps: int = 0
    activities: int = 0
    fates: int = 0
    models_crc32: int = 0


class HistoryFile:
    def __init__(self, folder: Path) -> None:
        self.folder, self.at = folder, Position()

    def append(self, history: History) -> Position:
        """Write what is new, flushed to the disk; whatever lay behind the position is overwritten."""
        at = self.at
        text = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in _rows(history, at)).encode()
        _append(self.folder / LINES, at.bytes, text)
        fresh = b"".join(x.tobytes() for x in (history.models or ())[at.steps :])
        if history.models:
            _append(self.folder / MODELS, at.steps * history.models[0].nbytes, fresh)
        self.at = Position(
            at.bytes + len(text),
            zlib.crc32(text, at.crc32),
            len(history.steps),
            len(history.activities),
            len(history.fates),
            zlib.crc32(fresh, at.models_crc32),
        )
        return self.at

    def read(self, at: Position, history: History, like: Vector) -> None:
        """Fill an empty history with what belongs to `at`, and go on from there."""
        lines = self._bytes(LINES, at.bytes, at.crc32)
        try:
            for line in lines.splitlines():
                _take(json.loads(line), history)
        except (ValueError, TypeError, RecursionError):
            raise CheckpointError(
                f"{self.folder / LINES} is damaged: a line of it is of another kind"
            ) from None
        if history.models is not None:
            kept = self._bytes(MODELS, at.steps * like.nbytes, at.models_crc32)
            whole = np.frombuffer(kept, like.dtype)
            history.models += [freeze(x.copy()) for x in whole.reshape(at.steps, like.size)]
        self.at = at

    def remove(self) -> None:
        for name in (LINES, MODELS):
            (self.folder / name).unlink(missing_ok=True)

    def _bytes(self, name: str, size: int, crc32: int) -> bytes:
        try:
            with open_regular(self.folder / name) as file:
                data = file.read(max(0, min(size, os.fstat(file.fileno()).st_size)))
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise CheckpointError(f"{self.folder / name} cannot be read ({error.strerror})") from None
        if len(data) != size:
            raise CheckpointError(f"{self.folder / name} is damaged: {len(data)} of {size} bytes are left")
        if zlib.crc32(data) != crc32:
            raise CheckpointError(f"{self.folder / name} is damaged: its checksum does not match")
        return data


def _append(path: Path, offset: int, data: bytes) -> None:
    binary = getattr(os, "O_BINARY", 0)  # or Windows would put in line ends of its own
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | binary | _NOWHERE_ELSE, 0o666)
    with open(handle, "wb") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(data)
        file.flush()
        os.fsync(handle)


def _rows(history: History, at: Position) -> Iterator[list[object]]:
    if at.bytes == 0 and history.initial:
        yield ["initial", dict(history.initial)]
    for step in history.steps[at.steps :]:
        learned = {name: float(value) for name, value in step.metrics.items()}
        yield [
            "step",
            step.version,
            step.virtual_seconds,
            step.clients,
            step.staleness,
            step.bytes_up,
            step.bytes_down,
            learned,
            *_seldom(step),
        ]
        if (measured := history.client_metrics.get(step.version)) is not None:
            yield ["clients", step.version, measured.name, measured.higher_is_better, _values(measured)]
    for a in history.activities[at.activities :]:
        yield ["activity", a.client, a.start, a.end, a.kind, a.version, a.session]
    for fate in history.fates[at.fates :]:
        yield ["fate", fate.client, fate.session, fate.fate, fate.version]


def _seldom(step: StepRecord) -> list[float | int | None]:
    """What is left out at the end of a line where there is nothing to say: epsilon, and clipped updates."""
    if step.clipped:
        return [step.epsilon, step.clipped]
    return [] if step.epsilon is None else [step.epsilon]


def _values(measured: ClientSpread) -> list[float | None]:
    """None where a client did not measure: JSON has no NaN."""
    return [None if math.isnan(value) else value for value in measured.values.tolist()]


def _take(row: list[Any], history: History) -> None:
    kind, *values = row
    if kind == "step":
        values += [None] * min(2, len(rows.STEP) - len(values))
    found = dict(zip(_KINDS.get(kind, {}), values, strict=True))
    if kind not in _KINDS or not fits(found, _KINDS[kind]):
        raise ValueError("another kind of line")
    if kind == "initial":
        history.initial = found["metrics"]
    elif kind == "step":
        history.steps.append(rows.step(found))
    elif kind == "clients":
        measured = np.array(found["values"], np.float64)
        spread = ClientSpread(found["metric"], measured, found["higher_is_better"])
        history.client_metrics[found["version"]] = spread
    elif kind == "activity":
        history.activities.append(Activity(**found))
    else:
        history.fates.append(Fate(**found))
