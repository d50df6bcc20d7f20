"""Local training: the rule, the number of local steps, and the weights of the gradients."""

from fedpace.local.by_step import Cosine, ScheduledSGD, StepDecay, Warmup, at_step
from fedpace.local.correction import Correction
from fedpace.local.descend import clipped, descend, descend_until
from fedpace.local.personal import Ditto, DynamicTerm, Private
from fedpace.local.scaffold import Scaffold
from fedpace.local.sgd import SGD
from fedpace.local.torch_optimizer import Torch
from fedpace.local.until import Stopped, until
from fedpace.local.variance_reduced import VarianceReduced

__all__ = [
    "SGD",
    "Correction",
    "Cosine",
    "Ditto",
    "DynamicTerm",
    "Private",
    "Scaffold",
    "ScheduledSGD",
    "StepDecay",
    "Stopped",
    "Torch",
    "VarianceReduced",
    "Warmup",
    "at_step",
    "clipped",
    "descend",
    "descend_until",
    "until",
]
