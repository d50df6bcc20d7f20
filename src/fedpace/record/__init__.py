"""What was learned and what it cost: history, pictures, files.

Imported when first used: a list of saved runs needs neither numpy nor a simulation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpace.record.run.history import History
    from fedpace.record.run.run import Run
    from fedpace.record.store.checkpointer import Checkpoints

__all__ = ["Checkpoints", "History", "Run"]

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them
    _HOMES = {
        "Checkpoints": "fedpace.record.store.checkpointer",
        "History": "fedpace.record.run.history",
        "Run": "fedpace.record.run.run",
    }

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'fedpace.record' has no attribute {name!r}")
