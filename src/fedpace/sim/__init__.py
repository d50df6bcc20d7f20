"""The virtual clock: timeline, devices, simulate."""

from fedpace.sim import presets
from fedpace.sim.laws import Between, Inverse
from fedpace.sim.population import Devices, Population
from fedpace.sim.watcher import Watcher

__all__ = [
    "Between",
    "Devices",
    "Inverse",
    "Population",
    "Watcher",
    "presets",
]
