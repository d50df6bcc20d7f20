"""`--population`: devices from a preset, a distribution or a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli.parser import LARGEST
from fedpace.errors import ConfigError, nearest, suggested
from fedpace.untrusted import brief, visible

if TYPE_CHECKING:
    from fedpace.sim import Population

FORMS = {
    "defedavg": "the DeFedAvg paper's devices on FashionMNIST: slowdown uniform on [1, 5], 10 GFLOP/s, 400 Mbit/s, "
    "transfers in the background; "
    "17.0 MFLOP per local step of its CNN, other models by their multiply-accumulates",
    "defedavg:cifar10": "the same with 31.4 MFLOP per local step of the CNN for CIFAR-10",
    "ca2fl": "the CA2FL paper's devices: local training takes s + |N(0, 1)| seconds, s uniform on (0, 5) per client",
    "uniform-slowdown:LOW,HIGH": "as defedavg, with a different range of slowdowns",
    "half-normal:SCALE[,BASE]": "local training takes BASE + |N(0, s)| seconds, s uniform on (0, SCALE) per client",
    "exponential:MEAN": "local training takes an exponentially distributed time",
    "FILE": "CSV with columns client, compute_s and optionally up_s, down_s; or client, from, to",
}
_NUMBERS = {"uniform-slowdown": (2, 2), "half-normal": (1, 2), "exponential": (1, 1)}  # min and max


def population(text: str | None) -> Population | None:
    """The devices that `text` names; None: one second per local training and free transfer."""
    if text is None:
        return None
    if text.startswith("Population("):
        from fedpace.study.rebuild import population_from

        return population_from(text)  # type: ignore[no-any-return]
    name, _, rest = text.partition(":")
    if text == "ca2fl" or name == "defedavg":
        return _preset(name, rest)
    if name in _NUMBERS:
        numbers = _numbers(rest.split(",") if rest else [])
        low, high = _NUMBERS[name]
        if numbers is not None and low <= len(numbers) <= high:
            return _distribution(name, numbers)
    elif Path(text).is_file():
        return _from_file(Path(text))
    elif Path(text).suffix or "/" in text:
        raise ConfigError(
            f"--population must be an existing file, or one of {', '.join(FORMS)}; got {brief(text)}"
        )
    known = ("defedavg", "ca2fl", *_NUMBERS)
    near = "" if name in known else nearest(name, known)
    meant = visible(text.replace(name, near, 1)) if near else ""
    raise ConfigError(suggested(meant, f"--population must be one of {', '.join(FORMS)}; got {brief(text)}"))


def _preset(name: str, dataset: str) -> Population:
    from fedpace.sim import presets

    return presets.ca2fl() if name == "ca2fl" else presets.defedavg(dataset or "fashionmnist")


def _distribution(name: str, numbers: Sequence[float]) -> Population:
    from fedpace.sim import Population, presets

    make: dict[str, Callable[..., Population]] = {
        "uniform-slowdown": partial(presets.defedavg, "fashionmnist"),
        "half-normal": Population.half_normal,
        "exponential": Population.exponential,
    }
    return make[name](*numbers)


def _numbers(words: Sequence[str]) -> list[float] | None:
    """As numbers, or None if any is something else."""
    number = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
    found = [float(word) for word in words if re.fullmatch(number, word.strip())]
    tame = all(abs(value) <= LARGEST for value in found)
    return found if len(found) == len(words) and tame else None


def _from_file(path: Path) -> Population:
    from fedpace.sim import Population
    from fedpace.sim.traces import read_table, read_trace

    columns, rows = read_table(path, "--population")
    if {"client", "from", "to"} <= set(columns):
        return Population(solve_s=1.0).with_windows(read_trace(path))
    if {"client", "compute_s"} <= set(columns):
        return _from_times(rows, path)
    allowed = FORMS["FILE"].removeprefix("CSV with ")
    raise ConfigError(f"{path} must have {allowed}; got {brief(sorted(columns))}")


def _from_times(rows: Sequence[dict[str, str]], path: Path) -> Population:
    from fedpace.sim import Population

    try:
        ordered = sorted(rows, key=lambda row: int(row["client"]))
        clients = [int(row["client"]) for row in ordered]
        times = {
            name: [float(row.get(name) or 0) for row in ordered] for name in ("compute_s", "up_s", "down_s")
        }
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} must hold numbers; got {str(error)[:200]}") from None
    if not all(0 <= seconds <= LARGEST for column in times.values() for seconds in column):
        raise ConfigError(f"{path} must hold seconds from 0 to {LARGEST:g}; got others")
    if clients != list(range(len(clients))):
        raise ConfigError(f"{path} must have one row for each client from 0 on; got clients {clients[:8]}...")
    return Population.from_times(times["compute_s"], times["up_s"], times["down_s"])
