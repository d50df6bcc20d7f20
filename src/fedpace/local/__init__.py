"""Stop 1: what a client computes, how much of it, and how its gradients weigh."""

from fedpace.local.correction import Correction
from fedpace.local.descend import clipped, descend, descend_until
from fedpace.local.scaffold import Scaffold
from fedpace.local.sgd import SGD
from fedpace.local.until import Stopped, until
from fedpace.local.variance_reduced import VarianceReduced

__all__ = [
    "SGD",
    "Correction",
    "Scaffold",
    "Stopped",
    "VarianceReduced",
    "clipped",
    "descend",
    "descend_until",
    "until",
]
