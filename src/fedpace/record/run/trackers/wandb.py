"""Weights & Biases: a run in a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import wandb

from fedpace.record.run.trackers.values import Values
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector


class WandB(Observer):
    """Metrics by server step; the name identifies the run, so that a resumed run continues it."""

    def __init__(self, project: str, name: str, config: Mapping[str, str] | None = None) -> None:
        self._values = Values()
        self._run = wandb.init(project=project, name=name, id=name, resume="allow", config=dict(config or {}))

    def begun(self, metrics: Mapping[str, float]) -> None:
        self._run.log(self._values.initial(metrics), step=0)

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._run.log(self._values.of(record), step=record.version)

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        self._values.resume(steps)

    def close(self) -> None:
        self._run.finish()
