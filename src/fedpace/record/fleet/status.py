"""A fleet's status as one plain value, and as JSON, of which nothing is believed when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from fedpace.errors import StorageError
from fedpace.record.rows import NAME
from fedpace.untrusted import Number, Whole, brief, fits

STATES = ("training", "idle", "silent", "offline", "suspended")
ALARMS = ("nobody_online", "updates_refused", "certificate_expires", "disk_nearly_full")
MOST_BYTES = 256 << 20  # of one record: about a million clients
MOST_REASONS, MOST_ALARMS, LONGEST_TEXT = 64, 64, 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """One client; its counters begin with the server process. `round_trip`: from a model to its update, the newest."""

    client: int
    state: str  # one of STATES
    version: int | None  # of the model it was sent last
    round_trip: float | None  # seconds
    bytes_up: int
    bytes_down: int
    updates: int  # taken
    refused: int
    last_seen: float | None  # epoch seconds


@dataclass(frozen=True, slots=True)
class FleetAlarm:
    kind: str  # one of ALARMS
    text: str


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """A deployed run at one moment. `online` = training or idle, `active` = training; bytes are those of the run."""

    time: float  # epoch seconds; an old one is that of a server that no longer runs
    run: str
    step: int
    steps: int | None
    step_rate: float  # steps per second over the last minute
    online: int
    active: int
    silent: int
    bytes_up: int
    bytes_down: int
    refused: Mapping[str, int]  # connections, messages and updates, by reason
    clients: tuple[ClientStatus, ...]
    alarms: tuple[FleetAlarm, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def read(cls, text: object) -> FleetStatus:
        """The status in a JSON text; StorageError names the field that is of another kind."""
        found = _parsed(text)
        _require(found, _SHAPE, "")
        _require_ranges(found)
        clients = tuple(_made(ClientStatus, client) for client in found["clients"])
        alarms = tuple(_made(FleetAlarm, alarm) for alarm in found["alarms"])
        return _made(cls, {**found, "clients": clients, "alarms": alarms})


_SHAPE: dict[str, object] = {
    "time": Number,
    "run": str,
    "step": Whole,
    "steps": (Whole, None),
    "step_rate": Number,
    **dict.fromkeys(("online", "active", "silent", "bytes_up", "bytes_down"), Whole),
    "refused": {str: Whole},
    "clients": [dict],
    "alarms": [dict],
}
_CLIENT: dict[str, object] = {
    "client": Whole,
    "state": str,
    "version": (Whole, None),
    "round_trip": (Number, None),
    **dict.fromkeys(("bytes_up", "bytes_down", "updates", "refused"), Whole),
    "last_seen": (Number, None),
}
_ALARM: dict[str, object] = {"kind": str, "text": str}


def _parsed(text: object) -> dict[str, Any]:
    if not isinstance(text, str) or len(text) > MOST_BYTES:
        raise _damaged("the record", text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged("the record", text) from None
    if not isinstance(found, dict):
        raise _damaged("the record", found)
    return found


def _require(found: Mapping[str, Any], shape: Mapping[str, object], where: str) -> None:
    for name, of in shape.items():
        if name not in found or not fits(found[name], of):
            raise _damaged(f"{where}{name}", found.get(name))
        if isinstance(found[name], int | float) and found[name] < 0:
            raise _damaged(f"{where}{name}", found[name])


def _require_ranges(found: Mapping[str, Any]) -> None:
    if not NAME.fullmatch(found["run"]):
        raise _damaged("run", found["run"])
    refused = found["refused"]
    short = all(len(reason) <= LONGEST_TEXT for reason in refused)
    if len(refused) > MOST_REASONS or not short or min(refused.values(), default=0) < 0:
        raise _damaged("refused", refused)
    for at, client in enumerate(found["clients"]):
        _require(client, _CLIENT, f"clients[{at}].")
        if client["state"] not in STATES:
            raise _damaged(f"clients[{at}].state", client["state"])
    numbers = [client["client"] for client in found["clients"]]
    if len(set(numbers)) < len(numbers):
        raise _damaged("clients", "one of them twice")
    if len(found["alarms"]) > MOST_ALARMS:
        raise _damaged("alarms", len(found["alarms"]))
    for at, alarm in enumerate(found["alarms"]):
        _require(alarm, _ALARM, f"alarms[{at}].")
        if alarm["kind"] not in ALARMS or len(alarm["text"]) > LONGEST_TEXT:
            raise _damaged(f"alarms[{at}]", alarm)


def _made(kind: Callable[..., T], found: Mapping[str, Any]) -> T:
    """The value with these fields; what a newer fedpace added is left out."""
    known: Any = kind
    return kind(**{each.name: found[each.name] for each in fields(known)})


def _damaged(what: str, got: object) -> StorageError:
    return StorageError(f"the run store has a damaged fleet status: {what} is {brief(got)}")
