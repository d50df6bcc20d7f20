"""Conformance: what every rule of a kind promises, as functions an author of a new one can call.

Each raises AssertionError that says which promise was broken, and returns None otherwise. `all` finds out which kind
a rule is and returns what it found.
"""

from fedpace.check.aggregators import check_aggregator
from fedpace.check.canaries import Canaries
from fedpace.check.findings import Findings, all
from fedpace.check.links import check_codec, check_downlink, check_uplink
from fedpace.check.local import check_correction, check_local
from fedpace.check.optimizers import check_server_opt
from fedpace.check.pace import check_pace
from fedpace.check.personal import check_personal
from fedpace.check.simulation import Invariants

__all__ = [
    "Canaries",
    "Findings",
    "Invariants",
    "all",
    "check_aggregator",
    "check_codec",
    "check_correction",
    "check_downlink",
    "check_local",
    "check_pace",
    "check_personal",
    "check_server_opt",
    "check_uplink",
]
