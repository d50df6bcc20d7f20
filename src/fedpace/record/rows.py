"""Rows of the run store as values, and back; what was read is looked at before anybody relies on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fedpace.errors import StorageError
from fedpace.untrusted import Number, Whole, brief, fits

if TYPE_CHECKING:
    from fedpace.sim.observer import StepRecord

# One or several parts between slashes: a study's runs are STUDY/row/seed. No part can be `..` or empty.
NAME = re.compile(r"(?=.{1,100}$)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
NAMES = "letters, digits, '.', '_' and '-', in parts between slashes, at most 100 in all"


@dataclass(frozen=True, slots=True)
class Entry:
    """One run as the store knows it."""

    id: int
    name: str
    status: str  # running | done | diverged | stopped | stalled | interrupted | failed
    began: datetime
    ended: datetime | None
    algorithm: str
    task: str
    seed: int
    rounds: int
    fingerprint: str
    experiment: Mapping[str, str]  # what decides the outcome
    arguments: Sequence[str]  # of `fedpace run`; empty for a run of a Python program
    about: Mapping[str, Any]  # versions, machine, papers
    counters: Mapping[str, int]
    summary: Mapping[str, Any]
    traffic: Mapping[str, Any]
    note: str
    settings: str  # the parameters it was given


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list of all runs says of one: only what is shown is read, so that thousands are cheap."""

    name: str
    algorithm: str
    task: str
    seed: int
    rounds: int
    status: str
    began: datetime
    settings: str
    steps: int  # taken
    metrics: Mapping[str, float]  # of the newest step that was evaluated


_JSON = ("experiment", "arguments", "about", "counters", "summary", "traffic")
_LANE = dict.fromkeys(
    (
        "frames",
        "header_bytes",
        "payload_bytes",
        "control_bytes",
        "fired",
        "phantom",
        "firing_rate",
        "relative_error",
    ),
    Number,
)
_PRIVACY = {
    **dict.fromkeys(("epsilon", "delta", "noise_multiplier", "clip"), Number),
    **dict.fromkeys(("accountant", "adjacency", "mechanism"), str),
    **dict.fromkeys(("uses", "clients", "cohort", "tree_steps"), Whole),
}
_SHAPES: dict[str, object] = {
    "id": Whole,
    **dict.fromkeys(("name", "status", "algorithm", "task", "fingerprint", "note", "settings"), str),
    "began": datetime,
    "ended": (datetime, None),
    "seed": Whole,
    "rounds": Whole,
    "experiment": {str: str},
    "arguments": [str],
    "about": {str: object},
    "counters": {str: Whole},
    "summary": {str: object},
    "traffic": {str: {str: object}},
}
_INSIDE: dict[str, dict[str, object]] = {  # what must be of this shape where it is there
    "about": {
        "versions": {str: object},
        "machine": {str: object},
        "papers": [str],
        "study": {"name": str, "row": str, "place": Whole},
        "made_by": {str: str},
        "parent": {str: str},
        "partition": {"samples": [Number], "labels": [[Whole]]},
    },
    "summary": {
        "real_seconds": Number,
        "warm_up_seconds": Number,
        "compute": str,
        "local_step": str,
        "initial_metrics": {str: Number},
        "client_metric": {"metric": str, "values": [Number]},
        "privacy": _PRIVACY,
        "parent": {str: str},
    },
    "traffic": {"up": _LANE, "down": _LANE},
}


def entry(row: Any) -> Entry:
    """A row of the table of runs; StorageError if it is none that fedpace has written."""
    found = {each.name: _read(row, each.name, each.name in _JSON) for each in fields(Entry)}
    wrong = [name for name, shape in _SHAPES.items() if not fits(found[name], shape)]
    wrong += [name for name in _INSIDE if name not in wrong and not _fits_inside(found[name], _INSIDE[name])]
    if not wrong and not NAME.fullmatch(found["name"]):
        wrong = ["name"]
    if wrong:
        raise _damaged(found["name"], wrong)
    return Entry(**found)


