"""Aggregation that survives some hostile clients: it sees all updates of a step before it combines them."""

from fedpace.aggregate.robust.bucketed import Bucketed
from fedpace.aggregate.robust.centered_clip import CenteredClip
from fedpace.aggregate.robust.geometric_median import GeometricMedian
from fedpace.aggregate.robust.krum import Krum
from fedpace.aggregate.robust.median import Median
from fedpace.aggregate.robust.norm_bound import NormBound
from fedpace.aggregate.robust.trimmed_mean import TrimmedMean

__all__ = ["Bucketed", "CenteredClip", "GeometricMedian", "Krum", "Median", "NormBound", "TrimmedMean"]
