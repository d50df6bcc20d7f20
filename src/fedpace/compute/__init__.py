"""Engines: where local training runs.

- `inline`: this process, when a result is needed: the reference;
- `pool`: worker processes, ahead of need; bit-identical to `inline` for any number of workers;
- `vectorised`: many clients as one computation, alone or in a pool; within rounding of `inline`;
- `ray`: the pool over a Ray cluster (extra `ray`);
- `auto`: `inline` or `pool`, by task, model and local rule.
"""

from typing import Any

from fedpace import logs
from fedpace.compute.auto import choose
from fedpace.compute.inline import Inline
from fedpace.compute.memory import keep_freed
from fedpace.compute.pins import Pin
from fedpace.compute.protocol import Engine, Request, Task, memory_size
from fedpace.compute.together import rounding
from fedpace.errors import require_count, unknown
from fedpace.local import SGD

ENGINES = ("auto", "inline", "pool", "vectorised", "ray")

__all__ = [
    "ENGINES",
    "Engine",
    "Inline",
    "Request",
    "Task",
    "chosen",
    "engine",
    "processes_of",
    "rounding_of",
]


def engine(name: str, task: Task, workers: int = 1, local: SGD | None = None) -> Engine:
    """The engine of that name for a task; `auto` also looks at the local rule."""
    pick = chosen(name, task, workers, local)
    keep_freed()
    made = _pool(pick, task, local) if _has_workers(pick) else _alone(pick.engine, task, pick.workers)
    if solving := getattr(task, "solving", ""):
        made.name += f", {solving}"
    return made


def chosen(name: str, task: Task, workers: int = 1, local: SGD | None = None) -> Pin:
    """The engine that this name stands for, and its workers."""
    if name not in ENGINES:
        raise unknown("compute", name, ENGINES)
    require_count(workers, "workers")
    return choose(task, workers, local) if name == "auto" else Pin(name, workers)


def rounding_of(name: str, task: Task, workers: int = 1, local: SGD | None = None) -> str:
    """`Engine.rounding` of the engine of that name, which is not made for it."""
    return rounding(task, together=chosen(name, task, workers, local).engine == "vectorised")


def processes_of(name: str, task: Task, workers: int = 1, local: SGD | None = None) -> int:
    """Worker processes on this machine of the engine of that name; 1: it has none, or one."""
    pick = chosen(name, task, workers, local)
    return pick.workers if _has_workers(pick) else 1


def _has_workers(chosen: Pin) -> bool:
    return chosen.engine == "pool" or (chosen.engine == "vectorised" and chosen.workers > 1)


def _pool(chosen: Pin, task: Task, local: Any) -> Engine:
    """Worker processes; this one alone, with a line that says so, where they cannot have the task."""
    from fedpace.compute.pool import Pool
    from fedpace.compute.process import NoWorkerError

    try:
        together, kept = chosen.engine == "vectorised", memory_size(task, local)
        return Pool(task, chosen.workers, together=together, memory=kept)
    except NoWorkerError as error:
        alone = _alone(chosen.engine, task, 1)
        logs.warn(f"{error}; local training runs in this process ({alone.name})", stacklevel=4)
        return alone


def _alone(name: str, task: Task, workers: int) -> Engine:
    if name == "vectorised":
        from fedpace.compute.vectorised import Vectorised

        return Vectorised(task)
    if name == "ray":
        from fedpace.compute.cluster import Cluster

        return Cluster(task, workers)
    return Inline(task)
