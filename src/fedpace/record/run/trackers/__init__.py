"""Experiment trackers: the history is sent to TensorBoard, MLflow or Weights & Biases as it is recorded.

Each is an observer: `fedpace.simulate(..., observers=[TensorBoard("logs", "name")])`, or `fedpace run --track
tensorboard:logs`. Each needs its own extra, `pip install 'fedpace[tensorboard]'` and so on, and is imported on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from fedpace.errors import ConfigError, unknown
from fedpace.on_demand import importing

if TYPE_CHECKING:
    from fedpace.record.run.trackers.mlflow import MLflow
    from fedpace.record.run.trackers.tensorboard import TensorBoard
    from fedpace.record.run.trackers.wandb import WandB

    Tracker: TypeAlias = MLflow | TensorBoard | WandB

__all__ = ["MLflow", "TensorBoard", "WandB", "tracker"]

_HOMES = {"mlflow": ("MLflow",), "tensorboard": ("TensorBoard",), "wandb": ("WandB",)}

__getattr__, __dir__ = importing(__name__, _HOMES)


def tracker(text: str, name: str, config: Mapping[str, str]) -> Tracker:
    """`tensorboard:FOLDER`, `mlflow:EXPERIMENT` or `wandb:PROJECT` for a run of this name and configuration."""
    where = text.partition(":")[2]
    return require(text)(where or "fedpace", name, config)


def require(text: str) -> Callable[[str, str, Mapping[str, str]], Tracker]:
    """The class that `text` asks for; ConfigError if there is none, or its library is not installed."""
    kind = text.partition(":")[0]
    if kind not in _HOMES:
        raise unknown("--track", kind, _HOMES)
    if kind == "tensorboard" and text.partition(":")[2] == "":
        raise ConfigError("--track tensorboard must name a folder: --track tensorboard:logs; got none")
    try:
        made: Callable[[str, str, Mapping[str, str]], Tracker] = __getattr__(*_HOMES[kind])
    except ImportError as error:
        raise ConfigError(
            f"--track {kind} needs a library: pip install 'fedpace[{kind}]' ({error})"
        ) from None
    return made
