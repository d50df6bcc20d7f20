"""Who runs local solves."""

from fedpace.compute.inline import Inline
from fedpace.compute.protocol import Engine, Request, Task
from fedpace.errors import require, require_count

ENGINES = ("auto", "inline", "pool", "vectorised")

__all__ = ["ENGINES", "Engine", "Inline", "Request", "Task", "engine"]


def engine(name: str, task: Task, workers: int = 1) -> Engine:
    """The engine of that name for a task."""
    require(name in ENGINES, "compute", name, "one of " + ", ".join(ENGINES))
    require_count(workers, "workers")
    if name == "pool" or (name == "vectorised" and workers > 1):
        from fedpace.compute.pool import Pool

        return Pool(task, workers, together=name == "vectorised")
    if name == "vectorised":
        from fedpace.compute.vectorised import Vectorised

        return Vectorised(task)
    return Inline(task)
