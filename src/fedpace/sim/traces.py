"""Client availability from files."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from fedpace.errors import ConfigError
from fedpace.sim.availability import Window, check_windows
from fedpace.untrusted import brief, read_regular

MAX_BYTES = 1 << 28


def read_table(path: str | Path, what: str) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a CSV file; what a row does not have is empty."""
    try:
        rows = csv.DictReader(io.StringIO(read_regular(path, MAX_BYTES).decode(), newline=""), restval="")
        columns = list(rows.fieldnames or ())
        return columns, list(rows)
    except OSError as error:
        reason = error.strerror
    except (UnicodeDecodeError, csv.Error) as error:
        reason = str(error)
    raise ConfigError(f"{what} must be a readable file; got {str(path)!r} ({reason})")


def read_trace(path: str | Path) -> tuple[Window, ...]:
    """Windows from a CSV file with the columns client, from, to; an empty `to` means without end."""
    windows = []
    for number, row in enumerate(read_table(path, "availability trace")[1], start=2):
        try:
            windows.append((int(row["client"]), float(row["from"]), float(row["to"] or math.inf)))
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"{path}, line {number}: must have the columns client, from, to as numbers; got {brief(row)}"
            ) from None
    return check_windows(windows)
