"""A row of the golden table: what is kept of a run, and how two rows differ."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PROBES = 20
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # of a probe, relative to the model's norm
DIGITS = {"float32": 9, "float64": 16}
COLUMNS = ("version", "virtual_seconds", "clients", "staleness", "bytes_up", "bytes_down")

Row = dict[str, Any]


def first_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()[:6])}"


def row_of(run: Any) -> Row:
    """What is compared of a run, and of its model the hash that only `--bits` keeps."""
    x = np.asarray(run.model)
    digits = DIGITS[x.dtype.name]
    return {
        "steps": [[_plain(getattr(step, column)) for column in COLUMNS] for step in run.history],
        "dtype": x.dtype.name,
        "norm": _rounded(math.sqrt(math.fsum(x.astype(float) ** 2)), digits),
        "probes": [_rounded(probe, digits) for probe in _probes(x)],
        "sha256": hashlib.sha256(x.tobytes()).hexdigest(),
    }


def _plain(value: Any) -> Any:
    return list(map(int, value)) if isinstance(value, tuple) else value


def _probes(x: np.ndarray[Any, Any]) -> Iterator[float]:
    """Projections on fixed unit directions that give every entry a weight."""
    entries = np.arange(1, x.size + 1)
    for k in range(1, PROBES + 1):
        direction = np.cos(k * entries)
        yield math.fsum(x * (direction / math.sqrt(math.fsum(direction**2))))


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def differences(want: Row, got: Row) -> list[str]:
    """What differs between two rows, a line each; hashes are compared where both rows have one."""
    found = [
        f"{name}: was {want.get(name)}, is {got.get(name)}"
        for name in ("error", "dtype")
        if want.get(name) != got.get(name)
    ]
    found += _step_differences(want.get("steps", []), got.get("steps", []))
    if want.get("dtype") == got.get("dtype"):
        found += _model_differences(want, got)
    return found


def _step_differences(want: Sequence[Any], got: Sequence[Any]) -> Iterator[str]:
    if len(want) != len(got):
        yield f"number of steps: was {len(want)}, is {len(got)}"
    for number, (before, after) in enumerate(zip(want, got, strict=False), 1):
        for column, old, new in zip(COLUMNS, before, after, strict=True):
            if old != new:
                yield f"step {number}, {column}: was {old}, is {new}"


def _model_differences(want: Row, got: Row) -> Iterator[str]:
    if "dtype" not in want:
        return
    allowed = TOLERANCE[want["dtype"]] * want["norm"]
    before, after = (np.array([row["norm"], *row["probes"]]) for row in (want, got))
    distance = float(np.max(np.abs(before - after)))  # NaN stays
    if not distance <= allowed:
        yield f"model: off by {distance:.3g}, allowed is {allowed:.3g}"
    elif "sha256" in want and "sha256" in got and want["sha256"] != got["sha256"]:
        yield f"model: other bits (off by {distance:.3g})"


def read(path: Path) -> dict[str, Row]:
    rows: dict[str, Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return rows


def write(rows: Mapping[str, Row], path: Path) -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in rows.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
