"""The fleet of a deployed run as its server sees it: one status record per run, replaced every second."""

from fedpace.record.fleet.status import ALARMS, STATES, ClientStatus, FleetAlarm, FleetStatus
from fedpace.record.fleet.stored import all_latest, latest, write

__all__ = [
    "ALARMS",
    "STATES",
    "ClientStatus",
    "FleetAlarm",
    "FleetStatus",
    "all_latest",
    "latest",
    "write",
]
