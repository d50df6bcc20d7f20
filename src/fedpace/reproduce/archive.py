"""The finished runs behind a page, in one file beside it: a later checkout extends the page instead of repeating it."""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedpace.disk import files
from fedpace.errors import ConfigError
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results

LARGEST = 1 << 29  # bytes of an archive once it is unpacked


def archive_name(edition: str) -> str:
    return f"{edition}-runs.jsonl.xz"


def run_name(key: str, seed: int) -> str:
    """Names a run by the key of its cell: another setting is another run."""
    return f"{key}-seed{seed}"


def write(path: Path, results: Results) -> None:
    """All runs of a page, a line each."""
    lines = [
        files.to_json({"run": run_name(results.cells[name].key, seed), "outcome": outcome.plain()})
        for name, runs in results.outcomes.items()
        for seed, outcome in sorted(runs.items())
    ]
    files.write(path, lzma.compress("".join(f"{line}\n" for line in lines).encode()))


def read(path: Path) -> dict[str, Outcome]:
    """By name of the run; empty where a page has no archive."""
    return _read(path, path.stat().st_mtime_ns) if path.exists() else {}


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict[str, Outcome]:
    try:
        rows: list[dict[str, Any]] = [json.loads(line) for line in _unpacked(path.read_bytes()).splitlines()]
        return {row["run"]: Outcome.from_plain(row["outcome"]) for row in rows}
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} must be an archive of finished runs; got {error!r}") from None


def _unpacked(data: bytes) -> str:
    unpacking = lzma.LZMADecompressor()
    text = unpacking.decompress(data, LARGEST).decode()
    if not unpacking.eof:
        raise ValueError(f"cut off, or more than {LARGEST} bytes")
    return text
