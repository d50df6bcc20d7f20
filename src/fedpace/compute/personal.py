"""A task as an algorithm with personalisation trains it: some parameters, or models, stay on the clients."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute.protocol import Request, Task
from fedpace.errors import require
from fedpace.local.personal import Personal
from fedpace.vector import Vector, freeze

T = TypeVar("T")  # any task: one that trains, or what a server has, which only lays out a model
SAME = (  # of the task beneath, as they are
    *("batches", "call_s", "client_tests", "data", "device", "model", "multiply_accumulates", "network"),
    *("parts", "partition", "prepare", "running_statistics", "sizes", "solving", "warm_up"),
)
OF_A_MODEL = (  # functions of a whole model
    *("evaluate", "evaluate_clients", "evaluate_with", "sums", "training_loss"),
)
TENSORS = ("other_tensors", "tensors_with")  # likewise; they return what the layout does not have


class PersonalTask:
    """The shared parameters of a task. Each client's private ones, or its own model, are in its memory.

    Where a whole model is asked for without a client, the private parameters are those before training.
    """

    def __init__(self, whole: Task, rule: Personal, seed: int) -> None:
        self.whole, self.rule, self.seed = whole, rule, seed
        self.name, self.clients = whole.name, getattr(whole, "clients", 0)
        self.split = rule.parts(whole.layout, getattr(whole, "batch_norm", ()))
        self.layout = self.split.shared

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return getattr(self.__dict__["whole"], name)
        if name not in (*OF_A_MODEL, *TENSORS, "mislabelled"):
            raise AttributeError(name)
        found = getattr(self.__dict__["whole"], name)
        if name == "mislabelled":
            return lambda clients: PersonalTask(found(clients), self.rule, self.seed)
        if name in OF_A_MODEL:
            return lambda x, *more: found(self.personal(x, None), *more)
        return lambda x, *more: {**found(self.personal(x, None), *more), **self._private_tensors}

    def __repr__(self) -> str:
        return repr(self.whole)

    @property
    def normalisers(self) -> Mapping[str, int]:
        """Layers whose statistics clients pool: none where models differ from client to client."""
        return {} if self.split.private.size else getattr(self.whole, "normalisers", {})

    def initial(self, seed: int) -> Vector:
        """The shared parameters before training."""
        return freeze(self.split.shared_of(self.whole.initial(seed)))

    def samples(self, client: int) -> float:
        return self.whole.samples(client)

    def memory_size(self, local: Any) -> int:
        return self.rule.memory_size(self.split)

    def solve(self, request: Request) -> Vector:
        """The displacement of the shared parameters, and behind it what the client keeps."""
        delta, memory = self.rule.train(request, self.split, self._private, self.whole.solve)
        return np.concatenate([delta, memory])

    def personal(self, x: Vector, memory: Vector | None) -> Vector:
        """The whole model of a client with this memory; None: of one that was never trained."""
        return self.rule.model(x, memory, self.split, self._private)

    @cached_property
    def _private(self) -> Vector:
        """The private parameters before training."""
        return freeze(self.split.private_of(self.whole.initial(self.seed)))

    @property
    def _private_tensors(self) -> Mapping[str, Vector]:
        return self.split.private.split(self._private)


def personal_task(task: T, algorithm: Algorithm, seed: int) -> T:
    """The task as this algorithm trains it: itself, unless something stays on the clients."""
    rule = algorithm.personal
    if rule is None or isinstance(task, PersonalTask):
        return task
    trains: Any = hasattr(task, "solve") and getattr(rule, "first", None) is not None
    freezes = not trains or getattr(task, "freezes", False)
    require(freezes, "task", task, f"one that can leave parameters as they are, for {rule}")
    return cast(T, PersonalTask(cast(Task, task), rule, seed))
