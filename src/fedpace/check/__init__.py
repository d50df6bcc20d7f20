"""Conformance: what every rule of a kind promises, as functions an author of a new one can call.

Each raises AssertionError that says which promise was broken, and returns None otherwise.
"""

from fedpace.check.links import check_codec, check_downlink, check_uplink

__all__ = ["check_codec", "check_downlink", "check_uplink"]
