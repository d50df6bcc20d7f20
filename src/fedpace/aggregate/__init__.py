"""Stop 3: many updates -> one."""

from fedpace.aggregate.mean import Mean
from fedpace.aggregate.normalised import Normalised
from fedpace.aggregate.protocol import Aggregator, Contribution
from fedpace.aggregate.weighted import Weighted

__all__ = [
    "Aggregator",
    "Contribution",
    "Mean",
    "Normalised",
    "Weighted",
]
