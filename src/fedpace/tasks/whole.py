"""Metrics of a whole data set: F1 or AUC are no means over batches, so they see all outputs and targets at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedpace import logs
from fedpace.errors import ConfigError
from fedpace.tasks.objective import Measure

METRIC_MEMORY = 1 << 30  # bytes of outputs and targets that are kept for them


class WholeMetrics:
    """Sees every batch once and then tells each metric's value over all of them.

    A metric is a function of all outputs and all targets, or an object with `reset`, `update` and `compute`
    (as torchmetrics has them), which needs no memory. One that cannot be computed is named in a warning and left out.
    """

    def __init__(self, metrics: Mapping[str, Measure], memory: int = METRIC_MEMORY) -> None:
        self._streaming = {name: metric for name, metric in metrics.items() if is_streaming(metric)}
        self._at_once = {name: metric for name, metric in metrics.items() if name not in self._streaming}
        self._room, self._seen = memory, list[tuple[Any, Any]]()
        for metric in self._streaming.values():
            metric.reset()  # type: ignore[attr-defined]

    def see(self, output: Any, target: Any) -> None:
        for metric in self._streaming.values():
            metric.update(output, target)  # type: ignore[attr-defined]
        if self._at_once and self._room >= 0:
            self._room -= _bytes(output) + _bytes(target)
            self._seen.append((output, target))
            if self._room < 0:
                self._seen.clear()

    def values(self) -> dict[str, float]:
        found = {name: _value(name, metric.compute) for name, metric in self._streaming.items()}  # type: ignore[attr-defined]
        if self._at_once:
            found |= self._of_all()
        return {name: value for name, value in found.items() if value is not None}

    def _of_all(self) -> dict[str, float | None]:
        """Those that see all outputs at once, where they can be kept and joined."""
        why = f"the outputs take more than {METRIC_MEMORY >> 30} GB" if self._room < 0 else ""
        if not why:
            try:
                outputs, targets = (_joined(list(part)) for part in zip(*self._seen, strict=True))
                return {
                    name: _value(name, metric, outputs, targets) for name, metric in self._at_once.items()
                }
            except RuntimeError:
                why = "the outputs of different batches have different shapes"
        names = ", ".join(self._at_once)
        logs.warn(
            f"metrics {names} are left out: {why}; metrics with reset, update and compute need no memory"
        )
        return {}


def is_streaming(metric: object) -> bool:
    return all(hasattr(metric, method) for method in ("reset", "update", "compute"))


def try_metric(name: str, metric: Measure, output: Any, target: Any) -> None:
    """Refuse what gives no number on a few samples; that they are too few to compute it is no fault."""
    if is_streaming(metric):
        return
    try:
        value = metric(output, target)
    except (ValueError, ZeroDivisionError, ArithmeticError, RuntimeError, IndexError):
        return
    if not _is_number(value):
        raise ConfigError(f"metric {name} must return a number; got a {type(value).__name__}")


def _value(name: str, metric: Any, *seen: Any) -> float | None:
    try:
        value = float(metric(*seen))
    except Exception as error:  # a metric is a stranger's code, and a run must not end for it
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
    else:
        why = "" if math.isfinite(value) else f"it is {value}"
    if why:
        logs.warn(f"metric {name} could not be computed: {why}", stacklevel=2)
        return None
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (getattr(value, "ndim", None) == 0) or _single(value)


def _single(value: object) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1


def _joined(parts: list[Any]) -> Any:
    """Batches of tensors, or of tuples and dicts of tensors, one after another."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, Mapping):
        return {key: _joined([part[key] for part in parts]) for key in first}
    return tuple(_joined(list(column)) for column in zip(*parts, strict=True))


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    parts = value.values() if isinstance(value, Mapping) else value
    return sum(map(_bytes, parts))
