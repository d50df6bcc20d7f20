"""What was learned and what it cost: history, pictures, files."""

from fedpace.record.run.history import History
from fedpace.record.run.run import Run
from fedpace.record.store.checkpointer import Checkpoints

__all__ = ["Checkpoints", "History", "Run"]
