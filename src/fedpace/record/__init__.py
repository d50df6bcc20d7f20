"""What was learned and what it cost: history, pictures, files."""

from fedpace.record.history import History
from fedpace.record.keeper import Checkpoints
from fedpace.record.run import Run

__all__ = ["Checkpoints", "History", "Run"]
