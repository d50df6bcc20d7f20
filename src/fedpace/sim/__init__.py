"""The virtual clock: timeline, devices, simulation."""

from fedpace.sim import presets
from fedpace.sim.distributions import Between, Inverse
from fedpace.sim.hostile import Hostile
from fedpace.sim.observer import Observer
from fedpace.sim.population import Devices, Population

__all__ = [
    "Between",
    "Devices",
    "Hostile",
    "Inverse",
    "Observer",
    "Population",
    "presets",
]
