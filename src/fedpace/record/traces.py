"""Files that say when clients are there."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from fedpace.errors import ConfigError
from fedpace.sim.availability import Window, check_windows


def read_trace(path: str | Path) -> tuple[Window, ...]:
    """Windows from a CSV file with the columns client, from, to; an empty `to` means for ever."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise ConfigError(
            f"availability trace must be a readable file; got {str(path)!r} ({error.strerror})"
        ) from None
    windows = []
    for number, row in enumerate(rows, start=2):
        try:
            windows.append((int(row["client"]), float(row["from"]), float(row["to"] or math.inf)))
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"{path}, line {number}: must have the columns client, from, to as numbers; got {row!r}"
            ) from None
    return check_windows(windows)
