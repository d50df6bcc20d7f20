"""Personalisation: what clients keep for themselves."""

from fedpace.local.personal.ditto import Ditto
from fedpace.local.personal.dynamic import DynamicTerm
from fedpace.local.personal.parts import Parts
from fedpace.local.personal.private import Private
from fedpace.local.personal.protocol import Personal

__all__ = ["Ditto", "DynamicTerm", "Parts", "Personal", "Private"]
