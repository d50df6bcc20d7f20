"""Choices that `fedpace bench tune` measured and pinned, for `auto` to follow.

A pin belongs to a kind of work: task, model, local rule, the versions of what computes, device and precision. It
lives in `tuned.json` in FEDPACE_HOME; without that file nothing is pinned.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedpace.compute.protocol import Task
from fedpace.disk import files
from fedpace.disk.home import home
from fedpace.local import SGD

COMPUTES = ("numpy", "numba", "torch")  # whose versions decide how fast what is


@dataclass(frozen=True, slots=True)
class Pin:
    engine: str
    workers: int


def kind(task: Task, local: SGD) -> str:
    """What a pin is for, in one line."""
    model = getattr(task, "model", type(getattr(task, "network", task)).__name__)
    work = f"steps={local.steps} epochs={local.epochs} batch_size={local.batch_size}"
    rule = f"momentum={local.momentum} prox_mu={local.prox_mu} clip={local.clip}"
    versions = " ".join(f"{name}={_version(name)}" for name in COMPUTES)
    where = getattr(getattr(task, "device", None), "label", "")
    return f"{task.name} {model} parameters={task.layout.size} {work} {rule} {versions}{where}"


def find(task: Task, local: SGD | None) -> Pin | None:
    """The choice pinned for this work, if any."""
    pinned = _read()
    found = pinned.get(kind(task, local)) if pinned and local is not None else None
    return None if found is None else Pin(str(found["engine"]), int(found["workers"]))


def keep(task: Task, local: SGD, pin: Pin) -> Path:
    """Pin a choice; where that was written."""
    pinned = _read() | {kind(task, local): {"engine": pin.engine, "workers": pin.workers}}
    _file().parent.mkdir(parents=True, exist_ok=True)
    files.write(_file(), (json.dumps(pinned, indent=1, sort_keys=True) + "\n").encode())
    return _file()


def _read() -> dict[str, dict[str, Any]]:
    try:
        pinned: dict[str, dict[str, Any]] = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}
    return pinned


def _file() -> Path:
    return home() / "tuned.json"


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
