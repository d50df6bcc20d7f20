"""Data of all clients and a model: everything an experiment trains.

    quadratics   exact quadratics in float64, the laboratory
    load         data sets, partitions and networks by name
    from_torch   your own module and data

Torch is imported when `load` or `from_torch` is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedpace.tasks.names import MODELS, TASKS
from fedpace.tasks.partition import PARTITIONS
from fedpace.tasks.quadratics import Quadratics, quadratics

if TYPE_CHECKING:
    from fedpace.tasks.named import LoadedTask, load
    from fedpace.tasks.own import OwnTask, from_torch
    from fedpace.tasks.torch_task import TorchTask

__all__ = [
    "MODELS",
    "PARTITIONS",
    "TASKS",
    "LoadedTask",
    "OwnTask",
    "Quadratics",
    "TorchTask",
    "from_torch",
    "load",
    "quadratics",
]

_LAZY = {
    "LoadedTask": "named",
    "load": "named",
    "OwnTask": "own",
    "from_torch": "own",
    "TorchTask": "torch_task",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"fedpace.tasks.{_LAZY[name]}"), name)
