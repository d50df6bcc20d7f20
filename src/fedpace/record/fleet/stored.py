"""Fleet statuses in the run store: one row per run, replaced with every write."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fedpace.errors import StorageError
from fedpace.record.fleet.status import FleetStatus

if TYPE_CHECKING:
    from fedpace.record.store.store import Store


def write(store: Store, run: int, status: FleetStatus) -> None:
    """Put the status of a run, by its number in the store, in the place of the one before."""
    store.set_fleet(run, status.to_json())


def latest(store: Store, name: str) -> FleetStatus | None:
    """The last status of a run; None if it never had one, StorageError if it is damaged."""
    found = store.fleet(name)
    return None if name not in found else _of(name, found[name])


def all_latest(store: Store) -> list[FleetStatus]:
    """The last status of every run that has one, the oldest run first; those that are damaged are left out."""
    sound = []
    for name, text in store.fleet().items():
        with suppress(StorageError):
            sound.append(_of(name, text))
    return sound


def _of(name: str, text: object) -> FleetStatus:
    status = FleetStatus.read(text)
    if status.run != name:
        raise StorageError(f"the run store has a damaged fleet status: {name!r} has that of {status.run!r}")
    return status
