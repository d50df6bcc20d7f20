"""The virtual clock: timeline, devices, simulate."""

from fedpace.sim import presets
from fedpace.sim.laws import Between, Inverse
from fedpace.sim.population import Devices, Population
from fedpace.sim.recorder import Activity, Fate, Recorder, StepRecord
from fedpace.sim.watcher import Watcher

__all__ = [
    "Activity",
    "Between",
    "Devices",
    "Fate",
    "Inverse",
    "Population",
    "Recorder",
    "StepRecord",
    "Watcher",
    "presets",
]
