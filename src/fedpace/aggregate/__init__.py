"""Aggregation: many updates -> one."""

from fedpace.aggregate.cached import Cached
from fedpace.aggregate.dynamic import DynamicMean
from fedpace.aggregate.mean import Mean
from fedpace.aggregate.mixing import Mixing
from fedpace.aggregate.normalised import Normalised
from fedpace.aggregate.per_step import PerStep
from fedpace.aggregate.pooled import Pooled
from fedpace.aggregate.protocol import Aggregator, Contribution
from fedpace.aggregate.robust import (
    Bucketed,
    CenteredClip,
    GeometricMedian,
    Krum,
    Median,
    NormBound,
    TrimmedMean,
)
from fedpace.aggregate.staleness import Hinge, Polynomial, staleness_weight
from fedpace.aggregate.weighted import Weighted

__all__ = [
    "Aggregator",
    "Bucketed",
    "Cached",
    "CenteredClip",
    "Contribution",
    "DynamicMean",
    "GeometricMedian",
    "Hinge",
    "Krum",
    "Mean",
    "Median",
    "Mixing",
    "NormBound",
    "Normalised",
    "PerStep",
    "Polynomial",
    "Pooled",
    "TrimmedMean",
    "Weighted",
    "staleness_weight",
]
