"""Training loss along a run: the loss over all clients' data at every evaluation, where a figure of a paper has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedpace.compute import Task
from fedpace.reproduce.cell import TaskMaker
from fedpace.reproduce.results import Results
from fedpace.vector import Vector

METRIC = "training loss"


@dataclass(frozen=True, slots=True)
class WithTrainingLoss:
    """The same task; an evaluation has the loss over all clients' data beside the test metrics."""

    task: TaskMaker

    def __call__(self, seed: int) -> Task:
        measured: Any = _Watched(self.task(seed))
        return measured  # type: ignore[no-any-return]


class _Watched:
    def __init__(self, task: Task) -> None:
        self._task: Any = task

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._task, name)

    def __repr__(self) -> str:
        return repr(self._task)

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        return {**self._task.evaluate(x), METRIC: float(self._task.training_loss(x))}


def have_training_loss(results: Results, cells: Iterable[str]) -> bool:
    """Whether all of these cells were run, with this metric."""
    found = [results.of(name) if results.have(name) else [] for name in cells]
    return all(runs and all(run.values(METRIC) for run in runs) for runs in found)
