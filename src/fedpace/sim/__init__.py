"""The virtual clock: timeline, devices, simulation."""

from fedpace.sim import presets
from fedpace.sim.distributions import Between, Inverse
from fedpace.sim.observer import Observer
from fedpace.sim.population import Devices, Population

__all__ = [
    "Between",
    "Devices",
    "Inverse",
    "Observer",
    "Population",
    "presets",
]
