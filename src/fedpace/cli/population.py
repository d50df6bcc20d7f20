"""`--population`: devices by the name of a preset, by a law, or from a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.sim import Population

FORMS = {
    "defedavg": "the DeFedAvg paper's devices: slowdown uniform on [1, 5], 10 GFLOP/s, 400 Mbit/s",
    "uniform-slowdown:LOW,HIGH": "as defedavg, with another range of slowdowns",
    "half-normal:SCALE": "the CA2FL paper's: a session takes |N(0, s)| seconds, s uniform on (0, SCALE)",
    "exponential:MEAN": "a session takes an exponential time",
    "FILE": "CSV with columns client, compute_s and perhaps up_s, down_s; or client, from, to",
}
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


def population(text: str | None) -> Population | None:
    """The devices that `text` names; None: one second per solve and free transfer."""
    if text is None:
        return None
    name, _, rest = text.partition(":")
    makers = _makers()
    if name in makers:
        least, most, make = makers[name]
        numbers = [float(word) for word in rest.split(",") if re.fullmatch(_NUMBER, word.strip())]
        if least <= len(numbers) <= most and len(numbers) == len(rest.split(",") if rest else []):
            return make(*numbers)
    elif Path(text).is_file():
        return _from_file(Path(text))
    raise ConfigError(f"--population must be {', '.join(FORMS)}; got {text!r}")


def _makers() -> dict[str, tuple[int, int, Callable[..., Population]]]:
    """Name -> least and most numbers after the colon, and what makes the devices of them."""
    from fedpace.sim import Population

    return {
        "defedavg": (0, 0, Population.uniform_slowdown),
        "uniform-slowdown": (2, 2, Population.uniform_slowdown),
        "half-normal": (1, 1, Population.half_normal),
        "exponential": (1, 1, Population.exponential),
    }


def _from_file(path: Path) -> Population:
    from fedpace.record.traces import read_trace
    from fedpace.sim import Population

    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        columns = set(rows.fieldnames or ())
        if {"client", "from", "to"} <= columns:
            return Population(solve_s=1.0).with_windows(read_trace(path))
        if {"client", "compute_s"} <= columns:
            return _from_times(list(rows), path)
    raise ConfigError(f"{path} must have {FORMS['FILE'].removeprefix('CSV with ')}; got {sorted(columns)}")


def _from_times(rows: Sequence[dict[str, str]], path: Path) -> Population:
    from fedpace.sim import Population

    try:
        ordered = sorted(rows, key=lambda row: int(row["client"]))
        clients = [int(row["client"]) for row in ordered]
        times = {
            name: [float(row.get(name) or 0) for row in ordered] for name in ("compute_s", "up_s", "down_s")
        }
    except ValueError as error:
        raise ConfigError(f"{path} must hold numbers; got {error}") from None
    if clients != list(range(len(clients))):
        raise ConfigError(f"{path} must have one row for each client from 0 on; got clients {clients[:8]}...")
    return Population.from_times(times["compute_s"], times["up_s"], times["down_s"])
