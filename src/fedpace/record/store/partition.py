"""Client by client: how much data each has, of which classes, and what a model achieves on it."""

from __future__ import annotations

from typing import Any

from fedpace.client_spread import ClientSpread
from fedpace.compute.protocol import Task
from fedpace.vector import Vector

MOST_CLIENTS = 1000
MOST_COUNTS = 20_000  # clients times classes
CHEAP_SAMPLES = 20_000  # beyond that, evaluating every client's own data would take too long


def partition(task: Task) -> dict[str, Any]:
    """Samples per client, and per client and class where the task has labels; empty for very many clients."""
    if task.clients > MOST_CLIENTS:
        return {"samples": [], "labels": []}
    return {"samples": [task.samples(client) for client in range(task.clients)], "labels": _labels(task)}


def client_metric(task: Task, model: Vector) -> ClientSpread | None:
    """The metric of `task.evaluate_clients` and its value for each client; None where that is not known cheaply."""
    evaluate: Any = getattr(task, "evaluate_clients", None)
    if evaluate is None or task.clients > MOST_CLIENTS or not _is_cheap(task):
        return None
    found: ClientSpread = evaluate(model)
    return found


def _is_cheap(task: Task) -> bool:
    """Named tasks need one pass over their test data, others one over all clients' data."""
    return hasattr(task, "parts") or sum(map(task.samples, range(task.clients))) <= CHEAP_SAMPLES


def _labels(task: Any) -> list[list[int]]:
    parts, data = getattr(task, "parts", None), getattr(task, "data", None)
    if parts is None or data is None or data.y_train.ndim != 1 or task.clients * data.classes > MOST_COUNTS:
        return []
    return [list(map(int, column)) for column in data.counts(parts).T]
