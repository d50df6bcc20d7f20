"""Pacing: client scheduling, and when the server takes a step."""

from fedpace.pace.arrivals import Arrivals
from fedpace.pace.available import Available
from fedpace.pace.buffered import Buffered
from fedpace.pace.immediate import Immediate
from fedpace.pace.interrupting import Interrupting
from fedpace.pace.polled import Polled
from fedpace.pace.protocol import Continuous, Interruptible, OnDemand, Pace
from fedpace.pace.replayed import Replayed
from fedpace.pace.rounds import Rounds
from fedpace.pace.select import (
    ByShare,
    Poisson,
    Registered,
    Scripted,
    Selection,
    Uniform,
    WithReplacement,
    selection,
)

__all__ = [
    "Arrivals",
    "Available",
    "Buffered",
    "ByShare",
    "Continuous",
    "Immediate",
    "Interruptible",
    "Interrupting",
    "OnDemand",
    "Pace",
    "Poisson",
    "Polled",
    "Registered",
    "Replayed",
    "Rounds",
    "Scripted",
    "Selection",
    "Uniform",
    "WithReplacement",
    "selection",
]
