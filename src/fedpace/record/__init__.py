"""What was learned and what it cost: history, pictures, files.

Imported when first used: a list of saved runs needs neither numpy nor a simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedpace.on_demand import importing

if TYPE_CHECKING:
    from fedpace.record.run.history import History
    from fedpace.record.run.run import Run
    from fedpace.record.store.checkpointer import Checkpoints

__all__ = ["Checkpoints", "History", "Run"]

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them
    _HOMES = {"run.history": ("History",), "run.run": ("Run",), "store.checkpointer": ("Checkpoints",)}
    __getattr__, __dir__ = importing(__name__, _HOMES)