LISTED = ("id", *(each.name for each in fields(Listed)))  # columns, as far as runs have them
_LISTED: dict[str, object] = {
    **{name: shape for name, shape in _SHAPES.items() if name in LISTED[1:]},
    "steps": Whole,
    "metrics": {str: Number},
}


def listed(row: Any) -> Listed:
    """A row of the list of runs; StorageError if it is none that fedpace has written."""
    found = {name: _read(row, name, name == "metrics") for name in _LISTED}
    wrong = [name for name, shape in _LISTED.items() if not fits(found[name], shape)]
    if not wrong and not NAME.fullmatch(found["name"]):
        wrong = ["name"]
    if wrong == ["metrics"]:
        raise StorageError(f"the run store has a damaged step of run {row.id!r}: metrics of another kind")
    if wrong:
        raise _damaged(found["name"], wrong)
    return Listed(**found)


def _damaged(name: object, wrong: Sequence[str]) -> StorageError:
    return StorageError(f"the run store has a damaged run, {name!r}: {', '.join(wrong)} of another kind")


def _fits_inside(value: Mapping[str, object], shapes: Mapping[str, object]) -> bool:
    return all(fits(value[name], shape) for name, shape in shapes.items() if name in value)


def _read(row: Any, name: str, is_json: bool) -> Any:
    """A column as it is; of JSON, what it says, or something that no column has."""
    value = getattr(row, name)
    if not is_json:
        return value
    try:
        return json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return None


def tags(text: object) -> list[str]:
    """Tags as they are stored; none if they are of another kind."""
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):
        return []
    return found if fits(found, [str]) else []


def facts(entry: Entry) -> dict[str, str]:
    """Configuration, command, versions and machine, as text."""
    command = " ".join(["fedpace run", *entry.arguments]) if entry.arguments else ""
    groups = {
        group: ", ".join(f"{name} {value}" for name, value in entry.about.get(group, {}).items())
        for group in ("versions", "machine")
    }
    return {**entry.experiment, "command": command, **groups}


def clients(entry: Entry) -> int:
    """Those of the task, including those that never participated."""
    text = entry.experiment.get("clients", "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise StorageError(f"the run store has a damaged run, {entry.name!r}: its clients are {brief(text)}")
    return int(text)


def plain(run: int, record: StepRecord, real_seconds: float | None = None) -> dict[str, object]:
    """A step as a row of its table."""
    return {
        "run": run,
        "version": record.version,
        "virtual_seconds": record.virtual_seconds,
        "clients": json.dumps(record.clients),
        "staleness": json.dumps(record.staleness),
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "metrics": json.dumps({name: float(value) for name, value in record.metrics.items()}),
        "epsilon": record.epsilon,
        "clipped": record.clipped,
        "real_seconds": real_seconds,
    }


STEP: dict[str, object] = {
    "version": Whole,
    "virtual_seconds": Number,
    "clients": [Whole],
    "staleness": [Whole],
    "bytes_up": Whole,
    "bytes_down": Whole,
    "metrics": {str: Number},
    "epsilon": (Number, None),
    "clipped": (Whole, None),
}


def record(row: Any) -> StepRecord:
    """A row of the table of steps; StorageError if it is none that fedpace has written."""
    texts = ("clients", "staleness", "metrics")
    found = {name: _read(row, name, name in texts) for name in STEP}
    wrong = [name for name, shape in STEP.items() if not fits(found[name], shape)]
    if wrong:
        raise StorageError(
            f"the run store has a damaged step of run {row.run!r}: {', '.join(wrong)} of another kind"
        )
    return step(found)


def step(found: Mapping[str, Any]) -> StepRecord:
    """The step with these fields."""
    from fedpace.sim.observer import StepRecord  # not for a list of runs

    return StepRecord(
        found["version"],
        found["virtual_seconds"],
        tuple(found["clients"]),
        tuple(found["staleness"]),
        found["bytes_up"],
        found["bytes_down"],
        found["metrics"],
        clipped=found["clipped"] or 0,
        epsilon=found["epsilon"],
    )
