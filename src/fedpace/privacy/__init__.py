"""Differential privacy for clients: a rule around aggregation, with its accounting."""

from fedpace.privacy.accounting import Accounting, accounting_of, calibrated
from fedpace.privacy.aggregation import PrivateSum
from fedpace.privacy.client_dp import AdaptiveClip, ClientDP
from fedpace.privacy.noise import KeyedNoise, NoiseSource, SeededNoise
from fedpace.privacy.spent import Composed, Privacy, composed

__all__ = [
    "Accounting",
    "AdaptiveClip",
    "ClientDP",
    "Composed",
    "KeyedNoise",
    "NoiseSource",
    "Privacy",
    "PrivateSum",
    "SeededNoise",
    "accounting_of",
    "calibrated",
    "composed",
]
