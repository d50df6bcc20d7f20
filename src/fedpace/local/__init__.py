"""Stop 1: what a client computes, how much of it, and how its gradients weigh."""

from fedpace.local.descend import clipped, descend
from fedpace.local.sgd import SGD

__all__ = ["SGD", "clipped", "descend"]
